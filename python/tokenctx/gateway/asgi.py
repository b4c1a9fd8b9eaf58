"""The gateway as ASGI middleware: no response is collected, no task is started."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from tokenctx.gateway.paths import endpoint_of, looks_like_chat, may_be_chat, may_begin_chat

if TYPE_CHECKING:
    from tokenctx.gateway.call import Call
    from tokenctx.gateway.gateway import Gateway
    from tokenctx.gateway.refusals import Refusal
    from tokenctx.gateway.relay import Relay
    from tokenctx.money.budgets import BudgetRefusal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Tenant = Callable[[Scope], str | bytes | None]
Keys = Callable[[Scope], Mapping[str, str | None]]
Pairs = list[tuple[bytes, bytes]]

MAX_BODY_BYTES: Final = 32 << 20
"""Anthropic refuses longer bodies; no vendor takes much longer ones."""
FIRST_BYTES: Final = 4
"""They tell JSON, in any encoding, from an upload."""
MAX_LENGTH: Final = 1 << 50
"""A length that is said to be more is taken for this."""
_READ_ENCODINGS: Final = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})
"""Encodings of a request whose length can be told; all other bodies have no bound."""


class TokenctxMiddleware:
    """Estimates, refuses and records the chat requests of an ASGI application.

    A POST to the path of a chat request is read, up to `max_body_bytes`, and handed on as it was,
    or with what the gateway changes. The application finds the `Call` in `scope["state"]`, which
    is `request.state.tokenctx`; what it answers goes out part by part as it comes, with the
    headers of the estimate, and is recorded at the end. With `refuse`, what does not fit is
    answered in its place. `tenant` gives whose request it is, of the scope, and `keys` what budgets
    are kept by beside it; if one raises, nothing
    is counted, so that no tenant is taken for another, and budgets take it for a call of nobody.
    A POST to a path that nobody knows is read too, unless its first bytes are no JSON: if it looks
    like a chat request, it is one. All else passes untouched. Under budgets calls that nobody
    can bound are refused: batches, and models that are called over a WebSocket.
    """

    def __init__(
        self,
        app: App,
        gateway: Gateway,
        *,
        tenant: Tenant | None = None,
        keys: Keys | None = None,
        refuse: bool = True,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self._app = app
        self._gateway = gateway
        self._tenant = tenant
        self._keys = keys
        self._refuses = refuse
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI 3 has it."""
        if scope["type"] == "websocket":
            return await self._connected(scope, receive, send)
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self._app(scope, receive, send)
        path = _path(scope)
        is_unbounded = self._gateway.is_unbounded(path)
        if endpoint_of(path) is None and not (is_unbounded or may_be_chat(path)):
            return await self._app(scope, receive, send)
        messages: deque[Message] = deque()
        call: Call | None
        if is_unbounded:
            call = await self._uncounted(scope, path, "unbounded", None)
        else:
            messages, call = await self._received(scope, path, receive)
        rest = _Rest(messages, receive, call)
        if call is None or not call.is_counted:
            return await self._app(scope, rest.next, send)
        scope = {**scope, "state": {**(scope.get("state") or {}), "tokenctx": call}}
        answer = _Answer(call, send)
        if self._refuses and call.refusal is not None:
            return await answer.refuse()
        if call.is_changed:
            body = call.upstream_body
            rest.messages = deque([{"type": "http.request", "body": body, "more_body": False}])
            scope["headers"] = _with_length(scope["headers"], len(body))
        error: BaseException | None = None
        try:
            await self._app(scope, rest.next, answer.send)
        except BaseException as raised:
            error = raised
            raise
        finally:
            answer.end(error)
        return None

    async def _connected(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket: under budgets none over which a model is called."""
        path = _path(scope)
        if not self._gateway.is_unbounded(path, is_socket=True):
            return await self._app(scope, receive, send)
        call = await self._uncounted(scope, path, "unbounded", None)
        if self._refuses and call.refusal is not None:
            return await _Denial(call.refusal, scope, send).send()
        try:
            await self._app(scope, receive, send)
        finally:
            call.end(asyncio.CancelledError())
        return None

    async def _received(
        self, scope: Scope, path: str, receive: Receive
    ) -> tuple[deque[Message], Call | None]:
        """The messages of the request so far, to be handed on, and its call if it has one."""
        messages: deque[Message] = deque()
        received, said = 0, _length(scope["headers"])
        is_known = is_chat = endpoint_of(path) is not None
        while not is_chat or max(received, said) <= self._max_body_bytes:
            message = await receive()
            messages.append(message)
            if message["type"] != "http.request":
                if not is_known:
                    return messages, None
                return messages, await self._uncounted(scope, path, "disconnected", received)
            received += len(message.get("body", b""))
            is_last = not message.get("more_body")
            if not is_chat and (is_last or received >= FIRST_BYTES):
                is_chat = may_begin_chat(b"".join(it.get("body", b"") for it in messages))
                if not is_chat:
                    return messages, None
            if is_last and received <= self._max_body_bytes:
                body = b"".join(it.get("body", b"") for it in messages)
                if not (is_known or looks_like_chat(body)):
                    return messages, None
                return messages, await self._call(scope, path, body)
        return messages, await self._uncounted(scope, path, "too_large", max(received, said))

    async def _call(self, scope: Scope, path: str, body: bytes) -> Call:
        if _header(scope, b"content-encoding") not in _READ_ENCODINGS:
            return await self._uncounted(scope, path, "compressed", None)
        try:
            tenant, keys = self._named(scope)
            return await self._gateway.acall(body, path=path, tenant=tenant, keys=keys)
        except Exception as error:  # a caller's function may raise anything
            return await self._gateway.afailed("tenant", error, body, path)

    async def _uncounted(self, scope: Scope, path: str, why: str, length: int | None) -> Call:
        tenant, keys = None, None
        try:
            tenant, keys = self._named(scope)
        except Exception as error:  # it is a call of nobody
            self._gateway.count_failure("tenant", error)
        return await self._gateway.auncounted(
            why, byte_count=length, path=path, tenant=tenant, keys=keys
        )

    def _named(self, scope: Scope) -> tuple[str | bytes | None, Mapping[str, str | None] | None]:
        """Whose call it is; raises what the functions of the user raise."""
        tenant = self._tenant(scope) if self._tenant is not None else None
        return tenant, self._keys(scope) if self._keys is not None else None


class _Rest:
    """What is left of a request: the messages that were kept, then those that come."""

    def __init__(self, messages: deque[Message], receive: Receive, call: Call | None) -> None:
        self.messages = messages
        self._receive = receive
        self._call = call

    async def next(self) -> Message:
        message = self.messages.popleft() if self.messages else await self._receive()
        if self._call is not None:
            self._call.input_bytes += len(message.get("body", b""))
        return message


class _Answer:
    """The answer of the application, on its way to the client."""

    def __init__(self, call: Call, send: Send) -> None:
        self._call = call
        self._send = send
        self._relay: Relay | None = None
        self._start: Message | None = None

    async def refuse(self) -> None:
        refusal = self._call.refusal
        if refusal is None:
            return
        pairs = _encoded({**refusal.headers, "content-length": str(len(refusal.body))})
        headers = [*pairs, *self._own_headers()]
        await self._send(
            {"type": "http.response.start", "status": refusal.status, "headers": headers}
        )
        await self._send({"type": "http.response.body", "body": refusal.body})

    async def send(self, message: Message) -> None:
        relay = self._relay
        if relay is None or message["type"] != "http.response.body":
            is_start = message["type"] == "http.response.start"
            await (self._begin(message) if is_start else self._send(message))
            return
        chunk, is_last = message.get("body", b""), not message.get("more_body")
        sent = relay.push(chunk) if chunk else chunk
        if is_last:
            sent += relay.finish()
        if self._call.is_due:
            await self._call.asettle()
        if self._start is not None and (sent or is_last):
            start, self._start = self._start, None
            if is_last and relay.is_whole:
                start["headers"] = _with_length(start["headers"], len(sent))
            await self._send(start)
        if sent is chunk:
            await self._send(message)
        elif sent or is_last:
            await self._send({**message, "body": sent})

    def end(self, error: BaseException | None) -> None:
        """The application has returned: what has not ended by now is cut.

        One that returns without an answer has noticed that its client left; the provider may not.
        """
        if self._relay is not None or not self._call.is_relayed:
            self._call.end(error or asyncio.CancelledError())

    async def _begin(self, message: Message) -> None:
        pairs: Pairs = list(message.get("headers") or ())
        call = self._call
        if (call.estimate is not None or call.is_booked) and not call.is_relayed:
            self._relay = self._call.relay(message["status"], pairs)
        start = {**message, "headers": [*pairs, *self._own_headers()]}
        if self._relay is not None and self._relay.is_whole:
            self._start = start  # its length is known at the end
            return
        if self._relay is not None and self._relay.is_rewritten:
            start["headers"] = [it for it in start["headers"] if it[0].lower() != b"content-length"]
        await self._send(start)

    def _own_headers(self) -> Pairs:
        return _encoded(self._call.headers)


class _Denial:
    """The refusal of a WebSocket that is not accepted: an answer of HTTP where the server can."""

    def __init__(self, refusal: Refusal | BudgetRefusal, scope: Scope, send: Send) -> None:
        self._refusal, self._send = refusal, send
        self._has_answer = "websocket.http.response" in (scope.get("extensions") or {})

    async def send(self) -> None:
        refusal = self._refusal
        if not self._has_answer:
            await self._send({"type": "websocket.close", "code": 1008, "reason": "over budget"})
            return
        headers = _encoded({**refusal.headers, "content-length": str(len(refusal.body))})
        start = {"status": refusal.status, "headers": headers}
        await self._send({"type": "websocket.http.response.start", **start})
        await self._send({"type": "websocket.http.response.body", "body": refusal.body})


def _encoded(headers: dict[str, str]) -> Pairs:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _path(scope: Scope) -> str:
    """The path that tells the endpoint: as it was sent, where a model may have a slash in it."""
    raw = (scope.get("raw_path") or b"").decode("latin-1")
    path: str = scope["path"]
    return path if not raw or (endpoint_of(raw) is None and endpoint_of(path) is not None) else raw


def _header(scope: Scope, name: bytes) -> str:
    """The values of a header, joined; empty without one."""
    values = [value for key, value in scope["headers"] if key.lower() == name]
    return b", ".join(values).decode("latin-1").strip().lower()


def _length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """The length that a request says it has; 0 if it says none."""
    said = [value for name, value in headers if name.lower() == b"content-length"]
    return min(int(said[0][:20]), MAX_LENGTH) if said and said[0].isdigit() else 0


def _with_length(headers: Iterable[tuple[bytes, bytes]], length: int) -> Pairs:
    """The headers with another length, where they had one."""
    return [
        (name, str(length).encode() if name.lower() == b"content-length" else value)
        for name, value in headers
    ]
