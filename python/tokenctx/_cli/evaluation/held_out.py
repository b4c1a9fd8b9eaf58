"""Every recorded call scored with rules that its own project had no part in.

Each project is left out in turn. Constants that were fitted are fitted again to the calls of the
others (`fit.py`). A row that only this project has called, and that is no public fact, falls to the
one that it is like. In the layouts of OpenAI, Anthropic and Gemini, whose numbers are public or
exact on many projects, calls fall to the row that theirs is like where no other project has called
this row with this kind of request.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.evaluation import (
    Scorer,
    Unusable,
    numbered_lines,
    read_call,
    score_of,
)
from tokenctx._cli.evaluation.fit import Reader, Rows, Sample, fitted
from tokenctx._cli.evaluation.strata import POOLS, vendor_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from tokenctx._cli.evaluation.evaluation import Score
    from tokenctx._cli.evaluation.strata import Stratum, Vendor

Line = tuple[int, bytes]
Chunk = list[Line]

Support = dict[tuple[str, "Stratum"], set[str]]
"""The projects that called a row with a kind of request."""

CHUNK_LINES: Final = 200
MANY_MODELS: Final = 200
"""A project that called more models weighs each as one call: it sent all of them the same."""
NO_MODEL: Final = "no-model-of-this-name"


@dataclass(frozen=True, slots=True)
class Held:
    """A call, scored with all rules and with those that others support.

    Attributes:
        model: Whom it was sent to, host and model.
        profile: The row that counted it, with all rules.
        weight: What it weighs among all calls.
        sample: Its equation, if the layout of its row is fitted.
    """

    line: Line
    project: str
    model: str
    vendor: Vendor
    api: str
    profile: str
    stratum: Stratum
    score: Score
    without: Score
    sample: Sample | None
    is_known_model: bool
    weight: float = 1.0


def bundled_rows() -> Rows:
    """The rows of the package."""
    text = files("tokenctx").joinpath("data").joinpath("profiles.json").read_text("utf-8")
    return Rows({row["name"]: row for row in json.loads(text)["profiles"]})


def chunks(paths: Iterable[Path]) -> Iterator[Chunk]:
    """The lines of some files, some at a time. Raises OSError, EOFError or zlib.error."""
    chunk: Chunk = []
    for path in paths:
        for number, line, _ in numbered_lines(path):
            chunk.append((number, line))
            if len(chunk) == CHUNK_LINES:
                yield chunk
                chunk = []
    yield chunk


@cache
def _reader() -> Reader:
    return Reader(bundled_rows())


@cache
def _scorer(rows: str | None) -> Scorer:
    return Scorer(Rows(json.loads(rows)).estimator()) if rows else Scorer()


def scored(chunk: Chunk) -> list[Held]:
    """The calls of these lines that their requests determine, with all rules."""
    found = []
    for number, line in chunk:
        with suppress(Unusable):
            call = read_call(number, line)
            if call.stratum == "undetermined":
                continue
            estimate = _scorer(None).estimate(call)
            score = score_of(call, estimate)
            found.append(
                Held(
                    (number, line),
                    call.group,
                    f"{call.provider} {call.model}",
                    vendor_of(call.provider, call.api, call.model),
                    call.api,
                    estimate.profile,
                    call.stratum,
                    score,
                    score,
                    _reader().sample(call, estimate),
                    "unknown_model" not in estimate.assumptions,
                )
            )
    return found


def weighed(held: Sequence[Held]) -> list[Held]:
    """`held`, a project that called more than `MANY_MODELS` models weighed by model."""
    calls = Counter((one.project, one.model) for one in held)
    models = Counter(project for project, _ in calls)
    many = {project for project, count in models.items() if count > MANY_MODELS}
    return [
        replace(one, weight=1 / calls[one.project, one.model]) if one.project in many else one
        for one in held
    ]


@dataclass(frozen=True, slots=True)
class Fold:
    """The evidence of the others about the calls of one project.

    Attributes:
        rows: The rows as JSON by name, their constants fitted to the others.
        supported: The rows, with strata, of other layouts that another project has called.
    """

    rows: str
    supported: frozenset[tuple[str, Stratum]]

    def has_support(self, call: Held) -> bool:
        """True if the rows stand for `call`, or another project has sent such a request."""
        return call.sample is not None or (call.profile, call.stratum) in self.supported

    def score(self, call: Held) -> Held:
        """`call` scored with what the others tell."""
        recorded = read_call(*call.line)
        if not self.has_support(call):
            recorded = replace(recorded, model=model_like(call.profile))
        estimate = _scorer(self.rows).estimate(recorded)
        return replace(call, without=score_of(recorded, estimate))


def model_like(profile: str) -> str:
    """A model of the nearest row that `profile` is like and that any model has."""
    rows = bundled_rows()
    names = list(rows.chain(profile))[1:]
    return next(
        (str(rows.rows[it]["models"][0]) for it in names if rows.rows[it]["models"]), NO_MODEL
    )


def lone_rows(rows: Rows, samples: Sequence[Sample], project: str) -> set[str]:
    """Fitted rows of which no other project than `project` tells anything, themselves or below."""
    callers: dict[str, set[str]] = defaultdict(set)
    for sample in samples:
        for name in rows.chain(sample.profile):
            callers[name].add(sample.project)
    return {name for name, it in callers.items() if it == {project} and rows.is_fitted(name)}


def fold(rows: Rows, samples: Sequence[Sample], supported: Support, project: str) -> Fold:
    """The evidence of all projects but `project`."""
    others = [sample for sample in samples if sample.project != project]
    left = rows.without(lone_rows(rows, samples, project))
    own = {sample.profile for sample in samples if sample.project == project}
    touched = {name for profile in own for name in left.chain(profile)}
    changed = left.with_constants(fitted(left, others, touched))
    kept = (kind for kind, projects in supported.items() if projects != {project})
    return Fold(json.dumps(changed.rows), frozenset(kept))


Task = tuple[list[Sample], Support, list[Held]]


def rescored(task: Task) -> list[Held]:
    """The calls of one project, scored with what the others tell."""
    samples, supported, calls = task
    its_fold = fold(bundled_rows(), samples, supported, calls[0].project)
    _scorer.cache_clear()
    return [its_fold.score(call) for call in calls]


def tasks(held: Sequence[Held]) -> Iterator[Task]:
    """The calls of each project, with what there is to learn from."""
    samples = [one.sample for one in held if one.sample]
    by_project: dict[str, list[Held]] = defaultdict(list)
    supported: Support = defaultdict(set)
    for one in held:
        by_project[one.project].append(one)
        supported[one.profile, one.stratum].add(one.project)
    for calls in sorted(by_project.values(), key=len, reverse=True):
        yield samples, dict(supported), calls


def held_out(paths: Iterable[Path], mapped: Any = map) -> list[Held]:
    """Every determined call of the files, scored with and without its project.

    `mapped` is `map`, or one that works in several processes.
    """
    held = [one for found in mapped(scored, chunks(paths)) for one in found]
    held = [one for found in mapped(rescored, tasks(held)) for one in found]
    return weighed(held)


@dataclass(frozen=True, slots=True)
class Figures:
    """Shares in percent by weight, sizes of errors in percent of the bill, and what bounds do.

    Attributes:
        coverage: How many bills are within the bounds.
        width: The median of high minus low, in percent of the count.
    """

    count: int
    projects: int
    exact: float
    within_2: float
    within_5: float
    median: float
    p90: float
    coverage: float
    width: float


def figures(held: Sequence[Held], *, is_without: bool) -> Figures:
    """The figures of some calls, with all rules or without those of their own project."""
    scores = [one.without if is_without else one.score for one in held]
    weights = [one.weight for one in held]
    sizes = [abs(score.percent) for score in scores]
    widths = [100 * (score.high - score.low) / max(score.tokens, 1) for score in scores]

    def share(hits: Iterable[bool]) -> float:
        return 100 * sum(w for w, hit in zip(weights, hits, strict=True) if hit) / sum(weights)

    return Figures(
        len(held),
        len({one.project for one in held}),
        share(size == 0 for size in sizes),
        share(size <= 2 for size in sizes),
        share(size <= 5 for size in sizes),
        quantile(sizes, weights, 0.5),
        quantile(sizes, weights, 0.9),
        share(score.is_covered for score in scores),
        quantile(widths, weights, 0.5),
    )


def quantile(numbers: Sequence[float], weights: Sequence[float], share: float) -> float:
    """The smallest of `numbers` that, with all below it, has `share` of the weight."""
    ordered = sorted(zip(numbers, weights, strict=True))
    left = share * sum(weights)
    for number, weight in ordered:
        left -= weight
        if left <= 1e-9:
            return number
    return ordered[-1][0]


def by_pool(held: Iterable[Held]) -> dict[str, list[Held]]:
    """The calls of each pool that has any."""
    found: dict[str, list[Held]] = defaultdict(list)
    for one in held:
        for pool in POOLS:
            if pool.holds(one.vendor, one.api, one.stratum):
                found[pool.name].append(one)
    return {pool.name: found[pool.name] for pool in POOLS if found[pool.name]}
