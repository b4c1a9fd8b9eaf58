"""Anthropic Messages."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.parts import functions_of, types_of
from tokenctx.convert import mime
from tokenctx.convert.fields import Field, one_of, read_options, write_options
from tokenctx.convert.model import (
    Conversation,
    File,
    Image,
    Json,
    Media,
    Message,
    Part,
    Path,
    Reasoning,
    ResponseFormat,
    Role,
    Summary,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Unknown,
    changed,
)
from tokenctx.convert.rules import ID_LETTERS, UNKNOWN_TOOL, IdRule, Rules, Writer, is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenctx.convert.notes import Notes
    from tokenctx.convert.rules import PartWriter, Place

ROLES: Final[MappingProxyType[str, Role]] = MappingProxyType(
    {"user": "user", "assistant": "assistant", "system": "system"}
)
CHOICES: Final = MappingProxyType({"auto": "auto", "any": "required", "none": "none"})
WORDS: Final = MappingProxyType({word: name for name, word in CHOICES.items()})
EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
LONGEST_CALL_ID: Final = 64
LEAST_THINKING_BUDGET: Final = 1024


# ------------------------------------------------------------------------------ options


def _read_choice(value: Any) -> ToolChoice | None:
    if not isinstance(value, dict):
        return None
    if value.get("type") == "tool" and isinstance(value.get("name"), str):
        return ToolChoice("tool", value["name"])
    mode = CHOICES.get(str(value.get("type")))
    return None if mode is None else ToolChoice(mode)


def _write_choice(choice: ToolChoice) -> Json:
    if choice.mode == "tool":
        return {"type": "tool", "name": choice.name}
    return {"type": WORDS[choice.mode]}


def _read_parallel(value: Any) -> bool | None:
    disabled = value.get("disable_parallel_tool_use") if isinstance(value, dict) else None
    return not disabled if isinstance(disabled, bool) else None


def _write_parallel(is_parallel: bool) -> Json:  # noqa: FBT001  # the value of an option
    return {"disable_parallel_tool_use": not is_parallel}


def _read_format(value: Any) -> ResponseFormat | None:
    if not isinstance(value, dict) or set(value) != {"type", "schema"}:
        return None
    return ResponseFormat("schema", value["schema"])


def _write_format(wanted: ResponseFormat) -> Json | None:
    if wanted.kind != "schema":
        return None
    return {"type": "json_schema", "schema": wanted.schema}


def _read_budget(value: Any) -> int | None:
    if not isinstance(value, dict) or set(value) != {"type", "budget_tokens"}:
        return 0 if value == {"type": "disabled"} else None
    budget = value["budget_tokens"]
    return budget if isinstance(budget, int) else None


def _write_budget(budget: int) -> Json | None:
    if budget == 0:
        return {"type": "disabled"}
    if budget < LEAST_THINKING_BUDGET:
        return None
    return {"type": "enabled", "budget_tokens": budget}


FIELDS: Final = (
    Field("model", "model"),
    Field("max_tokens", "max_output_tokens"),
    Field("temperature", "temperature"),
    Field("top_p", "top_p"),
    Field("top_k", "top_k", write=lambda value: int(value) if value == int(value) else None),
    Field("stop_sequences", "stop"),
    Field("stream", "stream"),
    Field("metadata.user_id", "user_id"),
    Field("tool_choice", "parallel_tool_calls", read=_read_parallel, write=_write_parallel),
    Field("tool_choice", "tool_choice", read=_read_choice, write=_write_choice),
    Field("output_config.effort", "reasoning_effort", write=one_of(*EFFORTS)),
    Field("output_config.format", "response_format", read=_read_format, write=_write_format),
    Field("output_format", "response_format", read=_read_format, write=None),
    Field("thinking", "thinking_budget", read=_read_budget, write=_write_budget),
)


# ------------------------------------------------------------------------------ reading


def read(body: Json, notes: Notes) -> Conversation:
    """The neutral conversation of a Messages body."""
    options, extra = read_options(body, FIELDS, frozenset({"messages", "tools", "system"}))
    messages: list[Message] = []
    system = body.get("system")
    if system is not None:
        parts = tuple(read_content(system, ("system",), notes))
        is_plain = isinstance(system, str)
        messages.append(
            Message(("system",), system, {}, None, "system", parts, is_plain, is_top=True)
        )
    found = body.get("messages")
    for index, item in enumerate(found if isinstance(found, list) else []):
        messages.append(_read_message(item, ("messages", index), notes))
    if found is not None and not isinstance(found, list):
        extra["messages",] = found
    tools = _read_tools(body.get("tools"), extra)
    return Conversation("anthropic", tuple(messages), tools, options, extra, body)


_TOOL_KEYS: Final = frozenset(
    {"type", "name", "description", "input_schema", "strict", "cache_control"}
)


def _read_tools(value: Any, extra: dict[Path, Any]) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    for index, item in enumerate(value if isinstance(value, list) else []):
        path: Path = ("tools", index)
        is_function = isinstance(item, dict) and item.get("type") in (None, "custom")
        if is_function and isinstance(item.get("name"), str):
            rest = {key: item[key] for key in item.keys() - _TOOL_KEYS}
            cache, name, about = item.get("cache_control"), item["name"], item.get("description")
            schema, strict = item.get("input_schema"), item.get("strict")
            tools.append(Tool(path, item, rest, cache, name, about, schema, strict))
        else:
            extra[path] = item
    if value is not None and not isinstance(value, list):
        extra["tools",] = value
    return tuple(tools)


def _read_message(value: Any, path: Path, notes: Notes) -> Message:
    if not isinstance(value, dict):
        notes.warn("unknown_message", path)
        return Message(path, value, parts=(Unknown(path, value),))
    role = ROLES.get(value["role"]) if isinstance(value.get("role"), str) else None
    if role is None:
        notes.warn("unknown_role", (*path, "role"))
    content = value.get("content")
    extra = {key: item for key, item in value.items() if key not in {"role", "content"}}
    parts = tuple(read_content(content, (*path, "content"), notes))
    return Message(path, value, extra, None, role or "user", parts, isinstance(content, str))


def read_content(content: Any, path: Path, notes: Notes) -> list[Part]:
    """Content that is a string, a list of blocks or nothing; of the answer of a model too."""
    if isinstance(content, str):
        return [Text(path, text=content)]
    if isinstance(content, list):
        return [_read_block(item, (*path, index), notes) for index, item in enumerate(content)]
    if content is None:
        return []
    notes.warn("unknown_part", path)
    return [Unknown(path, content)]


def _read_block(item: Any, path: Path, notes: Notes) -> Part:
    if isinstance(item, str):
        return Text(path, item, text=item)
    kind = item.get("type") if isinstance(item, dict) else None
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    part = reader(item, path, notes) if reader is not None else None
    if part is None:
        notes.warn("unknown_part", path)
        return Unknown(path, item)
    return part


def _rest(item: Json, *names: str) -> Json:
    return {
        key: value
        for key, value in item.items()
        if key not in {"type", "cache_control"} and key not in names
    }


def _read_text(item: Json, path: Path, _: Notes) -> Part | None:
    text, citations = item.get("text"), item.get("citations")
    if not isinstance(text, str):
        return None
    extra = _rest(item, "text", "citations")
    cited = tuple(citations) if isinstance(citations, list) else ()
    return Text(path, item, extra, item.get("cache_control"), text, cited)


def _read_summary(item: Json, path: Path, _: Notes) -> Part | None:
    text = item.get("content")
    if not isinstance(text, str):
        return None
    return Summary(path, item, _rest(item, "content"), item.get("cache_control"), text)


def _read_source(source: Any) -> Media | None:
    if not isinstance(source, dict):
        return None
    named = mime.normalize(source.get("media_type"))
    kind, data = source.get("type"), source.get("data")
    if kind == "base64" and isinstance(data, str):
        return Media(data=data, mime=named)
    if kind == "text" and isinstance(data, str):
        return Media(text=data, mime=named or "text/plain")
    if kind == "url" and isinstance(source.get("url"), str):
        return Media(url=source["url"], mime=named)
    if kind == "file" and isinstance(source.get("file_id"), str):
        return Media(file_id=source["file_id"], owner="anthropic")
    return None


def _read_image(item: Json, path: Path, _: Notes) -> Part | None:
    media = _read_source(item.get("source"))
    if media is None:
        return None
    return Image(path, item, _rest(item, "source"), item.get("cache_control"), media)


def _read_document(item: Json, path: Path, _: Notes) -> Part | None:
    media = _read_source(item.get("source"))
    if media is None:
        return None
    extra, name = _rest(item, "source", "title"), item.get("title")
    is_pdf = media.url is not None and media.mime is None
    media = Media(url=media.url, mime="application/pdf") if is_pdf else media
    title = name if isinstance(name, str) else None
    return File(path, item, extra, item.get("cache_control"), media, title)


def _read_use(item: Json, path: Path, _: Notes) -> Part | None:
    part = _BLOCKS[item["type"]]
    name, call_id = item.get(part.name), item.get(part.id)
    if not isinstance(name, str):
        return None
    return ToolCall(
        path,
        item,
        _rest(item, part.id, part.name, part.arguments[0]),
        item.get("cache_control"),
        call_id if isinstance(call_id, str) else None,
        name,
        item.get(part.arguments[0]),
    )


def _kind(item: Json) -> str | None:
    kind = item.get("type")
    part = _BLOCKS.get(kind) if isinstance(kind, str) else None
    return None if part is None else part.kind


def _read_inner(content: Any, path: Path, notes: Notes) -> list[Part]:
    """The content of a result, which holds no results."""
    if not isinstance(content, list):
        return read_content(content, path, notes)
    return [
        Unknown((*path, index), item)
        if isinstance(item, dict) and _kind(item) == "result"
        else _read_block(item, (*path, index), notes)
        for index, item in enumerate(content)
    ]


def _read_result(item: Json, path: Path, notes: Notes) -> Part:
    part = _BLOCKS[item["type"]]
    call_id, content = item.get(part.id), item.get(part.content[0])
    return ToolResult(
        path,
        item,
        _rest(item, part.id, part.content[0], "is_error"),
        item.get("cache_control"),
        call_id if isinstance(call_id, str) else None,
        parts=tuple(_read_inner(content, (*path, part.content[0]), notes)),
        is_error=item.get("is_error") is True,
        is_plain=not isinstance(content, list),
    )


def _read_thinking(item: Json, path: Path, _: Notes) -> Part | None:
    text, signature = item.get("thinking"), item.get("signature")
    if not isinstance(text, str):
        return None
    maker = "anthropic" if isinstance(signature, str) else None
    extra = _rest(item, "thinking", "signature")
    return Reasoning(path, item, extra, None, text, signature, maker=maker)  # type: ignore[arg-type]


def _read_redacted(item: Json, path: Path, _: Notes) -> Part | None:
    data = item.get("data")
    if not isinstance(data, str):
        return None
    return Reasoning(path, item, _rest(item, "data"), encrypted=data, maker="anthropic")


_FUNCTIONS: Final[Mapping[str, Callable[[Json, Path, Notes], Part | None]]] = MappingProxyType(
    {
        "text": _read_text,
        "image": _read_image,
        "file": _read_document,
        "call": _read_use,
        "result": _read_result,
        "reasoning": _read_thinking,
        "redacted_thinking": _read_redacted,
        "summary": _read_summary,
    }
)
_READERS: Final = functions_of("anthropic", "part", _FUNCTIONS)
_BLOCKS: Final = types_of("anthropic", "part")


# ------------------------------------------------------------------------------ writing


def write(conversation: Conversation, writer: Writer) -> Json:
    """A Messages body; `max_tokens` is demanded and added if it is missing."""
    body = dict(conversation.raw) if writer.is_same else {}
    if not writer.is_same:
        write_options(conversation, FIELDS, body, writer.notes)
        _fix_options(body, conversation, writer)
    top = [message for message in conversation.messages if message.is_top]
    if top and not writer.is_same:
        body["system"] = _write_system(top, writer)
    rest = [message for message in conversation.messages if not message.is_top]
    written = [_write_message(message, writer) for message in _without_trailing_space(rest, writer)]
    body["messages"] = [message for message in written if message is not None]
    if conversation.tools and not writer.is_same:
        body["tools"] = [_write_tool(tool, writer) for tool in conversation.tools]
    return body


def _fix_options(body: Json, conversation: Conversation, writer: Writer) -> None:
    limit = writer.notes.options.max_output_tokens
    if "max_tokens" not in body:
        writer.notes.warn("added", ("max_tokens",))
        budget = body.get("thinking", {}).get("budget_tokens", 0)
        body["max_tokens"] = limit if budget < limit else budget + limit
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "none" and len(choice) > 1:
        writer.notes.lose("option", conversation.options["parallel_tool_calls"].path)
        body["tool_choice"] = {"type": "none"}  # it has no calls that could be parallel
    elif isinstance(choice, dict):
        choice.setdefault("type", "auto")


def _write_system(top: list[Message], writer: Writer) -> Any:
    for message in top:
        writer.message(message, {})
    blocks = [block for message in top for block in writer.parts(message.parts, "system")]
    is_plain = len(blocks) == 1 and top[0].is_plain and is_text(blocks[0])
    return blocks[0]["text"] if is_plain else blocks


def _write_tool(tool: Tool, writer: Writer) -> Json:
    value: Json = {"name": tool.name}
    if tool.description is not None:
        value["description"] = tool.description
    schema = tool.schema if isinstance(tool.schema, dict) else {}
    value["input_schema"] = schema if "type" in schema else {"type": "object", **schema}
    if tool.strict is not None:
        value["strict"] = tool.strict
    return with_cache(tool, writer.finish(tool, value))


def with_cache(node: Any, value: Json) -> Json:
    """`value` with the cache marker of `node`."""
    if node.cache is not None:
        value["cache_control"] = node.cache
    return value


def _without_trailing_space(messages: list[Message], writer: Writer) -> list[Message]:
    """The beginning of the answer, if the last message is one, may not end in white space."""
    if writer.is_same or not messages or messages[-1].role != "assistant":
        return messages
    last = messages[-1]
    text = last.parts[-1] if last.parts else None
    if not isinstance(text, Text) or text.text == text.text.rstrip():
        return messages
    writer.notes.lose("prefill", text.path)
    part = changed(text, text=text.text.rstrip())
    return [*messages[:-1], changed(last, parts=(*last.parts[:-1], part))]


def _write_message(message: Message, writer: Writer) -> Any:
    if writer.is_same and message.raw is not None:
        return message.raw
    role = {"assistant": "assistant", "system": "system"}.get(message.role, "user")
    place: Place = role  # type: ignore[assignment]
    parts = writer.parts(message.parts, place)
    if not parts:
        writer.notes.lose("empty_message", message.path)
        return None
    is_single = len(parts) == 1 and is_text(parts[0])
    content = parts[0]["text"] if message.is_plain and is_single else parts
    return writer.message(message, {"role": role, "content": content})


def _write_text(part: Text, writer: Writer) -> Json | None:
    if not part.text or part.text.isspace():
        writer.notes.lose("empty_message", part.path)
    for _ in part.citations[:1]:
        writer.notes.lose("citations", (*part.path, "citations"))
    writer.signature(part)
    return with_cache(part, {"type": "text", "text": part.text})


def _write_source(part: Image | File, writer: Writer) -> Json | None:
    media = part.media
    if writer.takes_file_id(media):
        return {"type": "file", "file_id": media.file_id}
    if media.is_web:
        return {"type": "url", "url": media.url}
    if media.data is not None and writer.takes_data(part):
        return {"type": "base64", "media_type": media.mime, "data": media.data}
    return None


def _write_image(part: Image, writer: Writer) -> Json | None:
    source = _write_source(part, writer)
    if source is None:
        return None
    if part.detail is not None:
        writer.notes.lose("field", (*part.path, "detail"))
    return with_cache(part, {"type": "image", "source": source})


def _write_document(part: File, writer: Writer) -> Json | None:
    media = part.media
    if media.text is not None:
        source: Json | None = {"type": "text", "media_type": "text/plain", "data": media.text}
    elif media.mime == "application/pdf" or media.file_id is not None:
        source = _write_source(part, writer)
    else:
        return None
    if source is None:
        return None
    value: Json = {"type": "document", "source": source}
    if part.name is not None:
        value["title"] = part.name
    return with_cache(part, value)


def _write_use(part: ToolCall, writer: Writer) -> Json:
    arguments, is_object = part.arguments_object()
    if part.is_custom:
        writer.notes.lose("custom_tool", part.path)
    elif not is_object:
        writer.notes.warn("invalid_arguments", part.path)
    if part.item_id is not None:
        writer.notes.lose("item_id", (*part.path, "id"))
    writer.signature(part)
    value = {"type": "tool_use", "id": part.id or UNKNOWN_TOOL, "name": part.name}
    return with_cache(part, {**value, "input": arguments})


def _write_result(part: ToolResult, writer: Writer) -> Json:
    value: Json = {"type": "tool_result", "tool_use_id": part.call_id or UNKNOWN_TOOL}
    parts = [item for item in part.parts if not (isinstance(item, Text) and not item.text)]
    content = writer.parts(parts, "result")
    is_single = len(content) == 1 and is_text(content[0])
    if content:
        value["content"] = content[0]["text"] if part.is_plain and is_single else content
    if part.is_error:
        value["is_error"] = True
    return with_cache(part, value)


def _write_reasoning(part: Reasoning, _: Writer) -> Json | None:
    if part.maker != "anthropic":
        return None
    if part.encrypted is not None:
        return {"type": "redacted_thinking", "data": part.encrypted}
    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


_CONTENT: Final[Mapping[type, PartWriter]] = MappingProxyType(
    {Text: _write_text, Image: _write_image, File: _write_document}
)

RULES: Final = Rules(
    name="anthropic",
    list_field="messages",
    maker="anthropic",
    read=read,
    write=write,
    fields=FIELDS,
    parts=MappingProxyType(
        {
            "system": {Text: _write_text},
            "user": {**_CONTENT, ToolResult: _write_result},
            "assistant": {Text: _write_text, ToolCall: _write_use, Reasoning: _write_reasoning},
            "result": _CONTENT,
        }
    ),
    results="user",
    system="both",
    has_cache=True,
    max_cache_markers=4,
    refuses_empty=True,
    ids=IdRule(LONGEST_CALL_ID, ID_LETTERS),
)
