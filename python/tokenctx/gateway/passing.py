"""Headers on their way through a gateway: whose key a request has, and which headers go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

KEY_HEADERS: Final = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key")
"""Where the SDKs of OpenAI, Anthropic, Azure and Google put a key; Google takes `?key=` too."""
# RFC 9110, 7.6.1: they are about one connection, and not about what travels over it.
ONE_CONNECTION: Final = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    "transfer-encoding upgrade".split()
)
OF_THE_SENDER: Final = frozenset(("host", "content-length", "accept-encoding"))
"""What the client that sends the request anew sets by itself."""
OF_THE_BODY: Final = frozenset(("content-length", "content-encoding"))
"""What no longer holds once an answer was unpacked."""


def tenant_of(scope: MutableMapping[str, Any]) -> bytes | None:
    """The API key of an ASGI request, for `TokenctxMiddleware(tenant=tenant_of)`.

    It is looked for where the SDKs of OpenAI, Anthropic, Azure and Google put it. None if there is
    none, if there are several that differ, since a provider would take one and we another, and for
    a signature in its place, as of AWS, which is new with each request. Such a request is to be
    answered with 401. The key is kept nowhere: an estimator keeps a keyed digest of it. Never
    raises.
    """
    found = {
        _without_scheme(value) for name, value in scope["headers"] if name.lower() in KEY_HEADERS
    }
    query = (scope.get("query_string") or b"").decode("latin-1")
    named = [value for name, value in parse_qsl(query) if name == "key"]
    found |= {value.encode("utf-8", "surrogateescape") for value in named}
    [key] = found if len(found) == 1 else [b""]
    return key or None


def request_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request that go on to the provider, with their names in lower case.

    Left out is what is about one connection, and what the sender sets anew: host, length, and the
    encodings that it reads.
    """
    return _without(headers, OF_THE_SENDER)


def answer_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of an answer that go back to the client, with their names in lower case.

    Left out is what is about one connection, and length and encoding, for a body that the client
    of the gateway has unpacked.
    """
    return _without(headers, OF_THE_BODY)


def _without_scheme(value: bytes) -> bytes:
    """The key in the value of a header: `Bearer` is no part of it, a signature is none."""
    scheme, _, rest = value.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return rest.strip()
    return b"" if scheme.upper().startswith(b"AWS4-") else value.strip()


def _without(headers: Mapping[str, str], others: frozenset[str]) -> dict[str, str]:
    named = {it.strip().lower() for it in headers.get("connection", "").split(",")}
    dropped = ONE_CONNECTION | others | named
    kept: dict[str, str] = {}
    for name, value in headers.items():
        plain = name.lower()
        if plain not in dropped:
            kept[plain] = f"{kept[plain]}, {value}" if plain in kept else value
    return kept
