"""The outline of a request of any dialect: who says what, and which result answers which call.

It is read by the shape of a part, not by dialect, since gateways mix them. Nothing is converted and
nothing is lost: every message of the caller has one outline, at its own place.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import tokenctx
from tokenctx.convert.source import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Speaker = Literal["system", "user", "assistant", "tool"]
PartKind = Literal["text", "call", "result", "reasoning", "file"]


def texts(value: Any) -> tuple[str, ...]:
    """One text, or a list of them."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


MESSAGE_LISTS: Final = ("messages", "contents", "input", "prompt")
SYSTEM_FIELDS: Final = ("system", "instructions", "systemInstruction", "system_instruction")
ROLES: Final[dict[object, Speaker]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    1: "user",
    2: "assistant",
    3: "system",
}
MEDIA: Final = frozenset({"image", "file", "audio", "video"})
TABLE: Final = json.loads((Path(tokenctx.__file__).parent / "data/parts.json").read_bytes())
ROWS: Final = [
    {**row, "dialect": dialect, "names": {row["type"], *texts(row.get("also"))}}
    for dialect, about in TABLE["dialects"].items()
    for row in about["parts"]
]
READ: Final = [row for row in ROWS if "outline" not in texts(row.get("unread_by"))]
KINDS: Final[dict[str, PartKind]] = {
    name: cast("PartKind", "file" if row["kind"] in MEDIA else row["kind"])
    for row in READ
    if row["place"] in {"part", "item", "field"}
    and row["kind"] in MEDIA | {"call", "result", "reasoning"}
    for name in row["names"]
}
"""What a part is, by its type or by the field that holds it; all others are text."""
CALLS: Final = frozenset(name for name, kind in KINDS.items() if kind == "call")
RESULTS: Final = frozenset(name for name, kind in KINDS.items() if kind == "result")
CALL_FIELDS: Final = tuple(
    row["type"] for row in READ if (row["dialect"], row["place"]) == ("openai-chat", "call")
)
ID_FIELDS: Final = dict.fromkeys(row["id"] for row in ROWS if "id" in row)
IDS: Final = ("tool_call_id", *sorted(ID_FIELDS, key=lambda name: name == "id"))
"""Where the id of a call can be; `id` is the last, since an item has one of its own too."""
UNTEXTUAL: Final = frozenset(
    "type id data url uri image_url file_url signature thoughtSignature cache_control "
    "providerOptions encrypted_content mimeType mime_type media_type mediaType bytes".split()
).union(IDS)
"""Fields whose text is not counted as text."""


@dataclass(slots=True)
class Part:
    """A part of a message, or what stands in its place.

    Attributes:
        content: What it was read from.
        call_id: Of a call or a result, where the dialect has one.
        name: The tool.
    """

    kind: PartKind
    content: Any
    call_id: str | None = None
    name: str = ""

    @property
    def has_file(self) -> bool:
        """Whether it is a file, or the result of a tool with one in it."""
        if self.kind != "result":
            return self.kind == "file"
        return any(_kind(part) == "file" for part in _dicts(self.content))

    def texts(self) -> list[str]:
        """Every text in it, without those of files and ids. No recursion."""
        found: list[str] = []
        pending = [self.content]
        while pending:
            value = pending.pop()
            if isinstance(value, str):
                found.append(value)
            elif isinstance(value, dict):
                pending += [item for name, item in value.items() if name not in UNTEXTUAL]
            elif isinstance(value, list):
                pending += value
        return found


@dataclass(slots=True)
class MessageOutline:
    """Who says it, and its parts."""

    speaker: Speaker
    parts: tuple[Part, ...]

    @property
    def is_turn(self) -> bool:
        """Whether a turn begins here: the user says something, not only a tool."""
        return self.speaker == "user" and any(part.kind != "result" for part in self.parts)


@dataclass(frozen=True, slots=True)
class Outline:
    """A request as the caller has it: plain JSON values.

    Attributes:
        fields: The body, less what stands around it.
        raw_messages: As they stand in it.
    """

    fields: dict[str, Any]
    raw_messages: Sequence[Any]
    messages: tuple[MessageOutline, ...]

    @property
    def tools(self) -> list[tuple[str, Any]]:
        """The definitions of tools with their names; in the dialect's own form."""
        configs = (self.fields.get(name) for name in ("toolConfig", "tool_config"))
        config = next((it for it in configs if isinstance(it, dict)), {})
        return list(_tools(self.fields.get("tools") or config.get("tools")))

    def pairs(self) -> list[tuple[int, int]]:
        """The places of calls and of the results that answer them, as (call, result)."""
        return list(_pairs(self.messages))


def outline(body: object) -> Outline:
    """The outline of `body`: JSON text, a dict, a list of messages, SDK objects.

    Linear in the body, no copy of a dict. Raises RequestError for text that is not JSON.
    """
    fields = fields_of(body)
    list_field = next((name for name in MESSAGE_LISTS if fields.get(name)), "messages")
    messages = fields.get(list_field)
    if isinstance(messages, str | dict):
        messages = [messages]
    raw = messages if isinstance(messages, list) else []
    return Outline(fields, raw, tuple(_message(message) for message in raw))


def _message(message: Any) -> MessageOutline:
    if not isinstance(message, dict):
        return MessageOutline("user", (Part("text", message),))
    role = message.get("role")
    speaker = ROLES.get(role) if isinstance(role, str | int) else None
    kind = message.get("type")
    if isinstance(kind, str) and speaker is None and kind != "message":
        part = _item(kind, message)
        return MessageOutline("tool" if part.kind == "result" else "assistant", (part,))
    parts = list(_parts(message, speaker or "user"))
    return MessageOutline(speaker or "user", tuple(parts))


def _item(kind: str, item: dict[str, Any]) -> Part:
    """An item of OpenAI's Responses that is no message."""
    found = KINDS.get(kind, "text")
    if found in ("call", "result"):
        return _paired(found, item, item)
    return Part("reasoning" if found == "reasoning" else "text", item)


def _parts(message: dict[str, Any], speaker: Speaker) -> Iterator[Part]:
    for name in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(message.get(name), str) and message[name]:
            yield Part("reasoning", message[name])
    content = message.get("content", message.get("parts"))
    if speaker == "tool" and not _holds_results(content):
        tool = message.get("name")
        yield Part("result", content, _id(message), tool if isinstance(tool, str) else "")
    else:
        parts = content if isinstance(content, list) else [content]
        yield from (_part(part) for part in parts if part is not None)
    calls = message.get("tool_calls") or ()
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            held = (call[name] for name in CALL_FIELDS if call.get(name))
            yield _paired("call", call, next(held, call))
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        yield _paired("call", {}, legacy)


def _holds_results(content: Any) -> bool:
    parts = content if isinstance(content, list) else ()
    return any(isinstance(part, dict) and _kind(part) == "result" for part in parts)


def _part(part: Any) -> Part:
    if not isinstance(part, dict):
        return Part("text", part)
    kind = _kind(part)
    if kind in ("call", "result"):
        inner = next((part[name] for name in part if name in CALLS or name in RESULTS), part)
        about = inner if isinstance(inner, dict) else part
        return _paired(kind, about, about)
    return Part(kind, part)


def _kind(part: dict[str, Any]) -> PartKind:
    """By the type of the part, by the field that it is in, or by its shape, as in VS Code."""
    names = [part["type"]] if isinstance(part.get("type"), str) else list(part)
    for name in names:
        if name in KINDS:
            return KINDS[name]
    if part.get("thought") is True:
        return "reasoning"
    if "callId" in part:
        return "call" if "input" in part else "result"
    return "file" if "mimeType" in part and "data" in part else "text"


def _paired(kind: Literal["call", "result"], about: Any, named: Any) -> Part:
    name = named.get("name") or named.get("toolName") if isinstance(named, dict) else None
    return Part(kind, about, _id(about), name if isinstance(name, str) else "")


def _id(about: dict[str, Any]) -> str | None:
    for name in IDS:
        found = about.get(name)
        if isinstance(found, str):
            return found
    return None


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield item
            pending += item.values()
        elif isinstance(item, list):
            pending += item


def _tools(tools: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(tools, dict):
        yield from ((str(name), {name: tool}) for name, tool in tools.items())
    for tool in tools if isinstance(tools, list) else ():
        about = tool if isinstance(tool, dict) else {}
        declared = about.get("functionDeclarations") or about.get("function_declarations")
        if isinstance(declared, list):
            for one in declared:
                name = one.get("name") if isinstance(one, dict) else None
                yield name if isinstance(name, str) else "tool", {"functionDeclarations": [one]}
            continue
        inner: Any = next(
            (about[key] for key in ("function", "custom", "toolSpec") if key in about), {}
        )
        name = about.get("name") or (inner.get("name") if isinstance(inner, dict) else None)
        names = (name, about.get("server_label"), about.get("type"), "tool")
        yield next(it for it in names if isinstance(it, str) and it), tool


def _pairs(messages: Sequence[MessageOutline]) -> Iterator[tuple[int, int]]:
    """A result answers the nearest waiting call with its id, or with its name where it has none."""
    by_id: dict[str, list[int]] = defaultdict(list)
    by_name: dict[str, deque[int]] = defaultdict(deque)
    for index, message in enumerate(messages):
        for part in message.parts:
            if part.kind == "call":
                if part.call_id is not None:
                    by_id[part.call_id].append(index)
                by_name[part.name].append(index)
            elif part.kind == "result":
                waiting: Any = by_id.get(part.call_id) if part.call_id is not None else None
                if waiting:
                    yield waiting.pop(), index
                elif part.call_id is None and by_name.get(part.name):
                    yield by_name[part.name].popleft(), index
