"""The transports and clients of httpx and httpx2, which differ in their names alone.

Requests and responses are the library's, of either; so they are `Any` here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from tokenctx.gateway.paths import endpoint_of, may_be_chat
from tokenctx.usage.callbacks import Callback

if TYPE_CHECKING:
    from tokenctx.gateway.call import Call
    from tokenctx.gateway.gateway import Gateway
    from tokenctx.gateway.relay import Relay

Tenant = str | bytes | Callable[[Any], str | bytes | None] | None
OnCall = Callable[["Call"], object] | None

TRANSPORT_OPTIONS: Final = ("inner", "tenant", "refuse", "on_call")
EXTENSION: Final = "tokenctx"
"""Under this name a response has its call."""


class Exchange:
    """Requests made calls, and responses read: what a transport does around the one inside.

    A transport is of a `library`, whose classes stand for senders, streams and responses.
    """

    library: Any
    byte_stream: Any

    def __init__(
        self,
        gateway: Gateway,
        *,
        inner: Any = None,
        tenant: Tenant = None,
        refuse: bool = False,
        on_call: OnCall = None,
    ) -> None:
        self._gateway = gateway
        self._inner = self._sender() if inner is None else inner
        self._tenant = tenant
        self._refuses = refuse
        self._on_call = Callback("on_call", on_call)

    @classmethod
    def for_client(cls, gateway: Gateway, options: dict[str, Any]) -> dict[str, Any]:
        """The options of a client with such a transport, which takes its own out of `options`."""
        own = {name: options.pop(name) for name in TRANSPORT_OPTIONS if name in options}
        return {"transport": cls(gateway, **own), "follow_redirects": True, **options}

    def _sender(self) -> Any:
        """The library's own transport."""
        raise NotImplementedError

    def _is_chat(self, request: Any) -> bool:
        if request.method != "POST":
            return False
        path = request.url.raw_path.decode("latin-1")
        if endpoint_of(path) is not None or self._gateway.is_unbounded(path):
            return True
        kind = request.headers.get("content-type", "")
        return "json" in kind and may_be_chat(path)

    def _named(self, request: Any) -> dict[str, Any]:
        """Path and tenant of a request; raises what the user's function raises."""
        tenant = self._tenant(request) if callable(self._tenant) else self._tenant
        path = request.url.raw_path.decode("latin-1")
        return {"path": path, "tenant": tenant}

    def _refused(self, request: Any, call: Call) -> Any:
        """The response in place of the provider's; None if the request is to be sent."""
        self._on_call(call)
        refusal = call.refusal if self._refuses else None
        if refusal is None:
            return None
        return self.library.Response(
            refusal.status,
            headers={**refusal.headers, "content-length": str(len(refusal.body))},
            stream=self.library.ByteStream(refusal.body),  # which whoever streams can read
            request=request,
            extensions={EXTENSION: call},
        )

    def _outgoing(self, request: Any, call: Call) -> Any:
        """The request as it is sent: its body as the call has it, its answer one that is read."""
        readable = {call.accept_encoding, "identity"}
        asked = request.headers.get("accept-encoding", "identity")
        headers = request.headers.copy()
        if not {it.strip() for it in asked.split(",")} <= readable:
            headers["accept-encoding"] = call.accept_encoding
        elif not call.is_changed:
            return request
        body = call.upstream_body
        headers["content-length"] = str(len(body))
        return self.library.Request(
            request.method,
            request.url,
            headers=headers,
            content=body,
            extensions=request.extensions,
        )

    def _incoming(self, response: Any, call: Call) -> Any:
        """The response with a stream that is read as it is passed on."""
        relay = call.relay(response.status_code, response.headers)
        headers = response.headers.copy()
        if relay.is_rewritten:
            headers.pop("content-length", None)
        return self.library.Response(
            response.status_code,
            headers=headers,
            stream=self.byte_stream(response.stream, call, relay),
            extensions={**response.extensions, EXTENSION: call},
        )


class SyncExchange(Exchange):
    """The synchronous half."""

    def __init_subclass__(cls) -> None:
        # Without this base the library does not take the bytes of a response.
        cls.byte_stream = type("ByteStream", (SyncRelayed, cls.library.SyncByteStream), {})

    def _sender(self) -> Any:
        return self.library.HTTPTransport()

    def handle_request(self, request: Any) -> Any:
        """Send one request; a failure of ours is none of the request."""
        if not self._is_chat(request):
            return self._inner.handle_request(request)
        body = request.read()
        try:
            call = self._gateway.call(body, **self._named(request))
        except Exception as error:
            path = request.url.raw_path.decode("latin-1")
            call = self._gateway.failed("tenant", error, body, path)
        refused = self._refused(request, call)
        if refused is not None:
            return refused
        try:
            response = self._inner.handle_request(self._outgoing(request, call))
        except BaseException as error:
            call.end(error)
            raise
        return self._incoming(response, call)

    def close(self) -> None:
        """Close the transport inside."""
        self._inner.close()


class AsyncExchange(Exchange):
    """The asynchronous half."""

    def __init_subclass__(cls) -> None:
        cls.byte_stream = type("ByteStream", (AsyncRelayed, cls.library.AsyncByteStream), {})

    def _sender(self) -> Any:
        return self.library.AsyncHTTPTransport()

    async def handle_async_request(self, request: Any) -> Any:
        """Send one request; a failure of ours is none of the request."""
        if not self._is_chat(request):
            return await self._inner.handle_async_request(request)
        body = await request.aread()
        try:
            call = await self._gateway.acall(body, **self._named(request))
        except Exception as error:
            path = request.url.raw_path.decode("latin-1")
            call = await self._gateway.afailed("tenant", error, body, path)
        refused = self._refused(request, call)
        if refused is not None:
            return refused
        try:
            response = await self._inner.handle_async_request(self._outgoing(request, call))
        except BaseException as error:
            call.end(error)
            raise
        return self._incoming(response, call)

    async def aclose(self) -> None:
        """Close the transport inside."""
        await self._inner.aclose()


class SyncRelayed:
    """The bytes of a response, read on the way."""

    def __init__(self, stream: Any, call: Call, relay: Relay) -> None:
        self._stream, self._call = stream, call
        self._sent = call.stream(stream, relay=relay)

    def __iter__(self) -> Iterator[bytes]:
        return self._sent

    def close(self) -> None:
        """Close the response; what has not come is cut."""
        self._sent.close()
        self._call.end()
        self._stream.close()


class AsyncRelayed:
    """The bytes of an asynchronous response, read on the way."""

    def __init__(self, stream: Any, call: Call, relay: Relay) -> None:
        self._stream, self._call = stream, call
        self._sent = call.astream(stream, relay=relay)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._sent

    async def aclose(self) -> None:
        """Close the response; what has not come is cut."""
        try:
            await self._sent.aclose()
        except RuntimeError:  # another task waits for the next chunk: closing wakes it up
            self._call.end()
        self._call.end()
        await self._stream.aclose()
