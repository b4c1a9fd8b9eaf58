"""A request against the nearest known conversation: what left, what came, what that changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from reference.bounds import (
    STRATA,
    bounds_permille,
    interval,
    is_guessed,
    row_names,
    stratum_of_context,
    stratum_of_message,
)
from reference.branch import MAX_TOKENS, Seen, Sum, name_of
from reference.count import has_results, last_user_index
from reference.learn import Features

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reference.bounds import Scope
    from reference.branch import Overlap, Shape
    from reference.count import Counter
    from reference.learn import Learner
    from reference.model import Message, Request
    from reference.prefix import KnownTotal
    from reference.profile import Profile

LEAST_GAIN_TOKENS: Final = 64
"""If a prefix is known, a difference must save more tokens than this from being counted."""


@dataclass(frozen=True)
class Near:
    """A known conversation that may be nearer to a request than its known prefix.

    Attributes:
        gain: Tokens that need no count, less those that left.
    """

    shape: Shape
    overlap: Overlap
    has_other_context: bool
    gain: int

    @property
    def has_other_history(self) -> bool:
        """Whether messages left or came between others."""
        places = self.overlap.places[: len(self.shape.messages)]
        return self.overlap.left.messages > 0 or places != list(range(len(places)))


@dataclass(frozen=True)
class Edit:
    """How a request differs from a known conversation."""

    known: KnownTotal
    came: Sum
    tokens: int
    """Of what came, and of what stands before the messages, if that is another."""
    stratum: str
    scope: Scope
    has_other_history: bool
    has_other_context: bool
    is_guessed: bool
    is_learned: bool
    """Whether what left was corrected by what was learned."""

    @property
    def features(self) -> Features:
        """What came, as text."""
        return features(self.came)


def features(messages: Sum) -> Features:
    """`messages` as text: of what left no more is known."""
    return Features(0, messages.tokens, messages.messages, 0, 0, 0, 0, 0, 0)


def nearest(
    shapes: Iterable[Shape],
    request: Request,
    context: bytes,
    digests: Sequence[bytes],
    start: int,
) -> Near | None:
    """Of `shapes`, the one with the largest gain; None if none has one.

    A shape must have all `start` messages of the known prefix.
    """
    found: Near | None = None
    least = LEAST_GAIN_TOKENS if start else 0
    bound = [has_results(message) for message in request.messages]
    for shape in shapes:
        overlap = shape.overlap(digests, start, bound)
        has_other = shape.context != context
        more = -shape.context_tokens if has_other else 0 if start else shape.context_tokens
        gain = overlap.kept.tokens - overlap.left.tokens + more
        has_prefix = None not in overlap.places[:start]
        if has_prefix and gain > (found.gain if found else least):
            found = Near(shape, overlap, has_other, gain)
    return found


def edit(
    near: Near,
    counter: Counter,
    context_tokens: int | None,
    learner: Learner | None,
) -> Edit:
    """What the difference to `near` is counted as.

    `context_tokens` is what stands before the messages, if it may cost another number of tokens.
    """
    request, shape, left = counter.request, near.shape, near.overlap.left
    came = Sum()
    new = [index for index, place in enumerate(near.overlap.places) if place is None]
    for index, tokens in zip(new, counter.messages_at(new), strict=True):
        came.add(Seen(0, stratum_of_message(request.messages[index]), tokens))
    reasoning = _reasoning_tokens(near, counter)
    left_tokens = left.tokens
    if learner is not None and left.messages:
        left_tokens = learner.corrected(features(left), left.tokens)
    then = shape.context_tokens
    now = then if context_tokens is None else context_tokens
    known = max(0, shape.total.tokens - left_tokens)
    known = max(0, known + reasoning + (-then if near.has_other_context else now - then))
    uncertain = abs(then) if near.has_other_context else abs(now - then)
    derived = shape.total.derived_tokens + left_tokens + uncertain + abs(reasoning)
    derived = max(1, derived)
    server = ["server_tools"] if counter.profile.runs_tools else []
    has_guess = is_guessed([*request.assumptions, *counter.assumptions, *server])
    strata = [came.stratum, left.stratum, *(["undetermined"] if has_guess else [])]
    if near.has_other_context:
        strata += [shape.context_stratum, stratum_of_context(request)]
    return Edit(
        replace(shape.total, tokens=known, derived_tokens=derived),
        came,
        max(0, came.tokens + (now if near.has_other_context else 0)),
        max(strata, key=STRATA.index),
        "whole" if near.has_other_context else "new",
        near.has_other_history,
        near.has_other_context,
        has_guess,
        left_tokens != left.tokens,
    )


def _reasoning_tokens(near: Near, counter: Counter) -> int:
    """Reasoning that is billed now and was not then, less that which was."""
    messages, tokens = counter.request.messages, 0
    if not counter.profile.drops_reasoning():
        return 0
    turn = last_user_index(messages, len(messages))
    for index, place in enumerate(near.overlap.places):
        if place is not None and (index > turn) != (place > near.shape.turn):
            reasoning = counter.reasoning(messages[index])
            tokens += reasoning if index > turn else -reasoning
    return tokens


def is_narrower(
    edit: Edit,
    near: Near,
    request: Request,
    profile: Profile,
    prefix: KnownTotal | None,
    context_tokens: int | None,
    *,
    is_known_model: bool,
) -> bool:
    """Whether the bounds of `edit` are no wider than those of a count beyond the known prefix.

    If what stands before the messages changed, it must have been counted well.
    """
    is_guess = edit.is_guessed or near.shape.context_stratum == "undetermined"
    if near.has_other_context and is_guess:
        return False
    names = row_names(profile.name, profile.provider, is_known_model=is_known_model)
    beyond = edit.came.tokens + near.overlap.kept.tokens
    strata = [edit.came.stratum, near.overlap.kept.stratum]
    strata += ["undetermined"] if edit.is_guessed else []
    scope: Scope = "new"
    if prefix is None:
        scope = "whole"
        beyond += near.shape.context_tokens if context_tokens is None else context_tokens
        strata += [near.shape.context_stratum, stratum_of_context(request)]
    else:
        beyond += prefix.derived_tokens
    stratum = max(strata, key=STRATA.index)
    uncertain = edit.tokens + edit.known.derived_tokens
    own = _width(bounds_permille(names, edit.scope, edit.stratum), uncertain)
    return own <= _width(bounds_permille(names, scope, stratum), max(0, beyond))


def _width(permille: tuple[int, int], uncertain: int) -> int:
    low, high = interval(2**62, uncertain, permille)
    return high - low


def seen_messages(
    before: Iterable[tuple[Seen, int]],
    messages: Iterable[tuple[Message, int]],
    reply: Sequence[Message],
    derived_tokens: int,
    digests: Iterable[bytes],
    *,
    has_guess: bool,
) -> tuple[Seen, ...] | None:
    """The messages of a shape; None if one has too many tokens.

    `before` are those up to the known prefix, each with reasoning that was dropped since,
    `messages` those that were counted, `derived_tokens` what the `reply` costs.
    """
    rows = [(seen.stratum, max(0, seen.tokens - dropped)) for seen, dropped in before]
    for message, tokens in messages:
        stratum = stratum_of_message(message)
        is_guess = has_guess and stratum not in ("text", "tools")
        rows.append(("undetermined" if is_guess else stratum, tokens))
    for nth, message in enumerate(reply if derived_tokens else ()):
        tokens = derived_tokens // (len(reply) - nth)
        derived_tokens -= tokens
        rows.append((stratum_of_message(message), tokens))
    if any(tokens > MAX_TOKENS for _, tokens in rows):
        return None
    return tuple(Seen(name_of(digest), *row) for digest, row in zip(digests, rows, strict=False))
