"""Vercel's AI SDK, `ModelMessage[]` of major version 7, and the settings of `generateText`.

What belongs to one provider stands under its name in `providerOptions`, so that reasoning,
signatures and cache markers of all providers pass.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.parts import functions_of, types_of
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
    Role,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Unknown,
    with_marker,
)
from tokenctx.convert.openai_chat import read_url
from tokenctx.convert.rules import UNKNOWN_TOOL, Rules, Writer, is_text

if TYPE_CHECKING:
    from tokenctx.convert.notes import Notes

ROLES: Final[MappingProxyType[str, Role]] = MappingProxyType(
    {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
)
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh")
OPTIONS: Final = "providerOptions"
OTHER_NAMES: Final = MappingProxyType({"google": ("vertex", "googleVertex")})
"""Under which a maker's options stand when its models are called elsewhere."""
MAKER_OF: Final = MappingProxyType(
    {other: maker for maker, others in OTHER_NAMES.items() for other in others}
)
PROOFS: Final = (
    ("anthropic", "signature", "signature"),
    ("anthropic", "redactedData", "encrypted"),
    ("openai", "itemId", "id"),
    ("openai", "reasoningEncryptedContent", "encrypted"),
    ("google", "thoughtSignature", "signature"),
)
"""Maker, the name under its options, and the field of neutral reasoning."""


# ------------------------------------------------------------------------------ options


def _read_choice(value: Any) -> ToolChoice | None:
    if value in ("auto", "none", "required"):
        return ToolChoice(value)
    name = value.get("toolName") if isinstance(value, dict) else None
    return ToolChoice("tool", name) if isinstance(name, str) else None


def _write_choice(choice: ToolChoice) -> Any:
    return {"type": "tool", "toolName": choice.name} if choice.mode == "tool" else choice.mode


FIELDS: Final = (
    Field("model", "model"),
    Field("maxOutputTokens", "max_output_tokens"),
    Field("temperature", "temperature"),
    Field("topP", "top_p"),
    Field("topK", "top_k"),
    Field("seed", "seed"),
    Field("stopSequences", "stop"),
    Field("presencePenalty", "presence_penalty"),
    Field("frequencyPenalty", "frequency_penalty"),
    Field("reasoning", "reasoning_effort", write=one_of(*EFFORTS)),
    Field("toolChoice", "tool_choice", read=_read_choice, write=_write_choice),
    Field("providerOptions.openai.parallelToolCalls", "parallel_tool_calls"),
    Field("providerOptions.openai.user", "user_id"),
    Field("providerOptions.openai.metadata", "metadata"),
    Field("providerOptions.openai.store", "store"),
    Field("providerOptions.openai.serviceTier", "service_tier"),
    Field("providerOptions.openai.safetyIdentifier", "safety_identifier"),
    Field("providerOptions.openai.promptCacheKey", "prompt_cache_key"),
    Field("providerOptions.openai.textVerbosity", "verbosity"),
)


# ------------------------------------------------------------------------------ reading


def read(body: Json, notes: Notes) -> Conversation:
    """The neutral conversation of what `generateText` is given."""
    handled = frozenset({"messages", "prompt", "tools", "instructions", "system"})
    options, extra = read_options(body, FIELDS, handled)
    messages: list[Message] = []
    name = "instructions" if "instructions" in body else "system"
    value = body.get(name)
    items = value if isinstance(value, list) else [] if value is None else [value]
    for index, item in enumerate(items):
        path: Path = (name, index) if isinstance(value, list) else (name,)
        item = {"role": "system", "content": item} if isinstance(item, str) else item  # noqa: PLW2901
        messages.append(read_message(item, path, notes, is_top=True))
    field = "messages" if "messages" in body else "prompt"
    found = body.get(field)
    if isinstance(found, str):
        messages.append(Message((field,), parts=(Text((field,), text=found),), is_plain=True))
    elif isinstance(found, list):
        for index, item in enumerate(found):
            messages.append(read_message(item, (field, index), notes, is_top=False))
    elif found is not None:
        extra[field,] = found
    tools = _read_tools(body.get("tools"), extra)
    return Conversation("ai-sdk", tuple(messages), tools, options, extra, body)


def _read_tools(value: Any, extra: dict[Path, Any]) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    for name, item in value.items() if isinstance(value, dict) else ():
        path: Path = ("tools", name)
        schema = item.get("inputSchema") if isinstance(item, dict) else None
        if isinstance(schema, dict) and item.get("type", "function") == "function":
            inner = schema.get("jsonSchema", schema)
            known = {"type", "description", "inputSchema", "strict", OPTIONS}
            rest = {key: item[key] for key in item.keys() - known}
            cache, more = _read_provider(item)
            rest |= more
            about = item.get("description")
            tools.append(Tool(path, item, rest, cache, name, about, inner, item.get("strict")))
        else:
            extra[path] = item
    if value is not None and not isinstance(value, dict):
        extra["tools",] = value
    return tuple(tools)


def _provider(item: Json, maker: str) -> Json:
    """The options of a maker, under the first of its names that has some."""
    options = item.get(OPTIONS)
    for name in (maker, *OTHER_NAMES.get(maker, ())):
        found = options.get(name) if isinstance(options, dict) else None
        if isinstance(found, dict):
            return found
    return {}


def _read_provider(item: Json, *known: tuple[str, str]) -> tuple[Json | None, Json]:
    """The cache marker, and the options of providers that were not read elsewhere."""
    cache = _provider(item, "anthropic").get("cacheControl")
    cache = cache if isinstance(cache, dict) else None
    seen = {("anthropic", "cacheControl"), *known} if cache else set(known)
    options = item.get(OPTIONS)
    if not isinstance(options, dict):
        return cache, {} if options is None else {OPTIONS: options}
    rest: Json = {}
    for name, values in options.items():
        maker = MAKER_OF.get(name, name)
        is_read = values is _provider(item, maker)
        if not isinstance(values, dict):
            rest[name] = values
        elif left := {key: values[key] for key in values if not (is_read and (maker, key) in seen)}:
            rest[name] = left
    return cache, {OPTIONS: rest} if rest else {}


def read_message(value: Any, path: Path, notes: Notes, *, is_top: bool) -> Message:
    """One message; of the answer of a model too."""
    if not isinstance(value, dict):
        notes.warn("unknown_message", path)
        return Message(path, value, parts=(Unknown(path, value),))
    role = ROLES.get(value["role"]) if isinstance(value.get("role"), str) else None
    if role is None:
        notes.warn("unknown_role", (*path, "role"))
    content = value.get("content")
    cache, options = _read_provider(value)
    extra = {key: item for key, item in value.items() if key not in {"role", "content", OPTIONS}}
    extra |= options
    parts: tuple[Part, ...] = ()
    if isinstance(content, str):
        parts = (Text((*path, "content"), text=content),)
    elif isinstance(content, list):
        parts = tuple(
            _read_part(item, (*path, "content", index), notes) for index, item in enumerate(content)
        )
    elif content is not None:
        parts = (Unknown((*path, "content"), content),)
    is_plain = isinstance(content, str)
    parts = with_marker(parts, cache)
    return Message(path, value, extra, None, role or "user", parts, is_plain, is_top)


def _read_part(item: Any, path: Path, notes: Notes) -> Part:
    kind = item.get("type") if isinstance(item, dict) else None
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    part = reader(item, path, notes) if reader is not None else None
    if part is None:
        notes.warn("unknown_part", path)
        return Unknown(path, item)
    return part


def _rest(item: Json, *names: str) -> Json:
    skipped = {"type", OPTIONS, *names}
    return {key: value for key, value in item.items() if key not in skipped}


SIGNATURE: Final = ("google", "thoughtSignature")
ITEM_ID: Final = ("openai", "itemId")


def _signature(item: Json) -> str | None:
    found = _provider(item, "google").get("thoughtSignature")
    return found if isinstance(found, str) else None


def _read_text(item: Json, path: Path, _: Notes) -> Part | None:
    text = item.get("text")
    if not isinstance(text, str):
        return None
    signature = _signature(item)
    cache, options = _read_provider(item, *([SIGNATURE] if signature else []))
    extra = {**_rest(item, "text"), **options}
    return Text(path, item, extra, cache, text, signature=signature)


def _read_data(value: Any, mime_type: str | None) -> Media | None:
    """File data in all its spellings: base64, a URL, a tagged object, a provider's reference."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind in ("data", "url"):
        value = value[kind] if isinstance(value.get(kind), str) else None
    if isinstance(value, str):
        is_url = value[:5].lower() == "data:" or "://" in value[:16]
        media = read_url(value) if is_url else Media(data=value)
        return Media(media.data, media.url, mime=media.mime or mime_type)
    if not isinstance(value, dict):
        return None
    if kind == "text" and isinstance(value.get("text"), str):
        return Media(text=value["text"], mime=mime_type)
    reference = value.get("reference") if kind == "reference" else value
    for maker in ("openai", "anthropic", "google"):
        if isinstance(reference, dict) and isinstance(reference.get(maker), str):
            return Media(file_id=reference[maker], owner=maker, mime=mime_type)
    return None


def _read_media(item: Json, path: Path, _: Notes) -> Part | None:
    named = item.get("mediaType")
    kind = "image" if item.get("type") == "image" or named == "image" else None
    known = mime.normalize(named)
    media = _read_data(item.get("image" if "image" in item else "data"), known)
    if media is None:
        return None
    if media.data is not None and isinstance(named, str) and "/" not in named and kind is None:
        found = mime.sniff(mime.base64_head(media.data))
        media = replace(media, mime=found or media.mime)
    cache, options = _read_provider(item, ("openai", "imageDetail"))
    kind = kind or (media.mime or "").partition("/")[0]
    name = item.get("filename")
    extra = {**_rest(item, "data", "image", "mediaType", "filename"), **options}
    if kind == "image" and not name:
        if media.data is not None and media.mime in {None, "image/*"}:
            found = mime.image_type(named, mime.base64_head(media.data))
            media = Media(data=media.data, mime=found)
        detail = _provider(item, "openai").get("imageDetail")
        detail = detail if isinstance(detail, str) else None
        return Image(path, item, extra, cache, media, detail)
    if kind == "audio" and not name:
        return Audio(path, item, extra, cache, media)
    return File(path, item, extra, cache, media, name if isinstance(name, str) else None)


def _read_call(item: Json, path: Path, _: Notes) -> Part | None:
    part = _PARTS[item["type"]]
    name, call_id = item.get(part.name), item.get(part.id)
    if not isinstance(name, str) or item.get("providerExecuted") is True:
        return None
    signature, item_id = _signature(item), _provider(item, "openai").get("itemId")
    item_id = item_id if isinstance(item_id, str) else None
    known = [SIGNATURE] if signature else []
    cache, options = _read_provider(item, *known, *([ITEM_ID] if item_id else []))
    arguments = item.get(part.arguments[0])
    return ToolCall(
        path,
        item,
        {**_rest(item, part.name, part.id, part.arguments[0], "providerExecuted"), **options},
        cache,
        call_id if isinstance(call_id, str) and call_id else None,
        name,
        arguments,
        is_text=isinstance(arguments, str),
        item_id=item_id,
        signature=signature,
    )


def _read_result(item: Json, path: Path, notes: Notes) -> Part | None:
    part = _PARTS[item["type"]]
    field = part.content[0]
    output, call_id, name = item.get(field), item.get(part.id), item.get(part.name)
    if not isinstance(output, dict):
        return None
    parts = _read_output(output, (*path, field, "value"), notes)
    if parts is None:
        return None
    cache, options = _read_provider(item)
    if cache is None:
        cache, _ = _read_provider(output)
    rest = {**_rest(item, part.name, part.id, field), **options}
    return ToolResult(
        path,
        item,
        rest,
        cache,
        call_id if isinstance(call_id, str) and call_id else None,
        name if isinstance(name, str) else None,
        tuple(parts),
        str(output.get("type")).startswith("e"),  # error-text, error-json, execution-denied
        output.get("type") != "content",
    )


DENIED: Final = "Tool call execution denied."


def _read_output(output: Json, path: Path, notes: Notes) -> list[Part] | None:
    kind, value = output.get("type"), output.get("value")
    if kind in ("text", "error-text") and isinstance(value, str):
        return [Text(path, text=value)]
    if kind in ("json", "error-json"):
        return [Data(path, value=value)]
    if kind == "execution-denied":
        reason = output.get("reason")
        return [Text(path, text=reason if isinstance(reason, str) else DENIED)]
    if kind == "content" and isinstance(value, list):
        return [
            Unknown((*path, index), item)
            if _is_result(item)  # not in a result
            else _read_part(item, (*path, index), notes)
            for index, item in enumerate(value)
        ]
    return None


def _is_result(item: Any) -> bool:
    kind = item.get("type") if isinstance(item, dict) else None
    part = _PARTS.get(kind) if isinstance(kind, str) else None
    return part is not None and part.kind == "result"


def _read_old_media(item: Json, path: Path, notes: Notes) -> Part | None:
    """The kinds of media in tool results that version 7 still reads."""
    place = next((item[key] for key in ("data", "url", "providerReference") if key in item), None)
    kind = str(item.get("type"))
    named = item.get("mediaType") or ("image" if kind.startswith("image") else None)
    fresh = {"type": "file", "data": place, "mediaType": named}
    return _read_media({**item, **fresh}, path, notes)


def _read_reasoning(item: Json, path: Path, _: Notes) -> Part | None:
    text = item.get("text")
    if not isinstance(text, str):
        return None
    found: Json = {}
    for maker, name, field in PROOFS:
        value = _provider(item, maker).get(name)
        if isinstance(value, str) and found.get("maker", maker) == maker:
            found |= {"maker": maker, field: value}
    known = [(maker, name) for maker, name, _ in PROOFS if found.get("maker") == maker]
    cache, options = _read_provider(item, *known)
    extra = {**_rest(item, "text"), **options}
    return Reasoning(path, item, extra, cache, text=text, **found)


_PARTS: Final = types_of("ai-sdk", "part")
_READERS: Final = functions_of(
    "ai-sdk",
    "part",
    {
        "text": _read_text,
        "image": _read_media,
        "file": _read_media,
        "call": _read_call,
        "result": _read_result,
        "reasoning": _read_reasoning,
        **dict.fromkeys(
            ("media", "file-data", "file-url", "image-data", "image-url"), _read_old_media
        ),
    },
)


# ------------------------------------------------------------------------------ writing


def write(conversation: Conversation, writer: Writer) -> Json:
    """The options of `generateText`; the schemas of tools have to be wrapped in `jsonSchema()`."""
    body = dict(conversation.raw) if writer.is_same else {}
    top = [message for message in conversation.messages if message.is_top]
    if not writer.is_same:
        write_options(conversation, FIELDS, body, writer.notes)
        if top:
            body["instructions"] = _write_instructions(top, writer)
    rest = [message for message in conversation.messages if not message.is_top]
    if writer.is_same and all(m.raw is None and len(m.path) == 1 for m in rest):
        return body  # the prompt is one string
    field = "prompt" if writer.is_same and "messages" not in body else "messages"
    written = [_write_message(message, writer) for message in rest]
    body[field] = [message for message in written if message is not None]
    if conversation.tools and not writer.is_same:
        body["tools"] = {tool.name: _write_tool(tool, writer) for tool in conversation.tools}
    return body


def _write_instructions(top: list[Message], writer: Writer) -> Any:
    """One system message for each text, since each may have a cache marker."""
    written: list[Json] = []
    for message in top:
        writer.message(message, {})
        for part in writer.parts(message.parts, "system"):
            fields = {key: part[key] for key in (OPTIONS,) if key in part}
            written.append({"role": "system", "content": part["text"], **fields})
    is_single = len(written) == 1 and OPTIONS not in written[0] and top[0].is_plain
    return written[0]["content"] if is_single else written


def _write_tool(tool: Tool, writer: Writer) -> Json:
    value: Json = {} if tool.description is None else {"description": tool.description}
    value["inputSchema"] = tool.schema if isinstance(tool.schema, dict) else {}
    if tool.strict is not None:
        value["strict"] = tool.strict
    finished: Json = writer.finish(tool, _with_options(value, cache=tool.cache))
    return finished


def _with_options(value: Json, cache: Any = None, **options: Json) -> Json:
    """`value` with what belongs to single providers."""
    if cache is not None:
        options["anthropic"] = {**options.get("anthropic", {}), "cacheControl": cache}
    return {**value, OPTIONS: options} if options else value


def _write_message(message: Message, writer: Writer) -> Any:
    if writer.is_same and message.raw is not None:
        return message.raw
    place = {"assistant": "assistant", "tool": "result"}.get(message.role, "user")
    parts = writer.parts(message.parts, place)  # type: ignore[arg-type]
    if not parts:
        writer.notes.lose("empty_message", message.path)
        return None
    is_plain = message.is_plain or message.role == "system"
    is_single = len(parts) == 1 and is_text(parts[0])
    content = parts[0]["text"] if is_plain and is_single else parts
    value = {"role": message.role, "content": content}
    return writer.message(message, _with_options(value, cache=message.cache))


def _write_text(part: Text, writer: Writer) -> Json:
    for _ in part.citations[:1]:
        writer.notes.lose("citations", (*part.path, "citations"))
    google = {"google": {"thoughtSignature": part.signature}} if part.signature else {}
    return _with_options({"type": "text", "text": part.text}, part.cache, **google)


def _data(media: Media) -> Any:
    if media.file_id is not None:
        return {media.owner or "openai": media.file_id}
    if media.text is not None:
        return {"type": "text", "text": media.text}
    return media.url if media.data is None else media.data


def _write_media(part: Image | File | Audio, _: Writer) -> Json:
    kind = {Image: "image", Audio: "audio/*"}.get(type(part), "application/octet-stream")
    media = part.media
    value = {"type": "file", "data": _data(media), "mediaType": media.mime or kind}
    name = getattr(part, "name", None)
    if name is not None:
        value["filename"] = name
    detail = getattr(part, "detail", None)
    openai = {"openai": {"imageDetail": detail}} if isinstance(detail, str) else {}
    return _with_options(value, part.cache, **openai)


def _write_result_media(part: Image | File | Audio, writer: Writer) -> Json:
    """Media in a tool result, where the data have to be tagged and a URL is a string no longer."""
    value = _write_media(part, writer)
    data = value["data"]
    if part.media.url is not None and part.media.data is None:
        return {"type": "file-url", "url": data, "mediaType": value["mediaType"]}
    if part.media.data is not None:
        value["data"] = {"type": "data", "data": data}
    elif part.media.file_id is not None:
        value["data"] = {"type": "reference", "reference": data}
    return value


def _write_call(part: ToolCall, writer: Writer) -> Json:
    arguments, is_object = part.arguments_object()
    if part.is_custom:
        writer.notes.lose("custom_tool", part.path)
    elif not is_object:
        writer.notes.warn("invalid_arguments", part.path)
    options: Json = {}
    if part.item_id is not None:
        options["openai"] = {"itemId": part.item_id}
    if part.signature is not None:
        options["google"] = {"thoughtSignature": part.signature}
    value = {"type": "tool-call", "toolCallId": part.id or UNKNOWN_TOOL, "toolName": part.name}
    return _with_options({**value, "input": arguments}, part.cache, **options)


def _write_result(part: ToolResult, writer: Writer) -> Json:
    value = {
        "type": "tool-result",
        "toolCallId": part.call_id or UNKNOWN_TOOL,
        "toolName": writer.tool_name(part),
        "output": _write_output(part, writer),
    }
    return _with_options(value, part.cache)


def _write_output(part: ToolResult, writer: Writer) -> Json:
    only = part.parts[0] if len(part.parts) == 1 else None
    error = "error-" if part.is_error else ""
    if isinstance(only, Data):
        return {"type": f"{error}json", "value": only.value}
    is_bare = isinstance(only, Text) and not only.extra and only.cache is None
    if isinstance(only, Text) and is_bare and (part.is_plain or part.is_error):
        return {"type": f"{error}text", "value": only.text}
    written = writer.parts(part.parts, "result")
    if part.is_error:
        if not all(map(is_text, written)):
            writer.notes.lose("error_flag", (*part.path, "is_error"))
        else:
            return {"type": "error-text", "value": "\n".join(item["text"] for item in written)}
    return {"type": "content", "value": written} if written else {"type": "text", "value": ""}


def _write_reasoning(part: Reasoning, _: Writer) -> Json:
    options: Json = {}
    for maker, name, field in PROOFS:
        proof = getattr(part, field)
        if maker == part.maker and proof is not None:
            options.setdefault(maker, {})[name] = proof
    return _with_options({"type": "reasoning", "text": part.text}, **options)


_MEDIA: Final = MappingProxyType({Image: _write_media, File: _write_media, Audio: _write_media})
_RESULT_MEDIA: Final = MappingProxyType(dict.fromkeys((Image, File, Audio), _write_result_media))

RULES: Final = Rules(
    name="ai-sdk",
    list_field="messages",
    maker=None,
    read=read,
    write=write,
    fields=FIELDS,
    parts=MappingProxyType(
        {
            "system": {Text: _write_text},
            "user": {Text: _write_text, **_MEDIA},
            "assistant": {
                Text: _write_text,
                **_MEDIA,
                ToolCall: _write_call,
                Reasoning: _write_reasoning,
            },
            "result": {Text: _write_text, ToolResult: _write_result, **_RESULT_MEDIA},
        }
    ),
    results="tool",
    system="top",
    has_cache=True,
    refuses_empty=True,
)
