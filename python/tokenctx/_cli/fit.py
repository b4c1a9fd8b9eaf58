"""The commands `recordings` and `fit`: logs as recorded calls, and profiles made of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path  # typer reads annotations at run time
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from tokenctx._cli import files
from tokenctx._cli.eval_tables import Grid
from tokenctx._cli.evaluation.logs import LogReader
from tokenctx._cli.evaluation.own_profile import read_logs
from tokenctx._cli.evaluation.recordings import RecordingError, transcripts_at
from tokenctx._cli.evaluation.transcripts.marks import LACKS
from tokenctx._cli.evaluation.transcripts.thread import Reading
from tokenctx._cli.screen import (
    complain,
    console,
    paragraph,
    print_line,
    print_table,
    progress,
    remark,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from tokenctx._cli.evaluation.own_profile import Finding, Logged

UNREADABLE = (RecordingError, files.FileError, *files.UNREADABLE)
Logs = Annotated[
    list[Path],
    typer.Argument(help="Logs of litellm, langfuse, OpenTelemetry, providers; .gz too."),
]


def recordings_command(
    logs: Annotated[
        list[Path],
        typer.Argument(help="Logs as `fit` takes them; or transcripts of agents, folders too."),
    ],
    *,
    output: Annotated[
        Path | None, typer.Option(help="The file to write. (default: standard output)")
    ] = None,
) -> None:
    """Write logs as recorded calls, which `eval`, `replay` and `fit` read; transcripts as steps."""
    is_read = False
    try:
        if output is None:
            is_read = _write(logs, sys.stdout)
        else:
            with output.open("w", encoding="utf-8") as file:
                is_read = _write(logs, file)
    except BrokenPipeError:
        raise
    except UNREADABLE as error:
        complain("recordings", error)
    if not is_read:
        complain(", ".join(path.name for path in logs), RecordingError("no billed call is in it"))
        raise typer.Exit(1)


def _write(paths: list[Path], file: TextIO) -> bool:
    """True if anything was written: steps of transcripts, or calls of logs."""
    count = 0
    seen: set[int] = set()
    reading = Reading()
    lines_of = {path: transcripts_at(path, reading) for path in paths}
    is_mixed = len({it is None for it in lines_of.values()}) > 1
    if is_mixed:
        names = ", ".join(path.name for path, it in lines_of.items() if it is None)
        raise RecordingError(
            f"{names} is no transcript, and others are: steps and calls are two forms; "
            "write them by two commands"
        )
    for path, lines in lines_of.items():
        log = LogReader(path, seen) if lines is None else None
        for call in log if log is not None else lines or ():
            file.write(json.dumps(call) + "\n")
            count += 1
        if log is not None:
            _say_skipped(log.skipped)
    _say_skipped(reading.skipped)
    if None not in lines_of.values():
        remark(f"a transcript of an agent: {LACKS}")
    return count > 0


def _say_skipped(skipped: Counter[str]) -> None:
    for reason, count in (+skipped).most_common():
        remark(f"{count:,} left out: {reason}")


def fit_command(
    logs: Logs,
    *,
    profiles: Annotated[
        Path | None, typer.Option(help="Write the profiles that help, for `profiles=`.")
    ] = None,
    learned: Annotated[
        Path | None, typer.Option(help="Write what the calls teach, for `learn`.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what your own logs would change in the profiles, and whether it helps.

    Each half of the conversations is scored with what the other half tells. Constants are fitted
    where a profile's are fitted; what is learned covers the others too.
    """
    try:
        with progress("calls", None) as advance:
            logged = read_logs(logs, advance)
        findings = logged.findings()
        rows = [it.row() for it in findings if it.is_better]
        if profiles is not None and rows:
            profiles.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")
        if learned is not None:
            learned.write_text(json.dumps(logged.learned(rows)) + "\n", "utf-8")
    except BrokenPipeError:
        raise
    except UNREADABLE as error:
        complain("fit", error)
        raise typer.Exit(1) from None
    _say_skipped(logged.skipped)
    if as_json:
        print_line(json.dumps(_as_json(logged, findings)))
    else:
        _show(findings)
    if not findings:
        raise typer.Exit(1)


def _as_json(logged: Logged, findings: list[Finding]) -> dict[str, Any]:
    return {
        "skipped": dict(logged.skipped),
        "profiles": [
            {
                "profile": it.profile,
                "now": it.now.as_json(),
                "own": it.own.as_json(),
                "changes": it.changes,
                "is_better": it.is_better,
            }
            for it in findings
        ],
    }


def _show(findings: list[Finding]) -> None:
    titles = ("profile", "calls", "now: exact", "2 %", "5 %", "own: exact", "2 %", "5 %", "kept")
    grid = Grid("calls that the fit has not seen", titles, 1, list(map(_cells, findings)))
    screen = console()
    print_table(screen, grid.as_table())
    for line in _changes(findings):
        paragraph(screen, line)


def _cells(it: Finding) -> tuple[str, ...]:
    own = _shares(it.own) if it.changes else ("", "", "")
    kept = "yes" if it.is_better else "no" if it.changes else ""
    return (it.profile, f"{len(it.now):,}", *_shares(it.now), *own, kept)


def _shares(scores: Any) -> tuple[str, ...]:
    figures = scores.as_json()
    return tuple(f"{figures[name] or 0:.0f}" for name in ("exact", "within_2", "within_5"))


def _changes(findings: list[Finding]) -> Iterator[str]:
    for it in findings:
        if it.is_better:
            changed = (f"{name} {old} -> {new}" for name, (old, new) in it.changes.items())
            yield f"{it.profile}: {', '.join(changed)}"
