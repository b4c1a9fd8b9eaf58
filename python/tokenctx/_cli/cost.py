"""The command `cost`: the price of one call before it is made, or what many calls have cost."""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tokenctx._cli.count import count_command
from tokenctx._cli.files import UNREADABLE
from tokenctx._cli.help_texts import PROVIDER
from tokenctx._cli.screen import (
    complain,
    console,
    count_of,
    paragraph,
    print_line,
    print_table,
    progress,
    remark,
    say_faults,
    text,
)
from tokenctx._cli.spend.bill import Line, compared
from tokenctx._cli.spend.causes import CAUSES, Cause, find_causes
from tokenctx._cli.spend.files import SpendError, is_log, sources
from tokenctx._cli.spend.ledger import Ledger
from tokenctx._cli.spend.page import page
from tokenctx._cli.spend.report import (
    CALLS,
    GROUPS,
    Elsewhere,
    Group,
    Other,
    dollars,
    elsewhere,
    groups,
    left_out,
    lost,
    total,
    undated,
    unpriced,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from tokenctx._cli.spend.files import Source

BY: Final = f"Sums by {', '.join(GROUPS)}."
MOST_ROWS: Final = 100
"""Rows of the table on a screen; `--json` and `--parquet` have all."""
MOST_USED: Final = 3
"""Models of the ledger that the page compares with."""
MOST_REASONS: Final = 10
"""Models without a price that are named on a screen."""
MEGABYTE: Final = 10**6
INPUT: Final = "-"
"""The standard input, among the words of a command."""
DATA_SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".gz", ".zst", ".zstd", ".parquet")
PATH_MARKS: Final = frozenset({"/", os.sep, "*"})
"""A word with one of them is a path; a text that has them has spaces, too."""


def cost_command(
    words: Annotated[
        list[str],
        typer.Argument(
            help="Logs, transcripts, batch files, folders, globs; one request, - or a text."
        ),
    ],
    *,
    by: Annotated[str, typer.Option(metavar="NAMES", help=BY)] = "model",
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="The model that is called; of a log: another one, too."),
    ] = None,
    unnamed: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="The model of rows that name none."),
    ] = None,
    provider: Annotated[str | None, typer.Option(help=PROVIDER)] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep what was read here; a next run goes on."),
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a row for each call.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all of it on one page.")
    ] = None,
    bill: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The provider's cost export (CSV), to be explained."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, or lines.")] = False,
) -> None:
    """Show what calls cost: of one request or text before it is made, of logs what they did."""
    asks = Asked(_names(by), model, unnamed or "", parquet, html, bill, as_json)
    is_spent = by != "model" or bool(unnamed or state or parquet or html or bill)
    if state and INPUT in words:
        raise typer.BadParameter("it goes on with files; save the input as one", param_hint=INPUT)
    with _with_input(words, is_log=is_spent) as named:
        if is_spent or _are_logs(named):
            _spent(named, state, asks)
            return
        is_text = not any(_names_a_file(it) for it in named)
        files, given = ([], " ".join(named)) if is_text else (named, None)
        count_command(
            files, given=given, model=model, provider=provider, cost=True, as_json=as_json
        )


@contextmanager
def _with_input(words: list[str], *, is_log: bool) -> Iterator[list[str]]:
    """`words`, with a file in place of `-` if a log comes there; all else is read from there."""
    if INPUT not in words or sys.stdin is None:
        yield words
        return
    with tempfile.TemporaryDirectory(prefix="tokenctx-input-") as folder:
        path = Path(folder, "standard-input.jsonl")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        if is_log or _is_log(str(path)):
            yield [str(path) if it == INPUT else it for it in words]
            return
        before, again = sys.stdin, path.open(encoding="utf-8")
        with again:
            sys.stdin = again
            try:
                yield words
            finally:
                sys.stdin = before


@dataclass(slots=True)
class Asked:
    """The questions to the ledger."""

    by: tuple[str, ...]
    model: str | None
    unnamed: str
    parquet: Path | None
    html: Path | None
    bill: Path | None
    as_json: bool

    @property
    def models(self) -> list[str]:
        """The other models."""
        return [it.strip() for it in (self.model or "").split(",") if it.strip()]


@dataclass(slots=True)
class Told:
    """The answers of the ledger."""

    total: Group
    groups: list[Group]
    elsewhere: list[Elsewhere]
    left_out: dict[str, int]
    unpriced: list[tuple[str, str, int]]
    undated: int
    causes: list[Cause]
    bill: list[Line]
    failed: list[str] = field(default_factory=list)


def _names(by: str) -> tuple[str, ...]:
    names = tuple(it.strip() for it in by.split(",") if it.strip())
    for name in names:
        if name not in GROUPS:
            raise typer.BadParameter(
                f"{name!r} is nothing to sum by; there are {', '.join(GROUPS)}", param_hint="--by"
            )
    return names


def _names_a_file(word: str) -> bool:
    """True for a path, there or not, a glob and `-`; False for a text to be priced."""
    if word == INPUT or _exists(word):
        return True
    has_space = any(it.isspace() for it in word)
    return word.endswith(DATA_SUFFIXES) or not (has_space or PATH_MARKS.isdisjoint(word))


def _exists(word: str) -> bool:
    try:
        return Path(word).exists()
    except (OSError, ValueError):  # a text that is too long for a name, or has a NUL
        return False


def _are_logs(words: list[str]) -> bool:
    """True if a word is a file of calls, or means some; a text is none."""
    return any(_is_log(it) for it in words)


def _is_log(word: str) -> bool:
    try:
        if _exists(word):
            return is_log(Path(word))
        return glob.has_magic(word) and bool(glob.glob(word, recursive=True))  # noqa: PTH207
    except (OSError, ValueError):  # who reads it says so
        return False


def _spent(words: list[str], state: Path | None, asked: Asked) -> None:
    from tokenctx._cli.evaluation.transcripts.thread import Reading
    from tokenctx.money.prices import default_prices

    prices = default_prices()
    folder = state or Path(tempfile.mkdtemp(prefix="tokenctx-cost-"))
    ledger: Ledger | None = None
    try:
        ledger = Ledger(folder, prices, model=asked.unnamed)
        found, faults = sources(words, Reading())
        failed = say_faults(faults)
        failed += _read(ledger, found)
        ledger.settle(found)
        failed += _lost(ledger, failed)
        causes = find_causes(ledger)
        told = _told(ledger, prices, asked, causes, failed)
        _write(ledger, asked, told)
    except SpendError as error:
        remark(str(error))
        raise typer.Exit(1) from None
    except OSError as error:  # of the bill, or of the folder
        complain(str(error.filename or folder), error)
        raise typer.Exit(1) from None
    finally:
        if ledger is not None:
            ledger.close()
        if state is None:
            shutil.rmtree(folder, ignore_errors=True)
    if failed:
        raise typer.Exit(1)


def _read(ledger: Ledger, found: list[Source]) -> list[str]:
    """Read what is not read yet; the names of files that failed, of which the reason is told."""
    failed: list[str] = []
    whole = sum(it.byte_count for it in found)
    before = rows = 0
    with progress("rows", whole, is_bytes=True) as advance_to:
        for source in found:
            start = ledger.start_of(source)
            try:
                for part in source.parts(start) if start is not None else ():
                    ledger.add(source, part)
                    rows += part.rows
                    done = before + part.done_bytes
                    advance_to(done, _about(rows, done, whole))
                    if part.fault:
                        remark(f"{source.path}: {part.fault}")
                        failed.append(str(source.path))
            except (*UNREADABLE, SpendError) as error:
                if isinstance(error, SpendError) and "ledger" in str(error):
                    raise
                complain(str(source.path), error)
                failed.append(str(source.path))
            before += source.byte_count
    return failed


def _lost(ledger: Ledger, failed: list[str]) -> list[str]:
    """The files of which a part could not be read, in this run or before, and is told here."""
    found = []
    for path, reason, count in lost(ledger):
        if path not in failed:
            remark(f"{path}: left out: {count:,} x {reason}")
            found.append(path)
    return found


def _about(rows: int, done: int, whole: int) -> str:
    """How far it is, for the bar."""
    return f"{rows:,} rows, {done // MEGABYTE:,} of {whole // MEGABYTE:,} MB, {_memory()}"


def _memory() -> str:
    """The most memory of this process so far."""
    try:
        import resource
    except ImportError:  # Windows has none
        return "memory unknown"
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return f"{most * (1 if sys.platform == 'darwin' else 1024) // MEGABYTE:,} MB memory"


def _told(
    ledger: Ledger, prices: Any, asked: Asked, causes: list[Cause], failed: list[str]
) -> Told:
    most = None if asked.as_json else MOST_ROWS
    return Told(
        total(ledger),
        groups(ledger, asked.by, most),
        elsewhere(ledger, prices, _others(ledger, asked)),
        left_out(ledger),
        unpriced(ledger),
        undated(ledger),
        causes,
        [] if asked.bill is None else compared(ledger, prices, asked.bill),
        failed,
    )


def _others(ledger: Ledger, asked: Asked) -> list[Other]:
    """Other ways to buy the same tokens: the models that are named, on the page more."""
    named = [Other(it, it) for it in asked.models]
    if asked.html is None:
        return named
    used = [it.names[0] for it in groups(ledger, ("model",), MOST_USED) if it.names[0]]
    return [
        *named,
        Other("the batch price", tier="batch"),
        Other("the tier flex", tier="flex"),
        Other("the tier priority", tier="priority"),
        Other("caches of an hour", keeps_hour=True),
        *(Other(it, it) for it in used if it not in asked.models and len(used) > 1),
    ]


def _write(ledger: Ledger, asked: Asked, told: Told) -> None:
    if asked.parquet is not None:
        ledger.write_parquet(
            CALLS,
            asked.parquet,
        )
    if asked.html is not None:
        _write_page(ledger, asked.html, told)
    if asked.as_json:
        print_line(json.dumps(_as_json(asked, told)))
        return
    screen = console()
    if told.total.calls:
        print_table(screen, _table(asked.by, told))
    for line in _lines(asked, told):
        paragraph(screen, line)


def _write_page(ledger: Ledger, path: Path, told: Told) -> None:
    """Write the page, which is there whole or not at all. Raises SpendError."""
    notes = list(_lacks(told))
    content = page(ledger, told.total, told.causes, told.elsewhere, notes, told.bill)
    part = path.with_name(f"{path.name}.tmp")
    try:
        part.write_text(content, "utf-8")
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise SpendError(f"{path} cannot be written: {error.strerror or error}") from None


def _as_json(asked: Asked, told: Told) -> dict[str, Any]:
    return {
        "total": told.total.as_json(),
        "by": [it.as_json(asked.by) for it in told.groups],
        "elsewhere": [it.as_json() for it in told.elsewhere],
        "left_out": told.left_out,
        "unpriced": [
            {"reason": reason, "model": model, "calls": count}
            for reason, model, count in told.unpriced
        ],
        "undated_calls": told.undated,
        "bill": [it.as_json() for it in told.bill],
        "paid_again": [it.as_json() for it in told.causes],
        "failed_files": told.failed,
    }


def _table(by: tuple[str, ...], told: Told) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for title in by or ("all",):
        table.add_column(title, overflow="fold")
    for title in ("calls", "input", "read", "written", "output", "dollars"):
        table.add_column(title, justify="right", no_wrap=True)
    for group in told.groups:
        names = [text(it or "unknown") for it in group.names] or [text("all")]
        sums = group.sums
        money = money_of(group.nano) if group.calls > group.unpriced_calls else "no price"
        numbers = (group.calls, sums["input_tokens"], sums["read_tokens"], sums["written_tokens"])
        cells = [f"{it:,}" for it in (*numbers, sums["output_tokens"])]
        table.add_row(*names, *cells, money)
    return table


def money_of(nano: int) -> str:
    """Nano-dollars for a reader: cents, and more digits for what is less than a dollar."""
    digits = 2 if nano >= 10**9 or not nano else 6
    return f"{dollars(nano):,.{digits}f}"


def _lines(asked: Asked, told: Told) -> Iterator[str]:
    sums, whole = told.total.sums, told.total
    yield f"total: {money_of(whole.nano)} dollars for {count_of(whole.calls, 'call')}"
    yield (
        f"of these: {money_of(sums['nano_new'])} new input, {money_of(sums['nano_read'])} read "
        f"from a cache, {money_of(sums['nano_written'])} written to one, "
        f"{money_of(sums['nano_output'])} output, {money_of(sums['nano_tools'])} searches and fees"
    )
    if told.causes:
        nano = sum(it.nano for it in told.causes)
        tokens = sum(it.tokens for it in told.causes)
        yield f"paid again: {money_of(nano)} dollars for {tokens:,} tokens that were sent before"
    for cause in told.causes:
        yield f"paid again: {cause.tokens:,} tokens in {cause.calls:,}: {CAUSES[cause.name]}"
    if len(told.groups) == MOST_ROWS and not asked.as_json:
        yield f"the {MOST_ROWS} dearest are shown; --json has all"
    for it in told.elsewhere:
        if not it.nano and it.unpriced_calls:
            lacking = count_of(it.unpriced_calls, "call")
            yield f"the same tokens with {it.name}: no price is known there for {lacking}"
            continue
        here = f"instead of {money_of(it.here_nano)}"
        lacking = f"; {count_of(it.unpriced_calls, 'call')} without a price there"
        yield (
            f"the same tokens with {it.name}: {money_of(it.nano)} dollars {here}"
            f"{lacking if it.unpriced_calls else ''}"
        )
    yield from _bill_lines(told.bill)
    yield from _lacks(told)
    if told.failed:
        yield f"not read, or not to the end: {count_of(len(told.failed), 'path')}"


def _bill_lines(bill: list[Line]) -> Iterator[str]:
    if not bill:
        return
    billed, ours = sum(it.billed_nano for it in bill), sum(it.ours_nano for it in bill)
    yield f"billed: {money_of(billed)} dollars, here {money_of(ours)}"
    for it in bill[:MOST_REASONS]:
        if it.why:
            about = " ".join(filter(None, (it.day, it.model))) or "all"
            yield (
                f"billed: {about}: {money_of(it.billed_nano)}, here {money_of(it.ours_nano)}: "
                f"{it.why}"
            )


def _lacks(told: Told) -> Iterator[str]:
    """The calls and rows that are in no sum, or only in part."""
    if told.total.open_calls:
        most = told.total.sums["most_output_tokens"]
        yield (
            f"no answer yet: {count_of(told.total.open_calls, 'request')}, whose input is "
            f"estimated; they ask for {most:,} tokens of output at most, not in the sum"
        )
    for reason, model, count in told.unpriced[:MOST_REASONS]:
        yield f"no price: {count:,} x {reason}{f': {model}' if model else ''}"
    if rest := sum(count for *_, count in told.unpriced[MOST_REASONS:]):
        yield f"no price: {rest:,} x other models and uses; --json has all"
    for reason, count in told.left_out.items():
        yield f"left out: {count:,} x {reason}"
    if told.undated:
        yield f"no time: {count_of(told.undated, 'call')}, at the prices of today"
