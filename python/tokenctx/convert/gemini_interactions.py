"""Google Gemini, Interactions: a list of steps, of which those of one answer are one message.

A thought is a step before what it led to, with a signature that generateContent has at the call or
the text itself; there it is read to, so that it goes along with it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.parts import functions_of, types_of
from tokenctx.convert import mime
from tokenctx.convert.fields import Field, one_of, read_options, write_options
from tokenctx.convert.gemini import UPLOADS
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
    Reasoning,
    ResponseFormat,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Unknown,
    changed,
)
from tokenctx.convert.rules import UNKNOWN_TOOL, Rules, Writer, is_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tokenctx.convert.notes import Notes
    from tokenctx.convert.rules import PartWriter

MODES: Final = MappingProxyType({"auto": "auto", "any": "required", "none": "none"})
WORDS: Final = MappingProxyType({mode: word for word, mode in MODES.items()})
_CONFIG: Final = "generation_config"


# ------------------------------------------------------------------------------ options


def _read_choice(value: Any) -> ToolChoice | None:
    if isinstance(value, str):
        return ToolChoice(MODES[value]) if value in MODES else None
    allowed = value.get("allowed_tools") if isinstance(value, dict) else None
    if not isinstance(allowed, dict) or {*value, *allowed} != {"allowed_tools", "mode", "tools"}:
        return None
    names = allowed["tools"]
    is_one = allowed["mode"] == "any" and isinstance(names, list) and len(names) == 1
    return ToolChoice("tool", names[0]) if is_one and isinstance(names[0], str) else None


def _write_choice(choice: ToolChoice) -> Any:
    if choice.mode == "tool":
        return {"allowed_tools": {"mode": "any", "tools": [choice.name]}}
    return WORDS[choice.mode]


def _read_format(value: Any) -> ResponseFormat | None:
    if not isinstance(value, dict) or value.keys() - {"type", "mime_type", "schema"}:
        return None
    if value.get("type") != "text":
        return None
    schema = value.get("schema")
    if isinstance(schema, dict):
        return ResponseFormat("schema", schema)
    kind = {"application/json": "json", "text/plain": "text"}.get(str(value.get("mime_type")))
    return None if kind is None else ResponseFormat(kind)


def _write_format(wanted: ResponseFormat) -> Json:
    named = "text/plain" if wanted.kind == "text" else "application/json"
    schema = {"schema": wanted.schema} if isinstance(wanted.schema, dict) else {}
    return {"type": "text", "mime_type": named, **schema}


def _field(name: str, neutral: str, **more: Any) -> Field:
    return Field(f"{_CONFIG}.{name}", neutral, **more)


FIELDS: Final = (
    Field("model", "model"),
    _field("max_output_tokens", "max_output_tokens"),
    _field("temperature", "temperature"),
    _field("top_p", "top_p"),
    _field("seed", "seed"),
    _field("stop_sequences", "stop"),
    _field(
        "thinking_level",
        "reasoning_effort",
        write=one_of("minimal", "low", "medium", "high", "xhigh"),
    ),
    _field("tool_choice", "tool_choice", read=_read_choice, write=_write_choice),
    Field("stream", "stream"),
    Field("store", "store"),
    Field("labels", "metadata"),
    Field("service_tier", "service_tier", write=one_of("flex", "standard", "priority", "deferred")),
    Field("response_format", "response_format", read=_read_format, write=_write_format),
)


# ------------------------------------------------------------------------------ reading


_HANDLED: Final = frozenset({"input", "tools", "system_instruction"})


def read(body: Json, notes: Notes) -> Conversation:
    """The neutral conversation of the body of an interaction."""
    options, extra = read_options(body, FIELDS, _HANDLED)
    messages: list[Message] = []
    prompt = body.get("system_instruction")
    if isinstance(prompt, str):
        path: Path = ("system_instruction",)
        text = Text(path, text=prompt)
        message = Message(path, prompt, {}, None, "system", (text,), is_plain=True, is_top=True)
        messages.append(message)
    elif prompt is not None:
        extra["system_instruction",] = prompt
    found = body.get("input")
    if isinstance(found, str):
        text = Text(("input",), text=found)
        messages.append(Message(("input",), None, {}, None, "user", (text,), is_plain=True))
    elif isinstance(found, dict):
        part = _read_part(found, ("input",), notes)
        messages.append(Message(("input",), None, {}, None, "user", (part,)))
    elif isinstance(found, list):
        messages += read_steps(found, "input", notes)
    elif found is not None:
        extra["input",] = found
    tools = _read_tools(body.get("tools"), extra)
    return Conversation("gemini-interactions", tuple(messages), tools, options, extra, body)


_TOOL_KEYS: Final = frozenset({"type", "name", "description", "parameters"})


def _read_tools(value: Any, extra: dict[Path, Any]) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    for index, item in enumerate(value if isinstance(value, list) else []):
        path: Path = ("tools", index)
        is_function = isinstance(item, dict) and item.get("type") == "function"
        if not is_function or not isinstance(item.get("name"), str):
            extra[path] = item
            continue
        rest = {key: item[key] for key in item.keys() - _TOOL_KEYS}
        about, schema = item.get("description"), item.get("parameters")
        tools.append(Tool(path, item, rest, None, item["name"], about, schema))
    if value is not None and not isinstance(value, list):
        extra["tools",] = value
    return tuple(tools)


def read_steps(steps: list[Any], field: str, notes: Notes) -> Iterator[Message]:
    """Messages of a list of steps: those of one answer are one, and so are parts without a step."""
    run: list[tuple[Path, Any, tuple[Part, ...]]] = []
    speaker = ""
    for index, step in enumerate(steps):
        path: Path = (field, index)
        kind = step.get("type") if isinstance(step, dict) else None
        kind = kind if isinstance(kind, str) else ""
        reader = _STEP_READERS.get(kind)
        read = reader(step, path, notes) if reader is not None else None
        parts = read if isinstance(read, tuple) else None if read is None else (read,)
        now = "parts" if kind in _PART_READERS else "answer" if kind in _ANSWER else ""
        now = now if parts is not None or now == "parts" else ""
        if run and now != speaker:
            yield _joined(run, speaker)
            run = []
        speaker = now
        if now == "parts":
            run.append((path, step, (_read_part(step, path, notes),)))
        elif now == "answer" and parts is not None:
            run.append((path, step, parts))
        elif parts is None:
            notes.warn("unknown_message", path)
            yield Message(path, [step], {}, None, "user", (Unknown(path, step),))
        elif kind == "user_input":
            yield Message(path, [step], _rest(step, "content"), None, "user", parts)
        else:
            yield Message(path, [step], {}, None, "tool", parts)
    if run:
        yield _joined(run, speaker)


def _joined(run: list[tuple[Path, Any, tuple[Part, ...]]], speaker: str) -> Message:
    """One message of steps of an answer, or of parts of the user that stand in no step."""
    raw = [step for _, step, _ in run]
    path = run[0][0]
    parts = tuple(part for *_, inner in run for part in inner)
    if speaker == "parts":
        return Message(path, raw, {}, None, "user", parts)
    rest = (_rest(it, "content") for it in raw if it.get("type") == "model_output")
    extra = {name: value for it in rest for name, value in it.items()}
    return Message(path, raw, extra, None, "assistant", tuple(_signed_parts(parts)))


def _signed_parts(parts: tuple[Part, ...]) -> Iterator[Part]:
    """The parts, where the signature of a thought stands at the call or text right behind it."""
    signature: str | None = None
    for part, after in zip(parts, (*parts[1:], None), strict=True):
        if isinstance(part, Reasoning) and isinstance(after, ToolCall | Text):
            signature = part.signature
            if part.text or part.extra or signature is None:
                yield part if signature is None else changed(part, signature=None)
        elif signature is not None and isinstance(part, ToolCall | Text):
            yield changed(part, signature=signature)
            signature = None
        else:
            yield part


def _rest(item: Json, *names: str) -> Json:
    return {key: value for key, value in item.items() if key != "type" and key not in names}


def _read_content(content: Any, path: Path, notes: Notes) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(path, text=content),)
    items = content if isinstance(content, list) else [] if content is None else [content]
    return tuple(_read_part(item, (*path, index), notes) for index, item in enumerate(items))


def _read_part(item: Any, path: Path, notes: Notes) -> Part:
    kind = item.get("type") if isinstance(item, dict) else None
    reader = _PART_READERS.get(kind) if isinstance(kind, str) else None
    part = reader(item, path) if reader is not None else None
    if part is None:
        notes.warn("unknown_part", path)
        return Unknown(path, item)
    return part


def _read_text(item: Json, path: Path) -> Part | None:
    text, cited = item.get("text"), item.get("annotations")
    if not isinstance(text, str):
        return None
    citations = tuple(cited) if isinstance(cited, list) else ()
    return Text(path, item, _rest(item, "text", "annotations"), text=text, citations=citations)


def _read_media(item: Json, path: Path) -> Part | None:
    named, data, uri = mime.normalize(item.get("mime_type")), item.get("data"), item.get("uri")
    if isinstance(data, str):
        media = Media(data=data, mime=named)
    elif isinstance(uri, str) and (uri.startswith(UPLOADS) or "://" not in uri):
        media = Media(file_id=uri, owner="google", mime=named)
    elif isinstance(uri, str):
        media = Media(url=uri, mime=named)
    else:
        return None
    extra, kind = _rest(item, "mime_type", "data", "uri"), item["type"]
    if kind == "image":
        return Image(path, item, extra, media=media)
    return (Audio if kind == "audio" else File)(path, item, extra, media=media)


_PART_READERS: Final = functions_of(
    "gemini-interactions",
    "part",
    {
        "text": _read_text,
        "image": _read_media,
        "audio": _read_media,
        "file": _read_media,
        "video": _read_media,
    },
)
_STEPS: Final = types_of("gemini-interactions", "item")
_ANSWER: Final = frozenset({"model_output", "thought", "function_call"})


def _read_said(step: Json, path: Path, notes: Notes) -> tuple[Part, ...]:
    return _read_content(step.get("content"), (*path, "content"), notes)


def _read_thought(step: Json, path: Path, _: Notes) -> Part:
    summary, signature = step.get("summary"), step.get("signature")
    items = summary if isinstance(summary, list) else []
    texts = [it["text"] for it in items if is_text(it) and isinstance(it["text"], str)]
    is_read = len(texts) == len(items) and isinstance(summary, list | None)
    names = ("signature", "summary") if is_read else ("signature",)
    return Reasoning(
        path,
        step,
        _rest(step, *names),
        text="\n\n".join(texts),
        signature=signature if isinstance(signature, str) else None,
        maker="google",
    )


def _read_call(step: Json, path: Path, _: Notes) -> Part | None:
    part = _STEPS[step["type"]]
    name, call_id, field = step.get(part.name), step.get(part.id), part.arguments[0]
    if not isinstance(name, str):
        return None
    return ToolCall(
        path,
        step,
        _rest(step, part.id, part.name, field),
        id=call_id if isinstance(call_id, str) and call_id else None,
        name=name,
        arguments=step.get(field),
    )


def _read_result(step: Json, path: Path, notes: Notes) -> Part:
    part = _STEPS[step["type"]]
    result, call_id, name = step.get(part.content[0]), step.get(part.id), step.get(part.name)
    place: Path = (*path, part.content[0])
    parts: tuple[Part, ...]
    if isinstance(result, str | list | None):
        parts = _read_content(result, place, notes)
    else:
        parts = (Data(place, value=result),)
    is_named, is_error = isinstance(name, str), step.get("is_error") is True
    known = [part.content[0], part.id, *([part.name] if is_named else [])]
    return ToolResult(
        path,
        step,
        _rest(step, *known, *(["is_error"] if is_error else [])),
        call_id=call_id if isinstance(call_id, str) and call_id else None,
        name=name if isinstance(name, str) else None,
        parts=parts,
        is_error=is_error,
        is_plain=not isinstance(result, list),
    )


_STEP_READERS: Final = functions_of(
    "gemini-interactions",
    "item",
    {
        "content": _read_said,
        "reasoning": _read_thought,
        "call": _read_call,
        "result": _read_result,
    },
)


# ------------------------------------------------------------------------------ writing


def write(conversation: Conversation, writer: Writer) -> Json:
    """The body of an interaction, with all steps: nothing of it is at the server."""
    body = dict(conversation.raw) if writer.is_same else {}
    top = [message for message in conversation.messages if message.is_top]
    rest = [message for message in conversation.messages if not message.is_top]
    if writer.is_same and all(it.raw is None and it.path == ("input",) for it in rest):
        return body
    if not writer.is_same:
        write_options(conversation, FIELDS, body, writer.notes)
        if top:
            body["system_instruction"] = "\n\n".join(_prompt(message, writer) for message in top)
        if conversation.tools:
            body["tools"] = [_write_tool(tool, writer) for tool in conversation.tools]
    body["input"] = [step for message in rest for step in write_steps(message, writer)]
    return body


def _prompt(message: Message, writer: Writer) -> str:
    writer.message(message, {})
    return "\n\n".join(item["text"] for item in writer.parts(message.parts, "system"))


def _write_tool(tool: Tool, writer: Writer) -> Json:
    value: Json = {"type": "function", "name": tool.name}
    if tool.description is not None:
        value["description"] = tool.description
    if tool.schema is not None:
        value["parameters"] = tool.schema
    if tool.strict is not None:
        writer.notes.lose("field", (*tool.path, "strict"))
    finished: Json = writer.finish(tool, value)
    return finished


def write_steps(message: Message, writer: Writer) -> list[Any]:
    """The steps of a message; of an answer, too."""
    if writer.is_same and message.raw is not None:
        return list(message.raw)
    if message.role == "tool":
        steps = writer.parts(message.parts, "result")
        writer.message(message, {})
        return steps
    if message.role == "assistant":
        return _write_answer(message, writer)
    content = writer.parts(message.parts, "user")
    if not content:
        writer.notes.lose("empty_message", message.path)
        return []
    return [writer.message(message, {"type": "user_input", "content": content})]


def _write_answer(message: Message, writer: Writer) -> list[Any]:
    """Thoughts and calls are steps of their own; all else between two of them is one output."""
    steps: list[Any] = []
    for part in message.parts:
        signature = writer.signature(part) if isinstance(part, ToolCall | Text) else None
        if signature is not None:
            is_unsigned = steps and steps[-1]["type"] == "thought" and "signature" not in steps[-1]
            thought = steps.pop() if is_unsigned else {"type": "thought"}
            steps.append({**thought, "signature": signature})
        item = writer.part(part, "assistant")
        if item is None:
            continue
        if isinstance(part, ToolCall | Reasoning):
            steps.append(item)
        elif steps and steps[-1]["type"] == "model_output" and signature is None:
            steps[-1]["content"].append(item)
        else:
            steps.append({"type": "model_output", "content": [item]})
    if not steps:
        writer.notes.lose("empty_message", message.path)
    writer.message(message, {})
    return steps


def _write_text(part: Text, writer: Writer) -> Json:
    for _ in part.citations[:1]:
        writer.notes.lose("citations", (*part.path, "citations"))
    return {"type": "text", "text": part.text}


def _write_media(part: Image | File | Audio, writer: Writer) -> Json | None:
    media = part.media
    if getattr(part, "name", None) is not None:
        writer.notes.lose("name", (*part.path, "name"))
    if getattr(part, "detail", None) is not None:
        writer.notes.lose("field", (*part.path, "detail"))
    kind = "image" if isinstance(part, Image) else "audio" if isinstance(part, Audio) else ""
    is_video = (media.mime or "").startswith("video/")
    value: Json = {"type": kind or ("video" if is_video else "document")}
    if media.mime is not None:
        value["mime_type"] = media.mime
    if media.data is not None:
        return {**value, "data": media.data} if writer.takes_data(part) else None
    place = media.file_id if writer.takes_file_id(media) else media.url
    return None if place is None else {**value, "uri": place}


def _write_call(part: ToolCall, writer: Writer) -> Json:
    arguments, is_object = part.arguments_object()
    if part.is_custom:
        writer.notes.lose("custom_tool", part.path)
    elif not is_object:
        writer.notes.warn("invalid_arguments", part.path)
    if part.item_id is not None:
        writer.notes.lose("item_id", (*part.path, "id"))
    call_id = part.id or UNKNOWN_TOOL
    return {"type": "function_call", "id": call_id, "name": part.name, "arguments": arguments}


def _write_result(part: ToolResult, writer: Writer) -> Json:
    value: Json = {"type": "function_result", "call_id": part.call_id or UNKNOWN_TOOL}
    value["name"] = writer.tool_name(part)
    if part.is_error:
        value["is_error"] = True
    data = part.parts[0] if len(part.parts) == 1 else None
    if isinstance(data, Data) and isinstance(data.value, dict):
        return {**value, "result": data.value}
    parts = writer.parts(part.parts, "user")
    is_single = len(parts) == 1 and is_text(parts[0]) and part.is_plain
    return {**value, "result": parts[0]["text"] if is_single else parts or ""}


def _write_reasoning(part: Reasoning, _: Writer) -> Json | None:
    if part.maker != "google":
        return None
    value: Json = {"type": "thought"}
    if part.text:
        value["summary"] = [{"type": "text", "text": part.text}]
    return value if part.signature is None else {**value, "signature": part.signature}


_CONTENT: Final[Mapping[type, PartWriter]] = MappingProxyType(
    {Text: _write_text, Image: _write_media, File: _write_media, Audio: _write_media}
)

RULES: Final = Rules(
    name="gemini-interactions",
    list_field="input",
    maker="google",
    read=read,
    write=write,
    fields=FIELDS,
    parts=MappingProxyType(
        {
            "system": {Text: _write_text},
            "user": _CONTENT,
            "assistant": {**_CONTENT, ToolCall: _write_call, Reasoning: _write_reasoning},
            "result": {**_CONTENT, ToolResult: _write_result},
        }
    ),
    results="tool",
    system="top",
    refuses_empty=True,
)
