"""Which API a path of HTTP belongs to, and the model where the path names it.

A path is judged by what an application, its relay or its provider may route on: every decoding of
it, with dot segments resolved, doubled slashes and parameters of segments dropped, in any case.
"""

from __future__ import annotations

import re
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
MAX_DECODINGS: Final = 4
"""Each hop on the way decodes a path once at most."""
_MODEL: Final = re.compile(r"/(models|model|deployments)/(.+?)(?::\w+|/[\w/-]+)$", re.IGNORECASE)
_UPLOADS: Final = re.compile(r"multipart/|application/(octet-stream|pdf|zip)|image/|audio/|video/")
_CHAT_MEMBERS: Final = frozenset({"messages", "contents"})


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


def may_be_chat(path: str, content_type: str = "") -> bool:
    """True if a body sent to `path` has to be looked at, since the path tells nothing of it."""
    if _UPLOADS.match(content_type.strip().lower()):
        return False
    last = list(_forms(path.partition("?")[0]))[-1]
    return not OTHERS.search(last) and THREADS not in last.lower()


def looks_like_chat(body: bytes | Mapping[str, Any]) -> bool:
    """True if the members of a body are those of a chat request."""
    if isinstance(body, bytes):
        members = _json_members(body) if body.lstrip()[:1] == b"{" else None
        names = {name for name, _, _ in members or ()}
    else:
        names = set(body)
    return bool(names & _CHAT_MEMBERS) or ("model" in names and bool(names & {"input", "prompt"}))


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
