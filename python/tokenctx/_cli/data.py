"""The command `data`: the tables of facts in use, their days, and newer ones in their place."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from tokenctx._cli.eval_tables import Grid
from tokenctx._cli.screen import (
    complain,
    console,
    count_of,
    paragraph,
    print_line,
    print_table,
    remark,
)
from tokenctx._estimate.data import (
    BUNDLE,
    MAX_BYTES,
    checked_bundle,
    data_folder,
    data_tables,
    differences,
    installed_bundle,
    read_bundle,
    use_tables,
)
from tokenctx._results.tables import NEWER, read_table
from tokenctx.context.configuration import configure

if TYPE_CHECKING:
    from collections.abc import Iterable
    from urllib.response import addinfourl

    from rich.console import Console

    from tokenctx._estimate.data import TableInfo

Schema = Literal["prices", "budgets", "settings"]
Changes = dict[str, dict[str, tuple[Any, Any]]]
MOST_LINES: Final = 40
FETCH_SECONDS: Final = 30
LOCAL: Final = ("http://127.0.0.1", "http://[::1]", "http://localhost")


def data_command(
    bundle: Annotated[
        Path | None, typer.Argument(help="A bundle to compare. (default: what is in use)")
    ] = None,
    *,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE|URL", help="Check this bundle, and install it."),
    ] = None,
    sha256: Annotated[
        str | None, typer.Option(metavar="HEX", help="The digest that its file must have.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the installed bundle.")] = False,
    whole: Annotated[bool, typer.Option("--all", help="Every row that differs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    schema: Annotated[
        Schema | None, typer.Option(help="The JSON schema of a file of these.")
    ] = None,
) -> None:
    """Show the tables of facts with their days, or what a newer bundle would change; install it."""
    if schema:
        for line in json.dumps(read_table(f"{schema}.schema"), indent=1).splitlines():
            print_line(line)
        return
    if sum((bundle is not None, source is not None, remove)) > 1:
        raise typer.BadParameter("compare a bundle, install one, or remove it: one of them")
    if sha256 and source is None:
        raise typer.BadParameter("it is of the bundle that --from names", param_hint="--sha256")
    said = str(source or bundle or BUNDLE)
    try:
        if remove:
            (data_folder() / BUNDLE).unlink(missing_ok=True)
        _use_installed(is_replaced=source is not None, is_compared=bundle is not None)
        changes: Changes = {}
        if source is not None:
            content = _content(source)
            _check_digest(content, sha256)
            changes = _taken_over(checked_bundle(content, source))
            _install(content)
        elif bundle is not None:
            changes = _taken_over(read_bundle(bundle))
        tables = data_tables()
    except (EOFError, ModuleNotFoundError, OSError) as error:
        complain(said, error)
        raise typer.Exit(1) from None
    except ValueError as error:
        remark(str(error) if said in str(error) else f"{said}: {error}")
        raise typer.Exit(1) from None
    if as_json:
        print_line(json.dumps({"tables": [_row(it) for it in tables], "changes": changes}))
        return
    screen = console()
    _print_tables(screen, tables)
    _print_changes(screen, changes, None if whole else MOST_LINES)
    if source is not None:
        paragraph(screen, f"installed: {data_folder() / BUNDLE}", after="    ")
        paragraph(screen, "The commands use it from now on; a program calls tokenctx.configure().")


def _row(table: TableInfo) -> dict[str, Any]:
    return {
        "table": table.name,
        "day": table.day,
        "rows": table.row_count,
        "is_stale": table.is_stale,
        "is_newer": table.is_newer,
        "source": table.source,
    }


def _print_tables(screen: Console, tables: Iterable[TableInfo]) -> None:
    cells: list[tuple[str, ...]] = [
        (it.name, it.day, f"{it.row_count:,}", "stale" if it.is_stale else f"{it.age_days} days")
        for it in tables
    ]
    grid = Grid("tables of facts", ("table", "made", "rows", "age"), 1, cells)
    print_table(screen, grid.as_table())
    for it in tables:
        if it.source:
            paragraph(screen, f"{it.name}: made from {it.source}", after="    ")


def _print_changes(screen: Console, changes: Changes, most: int | None) -> None:
    for name, rows in changes.items():
        paragraph(screen, f"{name}: {count_of(len(rows), 'row')} different")
        for row, (old, new) in list(rows.items())[:most]:
            paragraph(screen, f"  {row}: {_short(old)} -> {_short(new)}", after="    ")


def _use_installed(*, is_replaced: bool, is_compared: bool) -> None:
    """Use what the other commands do, or compare with it; what is replaced may be damaged."""
    try:
        if not is_replaced and not is_compared:
            configure()
        elif (path := installed_bundle()) is not None:
            NEWER.update(read_bundle(path)["tables"])
    except (OSError, TypeError, ValueError) as error:
        if not is_replaced:
            raise ValueError(f"{error}; tokenctx data --remove removes the bundle") from None
        remark(f"the bundle that was installed cannot be used: {error}")


def _taken_over(bundle: dict[str, Any]) -> Changes:
    """What the bundle changes; that this release can read it is checked by using it."""
    changes = differences(bundle["tables"])
    use_tables(bundle["tables"])
    return changes


def _content(source: str) -> bytes:
    """The content of the file or the address that the user has named."""
    if "://" not in source:
        with Path(source).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    from urllib.request import Request, urlopen  # asked for by name only

    _check_address(source)
    request = Request(source, headers={"User-Agent": "tokenctx"})  # noqa: S310  # checked above
    answer: addinfourl
    with urlopen(request, timeout=FETCH_SECONDS) as answer:  # noqa: S310
        _check_address(answer.geturl())  # where a redirect has led
        content: bytes = answer.read(MAX_BYTES + 1)
    return content


def _check_address(address: str) -> None:
    if not address.startswith(("https://", *(f"{it}{end}" for it in LOCAL for end in ":/"))):
        raise ValueError(f"{address} is not https; what it gives could be changed on the way")


def _check_digest(content: bytes, wanted: str | None) -> None:
    found = hashlib.sha256(content).hexdigest()
    if wanted is not None and found != wanted.lower():
        raise ValueError(f"its SHA-256 is {found}, and not the one of --sha256; nothing is changed")


def _install(content: bytes) -> None:
    """Put the bundle where the commands look; whoever reads it meanwhile has the old one whole."""
    folder = data_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).chmod(0o644)
            Path(file.name).replace(folder / BUNDLE)
        except BaseException:
            with suppress(OSError):
                Path(file.name).unlink()
            raise


def _short(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)
