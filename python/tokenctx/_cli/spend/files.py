"""Rows of files of any length, a part at a time: JSON lines, gzip, zstd, Parquet, transcripts.

Lines are read here and not by DuckDB, whose reader ends a whole file at one line that is too long
for it. A part ends between two rows, so that whoever was interrupted goes on behind the last one.
"""

from __future__ import annotations

import codecs
import glob
import gzip
import zlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from tokenctx._cli.evaluation.logs import NO_LOG, LogReader
from tokenctx._cli.evaluation.transcripts.files import (
    Transcript,
    has_marks,
    transcript_in,
)
from tokenctx._cli.evaluation.transcripts.marks import HEAD_BYTES
from tokenctx._cli.evaluation.transcripts.thread import Reading
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
    from typing import BinaryIO

Kind = Literal["lines", "document", "parquet", "transcript"]

PART_BYTES: Final = 16 << 20
"""About so much of a file is read before what it cost is written down."""
PART_ROWS: Final = 16_384
MOST_LINE_BYTES: Final = 32 << 20
"""A longer line is left out: with its values it would not fit the memory that is promised."""
MOST_WHOLE_BYTES: Final = 64 << 20
"""A file that can only be read as a whole, a transcript or a JSON array, is no longer."""
PIECE_BYTES: Final = 1 << 20
TOO_LONG: Final = f"a line of more than {MOST_LINE_BYTES >> 20} MiB"
NOT_JSON: Final = "a line that is no JSON object in UTF-8"
CUT: Final = "the rest of a file that ends in the middle: it is cut or damaged"
OWN: Final = "a row of a table that this command wrote of other files"
OWN_KEY: Final = "tokenctx_cost"
"""In the metadata of such a table: its calls would count twice in a folder of logs."""
UTF_16: Final = "this is UTF-16; write it as UTF-8, as `iconv -f UTF-16 -t UTF-8` does"
PARQUET_ROWS: Final = 2_048
MAGIC: Final = {b"PAR1": "parquet", b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
SKIPPED_SUFFIXES: Final = (".md", ".txt", ".csv", ".html", ".py", ".duckdb", ".wal", ".tmp")
"""Files of a folder that are no logs by their names; whoever names one has it read."""
UNREADABLE: Final = (OSError, EOFError, zlib.error)


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
        kind, packing = self._kind()
        if kind == "parquet":
            yield from self._groups(start)
            return
        with self._opened(packing) as (file, place):
            yield from self._texts(file, place, start)

    def _kind(self) -> tuple[Kind, str]:
        with self.path.open("rb") as file:
            head = file.read(4)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise SpendError(UTF_16)
        found = next((kind for mark, kind in MAGIC.items() if head.startswith(mark)), "")
        if found == "parquet" or self.path.suffix == ".parquet":
            return "parquet", ""
        return "lines", found

    def _opened(self, packing: str) -> Any:
        return _Opened(self.path, packing)

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
                except (EOFError, zlib.error, OSError) as error:
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
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.path) as file:
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
        except (pa.ArrowException, OSError) as error:
            first = str(error).split("\n")[0].split(". ")[0]
            raise SpendError(f"this Parquet file cannot be read: {first}") from None

    def _group(self, file: Any, group: int, count: int) -> Part:
        calls: list[Call] = []
        log, left_out, rows = LogReader(self.path), Counter[str](), 0
        for batch in file.iter_batches(PARQUET_ROWS, row_groups=[group]):
            for row in batch.to_pylist():
                rows += 1
                calls += _calls(_plain(row), log, left_out)
        calls += calls_of_halves(log, left_out)
        done = self.byte_count * (group + 1) // count
        return Part(group + 1, done, calls, left_out, rows, is_last=group + 1 == count)


_TOO_LARGE: Final = (
    f"one JSON document of more than {MOST_WHOLE_BYTES >> 20} MiB; write it as JSON lines, as "
    "`jq -c '.[]'` does"
)


class _Opened:
    """A file that is unpacked as it is read, and how far it is read on the disk."""

    def __init__(self, path: Path, packing: str) -> None:
        self._raw = path.open("rb")
        self._file: Any = self._raw
        if packing == "gzip":
            self._file = gzip.GzipFile(fileobj=self._raw, mode="rb")
        elif packing == "zstd":
            import io

            import pyarrow as pa

            stream = pa.CompressedInputStream(pa.PythonFile(self._raw, mode="r"), "zstd")
            self._file = io.BufferedReader(stream, PIECE_BYTES)

    def __enter__(self) -> tuple[BinaryIO, Callable[[], int]]:
        return self._file, self._raw.tell

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._raw.close()


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


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row of Parquet with the JSON texts in it as values, and times as text."""
    found = {}
    for key, value in row.items():
        if isinstance(value, (bytes, str)) and value[:1] in {b"{", "{", b"[", "["}:
            text = value if isinstance(value, bytes) else value.encode(errors="surrogatepass")
            loaded, fault = read_json(text)
            found[key] = value if fault else loaded
        else:
            found[key] = value.isoformat() if hasattr(value, "isoformat") else value
    if set(found) <= {"json", "body", "row", "value"} and len(found) == 1:
        only = next(iter(found.values()))
        return only if isinstance(only, dict) else found
    return found


def sources(words: list[str], seen: Reading) -> tuple[list[Source], list[tuple[str, str]]]:
    """The files that `words` name, each once: paths, globs, folders; and what is wrong with some.

    The files of a folder are those below it whose names do not say that they are something else.
    """
    found: dict[Path, Source] = {}
    faults: list[tuple[str, str]] = []
    for word in words:
        path = Path(word)
        paths = [path]
        if not path.exists() and glob.has_magic(word):
            paths = [Path(it) for it in sorted(glob.glob(word, recursive=True))]  # noqa: PTH207
            if not paths:
                faults.append((word, "no file is called so"))
        files = [it for one in paths for it in _files(one)]
        if paths and not files:
            faults.append((word, "no file of calls is in this folder"))
        for file in files:
            try:
                found.setdefault(file.resolve(), Source.at(file, seen))
            except OSError as error:  # noqa: PERF203  # of one file
                faults.append((str(file), error.strerror or str(error)))
    return list(found.values()), faults


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(
        it
        for it in path.rglob("*")
        if it.is_file() and it.suffix not in SKIPPED_SUFFIXES and not it.name.startswith(".")
    )


def is_log(path: Path) -> bool:
    """True for a file of calls that were billed, or of a vendor's batch; False for requests.

    Raises OSError if it cannot be read.
    """
    if path.is_dir() or path.suffix in {".parquet", ".zst", ".zstd"}:
        return True
    if path.stat().st_size > MOST_WHOLE_BYTES:  # too long for who counts it at once
        return True
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            first = _first_line(file)
            head = first + file.read(HEAD_BYTES)
    except UNREADABLE:
        return False
    if has_marks(head[:HEAD_BYTES]) and transcript_in(path.name, head.rpartition(b"\n")[0] or head):
        return True
    value, fault = read_json(first)
    if fault:
        value, _ = read_json(
            path.read_bytes() if not packed else gzip.decompress(path.read_bytes())
        )
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
