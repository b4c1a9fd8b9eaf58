"""Usage in a stream of server-sent events, rewritten event by event."""

from __future__ import annotations

from typing import Final

from reference.scale import Change, Numbers, Scale, Window, changed, named, spliced

MAX_EVENT_BYTES: Final = 1 << 20
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Rewriter:
    """Rewrites one stream, which it keeps until the end: the simplest that can be right."""

    def __init__(self, scale: Scale, first_input_tokens: int | None = None) -> None:
        self.scale = scale
        self.window = Window(first_input_tokens)
        self.stream = bytearray()
        self.long_event_count = 0
        self.changes: list[list[Change]] = []

    def push(self, chunk: bytes) -> bytes:
        """Nothing yet."""
        self.stream += chunk
        return b""

    def finish(self) -> bytes:
        """All of the stream."""
        lines = bytes(self.stream).splitlines(keepends=True)  # at LF, CR and both
        out: list[bytes] = []
        event: list[bytes] = []
        for line in lines:
            event.append(line)
            if not line.strip(b"\r\n"):
                out.append(self.rewritten(event, is_first=not out))
                event = []
        return b"".join([*out, self.rewritten(event, is_first=not out)])

    def rewritten(self, lines: list[bytes], *, is_first: bool) -> bytes:
        """The event of these lines."""
        event = b"".join(lines)
        is_closed = bool(lines) and not lines[-1].strip(b"\r\n")
        if len(event) - (len(lines[-1]) if is_closed else 0) > MAX_EVENT_BYTES:
            self.long_event_count += 1
            return event
        if b'"usage' not in event:
            return event
        values, places, at = [], [], 0
        for index, line in enumerate(lines):
            skipped = len(BYTE_ORDER_MARK) if is_first and not index else 0
            skipped = skipped if line.startswith(BYTE_ORDER_MARK) else 0
            if line[skipped:].startswith(b"data:"):
                skipped += len(b"data: ") if line[skipped + 5 : skipped + 6] == b" " else 5
                values.append(line[skipped:].rstrip(b"\r\n"))
                places.append(at + skipped)
            at += len(line)
        changes = changed(self.scale, b"\n".join(values), self.window)
        if changes:
            self.changes.append(changes)
        return spliced(event, [placed(change, values, places) for change in changes])

    def numbers(self) -> tuple[Numbers, Numbers]:
        """The numbers of the first and of the last event with usage."""
        first, *others = self.changes or [[]]
        return named(first), named(others[-1] if others else [])


def placed(change: Change, values: list[bytes], places: list[int]) -> Change:
    """The change at its place in the event; `values` are the lines of its data."""
    start = 0
    for value, place in zip(values, places, strict=True):
        if start <= change.start <= start + len(value):
            moved = place - start
            return change._replace(start=change.start + moved, end=change.end + moved)
        start += len(value) + 1
    raise AssertionError("a number is in no line")
