"""`tokenctx profiles`: what a model is counted with, and where each number is from."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path  # noqa: TC003  # typer reads annotations at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as Grid
from rich.text import Text

from tokenctx._cli.tables import console
from tokenctx._estimate.profiles import read_profiles
from tokenctx._models import Dialect  # noqa: TC001
from tokenctx.reference.profile import Profile, Table

if TYPE_CHECKING:
    from collections.abc import Iterator


def profiles_command(
    name: Annotated[
        str | None, typer.Argument(help="A profile or a model. [default: list all profiles]")
    ] = None,
    *,
    dialect: Annotated[
        Dialect, typer.Option(help="Request format, for models that are not known.")
    ] = "openai-chat",
    provider: Annotated[str | None, typer.Option(help="Who answers, as vertex.")] = None,
    file: Annotated[
        Path | None, typer.Option("--profiles", help="A file with profiles of your own.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show what a model is counted with, or every profile there is."""
    try:
        table = Table([] if file is None else read_profiles(file))
    except (OSError, TypeError, ValueError) as error:
        typer.echo(f"tokenctx: {file}: {error}", err=True)
        raise typer.Exit(1) from None
    if name is None:
        _show_all(table, as_json=as_json)
    elif name in table.profiles:
        _show(table, table.profiles[name], f"profile {name}", as_json=as_json)
    else:
        profile, is_known = table.resolve(name, dialect, provider)
        how = "known by its name" if is_known else "not known: the nearest family"
        _show(table, profile, f"{name} is counted with {profile.name} ({how})", as_json=as_json)


def _show_all(table: Table, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({name: _fields(table, it) for name, it in table.profiles.items()}))
        return
    grid = Grid("profile", "only at", "encoding", "confidence", "date", "models")
    for name, profile in table.profiles.items():
        source = table.sources[name]
        models = ", ".join(table.models[name])
        at = ", ".join(profile.providers)
        cells = (name, at, profile.encoding, source["confidence"], source["date"], models)
        grid.add_row(*map(Text, cells))
    console().print(grid)


def _show(table: Table, profile: Profile, title: str, *, as_json: bool) -> None:
    values = _fields(table, profile)
    if as_json:
        typer.echo(json.dumps(values))
        return
    screen = console()
    screen.print(Text(title), soft_wrap=True)
    grid = Grid("field", "value")
    for key, value in _flat(values):
        grid.add_row(Text(key), Text(value))
    screen.print(grid)


def _fields(table: Table, profile: Profile) -> dict[str, Any]:
    own = {"models": table.models[profile.name], **asdict(profile)}
    return {**own, **table.sources[profile.name]}


def _flat(values: dict[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Field and value of each that says something: all constants but zeros and empty ones."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        elif isinstance(value, (list, tuple)):
            yield before + key, ", ".join(value) or "-"
        elif value not in (None, "", 0):
            yield before + key, str(value)
