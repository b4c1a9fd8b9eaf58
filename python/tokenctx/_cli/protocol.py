"""The server's protocol with a bound on what a connection sends before the app sees any of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    import asyncio

MAX_HEAD_BYTES: Final = 64 << 10
"""Of request line and headers, of trailers, and of anything else that is no body."""
HEAD_SECONDS: Final = 30.0
"""So long a request line and its headers may take to come, and the first byte of a connection."""
TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)
_Base: Any = AutoHTTPProtocol
"""That of httptools, which keeps headers without end, or of h11."""
TELLS_BODIES: Final = hasattr(_Base, "on_body")
"""h11 has a bound of its own on what is no body, once a request has begun."""


class BoundedProtocol(_Base):  # type: ignore[misc]  # one of two classes, whichever is there
    """Closes a connection that sends too much, or takes too long, without getting on.

    It gets on when a request reaches the app, or a part of its body does.
    """

    _quiet_bytes = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._got_on()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has come, and count it unless it gets the request on."""
        before = self.cycle
        was_body = before is not None and before.more_body
        self._quiet_bytes += len(data)
        super().data_received(data)
        if self.cycle is not before or (was_body and not TELLS_BODIES):
            self._got_on()
        elif self._quiet_bytes > MAX_HEAD_BYTES:
            self._end()
        elif self._quiet_bytes and self._timer is None and not was_body:
            self._wait()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body: the request gets on."""
        self._quiet_bytes = 0
        super().on_body(body)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self._end)

    def _got_on(self) -> None:
        self._quiet_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._got_on()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(TOO_LARGE)
        self.transport.close()
