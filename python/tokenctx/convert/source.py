"""What the caller hands in: JSON text, dicts and SDK objects as plain values; its dialect."""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any, Final, cast

from tokenctx._core import _is_json
from tokenctx._errors import RequestError
from tokenctx._parts import marks_of

if TYPE_CHECKING:
    from tokenctx.convert.model import Json, Source

MARKS: Final = marks_of("conversion")
CLAUDE_FIELDS: Final = ("cache_control", "citations")
CHAT_FIELDS: Final = ("tool_calls", "tool_call_id", "function_call", "refusal")


def plain(value: Any) -> Any:
    """`value` as JSON values: text is parsed, SDK objects are dumped, all else stays the same.

    Raises RequestError for text that is not JSON and for what is nested too deeply.
    """
    if isinstance(value, bytes | bytearray | str):
        return _parsed(value)
    try:
        return value if _is_json(value) else _copied(value)
    except RecursionError:
        raise _too_deep() from None


def _parsed(text: bytes | bytearray | str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        code = "encoding" if isinstance(error, UnicodeError) else "syntax"
        at = getattr(error, "pos", None)
        raise RequestError(f"the body is not JSON, at {at}", code, at) from None


def _too_deep() -> RequestError:
    return RequestError("the body is nested too deeply for this interpreter", "too_deep")


def _copied(value: Any) -> Any:
    root: list[Any] = [value]
    queue: list[tuple[Any, Any]] = [(root, 0)]
    for holder, key in queue:
        item = _opened(holder[key])
        if isinstance(item, dict):
            item = {str(name): inner for name, inner in item.items()}
            queue += [(item, name) for name in item]
        elif isinstance(item, list):
            item = list(item)
            queue += [(item, index) for index in range(len(item))]
        holder[key] = item
        if len(queue) > MAX_VALUES:
            raise RequestError(
                f"the body has more than {MAX_VALUES} values", "too_many_values", limit=MAX_VALUES
            )
    return root[0]


MAX_VALUES: Final = 2**24
"""As many as a document holds; what holds itself ends here too."""


def _opened(value: Any) -> Any:
    """One level of an object as a dict, a list or a plain value."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bool | int | float | str | dict | list) or value is None:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode("ascii")
    if hasattr(value, "model_fields_set"):
        return _fields(value)
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | Set) or hasattr(value, "__next__"):
        return list(value)
    return dict(vars(value)) if hasattr(value, "__dict__") else str(type(value).__name__)


def _fields(value: Any) -> Json:
    """The fields of a pydantic model that were set, under the names of the wire."""
    about = type(value).model_fields
    extra = getattr(value, "model_extra", None) or {}
    found = {
        (about[name].serialization_alias or about[name].alias or name): getattr(value, name)
        for name in about
        if name in value.model_fields_set
    }
    return {**found, **extra}


def detect(body: Json) -> Source:
    """The dialect that the shape of `body` tells; `openai-chat` when nothing speaks against it."""
    if "contents" in body or "generateContentRequest" in body or "systemInstruction" in body:
        return "gemini"
    messages = body.get("messages")
    if not isinstance(messages, list):
        is_responses = "input" in body or "previous_response_id" in body
        return "openai-responses" if is_responses else "openai-chat"
    found = detect_messages(messages)
    if found is not None:
        return found
    if "instructions" in body or body.keys() & {"maxOutputTokens", "toolChoice", "stopSequences"}:
        return "ai-sdk"
    tools = body.get("tools")
    if isinstance(tools, Mapping):
        return "ai-sdk"
    is_anthropic = "system" in body or "anthropic_version" in body or "stop_sequences" in body
    has_schema = isinstance(tools, list) and any(
        isinstance(tool, dict) and "input_schema" in tool for tool in tools
    )
    return "anthropic" if is_anthropic or has_schema else "openai-chat"


def detect_messages(messages: list[Any]) -> Source | None:
    """The dialect of the first message that only one dialect writes so."""
    for message in messages:
        found = _of_message(message) if isinstance(message, dict) else None
        if found is not None:
            return found
    return None


def _of_message(message: Json) -> Source | None:
    role = message.get("role")
    if isinstance(role, int) and not isinstance(role, bool):
        return "vscode"
    if "parts" in message:
        return "gemini"
    if role is None and isinstance(message.get("type"), str):
        return "openai-responses"
    if any(message.get(name) for name in CHAT_FIELDS):
        return "openai-chat"
    if "providerOptions" in message:
        return "ai-sdk"
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        found = _of_part(part) if isinstance(part, dict) else None
        if found is not None:
            return found
    return None


def _of_part(part: Json) -> Source | None:
    kind = part.get("type")
    if not isinstance(kind, str):
        is_vscode = "value" in part or "callId" in part or "mimeType" in part
        return "vscode" if is_vscode else None
    marked = MARKS.get(kind)
    if marked == "ai-sdk" or "providerOptions" in part or "mediaType" in part:
        return "ai-sdk"
    is_anthropic = isinstance(part.get("source"), dict) or not part.keys().isdisjoint(CLAUDE_FIELDS)
    if marked == "anthropic" or is_anthropic:
        return "anthropic"
    if marked is not None:
        return cast("Source", marked)
    if kind == "reasoning" or (kind == "image" and "image" in part):
        return "ai-sdk"
    return "openai-chat" if kind == "file" and "file" in part else None
