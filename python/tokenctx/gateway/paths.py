"""Which API a path of HTTP belongs to, and the model where the path names it.

A path is judged by what an application, its relay or its provider may route on: every decoding of
it, with dot segments resolved, doubled slashes and parameters of segments dropped, in any case.
"""

from __future__ import annotations

import json
import re
import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from tokenctx._core import _json_members

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tokenctx._results.estimates import Dialect

ENDINGS: Final[tuple[tuple[str, Dialect | None], ...]] = (
    ("/chat/completions", "openai-chat"),
    ("/completions", None),
    ("/responses", "openai-responses"),
    ("/responses/compact", "openai-responses"),
    ("/messages", "anthropic"),
    (":generateContent", "gemini"),
    (":streamGenerateContent", "gemini"),
    ("/interactions", "gemini-interactions"),
    ("/converse", "bedrock-converse"),
    ("/converse-stream", "bedrock-converse"),
    ("/invoke", None),
    ("/invoke-with-response-stream", None),
    (":rawPredict", None),
    (":streamRawPredict", None),
)
"""How the paths of chat requests end, in the references of the vendors' APIs (2026-11), and their
dialect; None where the body says it."""
THREADS: Final = "/threads/"
"""Messages of OpenAI's Assistants, which are not requests to a model."""
OTHERS: Final = re.compile(
    r"(/(embeddings|moderations|rerank|files|batches|threads|assistants|vector_stores|jobs"
    r"|count_tokens|count-tokens|input_tokens|tokenize|speech|generations|estimate|record)"
    r"|:(countTokens|embedContent|batchEmbedContents))$",
    re.IGNORECASE,
)
"""Endings of the paths of other requests, whose bodies may look like those of a chat."""
UNBOUNDED: Final = re.compile(
    r"(/batches|:batchGenerateContent|/threads/runs"
    r"|/threads/[^/]+/runs(/[^/]+/submit_tool_outputs)?)$",
    re.IGNORECASE,
)
"""Paths of calls of a model of which no body bounds the tokens: batches of requests, which may be
in a file, and runs over threads that the provider keeps."""
SOCKETS: Final = re.compile(r"(/realtime|/responses|BidiGenerateContent)$", re.IGNORECASE)
"""Paths at which models are called over a WebSocket."""
MAX_DECODINGS: Final = 4
"""Each hop on the way decodes a path once at most."""
_MODEL: Final = re.compile(r"/(models|model|deployments)/(.+?)(?::\w+|/[\w/-]+)$", re.IGNORECASE)
GZIP: Final = b"\x1f\x8b"
ZLIB: Final = b"\x78"
MAX_LOOKED_BYTES: Final = 32 << 20
"""Of a packed body, or one in another encoding, that is looked at."""
_OBJECT_BEGINS: Final = re.compile(
    rb"(\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\x00\s]*(\{|$)|\x1f\x8b|\x78[\x01\x5e\x9c\xda]"
)
_ESCAPED_LETTER: Final = re.compile(rb"\\u00[4-7]")
_CHAT_MEMBERS: Final = frozenset({"messages", "contents"})
_NAMES: Final = (*_CHAT_MEMBERS, "model", "input", "prompt")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a chat request is sent.

    Attributes:
        dialect: None where the body tells it.
        model: As the path names it; empty if it does not.
        is_deployment: The name is one that a customer of Azure gave, which may be any.
    """

    dialect: Dialect | None
    model: str
    is_deployment: bool


@lru_cache(maxsize=1024)
def endpoint_of(path: str) -> Endpoint | None:
    """The endpoint that the path of a chat request names; None for others. Queries are left out."""
    for plain in _forms(path.partition("?")[0]):
        low = plain.lower()
        for ending, dialect in ENDINGS:
            if low.endswith(ending.lower()) and THREADS not in low:
                match = _MODEL.search(plain)
                if match is None:
                    return Endpoint(dialect, "", is_deployment=False)
                is_deployment = match[1].lower() == "deployments"
                return Endpoint(dialect, unquote(match[2]), is_deployment)
    return None


def may_be_chat(path: str) -> bool:
    """True if a body sent to `path` has to be looked at, since the path tells nothing of it."""
    last = list(_forms(path.partition("?")[0]))[-1]
    return not OTHERS.search(last) and THREADS not in last.lower()


def is_unbounded(path: str, *, is_socket: bool = False) -> bool:
    """True if calls of a model are made at `path` whose tokens nobody can bound before."""
    ends = SOCKETS if is_socket else UNBOUNDED
    return any(ends.search(plain) for plain in _forms(path.partition("?")[0]))


def may_begin_chat(first: bytes) -> bool:
    """True if a body that begins with these bytes may be an object of JSON; an upload is none.

    A header says of a body what its sender likes, and most applications do not look at it.
    """
    return _OBJECT_BEGINS.match(first) is not None


def looks_like_chat(body: bytes | Mapping[str, Any]) -> bool:
    """True if the members of a body are those of a chat request, packed or in UTF-16 too."""
    if not isinstance(body, bytes):
        return _are_of_chat(set(body))
    text = _plain_text(body)
    if text.lstrip()[:1] != b"{":
        return False
    members = _json_members(text)
    if members is not None:
        return _are_of_chat({name for name, _, _ in members})
    if (plain := unescaped(text)) is not None:
        return _are_of_chat(set(plain))
    return _are_of_chat({it for it in _NAMES if f'"{it}"'.encode() in text})


def _are_of_chat(names: set[str]) -> bool:
    return bool(names & _CHAT_MEMBERS) or ("model" in names and bool(names & {"input", "prompt"}))


def unescaped(body: bytes) -> dict[str, Any] | None:
    """A body whose names may be escaped, as an object; None for all others, and what is no JSON."""
    if not _ESCAPED_LETTER.search(body):
        return None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _plain_text(body: bytes) -> bytes:
    """A body as JSON in UTF-8, as far as that can be made of it."""
    if body.startswith((GZIP, ZLIB)):
        with suppress(zlib.error):
            body = zlib.decompressobj(wbits=47).decompress(body, MAX_LOOKED_BYTES)
    encoding = json.detect_encoding(body[:MAX_LOOKED_BYTES]) if body else "utf-8"
    if encoding == "utf-8":
        return body
    return body[:MAX_LOOKED_BYTES].decode(encoding, "replace").encode()


def _forms(path: str) -> Iterator[str]:
    """The path as it came and after each decoding, in plain form."""
    for _ in range(MAX_DECODINGS):
        yield _plain(path)
        decoded = unquote(path)
        if decoded == path:
            return
        path = decoded
    yield _plain(path)


def _plain(path: str) -> str:
    """The path without what servers and clients take out of it."""
    path = path.partition("?")[0].partition("#")[0].replace("\\", "/")
    kept: list[str] = []
    for segment in path.split("/"):
        name = segment.partition(";")[0].strip()
        if name == "..":
            del kept[-1:]
        elif name not in ("", "."):
            kept.append(name)
    return "/" + "/".join(kept)
