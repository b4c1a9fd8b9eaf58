"""Usage and reply out of a stream, as it comes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tokenctx._usage.normal import Usage, find_usage, has_input, normalize_usage
from tokenctx._usage.replies import Json, Reply, fields, reply_of, text

if TYPE_CHECKING:
    from tokenctx._models import Dialect

MAX_EVENT_BYTES: Final = 64 << 20
"""A longer event is dropped, and the usage is partial."""
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
IN_OBJECT: Final = re.compile(rb'["{}]')
IN_STRING: Final = re.compile(rb'["\\]')
FAILURES: Final = frozenset({"error", "response.failed", "response.cancelled"})


class UsageReader:
    """Reads a stream beside the one who sends it on: final usage, and the assistant's reply.

    `feed` it with raw bytes, however they are cut, or with events of an SDK, of any dialect:
    OpenAI Chat and Responses, Anthropic, Gemini (server-sent events or a JSON array), Bedrock
    ConverseStream, Cohere. Pass the reader to `record` in place of usage and reply. It holds the
    text of the reply for as long as it lives.
    """

    def __init__(self, dialect: Dialect | None = None) -> None:
        self._dialect = dialect
        self._reply: Reply | None = None
        self._usage: Json = {}
        self._is_final = self._has_failed = False
        self._bytes: _ServerSentEvents | _JsonObjects | None = None
        self._head = b""
        self._model = ""

    def feed(self, data: object) -> None:
        """Take the next bytes, or the next event: a dict or an object of an SDK. Never raises."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            return self._event(_as_dict(data))
        if self._bytes is None:
            self._head += bytes(data)
            head = self._head.removeprefix(BYTE_ORDER_MARK).lstrip()
            if not head:
                return None
            self._bytes = _JsonObjects() if head[:1] in (b"[", b"{") else _ServerSentEvents()
            data, self._head = head, b""
        for document in self._bytes.feed(bytes(data)):
            self._document(document)
        return None

    @property
    def usage(self) -> Usage:
        """The best known usage, in normal form; `is_partial` unless the stream has ended well."""
        usage = normalize_usage({"usage": self._usage}, self._dialect)
        return replace(usage, is_partial=self.is_partial)

    @property
    def is_partial(self) -> bool:
        """Whether the end of the stream or its usage is missing, or an error came."""
        has_lost = self._bytes is not None and self._bytes.has_lost
        is_complete = self._reply is not None and self._reply.is_complete
        return has_lost or self._has_failed or not (self._is_final and is_complete)

    @property
    def reply(self) -> Any:
        """The assistant's message in the shape of its API, as far as it has come.

        A message, or for Responses its list of items. None if there is none, or several.
        """
        if self._reply is None or self._reply.has_several:
            return None
        return self._reply.message()

    @property
    def model(self) -> str:
        """The model that answers; empty if the stream does not say."""
        return self._model

    @property
    def dialect(self) -> str | None:
        """The format of the stream; None if it is not known, or has no request format here."""
        return self._dialect or (self._reply.dialect if self._reply else None)

    @property
    def normal_usage(self) -> Usage:
        """What `normalize_usage` takes it for."""
        return self.usage

    def __repr__(self) -> str:
        """What is known, without text."""
        return f"UsageReader(usage={self.usage!r})"

    def _document(self, document: bytes) -> None:
        if document.strip() in (b"", b"[DONE]"):
            return
        try:
            event = json.loads(document)
        except (ValueError, RecursionError):
            self._has_failed = True
        else:
            self._event(fields(event))

    def _event(self, event: Json) -> None:
        event = fields(event.get("data")) or event  # the SDK of Mistral wraps each
        if self._reply is None:
            self._reply = reply_of(event)
        if self._reply is not None:
            self._reply.add(event)
        self._has_failed |= bool(event.get("error")) or text(event.get("type")) in FAILURES
        inner = fields(event.get("message")) or fields(event.get("response")) or event
        model = inner.get("model") or inner.get("modelVersion")
        self._model = text(model) or self._model
        usage = find_usage(event)
        if usage is event and not has_input(event):
            return
        self._usage = _merged(self._usage, fields(usage))
        self._is_final |= self._reply is not None and self._reply.has_ended


def _merged(old: Json, new: Json, levels: int = 2) -> Json:
    """Cumulative numbers: the newer replaces, but null and 0 replace nothing."""
    merged = dict(old)
    for name, value in new.items():
        if levels and isinstance(value, dict) and isinstance(old.get(name), dict):
            merged[name] = _merged(old[name], value, levels - 1)
        elif value or merged.get(name) is None:
            merged[name] = value
    return merged


def _as_dict(event: object) -> Json:
    """The event of an SDK as JSON has it."""
    if isinstance(event, Mapping):
        return dict(event)
    try:
        dump = event.model_dump  # type: ignore[attr-defined]
        return fields(dump(mode="json", by_alias=True, exclude_unset=True, warnings=False))
    except Exception:  # a caller's object may raise anything
        return {}


class _ServerSentEvents:
    """The data of server-sent events."""

    def __init__(self) -> None:
        self.has_lost = False
        self._line = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._is_after_cr = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of all events that are complete now."""
        if self._is_after_cr and chunk:
            chunk, self._is_after_cr = chunk.removeprefix(b"\n"), False
        events: list[bytes] = []
        for line in chunk.splitlines(keepends=True):
            self._line += line
            if line[-1:] in b"\r\n":
                self._end_line(bytes(self._line).rstrip(b"\r\n"), events)
                self._line.clear()
        self._is_after_cr = chunk.endswith(b"\r") or (self._is_after_cr and not chunk)
        if len(self._line) + self._data_bytes > MAX_EVENT_BYTES:
            self.has_lost = True
            self._line.clear()
            self._data.clear()
            self._data_bytes = 0
        return events

    def _end_line(self, line: bytes, events: list[bytes]) -> None:
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
            self._data, self._data_bytes = [], 0
        elif line.startswith(b"data:"):
            self._data.append(line[len(b"data:") :].removeprefix(b" "))
            self._data_bytes += len(line)


class _JsonObjects:
    """The objects of a JSON array that comes in pieces, or of lines of JSON."""

    def __init__(self) -> None:
        self.has_lost = False
        self._text = bytearray()
        self._read = 0
        self._depth = 0
        self._is_string = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The objects that are complete now."""
        self._text += chunk
        objects: list[bytes] = []
        while found := (IN_STRING if self._is_string else IN_OBJECT).search(self._text, self._read):
            self._read = found.end()
            self._character(found[0], objects)
            if self._read > len(self._text):
                break
        else:
            self._read = len(self._text)
        if self._depth == 0:
            del self._text[: self._read]
            self._read = 0
        if len(self._text) > MAX_EVENT_BYTES:
            self.has_lost = True
            self._text.clear()
            self._read = self._depth = 0
        return objects

    def _character(self, character: bytes, objects: list[bytes]) -> None:
        if character == b"\\":
            self._read += 1
        elif character == b'"':
            self._is_string = not self._is_string
        elif character == b"{":
            if self._depth == 0:
                del self._text[: self._read - 1]
                self._read = 1
            self._depth += 1
        elif self._depth:
            self._depth -= 1
            if self._depth == 0:
                objects.append(bytes(self._text[: self._read]))
