"""The server as an ASGI app: who may ask, how much, for how long; then a route answers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.errors import RequestError
from tokenctx.gateway.server.call import ServedRequest
from tokenctx.gateway.server.deadline import Deadline
from tokenctx.gateway.server.refused import Refused
from tokenctx.gateway.server.routes import Route, route_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from tokenctx._estimate.estimator import HybridTokenEstimator
    from tokenctx.gateway.server.refused import Vendor

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Hook = Callable[[], Awaitable[None]]

MAX_BODY_BYTES: Final = 32 << 20
"""Of Anthropic's messages and counts: documentation, "Errors"."""
MAX_SECONDS: Final = 30.0
LARGE_BYTES: Final = 256 << 10
LARGE_AT_ONCE: Final = 2
"""So many bodies above `LARGE_BYTES` are read at once; others wait where they come from. One is
counted at a time: a count takes many times as much as its body, where that has odd forms."""
BODIES: Final = 16
"""So many bodies of the most bytes are held at once; what comes then is told to come again."""
DISCARD_SECONDS: Final = 1.0
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_TOKEN_HEADERS: Final = ("x-api-key", "x-goog-api-key", "api-key")
_logger = logging.getLogger("tokenctx")


class _GoneError(Exception):
    """The client has hung up: an answer would reach no one."""


def count_server(
    estimator: HybridTokenEstimator,
    *,
    token: str | None = None,
    collector: Any = None,
    max_body_bytes: int = MAX_BODY_BYTES,
    max_seconds: float = MAX_SECONDS,
    on_start: Hook | None = None,
    on_stop: Hook | None = None,
) -> CountServer:
    """An ASGI app that answers the vendors' count endpoints, `/v1/estimate` and `/v1/record`.

    It needs no framework and can be mounted in one. `token` is asked of every caller, but for the
    health: as a bearer token, or as the key of a vendor's SDK. Without one, what a browser sends
    for a web page is refused. `collector`, of `tokenctx.integrations.metrics.prometheus`, is what
    `/metrics` shows. A body of more than `max_body_bytes` gets a 413, and what is not answered in
    `max_seconds`, with the time that its body takes to come, a 408 or 504. `on_start` and `on_stop`
    are awaited when the server of the app starts and stops.

    A body is never logged. Raises ValueError for limits below 1 and an empty token.
    """
    for name, limit in (("max_body_bytes", max_body_bytes), ("max_seconds", max_seconds)):
        if not limit > 0:
            raise ValueError(f"{name} is {limit}; it must be above 0")
    if token == "":
        raise ValueError("token is empty; give one, or None to ask for none")
    return CountServer(estimator, token, collector, max_body_bytes, max_seconds, on_start, on_stop)


class CountServer:
    """The ASGI app that `count_server` makes."""

    def __init__(
        self,
        estimator: HybridTokenEstimator,
        token: str | None,
        collector: Any,
        max_body_bytes: int,
        max_seconds: float,
        on_start: Hook | None,
        on_stop: Hook | None,
    ) -> None:
        self._estimator = estimator
        self._token = None if token is None else _digest(token.encode())
        self._collector = collector
        self._max_body_bytes = max_body_bytes
        self._max_seconds = max_seconds
        self._hooks = {"startup": on_start, "shutdown": on_stop}
        self._held_bytes = 0
        self.large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._counting = asyncio.Semaphore(1)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one connection of the server."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1003})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"].rpartition(".")[2]
            hook = self._hooks.get(kind)
            if hook is not None:
                await hook()
            await send({"type": f"lifespan.{kind}.complete"})
            if kind == "shutdown":
                return

    async def _http(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path") or "")
        path = path.rstrip("/") or "/"
        found = route_of(path)
        vendor: Vendor = found[0].vendor if found else "openai"
        body = _Body(self, receive)
        try:
            try:
                status, content, headers = await self._answer(scope, path, found, body)
            except Refused as refused:
                status = 403 if vendor == "bedrock" and refused.status == 401 else refused.status
                value, headers = refused.body(vendor)
                content = json.dumps(value).encode()
                if status != 408:
                    await body.discard()
        except _GoneError:
            return
        finally:
            body.release()
        kind = headers.pop("content-type", "application/json")
        lines = [(name.encode(), value.encode()) for name, value in headers.items()]
        lines += [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(content))]
        if not body.is_read:
            lines.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": status, "headers": lines})
        await send({"type": "http.response.body", "body": content})

    async def _answer(
        self,
        scope: MutableMapping[str, Any],
        path: str,
        found: tuple[Route, dict[str, str]] | None,
        body: _Body,
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, content and headers. Raises Refused for what is answered with an error."""
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        if found is None and path in ("/healthz", "/readyz"):
            _require_method(scope, "GET", "HEAD")
            return 200, json.dumps(self._health()).encode(), {}
        self._admit(headers)
        if found is None and path == "/metrics" and self._collector is not None:
            _require_method(scope, "GET")
            return await self._metrics()
        if found is None:
            raise Refused(404, "nothing is answered at this path; docs/serve.md has all routes")
        _require_method(scope, "POST")
        route, named = found
        try:
            async with Deadline(self._max_seconds):
                content = await body.read(headers)
                call = ServedRequest(self._estimator, headers, named, content)
                if len(content) <= LARGE_BYTES:
                    answer, more = await route.answer(call)
                else:
                    async with self._counting:
                        answer, more = await route.answer(call)
        except TimeoutError:
            raise self._late(body) from None
        except RequestError as error:
            raise Refused(400, str(error), code=error.code) from None
        except (Refused, _GoneError):
            raise
        except Exception as error:  # ours: it is counted, and answered
            raise self._failed(error) from None
        return 200, json.dumps(answer).encode(), more

    def _health(self) -> dict[str, str]:
        """A shared store that is down costs accuracy, so the server is ready without it."""
        state = self._estimator.shared_state().values()
        store = "stopped" if any(why for _, why in state) else "up"
        return {"status": "ok", **({"shared_store": store} if state else {})}

    def _admit(self, headers: dict[str, bytes]) -> None:
        """Raise Refused unless the caller has the token; without one, unless it is no browser."""
        if self._token is None:
            if "origin" in headers or "sec-fetch-site" in headers:
                raise Refused(403, "a web page may not ask a server that has no token")
            return
        scheme, _, bearer = headers.get("authorization", b"").partition(b" ")
        given = [bearer.strip()] if scheme.lower() == b"bearer" else []
        given += [headers[name] for name in _TOKEN_HEADERS if name in headers]
        is_known = [hmac.compare_digest(_digest(one), self._token) for one in given]
        if not any(is_known):
            challenge = {"www-authenticate": "Bearer"}
            raise Refused(401, "the token is missing or wrong", headers=challenge)

    async def _metrics(self) -> tuple[int, bytes, dict[str, str]]:
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self._collector)
        loop = asyncio.get_running_loop()
        text = await loop.run_in_executor(None, generate_latest, registry)
        return 200, text, {"content-type": METRICS_TYPE}

    def _late(self, body: _Body) -> Refused:
        seconds = f"{self._max_seconds:g} s"
        if body.is_read:
            return Refused(504, f"the count has taken longer than {seconds}")
        return Refused(408, f"the body has not come within {seconds}")

    def _failed(self, error: Exception) -> Refused:
        """Count a failure of ours; its class is logged, and nothing of what it says."""
        _logger.error("the count server has failed: %s", type(error).__name__)
        if self._estimator.metrics is not None:
            self._estimator.metrics.count_failure("serve")
        return Refused(500, "the count has failed")

    def hold(self, byte_count: int) -> None:
        """Hold more bytes of bodies; raises Refused if too many are held by all calls."""
        if byte_count > 0 and self._held_bytes + byte_count > BODIES * self._max_body_bytes:
            wait = {"retry-after": "1"}
            raise Refused(503, "too many large bodies at once; ask again", headers=wait)
        self._held_bytes += byte_count

    @property
    def max_body_bytes(self) -> int:
        """The most bytes of a body."""
        return self._max_body_bytes


class _Body:
    """The body of a request as it comes."""

    def __init__(self, server: CountServer, receive: Receive) -> None:
        self._server, self._receive = server, receive
        self._held = 0
        self._came = 0
        self._is_large = False
        self.is_read = False

    async def read(self, headers: dict[str, bytes]) -> bytes:
        """All of it. Raises Refused if it is too long, encoded, or too much for now."""
        if headers.get("content-encoding", b"identity") != b"identity":
            raise Refused(400, "content-encoding is not read here; send the body as it is")
        most = self._server.max_body_bytes
        length = headers.get("content-length", b"")
        parts: list[bytes] = []
        while not self.is_read:
            if max(self._came, int(length) if length.isdigit() else 0) > most:
                raise Refused(413, f"the body has more than {most} bytes, which is the limit")
            parts.append(await self._part())
            self._server.hold(len(parts[-1]))
            self._held += len(parts[-1])
            if self._came > LARGE_BYTES and not self._is_large:
                await self._server.large.acquire()
                self._is_large = True
        if self._came > most:
            raise Refused(413, f"the body has more than {most} bytes, which is the limit")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _part(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        part: bytes = message.get("body", b"")
        self._came += len(part)
        self.is_read = not message.get("more_body", False)
        return part

    async def discard(self) -> None:
        """Read what is left, so that a client who still sends can read the answer.

        No more than twice the most bytes of a body, and for a second: then the connection ends.
        """
        self.release()
        try:
            async with Deadline(DISCARD_SECONDS):
                while not self.is_read and self._came <= 2 * self._server.max_body_bytes:
                    await self._part()
        except TimeoutError:
            return

    def release(self) -> None:
        """Its bytes are held no more."""
        self._server.hold(-self._held)
        self._held = 0
        if self._is_large:
            self._is_large = False
            self._server.large.release()


def _require_method(scope: MutableMapping[str, Any], *allowed: str) -> None:
    if scope["method"] not in allowed:
        names = ", ".join(allowed)
        raise Refused(405, f"the method must be {names}", headers={"allow": names})


def _digest(token: bytes) -> bytes:
    """Of equal length for all tokens, so that a comparison tells nothing of it."""
    return hashlib.sha256(token).digest()
