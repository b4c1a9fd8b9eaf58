"""The command `data`: the tables of facts in use, their days, and what a bundle would change."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003  # typer reads annotations at run time
from typing import Annotated, Any

import typer

from tokenctx._cli.eval_tables import Grid
from tokenctx._cli.screen import complain, console, count_of, paragraph, print_line, print_table
from tokenctx._estimate.data import differences, load_data, read_bundle
from tokenctx._results.tables import read_table

UNREADABLE = (OSError, EOFError, ModuleNotFoundError, ValueError)
MOST_LINES = 40


def data_command(
    bundle: Annotated[
        Path | None, typer.Argument(help="A bundle to compare. (default: what is in use)")
    ] = None,
    *,
    whole: Annotated[bool, typer.Option("--all", help="Every row that differs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    schema: Annotated[bool, typer.Option(help="The JSON schema of a file of prices.")] = False,
) -> None:
    """Show the tables of facts with their days, or what a newer bundle would change."""
    if schema:
        for line in json.dumps(read_table("prices.schema"), indent=1).splitlines():
            print_line(line)
        return
    changes: dict[str, dict[str, tuple[Any, Any]]] = {}
    try:
        if bundle is not None:
            changes = differences(read_bundle(bundle)["tables"])
            tables = load_data(bundle)  # which checks that this release can read it
        else:
            from tokenctx._estimate.data import data_tables

            tables = data_tables()
    except UNREADABLE as error:
        complain(str(bundle), error)
        raise typer.Exit(1) from None
    if as_json:
        shown = [
            {
                "table": it.name,
                "day": it.day,
                "rows": it.row_count,
                "is_stale": it.is_stale,
                "is_newer": it.is_newer,
                "source": it.source,
            }
            for it in tables
        ]
        print_line(json.dumps({"tables": shown, "changes": changes}))
        return
    cells: list[tuple[str, ...]] = [
        (it.name, it.day, f"{it.row_count:,}", "stale" if it.is_stale else f"{it.age_days} days")
        for it in tables
    ]
    screen = console()
    grid = Grid("tables of facts", ("table", "made", "rows", "age"), 1, cells)
    print_table(screen, grid.as_table())
    for it in tables:
        if it.source:
            paragraph(screen, f"{it.name}: made from {it.source}", after="    ")
    for name, rows in changes.items():
        paragraph(screen, f"{name}: {count_of(len(rows), 'row')} different")
        for row, (old, new) in list(rows.items())[: None if whole else MOST_LINES]:
            paragraph(screen, f"  {row}: {_short(old)} -> {_short(new)}", after="    ")


def _short(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)
