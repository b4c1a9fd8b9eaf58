"""The files that words of a command line name, and what is in them: one reader for all commands.

What is packed by gzip or zstd is told by its first bytes, whatever its name; a row of Parquet is a
line of JSON. Nothing is passed over in silence: a folder or file that cannot be read, a link to
nowhere and what is no file are named, and text in another encoding than UTF-8 is refused.
"""

from __future__ import annotations

import codecs
import errno
import glob
import gzip
import io
import json
import os
import stat
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.errors import Error
from tokenctx._results.tables import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

Fault = tuple[str, str]
"""The name of what cannot be read, and why."""

UNREADABLE: Final = (OSError, EOFError, zlib.error)
PIECE_BYTES: Final = 1 << 20
PARQUET: Final = b"PAR1"
PARQUET_ROWS: Final = 2_048
SKIPPED_SUFFIXES: Final = (".md", ".txt", ".csv", ".html", ".py", ".duckdb", ".wal", ".tmp")
"""Files of a folder that are no logs by their names; whoever names one has it read."""
NO_FILE: Final = "No such file or directory"
NO_FILES: Final = "no file of calls is in this folder"
NEEDS_ARROW: Final = "this needs pyarrow: pip install 'tokenctx[batch]'"
_LINKS: Final = {errno.ENOENT: "a link to nothing", errno.ELOOP: "a link that leads to itself"}
_ENCODINGS: Final = (
    *((codecs.BOM_UTF32_LE, "UTF-32"), (codecs.BOM_UTF32_BE, "UTF-32")),
    *((codecs.BOM_UTF16_LE, "UTF-16"), (codecs.BOM_UTF16_BE, "UTF-16")),
    *((mark + b"\0\0\0", "UTF-32LE") for mark in (b"{", b"[")),
    *((mark + b"\0", "UTF-16LE") for mark in (b"{", b"[")),
    *((b"\0\0\0" + mark, "UTF-32BE") for mark in (b"{", b"[")),
    *((b"\0" + mark, "UTF-16BE") for mark in (b"{", b"[")),
)
"""The first bytes of text in other encodings: a mark, or JSON without one."""


class FileError(Error):
    """A file that cannot be read as it is; the message says why, and what to do."""


def named(
    words: Iterable[str], *, skipped: tuple[str, ...] = SKIPPED_SUFFIXES
) -> tuple[list[Path], list[Fault]]:
    """The files that `words` name, each once: paths, globs, folders; and what is wrong with some.

    The files of a folder are those below it whose names do not say that they are something else. A
    word that is no folder and no glob is a file, there or not; `-` is one, too.
    """
    found: dict[Path, Path] = {}
    faults: list[Fault] = []
    for word in words:
        before, count, paths = len(faults), 0, [Path(word)]
        if not _exists(paths[0]) and glob.has_magic(word):
            paths = [Path(it) for it in sorted(glob.glob(word, recursive=True))]  # noqa: PTH207
            if not paths:
                faults.append((word, NO_FILE))
        for path in paths:
            for file in _below(path, faults, skipped) if is_folder(path) else (path,):
                found.setdefault(_real(file), file)
                count += 1
        if not count and len(faults) == before:
            faults.append((word, NO_FILES))
    return list(found.values()), faults


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder that may not be looked at
        return True


def is_folder(path: Path) -> bool:
    """True for a folder; False for what is none, is not there, or may not be looked at."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # links that lead to themselves
        return path.absolute()


def _below(
    folder: Path,
    faults: list[Fault],
    skipped: tuple[str, ...],
    seen: set[tuple[int, int]] | None = None,
) -> Iterator[Path]:
    """The files below a folder; a link to a folder that was read before leads nowhere new."""
    seen = set() if seen is None else seen
    try:
        own = folder.stat()
        if (own.st_dev, own.st_ino) in seen:
            return
        seen.add((own.st_dev, own.st_ino))
        with os.scandir(folder) as entries:
            inside = sorted(entries, key=lambda it: it.name)
    except OSError as error:
        faults.append((str(folder), error.strerror or str(error)))
        return
    for entry in inside:
        path = Path(entry.path)
        if path.suffix in skipped:
            continue
        try:
            mode = entry.stat().st_mode
        except OSError as error:
            reason = error.strerror or str(error)
            faults.append((entry.path, _LINKS.get(error.errno or 0, reason)))
            continue
        if stat.S_ISDIR(mode):
            yield from _below(path, faults, skipped, seen)
        elif entry.name.startswith("."):
            continue
        elif stat.S_ISREG(mode):
            yield path
        else:
            faults.append((entry.path, "neither a file nor a folder"))


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, Callable[[], int]]]:
    """A file, unpacked as it is read, and how far it is read on the disk.

    Raises OSError, EOFError or zlib.error, and FileError for text that is not in UTF-8.
    """
    with path.open("rb") as raw, _unpacked(raw) as file:
        yield file, raw.tell


@contextmanager
def _unpacked(raw: Any) -> Iterator[Any]:
    head = raw.peek(4)[:4]
    file = raw
    if head.startswith(b"\x1f\x8b"):
        file = gzip.GzipFile(fileobj=raw, mode="rb")
    elif head == b"\x28\xb5\x2f\xfd":
        try:
            import pyarrow as pa
        except ImportError:
            raise FileError(f"zstd: {NEEDS_ARROW}") from None
        stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
        file = io.BufferedReader(stream, PIECE_BYTES)
    try:
        with suppress(*UNREADABLE):  # whoever reads on is told
            _check(file.peek(4)[:4])
        yield file
    finally:
        if file is not raw:
            file.close()


def _check(head: bytes) -> None:
    name = next((name for mark, name in _ENCODINGS if head.startswith(mark)), "")
    if name:
        raise FileError(f"this is {name}; write it as UTF-8, as `iconv -f {name} -t UTF-8` does")


def is_parquet(path: Path) -> bool:
    """True for a table of Parquet, by its first bytes or its name. Raises OSError."""
    with path.open("rb") as file:
        return file.read(4) == PARQUET or path.suffix == ".parquet"


def content_of(path: Path) -> bytes:
    """The content of a file, unpacked; of Parquet a line of JSON for each row.

    Raises as `opened`, and FileError for Parquet that is damaged.
    """
    if is_parquet(path):
        return b"".join(_lines(path))
    with opened(path) as (file, _):
        return file.read()


def unpacked(content: bytes) -> bytes:
    """The content of what did not come from a file, likewise. Raises as `content_of`."""
    if content.startswith(PARQUET):
        return b"".join(_lines(io.BytesIO(content)))
    with _unpacked(io.BufferedReader(io.BytesIO(content))) as file:
        found: bytes = file.read()
        return found


def lines_of(path: Path) -> Iterator[tuple[bytes, int]]:
    """The lines of a file as `content_of` has it, and how far it is read on the disk."""
    if is_parquet(path):
        yield from ((line, 0) for line in _lines(path))
        return
    with opened(path) as (file, place):
        for line in file:
            yield line, place()


def _lines(source: Any) -> Iterator[bytes]:
    with parquet(source) as file:
        for batch in file.iter_batches(PARQUET_ROWS):
            for row in batch.to_pylist():
                yield json.dumps(plain_row(row), default=str).encode() + b"\n"


@contextmanager
def parquet(source: Any) -> Iterator[Any]:
    """An open table of Parquet. Raises FileError for one that cannot be read."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise FileError(f"Parquet: {NEEDS_ARROW}") from None
    try:
        with pq.ParquetFile(source) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        first = str(error).split("\n")[0].split(". ")[0]
        raise FileError(f"this Parquet file cannot be read: {first}") from None


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
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
