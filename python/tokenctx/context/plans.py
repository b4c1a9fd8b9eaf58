"""Plans of what to keep, clear or drop of a conversation: frozen, and nothing is changed.

Every plan works on the tokens of one `ContextUsage`: no message is counted again. A place between
two messages is safe to cut at if no call before it has its result behind it, and no reasoning is
parted from what it led to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.result import Result
from tokenctx.context.placeholders import PLACEHOLDER, cleared
from tokenctx.context.usage import apportioned

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from tokenctx._core import PartCounts, ResultCount
    from tokenctx.context.usage import ContextUsage

SEAM_TOKENS: Final = 16
"""Kept free where messages are dropped: what the next one costs depends a little on the last."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A request whose parts were counted; `counted_tokens` are those of its messages by count."""

    usage: ContextUsage
    parts: PartCounts
    counted_tokens: int

    def result_tokens(self, result: ResultCount) -> tuple[int, int]:
        """Tokens of what a tool has said, and what a placeholder in its place would save."""
        return self._in_measure(result.tokens), self._in_measure(result.saved_tokens)

    def _in_measure(self, tokens: int) -> int:
        """Counted tokens of a message as the usage has them, which knows what was billed."""
        counted = self.counted_tokens
        return tokens * self.usage.message_tokens // counted if counted else tokens

    def message_tokens(self) -> list[int]:
        """Tokens of each message, in the measure of the usage: they sum to its messages.

        Messages of the system count as they are, for the usage has them among what is fixed.
        """
        counted, is_system = self.parts.message_tokens, self.parts.is_system
        said = [0 if is_fixed else n for n, is_fixed in zip(counted, is_system, strict=True)]
        shares = apportioned(self.usage.message_tokens, said) if any(said) else said
        pairs = zip(counted, shares, is_system, strict=True)
        return [count if is_fixed else share for count, share, is_fixed in pairs]


@dataclass(frozen=True, slots=True)
class RetentionPlan(Result):
    """Where to cut a conversation: what is before goes into a summary, the rest stays.

    Attributes:
        boundary: The first message that is kept; all of them before it but system prompts are old.
        kept: Places of the messages that stay.
        old: Places of those to be summarised.
        kept_tokens: Of the kept messages, system prompts not included.
        saved_tokens: Of the old ones: what is saved before the summary is added.
        next_total_tokens: The next input without them, and without a summary.
        splits_turn: The newest turn is longer than the budget, so that it is cut between calls.
    """

    boundary: int
    kept: tuple[int, ...]
    old: tuple[int, ...]
    kept_tokens: int
    saved_tokens: int
    next_total_tokens: int
    splits_turn: bool


@dataclass(frozen=True, slots=True)
class TrimPlan(Result):
    """Which oldest messages to drop.

    Attributes:
        kept: Places of the messages that stay, in order.
        dropped: Places of those that go.
        saved_tokens: What they take.
        next_total_tokens: The next input without them; at most the budget, if `fits`.
        splits_turn: The newest turn is longer than the budget, so that it is cut between calls; the
            user's message that began it stays.
        fits: False if what is fixed, the system prompts and the newest message of the user are
            above the budget alone: while this is True, that message stays.
    """

    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    saved_tokens: int
    next_total_tokens: int
    splits_turn: bool
    fits: bool

    def applied(self, messages: Sequence[Any]) -> list[Any]:
        """A new list of those of `messages` that stay."""
        return [messages[index] for index in self.kept]


@dataclass(frozen=True, slots=True)
class PrunedResult(Result):
    """A tool result to clear: its message, the part in it, its tool, and what that saves."""

    message: int
    part: int
    tool: str
    saved_tokens: int


@dataclass(frozen=True, slots=True)
class PrunePlan(Result):
    """Which old tool results to clear; media in them go too.

    Attributes:
        results: From the oldest on; none if too little would be saved.
        protected_tokens: Of the results that stay.
        next_total_tokens: The next input with placeholders in their place.
    """

    results: tuple[PrunedResult, ...]
    saved_tokens: int
    protected_tokens: int
    next_total_tokens: int

    def applied(self, messages: Sequence[Any]) -> list[Any]:
        """A new list of `messages` with placeholders; a message that has none is the same object.

        `messages` are those of the request that the plan was made of.
        """
        by_message: dict[int, set[int]] = {}
        for result in self.results:
            by_message.setdefault(result.message, set()).add(result.part)
        return [
            cleared(message, by_message[index], PLACEHOLDER) if index in by_message else message
            for index, message in enumerate(messages)
        ]


def retention_plan(measured: Measured, budget: int) -> RetentionPlan:
    """The longest end of whole turns whose messages take at most `budget` tokens."""
    tokens = measured.message_tokens()
    cut, splits_turn = _cut(measured.parts, tokens, budget)
    is_system = measured.parts.is_system
    old = tuple(index for index in range(cut) if not is_system[index])
    kept = tuple(index for index in range(len(tokens)) if index >= cut or is_system[index])
    saved = sum(tokens[index] for index in old)
    return RetentionPlan(
        cut,
        kept,
        old,
        sum(tokens[index] for index in kept if not is_system[index]),
        saved,
        measured.usage.total_tokens - saved,
        splits_turn,
    )


def trim_plan(measured: Measured, budget: int) -> TrimPlan:
    """The longest end of the conversation with which the whole request takes at most `budget`."""
    tokens, total = measured.message_tokens(), measured.usage.total_tokens
    count = len(tokens)
    if total <= budget:
        return TrimPlan(tuple(range(count)), (), 0, total, splits_turn=False, fits=True)
    around = total - measured.usage.message_tokens
    is_safe = measured.parts.is_safe
    newest = measured.parts.is_turn.rfind(1)
    stays = list(measured.parts.is_system)
    others = list(tokens)
    if newest >= 0 and is_safe[newest] and is_safe[newest + 1]:
        stays[newest] = 1
        around += tokens[newest]
        others[newest] = 0
    cut, _ = _cut(measured.parts, others, budget - around - SEAM_TOKENS)
    dropped = tuple(index for index in range(cut) if not stays[index])
    kept = tuple(index for index in range(count) if index >= cut or stays[index])
    saved = sum(tokens[index] for index in dropped)
    has_newest = newest in kept if newest >= 0 else any(not stays[index] for index in kept)
    return TrimPlan(
        kept,
        dropped,
        saved,
        total - saved,
        splits_turn=bool(dropped) and dropped[-1] > newest,
        fits=total - saved <= budget and has_newest,
    )


def prune_plan(
    measured: Measured,
    protect_tokens: int,
    minimum_tokens: int,
    protect_turns: int,
    protect_tools: Set[str],
) -> PrunePlan:
    """The results to clear, from the newest one back that is not protected any more."""
    is_turn = measured.parts.is_turn
    turns = [index for index, begins in enumerate(is_turn) if begins]
    end = turns[-protect_turns] if 0 < protect_turns <= len(turns) else len(is_turn)
    if protect_turns > len(turns):
        end = 0
    found: list[PrunedResult] = []
    seen = 0
    protected = 0
    for result in reversed(measured.parts.results):
        tokens, saved = measured.result_tokens(result)
        index, name = result.message, result.tool
        seen += tokens
        if seen <= protect_tokens or index >= end or name in protect_tools or saved <= 0:
            protected += tokens
        else:
            found.append(PrunedResult(index, result.part, name, saved))
    saved_tokens = sum(result.saved_tokens for result in found)
    total = measured.usage.total_tokens
    if saved_tokens <= minimum_tokens:
        return PrunePlan((), 0, seen, total)
    return PrunePlan(tuple(reversed(found)), saved_tokens, protected, total - saved_tokens)


def _cut(parts: PartCounts, tokens: Sequence[int], budget: int) -> tuple[int, bool]:
    """The first place where a turn begins and the messages from there on take at most `budget`.

    If no turn fits, the first safe place at all, and True; the end is always one. System prompts
    take nothing: they stay anyway.
    """
    count = len(tokens)
    behind, turn, anywhere = 0, None, count
    for index in range(count - 1, -1, -1):
        if not parts.is_system[index]:
            behind += tokens[index]
        if behind > budget:
            break
        if parts.is_safe[index]:
            anywhere = index
            if parts.is_turn[index]:
                turn = index
    else:
        return 0, False
    if turn is not None:
        return turn, False
    return anywhere, anywhere < count
