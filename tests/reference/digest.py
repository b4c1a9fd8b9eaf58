"""Identity of messages: canonical bytes, one digest per message, one keyed chain per request.

Every field is written as tag, length and bytes, so that no two different messages share their
canonical bytes. What the provider does not see (call ids, cache markers, signatures) is left out.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from reference.model import Data, Media, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reference.model import Message, Part, Request, Tool

DIGEST_BYTES: Final = 16
CONTEXT: Final = "tokenctx 2026-11-21 message and prefix digests"
"""BLAKE3 key derivation context; it changes with every change of the canonical form."""
TENANT_CONTEXT: Final = "tokenctx 2026-11-21 digests of a tenant"


def derive_key(secret: bytes) -> bytes:
    """The 32-byte key of all digests of one estimator."""
    return blake3(secret, derive_key_context=CONTEXT).digest()


def tenant_key(key: bytes, tenant: bytes) -> bytes:
    """The 32-byte key of the digests of `tenant`, made of that of the estimator."""
    return blake3(key + tenant, derive_key_context=TENANT_CONTEXT).digest()


def public_name(key: bytes) -> bytes:
    """8 bytes that stand for the tenant of this key."""
    return _digest(key, b"name")[:8]


def field(tag: str, content: str | bytes) -> bytes:
    """`content` with its tag and its length in bytes (64 bit, little endian)."""
    encoded = content.encode() if isinstance(content, str) else content
    return tag.encode() + len(encoded).to_bytes(8, "little") + encoded


def message_digest(key: bytes, message: Message) -> bytes:
    """16-byte identity of `message`: role, name and parts."""
    name = field("n", message.name) if message.name else b""
    return _digest(key, field("r", message.role) + name + parts_bytes(message.parts))


def prefix_digests(key: bytes, family: str, request: Request) -> list[bytes]:
    """Identity of the context (index 0) and of the first k messages (index k), 16 bytes each."""
    digests = (message_digest(key, message) for message in request.messages)
    start = context_digest(key, family, request)
    return list(itertools.accumulate(digests, functools.partial(link, key), initial=start))


def family_digest(key: bytes, family: str) -> bytes:
    """8-byte identity of what counts depend on."""
    return _digest(key, family.encode())[:8]


def link(key: bytes, prefix: bytes, message: bytes) -> bytes:
    """Identity of `prefix` and the message after it."""
    return _digest(key, b"p" + prefix + message)


def options_digest(key: bytes, request: Request, *, hides_tools: bool) -> bytes:
    """5-byte identity of what may change around the messages; empty if there is nothing."""
    if not has_options(request) and not hides_tools:
        return b""
    kind, _, name = request.tool_choice.partition(":")
    form = field("c", kind) + field("n", name)
    if request.response_schema:
        form += field("j", request.response_schema) + field("n", request.schema_name)
        form += field("d", request.schema_description)
    form += field("h", bytes([request.thinking, request.pro, hides_tools]))
    later = b"".join(map(tool_bytes, later_tools(request)))
    return _digest(key, form + (field("l", later) if later else b""))[:5]


def has_options(request: Request) -> bool:
    """Whether anything but model, prompt, tools and messages is billed."""
    options = request.tool_choice, request.response_schema, request.thinking, request.pro
    return any((*options, later_tools(request)))


def context_digest(key: bytes, family: str, request: Request) -> bytes:
    """Identity of all that stands before the messages: family, system prompt, tool set."""
    tools = b"".join(map(tool_bytes, first_tools(request)))
    deferred = b"".join(map(tool_bytes, request.deferred_tools))
    form = field("f", family) + field("s", parts_bytes(request.system)) + field("x", tools)
    return _digest(key, form + (field("l", deferred) if deferred else b""))


def first_tools(request: Request) -> tuple[Tool, ...]:
    """Tools that the model sees whatever the messages are."""
    return tuple(tool for tool in request.tools if not tool.is_loaded)


def later_tools(request: Request) -> tuple[Tool, ...]:
    """Tools that the model sees because of a message."""
    return (*(tool for tool in request.tools if tool.is_loaded), *request.added_tools)


def tool_bytes(tool: Tool) -> bytes:
    """Canonical bytes of a tool definition."""
    return field("b" if tool.builtin else "t", tool.canonical)


def parts_bytes(parts: Iterable[Part]) -> bytes:
    """Canonical bytes of parts in their order."""
    return b"".join(map(part_bytes, parts))


def part_bytes(part: Part) -> bytes:
    """Canonical bytes of one part."""
    if isinstance(part, Text):
        return field("T", part.text)
    if isinstance(part, ToolCall):
        return field("C", field("n", part.name) + field("a", part.canonical))
    if isinstance(part, ToolResult):
        name = field("n", part.name) + field("e", b"\x01" if part.is_error else b"")
        return field("R", name + parts_bytes(part.parts))
    if isinstance(part, Reasoning):
        return field("S", field("T", part.text) + field("o", part.opaque))
    if isinstance(part, Data):
        return field("D", part.canonical)
    return media_bytes(part)


def media_bytes(media: Media) -> bytes:
    """Canonical bytes of media: MIME type and the hash of its bytes, or where they are."""
    if media.malformed:
        where = field("w", media.malformed)
    elif media.data is None:
        where = field("u", media.reference)
    else:
        where = field("h", blake3(media.data).digest())
    return field(
        "M", field("k", media.kind) + field("m", media.mime) + field("d", media.detail) + where
    )


def _digest(key: bytes, content: bytes) -> bytes:
    return blake3(content, key=key).digest(DIGEST_BYTES)
