"""OpenAI Chat Completions, and the many that speak it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.parts import functions_of, types_of
from tokenctx.convert import mime
from tokenctx.convert.fields import Field, one_of, one_or_more, read_options, write_options
from tokenctx.convert.model import (
    NOTHING,
    Audio,
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
    rest,
    with_marker,
)
from tokenctx.convert.rules import UNKNOWN_TOOL, IdRule, Rules, Writer, is_text

if TYPE_CHECKING:
    from tokenctx.convert.notes import Notes
    from tokenctx.convert.rules import Place

ROLES: Final[MappingProxyType[str, Role]] = MappingProxyType(
    {
        "system": "system",
        "developer": "developer",
        "user": "user",
        "assistant": "assistant",
        "tool": "tool",
        "function": "tool",
    }
)
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh")
AUDIO_FORMATS: Final = MappingProxyType({"audio/wav": "wav", "audio/mpeg": "mp3"})
REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
"""The vendors' fields for thoughts that they return; the same text stands in both."""
EXTRA_CONTENT: Final = "extra_content"
"""Where Google's endpoint for OpenAI's clients has what OpenAI has no field for."""
LONGEST_CALL_ID: Final = 40
"""OpenAI refuses longer ones: the API's error `string_above_max_length`, 2025."""


# ------------------------------------------------------------------------------ options


def read_choice(value: Any) -> ToolChoice | None:
    """The tool choice of both OpenAI dialects."""
    if value in ("auto", "none", "required"):
        return ToolChoice(value)
    kind = value.get("type") if isinstance(value, dict) else None
    if kind in ("function", "custom"):
        tool = value.get(kind, value)
        name = tool.get("name") if isinstance(tool, dict) else None
        return ToolChoice("tool", name, kind == "custom") if isinstance(name, str) else None
    return None


def _write_choice(choice: ToolChoice) -> Any:
    if choice.mode != "tool":
        return choice.mode
    kind = "custom" if choice.is_custom else "function"
    return {"type": kind, kind: {"name": choice.name}}


def _read_format(value: Any) -> ResponseFormat | None:
    if not isinstance(value, dict):
        return None
    kind = {"text": "text", "json_object": "json"}.get(str(value.get("type")))
    if kind is not None:
        return ResponseFormat(kind)
    schema = value.get("json_schema")
    return read_schema(schema) if isinstance(schema, dict) else None


def read_schema(value: Json) -> ResponseFormat | None:
    """A named schema of both OpenAI dialects."""
    known = {"type", "name", "description", "schema", "strict"}
    if value.keys() - known or not isinstance(value.get("schema"), dict):
        return None
    return ResponseFormat(
        "schema", value["schema"], value.get("name"), value.get("description"), value.get("strict")
    )


def write_schema(wanted: ResponseFormat) -> Json:
    """A named schema of both OpenAI dialects; the name is demanded."""
    written: Json = {"name": wanted.name or "response", "schema": wanted.schema}
    if wanted.description is not None:
        written["description"] = wanted.description
    if wanted.strict is not None:
        written["strict"] = wanted.strict
    return written


def _write_format(wanted: ResponseFormat) -> Json:
    if wanted.kind == "schema":
        return {"type": "json_schema", "json_schema": write_schema(wanted)}
    return {"type": "json_object" if wanted.kind == "json" else "text"}


FIELDS: Final = (
    Field("model", "model"),
    Field("max_completion_tokens", "max_output_tokens"),
    Field("max_tokens", "max_output_tokens", write=None),
    Field("temperature", "temperature"),
    Field("top_p", "top_p"),
    Field("seed", "seed"),
    Field("stop", "stop", read=one_or_more),
    Field("presence_penalty", "presence_penalty"),
    Field("frequency_penalty", "frequency_penalty"),
    Field("n", "choice_count"),
    Field("logprobs", "logprobs"),
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
    Field("verbosity", "verbosity", write=one_of("low", "medium", "high")),
    Field("reasoning_effort", "reasoning_effort", write=one_of(*EFFORTS)),
    Field("tool_choice", "tool_choice", read=read_choice, write=_write_choice),
    Field("parallel_tool_calls", "parallel_tool_calls"),
    Field("response_format", "response_format", read=_read_format, write=_write_format),
)


# ------------------------------------------------------------------------------ reading


def read(body: Json, notes: Notes) -> Conversation:
    """The neutral conversation of a Chat Completions body."""
    options, extra = read_options(body, FIELDS, frozenset({"messages", "tools"}))
    messages = body.get("messages")
    found = messages if isinstance(messages, list) else []
    if messages is not None and not isinstance(messages, list):
        extra["messages",] = messages
    return Conversation(
        "openai-chat",
        tuple(read_message(item, ("messages", i), notes) for i, item in enumerate(found)),
        read_tools(body.get("tools"), extra),
        options,
        extra,
        body,
    )


def read_tools(value: Any, extra: dict[Path, Any]) -> tuple[Tool, ...]:
    """The functions among the tools; what is none goes to `extra`."""
    tools: list[Tool] = []
    for index, item in enumerate(value if isinstance(value, list) else []):
        path: Path = ("tools", index)
        function = item.get("function") if isinstance(item, dict) else None
        custom = _read_custom(item, path) if function is None else None
        if custom is not None:
            tools.append(custom)
        elif isinstance(function, dict) and isinstance(function.get("name"), str):
            more = {**rest(function, _FUNCTION_KEYS), **rest(item, _TOOL_KEYS)}
            tools.append(
                Tool(
                    path,
                    item,
                    more,
                    item.get("cache_control"),
                    function["name"],
                    function.get("description"),
                    function.get("parameters"),
                    function.get("strict"),
                )
            )
        else:
            extra[path] = item
    if value is not None and not isinstance(value, list):
        extra["tools",] = value
    return tuple(tools)


def _read_custom(item: Any, path: Path) -> Tool | None:
    """A tool for free text, whose grammar stands here in a field of its own."""
    custom = item.get("custom") if isinstance(item, dict) else None
    if not isinstance(custom, dict) or not isinstance(custom.get("name"), str):
        return None
    form = custom.get("format")
    if isinstance(form, dict) and isinstance(form.get("grammar"), dict):
        form = {"type": form.get("type"), **form["grammar"]}
    more = {**rest(custom, _CUSTOM_KEYS), **rest(item, _TOOL_KEYS)}
    cache, name, about = item.get("cache_control"), custom["name"], custom.get("description")
    return Tool(path, item, more, cache, name, about, is_custom=True, format=form)


_TOOL_KEYS: Final = frozenset({"type", "function", "custom", "cache_control"})
_CUSTOM_KEYS: Final = frozenset({"name", "description", "format"})
_FUNCTION_KEYS: Final = frozenset({"name", "description", "parameters", "strict"})
_CALLS: Final = types_of("openai-chat", "call")
_CALL_KEYS: Final = frozenset({"id", "type", "index", *_CALLS})
_MESSAGE_KEYS: Final = frozenset(
    "role content name tool_calls function_call tool_call_id refusal cache_control".split()
)


def read_message(value: Any, path: Path, notes: Notes) -> Message:
    """One message; of the answer of a model too."""
    if not isinstance(value, dict):
        notes.warn("unknown_message", path)
        return Message(path, value, parts=(Unknown(path, value),))
    role = ROLES.get(value["role"]) if isinstance(value.get("role"), str) else None
    if role is None:
        notes.warn("unknown_role", (*path, "role"))
    content = value.get("content")
    extra = rest(value, _MESSAGE_KEYS)
    cache, name = value.get("cache_control"), value.get("name")
    is_silent = content == "" and bool(value.get("tool_calls"))
    parts = () if is_silent else tuple(read_content(content, (*path, "content"), notes))
    if role == "tool":
        call_id = value.get("tool_call_id")
        is_text = isinstance(call_id, str)
        result = ToolResult(
            path,
            value,
            call_id=call_id if is_text else None,
            name=name if isinstance(name, str) else None,
            parts=parts,
            is_plain=not isinstance(content, list),
        )
        return Message(path, value, extra, None, "tool", with_marker((result,), cache))
    if role == "assistant":
        thoughts = _read_reasoning(extra, path) if extra else ()
        parts = (*thoughts, *parts, *_read_calls(value, path, notes))
    return Message(
        path,
        value,
        extra,
        None,
        role or "user",
        with_marker(parts, cache),
        isinstance(content, str),
        name=name if isinstance(name, str) else None,
    )


def _read_reasoning(extra: Any, path: Path) -> list[Part]:
    """The thoughts as vendors return them; without a proof no vendor takes it back.

    `thinking_blocks` are Claude's own blocks, as litellm keeps them, beside the same text.
    """
    blocks = extra.get("thinking_blocks")
    if isinstance(blocks, list):
        place: Path = (*path, "thinking_blocks")
        thoughts = [_read_block(block, (*place, at)) for at, block in enumerate(blocks)]
        if None not in thoughts:
            for name in ("thinking_blocks", *REASONING_FIELDS):
                extra.pop(name, None)
            return [thought for thought in thoughts if thought is not None]
    for name in REASONING_FIELDS:
        text = extra.get(name)
        if isinstance(text, str):
            for other in REASONING_FIELDS:
                extra.pop(other, None)
            return [Reasoning((*path, name), text=text)] if text else []
    return []


def _read_block(block: Any, path: Path) -> Part | None:
    """A thinking block of Claude; None if it is none that Claude takes back."""
    fields = block if isinstance(block, dict) else {}
    text, signature, data = (fields.get(name) for name in ("thinking", "signature", "data"))
    if fields.get("type") == "redacted_thinking" and isinstance(data, str):
        return Reasoning(path, block, encrypted=data, maker="anthropic")
    if isinstance(text, str) and isinstance(signature, str):
        return Reasoning(path, block, text=text, signature=signature, maker="anthropic")
    return None


def _read_calls(value: Json, path: Path, notes: Notes) -> list[Part]:
    parts: list[Part] = []
    refusal = value.get("refusal")
    if isinstance(refusal, str) and refusal:
        parts.append(Refusal((*path, "refusal"), text=refusal))
    legacy = value.get("function_call")
    if isinstance(legacy, dict):
        item = {"type": "function", "function": legacy}
        parts.append(_read_call(item, (*path, "function_call"), notes))
    calls = value.get("tool_calls")
    for index, item in enumerate(calls if isinstance(calls, list) else []):
        parts.append(_read_call(item, (*path, "tool_calls", index), notes))
    return parts


def _read_call(item: Any, path: Path, notes: Notes) -> Part:
    fields = item if isinstance(item, dict) else {}
    field = next((name for name in _CALLS if name in fields), None)
    inner = None if field is None else fields[field]
    if field is None or not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        notes.warn("unknown_part", path)
        return Unknown(path, item)
    part = _CALLS[field]
    arguments, call_id = inner.get(part.arguments[0]), item.get(part.id)
    signature = _google_signature(fields)
    return ToolCall(
        path,
        item,
        rest(item, _CALL_KEYS if signature is None else _CALL_KEYS | {EXTRA_CONTENT}),
        id=call_id if isinstance(call_id, str) and call_id else None,
        name=inner["name"],
        arguments=arguments,
        is_text=isinstance(arguments, str),
        is_custom=part.is_custom,
        signature=signature,
    )


def _google_signature(item: Json) -> str | None:
    """The thought signature where Google's endpoint for OpenAI's clients puts it."""
    match item.get(EXTRA_CONTENT):
        case {"google": {"thought_signature": str(found), **more}, **others}:
            return None if more or others else found
    return None


def read_content(content: Any, path: Path, notes: Notes) -> list[Part]:
    """Content that is a string, a list of parts or nothing."""
    if isinstance(content, str):
        return [Text(path, None, NOTHING, None, content)]
    if isinstance(content, list):
        return [_read_part(item, (*path, index), notes) for index, item in enumerate(content)]
    if content is None:
        return []
    notes.warn("unknown_part", path)
    return [Unknown(path, content)]


def _read_part(item: Any, path: Path, notes: Notes) -> Part:
    if isinstance(item, str):
        return Text(path, item, text=item)
    reader = _READERS.get(item["type"]) if _is_typed(item) else None
    part = reader(item, path) if reader is not None else None
    if part is None:
        notes.warn("unknown_part", path)
        return Unknown(path, item)
    return part


def _is_typed(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("type"), str)


def _rest(item: Json, *names: str) -> Json:
    return {
        key: value
        for key, value in item.items()
        if key not in {"type", "cache_control"} and key not in names
    }


def _read_text(item: Json, path: Path) -> Part | None:
    text = item.get("text")
    if not isinstance(text, str):
        return None
    return Text(path, item, _rest(item, "text"), item.get("cache_control"), text)


def _read_refusal(item: Json, path: Path) -> Part | None:
    text = item.get("refusal")
    return Refusal(path, item, text=text) if isinstance(text, str) else None


def _read_image(item: Json, path: Path) -> Part | None:
    image = item.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    if not isinstance(url, str):
        return None
    about = image if isinstance(image, dict) else {}
    extra = {**_rest(item, "image_url"), **_rest(about, "url", "detail")}
    media = read_url(url)
    return Image(path, item, extra, item.get("cache_control"), media, about.get("detail"))


def read_url(url: str) -> Media:
    """The bytes of a data URL, or the place that the URL names."""
    found = mime.parse_data_url(url)
    if found is None:
        return Media(url=url)
    return Media(data=found.base64, mime=found.media_type)


def _read_file(item: Json, path: Path) -> Part | None:
    about = item.get("file")
    if not isinstance(about, dict):
        return None
    media = read_upload(about.get("file_data"), about.get("file_id"), about.get("filename"))
    if media is None:
        return None
    extra = _rest(about, "file_data", "file_id", "filename")
    return File(path, item, extra, item.get("cache_control"), media, about.get("filename"))


def read_upload(data: Any, file_id: Any, name: Any) -> Media | None:
    """A file of both OpenAI dialects: a data URL, base64, or the id of an upload."""
    if isinstance(data, str):
        if mime.parse_data_url(data) is not None:
            return read_url(data)
        found = mime.sniff(mime.base64_head(data))
        is_pdf = isinstance(name, str) and name.lower().endswith(".pdf")
        return Media(data=data, mime=found or ("application/pdf" if is_pdf else None))
    return Media(file_id=file_id, owner="openai") if isinstance(file_id, str) else None


def _read_audio(item: Json, path: Path) -> Part | None:
    audio = item.get("input_audio")
    if not isinstance(audio, dict) or not isinstance(audio.get("data"), str):
        return None
    name = mime.normalize(f"audio/{audio.get('format', 'wav')}")
    return Audio(path, item, {}, item.get("cache_control"), Media(data=audio["data"], mime=name))


_READERS: Final = functions_of(
    "openai-chat",
    "part",
    {
        "text": _read_text,
        "refusal": _read_refusal,
        "image": _read_image,
        "file": _read_file,
        "audio": _read_audio,
    },
)


# ------------------------------------------------------------------------------ writing


def write(conversation: Conversation, writer: Writer) -> Json:
    """A Chat Completions body."""
    if writer.is_same:
        body = dict(conversation.raw)
    else:
        body = {}
        write_options(conversation, FIELDS, body, writer.notes)
    body["messages"] = [write_message(message, writer) for message in conversation.messages]
    if conversation.tools and not writer.is_same:
        body["tools"] = [_write_tool(tool, writer) for tool in conversation.tools]
    return body


def _write_tool(tool: Tool, writer: Writer) -> Json:
    function: Json = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.is_custom:
        return _write_custom(tool, function, writer)
    if tool.schema is not None:
        function["parameters"] = tool.schema
    if tool.strict is not None:
        function["strict"] = tool.strict
    finished: Json = writer.finish(tool, {"type": "function", "function": function})
    return finished


def _write_custom(tool: Tool, custom: Json, writer: Writer) -> Json:
    form = tool.format
    if isinstance(form, dict) and form.get("type") == "grammar":
        grammar = {name: value for name, value in form.items() if name != "type"}
        form = {"type": "grammar", "grammar": grammar}
    if form is not None:
        custom["format"] = form
    finished: Json = writer.finish(tool, {"type": "custom", "custom": custom})
    return finished


def write_message(message: Message, writer: Writer) -> Any:
    """One message; of the answer of a model too."""
    if writer.is_same and message.raw is not None:
        return message.raw
    value: Json = {"role": message.role}
    if message.role == "tool":
        return _write_result(message, writer)
    if message.role == "assistant":
        _write_answer(message, value, writer)
    else:
        place: Place = "user" if message.role == "user" else "system"
        value["content"] = plain_or_list(message, writer.parts(message.parts, place))
    if message.name is not None:
        value["name"] = message.name
    return writer.message(message, value)


def plain_or_list(message: Message, parts: list[Any]) -> Any:
    """One text that was a string, or that is a system prompt, as a string; else the list."""
    is_single = len(parts) == 1 and is_text(parts[0])
    if is_single and (message.is_plain or (message.role == "assistant" and len(message.parts) > 1)):
        return parts[0]["text"]
    return parts or ""


def _write_answer(message: Message, value: Json, writer: Writer) -> None:
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    content = [part for part in message.parts if not isinstance(part, ToolCall)]
    refusals = [part for part in content if isinstance(part, Refusal)]
    if refusals and len(refusals) == len(content):
        value["content"] = None
        value["refusal"] = "".join(part.text for part in refusals)
    else:
        parts = writer.parts(content, "assistant")
        value["content"] = plain_or_list(message, parts) if parts or not calls else None
    if calls:
        value["tool_calls"] = writer.parts(calls, "assistant")


def _write_result(message: Message, writer: Writer) -> Any:
    result = message.parts[0] if message.parts else None
    if not isinstance(result, ToolResult):
        return {"role": "user", "content": writer.parts(message.parts, "user") or ""}
    if result.is_error and result.raw is not None:
        writer.notes.lose("error_flag", (*result.path, "is_error"))
    parts = writer.parts(result.parts, "result")
    content: Any = parts or ""
    if len(parts) == 1 and result.is_plain:
        content = parts[0]["text"] if is_text(parts[0]) else parts[0]
    value = {"role": "tool", "tool_call_id": result.call_id or UNKNOWN_TOOL, "content": content}
    if not writer.is_same:
        writer.finish(result, value)
    return writer.message(message, value)


def _write_text(part: Text, writer: Writer) -> Json:
    for _ in part.citations[:1]:
        writer.notes.lose("citations", (*part.path, "citations"))
    writer.signature(part)
    return {"type": "text", "text": part.text}


def _write_refusal(part: Refusal, _: Writer) -> Json:
    return {"type": "refusal", "refusal": part.text}


def _write_image(part: Image, writer: Writer) -> Json | None:
    if writer.takes_file_id(part.media):
        return _upload(part)
    if not (part.media.is_web or writer.takes_data(part)):
        return None
    image: Json = {"url": part.media.as_url}
    if part.detail is not None:
        image["detail"] = part.detail
    return {"type": "image_url", "image_url": image}


def _upload(part: Image | File) -> Json:
    return {"type": "file", "file": {"file_id": part.media.file_id}}


def _write_file(part: File, writer: Writer) -> Json | None:
    if writer.takes_file_id(part.media):
        return _upload(part)
    if not writer.takes_data(part):
        return None
    about: Json = {"file_data": part.media.as_url, "filename": part.name or "file.pdf"}
    return {"type": "file", "file": about}


def _write_audio(part: Audio, _: Writer) -> Json | None:
    form = AUDIO_FORMATS.get(part.media.mime or "")
    if form is None or part.media.data is None:
        return None
    return {"type": "input_audio", "input_audio": {"data": part.media.data, "format": form}}


def _write_call(part: ToolCall, writer: Writer) -> Json:
    is_google = part.signature is not None and "gemini" in writer.model.lower()
    if not is_google:
        writer.signature(part)
    if part.item_id is not None:
        writer.notes.lose("item_id", (*part.path, "id"))
    head: Json = {"id": part.id or UNKNOWN_TOOL}
    if is_google:
        head[EXTRA_CONTENT] = {"google": {"thought_signature": part.signature}}
    if part.is_custom:
        custom = {"name": part.name, "input": part.arguments_text()}
        return {**head, "type": "custom", "custom": custom}
    function = {"name": part.name, "arguments": part.arguments_text()}
    return {**head, "type": "function", "function": function}


RULES: Final = Rules(
    name="openai-chat",
    list_field="messages",
    maker="openai",
    read=read,
    write=write,
    fields=FIELDS,
    parts=MappingProxyType(
        {
            "system": {Text: _write_text},
            "user": {
                Text: _write_text,
                Image: _write_image,
                File: _write_file,
                Audio: _write_audio,
            },
            "assistant": {Text: _write_text, Refusal: _write_refusal, ToolCall: _write_call},
            "result": {Text: _write_text},
        }
    ),
    results="each",
    system="list",
    has_developer=True,
    has_custom=True,
    continues=False,
    ids=IdRule(LONGEST_CALL_ID),
)
