"""Content of a message, whatever the dialect: its blocks are told apart by type or by shape."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from reference.document import canonical, compact, parse_arguments
from reference.media import DataUrl, decode_base64, parse_data_url, percent_decode_head
from reference.model import (
    Data,
    Media,
    MediaKind,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

MAX_NESTING: Final = 8
"""Tool results inside tool results that are read; deeper ones count as their JSON text."""

UNBILLED_KEYS: Final = frozenset(
    "cache_control cachePoint prompt_cache_breakpoint id call_id callId tool_call_id tool_use_id "
    "toolUseId toolCallId status caller $mid".split()
)
"""Keys of a block that the model never sees: they change neither count nor identity."""

METADATA_MIMES: Final = frozenset(
    "cache_control stateful_marker thinking context_management phase_data".split()
)
"""Data parts of VS Code that are bookkeeping of the host."""

MIME_SPACE: Final = " \t\n\f\r"
ASCII_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

TEXT_TYPES: Final = frozenset("text input_text output_text summary_text refusal".split())
CALL_TYPES: Final = frozenset("tool_use server_tool_use mcp_tool_use tool-call".split())
VENDOR_CALL_TYPES: Final = frozenset({"server_tool_use", "mcp_tool_use"})
"""Calls of tools that the vendor runs."""
MEDIA_KINDS: Final[tuple[MediaKind, ...]] = ("image", "audio", "video")
MEDIA_TYPES: Final = frozenset(
    "image_url input_image image document file input_file input_audio video_url audio_url "
    "document_url file_url video audio container_upload media computer_screenshot".split()
)
SDK_OUTPUTS: Final = ("text", "json", "error-text", "error-json", "content")
FILE_FORMATS: Final = {
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
}
TEXT_MIMES: Final = frozenset(
    "application/json application/xml application/yaml application/x-ndjson "
    "application/javascript".split()
)


def read_content(value: Any, assumptions: set[str], nesting: int = 0) -> list[Part]:
    """Parts of a message's content: null, text, one block or a list of blocks."""
    blocks = value if isinstance(value, list) else [value]
    parts: list[Part] = []
    for block in blocks:
        if isinstance(block, str):
            parts.append(Text(block))
        elif isinstance(block, dict):
            parts.extend(read_block(block, assumptions, nesting))
        elif block is not None:
            parts.append(read_data(block, assumptions))
    return parts


def merge_text(parts: list[Part]) -> tuple[Part, ...]:
    """`parts` with adjacent text joined and empty text left out."""
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, Text):
            if not part.text:
                continue
            if merged and isinstance(merged[-1], Text):
                before = merged[-1]
                ends = (*before.ends, len(before.text))
                merged[-1] = Text(before.text + part.text, ends, before.documents + part.documents)
                continue
        merged.append(part)
    return tuple(merged)


def read_nested(value: Any, assumptions: set[str], nesting: int) -> list[Part]:
    """Parts of content inside of a block, as far down as content is read."""
    if nesting < MAX_NESTING:
        return read_content(value, assumptions, nesting + 1)
    return [] if value is None else [read_data(value, assumptions)]


def read_data(value: Any, assumptions: set[str]) -> Data:
    """A value of unknown meaning as its JSON text, unbilled keys at its top left out."""
    assumptions.add("unknown_part")
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if key not in UNBILLED_KEYS}
    return data(value)


def data(value: Any) -> Data:
    """`value` as JSON text."""
    return Data(compact(value), canonical(value))


def read_call(name: Any, arguments: Any) -> ToolCall:
    """A tool call; arguments are JSON text or a value."""
    if isinstance(arguments, str):
        parsed, is_json = parse_arguments(arguments)
        if not is_json:
            return ToolCall(string(name), arguments, arguments)
        arguments = parsed
    elif arguments is None:
        arguments = {}
    return ToolCall(string(name), compact(arguments), canonical(arguments))


def read_result(
    name: Any, content: Any, assumptions: set[str], nesting: int, *, is_error: bool = False
) -> ToolResult:
    """A tool result; an object that is no block is the tool's own data."""
    if isinstance(content, dict) and not is_block(content):
        parts: list[Part] = [data(content)]
    else:
        parts = read_nested(content, assumptions, nesting)
    return ToolResult(string(name), merge_text(parts), is_error)


def is_block(value: dict[str, Any]) -> bool:
    """Whether a tool result's object is a content block rather than the tool's own data."""
    return isinstance(value.get("type"), str) and bool(
        {"text", "source", "image_url", "content", "data"} & value.keys()
    )


def string(value: Any) -> str:
    """`value` if it is text, else empty text."""
    return value if isinstance(value, str) else ""


def first(value: dict[str, Any], *keys: str) -> Any:
    """The first of `keys` in `value` that is not null."""
    return next((value[key] for key in keys if value.get(key) is not None), None)


def read_block(block: dict[str, Any], assumptions: set[str], nesting: int) -> list[Part]:
    """Parts of one content block; one of an unknown kind counts as its JSON text."""
    kind = string(block.get("type"))
    if kind in TEXT_TYPES or (kind == "thinking" and "text" in block):
        text = first(block, "text", "refusal")
        is_text = text is None or isinstance(text, str)
        return [Text(string(text)) if is_text else read_data(block, assumptions)]
    if kind in CALL_TYPES:
        call = read_call(first(block, "name", "toolName"), first(block, "input", "args"))
        return [replace(call, is_run_by_vendor=kind in VENDOR_CALL_TYPES)]
    if kind == "tool_result" or kind.endswith("_tool_result") or kind == "tool-result":
        return [read_result_block(block, assumptions, nesting)]
    if kind in ("thinking", "redacted_thinking", "reasoning", "reasoning_text"):
        text = first(block, "thinking", "text")
        return [Reasoning(joined_text(text), string(block.get("data")))]
    if kind in MEDIA_TYPES:
        return read_media_block(kind, block, assumptions, nesting)
    return read_untyped_block(block, assumptions, nesting)


def read_result_block(block: dict[str, Any], assumptions: set[str], nesting: int) -> ToolResult:
    """A tool result of Anthropic or the AI SDK."""
    content, name = first(block, "content", "output", "result"), block.get("toolName")
    is_error = block.get("is_error") is True
    kind = string(content.get("type")) if isinstance(content, dict) else ""
    if kind not in SDK_OUTPUTS or "value" not in content:
        return read_result(name, content, assumptions, nesting, is_error=is_error)
    content = content["value"]
    if kind.startswith("error-"):
        is_error = True
    if kind.endswith("json"):
        return ToolResult(string(name), (data(content),), is_error)
    return read_result(name, content, assumptions, nesting, is_error=is_error)


def joined_text(value: Any) -> str:
    """Text of a string or of a list of strings and text blocks."""
    if isinstance(value, list):
        return "".join(
            string(item.get("text")) if isinstance(item, dict) else string(item) for item in value
        )
    return string(value)


def read_untyped_block(block: dict[str, Any], assumptions: set[str], nesting: int) -> list[Part]:
    """Parts of a block that says by its keys what it is: Gemini, Bedrock Converse, VS Code."""
    if isinstance(text := block.get("text"), str):
        return [Reasoning(text) if block.get("thought") is True else Text(text)]
    if isinstance(call := first(block, "functionCall", "function_call"), dict):
        signature = string(first(block, "thoughtSignature", "thought_signature"))
        made = read_call(call.get("name"), call.get("args"))
        return [replace(made, signature_bytes=len(signature.encode()))]
    if isinstance(result := first(block, "functionResponse", "function_response"), dict):
        response = result.get("response")
        parts: list[Part] = [] if response is None else [data(response)]
        parts += read_nested(result.get("parts"), assumptions, nesting)
        return [ToolResult(string(result.get("name")), merge_text(parts))]
    if isinstance(inline := first(block, "inlineData", "inline_data"), dict):
        return [read_media(inline.get("data"), about_inline(inline), assumptions)]
    if isinstance(stored := first(block, "fileData", "file_data"), dict):
        uri = first(stored, "fileUri", "file_uri")
        return [remote_media(uri, about_inline(stored), assumptions)]
    if isinstance(code := first(block, "executableCode", "executable_code"), dict):
        return [Text(string(code.get("code")))]
    if isinstance(output := first(block, "codeExecutionResult", "code_execution_result"), dict):
        return [Text(string(output.get("output")))]
    if isinstance(use := block.get("toolUse"), dict):
        return [read_call(use.get("name"), use.get("input"))]
    if isinstance(result := block.get("toolResult"), dict):
        is_error = result.get("status") == "error"
        return [read_result("", result.get("content"), assumptions, nesting, is_error=is_error)]
    if "json" in block:
        return [data(block["json"])]
    for name in ("image", "document", "video", "audio"):
        if isinstance(media := block.get(name), dict):
            return read_converse_media(name, media, assumptions, nesting)
    if isinstance(reasoning := block.get("reasoningContent"), dict):
        text = reasoning.get("reasoningText")
        text = text.get("text") if isinstance(text, dict) else text
        return [Reasoning(string(text), string(reasoning.get("redactedContent")))]
    for name in ("guardContent", "citationsContent"):
        if isinstance(inner := block.get(name), dict):
            return read_nested(first(inner, "text", "content"), assumptions, nesting)
    if isinstance(block.get("image_url"), dict):
        return read_media_block("image_url", block, assumptions, nesting)
    return read_host_block(block, assumptions, nesting)


def read_host_block(block: dict[str, Any], assumptions: set[str], nesting: int) -> list[Part]:
    """Parts of a VS Code part or a chat-store part; anything else as JSON text."""
    if (
        not block.keys()
        - UNBILLED_KEYS
        - {"thoughtSignature", "thought_signature", "thought", "type"}
    ):
        return []
    if isinstance(value := block.get("value"), str):
        return [Text(value)]
    if "callId" in block or "call_id" in block:
        if "content" in block or "toolResult" in block:
            content = first(block, "content", "toolResult")
            return [read_result(block.get("name"), content, assumptions, nesting)]
        if isinstance(block.get("name"), str):
            return [read_call(block["name"], first(block, "input", "parameters", "arguments"))]
    if isinstance(mime := first(block, "mimeType", "mime_type"), str) and "data" in block:
        if mime in METADATA_MIMES:
            return []
        return [read_media(block["data"], about_inline(block), assumptions)]
    if isinstance(kind := block.get("kind"), str):
        return read_stored_part(kind, block, assumptions, nesting)
    return [read_data(block, assumptions)]


def about_inline(inline: dict[str, Any]) -> About:
    """What a Gemini or VS Code part says of its media."""
    mime = plain_mime(string(first(inline, "mimeType", "mime_type")), "file")
    return About("file", mime, "", string(first(inline, "displayName", "display_name")))


def read_stored_part(
    kind: str, block: dict[str, Any], assumptions: set[str], nesting: int
) -> list[Part]:
    """A part of the token counting strategy's chat store: text, tool call or result, attachment."""
    content = first(block, "content", "contentText", "contentJson")
    if kind in ("text", "attachment"):
        return [Text(string(content))]
    if kind == "tool_invocation":
        return [read_call(first(block, "toolName", "name"), content)]
    if kind == "tool_result":
        return [read_result(first(block, "toolName", "name"), content, assumptions, nesting)]
    return [] if kind == "metadata" else [read_data(block, assumptions)]


def read_media_block(
    kind: str, block: dict[str, Any], assumptions: set[str], nesting: int
) -> list[Part]:
    """An image, file, audio or document block of the OpenAI, Anthropic, Mistral or AI SDK form."""
    inner = first(block, kind, "source", "file", "image_url", "file_data", "file_url", "data")
    source = inner if isinstance(inner, dict) else {}
    fields = {**block, **{key: value for key, value in source.items() if value is not None}}
    if isinstance(inner, dict):
        if inner.get("type") in ("text", "content"):
            content = first(inner, "data", "content", "text")
            titles = [Text(string(block.get(key))) for key in ("title", "context")]
            return as_document([*titles, *read_nested(content, assumptions, nesting)], "")
        inner = first(inner, "data", "file_data", "url", "file_url", "file_id", "bytes", "id")
    if inner is None:
        inner = first(block, "file_id", "url")
    if inner is None:
        inner = source
    family = kind_of_block(kind)
    mime = string(first(fields, "mediaType", "media_type", "mimeType", "mime_type", "format"))
    about = About(
        family,
        plain_mime(mime, family),
        string(fields.get("detail")),
        string(first(fields, "filename", "title")),
    )
    if isinstance(inner, str) and looks_remote(kind, inner):
        return [remote_media(inner, about, assumptions)]
    return [read_media(inner, about, assumptions)]


def as_document(parts: list[Part], name: str) -> list[Part]:
    """`parts` of a document, its last text marked as one; empty text is left out."""
    parts = [part for part in parts if not isinstance(part, Text) or part.text]
    if parts and isinstance(parts[-1], Text):
        parts[-1] = replace(parts[-1], documents=(name,))
    return parts


def kind_of_block(kind: str) -> MediaKind:
    """The kind of media in a block of this type."""
    if kind == "computer_screenshot":
        return "image"
    return next((name for name in MEDIA_KINDS if name in kind), "file")


def looks_remote(kind: str, text: str) -> bool:
    """Whether `text` says where bytes are instead of holding them."""
    if parse_data_url(text) is not None:
        return False
    is_reference = text.startswith(("http://", "https://", "gs://", "s3://", "file-", "file_"))
    return is_reference or kind.endswith("_url") or kind == "container_upload"


def read_converse_media(
    kind: str, media: dict[str, Any], assumptions: set[str], nesting: int
) -> list[Part]:
    """An image, document, video or audio block of Bedrock Converse."""
    source = media.get("source")
    source = source if isinstance(source, dict) else {}
    name = f"{string(media.get('name'))}.{string(media.get('format'))}"
    if kind == "document" and isinstance(source.get("content"), list):
        return as_document(read_nested(source["content"], assumptions, nesting), name)
    if kind == "document" and isinstance(source.get("text"), str):
        return as_document([Text(source["text"])], name)
    family = kind_of_block(kind)
    mime = plain_mime(string(media.get("format")), family)
    about = About(family, mime, "", string(media.get("name")))
    content = source.get("bytes")
    return as_document(
        [read_media(source if content is None else content, about, assumptions)], name
    )


@dataclass(frozen=True)
class About:
    """What a block says of its media beside the bytes."""

    kind: MediaKind
    mime: str = ""
    detail: str = ""
    name: str = ""


def read_media(value: Any, about: About, assumptions: set[str]) -> Part:
    """Media whose bytes are in the request: raw bytes, base64 text or a data URL."""
    malformed = ""
    if isinstance(value, str) and (url := parse_data_url(value)) is not None:
        about = replace(about, mime=plain_mime(url.mime, about.kind))
        content, malformed = decode_url(url)
    elif isinstance(value, str):
        content, malformed = decode_text(value)
    elif isinstance(value, bytes):
        content = value
    else:
        return remote_media(value, about, assumptions)
    kind = kind_of_mime(about.mime) or about.kind
    if malformed:
        assumptions.add("malformed_base64")
    if kind == "file" and is_text_mime(about.mime):
        return Text(malformed or content.decode("utf-8", "replace"))
    return Media(kind, about.mime, content, "", about.detail, about.name, malformed)


def decode_url(url: DataUrl) -> tuple[bytes, str]:
    """Bytes of a data URL, and its data as written where that is not base64 to its end."""
    if url.is_base64:
        return decode_text(url.data)
    return percent_decode_head(url.data, len(url.data.encode())), ""


def decode_text(text: str) -> tuple[bytes, str]:
    """Bytes of base64 text, and the text where it is not base64 to its end."""
    content, is_whole = decode_base64(text)
    return content, "" if is_whole else text


def remote_media(where: Any, about: About, assumptions: set[str]) -> Media:
    """Media that is only named in the request; it is never fetched."""
    kind = kind_of_mime(about.mime) or about.kind
    assumptions.add(f"remote_{kind}")
    place = where if isinstance(where, str) or not where else canonical(where)
    return Media(kind, about.mime, None, place or "?", about.detail, about.name)


def plain_mime(mime: str, kind: MediaKind) -> str:
    """A MIME type in lower case without parameters; a bare format becomes one of its kind."""
    mime = mime.partition(";")[0].strip(MIME_SPACE).translate(ASCII_LOWER)
    if "/" in mime or not mime:
        return {"image/jpg": "image/jpeg"}.get(mime, mime)
    if kind == "file":
        return FILE_FORMATS.get(mime, f"application/{mime}")
    return plain_mime(f"{kind}/{mime}", kind)


def kind_of_mime(mime: str) -> MediaKind | None:
    """The kind of media of a MIME type, None when it does not say."""
    for kind in MEDIA_KINDS:
        if mime.startswith(kind + "/"):
            return kind
    return None


def is_text_mime(mime: str) -> bool:
    """Whether a file of this type is read by the model as plain text."""
    return mime.startswith("text/") or mime in TEXT_MIMES or mime.endswith(("+json", "+xml"))
