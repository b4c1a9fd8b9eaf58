"""What recorded calls say about bounds: what was counted by part, and what was billed.

Calls are counted by what the projects tell that did not send them (`held_out.py`); undetermined
ones, and those of the methods that count every model alike, for which no fit is, as they are.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, get_args

from leave_one_out import mapped
from reference.bounds import METHODS, Scope, row_names
from request_laws import uncertain
from tokenctx import HybridTokenEstimator
from tokenctx._cli.evaluation.evaluation import Unusable, read_call
from tokenctx._cli.evaluation.fit import Rows
from tokenctx._cli.evaluation.held_out import (
    bundled_rows,
    chunks,
    fold,
    model_like,
    scored,
    tasks,
)
from tokenctx._cli.evaluation.held_out import weighed as weighed_by_model
from tokenctx._cli.evaluation.recordings import read_recording
from tokenctx._cli.evaluation.strata import POOLS, vendor_of
from tokenctx._estimate.estimator import Method
from tokenctx._estimate.profiles import bundled_profiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tokenctx._cli.evaluation.evaluation import RecordedCall
    from tokenctx._cli.evaluation.held_out import Chunk, Task
    from tokenctx._cli.evaluation.recordings import Conversation, Turn
    from tokenctx._results.estimates import Estimate

Parts = tuple[tuple[str, int], ...]
"""Strata in their order, each with its tokens."""
SESSION: Final = "session"
METHOD: Final = "method"


@dataclass(frozen=True, slots=True)
class Point:
    """What was counted, by part, and billed; and where its bounds stand, the best row first.

    Attributes:
        group: The project, or the session.
        title: The line of the report that it is in, besides its pools.
        counted_tokens: What is not billed yet, as it was counted.
        known_tokens: What was billed before.
    """

    id: str
    group: str
    title: str
    scope: Scope
    names: tuple[str, ...]
    parts: Parts
    counted_tokens: int
    billed_tokens: int
    is_determined: bool
    weight: float = 1.0
    known_tokens: int = 0
    pools: tuple[str, ...] = ()

    @property
    def stratum(self) -> str:
        """The last of its parts."""
        return self.parts[-1][0]

    @property
    def error(self) -> int:
        """Tokens that the bill is more than the count."""
        return self.billed_tokens - self.counted_tokens


def all_points(calls: Sequence[Path], sessions: Sequence[Path]) -> list[Point]:
    """What all recordings say."""
    with mapped("bounds") as apply:
        found = [one for points in apply(chunk_points, chunks(calls)) for one in points]
        held = weighed_by_model([one for part in apply(scored, chunks(calls)) for one in part])
        found += [one for points in apply(project_points, tasks(held)) for one in points]
    return found + [one for path in sessions for one in session_points(path)]


def chunk_points(chunk: Chunk) -> list[Point]:
    """What calls say about bounds that no fit is for: undetermined ones, and all by `METHODS`."""
    found = []
    for number, line in chunk:
        with suppress(Unusable):
            call = read_call(number, line)
            if call.stratum == "undetermined":
                found += call_points(call, estimator_of("profile"))
            for name in get_args(Method)[1:]:
                found.append(whole_point(call, estimator_of(name)))
    return found


@cache
def estimator_of(method: Method) -> HybridTokenEstimator:
    return HybridTokenEstimator(method=method, learning=False)


def project_points(task: Task) -> list[Point]:
    """What the calls of a project say, counted with what the others tell."""
    samples, supported, calls = task
    its_fold = fold(bundled_rows(), samples, supported, calls[0].project)
    estimator = Rows(json.loads(its_fold.rows)).estimator()
    found = []
    for one in calls:
        call = read_call(*one.line)
        if not its_fold.has_support(one):
            call = replace(call, model=model_like(one.profile))
        with suppress(Unusable):
            points = call_points(call, estimator, row_names_of(one.profile, one.is_known_model))
            found += [replace(it, weight=one.weight) for it in points]
    return found


def call_points(
    call: RecordedCall, estimator: HybridTokenEstimator, names: tuple[str, ...] | None = None
) -> list[Point]:
    """What a call says, whole and from the turn before."""
    found = [whole_point(call, estimator, names)]
    if call.known is not None:
        body, tokens = call.known
        estimator.record(body, tokens, **call.names)
        found.append(whole_point(call, estimator, names))
        estimator.reset()
    return found


def whole_point(
    call: RecordedCall, estimator: HybridTokenEstimator, names: tuple[str, ...] | None = None
) -> Point:
    """What a call says beside what `estimator` knows."""
    estimate = estimator.estimate(call.body, **call.names)
    scope, parts = uncertain(estimator, call.body, **call.names)
    is_new = estimate.source == "delta"
    vendor = vendor_of(call.provider, call.api, call.model)
    is_method = estimate.profile in METHODS
    names = names or rows_of(estimate)
    pools = [pool.name for pool in POOLS if pool.holds(vendor, call.api, call.stratum)]
    is_whole = not is_method and not is_new
    return Point(
        f"{call.group} {call.id}",
        call.group,
        f"{METHOD} {estimate.profile}" if is_method else f"delta {vendor}" if is_new else vendor,
        scope,
        names[:1] if is_method else names,
        parts,
        estimate.estimated_tokens,
        max(0, call.billed_tokens - estimate.known_tokens),
        call.stratum != "undetermined",
        known_tokens=estimate.known_tokens,
        pools=tuple(pools) if is_whole else (),
    )


def rows_of(estimate: Estimate) -> tuple[str, ...]:
    return row_names_of(estimate.profile, "unknown_model" not in estimate.assumptions)


def row_names_of(profile: str, is_known_model: bool) -> tuple[str, ...]:  # noqa: FBT001
    provider = "" if profile in METHODS else bundled_profiles()[profile]["provider"]
    return row_names(profile, provider, is_known_model=is_known_model)


def session_points(path: Path) -> Iterator[Point]:
    """What the turns of recorded sessions say, whose totals start from input and output."""
    for conversation in read_recording(path).conversations:
        yield from turn_points(conversation)


def turn_points(conversation: Conversation) -> Iterator[Point]:
    """What the turns of one session say."""
    estimator, known = HybridTokenEstimator(), 0
    for number, turn in enumerate(conversation.turns, 1):
        if turn.billed.input_tokens == 0:
            continue
        names: dict[str, Any] = {
            "model": turn.model,
            "dialect": turn.dialect,
            "provider": turn.provider,
        }
        if turn.known is not None:
            body, tokens = turn.known
            estimator.record(body, tokens, **names)
        estimate = estimator.estimate(turn.body, **names)
        scope, parts = uncertain(estimator, turn.body, **names)
        remember(estimator, turn)
        derived, known = estimate.known_tokens - known, turn.billed.input_tokens
        if estimate.source != "delta" or derived < 0:
            continue
        known_tokens = estimate.known_tokens - derived
        yield Point(
            f"{conversation.name} {number}",
            conversation.name,
            SESSION,
            scope,
            rows_of(estimate),
            parts,
            estimate.estimated_tokens + derived,
            max(0, turn.billed.input_tokens - known_tokens),
            is_determined=True,
            known_tokens=known_tokens,
        )


def remember(estimator: HybridTokenEstimator, turn: Turn) -> None:
    """Record a turn with its reply."""
    billed = turn.billed
    usage = {
        "input_tokens": billed.input_tokens,
        "output_tokens": billed.output_tokens,
        "output_tokens_details": {"reasoning_tokens": billed.reasoning_tokens},
    }
    estimator.record(turn.body, usage, reply=turn.reply, **names_of(turn))


def names_of(turn: Turn) -> dict[str, Any]:
    """What an estimate of a turn takes beside the body."""
    return {"model": turn.model, "dialect": turn.dialect, "provider": turn.provider}
