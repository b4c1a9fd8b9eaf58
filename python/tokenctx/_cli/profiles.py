"""`tokenctx profiles`: what a model is counted with, and where each number is from."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003  # typer reads annotations at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as Grid

from tokenctx._cli.help_texts import PROVIDER
from tokenctx._cli.screen import complain, console, paragraph, print_line, print_table, text
from tokenctx._core import profile_of_model
from tokenctx._estimate.profiles import profile_rows, profile_table
from tokenctx._results.estimates import Dialect  # noqa: TC001

if TYPE_CHECKING:
    from collections.abc import Iterator


Row = dict[str, Any]


def profiles_command(
    name: Annotated[
        str | None, typer.Argument(help="A profile or a model. (default: list all profiles)")
    ] = None,
    *,
    dialect: Annotated[
        Dialect, typer.Option(metavar="NAME", help="Request format, for models that are not known.")
    ] = "openai-chat",
    provider: Annotated[str | None, typer.Option(help=PROVIDER)] = None,
    file: Annotated[
        Path | None, typer.Option("--profiles", help="A file with profiles of your own.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show what a model is counted with, or every profile there is."""
    try:
        rows = None if file is None else profile_rows(file)
    except (OSError, TypeError, ValueError) as error:
        complain(str(file), error)
        raise typer.Exit(1) from None
    table = profile_table(rows)
    if name is None:
        _show_all(table, as_json=as_json)
    elif name in table:
        _show(table[name], f"profile {name}", as_json=as_json)
    else:
        profile, is_known = profile_of_model(name, dialect, provider, rows)
        how = "known by its name" if is_known else "not known: the nearest family"
        _show(table[profile], f"{name} is counted with {profile} ({how})", as_json=as_json)


def _show_all(table: dict[str, Row], *, as_json: bool) -> None:
    if as_json:
        print_line(json.dumps(table))
        return
    grid = Grid("profile", "only at", "encoding", "confidence", "date", "models")
    for name, row in table.items():
        models, at = ", ".join(row["models"]), ", ".join(row["providers"])
        cells = (name, at, row["encoding"], row["confidence"], row["date"], models)
        grid.add_row(*map(text, cells))
    print_table(console(), grid)


def _show(row: Row, title: str, *, as_json: bool) -> None:
    if as_json:
        print_line(json.dumps(row))
        return
    screen = console()
    paragraph(screen, title)
    grid = Grid("field", "value")
    for key, value in _flat(row):
        grid.add_row(text(key), text(value))
    print_table(screen, grid)


def _flat(values: dict[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Field and value of each that says something: all constants but zeros and empty ones."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        elif isinstance(value, (list, tuple)):
            yield before + key, ", ".join(value) or "-"
        elif value not in (None, "", 0):
            yield before + key, str(value)
