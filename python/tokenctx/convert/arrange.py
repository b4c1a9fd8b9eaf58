"""Brings messages into the order and the roles that a dialect demands, whatever dialect it is."""

from __future__ import annotations

from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING, Any, Final

from tokenctx.convert.model import (
    Audio,
    File,
    Image,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Unknown,
    changed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tokenctx.convert.model import Conversation, Part, Role
    from tokenctx.convert.notes import Notes
    from tokenctx.convert.rules import Rules

MEDIA: Final = (Image, File, Audio)
SYSTEM_ROLES: Final = ("system", "developer")
SYSTEM_MARK: Final = "<system>\n{}\n</system>"
"""How a system message is told from what the user says, where it has to be in a user message."""


def arranged(conversation: Conversation, rules: Rules, notes: Notes) -> Conversation:
    """The conversation as `rules` demand it; every change that is no plain spelling is noted."""
    messages: Iterable[Message] = _split_by_role(conversation.messages, notes)
    messages = _place_system(messages, rules, notes)
    messages = _place_results(messages, rules, notes)
    if rules.refuses_empty:
        messages = _without_empty(messages, notes)
    if rules.alternates:
        messages = _merged(messages, rules, notes)
    return replace(conversation, messages=tuple(messages))


def with_few_markers(conversation: Conversation, rules: Rules, notes: Notes) -> Conversation:
    """The conversation with as many cache markers as the dialect takes.

    Those of tools and system prompts stay; of the messages it is the last that stay, since they
    mark the longest beginnings.
    """
    most = rules.max_cache_markers
    if most is None:
        return conversation
    fixed = [node for node in (*conversation.tools, *_system_parts(conversation)) if node.cache]
    is_same = conversation.dialect == rules.name
    count = len(fixed) + (is_same and "cache_control" in conversation.raw)
    marked = [
        part
        for message in conversation.messages
        if message.role not in SYSTEM_ROLES
        for part in _with_inner(message.parts)
        if part.cache
    ]
    excess = {id(part) for part in marked[: max(0, count + len(marked) - most)]}
    if not excess:
        return conversation
    messages = tuple(_less_marked(it, excess, notes) for it in conversation.messages)
    return replace(conversation, messages=messages)


def _system_parts(conversation: Conversation) -> Iterator[Part]:
    for message in conversation.messages:
        if message.role in SYSTEM_ROLES:
            yield from message.parts


def _with_inner(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts, each behind those that it holds."""
    for part in parts:
        if isinstance(part, ToolResult):
            yield from part.parts
        yield part


def _less_marked(message: Message, excess: set[int], notes: Notes) -> Message:
    parts = tuple(_unmarked(part, excess, notes) for part in message.parts)
    is_same = all(map(is_, parts, message.parts))
    fewer: Message = message if is_same else changed(message, parts=parts)
    return fewer


def _unmarked(part: Part, excess: set[int], notes: Notes) -> Part:
    fields: dict[str, Any] = {}
    if isinstance(part, ToolResult):
        inner = tuple(_unmarked(item, excess, notes) for item in part.parts)
        if not all(map(is_, inner, part.parts)):
            fields["parts"] = inner
    if id(part) in excess and notes.repair("excess_marker", (*part.path, "cache_control")):
        fields["cache"] = None
    lighter: Part = changed(part, **fields) if fields else part
    return lighter


def _split_by_role(messages: Iterable[Message], notes: Notes) -> Iterator[Message]:
    """Calls stand in messages of the assistant and results nowhere else than in their own."""
    for message in messages:
        if _stands_right(message):
            yield message
            continue
        runs = list(_runs(message))
        if len(runs) > 1:
            notes.lose("split", message.path)
        for number, (role, parts) in enumerate(runs):
            if len(runs) == 1 and role == message.role:
                yield message
            else:
                extra: dict[str, Any] = {"extra": {}, "cache": None} if number else {}
                yield changed(message, role=role, parts=tuple(parts), is_plain=False, **extra)


def _stands_right(message: Message) -> bool:
    kinds = set(map(type, message.parts))
    if message.role == "tool":
        return kinds == {ToolResult}
    return ToolResult not in kinds and (message.role == "assistant" or ToolCall not in kinds)


def _runs(message: Message) -> Iterator[tuple[Role, list[Part]]]:
    """The parts of `message` by the role that they must stand under."""
    role: Role = message.role
    parts: list[Part] = []
    for part in message.parts:
        wanted: Role = message.role
        if isinstance(part, ToolResult):
            wanted = "tool"
        elif isinstance(part, ToolCall):
            wanted = "assistant"
        elif message.role == "tool" and not isinstance(part, Unknown):
            wanted = "user"
        if parts and wanted != role:
            yield role, parts
            parts = []
        role = wanted
        parts.append(part)
    if parts or not message.parts:
        yield role, parts


def _place_system(messages: Iterable[Message], rules: Rules, notes: Notes) -> Iterator[Message]:
    is_head = True
    for message in messages:
        role = message.role
        if role == "developer" and not rules.has_developer:
            notes.lose("role", (*message.path, "role"))
            role = "system"
        if role not in SYSTEM_ROLES:
            is_head = False
        elif rules.system != "list" and (message.is_top or is_head):
            yield replace(message, role=role, is_top=True)
            continue
        elif rules.system == "top":
            notes.lose("system_message", message.path)
            yield changed(message, role="user", parts=tuple(map(_marked, message.parts)))
            continue
        yield message if role == message.role else replace(message, role=role)


def _marked(part: Part) -> Part:
    if not isinstance(part, Text):
        return part
    marked: Part = changed(part, text=SYSTEM_MARK.format(part.text))
    return marked


def _place_results(messages: Iterable[Message], rules: Rules, notes: Notes) -> Iterator[Message]:
    """Results of one turn together, or each in a message of its own; media where they may be."""
    pending: list[Message] = []
    for message in messages:
        if message.role == "tool":
            pending.append(message)
            continue
        if pending:
            yield from _results(pending, rules, notes)
            pending = []
        yield message
    if pending:
        yield from _results(pending, rules, notes)


def _results(messages: list[Message], rules: Rules, notes: Notes) -> Iterator[Message]:
    media: list[Part] = []
    held = [_lighter(message, rules, notes, media) for message in messages]
    if rules.results == "each":
        for message in held:
            yield from _single(message)
    else:
        role: Role = "user" if rules.results == "user" else "tool"
        one = _one(held, notes)
        yield one if one.role == role else replace(one, role=role)
    if media:
        yield Message(path=media[0].path, role="user", parts=tuple(media))


def _lighter(message: Message, rules: Rules, notes: Notes, media: list[Part]) -> Message:
    """`message` with the media that its results may not hold put into `media`."""
    parts = tuple(_without_media(part, rules, notes, media) for part in message.parts)
    is_same = all(map(is_, parts, message.parts))
    return message if is_same else replace(message, parts=parts)


def _single(message: Message) -> Iterator[Message]:
    if len(message.parts) == 1:
        yield message
        return
    for number, part in enumerate(message.parts):
        yield replace(message, parts=(part,), extra=message.extra if number == 0 else {})


def _without_media(part: Part, rules: Rules, notes: Notes, media: list[Part]) -> Part:
    """A result whose media, where it may not hold them, are put into `media`."""
    if not isinstance(part, ToolResult):
        return part
    if not any(isinstance(item, MEDIA) for item in part.parts):
        return part
    kept: list[Part] = []
    for item in part.parts:
        is_media = isinstance(item, MEDIA)
        if (
            is_media
            and type(item) not in rules.parts["result"]
            and type(item) in rules.parts["user"]
        ):
            notes.lose("media_moved", item.path)
            media.append(item)
        else:
            kept.append(item)
    if len(kept) == len(part.parts):
        return part
    lighter: Part = changed(part, parts=tuple(kept))
    return lighter


def _without_empty(messages: Iterable[Message], notes: Notes) -> Iterator[Message]:
    for message in messages:
        if message.parts and not any(map(_is_empty, message.parts)):
            yield message
            continue
        parts = [part for part in message.parts if not _is_empty(part)]
        if parts:
            for part in message.parts:
                if _is_empty(part):
                    notes.lose("empty_message", part.path)
            yield changed(message, parts=tuple(parts))
        else:
            notes.lose("empty_message", message.path)


def _is_empty(part: Part) -> bool:
    if not isinstance(part, Text) or part.signature is not None:
        return False
    return not part.text or part.text.isspace()


def _merged(messages: Iterable[Message], rules: Rules, notes: Notes) -> Iterator[Message]:
    """Adjacent messages of one role as one; system prompts and single results stay apart."""
    apart = {*SYSTEM_ROLES, *(["tool"] if rules.results == "each" else [])}
    run: list[Message] = []
    for message in messages:
        if run and (message.role in apart or message.role != run[0].role):
            yield _one(run, notes)
            run = []
        if run:
            notes.lose("merged", message.path)
        run.append(message)
    if run:
        yield _one(run, notes)


def _one(run: list[Message], notes: Notes) -> Message:
    """One message with the parts of all; linear, however long the run."""
    if len(run) == 1:
        return run[0]
    for message in run[1:]:
        for name in message.extra:
            notes.lose("field", (*message.path, name))
        if message.name is not None:
            notes.lose("name", (*message.path, "name"))
        if message.cache is not None:
            notes.lose("cache_control", (*message.path, "cache_control"))
    parts = tuple(part for message in run for part in message.parts)
    one: Message = changed(run[0], parts=parts, is_plain=False)
    return one
