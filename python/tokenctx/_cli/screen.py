r"""The one place that prints: foreign text comes out visible, and never as an order to a terminal.

Names of models, tools, servers and files are foreign. A control character, an escape sequence or a
character that turns the direction of a line is shown as its escape, such as `\x1b` or `\u202e`.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import typer

from tokenctx._results.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    Part = str | tuple[str, str] | Text

PIPE_COLUMNS: Final = 160
"""Width where there is neither a terminal nor `COLUMNS`: enough for most tables."""
LINES_AT_ONCE: Final = 64
LEAST_COLUMNS: Final = 20
"""A terminal that is narrower breaks our lines."""


def visible(foreign: str) -> str:
    """`foreign` with an escape in place of each character that does not print."""
    if foreign.isprintable():
        return foreign
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in foreign
    )


def count_of(number: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number:,} {noun}{'s'[: number != 1]}"


def share_of(part: float, whole: float) -> str:
    """`0 %`, `< 1 %`, `12 %`."""
    percent = 100 * part / whole
    return "< 1 %" if 0 < percent < 1 else f"{percent:.0f} %"


def text(*parts: Part, style: str = "", no_wrap: bool | None = None) -> Text:
    """One line of parts, each a string or a string with its style; safe to print."""
    from rich.text import Text

    safe = [
        part
        if isinstance(part, Text)
        else visible(part)
        if isinstance(part, str)
        else (visible(part[0]), part[1])
        for part in parts
    ]
    return Text.assemble(*safe, style=style, no_wrap=no_wrap)


def print_line(line: str) -> None:
    """One line on standard output that no terminal's width breaks."""
    _clear()
    typer.echo(visible(line))


@contextmanager
def many_lines() -> Iterator[Callable[[str], None]]:
    """As `print_line` for lines in great number, one or some by a call, written some at a time."""
    lines: list[str] = []
    count = 0

    def write() -> None:
        nonlocal count
        _clear()
        typer.echo("\n".join(lines))
        lines.clear()
        count = 0

    def add(text: str) -> None:
        nonlocal count
        lines.append("\n".join(map(visible, text.split("\n"))))
        count += text.count("\n") + 1
        if count >= LINES_AT_ONCE:
            write()

    try:
        yield add
    finally:
        if lines:
            write()


def print_document(document: str) -> None:
    """Lines on standard output as they are; `document` has no foreign text but what is visible."""
    _clear()
    typer.echo(document, nl=False)


def console(*, is_error: bool = False) -> Console:
    """The terminal, as wide as it is; a pipe is as wide as `COLUMNS`, else wide."""
    from rich.console import Console

    screen = Console(stderr=is_error, highlight=False)
    if not is_error:
        _clear()
        if not _has_width():
            screen.width = PIPE_COLUMNS
    return screen


def _has_width() -> bool:
    """Whether somebody said how wide the output is."""
    return sys.stdout.isatty() or bool(os.environ.get("COLUMNS"))


BAR_AFTER_SECONDS: Final = 0.5
"""What ends sooner has no bar: it would only flicker."""


class _Bar:
    """A bar that comes after half a second, and is gone before anything is printed."""

    def __init__(self, title: str, total: int | None, *, is_bytes: bool) -> None:
        self._about = title, total, is_bytes
        self._due = time.monotonic() + BAR_AFTER_SECONDS
        self._bar: Any = None

    def advance_to(self, done: int, title: str = "") -> None:
        if self._bar is None:
            if time.monotonic() < self._due:
                return
            self._bar = _bar(*self._about)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done)
        if title:
            self._bar.update(self._bar.task_ids[0], description=visible(title))

    def close(self) -> None:
        """Take it off the screen; the next step brings it back only after another half second."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._due = time.monotonic() + BAR_AFTER_SECONDS


_SHOWN: Final[list[_Bar]] = []


def _clear() -> None:
    """Take the bars off the screen, where something is to be printed."""
    for bar in _SHOWN:
        bar.close()


def print_table(screen: Console, table: Table) -> None:
    """A table, or where the screen is too narrow for it, a block of lines for each of its rows.

    No cell is cut: what is wide, as the list of a profile's models, is broken between words.
    """
    table.expand = False
    unlimited = screen.options.update(max_width=10_000)
    measured = screen.measure(table, options=unlimited)
    if not _has_width():
        screen.width = max(screen.width, measured.maximum)
    is_cut = any("…" in piece.text for row in screen.render_lines(table) for piece in row)
    if measured.minimum <= screen.width and not is_cut:
        screen.print(table)
        return
    titles = [" ".join(str(column.header).split()) or "and" for column in table.columns]
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    if table.title:
        paragraph(screen, str(table.title))
    for row in rows:
        said = [
            (title, getattr(cell, "plain", None) or str(cell))
            for title, cell in zip(titles, row, strict=True)
        ]
        (title, first), *others = said
        if len(others) == 1:
            paragraph(screen, f"{first}: {others[0][1]}", after="  ")
            continue
        paragraph(screen, f"{title} {first}".strip())
        pairs = [f"{name} {value}" for name, value in others if value]
        paragraph(screen, "  " + ", ".join(pairs), after="  ")


def paragraph(screen: Console, line: str, *, after: str = "") -> None:
    """A line of foreign text, broken between words at the width of the screen.

    What follows its first row is moved in by `after`. Nothing is lost: a word that is longer than
    a row goes on in the next.
    """
    rows = [visible(line)]
    if _has_width():
        width = max(screen.width, LEAST_COLUMNS)
        kept = {"break_on_hyphens": False, "drop_whitespace": True, "replace_whitespace": False}
        rows = textwrap.wrap(rows[0], width, subsequent_indent=after, **kept)  # type: ignore[arg-type]
    for row in rows or [""]:
        screen.print(text(row), soft_wrap=True)


@contextmanager
def progress(title: str, total: int | None, *, is_bytes: bool = False) -> Iterator[Any]:
    """A bar on standard error while there is a terminal; gives what moves it.

    It comes after half a second, and goes before a line is printed. With `is_bytes` it has the
    bytes a second and the time that is left, and whoever moves it may give another title.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda *_: None
        return
    bar = _Bar(title, total, is_bytes=is_bytes)
    _SHOWN.append(bar)
    try:
        yield bar.advance_to
    finally:
        bar.close()
        _SHOWN.remove(bar)


def _bar(title: str, total: int | None, is_bytes: bool) -> Any:  # noqa: FBT001  # of `_Bar` alone
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    text = TextColumn("{task.description}", markup=False)
    columns = (
        (text, TransferSpeedColumn(), TimeRemainingColumn())
        if is_bytes
        else (text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    )
    bar = Progress(*columns, console=console(is_error=True), transient=True)
    bar.add_task(visible(title), total=total)
    return bar


def remark(line: str) -> None:
    """One line on standard error."""
    _clear()
    rows = [visible(f"tokenctx: {line}")]
    if sys.stderr is not None and (sys.stderr.isatty() or os.environ.get("COLUMNS")):
        columns = max(shutil.get_terminal_size().columns, LEAST_COLUMNS)
        rows = textwrap.wrap(rows[0], columns, subsequent_indent="  ", break_on_hyphens=False)
    for row in rows:
        typer.echo(row, err=True)


def complain(name: str, error: BaseException) -> None:
    """Why a file failed, on standard error; the file that the error itself names comes first."""
    if isinstance(error, OSError) and isinstance(error.filename, str):
        name = error.filename
    remark(f"{name}: {reason(error)}")


def say_faults(faults: list[tuple[str, str]]) -> list[str]:
    """Say on standard error what of the words of a command cannot be read; the names of it."""
    for name, why in faults:
        remark(f"{name}: {why}")
    return [name for name, _ in faults]


def reason(error: BaseException) -> str:
    """An exception as a sentence."""
    from tokenctx._cli.evaluation.recordings import RecordingError  # where something is wrong only

    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, (Error, RecordingError, EOFError, zlib.error)):
        return str(error)
    return f"a field of this recording is missing or of the wrong type: {error}"
