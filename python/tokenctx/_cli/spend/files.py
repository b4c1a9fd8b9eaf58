"""Rows of files of any length, a part at a time: JSON lines, gzip, zstd, Parquet, transcripts.

Lines are read here and not by DuckDB, whose reader ends a whole file at one line that is too long
for it. A part ends between two rows, so that whoever was interrupted goes on behind the last one.
"""

from __future__ import annotations

import gzip
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.logs import NO_LOG, LogReader
from tokenctx._cli.evaluation.transcripts.files import (
    Transcript,
    has_marks,
    transcript_in,
)
from tokenctx._cli.evaluation.transcripts.marks import HEAD_BYTES
from tokenctx._cli.evaluation.transcripts.thread import Reading
from tokenctx._cli.files import (
    PARQUET_ROWS,
    PIECE_BYTES,
    UNREADABLE,
    FileError,
    content_of,
    is_parquet,
    named,
    opened,
    parquet,
    plain_row,
)
from tokenctx._cli.spend.calls import (
    Call,
    calls_in_row,
    calls_of_halves,
    steps_calls,
)
from tokenctx._results.errors import Error
from tokenctx._results.tables import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

PART_BYTES: Final = 16 << 20
"""About so much of a file is read before what it cost is written down."""
PART_ROWS: Final = 16_384
MOST_LINE_BYTES: Final = 32 << 20
"""A longer line is left out: with its values it would not fit the memory that is promised."""
MOST_WHOLE_BYTES: Final = 64 << 20
"""A file that can only be read as a whole, a transcript or a JSON array, is no longer."""
TOO_LONG: Final = f"a line of more than {MOST_LINE_BYTES >> 20} MiB"
NOT_JSON: Final = "a line that is no JSON object in UTF-8"
CUT: Final = "the rest of a file that ends in the middle: it is cut or damaged"
OWN: Final = "a row of a table that this command wrote of other files"
OWN_KEY: Final = "tokenctx_cost"
"""In the metadata of such a table: its calls would count twice in a folder of logs."""


class SpendError(Error):
    """A file whose calls cannot be read; the message says why, and what to do."""


@dataclass(slots=True)
class Part:
    """Some rows of a file.

    Attributes:
        end: Where the next part begins, in bytes of the unpacked file, or in groups of rows.
        done_bytes: How much of the file on the disk is read.
        is_last: True if nothing comes behind it.
        rows: How many there were, with those that are left out.
        fault: Why the file ends here although there was more of it; empty if it does not.
    """

    end: int
    done_bytes: int
    calls: list[Call]
    left_out: Counter[str]
    rows: int
    is_last: bool = False
    fault: str = ""


@dataclass(slots=True)
class Source:
    """One file."""

    path: Path
    byte_count: int
    modified_ns: int
    seen: Reading = field(default_factory=Reading)

    @classmethod
    def at(cls, path: Path, seen: Reading) -> Source:
        """The file at `path`. Raises OSError."""
        about = path.stat()
        return cls(path, about.st_size, about.st_mtime_ns, seen)

    def parts(self, start: int = 0) -> Iterator[Part]:
        """The parts of the file from `start` on. Raises SpendError, OSError, EOFError."""
        try:
            if is_parquet(self.path):
                yield from self._groups(start)
                return
            with opened(self.path) as (file, place):
                yield from self._texts(file, place, start)
        except FileError as error:
            raise SpendError(str(error)) from None

    # ----------------------------------------------------------------------------------- text

    def _texts(self, file: BinaryIO, place: Callable[[], int], start: int) -> Iterator[Part]:
        if start == 0:
            first = _first_line(file)
            head = first if len(first) >= HEAD_BYTES else first + _some_lines(file)
            if has_marks(head[:HEAD_BYTES]) and self._is_transcript(head):
                yield self._transcript(head + file.read(MOST_WHOLE_BYTES + 1))
                return
            value, fault = read_json(first)
            if isinstance(value, list) or fault or not first.endswith(b"\n"):
                whole = head + file.read(max(0, MOST_WHOLE_BYTES - len(head) + 1))
                value, document_fault = read_json(whole)
                if not document_fault:
                    yield self._document(value)
                    return
                if whole.lstrip()[:1] == b"[" and len(whole) > MOST_WHOLE_BYTES:
                    raise SpendError(_TOO_LARGE)
                head = whole
        else:
            head = b""
            _skip(file, start)
        yield from self._lines(_Lines(file, head, start), place, is_new=start == 0)

    def _is_transcript(self, head: bytes) -> bool:
        lines = head.rpartition(b"\n")[0] or head
        return transcript_in(self.path.name, lines) is not None

    def _transcript(self, content: bytes) -> Part:
        if len(content) > MOST_WHOLE_BYTES:
            raise SpendError(f"a transcript of more than {MOST_WHOLE_BYTES >> 20} MiB; split it")
        transcript = transcript_in(self.path.name, content)
        if transcript is None:  # cut in its head
            raise SpendError("a transcript that is cut")
        return self._of_transcripts([transcript])

    def _of_transcripts(self, found: list[Transcript]) -> Part:
        before = Counter(self.seen.skipped)
        calls = [
            call
            for it in found
            for line in it.lines(self.seen)
            for call in steps_calls(line, line["kind"])
        ]
        left_out = Counter(self.seen.skipped)
        left_out.subtract(before)
        return Part(0, self.byte_count, calls, +left_out, len(calls), is_last=True)

    def _document(self, value: object) -> Part:
        left_out: Counter[str] = Counter()
        if isinstance(value, dict) and isinstance(value.get("data"), list):
            value = value["data"]
        rows = value if isinstance(value, list) else [value]
        log = LogReader(self.path)
        calls = [call for row in rows for call in _calls(row, log, left_out)]
        calls += calls_of_halves(log, left_out)
        self._check(calls, left_out, len(rows))
        return Part(0, self.byte_count, calls, left_out, len(rows), is_last=True)

    def _lines(self, lines: _Lines, place: Callable[[], int], *, is_new: bool) -> Iterator[Part]:
        while True:
            calls: list[Call] = []
            log, left_out, rows = LogReader(self.path), Counter[str](), 0
            begin, fault, is_last = lines.at, "", False
            while lines.at - begin < PART_BYTES and rows < PART_ROWS:
                try:
                    line = lines.next()
                except UNREADABLE as error:
                    left_out[CUT] += 1
                    fault, is_last = str(error), True
                    break
                if line is None:
                    is_last = True
                    break
                if line == TOO_LONG:
                    rows += 1
                    left_out[TOO_LONG] += 1
                elif isinstance(line, bytes) and line.strip():
                    rows += 1
                    value, wrong = read_json(line)
                    if wrong or not isinstance(value, dict):
                        left_out[NOT_JSON] += 1
                    else:
                        calls += calls_in_row(value, log, left_out)
            calls += calls_of_halves(log, left_out)
            if is_new:
                self._check(calls, left_out, rows)
                is_new = False
            yield Part(lines.at, place(), calls, left_out, rows, is_last, fault)
            if is_last:
                return

    def _check(self, calls: list[Call], left_out: Counter[str], rows: int) -> None:
        """Raise SpendError for a file whose first part has no call of a kind that is known."""
        unknown = left_out[NO_LOG] + left_out[NOT_JSON]
        if not calls and unknown == rows:
            raise SpendError(NO_LOG if rows else "the file is empty")

    # -------------------------------------------------------------------------------- parquet

    def _groups(self, start: int) -> Iterator[Part]:
        with parquet(self.path) as file:
            count = file.num_row_groups
            if OWN_KEY.encode() in (file.metadata.metadata or {}):
                rows = file.metadata.num_rows
                left_out = Counter({OWN: rows})
                yield Part(count, self.byte_count, [], left_out, rows, is_last=True)
                return
            for group in range(start, count):
                yield self._group(file, group, count)
            if start >= count:
                yield Part(count, self.byte_count, [], Counter(), 0, is_last=True)

    def _group(self, file: Any, group: int, count: int) -> Part:
        calls: list[Call] = []
        log, left_out, rows = LogReader(self.path), Counter[str](), 0
        for batch in file.iter_batches(PARQUET_ROWS, row_groups=[group]):
            for row in batch.to_pylist():
                rows += 1
                calls += _calls(plain_row(row), log, left_out)
        calls += calls_of_halves(log, left_out)
        done = self.byte_count * (group + 1) // count
        return Part(group + 1, done, calls, left_out, rows, is_last=group + 1 == count)


_TOO_LARGE: Final = (
    f"one JSON document of more than {MOST_WHOLE_BYTES >> 20} MiB; write it as JSON lines, as "
    "`jq -c '.[]'` does"
)


class _Lines:
    """The lines of a file, and where the next one begins."""

    def __init__(self, file: BinaryIO, head: bytes, at: int) -> None:
        self._file, self._head, self._done, self.at = file, head, 0, at

    def next(self) -> bytes | str | None:
        """The next line; None at the end, `TOO_LONG` for one that is passed over."""
        if self._done < len(self._head):
            end = self._head.find(b"\n", self._done) + 1
            if end:
                line = self._head[self._done : end]
            else:
                line = self._head[self._done :] + self._file.readline(MOST_LINE_BYTES + 1)
            self._done = end or len(self._head)
        else:
            self._head, self._done = b"", 0
            line = self._file.readline(MOST_LINE_BYTES + 1)
        self.at += len(line)
        if len(line) > MOST_LINE_BYTES:
            while not line.endswith(b"\n"):
                line = self._file.readline(PIECE_BYTES)
                self.at += len(line)
                if not line:
                    break
            return TOO_LONG
        return line or None


def _first_line(file: BinaryIO | gzip.GzipFile) -> bytes:
    """The first line that is not empty, with the empty ones before it."""
    found = bytearray()
    while len(found) <= MOST_LINE_BYTES:
        line = file.readline(MOST_LINE_BYTES + 1)
        found += line
        if line.strip() or not line:
            break
    return bytes(found)


def _some_lines(file: BinaryIO) -> bytes:
    """Lines behind the first, by which a transcript is known."""
    found = b""
    with suppress(*UNREADABLE):  # whoever reads on is told
        while len(found) < HEAD_BYTES:
            line = file.readline(MOST_LINE_BYTES)
            if not line:
                break
            found += line
    return found


def _skip(file: BinaryIO, count: int) -> None:
    """Pass over so many bytes of an unpacked file."""
    if hasattr(file, "raw") and not isinstance(file, gzip.GzipFile) and file.seekable():
        file.seek(count)
        return
    while count > 0:
        piece = file.read(min(count, PIECE_BYTES))
        if not piece:
            return
        count -= len(piece)


def _calls(row: object, log: LogReader, left_out: Counter[str]) -> Iterator[Call]:
    if isinstance(row, dict):
        yield from calls_in_row(row, log, left_out)
    else:
        left_out[NOT_JSON] += 1


def sources(words: list[str], seen: Reading) -> tuple[list[Source], list[tuple[str, str]]]:
    """The files that `words` name, each once, and what is wrong with some; see `named`."""
    files, faults = named(words)
    found: list[Source] = []
    for file in files:
        try:
            found.append(Source.at(file, seen))
        except OSError as error:  # noqa: PERF203  # of one file
            faults.append((str(file), error.strerror or str(error)))
    return found, faults


def is_log(path: Path) -> bool:
    """True for a file of calls that were billed, or of a vendor's batch; False for requests.

    Raises OSError if it cannot be read.
    """
    if path.is_dir() or path.suffix in {".zst", ".zstd"} or is_parquet(path):
        return True
    if path.stat().st_size > MOST_WHOLE_BYTES:  # too long for who counts it at once
        return True
    try:
        with opened(path) as (file, _):
            first = _first_line(file)
            head = first + file.read(HEAD_BYTES)
        lines = head.rpartition(b"\n")[0] or head
        if has_marks(head[:HEAD_BYTES]) and transcript_in(path.name, lines):
            return True
        value, fault = read_json(first)
        if fault:
            value, _ = read_json(content_of(path))
    except (*UNREADABLE, FileError):
        return False
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        value = value["data"]
    row = value[0] if isinstance(value, list) and value else value
    if not isinstance(row, dict) or "role" in row:
        return False
    left_out: Counter[str] = Counter()
    log = LogReader(path)
    calls = [*calls_in_row(row, log, left_out), *calls_of_halves(log, left_out)]
    if calls and all(it.usage is None and it.tier is None for it in calls):
        return False  # requests, each of which `count --cost` tells the price
    return bool(calls) or (bool(left_out) and NO_LOG not in left_out)
