"""Google Gemini, generateContent: both spellings of names are read, that of the wire is written."""

from __future__ import annotations

import mimetypes
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.parts import types_of
from tokenctx.convert import mime
from tokenctx.convert.fields import Field, one_of, read_options, write_options
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
    Role,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Unknown,
)
from tokenctx.convert.rules import Rules, Writer
from tokenctx.convert.tools import MADE_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenctx._results.parts import PartType
    from tokenctx.convert.notes import Notes
    from tokenctx.convert.rules import PartWriter

ROLES: Final[MappingProxyType[str, Role]] = MappingProxyType(
    {"user": "user", "model": "assistant", "function": "user", "tool": "user"}
)
MODES: Final = MappingProxyType({"AUTO": "auto", "ANY": "required", "NONE": "none"})
WORDS: Final = MappingProxyType({mode: word for word, mode in MODES.items()})
SIGNING: Final = re.compile(r"gemini-([3-9]|\d\d)", re.IGNORECASE)
NO_SIGNATURE: Final = "skip_thought_signature_validator"
"""The signature that Google's documents give for calls that another model has made."""
UPLOADS: Final = "https://generativelanguage.googleapis.com/"
"""Where files that were uploaded to Google stand."""


def demands_signatures(model: str) -> bool:
    """True if the model refuses a call of its own without a thought signature: from Gemini 3 on."""
    return SIGNING.search(model) is not None


def _get(item: Json, name: str) -> Any:
    """A field in the spelling of the wire, or else in that of Python."""
    if name in item:
        return item[name]
    return item.get(_SNAKE.get(name, name))


def _rest(item: Json, *names: str) -> Json:
    known = {*names, *(_SNAKE.get(name, name) for name in names)}
    return {key: value for key, value in item.items() if key not in known}


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


_PARTS: Final = {part.names[0]: part for part in types_of("gemini", "field").values()}
_SNAKE: Final = MappingProxyType(
    {
        **{name: part.names[-1] for name, part in _PARTS.items()},
        **{
            name: _snake(name)
            for name in (
                "allowedFunctionNames displayName fileUri functionCallingConfig "
                "functionDeclarations mimeType parametersJsonSchema systemInstruction "
                "thoughtSignature toolConfig"
            ).split()
        },
    }
)


# ------------------------------------------------------------------------------ options


def _read_choice(value: Any) -> ToolChoice | None:
    if not isinstance(value, dict):
        return None
    mode, names = MODES.get(str(value.get("mode"))), _get(value, "allowedFunctionNames")
    if _rest(value, "mode", "allowedFunctionNames") or mode is None:
        return None
    if not names:
        return ToolChoice(mode)
    is_one = mode == "required" and isinstance(names, list) and len(names) == 1
    return ToolChoice("tool", names[0]) if is_one and isinstance(names[0], str) else None


def _write_choice(choice: ToolChoice) -> Json:
    if choice.mode == "tool":
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return {"mode": WORDS[choice.mode]}


def _read_json_schema(value: Any) -> ResponseFormat | None:
    return ResponseFormat("schema", value) if isinstance(value, dict) else None


def _read_schema(value: Any) -> ResponseFormat | None:
    return ResponseFormat("schema", plain_schema(value)) if isinstance(value, dict) else None


def _write_schema(wanted: ResponseFormat) -> Any:
    return wanted.schema if wanted.kind == "schema" else None


def _read_mime(value: Any) -> ResponseFormat | None:
    kind = {"application/json": "json", "text/plain": "text"}.get(str(value))
    return None if kind is None else ResponseFormat(kind)


def _write_mime(wanted: ResponseFormat) -> str:
    """A schema needs the type of JSON beside it."""
    return "text/plain" if wanted.kind == "text" else "application/json"


_CONFIG: Final = "generationConfig"


def _field(name: str, neutral: str, **more: Any) -> Field:
    return Field(f"{_CONFIG}.{name}", neutral, alias=f"{_CONFIG}.{_snake(name)}", **more)


FIELDS: Final = (
    Field("model", "model"),
    _field("maxOutputTokens", "max_output_tokens"),
    _field("temperature", "temperature"),
    _field("topP", "top_p"),
    _field("topK", "top_k"),
    _field("seed", "seed"),
    _field("stopSequences", "stop"),
    _field("presencePenalty", "presence_penalty"),
    _field("frequencyPenalty", "frequency_penalty"),
    _field("candidateCount", "choice_count"),
    _field("responseLogprobs", "logprobs"),
    _field("logprobs", "top_logprobs"),
    _field("responseJsonSchema", "response_format", read=_read_json_schema, write=_write_schema),
    _field("responseSchema", "response_format", read=_read_schema, write=None),
    _field("responseMimeType", "response_format", read=_read_mime, write=_write_mime),
    _field("thinkingConfig.thinkingBudget", "thinking_budget"),
    _field(
        "thinkingConfig.thinkingLevel",
        "reasoning_effort",
        read=lambda value: value.lower() if isinstance(value, str) else None,
        write=one_of("minimal", "low", "medium", "high"),
    ),
    Field(
        "toolConfig.functionCallingConfig", "tool_choice", read=_read_choice, write=_write_choice
    ),
)


def plain_schema(schema: Any) -> Any:
    """An OpenAPI schema, as Gemini has it, as a JSON schema: types in lower case. No recursion."""
    root: list[Any] = [schema]
    queue: list[tuple[Any, Any]] = [(root, 0)]
    for holder, key in queue:
        item = holder[key]
        if isinstance(item, dict):
            item = dict(item)
            kind = item.get("type")
            if isinstance(kind, str) and kind.isupper():
                item["type"] = kind.lower()
            if item.get("nullable") is True and isinstance(item.get("type"), str):
                del item["nullable"]
                item["type"] = [item["type"], "null"]
            queue += [(item, name) for name in item]
        elif isinstance(item, list):
            item = list(item)
            queue += [(item, index) for index in range(len(item))]
        holder[key] = item
    return root[0]


# ------------------------------------------------------------------------------ reading


_HANDLED: Final = frozenset(
    {"contents", "tools", "systemInstruction", "system_instruction", "generateContentRequest"}
)
_CAMEL: Final = MappingProxyType(
    {
        "generation_config": "generationConfig",
        "tool_config": "toolConfig",
        "function_calling_config": "functionCallingConfig",
        "thinking_config": "thinkingConfig",
        "thinking_budget": "thinkingBudget",
        "thinking_level": "thinkingLevel",
    }
)
_GROUPS: Final = frozenset({"generationConfig", "toolConfig", "thinkingConfig"})


def _camel(value: Json) -> Json:
    """The groups of options under their names of the wire, three levels deep at most."""
    named: Json = {}
    for key, item in value.items():
        name = _CAMEL.get(key, key)
        named[name] = _camel(item) if name in _GROUPS and isinstance(item, dict) else item
    return named


def read(body: Json, notes: Notes) -> Conversation:
    """The neutral conversation of a generateContent body."""
    inner = body.get("generateContentRequest")
    fields = inner if isinstance(inner, dict) else body
    options, extra = read_options(_camel(fields), FIELDS, _HANDLED)
    messages: list[Message] = []
    system = _get(fields, "systemInstruction")
    if system is not None:
        message = read_content(system, ("systemInstruction",), notes, "system")
        messages.append(message)
    contents = fields.get("contents")
    found = contents if isinstance(contents, list) else [contents] if contents else []
    for index, item in enumerate(found):
        messages.append(read_content(item, ("contents", index), notes))
    tools = _read_tools(fields.get("tools"), extra)
    return Conversation("gemini", tuple(messages), tools, options, extra, body)


_TOOL_KEYS: Final = ("name", "description", "parameters", "parametersJsonSchema")


def _read_tools(value: Any, extra: dict[Path, Any]) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    for index, group in enumerate(value if isinstance(value, list) else [value] if value else []):
        path: Path = ("tools", index)
        found = _get(group, "functionDeclarations") if isinstance(group, dict) else None
        for number, item in enumerate(found if isinstance(found, list) else []):
            place: Path = (*path, "functionDeclarations", number)
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                schema = _get(item, "parametersJsonSchema") or plain_schema(item.get("parameters"))
                rest, about = _rest(item, *_TOOL_KEYS), item.get("description")
                tools.append(Tool(place, item, rest, None, item["name"], about, schema))
            else:
                extra[place] = item
        if not isinstance(group, dict):
            extra[path] = group
        else:
            extra.update({(*path, key): group[key] for key in _rest(group, "functionDeclarations")})
    return tuple(tools)


def read_content(value: Any, path: Path, notes: Notes, fixed: Role | None = None) -> Message:
    """One content; of the answer of a model too. `fixed` is the role, whatever it says."""
    is_top = fixed is not None
    if isinstance(value, str):
        text = Text(path, text=value)
        return Message(
            path, value, {}, None, fixed or "user", (text,), is_plain=True, is_top=is_top
        )
    if not isinstance(value, dict):
        notes.warn("unknown_message", path)
        return Message(path, value, parts=(Unknown(path, value),))
    named = value.get("role")
    role = fixed or ("user" if named is None else ROLES.get(named) if _is_text(named) else None)
    if role is None:
        notes.warn("unknown_role", (*path, "role"))
    found = value.get("parts")
    items = found if isinstance(found, list) else [] if found is None else [found]
    parts = tuple(
        _read_part(item, (*path, "parts", index), notes) for index, item in enumerate(items)
    )
    first = parts[0] if len(parts) == 1 else None
    is_plain = isinstance(first, Text) and not first.extra and first.signature is None
    extra = _rest(value, "role", "parts")
    return Message(path, value, extra, None, role or "user", parts, is_plain, is_top)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _read_part(item: Any, path: Path, notes: Notes) -> Part:
    if isinstance(item, str):
        return Text(path, item, text=item)
    part = _known_part(item, path, notes) if isinstance(item, dict) else None
    if part is None:
        notes.warn("unknown_part", path)
        return Unknown(path, item)
    return part


_PART_KEYS: Final = (*_PARTS, "thought", "thoughtSignature")


def _known_part(item: Json, path: Path, notes: Notes) -> Part | None:
    """The one thing that the part holds; others beside it are fields that get lost elsewhere."""
    values = {name: value for name in _PART_KEYS if (value := _get(item, name)) is not None}
    extra = _rest(item, *values)
    signature = values.pop("thoughtSignature", None)
    signature = signature if isinstance(signature, str) else None
    is_thought = values.pop("thought", None) is True
    kind = next((name for name in values if name != "text"), "text")
    extra.update({name: values[name] for name in values if name != kind})
    value = values.get(kind)
    if kind == "text":
        if is_thought:
            text = value if isinstance(value, str) else ""
            return Reasoning(path, item, extra, text=text, signature=signature, maker="google")
        if signature is not None and value is None:
            return Reasoning(path, item, extra, signature=signature, maker="google")
        is_text = isinstance(value, str)
        return Text(path, item, extra, text=value, signature=signature) if is_text else None  # type: ignore[arg-type]
    if not isinstance(value, dict):
        return None
    part = _PARTS[kind]
    if part.kind == "call":
        return _read_call(part, value, item, path, extra, signature)
    if part.kind == "result":
        return _read_response(part, value, item, path, extra, notes)
    return _read_media(value, item, path, extra)


def _read_call(
    part: PartType, value: Json, item: Json, path: Path, extra: Json, signature: str | None
) -> Part | None:
    name, call_id = value.get(part.name), value.get(part.id)
    if not isinstance(name, str):
        return None
    extra = {**extra, **_rest(value, part.id, part.name, part.arguments[0])}
    return ToolCall(
        path,
        item,
        extra,
        id=call_id if isinstance(call_id, str) and call_id else None,
        name=name,
        arguments=value.get(part.arguments[0]),
        signature=signature,
    )


def _read_response(
    part: PartType, value: Json, item: Json, path: Path, extra: Json, notes: Notes
) -> Part:
    field, content = part.names[0], part.content[0]
    name, call_id, found = value.get(part.name), value.get(part.id), value.get(content)
    place: Path = (*path, field, content)
    parts: list[Part] = []
    is_error = isinstance(found, dict) and set(found) == {"error"}
    text = found.get("error" if is_error else "output") if isinstance(found, dict) else None
    if isinstance(found, dict) and isinstance(text, str) and len(found) == 1:
        parts.append(Text(place, text=text))
    elif found is not None:
        is_error = False
        parts.append(Data(place, value=found))
    media = value.get("parts")
    for index, inner in enumerate(media if isinstance(media, list) else []):
        inner_path: Path = (*path, field, "parts", index)
        is_result = isinstance(inner, dict) and _get(inner, field) is not None
        parts.append(
            Unknown(inner_path, inner) if is_result else _read_part(inner, inner_path, notes)
        )
    return ToolResult(
        path,
        item,
        {**extra, **_rest(value, part.id, part.name, content, "parts")},
        call_id=call_id if isinstance(call_id, str) and call_id else None,
        name=name if isinstance(name, str) else None,
        parts=tuple(parts),
        is_error=is_error,
        is_plain=len(parts) == 1,
    )


def _read_media(value: Json, item: Json, path: Path, extra: Json) -> Part | None:
    named = mime.normalize(_get(value, "mimeType"))
    data, url = value.get("data"), _get(value, "fileUri")
    name = _get(value, "displayName")
    if isinstance(data, str):
        media = Media(data=data, mime=named)
    elif isinstance(url, str) and url.startswith(UPLOADS):
        media = Media(file_id=url, owner="google", mime=named)
    elif isinstance(url, str):
        media = Media(url=url, mime=named)
    else:
        return None
    kind = (named or "").partition("/")[0]
    extra = {**extra, **_rest(value, "mimeType", "data", "fileUri", "displayName")}
    if kind == "image" and name is None:
        return Image(path, item, extra, media=media)
    if kind == "audio" and name is None:
        return Audio(path, item, extra, media=media)
    return File(path, item, extra, media=media, name=name if isinstance(name, str) else None)


# ------------------------------------------------------------------------------ writing


def write(conversation: Conversation, writer: Writer) -> Json:
    """A generateContent body; the model is in it, though the wire has it in the URL."""
    body = dict(conversation.raw) if writer.is_same else {}
    top = [message for message in conversation.messages if message.is_top]
    if not writer.is_same:
        write_options(conversation, FIELDS, body, writer.notes)
        if top:
            parts = [part for message in top for part in writer.parts(message.parts, "system")]
            for message in top:
                writer.message(message, {})
            body["systemInstruction"] = {"parts": parts}
        if conversation.tools:
            functions = [_write_tool(tool, writer) for tool in conversation.tools]
            body["tools"] = [{"functionDeclarations": functions}]
    rest = [message for message in conversation.messages if not message.is_top]
    contents = [_write_content(message, writer) for message in rest]
    contents = [content for content in contents if content is not None]
    inner = body.get("generateContentRequest")
    if isinstance(inner, dict):
        body["generateContentRequest"] = {**inner, "contents": contents}
    elif contents != [body.get("contents")]:  # a single content may stand there without a list
        body["contents"] = contents
    return body


def _write_tool(tool: Tool, writer: Writer) -> Json:
    value: Json = {"name": tool.name}
    if tool.description is not None:
        value["description"] = tool.description
    if tool.schema is not None:
        value["parametersJsonSchema"] = tool.schema
    if tool.strict is not None:
        writer.notes.lose("field", (*tool.path, "strict"))
    finished: Json = writer.finish(tool, value)
    return finished


def _write_content(message: Message, writer: Writer) -> Any:
    if writer.is_same and message.raw is not None:
        return message.raw
    is_answer = message.role == "assistant"
    parts = writer.parts(message.parts, "assistant" if is_answer else "user")
    if is_answer and demands_signatures(writer.model):
        _sign_first_call(message, parts, writer)
    if not parts:
        writer.notes.lose("empty_message", message.path)
        return None
    return writer.message(message, {"role": "model" if is_answer else "user", "parts": parts})


def _sign_first_call(message: Message, parts: list[Any], writer: Writer) -> None:
    """Gemini 3 refuses an answer whose first call has no signature; Google names a stand-in."""
    call = next((part for part in parts if "functionCall" in part), None)
    if call is not None and "thoughtSignature" not in call:
        path = next(part.path for part in message.parts if isinstance(part, ToolCall))
        writer.notes.warn("added", (*path, "thoughtSignature"))
        call["thoughtSignature"] = NO_SIGNATURE


def _signed(part: Any, value: Json, writer: Writer) -> Json:
    signature = writer.signature(part)
    return value if signature is None else {**value, "thoughtSignature": signature}


def _write_text(part: Text, writer: Writer) -> Json:
    for _ in part.citations[:1]:
        writer.notes.lose("citations", (*part.path, "citations"))
    return _signed(part, {"text": part.text}, writer)


def _guessed(part: Image | File | Audio) -> str | None:
    """The type that the end of a URL tells, or that an image has as a rule."""
    found = mimetypes.guess_type(part.media.url or "")[0]
    return found or ("image/jpeg" if isinstance(part, Image) else None)


def _write_media(part: Image | File | Audio, writer: Writer) -> Json | None:
    media = part.media
    named = media.mime or _guessed(part)
    about: Json = {} if named is None else {"mimeType": named}
    name = getattr(part, "name", None)
    if name is not None:
        about["displayName"] = name
    if getattr(part, "detail", None) is not None:
        writer.notes.lose("field", (*part.path, "detail"))
    if media.data is not None:
        is_taken = writer.takes_data(part)
        return {"inlineData": {**about, "data": media.data}} if is_taken else None
    place = media.file_id if writer.takes_file_id(media) else media.url
    return None if place is None else {"fileData": {**about, "fileUri": place}}


def _write_call(part: ToolCall, writer: Writer) -> Json:
    arguments, is_object = part.arguments_object()
    if part.is_custom:
        writer.notes.lose("custom_tool", part.path)
    elif not is_object:
        writer.notes.warn("invalid_arguments", part.path)
    if part.item_id is not None:
        writer.notes.lose("item_id", (*part.path, "id"))
    value: Json = {"name": part.name, "args": arguments}
    if part.id is not None and not part.id.startswith(MADE_ID):
        value["id"] = part.id
    return _signed(part, {"functionCall": value}, writer)


def _write_response(part: ToolResult, writer: Writer) -> Json:
    value: Json = {"name": writer.tool_name(part)}
    if part.call_id is not None and not part.call_id.startswith(MADE_ID):
        value["id"] = part.call_id
    data = part.parts[0] if len(part.parts) == 1 else None
    if isinstance(data, Data) and isinstance(data.value, dict) and not part.is_error:
        value["response"] = data.value
        return {"functionResponse": value}
    written = writer.parts(part.parts, "result")
    texts = [item["text"] for item in written if "text" in item]
    media = [item for item in written if "text" not in item]
    value["response"] = {"error" if part.is_error else "output": "\n".join(texts)}
    if media:
        value["parts"] = media
    return {"functionResponse": value}


def _write_reasoning(part: Reasoning, _: Writer) -> Json | None:
    if part.maker != "google":
        return None
    value = {"text": part.text, "thought": True} if part.text else {"text": ""}
    return value if part.signature is None else {**value, "thoughtSignature": part.signature}


_CONTENT: Final[Mapping[type, PartWriter]] = MappingProxyType(
    {Text: _write_text, Image: _write_media, File: _write_media, Audio: _write_media}
)

RULES: Final = Rules(
    name="gemini",
    list_field="contents",
    maker="google",
    read=read,
    write=write,
    fields=FIELDS,
    parts=MappingProxyType(
        {
            "system": {Text: _write_text},
            "user": {**_CONTENT, ToolResult: _write_response},
            "assistant": {
                **_CONTENT,
                ToolCall: _write_call,
                Reasoning: _write_reasoning,
            },
            "result": _CONTENT,
        }
    ),
    results="user",
    system="top",
    refuses_empty=True,
    alternates=True,
)
