"""Spans of OpenTelemetry as requests: the content attributes of the GenAI conventions."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

USAGE: Final = (
    ("prompt_tokens", ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")),
    ("completion_tokens", ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")),
)
NUMBERED: Final = re.compile(r"gen_ai\.prompt\.(\d{1,6})\.(.+)")
"""The attributes that instrumentations wrote before the conventions had messages."""
VALUES: Final = ("stringValue", "intValue", "doubleValue", "boolValue")


def spans_in(row: Json) -> list[Json]:
    """The spans of an OTLP export; none if it is no such thing."""
    found = []
    for resource in _list(row.get("resourceSpans")):
        for scope in _list(resource.get("scopeSpans")):
            found += _list(scope.get("spans"))
    return found


def span_call(span: Json) -> tuple[Json, Json, Json] | None:
    """Body, usage and what else is known of the call in a span; None if it is none."""
    attributes = _attributes(span.get("attributes"))
    if not any(name.startswith("gen_ai.") for name in attributes):
        return None
    body: Json = {"messages": [*_system(attributes), *_messages(attributes)]}
    if tools := _tools(attributes):
        body["tools"] = tools
    usage = {
        field: next((attributes[name] for name in names if name in attributes), None)
        for field, names in USAGE
    }
    more = {
        "id": span.get("spanId") or span.get("span_id"),
        "model": attributes.get("gen_ai.response.model") or attributes.get("gen_ai.request.model"),
        "provider": attributes.get("gen_ai.provider.name") or attributes.get("gen_ai.system"),
        "created": _seconds(span.get("startTimeUnixNano")),
        "conversation_id": attributes.get("gen_ai.conversation.id") or span.get("traceId"),
    }
    return body, usage, more


def _seconds(nanoseconds: object) -> float | None:
    text = str(nanoseconds)
    return int(text) / 1e9 if text.isdigit() else None


def _list(value: object) -> list[Json]:
    return [it for it in value if isinstance(it, dict)] if isinstance(value, list) else []


def _attributes(given: object) -> Json:
    """Attributes by name, whether they came as OTLP's list or as a mapping."""
    if isinstance(given, dict):
        return given
    return {str(it.get("key")): _value(it.get("value")) for it in _list(given)}


def _value(value: object) -> Any:
    """The value in one of OTLP's."""
    if not isinstance(value, dict):
        return value
    if "arrayValue" in value:
        return [_value(it) for it in _list((value["arrayValue"] or {}).get("values"))]
    if "kvlistValue" in value:
        return _attributes((value["kvlistValue"] or {}).get("values"))
    found = next((value[name] for name in VALUES if name in value), None)
    return int(found) if "intValue" in value and isinstance(found, str) else found


def _parsed(value: object) -> Any:
    if isinstance(value, str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _system(attributes: Json) -> Iterator[Json]:
    parts = _parsed(attributes.get("gen_ai.system_instructions"))
    text = parts if isinstance(parts, str) else _text(parts)
    if text:
        yield {"role": "system", "content": text}


def _text(parts: object) -> str:
    return "".join(str(part.get("content") or "") for part in _list(parts))


def _messages(attributes: Json) -> Iterator[Json]:
    messages = _parsed(attributes.get("gen_ai.input.messages"))
    if isinstance(messages, list):
        for message in _list(messages):
            yield from _message(message)
        return
    yield from _numbered(attributes)


def _message(message: Json) -> Iterator[Json]:
    """One message of the conventions as those of a chat: each result is a message there."""
    parts, texts, calls = _list(message.get("parts")), [], []
    for part in parts:
        kind = part.get("type")
        if kind == "tool_call":
            arguments = part.get("arguments")
            arguments = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
            function = {"name": part.get("name") or "", "arguments": arguments}
            calls.append({"id": part.get("id"), "type": "function", "function": function})
        elif kind == "tool_call_response":
            result = part.get("response", part.get("result"))
            result = result if isinstance(result, str) else json.dumps(result)
            yield {"role": "tool", "tool_call_id": part.get("id"), "content": result}
        elif kind == "text":
            texts.append({"type": "text", "text": str(part.get("content") or "")})
        else:
            texts.append(part)  # counted as what it is, or as its JSON
    if not parts and message.get("content"):
        texts.append({"type": "text", "text": str(message["content"])})
    if texts or calls:
        found: Json = {"role": message.get("role") or "user", "content": texts or None}
        yield {**found, "tool_calls": calls} if calls else found


def _numbered(attributes: Json) -> Iterator[Json]:
    """`gen_ai.prompt.0.role` and its like."""
    by_number: dict[int, Json] = {}
    for name, value in attributes.items():
        if match := NUMBERED.fullmatch(name):
            by_number.setdefault(int(match[1]), {})[match[2]] = value
    for _, fields in sorted(by_number.items()):
        found: Json = {"role": fields.get("role") or "user", "content": fields.get("content") or ""}
        if "tool_call_id" in fields:
            found["tool_call_id"] = fields["tool_call_id"]
        calls = [
            {
                "id": fields.get(f"tool_calls.{nth}.id"),
                "type": "function",
                "function": {
                    "name": fields[f"tool_calls.{nth}.name"],
                    "arguments": fields.get(f"tool_calls.{nth}.arguments") or "{}",
                },
            }
            for nth in range(len(fields))
            if f"tool_calls.{nth}.name" in fields
        ]
        yield {**found, "tool_calls": calls} if calls else found


def _tools(attributes: Json) -> list[Json]:
    found = []
    for tool in _list(_parsed(attributes.get("gen_ai.tool.definitions"))):
        is_wrapped = isinstance(tool.get("function"), dict)
        names = ("name", "description", "parameters")
        function = {name: tool[name] for name in names if name in tool}
        found.append(tool if is_wrapped else {"type": "function", "function": function})
    return found
