"""What to keep, clear or drop of a conversation: frozen plans, and nothing is changed.

Every plan works on the tokens of one `ContextUsage`: no message is counted again. A place between
two messages is safe to cut at if no call before it has its result behind it, and no reasoning is
parted from what it led to.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from tokenctx._context.parts import text_tokens
from tokenctx._context.placeholders import PLACEHOLDER, cleared
from tokenctx._context.usage import apportioned
from tokenctx._results import Result

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from tokenctx._context.outline import Outline
    from tokenctx._context.parts import CountedParts
    from tokenctx._context.usage import ContextUsage

SEAM_TOKENS: Final = 16
"""Kept free where messages are dropped: what the next one costs depends a little on the last."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A request whose parts were counted."""

    usage: ContextUsage
    outline: Outline
    parts: CountedParts

    def result_tokens(self, index: int, at: int) -> tuple[int, int]:
        """Tokens of what a tool has said, and what a placeholder in its place would save."""
        part, tokens = self.outline.messages[index].parts[at], self.parts.part_tokens[index][at]
        texts, encoding = part.texts(), self.parts.count.encoding
        if not part.has_file:
            tokens = min(tokens, text_tokens(texts, encoding))
        saved = tokens - text_tokens([PLACEHOLDER], encoding)
        saved = 0 if PLACEHOLDER in texts else max(0, saved)
        return self._in_measure(tokens), self._in_measure(saved)

    def _in_measure(self, tokens: int) -> int:
        """Counted tokens of a message as the usage has them, which knows what was billed."""
        counted = sum(part.tokens for part in self.parts.messages)
        return tokens * self.usage.message_tokens // counted if counted else tokens

    def message_tokens(self) -> list[int]:
        """Tokens of each message, in the measure of the usage: they sum to its messages.

        Messages of the system count as they are, for the usage has them among what is fixed.
        """
        messages = self.outline.messages
        counted = self.parts.message_tokens
        said = [0 if it.speaker == "system" else n for it, n in zip(messages, counted, strict=True)]
        shares = apportioned(self.usage.message_tokens, said) if any(said) else said
        pairs = zip(messages, counted, shares, strict=True)
        return [count if it.speaker == "system" else share for it, count, share in pairs]


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
    cut, splits_turn = _cut(measured.outline, tokens, budget)
    is_system = [message.speaker == "system" for message in measured.outline.messages]
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
    messages = measured.outline.messages
    is_safe = safe_cuts(measured.outline)
    newest = max((index for index, it in enumerate(messages) if it.is_turn), default=-1)
    stays = [it.speaker == "system" for it in messages]
    others = list(tokens)
    if newest >= 0 and is_safe[newest] and is_safe[newest + 1]:
        stays[newest] = True
        around += tokens[newest]
        others[newest] = 0
    cut, _ = _cut(measured.outline, others, budget - around - SEAM_TOKENS)
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
    messages = measured.outline.messages
    turns = [index for index, message in enumerate(messages) if message.is_turn]
    end = turns[-protect_turns] if 0 < protect_turns <= len(turns) else len(messages)
    if protect_turns > len(turns):
        end = 0
    names = _tool_names(measured.outline)
    found: list[PrunedResult] = []
    seen = 0
    protected = 0
    for index in range(len(messages) - 1, -1, -1):
        for at in range(len(messages[index].parts) - 1, -1, -1):
            part = messages[index].parts[at]
            if part.kind != "result":
                continue
            tokens, saved = measured.result_tokens(index, at)
            name = part.name or names.get((index, at), "")
            seen += tokens
            if seen <= protect_tokens or index >= end or name in protect_tools or saved <= 0:
                protected += tokens
            else:
                found.append(PrunedResult(index, at, name, saved))
    saved_tokens = sum(result.saved_tokens for result in found)
    total = measured.usage.total_tokens
    if saved_tokens <= minimum_tokens:
        return PrunePlan((), 0, seen, total)
    return PrunePlan(tuple(reversed(found)), saved_tokens, protected, total - saved_tokens)


def safe_cuts(outline: Outline) -> list[bool]:
    """For each place before a message, and the end: whether a conversation may be cut there."""
    count = len(outline.messages)
    changes = [0] * (count + 1)
    for call, result in outline.pairs():
        if call < result:  # no cut behind the call up to the result
            changes[call + 1] += 1
            changes[result + 1] -= 1
    is_safe = [open_pairs == 0 for open_pairs in accumulate(changes)]
    for index, message in enumerate(outline.messages):
        if message.parts and all(part.kind == "reasoning" for part in message.parts):
            is_safe[index + 1] = index + 1 == count
    return is_safe


def _cut(outline: Outline, tokens: Sequence[int], budget: int) -> tuple[int, bool]:
    """The first place where a turn begins and the messages from there on take at most `budget`.

    If no turn fits, the first safe place at all, and True; the end is always one. System prompts
    take nothing: they stay anyway.
    """
    messages = outline.messages
    is_safe = safe_cuts(outline)
    behind, turn, anywhere = 0, None, len(messages)
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].speaker != "system":
            behind += tokens[index]
        if behind > budget:
            break
        if is_safe[index]:
            anywhere = index
            if messages[index].is_turn:
                turn = index
    else:
        return 0, False
    if turn is not None:
        return turn, False
    return anywhere, anywhere < len(messages)


def _tool_names(outline: Outline) -> dict[tuple[int, int], str]:
    """The tools of results that do not say it, by message and part."""
    names: dict[str, str] = {}
    found: dict[tuple[int, int], str] = {}
    for index, message in enumerate(outline.messages):
        for at, part in enumerate(message.parts):
            if part.kind == "call" and part.call_id is not None:
                names[part.call_id] = part.name
            elif part.kind == "result" and part.call_id in names:
                found[index, at] = names[part.call_id]
    return found
