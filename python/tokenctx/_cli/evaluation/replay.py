"""Recorded conversations replayed: what would have been estimated, beside what was billed."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.four_characters import four_character_tokens
from tokenctx._estimate.estimator import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tokenctx._cli.evaluation.recordings import Conversation, Relation, Turn
    from tokenctx._results.estimates import Estimate

REASONS: Final[dict[Relation, str]] = {
    "first": "first call of a conversation",
    "context": "system prompt or tools changed",
    "messages": "messages differ from the recorded call",
    "model": "model changed",
    "compacted": "history was compacted",
    "extends": "MISSED: extends a recorded call",
}
"""Why a turn was counted in full. The last one breaks the promise."""
COMPACTED: Final = "compacted_history"


@dataclass(frozen=True, slots=True)
class ReplayedTurn:
    """One turn: the estimate made before its usage was recorded, and the billed total.

    Attributes:
        recount_tokens: The whole request counted, whatever was known of it.
        estimate_us: Microseconds that the estimate took, from the bytes of the body.
        recount_us: Microseconds that the full count took, likewise.
        has_known_reply: Whether the turn before was recorded with its reply.
        four_character_tokens: The characters of the request by four.
        is_after_total: Whether the recording has only the total of the call that it extends.
    """

    number: int
    relation: Relation
    estimate: Estimate
    billed_tokens: int
    recount_tokens: int
    estimate_us: float
    recount_us: float
    has_known_reply: bool = False
    four_character_tokens: int = 0
    is_after_total: bool = False

    @property
    def error_tokens(self) -> int:
        """Estimated less billed tokens."""
        return self.estimate.tokens - self.billed_tokens

    @property
    def error_percent(self) -> float:
        """The error in percent of the billed tokens."""
        return 100 * self.error_tokens / self.billed_tokens

    @property
    def recount_error_percent(self) -> float:
        """Error of the full count in percent of the billed tokens."""
        return 100 * (self.recount_tokens - self.billed_tokens) / self.billed_tokens

    @property
    def new_error_percent(self) -> float | None:
        """Error of the counted part in percent of what was billed for it.

        None where the known part has no reply in it, or nothing was billed beyond it.
        """
        new_tokens = self.billed_tokens - self.estimate.known_tokens
        if not self.has_known_reply or new_tokens <= 0:
            return None
        return 100 * self.error_tokens / new_tokens

    def as_json(self) -> dict[str, Any]:
        """The turn as JSON values."""
        return {
            "turn": self.number,
            "relation": self.relation,
            "billed_tokens": self.billed_tokens,
            "error_tokens": self.error_tokens,
            "error_percent": round(self.error_percent, 4),
            "recount_tokens": self.recount_tokens,
            "four_character_tokens": self.four_character_tokens,
            "estimate_us": self.estimate_us,
            "recount_us": self.recount_us,
            "estimate": asdict(self.estimate),
        }


@dataclass(slots=True)
class Figures:
    """Sums over replayed turns.

    Errors are absolute, in percent of the billed tokens, over `delta` turns only, so that both ways
    of counting are compared on the same calls. Times are in microseconds, of the full counts over
    all turns. `reasons` are the relations of the estimated turns.
    """

    conversations: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    relations: Counter[Relation] = field(default_factory=Counter)
    reasons: Counter[Relation] = field(default_factory=Counter)
    delta_errors: list[float] = field(default_factory=list)
    recount_errors: list[float] = field(default_factory=list)
    reply_errors: list[float] = field(default_factory=list)
    new_errors: list[float] = field(default_factory=list)
    delta_us: list[float] = field(default_factory=list)
    recount_us: list[float] = field(default_factory=list)

    @property
    def turns(self) -> int:
        """Number of turns."""
        return self.sources.total()

    @property
    def missed(self) -> int:
        """Turns that extend a recorded call and were not recognised."""
        return self.reasons["extends"]

    def known(self, relation: Relation) -> int:
        """Turns of `relation` that were `exact` or `delta`."""
        return self.relations[relation] - self.reasons[relation]

    def add(self, turn: ReplayedTurn, *, has_context: bool) -> None:
        """Count `turn` in; without its context a full count is not comparable."""
        source = turn.estimate.source
        self.sources[source] += 1
        self.relations[turn.relation] += 1
        self.recount_us.append(turn.recount_us)
        if source == "estimated":
            self.reasons[turn.relation] += 1
            return
        self.delta_us.append(turn.estimate_us)
        if source == "delta":
            self.delta_errors.append(abs(turn.error_percent))
            if turn.has_known_reply:
                self.reply_errors.append(abs(turn.error_percent))
            if (new_error := turn.new_error_percent) is not None:
                self.new_errors.append(abs(new_error))
            if has_context:
                self.recount_errors.append(abs(turn.recount_error_percent))

    def _known_of(self, relation: Relation) -> dict[str, int]:
        return {"turns": self.relations[relation], "known": self.known(relation)}

    def as_json(self) -> dict[str, Any]:
        """The figures as JSON values; null where there is nothing to measure."""
        return {
            "conversations": self.conversations,
            "turns": self.turns,
            **{source: self.sources[source] for source in ("exact", "delta", "estimated")},
            "missed": self.missed,
            "extending": self._known_of("extends"),
            "extending_but_messages_differ": self._known_of("messages"),
            "estimated_because": {REASONS[name]: count for name, count in self.reasons.items()},
            "delta_error_percent": _spread(self.delta_errors),
            "delta_after_reply_error_percent": _spread(self.reply_errors),
            "new_part_error_percent": _spread(self.new_errors),
            "full_recount_error_percent": _spread(self.recount_errors),
            "delta_us": _spread(self.delta_us),
            "full_recount_us": _spread(self.recount_us),
        }


def quantile(numbers: Sequence[float], share: float) -> float | None:
    """The smallest of `numbers` that is not below `share` of them; None of none."""
    if not numbers:
        return None
    return sorted(numbers)[max(0, math.ceil(share * len(numbers)) - 1)]


def _spread(numbers: Sequence[float]) -> dict[str, float | None]:
    shares = {"median": 0.5, "p90": 0.9, "p99": 0.99}
    values = {name: quantile(numbers, share) for name, share in shares.items()}
    return {name: None if value is None else round(value, 4) for name, value in values.items()}


def replay(conversation: Conversation) -> Iterator[ReplayedTurn]:
    """Each turn of `conversation` in order, with an estimator of its own.

    Turns without billed input tokens are left out. Raises RequestError for a body that cannot be
    read.
    """
    estimator, warm, has_reply = HybridTokenEstimator(), set(), False
    is_compacted = False
    for number, turn in enumerate(conversation.turns, 1):
        if turn.billed.input_tokens == 0:
            continue
        if turn.model not in warm:  # the vocabulary is loaded at first use, which is not timed
            estimator.count_request(turn.body, **_names(turn))
            warm.add(turn.model)
        replayed = _replayed(estimator, number, turn)
        was_compacted, is_compacted = is_compacted, COMPACTED in replayed.estimate.assumptions
        if is_compacted and turn.relation == "extends":
            if turn.known is not None:
                assumed = HybridTokenEstimator().count_request(turn.known[0]).assumptions
                was_compacted = COMPACTED in assumed
            if not was_compacted:
                replayed = replace(replayed, relation="compacted")  # in this turn, by its provider
        yield replace(
            replayed,
            has_known_reply=has_reply and turn.relation == "extends" and turn.known is None,
        )
        has_reply = turn.reply is not None and turn.billed.output_tokens > 0


def _names(turn: Turn) -> dict[str, Any]:
    return {"model": turn.model, "dialect": turn.dialect, "provider": turn.provider}


def _replayed(estimator: HybridTokenEstimator, number: int, turn: Turn) -> ReplayedTurn:
    names = _names(turn)
    if turn.known is not None:
        body, tokens = turn.known
        estimator.record(body, tokens, **names)
    estimate, estimate_us = _timed(lambda: estimator.estimate(turn.body, **names))
    blank = HybridTokenEstimator()
    count, recount_us = _timed(lambda: blank.count_request(turn.body, **names))
    usage = {
        "input_tokens": turn.billed.input_tokens,
        "output_tokens": turn.billed.output_tokens,
        "output_tokens_details": {"reasoning_tokens": turn.billed.reasoning_tokens},
    }
    estimator.record(turn.body, usage, reply=turn.reply, **names)
    return ReplayedTurn(
        number,
        turn.relation,
        estimate,
        turn.billed.input_tokens,
        count.tokens,
        estimate_us,
        recount_us,
        four_character_tokens=four_character_tokens(turn.body),
        is_after_total=turn.known is not None,
    )


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter_ns()
    result = function()
    return result, (time.perf_counter_ns() - start) / 1000
