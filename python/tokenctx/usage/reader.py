"""Usage and reply out of a stream, as it comes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tokenctx._core import Documents
from tokenctx.usage.compressed import MAGIC, MAX_CONTAINERS, Inflater
from tokenctx.usage.gateways import told_by_headers
from tokenctx.usage.normal import Usage, marked, read_usage
from tokenctx.usage.reading import find_usage
from tokenctx.usage.replies import NO_REPLY, Json, Reply, fields, reply_of, text
from tokenctx.usage.uses import StreamedUses

if TYPE_CHECKING:
    from tokenctx._results.estimates import Dialect, Reason
    from tokenctx.usage.gateways import Headers

MAX_REPLY_BYTES: Final = 64 << 20
"""Of a stream with more events than this the reply is dropped; usage is still read."""
FAILURES: Final = frozenset({"error", "response.failed", "response.cancelled"})
AROUND: Final = frozenset({"service_tier", "serviceTier", "performanceConfig", "tool_usage"})
"""Beside the usage of an answer: what changes its price, or costs something too."""
LINES: Final = ("data:", "event:", "id:", "retry:", ":")
"""The fields that a line of server-sent events can begin with."""
FRAMEWORK_MESSAGES: Final = frozenset({"AIMessage", "AIMessageChunk"})
"""Classes of LangChain, whose dumps do not say what they are."""


_scan: Final[Any] = vars(json.JSONDecoder())["scan_once"]
"""The value that text begins with, and where it ends: quicker than `json.loads` on small events."""


class UsageReader:
    """Reads a stream beside the one who sends it on: final usage, and the assistant's reply.

    `feed` it with bytes or text, however they are cut, as lines, compressed by gzip or not; or with
    events of an SDK. Any dialect is told by its events: OpenAI Chat and Responses, Anthropic,
    Gemini (server-sent events or a JSON array), Google's Interactions, Bedrock (events, or the
    binary frames of AWS), Cohere, chunks of LangChain; and the whole body of an answer that came
    at once. `finish` says that it has ended. Pass the reader to `record` for usage and reply.

    It holds the text of the reply for as long as it lives, of at most 64 MiB of events. An event
    above 16 MiB, small events beyond 4,096 that have less than 48 bytes on average, and what gzip
    blows up to more than 4 MiB and 50 times its size are dropped; then the usage is partial.

    Of `headers`, those of the answer, a gateway's are read: what it reckons that the call cost, the
    model that has answered, and that its own cache has, so that nothing was billed.
    """

    def __init__(self, dialect: Dialect | None = None, headers: Headers | None = None) -> None:
        self._dialect = dialect
        self._told = None if headers is None else told_by_headers(headers)
        self._reply: Reply | None = None
        self._usage: Json = {}
        self._is_final = self._has_failed = self._has_finished = False
        self._has_fed = self._has_read = self._is_broken = self._is_cut = False
        self._has_dropped = self._has_forgotten = False
        self._documents = Documents()
        self._documents.join(NO_REPLY)
        self._inflater: Inflater | None = None
        self._is_plain = False
        self._normal_usage: Usage | None = None
        self._head: bytes | None = b""
        self._line: str | None = None
        self._model = ""
        self._uses = StreamedUses()

    def feed(self, data: object) -> None:
        """Take the next bytes, text or event: a dict or an object of an SDK. Never raises.

        Linear in the bytes.
        """
        if self._is_plain and type(data) is bytes:
            if (document := self._documents.push(data)) is not None:
                self._read(document)
            return
        if isinstance(data, str):
            data = self._with_line_end(data).encode("utf-8", "replace")
        elif not isinstance(data, (bytes, bytearray, memoryview)):
            self._has_fed = True
            self._read_kept()
            if event := _as_dict(data):
                self._event(event)
            return
        if data:
            self._has_fed = True
            self._bytes(bytes(data))

    def finish(self) -> Usage:
        """The usage, after the stream has ended: an event without a blank line behind it counts.

        Without it such an event counts as cut, and a format that has no end of its own as partial.
        """
        if self._head:
            self._bytes(b"", is_end=True)
        self._read_kept()
        last = self._documents.finish()
        if last is not None:
            self._document(last, is_end=True)
        self._has_finished = True
        if self._reply is not None:
            self._reply.end()
        return self.usage

    @property
    def usage(self) -> Usage:
        """The best known usage, in normal form; `is_partial` unless the stream has ended well."""
        self._read_kept()
        usage = self._normal_usage
        if usage is None:
            found, _ = read_usage({"usage": self._usage}, self._dialect, self._uses.counts())
            usage = found or Usage()
            if self._told is not None:
                usage = marked(usage, self._told)
            self._normal_usage = usage
        return replace(usage, is_partial=True) if self.is_partial else usage

    @property
    def is_partial(self) -> bool:
        """True if the end of the stream or its usage is missing, or an error came."""
        is_complete = self._has_finished if self._reply is None else self._reply.is_complete
        return self._has_lost or self._has_failed or not (self._is_final and is_complete)

    @property
    def is_complete(self) -> bool:
        """True if `record` would take it."""
        return self._is_final and self.reason is None

    @property
    def reason(self) -> Reason | None:
        """Why `record` would not take it; None if it would."""
        if self._has_lost:
            return "too_large"
        if self._is_broken or not (self._has_read or self._is_cut):
            return "unreadable" if self._has_fed else "no_usage"
        if self._has_failed:
            return "failed"
        if not self.is_partial:
            return None
        is_cut = self._is_cut or not self._is_ended
        return "partial" if self._usage or is_cut else "no_usage"

    @property
    def has_read(self) -> bool:
        """True if anything that was fed was an event."""
        return self._has_read

    @property
    def reply(self) -> Any:
        """The assistant's message in the shape of its API, as far as it has come.

        A message, or for Responses its list of items. None if there is none, or several.
        """
        self._read_kept()
        if self._reply is None or self._reply.has_several:
            return None
        return self._reply.message()

    @property
    def texts(self) -> list[str] | None:
        """All text of all answers as far as it has come, for a count; None if it is not known."""
        self._read_kept()
        if self._reply is None or self._has_lost or self._has_forgotten:
            return None
        return self._reply.texts() or None

    @property
    def model(self) -> str:
        """The model that answers, by a gateway's headers or by the stream; empty if none says."""
        return (self._told.model if self._told is not None else "") or self._model

    @property
    def dialect(self) -> str | None:
        """The format of the stream; None if it is not known, or has no request format here."""
        return self._dialect or (self._reply.dialect if self._reply else None)

    @property
    def normal_usage(self) -> Usage:
        """The usage, as `normalize_usage` asks for it."""
        return self.usage

    def __repr__(self) -> str:
        """The numbers without a word of the stream, for a debugger."""
        counts = f"{self.usage.input_tokens} input, {self.usage.output_tokens} output"
        return f"<UsageReader: {counts}, reason={self.reason!r}>"

    @property
    def _has_lost(self) -> bool:
        is_blown = self._inflater is not None and self._inflater.has_lost
        return self._documents.has_lost or self._has_dropped or is_blown

    @property
    def _is_ended(self) -> bool:
        return self._has_finished if self._reply is None else self._reply.is_complete

    def _with_line_end(self, line: str) -> str:
        """`line` behind the end of the line before it, if text comes as lines without ends.

        That is so if whole fields follow on each other: JSON is not followed by more on its line.
        """
        before, self._line = self._line, None
        is_line = not line or line.startswith(LINES)
        is_next = is_line and before is not None and _is_whole(before)
        if (is_line and line.rstrip("\r\n") == line) and (line or is_next):
            self._line = line
        return "\n" + line if is_next else line

    def _bytes(self, data: bytes, *, is_end: bool = False) -> None:
        if self._head is not None:
            data = self._head + data
            if data == MAGIC[:1] and not is_end:
                self._head = data
                return
            self._head = None
            if data.startswith(MAGIC):
                self._inflater = Inflater()
            self._is_plain = self._inflater is None
        pieces = (data,) if self._inflater is None else self._inflater.push(data)
        for piece in pieces:
            self._read(self._documents.push(piece))
        self._is_broken |= self._inflater is not None and self._inflater.is_broken

    def _read(self, document: str | None) -> None:
        """Take `document` and those behind it that came with it."""
        while document is not None:
            self._document(document)
            document = self._documents.next()

    def _read_kept(self) -> None:
        """Take what the core has kept of events that differ in their text alone."""
        if (document := self._documents.kept()) is not None:
            self._document(document)

    def _document(self, document: str, *, is_end: bool = False) -> None:
        if len(document) > MAX_CONTAINERS and (
            document.count("{") + document.count("[") > MAX_CONTAINERS
        ):
            self._has_dropped = True
            return
        try:
            event, end = _scan(document, 0)
        except (ValueError, RecursionError, StopIteration):
            end = -1
        if end != len(document):
            self._is_cut |= is_end  # which costs nothing, if all that counts came before
            self._has_failed |= not is_end
            self._is_broken |= not is_end
            return
        if self._documents.document_bytes > MAX_REPLY_BYTES and self._reply is not None:
            self._reply, self._has_forgotten = self._reply.emptied(), True
        if isinstance(event, dict):
            self._event(event)

    def _event(self, event: Json) -> None:
        self._has_read = True
        if "data" in event:  # the SDK of Mistral wraps each
            event = fields(event["data"]) or event
        reply = self._reply
        if reply is None:
            reply = self._reply = reply_of(event)
            if reply is not None:
                self._documents.join(reply.alike)
        if reply is not None:
            reply.add(event)
        self._has_failed |= bool(event.get("error")) or text(event.get("type")) in FAILURES
        inner = event
        if "message" in event or "response" in event:
            inner = fields(event.get("message")) or fields(event.get("response")) or event
        self._model = text(inner.get("model") or inner.get("modelVersion")) or self._model
        if self._uses.read(event):
            self._normal_usage = None
        usage = find_usage(event)
        if usage is None:
            return
        self._normal_usage = None
        if "usage" in fields(event.get("metadata")):  # Bedrock's, and not the user's own
            inner = event["metadata"]
        if not AROUND.isdisjoint(inner):
            usage = {**{it: inner[it] for it in AROUND if inner.get(it)}, **fields(usage)}
        if reply is not None and reply.has_usage_deltas:
            self._usage = _added(self._usage, fields(usage))
        else:
            self._usage = _merged(self._usage, fields(usage))
        if reply is None:
            self._is_final = True
        elif reply.has_ended:
            self._is_final = True
            if fields(usage).get("output_tokens") == 0:  # of a refusal, behind 1 at the start
                self._usage["output_tokens"] = 0


def _merged(old: Json, new: Json, levels: int = 2) -> Json:
    """Cumulative numbers: the newer replaces, but null and 0 replace nothing."""
    merged = dict(old)
    for name, value in new.items():
        if levels and isinstance(value, dict) and isinstance(old.get(name), dict):
            merged[name] = _merged(old[name], value, levels - 1)
        elif value or merged.get(name) is None:
            merged[name] = value
    return merged


def _added(old: Json, new: Json, levels: int = 2) -> Json:
    """Numbers that are told in parts, which add up."""
    added = dict(old)
    for name, value in new.items():
        before = old.get(name)
        if levels and isinstance(value, dict) and isinstance(before, dict):
            added[name] = _added(before, value, levels - 1)
        elif isinstance(value, int) and isinstance(before, int):
            added[name] = before + value
        else:
            added[name] = before if value is None else value
    return added


def _is_whole(line: str) -> bool:
    """True if a line of server-sent events is whole, so that nothing but its end can follow."""
    if not line.startswith("data:"):
        return '"' not in line
    data = line.removeprefix("data:").strip()
    if data == "[DONE]":
        return True
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _as_dict(event: object) -> Json:
    """The event of an SDK as JSON has it."""
    if isinstance(event, Mapping):
        return fields(event)
    try:
        dump = event.model_dump  # type: ignore[attr-defined]
        dumped = fields(dump(mode="json", by_alias=True, exclude_unset=True, warnings=False))
    except Exception:  # a caller's object may raise anything
        return {}
    name = type(event).__name__
    return {**dumped, "type": name} if name in FRAMEWORK_MESSAGES else dumped
