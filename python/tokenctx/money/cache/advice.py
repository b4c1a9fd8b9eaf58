"""Where a cache breakpoint is worth it, where a marker is wasted, and what broke the prefix."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tokenctx._results.result import Result
from tokenctx.money.cache.rules import minimum_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenctx._core import CachePoints
    from tokenctx.money.cache.rules import Rule

MOST_MARKS: Final = 4
MARKS: Final = frozenset({"cache_control", "cachePoint", "prompt_cache_breakpoint", "cacheControl"})
LISTS: Final = ("messages", "contents", "input")
SYSTEMS: Final = ("system", "instructions", "systemInstruction", "system_instruction")
FIELDS: Final = frozenset(
    "args arguments content description function functionCall functionDeclarations "
    "functionResponse image_url input input_schema inputSchema json name output parameters parts "
    "reasoning_content response role source strict text thinking tool_calls toolResult "
    "toolUse type".split()
)
"""Names of members that are shown; others may be text of a message."""
ADVICE_KINDS = Literal[
    "add_mark",
    "mark_below_minimum",
    "mark_behind_change",
    "mark_without_effect",
    "too_many_marks",
    "prefix_changes",
    "nothing_to_do",
    "unknown_provider",
]


@dataclass(frozen=True, slots=True)
class CacheFinding(Result):
    """One thing that can be done about the provider's cache, or why there is none.

    Attributes:
        kind: `add_mark`, `mark_below_minimum`, `mark_behind_change`, `mark_without_effect`,
            `too_many_marks`, `prefix_changes`, `nothing_to_do` or `unknown_provider`.
        place: Where in the body, as `system`, `tools[3]`, `messages[5].content[0]`; empty: nowhere
            in particular.
        byte: Of a change, the first byte of the text there that is another, in UTF-8; else None.
        tokens: Tokens that it is about: those behind a change, or before a mark.
        message: The same in a sentence, without any text of the request.
    """

    kind: ADVICE_KINDS
    place: str
    byte: int | None
    tokens: int
    message: str


def findings(
    body: Any,
    previous: Any | None,
    points: CachePoints,
    rule: Rule | None,
    context_tokens: int,
    message_tokens: Sequence[int],
) -> tuple[CacheFinding, ...]:
    """Findings about a body, and about the one that was sent before it."""
    if rule is None:
        message = "Nothing is known of the cache of this provider."
        return (CacheFinding("unknown_provider", "", None, 0, message),)
    total = context_tokens + sum(message_tokens)
    least = minimum_tokens(rule, points.model)
    found = list(_of_marks(points, rule, least, context_tokens, message_tokens))
    change = None if previous is None else first_change(previous, body)
    if change is not None:
        place, byte = change
        before = _tokens_before(place, context_tokens, message_tokens)
        at = f" at byte {byte}" if byte is not None else ""
        message = (
            f"{place} changes{at} from call to call: the {total - before} tokens from there on are "
            "not read from the cache. Put what changes behind what stays."
        )
        found.append(CacheFinding("prefix_changes", place, byte, total - before, message))
        found += _behind(points, place, before, context_tokens, message_tokens)
    if not found:
        found.append(CacheFinding("nothing_to_do", "", None, total, "The cache is used well."))
    return tuple(found)


def _of_marks(
    points: CachePoints,
    rule: Rule,
    least: int,
    context_tokens: int,
    message_tokens: Sequence[int],
) -> Iterator[CacheFinding]:
    if rule.kind == "automatic":
        if points.marks:
            message = f"{rule.name} caches by itself; marks change nothing."
            yield CacheFinding("mark_without_effect", "", None, 0, message)
        return
    if len(points.marks) > MOST_MARKS:
        message = f"The request has {len(points.marks)} marks; the provider takes {MOST_MARKS}."
        yield CacheFinding("too_many_marks", "", None, 0, message)
    total = context_tokens + sum(message_tokens)
    for mark in points.marks:
        message_count = mark.message_count
        before = context_tokens + sum(message_tokens[:message_count])
        if before < least:
            place = _place(message_count)
            message = (
                f"The mark in {place} is wasted: about {before} tokens stand before it, and "
                f"nothing below {least} is cached for this model."
            )
            yield CacheFinding("mark_below_minimum", place, None, before, message)
    if rule.kind == "marked" and not points.marks and total >= least:
        if context_tokens >= least:
            message = (
                f"A mark at the end of the system prompt would cache {context_tokens} tokens for "
                "every call that begins so."
            )
            yield CacheFinding("add_mark", "system", None, context_tokens, message)
        place = _place(len(message_tokens))
        message = f"A mark at the end of {place} would cache {total} tokens for the next turn."
        yield CacheFinding("add_mark", place, None, total, message)


def _behind(
    points: CachePoints,
    place: str,
    before: int,
    context_tokens: int,
    message_tokens: Sequence[int],
) -> Iterator[CacheFinding]:
    """Marks that are written and never read, since the text before them changes."""
    for mark in points.marks:
        message_count = mark.message_count
        tokens = context_tokens + sum(message_tokens[:message_count])
        is_in_context = message_count == 0
        if is_in_context and not place.startswith(("system", "tools", *SYSTEMS)):
            continue
        if tokens > before and not (message_count and place == _place(message_count)):
            here = _place(message_count)
            message = (
                f"The mark in {here} pays for writing {tokens} tokens that the next call cannot "
                f"read, since {place} before it changes."
            )
            yield CacheFinding("mark_behind_change", here, None, tokens, message)


def _place(message_count: int) -> str:
    return f"messages[{message_count - 1}]" if message_count else "system"


def _tokens_before(place: str, context_tokens: int, message_tokens: Sequence[int]) -> int:
    """Counted before the part of the body that changes; 0 before the messages."""
    name, _, rest = place.partition("[")
    if name not in LISTS:
        return 0
    number = int(rest.partition("]")[0])
    return context_tokens + sum(message_tokens[:number])


# ---------------------------------------------------------------------------- what changed


def first_change(previous: Any, body: Any) -> tuple[str, int | None] | None:
    """The first place, as providers read, in which `body` is not as `previous`; None if it goes on.

    With it the first byte of a text that is another. Cache marks are no difference.
    """
    old, new = _object(previous), _object(body)
    for name in ("model", "tools", *SYSTEMS):
        if (change := _change(name, old.get(name), new.get(name))) is not None:
            return change
    for name in LISTS:
        old_list, new_list = old.get(name), new.get(name)
        if not isinstance(old_list, list) or not isinstance(new_list, list):
            continue
        for number, (one, other) in enumerate(zip(old_list, new_list, strict=False)):
            if (change := _change(f"{name}[{number}]", one, other)) is not None:
                return change
        if len(new_list) < len(old_list):
            return f"{name}[{len(new_list)}]", None
    return None


def _object(body: Any) -> Mapping[str, Any]:
    if isinstance(body, (bytes, bytearray, str)):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return {}
    return body if isinstance(body, Mapping) else {"messages": body}


def _change(place: str, old: Any, new: Any) -> tuple[str, int | None] | None:
    """The first difference; a text differs at a byte. Text is as good as one block of text."""
    pending = [(place, old, new)]
    while pending:
        place, old, new = pending.pop()
        if isinstance(old, str) and isinstance(new, str):
            if old != new:
                return place, _first_byte(old, new)
        elif isinstance(old, Mapping) and isinstance(new, Mapping):
            names = (*old, *(name for name in new if name not in old))
            kept = [name for name in names if name not in MARKS]
            pending += [(_below(place, it), old.get(it), new.get(it)) for it in reversed(kept)]
        elif isinstance(old, list) and isinstance(new, list):
            if len(old) != len(new):
                pending.append((f"{place}[{min(len(old), len(new))}]", 0, 1))
            both = list(enumerate(zip(old, new, strict=False)))
            pending += [(f"{place}[{nth}]", one, two) for nth, (one, two) in reversed(both)]
        elif old != new and _blocks(old) != _blocks(new):
            return place, None
    return None


def _below(place: str, name: Any) -> str:
    """The place of a member; a name that is none of a format may be somebody's text."""
    return f"{place}.{name}" if name in FIELDS else f"{place}.*"


def _blocks(content: Any) -> Any:
    """Text in the form of a list of blocks, which is the same to a provider."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list):
        return [
            {name: it for name, it in block.items() if name not in MARKS}
            if isinstance(block, Mapping)
            else block
            for block in content
        ]
    return content


def _first_byte(old: str, new: str) -> int:
    pairs = zip(old, new, strict=False)
    same = next(
        (nth for nth, (one, two) in enumerate(pairs) if one != two), min(len(old), len(new))
    )
    return len(old[:same].encode("utf-8", "surrogatepass"))
