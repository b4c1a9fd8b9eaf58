"""Transports of httpx that estimate, refuse and record what an SDK sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from tokenctx.gateway.transports import AsyncExchange, AsyncRelayed, SyncExchange, SyncRelayed

if TYPE_CHECKING:
    from tokenctx.gateway.gateway import Gateway
    from tokenctx.gateway.transports import OnCall, Tenant


class _ByteStream(SyncRelayed, httpx.SyncByteStream):
    """What httpx takes for the bytes of a response."""


class _AsyncByteStream(AsyncRelayed, httpx.AsyncByteStream):
    """What httpx takes for the bytes of an asynchronous response."""


class Transport(SyncExchange, httpx.BaseTransport):
    """Sends by the transport `inner`, `HTTPTransport()` by default, and records what comes back.

    The call is `response.extensions["tokenctx"]`; `on_call` is called with it before the request
    is sent. With `refuse` a request that does not fit is answered here, in the vendor's words, and
    the SDK raises what it raises for those. `tenant` is a name, or gives one for a request.
    """

    library = httpx
    byte_stream = _ByteStream

    def __init__(
        self,
        gateway: Gateway,
        *,
        inner: httpx.BaseTransport | None = None,
        tenant: Tenant = None,
        refuse: bool = False,
        on_call: OnCall = None,
    ) -> None:
        sender = httpx.HTTPTransport() if inner is None else inner
        super().__init__(gateway, sender, tenant=tenant, refuse=refuse, on_call=on_call)


class AsyncTransport(AsyncExchange, httpx.AsyncBaseTransport):
    """As `Transport`, for asynchronous clients; `inner` is `AsyncHTTPTransport()` by default."""

    library = httpx
    byte_stream = _AsyncByteStream

    def __init__(
        self,
        gateway: Gateway,
        *,
        inner: httpx.AsyncBaseTransport | None = None,
        tenant: Tenant = None,
        refuse: bool = False,
        on_call: OnCall = None,
    ) -> None:
        sender = httpx.AsyncHTTPTransport() if inner is None else inner
        super().__init__(gateway, sender, tenant=tenant, refuse=refuse, on_call=on_call)


def client(
    gateway: Gateway,
    *,
    inner: httpx.BaseTransport | None = None,
    tenant: Tenant = None,
    refuse: bool = False,
    on_call: OnCall = None,
    **options: Any,
) -> httpx.Client:
    """A client with a `Transport`, for the argument of an SDK; `options` are the client's."""
    transport = Transport(gateway, inner=inner, tenant=tenant, refuse=refuse, on_call=on_call)
    return httpx.Client(**{"transport": transport, "follow_redirects": True, **options})


def async_client(
    gateway: Gateway,
    *,
    inner: httpx.AsyncBaseTransport | None = None,
    tenant: Tenant = None,
    refuse: bool = False,
    on_call: OnCall = None,
    **options: Any,
) -> httpx.AsyncClient:
    """As `client`, for an asynchronous SDK."""
    transport = AsyncTransport(gateway, inner=inner, tenant=tenant, refuse=refuse, on_call=on_call)
    return httpx.AsyncClient(**{"transport": transport, "follow_redirects": True, **options})
