"""Transports of httpx that estimate, refuse and record what an SDK sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from tokenctx._results.front import own_names
from tokenctx.gateway.transports import AsyncExchange, SyncExchange

if TYPE_CHECKING:
    from tokenctx.gateway.gateway import Gateway


class Transport(SyncExchange, httpx.BaseTransport):
    """Sends by the transport `inner`, `HTTPTransport()` by default, and records what comes back.

    The call is `response.extensions["tokenctx"]`; `on_call` is called with it before the request
    is sent. With `refuse` a request that does not fit is answered here, in the vendor's words, and
    the SDK raises what it raises for those. `tenant` is a name, or gives one for a request.
    """

    library = httpx


class AsyncTransport(AsyncExchange, httpx.AsyncBaseTransport):
    """As `Transport`, for asynchronous clients; `inner` is `AsyncHTTPTransport()` by default."""

    library = httpx


def client(gateway: Gateway, **options: Any) -> httpx.Client:
    """A client with a `Transport`, for the argument of an SDK.

    `inner`, `tenant`, `refuse` and `on_call` are the transport's; all other options the client's.
    """
    return httpx.Client(**Transport.for_client(gateway, options))


def async_client(gateway: Gateway, **options: Any) -> httpx.AsyncClient:
    """As `client`, for an asynchronous SDK."""
    return httpx.AsyncClient(**AsyncTransport.for_client(gateway, options))


__all__, __dir__ = own_names(globals())
