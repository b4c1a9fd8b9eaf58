r"""The one place that prints: foreign text comes out visible, and never as an order to a terminal.

Names of models, tools, servers and files are foreign. A control character, an escape sequence or a
character that turns the direction of a line is shown as its escape, such as `\x1b` or `\u202e`.
"""

from __future__ import annotations

import sys
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import typer

from tokenctx._results.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.text import Text

    Part = str | tuple[str, str] | Text

PIPE_COLUMNS: Final = 160
"""Width where there is no terminal: enough for every table."""
LINES_AT_ONCE: Final = 64
LEAST_COLUMNS: Final = 124
"""Width of the widest table: a narrower terminal breaks its lines, and no cell is cut."""


def visible(foreign: str) -> str:
    """`foreign` with an escape in place of each character that does not print."""
    if foreign.isprintable():
        return foreign
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in foreign
    )


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
    typer.echo(visible(line))


@contextmanager
def many_lines() -> Iterator[Callable[[str], None]]:
    """As `print_line` for lines in great number, one or some by a call, written some at a time."""
    lines: list[str] = []
    count = 0

    def write() -> None:
        nonlocal count
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
    typer.echo(document, nl=False)


def console(*, is_error: bool = False) -> Console:
    """The terminal; a pipe is wide, and what is not an error is never cut."""
    from rich.console import Console

    stream = sys.stderr if is_error else sys.stdout
    screen = Console(stderr=is_error, highlight=False)
    if not is_error:
        screen.width = max(screen.width, LEAST_COLUMNS) if stream.isatty() else PIPE_COLUMNS
    return screen


@contextmanager
def progress(title: str, total: int | None) -> Iterator[Any]:
    """A bar on standard error while there is a terminal; gives what moves it."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console(is_error=True), transient=True) as bar:
        task = bar.add_task(visible(title), total=total)
        yield lambda done: bar.update(task, completed=done)


def remark(line: str) -> None:
    """One line on standard error."""
    typer.echo(visible(f"tokenctx: {line}"), err=True)


def complain(name: str, error: BaseException) -> None:
    """Why a file failed, on standard error; the file that the error itself names comes first."""
    if isinstance(error, OSError) and isinstance(error.filename, str):
        name = error.filename
    remark(f"{name}: {reason(error)}")


def reason(error: BaseException) -> str:
    """An exception as a sentence."""
    from tokenctx._cli.evaluation.recordings import RecordingError  # where something is wrong only

    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, (Error, RecordingError, EOFError, zlib.error)):
        return str(error)
    return f"a field of this recording is missing or of the wrong type: {error}"
