"""Where a cache breakpoint is worth it, where a marker is wasted, and what broke the prefix."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from tokenctx._results.result import Result
from tokenctx.money.cache.rules import minimum_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tokenctx._core import CacheMark, CachePoints
    from tokenctx.money.cache.rules import Rule

    Counts = Callable[[Any], int]

MOST_MARKS: Final = 4
MARKS: Final = frozenset({"cache_control", "cachePoint", "prompt_cache_breakpoint", "cacheControl"})
LISTS: Final = ("messages", "contents", "input")
CONTENTS: Final = ("content", "parts")
SYSTEMS: Final = ("system", "instructions", "systemInstruction", "system_instruction")
_PLACE: Final = re.compile(
    r"(?P<section>\w+)(?:\[(?P<item>\d+)\])?(?:\.(?:content|parts)\[(?P<block>\d+)\])?"
)
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
    body: Any, previous: Any | None, points: CachePoints, rule: Rule | None, counted: Counts
) -> tuple[CacheFinding, ...]:
    """Findings about a body, and about the one that was sent before it.

    What stands before a mark or a change is `counted` as the request that ends there.
    """
    if rule is None:
        message = "Nothing is known of the cache of this provider."
        return (CacheFinding("unknown_provider", "", None, 0, message),)
    fields, total = _object(body), counted(body)
    marks = [_end_of(fields, mark) for mark in points.marks]
    sizes = [counted(until(fields, it)) for it in marks] if rule.kind != "automatic" else []
    least = minimum_tokens(rule, points.model)
    found = list(_of_marks(fields, points, rule, least, (total, marks, sizes), counted))
    change = None if previous is None else first_change(previous, body)
    if change is not None:
        place, byte = change
        end = start_of(place)
        before = 0 if end is None else counted(until(fields, end))
        at = f" at byte {byte}" if byte is not None else ""
        message = (
            f"{place} changes{at} from call to call: the {total - before} tokens from there on are "
            "not read from the cache. Put what changes behind what stays."
        )
        found.append(CacheFinding("prefix_changes", place, byte, total - before, message))
        found += _behind(place, before, zip(marks, sizes, strict=False))
    if not found:
        found.append(CacheFinding("nothing_to_do", "", None, total, "The cache is used well."))
    return tuple(found)


class End(NamedTuple):
    """A place in a body: so many items of a list, and so many blocks of the one behind them."""

    section: str
    items: int
    blocks: int = 0
    place: str = ""


def until(fields: Mapping[str, Any], end: End) -> dict[str, Any]:
    """The request that ends there; tools come before the system prompt, and messages last."""
    made = dict(fields)
    value = made.get(end.section)
    items = value if isinstance(value, list) else []
    head = items[: end.items]
    if end.blocks and end.items < len(items) and isinstance(items[end.items], Mapping):
        message = dict(items[end.items])
        for name in CONTENTS:
            if isinstance(message.get(name), list):
                message[name] = message[name][: end.blocks]
        head = [*head, message]
    for name in LISTS:
        if name in made:
            made[name] = []
    if end.section == "tools":
        for name in SYSTEMS:
            made.pop(name, None)
    if isinstance(value, list) or end.items == 0:
        made[end.section] = head
    return made


def _end_of(fields: Mapping[str, Any], mark: CacheMark) -> End:
    """Where the prefix of a mark ends."""
    if mark.is_in_tools:
        return End("tools", mark.block_count, place=f"tools[{mark.block_count - 1}]")
    if mark.message_count == 0:
        name = next((it for it in SYSTEMS if it in fields), SYSTEMS[0])
        place = name if mark.is_at_end else f"{name}[{mark.block_count - 1}]"
        return End(name, mark.block_count, place=place)
    name, place = _list_of(fields), f"messages[{mark.message_count - 1}]"
    if mark.is_at_end:
        return End(name, mark.message_count, place=place)
    place = f"{place}.content[{mark.block_count - 1}]"
    return End(name, mark.message_count - 1, mark.block_count, place)


def start_of(place: str) -> End | None:
    """The end of all that stands before the block at `place`; None if nothing does."""
    found = _PLACE.match(place)
    if found is None or found["section"] not in (*LISTS, *SYSTEMS, "tools"):
        return None
    section = found["section"]
    if found["item"] is None:  # a system prompt that is one text
        return End(section, 0) if section in SYSTEMS else None
    return End(section, int(found["item"]), int(found["block"] or 0))


def _list_of(fields: Mapping[str, Any]) -> str:
    return next((it for it in LISTS if it in fields), LISTS[0])


def _of_marks(
    fields: Mapping[str, Any],
    points: CachePoints,
    rule: Rule,
    least: int,
    counts: tuple[int, list[End], list[int]],
    counted: Counts,
) -> Iterator[CacheFinding]:
    total, marks, sizes = counts
    if rule.kind == "automatic":
        if points.marks:
            message = f"{rule.name} caches by itself; marks change nothing."
            yield CacheFinding("mark_without_effect", "", None, 0, message)
        return
    if len(points.marks) > MOST_MARKS:
        message = f"The request has {len(points.marks)} marks; the provider takes {MOST_MARKS}."
        yield CacheFinding("too_many_marks", "", None, 0, message)
    for mark, before in zip(marks, sizes, strict=True):
        if before < least:
            message = (
                f"The mark in {mark.place} is wasted: about {before} tokens stand before it, and "
                f"nothing below {least} is cached for this model."
            )
            yield CacheFinding("mark_below_minimum", mark.place, None, before, message)
    if rule.kind == "marked" and not points.marks and total >= least:
        name = _list_of(fields)
        context = counted(until(fields, End(name, 0)))
        if context >= least:
            message = (
                f"A mark at the end of the system prompt would cache {context} tokens for "
                "every call that begins so."
            )
            yield CacheFinding("add_mark", "system", None, context, message)
        messages = fields.get(name)
        place = f"messages[{len(messages) - 1}]" if isinstance(messages, list) else "messages"
        message = f"A mark at the end of {place} would cache {total} tokens for the next turn."
        yield CacheFinding("add_mark", place, None, total, message)


def _behind(place: str, before: int, marks: Iterable[tuple[End, int]]) -> Iterator[CacheFinding]:
    """Marks that are written and never read, since the text before them changes."""
    order = [*("tools", *SYSTEMS), *LISTS]
    changed = place.partition("[")[0].partition(".")[0]
    for mark, tokens in marks:
        is_before = changed in order and order.index(mark.section) < order.index(changed)
        if tokens > before and not is_before and not place.startswith(mark.place):
            message = (
                f"The mark in {mark.place} pays for writing {tokens} tokens that the next call "
                f"cannot read, since {place} before it changes."
            )
            yield CacheFinding("mark_behind_change", mark.place, None, tokens, message)


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
    elif callable(dump := getattr(body, "model_dump", None)):  # an object of an SDK
        body = dump(exclude_none=True)
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
