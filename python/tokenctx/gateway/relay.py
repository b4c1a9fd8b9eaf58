"""An answer on its way through: read beside, changed only where that was asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from tokenctx.gateway.headers import SCALED, USAGE
from tokenctx.usage.reader import UsageReader

if TYPE_CHECKING:
    from tokenctx.gateway.journal import Journal
    from tokenctx.usage.gateways import Headers
    from tokenctx.usage.scaler import ContextWindowScaler

Missed = Literal["uncounted", "upstream_error", "compressed", "scaled", "cut", "failed_here"]
"""Why an answer is not recorded that never came to `record`."""

MAX_HELD_BYTES: Final = 1 << 16
"""Of an event whose end has not come; a longer one passes as it is. One with usage is short."""
MAX_BODY_BYTES: Final = 16 << 20
"""Of a whole answer that is scaled; a longer one passes as it is."""
READABLE: Final = frozenset({"", "identity", "gzip", "x-gzip"})
"""Content encodings that the reader reads."""
_BLANK_LINE: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_NO_CHOICE: Final = re.compile(rb'"choices"\s*:\s*\[\s*\]')


class Relay:
    """One answer: `push` what comes and send what it gives, `finish` at the end, or `cut`.

    Nothing of it raises: when something here fails, what comes goes out unchanged.

    Attributes:
        status: Of the answer.
        passed_bytes: Of it, that have come; `passed_events` are events of a stream.
        is_rewritten: Whether what goes out may have another length than what comes in.
        is_whole: Whether all of it goes out at the end with another length, as of a JSON answer
            that is scaled.
        missed: Why it cannot be recorded; None as long as nothing is known against it.
        is_over: Whether it has ended.
        is_stream: Whether it comes in parts while it is made.
    """

    def __init__(
        self,
        journal: Journal,
        status: int,
        headers: Headers | None,
        *,
        records: bool = True,
        reads: bool = True,
        drops_usage: bool = False,
        scaler: ContextWindowScaler | None = None,
        first_input_tokens: int | None = None,
    ) -> None:
        headers = list(headers.items()) if isinstance(headers, Mapping) else list(headers or ())
        content_type, encoding, usage = _described(headers)
        self.missed: Missed | None = None
        self.is_over = False
        self.is_stream = content_type != "application/json"
        self.status = status
        self.passed_bytes = self.passed_events = 0
        if not records:
            self.missed = "uncounted"
        elif not 200 <= status < 300:
            self.missed = "upstream_error"
        elif encoding not in READABLE:
            self.missed = "compressed"
        elif usage == SCALED:
            self.missed = "scaled"
        self.reader = UsageReader(headers=headers)
        self._reads = (reads or self.missed is None) and encoding in READABLE
        self._journal = journal
        self._drops: _UsageDropper | None = None
        self._rewriter: Any = None
        self._scaler: ContextWindowScaler | None = None
        self._body: bytearray | None = None
        is_plain = self.missed is None and encoding in ("", "identity")
        if is_plain and content_type == "application/json":
            if scaler is not None:
                self._scaler, self._body = scaler, bytearray()
        elif is_plain and content_type in ("text/event-stream", ""):
            self._drops = _UsageDropper() if drops_usage else None
            self._rewriter = scaler.rewriter(first_input_tokens) if scaler is not None else None
        self.is_whole = self._body is not None
        self.is_rewritten = self.is_whole or not (self._drops is None and self._rewriter is None)

    @property
    def is_complete(self) -> bool:
        """True if all that is recorded has come, though the answer may go on."""
        return self.missed is None and self.reader.is_complete

    def push(self, chunk: Any) -> Any:
        """The bytes to send after `chunk` has come; the same object where nothing changes."""
        if isinstance(chunk, bytes):
            self.passed_bytes += len(chunk)
            self.passed_events += chunk.count(b"data:")
        if self._reads:
            try:
                self.reader.feed(chunk)
            except Exception as error:
                self._fail("read_answer", error)
        if not self.is_rewritten or not isinstance(chunk, bytes):
            return chunk
        try:
            return self._changed(chunk)
        except Exception as error:
            self._fail("change_answer", error)
            return self._held() + chunk

    def finish(self) -> bytes:
        """The bytes that are left to be sent when the answer has ended well."""
        self.is_over = True
        try:
            self.reader.finish()
            if self._body is not None and self._scaler is not None:
                return bytes(self._scaler.scale_body(bytes(self._body)))
        except Exception as error:
            self._fail("end_answer", error)
        return self._held()

    def cut(self) -> None:
        """The answer ended early: the client left, or the provider's connection broke."""
        if not self.is_over:
            self.is_over = True
            self.missed = self.missed or "cut"

    def _changed(self, chunk: bytes) -> bytes:
        if self._body is not None:
            self._body += chunk
            return self._held() if len(self._body) > MAX_BODY_BYTES else b""
        if self._drops is not None:
            chunk = self._drops.push(chunk)
        if self._rewriter is not None and chunk:
            chunk = self._rewriter.push(chunk)
        return chunk

    def _held(self) -> bytes:
        """The bytes that have come and were not sent; nothing is changed from here on."""
        drops, rewriter, body = self._drops, self._rewriter, self._body
        self._drops = self._rewriter = self._scaler = self._body = None
        self.is_rewritten = self.is_whole = False
        held = bytes(body or b"")
        try:
            left = drops.finish() if drops is not None else b""
            if rewriter is not None:
                held += rewriter.push(left) + rewriter.finish()
                left = b""
        except Exception as error:
            self._fail("end_answer", error)
        return held + left

    def _fail(self, stage: str, error: Exception) -> None:
        self.missed, self._reads = "failed_here", False
        self._journal.failed(stage, error)


class _UsageDropper:
    """Takes the event with usage and no choice out of a stream of OpenAI's Chat."""

    def __init__(self) -> None:
        self._held = bytearray()

    def push(self, chunk: bytes) -> bytes:
        """The events that have ended, without that of the usage."""
        if not self._held and b'"usage"' not in chunk and chunk.endswith(b"\n\n"):
            return chunk
        searched = max(0, len(self._held) - 3)
        self._held += chunk
        ends = [match.end() for match in _BLANK_LINE.finditer(self._held, searched)]
        if not ends:
            if len(self._held) <= MAX_HELD_BYTES:
                return b""
            ends = [len(self._held) - 3]  # the end of a blank line may still come
        events, start = [], 0
        for end in ends:
            event = bytes(self._held[start:end])
            if not _is_usage_alone(event):
                events.append(event)
            start = end
        del self._held[:start]
        return b"".join(events)

    def finish(self) -> bytes:
        """The end of an answer that is passed on unread: nothing."""
        left = bytes(self._held)
        self._held.clear()
        return b"" if _is_usage_alone(left) else left


def _is_usage_alone(event: bytes) -> bool:
    """True if an event is what `include_usage` adds: usage, and no choice."""
    if b'"usage"' not in event or not _NO_CHOICE.search(event):
        return False
    lines = (line for line in event.splitlines() if line.startswith(b"data:"))
    try:
        data = json.loads(b"\n".join(line.removeprefix(b"data:") for line in lines))
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.get("choices") == [] and bool(data.get("usage"))


def _described(headers: Iterable[tuple[Any, Any]]) -> tuple[str, str, str]:
    """Content type without its parameters, content encoding, what was done to the usage."""
    found = {"content-type": "", "content-encoding": "", USAGE: ""}
    for name, value in headers:
        key = _text(name).lower()
        if key in found:
            found[key] = _text(value).partition(";")[0].strip().lower()
    return found["content-type"], found["content-encoding"], found[USAGE]


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
