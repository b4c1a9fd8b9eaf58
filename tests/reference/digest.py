"""Identity of messages: canonical bytes, one digest per message, one keyed chain per request.

Every field is written as tag, length and bytes, so that no two different messages share their
canonical bytes. What the provider does not see (call ids, cache markers, signatures) is left out.

A request is what `tests/data/requests` calls a view: what was read, as plain JSON values.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, Final

from blake3 import blake3

if TYPE_CHECKING:
    from collections.abc import Iterable

    View = dict[str, Any]

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


def message_digest(key: bytes, message: View) -> bytes:
    """16-byte identity of `message`: role, name and parts."""
    name = field("n", message["name"]) if message["name"] else b""
    unread = b"".join(field("u", text) for text in message.get("unread", ()))
    parts = parts_bytes(message["parts"])
    return _digest(key, field("r", message["role"]) + name + parts + unread)


def prefix_digests(key: bytes, family: str, request: View) -> list[bytes]:
    """Identity of the context (index 0) and of the first k messages (index k), 16 bytes each."""
    messages = request["messages"]
    digests = (None if it.get("is_dropped") else message_digest(key, it) for it in messages)
    start = context_digest(key, family, request)
    return list(itertools.accumulate(digests, functools.partial(link, key), initial=start))


def link(key: bytes, prefix: bytes, message: bytes | None) -> bytes:
    """Identity of `prefix` and the message after it; one that is dropped is in none."""
    return prefix if message is None else _digest(key, b"p" + prefix + message)


def context_digest(key: bytes, family: str, request: View) -> bytes:
    """Identity of all that stands before the messages: family, system prompt, tool set."""
    tools = (field("b" if tool["builtin"] else "t", tool["canonical"]) for tool in request["tools"])
    system = parts_bytes(request["system"])
    return _digest(key, field("f", family) + field("s", system) + field("x", b"".join(tools)))


def parts_bytes(parts: Iterable[View]) -> bytes:
    """Canonical bytes of parts in their order."""
    return b"".join(map(part_bytes, parts))


def part_bytes(part: View) -> bytes:
    """Canonical bytes of one part."""
    kind = part["part"]
    if kind == "text":
        return field("T", part["text"])
    if kind == "tool_call":
        return field("C", field("n", part["name"]) + field("a", part["canonical"]))
    if kind == "tool_result":
        name = field("n", part["name"]) + field("e", b"\x01" if part["is_error"] else b"")
        return field("R", name + parts_bytes(part["parts"]))
    if kind == "summary":
        return field("Z", field("T", part["text"]) + field("o", part["opaque"]))
    if kind == "reasoning":
        return field("S", field("T", part["text"]) + field("o", part["opaque"]))
    return field("D", part["canonical"]) if kind == "data" else media_bytes(part)


def media_bytes(media: View) -> bytes:
    """Canonical bytes of media: MIME type and the hash of its bytes, or where they are."""
    if media["malformed"]:
        where = field("w", media["malformed"])
    elif media["blake3"]:
        where = field("h", bytes.fromhex(media["blake3"]))
    else:
        where = field("u", media["reference"])
    said = (field(name[0], media[name]) for name in ("kind", "mime", "detail"))
    return field("M", b"".join(said) + where)


def _digest(key: bytes, content: bytes) -> bytes:
    return blake3(content, key=key).digest(DIGEST_BYTES)
