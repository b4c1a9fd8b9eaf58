"""Spans of OpenTelemetry as requests: the content attributes of the GenAI conventions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenctx.usage.reading import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

CALLS: Final = frozenset({"chat", "completion", "generate_content", "text_completion", "responses"})
"""Operations that are one call of a model; agents, workflows and tools add up what is in them."""
OPERATION_NAMES: Final = ("gen_ai.operation.name", "llm.request.type")
SPAN_KINDS: Final = ("traceloop.span.kind", "openinference.span.kind")
USAGE: Final = {
    "input": (
        *("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        *("llm.usage.prompt_tokens", "llm.token_count.prompt"),
    ),
    "output": (
        *("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        *("llm.usage.completion_tokens", "llm.token_count.completion"),
    ),
    "cache_read": (
        *("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"),
        *("gen_ai.usage.details.cache_read_input_tokens", "gen_ai.usage.details.cache_read_tokens"),
        *("gen_ai.usage.input_tokens.cached", "gen_ai.usage.cached_tokens"),
        "llm.token_count.prompt_details.cache_read",
    ),
    "cache_write": (
        *("gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens"),
        "gen_ai.usage.details.cache_creation_input_tokens",
        "gen_ai.usage.details.cache_write_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
    "reasoning": (
        *("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens"),
        "gen_ai.usage.details.reasoning_tokens",
    ),
    "total": ("gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total"),
}
"""Where a number of the bill stands: the conventions of today, then those before them."""
NUMBERED: Final = re.compile(
    r"(?:gen_ai\.prompt|llm\.prompts|llm\.input_messages)\.(\d{1,6})\.(?:message\.)?(.+)"
)
"""The attributes that instrumentations wrote before the conventions had messages; OpenInference."""
CALL_FIELDS: Final = re.compile(r"(tool_calls\.\d{1,6})\.tool_call\.(?:function\.)?(\w+)")
"""OpenInference's names of the parts of a call, as others have them without `tool_call`."""
CONTENTS: Final = re.compile(r"contents\.(\d{1,6})\.message_content\.text")
"""The texts of a message in several parts, as OpenInference has them."""
EVENT: Final = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
"""The events that a message was in between."""
VALUES: Final = ("stringValue", "intValue", "doubleValue", "boolValue")
PREFIXES: Final = ("gen_ai.", "llm.")
LISTS: Final = (
    ("resourceSpans", "scopeSpans", "spans"),
    ("resource_spans", "scope_spans", "spans"),
    ("resourceSpans", "instrumentationLibrarySpans", "spans"),
)


@dataclass(frozen=True, slots=True)
class SpanCall:
    """The call of a model in a span.

    Attributes:
        body: The request, as one of a chat.
        numbers: Of the bill, by the names of `USAGE`; those that are there.
        details: Id, model, provider, time and conversation.
        left_out: Why it is no call that was billed; empty if it is one.
    """

    body: Json
    numbers: dict[str, int]
    details: Json
    left_out: str = ""


def spans_in(row: Json) -> list[Json]:
    """The spans of an OTLP export; none if it is no such thing."""
    found = []
    for resources, scopes, spans in LISTS:
        for resource in _list(row.get(resources)):
            for scope in _list(resource.get(scopes)):
                found += _list(scope.get(spans))
    return found


def span_call(span: Json) -> SpanCall | None:
    """The call in a span; None if it has nothing of a model."""
    attributes = _attributes(span.get("attributes"))
    if not any(name.startswith(PREFIXES) for name in attributes):
        return None
    context = span.get("context") if isinstance(span.get("context"), dict) else {}
    ids = {**(context or {}), **span}
    trace = ids.get("traceId") or ids.get("trace_id")
    details = {
        "id": ids.get("spanId") or ids.get("span_id"),
        "trace": trace,
        "parent": span.get("parentSpanId") or span.get("parent_span_id") or span.get("parent_id"),
        "model": _of(attributes, "gen_ai.response.model", "gen_ai.request.model")
        or _of(attributes, "llm.request.model", "llm.model_name"),
        "provider": _of(attributes, "gen_ai.provider.name", "gen_ai.system", "llm.vendor"),
        "created": span.get("startTimeUnixNano") or span.get("start_time"),
        "conversation_id": attributes.get("gen_ai.conversation.id") or trace,
    }
    if reason := _left_out(span, attributes):
        return SpanCall({}, {}, details, reason)
    body: Json = {"messages": [*_system(attributes), *_messages(span, attributes)]}
    if tools := _tools(attributes):
        body["tools"] = tools
    found = {field: _of(attributes, *names) for field, names in USAGE.items()}
    numbers = {field: number for field, it in found.items() if (number := _whole(it)) is not None}
    return SpanCall(body, numbers, details)


def _left_out(span: Json, attributes: Json) -> str:
    operation = str(_of(attributes, *OPERATION_NAMES) or "")
    kind = str(_of(attributes, *SPAN_KINDS) or "LLM")
    first = str(span.get("name") or "").partition(" ")[0]
    if operation not in {"", *CALLS} or kind.upper() != "LLM" or first in SUMS:
        return "a span that is no single call of a model: an agent, a tool or the like"
    status = span.get("status") if isinstance(span.get("status"), dict) else {}
    code = (status or {}).get("code") or (status or {}).get("status_code")
    if "error.type" in attributes or code in {2, "ERROR", "STATUS_CODE_ERROR"}:
        return "a call that failed"
    return ""


SUMS: Final = frozenset({"create_agent", "execute_tool", "invoke_agent", "invoke_workflow"})


def _of(attributes: Json, *names: str) -> Any:
    return next((attributes[name] for name in names if attributes.get(name) is not None), None)


def _whole(value: object) -> int | None:
    """A count, of text too: exporters write integers so."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS:
        return int(value)
    return number_of(value)


MOST_DIGITS: Final = 15


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


def _messages(span: Json, attributes: Json) -> Iterator[Json]:
    """The messages, in whichever generation of the conventions they are."""
    events = [*_list(span.get("events")), *_list(_parsed(attributes.get("events")))]
    for event in events:
        attributes = {**_attributes(event.get("attributes")), **attributes}
    for name in ("gen_ai.input.messages", "gen_ai.prompt"):
        messages = _parsed(attributes.get(name))
        if isinstance(messages, list):
            for message in _list(messages):
                yield from _message(message)
            return
    found = [*_numbered(attributes), *filter(None, map(_event, events))]
    yield from found


def _event(event: Json) -> Json | None:
    """The message of an event; None if it is another."""
    fields = {**event, **_attributes(event.get("attributes"))}
    match = EVENT.fullmatch(str(event.get("event.name") or event.get("name")))
    if match is None:
        return None
    content = _parsed(fields.get("gen_ai.event.content"))
    fields |= content if isinstance(content, dict) else {}
    found: Json = {"role": fields.get("role") or match[1], "content": fields.get("content")}
    if match[1] == "tool":
        found |= {"role": "tool", "tool_call_id": fields.get("id")}
    calls = _list(_parsed(fields.get("tool_calls")))
    return {**found, "tool_calls": calls} if calls else found


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
            field = CALL_FIELDS.sub(r"\1.\2", match[2])
            by_number.setdefault(int(match[1]), {})[field] = value
    for _, fields in sorted(by_number.items()):
        content = fields.get("content") or "".join(_contents(fields))
        found: Json = {"role": fields.get("role") or "user", "content": content}
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


def _contents(fields: Json) -> Iterator[str]:
    """The texts of a message in several parts, in their order."""
    parts = {
        int(match[1]): it for name, it in fields.items() if (match := CONTENTS.fullmatch(name))
    }
    yield from (str(text) for _, text in sorted(parts.items()))


def _tools(attributes: Json) -> list[Json]:
    found = []
    for tool in _list(_parsed(attributes.get("gen_ai.tool.definitions"))):
        is_wrapped = isinstance(tool.get("function"), dict)
        names = ("name", "description", "parameters")
        function = {name: tool[name] for name in names if name in tool}
        found.append(tool if is_wrapped else {"type": "function", "function": function})
    return found
