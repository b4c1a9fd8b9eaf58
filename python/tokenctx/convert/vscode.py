"""Messages of VS Code's language model API, as a source only.

Roles are 1 user, 2 assistant, 3 system. Parts are told apart by their fields: text has `value`, a
call `callId` and `name`, a result `callId` and `content`, data `mimeType` and `data`.
"""

from __future__ import annotations

import base64
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tokenctx.convert import mime
from tokenctx.convert.model import (
    Audio,
    Conversation,
    Data,
    File,
    Image,
    Json,
    Media,
    Message,
    Part,
    Path,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Unknown,
    loads,
)

if TYPE_CHECKING:
    from tokenctx.convert.notes import Notes

ROLES: Final[MappingProxyType[int, Role]] = MappingProxyType(
    {1: "user", 2: "assistant", 3: "system"}
)


def read(body: Json, notes: Notes) -> Conversation:
    """The neutral conversation of a list of messages.

    What an assistant says in plain strings before the first user is the system prompt: the API had
    no role for it.
    """
    found = body.get("messages")
    items = found if isinstance(found, list) else []
    messages = [_read_message(item, ("messages", i), notes) for i, item in enumerate(items)]
    first = next((i for i, message in enumerate(messages) if message.role == "user"), 0)
    head = [message for message in messages[:first] if _is_disguised(message)]
    rest = [message for message in messages[:first] if not _is_disguised(message)]
    top = []
    if head:
        text = "\n\n".join(part.text for m in head for part in m.parts if isinstance(part, Text))
        part = Text(head[0].path, text=text)
        top = [Message(head[0].path, None, {}, None, "system", (part,), is_plain=True, is_top=True)]
    whole = (*top, *rest, *messages[first:])
    return Conversation("vscode", whole, raw=body)


def _is_disguised(message: Message) -> bool:
    return message.role == "assistant" and message.is_plain


def _read_message(value: Any, path: Path, notes: Notes) -> Message:
    if not isinstance(value, dict):
        notes.warn("unknown_message", path)
        return Message(path, value, parts=(Unknown(path, value),))
    named = value.get("role")
    role: Role | None = ROLES.get(named) if isinstance(named, int) else None
    if isinstance(named, str) and named.lower() in ROLES.values():
        role = next(role for role in ROLES.values() if role == named.lower())
    if role is None:
        notes.warn("unknown_role", (*path, "role"))
    content, name = value.get("content"), value.get("name")
    parts = read_content(content, (*path, "content"), notes)
    return Message(
        path,
        value,
        {key: item for key, item in value.items() if key not in {"role", "content", "name"}},
        None,
        role or "user",
        tuple(parts),
        isinstance(content, str),
        name=name if isinstance(name, str) else None,
    )


def read_content(content: Any, path: Path, notes: Notes) -> list[Part]:
    """The parts of a message or of a tool result; those that are no content are left out."""
    if isinstance(content, str):
        return [Text(path, text=content)]
    parts: list[Part] = []
    for index, item in enumerate(content if isinstance(content, list) else []):
        place: Path = (*path, index)
        part = _read_part(item, place, notes)
        if part is not None:
            parts.append(part)
    return parts


def _read_part(item: Any, path: Path, notes: Notes) -> Part | None:
    if isinstance(item, str):
        return Text(path, item, text=item)
    if not isinstance(item, dict):
        notes.warn("unknown_part", path)
        return None
    if "callId" in item and "name" in item:
        return _read_call(item, path)
    if "callId" in item:
        return _read_result(item, path, notes)
    if "mimeType" in item:
        return _read_data(item, path, notes)
    value = item.get("value")
    if isinstance(value, str):
        return Text(path, item, text=value)
    notes.warn("unknown_part", path)
    return Unknown(path, item)


def _read_call(item: Json, path: Path) -> Part:
    return ToolCall(
        path,
        item,
        id=str(item["callId"]),
        name=str(item["name"]),
        arguments=item.get("input", item.get("parameters")),
        is_text=isinstance(item.get("input"), str),
    )


def _read_result(item: Json, path: Path, notes: Notes) -> Part:
    content = item.get("content")
    if isinstance(content, list):  # a result holds no results
        content = [
            inner for inner in content if not (isinstance(inner, dict) and "callId" in inner)
        ]
    parts = tuple(read_content(content, (*path, "content"), notes))
    is_error = item.get("isError") is True
    call_id, is_plain = str(item["callId"]), len(parts) == 1
    return ToolResult(
        path, item, call_id=call_id, parts=parts, is_error=is_error, is_plain=is_plain
    )


def _read_data(item: Json, path: Path, notes: Notes) -> Part | None:
    named, content = item.get("mimeType"), _bytes(item.get("data"))
    if mime.is_metadata(named) or not mime.parse(named):
        notes.lose("field" if mime.is_metadata(named) else "unknown_part", path)
        return None
    if content is None:
        notes.warn("unknown_part", path)
        return Unknown(path, item)
    kind = mime.part_kind(named)
    if kind in {"json", "text"}:
        found = mime.parse(named)
        text = mime.decode_text(content, found.parameters.get("charset") if found else None)
        value = loads(text) if kind == "json" else None
        return Text(path, item, text=text) if value is None else Data(path, item, value=value)
    data = base64.b64encode(content).decode("ascii")
    if kind == "image":
        return Image(path, item, media=Media(data=data, mime=mime.image_type(named, content)))
    media = Media(data=data, mime=mime.normalize(named))
    is_audio = (media.mime or "").startswith("audio/")
    return Audio(path, item, media=media) if is_audio else File(path, item, media=media)


def _bytes(value: Any) -> bytes | None:
    """Bytes as JSON has them: a list of numbers, an object of them, a buffer, or base64."""
    if isinstance(value, dict):
        value = value.get("data", list(value.values()))
    if isinstance(value, str):
        return mime.decode_base64(value)
    is_bytes = isinstance(value, list) and all(
        isinstance(item, int) and 0 <= item <= 255 for item in value
    )
    return bytes(value) if is_bytes and isinstance(value, list) else None
