"""Profiles, limits, bounds and prices without a release: one dated, checked bundle.

A bundle is one JSON object: `format`, `made` (its day), `tables` (as in `data/` of the package, by
name), and `sha256`, which is of the tables and shows what was cut or changed on the way.
"""

from __future__ import annotations

import datetime as dt
import gzip
import hashlib
import io
import json
import os
import sys
import zlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from tokenctx._core import replace_tables
from tokenctx._results.tables import NEWER, read_table

TABLES: Final = ("profiles", "bounds", "limits", "prices")
"""The tables that a bundle may hold."""
DAYS: Final = {"profiles": "updated", "bounds": "date", "limits": "updated", "prices": "updated"}
ROWS: Final = {"profiles": "profiles", "bounds": "whole", "limits": "models", "prices": "models"}
FORMAT: Final = 1
STALE_DAYS: Final = 90
MAX_BYTES: Final = 32 << 20
BUNDLE: Final = "tokenctx-data.json"
"""The name of the file in a package of its own, and of an installed one."""
_GZIP: Final = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class TableInfo:
    """One table that is in use.

    Attributes:
        day: When it was made, as 2026-11-23.
        row_count: Its profiles or models.
        is_newer: Whether it is of a bundle, or has limits of yours, and is not of the release.
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


def use_tables(tables: dict[str, Any]) -> None:
    """Take over these tables, all of them or none, before the first estimator is made.

    Raises ValueError for a table that this release cannot read, and when it comes too late.
    """
    core = {name: json.dumps(tables[name]) for name in tables if name != "prices"}
    if "prices" in tables:
        from tokenctx.money.prices import check_table

        check_table(tables["prices"])
    replace_tables(core)
    NEWER.update(tables)


def data_tables() -> tuple[TableInfo, ...]:
    """The tables that are in use, with their days."""
    return tuple(_info(name, read_table(name), is_newer=name in NEWER) for name in TABLES)


def _info(name: str, table: Any, *, is_newer: bool) -> TableInfo:
    sources = [f"{package} {of}".strip() for package, of in table.get("sources", {}).items()]
    return TableInfo(
        name, str(table[DAYS[name]]), len(table[ROWS[name]]), is_newer, ", ".join(sources)
    )


def read_bundle(source: str | os.PathLike[str]) -> dict[str, Any]:
    """A bundle, checked; `source` is its path, `.gz` too, or a package that has one.

    Raises OSError or ModuleNotFoundError if it cannot be read, ValueError for what is no bundle or
    is damaged.
    """
    return checked_bundle(_content(source), str(source))


def checked_bundle(content: bytes, source: str) -> dict[str, Any]:
    """The bundle that `content` holds, of `source`. Raises ValueError for what is none."""
    try:
        bundle = json.loads(_unpacked(content))
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
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _unpacked(content: bytes) -> bytes:
    if content.startswith(_GZIP):
        with gzip.open(io.BytesIO(content)) as file:
            try:
                content = file.read(MAX_BYTES + 1)
            except (OSError, EOFError, zlib.error) as error:
                raise ValueError(f"it is packed, and damaged: {error}") from None
    if len(content) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
    return content


def data_folder() -> Path:
    """Where `tokenctx data --from` installs a bundle: the user's folder, or `TOKENCTX_DATA`."""
    home = Path.home()
    if folder := os.environ.get("TOKENCTX_DATA"):
        return Path(folder)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData/Local") / "tokenctx"
    if sys.platform == "darwin":
        return home / "Library/Application Support/tokenctx"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share") / "tokenctx"


def installed_bundle() -> Path | None:
    """The bundle that was installed; None if there is none."""
    try:
        path = data_folder() / BUNDLE
        return path if path.is_file() else None
    except (OSError, RuntimeError):  # a home that cannot be had, or looked into
        return None


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
