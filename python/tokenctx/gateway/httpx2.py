"""Transports of httpx2 that estimate, refuse and record what an SDK sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx2

from tokenctx.gateway.transports import AsyncExchange, AsyncRelayed, SyncExchange, SyncRelayed

if TYPE_CHECKING:
    from tokenctx.gateway.gateway import Gateway
    from tokenctx.gateway.transports import OnCall, Tenant


class _ByteStream(SyncRelayed, httpx2.SyncByteStream):
    """What httpx2 takes for the bytes of a response."""


class _AsyncByteStream(AsyncRelayed, httpx2.AsyncByteStream):
    """What httpx2 takes for the bytes of an asynchronous response."""


class Transport(SyncExchange, httpx2.BaseTransport):
    """Sends by the transport `inner`, `HTTPTransport()` by default, and records what comes back.

    The call is `response.extensions["tokenctx"]`; `on_call` is called with it before the request
    is sent. With `refuse` a request that does not fit is answered here, in the vendor's words, and
    the SDK raises what it raises for those. `tenant` is a name, or gives one for a request.
    """

    library = httpx2
    byte_stream = _ByteStream

    def __init__(
        self,
        gateway: Gateway,
        *,
        inner: httpx2.BaseTransport | None = None,
        tenant: Tenant = None,
        refuse: bool = False,
        on_call: OnCall = None,
    ) -> None:
        sender = httpx2.HTTPTransport() if inner is None else inner
        super().__init__(gateway, sender, tenant=tenant, refuse=refuse, on_call=on_call)


class AsyncTransport(AsyncExchange, httpx2.AsyncBaseTransport):
    """As `Transport`, for asynchronous clients; `inner` is `AsyncHTTPTransport()` by default."""

    library = httpx2
    byte_stream = _AsyncByteStream

    def __init__(
        self,
        gateway: Gateway,
        *,
        inner: httpx2.AsyncBaseTransport | None = None,
        tenant: Tenant = None,
        refuse: bool = False,
        on_call: OnCall = None,
    ) -> None:
        sender = httpx2.AsyncHTTPTransport() if inner is None else inner
        super().__init__(gateway, sender, tenant=tenant, refuse=refuse, on_call=on_call)


def client(
    gateway: Gateway,
    *,
    inner: httpx2.BaseTransport | None = None,
    tenant: Tenant = None,
    refuse: bool = False,
    on_call: OnCall = None,
    **options: Any,
) -> httpx2.Client:
    """A client with a `Transport`, for the argument of an SDK; `options` are the client's."""
    transport = Transport(gateway, inner=inner, tenant=tenant, refuse=refuse, on_call=on_call)
    return httpx2.Client(**{"transport": transport, "follow_redirects": True, **options})


def async_client(
    gateway: Gateway,
    *,
    inner: httpx2.AsyncBaseTransport | None = None,
    tenant: Tenant = None,
    refuse: bool = False,
    on_call: OnCall = None,
    **options: Any,
) -> httpx2.AsyncClient:
    """As `client`, for an asynchronous SDK."""
    transport = AsyncTransport(gateway, inner=inner, tenant=tenant, refuse=refuse, on_call=on_call)
    return httpx2.AsyncClient(**{"transport": transport, "follow_redirects": True, **options})
