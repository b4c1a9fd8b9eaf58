"""Profiles, limits, bounds and prices without a release: one dated, checked bundle.

A bundle is one JSON object: `format`, `made` (its day), `tables` (as in `data/` of the package, by
name), and `sha256`, which is of the tables and shows what was cut or changed on the way.
"""

from __future__ import annotations

import datetime as dt
import gzip
import hashlib
import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenctx._core import replace_tables
from tokenctx._results.tables import NEWER, read_table

if TYPE_CHECKING:
    import os

TABLES: Final = ("profiles", "bounds", "limits", "prices")
"""The tables that a bundle may hold."""
DAYS: Final = {"profiles": "updated", "bounds": "date", "limits": "updated", "prices": "updated"}
ROWS: Final = {"profiles": "profiles", "bounds": "whole", "limits": "models", "prices": "models"}
FORMAT: Final = 1
STALE_DAYS: Final = 90
MAX_BYTES: Final = 32 << 20
BUNDLE: Final = "tokenctx-data.json"
"""The name of the file in a package of its own."""


@dataclass(frozen=True, slots=True)
class TableInfo:
    """One table that is in use.

    Attributes:
        day: When it was made, as 2026-11-23.
        row_count: Its profiles or models.
        is_newer: Whether it is of a bundle, and not of the release.
        source: The packages that it was made from, with their versions; empty for what is ours.
    """

    name: str
    day: str
    row_count: int
    is_newer: bool
    source: str = ""

    @property
    def age_days(self) -> int:
        """Days since it was made."""
        return (dt.datetime.now(dt.timezone.utc).date() - dt.date.fromisoformat(self.day)).days

    @property
    def is_stale(self) -> bool:
        """True if that is more than 90 days ago."""
        return self.age_days > STALE_DAYS


def load_data(source: str | os.PathLike[str]) -> tuple[TableInfo, ...]:
    """Use the tables of a bundle in place of those of the release, in this process.

    `source` is the path of a bundle (`.gz` too), or the name of an installed package that has one
    as `tokenctx-data.json`. Call it once at the start, before the first estimator is made: tables
    that are in use stay. Nothing is fetched. Gives what is in use then.

    Raises OSError or ModuleNotFoundError if it cannot be read, ValueError for what is no bundle,
    is damaged, has a table that this release cannot read, or comes too late: then nothing changes.
    """
    bundle = read_bundle(source)
    tables: dict[str, Any] = bundle["tables"]
    core = {name: json.dumps(tables[name]) for name in tables if name != "prices"}
    if "prices" in tables:
        from tokenctx.money.prices import check_table

        check_table(tables["prices"])
    replace_tables(core)
    NEWER.update(tables)
    return data_tables()


def data_tables() -> tuple[TableInfo, ...]:
    """The tables that are in use, with their days."""
    return tuple(_info(name, read_table(name), is_newer=name in NEWER) for name in TABLES)


def _info(name: str, table: Any, *, is_newer: bool) -> TableInfo:
    sources = [f"{package} {of}" for package, of in table.get("sources", {}).items()]
    return TableInfo(
        name, str(table[DAYS[name]]), len(table[ROWS[name]]), is_newer, ", ".join(sources)
    )


def read_bundle(source: str | os.PathLike[str]) -> dict[str, Any]:
    """A bundle, checked. Raises as `load_data`."""
    try:
        bundle = json.loads(_content(source))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source} is no bundle: {error}") from None
    if not isinstance(bundle, dict) or not isinstance(bundle.get("tables"), dict):
        raise ValueError(f"{source} is no bundle: it has no tables")  # noqa: TRY004  # as for JSON
    if bundle.get("format") != FORMAT:
        raise ValueError(
            f"{source} has format {bundle.get('format')!r}; this release reads {FORMAT}: "
            "use a bundle that was made for it"
        )
    tables = bundle["tables"]
    if unknown := sorted(tables.keys() - set(TABLES)):
        raise ValueError(f"{source} has {unknown[0]!r}; a bundle has {', '.join(TABLES)}")
    if bundle.get("sha256") != digest(tables):
        raise ValueError(f"{source} is damaged: its tables are not those that its sha256 is of")
    try:
        for name, table in tables.items():
            _info(name, table, is_newer=True)
            dt.date.fromisoformat(table[DAYS[name]])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError(f"{source}: {name} has no day or no rows") from None
    return bundle


def _content(source: str | os.PathLike[str]) -> bytes:
    path = Path(source)
    is_name = isinstance(source, str) and all(word.isidentifier() for word in source.split("."))
    if is_name and not path.is_file():
        return resources.files(str(source)).joinpath(BUNDLE).read_bytes()
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
    return content


def bundle_of(tables: dict[str, Any]) -> dict[str, Any]:
    """A bundle with these tables, made today."""
    made = dt.datetime.now(dt.timezone.utc).date().isoformat()
    return {"format": FORMAT, "made": made, "sha256": digest(tables), "tables": tables}


def digest(tables: dict[str, Any]) -> str:
    """SHA-256 of tables, however they are written."""
    canonical = json.dumps(tables, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def differences(newer: dict[str, Any]) -> dict[str, dict[str, tuple[Any, Any]]]:
    """By table and row: what is in use now, and what `newer` tables say; None for no row."""
    return {name: _differing(read_table(name), table, ROWS[name]) for name, table in newer.items()}


def _differing(old: Any, new: Any, rows: str) -> dict[str, tuple[Any, Any]]:
    before, after = _by_name(old[rows]), _by_name(new[rows])
    names = sorted(before.keys() | after.keys())
    pairs = {name: (before.get(name), after.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _by_name(rows: Any) -> dict[str, Any]:
    return {row["name"]: row for row in rows} if isinstance(rows, list) else dict(rows)
