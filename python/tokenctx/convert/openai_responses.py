"""OpenAI Responses: a list of items, of which those of one answer are one neutral message."""

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
    Refusal,
    ResponseFormat,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Unknown,
)
from tokenctx.convert.openai_chat import (
    EFFORTS,
    read_choice,
    read_schema,
    read_upload,
    read_url,
    write_schema,
)
from tokenctx.convert.rules import UNKNOWN_TOOL, IdRule, Rules, Writer, is_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tokenctx.convert.notes import Notes
    from tokenctx.convert.rules import PartWriter

ROLES: Final[MappingProxyType[str, Role]] = MappingProxyType(
    {
        "system": "system",
        "developer": "developer",
        "user": "user",
        "assistant": "assistant",
    }
)
LONGEST_CALL_ID: Final = 64


# ------------------------------------------------------------------------------ options


def _write_choice(choice: ToolChoice) -> Any:
    if choice.mode != "tool":
        return choice.mode
    return {"type": "custom" if choice.is_custom else "function", "name": choice.name}


def _read_format(value: Any) -> ResponseFormat | None:
    if not isinstance(value, dict):
        return None
    kind = {"text": "text", "json_object": "json"}.get(str(value.get("type")))
    return read_schema(value) if kind is None else ResponseFormat(kind)


def _write_format(wanted: ResponseFormat) -> Json:
    if wanted.kind == "schema":
        return {"type": "json_schema", **write_schema(wanted)}
    return {"type": "json_object" if wanted.kind == "json" else "text"}


FIELDS: Final = (
    Field("model", "model"),
    Field("max_output_tokens", "max_output_tokens"),
    Field("temperature", "temperature"),
    Field("top_p", "top_p"),
    Field("top_logprobs", "top_logprobs"),
    Field("stream", "stream"),
    Field("user", "user_id"),
    Field("metadata", "metadata"),
    Field("store", "store"),
    Field(
        "service_tier",
        "service_tier",
        write=one_of("auto", "default", "flex", "scale", "priority"),
    ),
    Field("safety_identifier", "safety_identifier"),
    Field("prompt_cache_key", "prompt_cache_key"),
    Field("text.verbosity", "verbosity", write=one_of("low", "medium", "high")),
    Field("text.format", "response_format", read=_read_format, write=_write_format),
    Field("reasoning.effort", "reasoning_effort", write=one_of(*EFFORTS)),
    Field("tool_choice", "tool_choice", read=read_choice, write=_write_choice),
    Field("parallel_tool_calls", "parallel_tool_calls"),
)


# ------------------------------------------------------------------------------ reading


def read(body: Json, notes: Notes) -> Conversation:
    """The neutral conversation of a Responses body."""
    options, extra = read_options(body, FIELDS, frozenset({"input", "tools", "instructions"}))
    messages: list[Message] = []
    instructions = body.get("instructions")
    if isinstance(instructions, str):
        path: Path = ("instructions",)
        text = Text(path, text=instructions)
        messages.append(
            Message(path, instructions, {}, None, "system", (text,), is_plain=True, is_top=True)
        )
    elif instructions is not None:
        extra["instructions",] = instructions
    found = body.get("input")
    if isinstance(found, str):
        text = Text(("input",), text=found)
        messages.append(Message(("input",), None, {}, None, "user", (text,), is_plain=True))
    elif isinstance(found, list):
        messages += read_items(found, "input", notes)
    elif found is not None:
        extra["input",] = found
    tools = _read_tools(body.get("tools"), extra)
    return Conversation("openai-responses", tuple(messages), tools, options, extra, body)


_TOOL_KEYS: Final = frozenset({"type", "name", "description", "parameters", "strict"})
_CUSTOM_KEYS: Final = frozenset({"type", "name", "description", "format"})


def _read_tools(value: Any, extra: dict[Path, Any]) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    for index, item in enumerate(value if isinstance(value, list) else []):
        path: Path = ("tools", index)
        kind = item.get("type") if isinstance(item, dict) else None
        if kind not in ("function", "custom") or not isinstance(item.get("name"), str):
            extra[path] = item
        elif kind == "custom":
            rest = {key: item[key] for key in item.keys() - _CUSTOM_KEYS}
            name, about, form = item["name"], item.get("description"), item.get("format")
            tools.append(Tool(path, item, rest, None, name, about, is_custom=True, format=form))
        else:
            rest = {key: item[key] for key in item.keys() - _TOOL_KEYS}
            strict = True if item.get("strict") is True else None  # false is what others mean
            name, about, schema = item["name"], item.get("description"), item.get("parameters")
            tools.append(Tool(path, item, rest, None, name, about, schema, strict))
    if value is not None and not isinstance(value, list):
        extra["tools",] = value
    return tuple(tools)


def read_items(items: list[Any], field: str, notes: Notes) -> Iterator[Message]:
    """Messages of a list of items; reasoning, text and calls of one answer are one message."""
    answer: list[tuple[Path, Any, tuple[Part, ...], Json]] = []
    for index, item in enumerate(items):
        path: Path = (field, index)
        kind = item.get("type", "message") if isinstance(item, dict) else None
        reader = _ITEM_READERS.get(kind) if isinstance(kind, str) else None
        part = reader(item, path, notes) if reader is not None else None
        if isinstance(part, ToolCall | Reasoning):
            answer.append((path, item, (part,), {}))
            continue
        if kind == "message" and item.get("role") == "assistant":
            if any(isinstance(inner, Text) for _, _, inners, _ in answer for inner in inners):
                yield _answer(answer)
                answer = []
            parts = tuple(_read_content(item.get("content"), (*path, "content"), notes))
            answer.append((path, item, parts, _message_rest(item)))
            continue
        if answer:
            yield _answer(answer)
            answer = []
        if isinstance(part, ToolResult):
            yield Message(path, [item], {}, None, "tool", (part,))
        else:
            yield _read_message(item, kind, path, notes)
    if answer:
        yield _answer(answer)


def _answer(items: list[tuple[Path, Any, tuple[Part, ...], Json]]) -> Message:
    parts = tuple(part for _, _, inner, _ in items for part in inner)
    is_plain = any(isinstance(item.get("content"), str) for _, item, _, _ in items)
    extra = {name: value for *_, rest in items for name, value in rest.items()}
    path = next((path for path, _, _, rest in items if rest), items[0][0])
    raw = [item for _, item, _, _ in items]
    return Message(path, raw, extra, None, "assistant", parts, is_plain)


def _message_rest(item: Json) -> Json:
    return {key: value for key, value in item.items() if key not in {"type", "role", "content"}}


def _read_message(item: Any, kind: Any, path: Path, notes: Notes) -> Message:
    if kind != "message":
        notes.warn("unknown_message", path)
        return Message(path, [item], {}, None, "user", (Unknown(path, item),))
    role = ROLES.get(item["role"]) if isinstance(item.get("role"), str) else None
    if role is None:
        notes.warn("unknown_role", (*path, "role"))
    content = item.get("content")
    parts = tuple(_read_content(content, (*path, "content"), notes))
    is_plain = isinstance(content, str)
    return Message(path, [item], _message_rest(item), None, role or "user", parts, is_plain)


def _read_content(content: Any, path: Path, notes: Notes) -> list[Part]:
    if isinstance(content, str):
        return [Text(path, text=content)]
    if isinstance(content, list):
        return [_read_part(item, (*path, index), notes) for index, item in enumerate(content)]
    if content is None:
        return []
    notes.warn("unknown_part", path)
    return [Unknown(path, content)]


def _read_part(item: Any, path: Path, notes: Notes) -> Part:
    kind = item.get("type") if isinstance(item, dict) else None
    reader = _PART_READERS.get(kind) if isinstance(kind, str) else None
    part = reader(item, path) if reader is not None else None
    if part is None:
        notes.warn("unknown_part", path)
        return Unknown(path, item)
    return part


def _rest(item: Json, *names: str) -> Json:
    return {key: value for key, value in item.items() if key != "type" and key not in names}


def _read_text(item: Json, path: Path) -> Part | None:
    text, notes = item.get("text"), item.get("annotations")
    if not isinstance(text, str):
        return None
    cited = tuple(notes) if isinstance(notes, list) else ()
    extra = {key: value for key, value in _rest(item, "text", "annotations").items() if value}
    return Text(path, item, extra, text=text, citations=cited)


def _read_refusal(item: Json, path: Path) -> Part | None:
    text = item.get("refusal")
    return Refusal(path, item, text=text) if isinstance(text, str) else None


def _read_image(item: Json, path: Path) -> Part | None:
    url, file_id, detail = item.get("image_url"), item.get("file_id"), item.get("detail")
    if isinstance(url, str):
        media = read_url(url)
    elif isinstance(file_id, str):
        media = Media(file_id=file_id, owner="openai", mime="image/png")
    else:
        return None
    extra = _rest(item, "image_url", "file_id", "detail")
    return Image(path, item, extra, media=media, detail=None if detail == "auto" else detail)


def _read_file(item: Json, path: Path) -> Part | None:
    url, name = item.get("file_url"), item.get("filename")
    if isinstance(url, str):
        media: Media | None = Media(url=url, mime="application/pdf")
    else:
        media = read_upload(item.get("file_data"), item.get("file_id"), name)
    if media is None:
        return None
    extra = _rest(item, "file_url", "file_data", "file_id", "filename")
    return File(path, item, extra, media=media, name=name if isinstance(name, str) else None)


_PART_READERS: Final = functions_of(
    "openai-responses",
    "part",
    {"text": _read_text, "refusal": _read_refusal, "image": _read_image, "file": _read_file},
)
_ITEMS: Final = types_of("openai-responses", "item")


def _read_call(item: Json, path: Path, _: Notes) -> Part | None:
    part = _ITEMS[item["type"]]
    name, call_id, item_id = item.get(part.name), item.get(part.id), item.get("id")
    if not isinstance(name, str):
        return None
    arguments = item.get(part.arguments[0])
    return ToolCall(
        path,
        item,
        _rest(item, "id", part.id, part.name, part.arguments[0]),
        id=call_id if isinstance(call_id, str) and call_id else None,
        name=name,
        arguments=arguments,
        is_text=isinstance(arguments, str),
        is_custom=part.is_custom,
        item_id=item_id if isinstance(item_id, str) else None,
    )


def _read_output(item: Json, path: Path, notes: Notes) -> Part:
    part = _ITEMS[item["type"]]
    output, call_id = item.get(part.content[0]), item.get(part.id)
    return ToolResult(
        path,
        item,
        _rest(item, part.id, part.content[0]),
        call_id=call_id if isinstance(call_id, str) and call_id else None,
        parts=tuple(_read_content(output, (*path, part.content[0]), notes)),
        is_plain=not isinstance(output, list),
        is_custom=part.is_custom,
    )


def _read_reasoning(item: Json, path: Path, _: Notes) -> Part | None:
    summary, item_id, secret = item.get("summary"), item.get("id"), item.get("encrypted_content")
    texts = [part.get("text") for part in summary or ()] if _is_objects(summary) else []
    return Reasoning(
        path,
        item,
        _rest(item, "id", "summary", "encrypted_content"),
        text="\n\n".join(text for text in texts if isinstance(text, str)),
        encrypted=secret if isinstance(secret, str) else None,
        id=item_id if isinstance(item_id, str) else None,
        maker="openai",
    )


def _is_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


_ITEM_READERS: Final = functions_of(
    "openai-responses",
    "item",
    {"call": _read_call, "result": _read_output, "reasoning": _read_reasoning},
)


# ------------------------------------------------------------------------------ writing


def write(conversation: Conversation, writer: Writer) -> Json:
    """A Responses body."""
    body = dict(conversation.raw) if writer.is_same else {}
    messages = list(conversation.messages)
    if not writer.is_same:
        write_options(conversation, FIELDS, body, writer.notes)
        if messages and messages[0].is_top and len(messages[0].parts) == 1:
            first = messages.pop(0)
            body["instructions"] = _instructions(first, writer)
    rest = [message for message in messages if not (writer.is_same and message.is_top)]
    if writer.is_same and all(m.raw is None and m.path == ("input",) for m in rest):
        return body
    body["input"] = [item for message in rest for item in _write_items(message, writer)]
    if conversation.tools and not writer.is_same:
        body["tools"] = [_write_tool(tool, writer) for tool in conversation.tools]
    return body


def _instructions(message: Message, writer: Writer) -> str:
    writer.message(message, {})
    written = writer.parts(message.parts, "system")
    return "".join(item["text"] for item in written)


def _write_tool(tool: Tool, writer: Writer) -> Json:
    value: Json = {"type": "custom" if tool.is_custom else "function", "name": tool.name}
    if tool.description is not None:
        value["description"] = tool.description
    if not tool.is_custom:
        value["parameters"] = tool.schema if isinstance(tool.schema, dict) else None
        value["strict"] = tool.strict is True  # here the default is true, elsewhere it is false
    elif tool.format is not None:
        value["format"] = tool.format
    finished: Json = writer.finish(tool, value)
    return finished


def _write_items(message: Message, writer: Writer) -> list[Any]:
    if writer.is_same and message.raw is not None:
        return list(message.raw)
    if message.role == "tool":
        written = writer.parts(message.parts, "result")
        writer.message(message, {})
        return written
    if message.role == "assistant":
        return _write_answer(message, writer)
    parts = writer.parts(message.parts, "user" if message.role == "user" else "system")
    if not parts and message.parts:
        return []
    is_single = len(parts) == 1 and is_text(parts[0])
    content = parts[0]["text"] if is_single and message.is_plain else parts
    return [writer.message(message, {"role": message.role, "content": content or ""})]


def _write_answer(message: Message, writer: Writer) -> list[Any]:
    """Each part is an item; a text is a message, which need not have the id of an answer."""
    items: list[Any] = []
    for part in message.parts:
        item = writer.part(part, "assistant")
        if item is not None and isinstance(part, ToolCall | Reasoning):
            items.append(item)
        elif item is not None:
            items.append({"role": "assistant", "content": item.get("text", [item])})
    if not message.parts:
        items.append({"role": "assistant", "content": ""})
    writer.message(message, {})
    return items


def write_output(message: Message, item_id: str, writer: Writer) -> list[Any]:
    """The items of an answer, where a text is an item with an id and a status."""
    items: list[Any] = []
    for number, part in enumerate(message.parts):
        item = writer.part(part, "assistant")
        if item is None:
            continue
        if isinstance(part, Refusal):
            content: Json = {"type": "refusal", "refusal": part.text}
        elif isinstance(part, ToolCall | Reasoning):
            items.append({"status": "completed", **item} if isinstance(part, ToolCall) else item)
            continue
        else:
            content = {"type": "output_text", "text": item["text"], "annotations": []}
        head = {"type": "message", "id": f"{item_id}_{number}", "role": "assistant"}
        items.append({**head, "status": "completed", "content": [content]})
    return items


def _write_text(part: Text, writer: Writer) -> Json:
    for _ in part.citations[:1]:
        writer.notes.lose("citations", (*part.path, "citations"))
    writer.signature(part)
    return {"type": "input_text", "text": part.text}


def _write_image(part: Image, writer: Writer) -> Json | None:
    value: Json = {"type": "input_image", "detail": part.detail or "auto"}
    if writer.takes_file_id(part.media):
        return {**value, "file_id": part.media.file_id}
    if part.media.is_web or writer.takes_data(part):
        return {**value, "image_url": part.media.as_url}
    return None


def _write_file(part: File, writer: Writer) -> Json | None:
    media = part.media
    if writer.takes_file_id(media):
        return {"type": "input_file", "file_id": media.file_id}
    if media.is_web and mime.accepts("openai-responses", media.mime):
        if part.name is not None:
            writer.notes.lose("name", (*part.path, "name"))
        return {"type": "input_file", "file_url": media.url}
    if not writer.takes_data(part):
        return None
    return {"type": "input_file", "filename": part.name or "file.pdf", "file_data": media.as_url}


def _write_call(part: ToolCall, writer: Writer) -> Json:
    writer.signature(part)
    value: Json = {"call_id": part.id or UNKNOWN_TOOL, "name": part.name}
    if part.item_id is not None:
        value["id"] = part.item_id
    if part.is_custom:
        writer.custom_calls.add(part.id)
        return {"type": "custom_tool_call", **value, "input": part.arguments_text()}
    return {"type": "function_call", **value, "arguments": part.arguments_text()}


def _write_output(part: ToolResult, writer: Writer) -> Json:
    if part.is_error and part.raw is not None:
        writer.notes.lose("error_flag", (*part.path, "is_error"))
    is_custom = part.is_custom or part.call_id in writer.custom_calls
    kind = "custom_tool_call_output" if is_custom else "function_call_output"
    parts = writer.parts(part.parts, "user")
    is_single = len(parts) == 1 and is_text(parts[0]) and part.is_plain
    output = parts[0]["text"] if is_single else parts or ""
    return {"type": kind, "call_id": part.call_id or UNKNOWN_TOOL, "output": output}


def _write_reasoning(part: Reasoning, _: Writer) -> Json | None:
    if part.maker != "openai" or (part.id is None and part.encrypted is None):
        return None
    value: Json = {"type": "reasoning"}
    if part.id is not None:
        value["id"] = part.id
    value["summary"] = [{"type": "summary_text", "text": part.text}] if part.text else []
    if part.encrypted is not None:
        value["encrypted_content"] = part.encrypted
    return value


_CONTENT: Final[Mapping[type, PartWriter]] = MappingProxyType(
    {Text: _write_text, Image: _write_image, File: _write_file}
)

RULES: Final = Rules(
    name="openai-responses",
    list_field="input",
    maker="openai",
    read=read,
    write=write,
    fields=FIELDS,
    parts=MappingProxyType(
        {
            "system": {Text: _write_text},
            "user": _CONTENT,
            "assistant": {
                Text: _write_text,
                ToolCall: _write_call,
                Reasoning: _write_reasoning,
            },
            "result": {ToolResult: _write_output, **_CONTENT},
        }
    ),
    results="tool",
    system="list",
    has_developer=True,
    has_custom=True,
    continues=False,
    ids=IdRule(LONGEST_CALL_ID),
)
