"""Budgets in a file of the user's, JSON or TOML, as `budgets.schema.json` has it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.tables import read_table
from tokenctx.money.budgets.budget import Budget

if TYPE_CHECKING:
    import os

Json = dict[str, Any]
MAX_BYTES: Final = 16 << 20


def read_budgets(path: str | os.PathLike[str]) -> Json:
    """The arguments of `Budgets` that a file has.

    Raises OSError for one that cannot be read, and ValueError for one that is not right: it names
    the file, the line or the key, what is there, and what there may be.
    """
    schema = read_table("budgets.schema")
    name = Path(path).name
    table = _parsed(Path(path), name)
    _check_keys(table, schema["properties"], name, "the file")
    rows = table.get("budgets")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{name}: `budgets` must be a list of budgets, each with a `name`")
    budgets = []
    for nth, row in enumerate(rows):
        place = f"budgets[{nth}]"
        _check_keys(row, schema["$defs"]["budget"]["properties"], name, place)
        try:
            budgets.append(Budget(**row))
        except TypeError as error:
            why = f"`name` is missing: {error}" if "name" not in row else str(error)
            raise ValueError(f"{name}, {place}: {why}") from None
        except ValueError as error:
            raise ValueError(f"{name}, {place}: {error}") from None
    settings = {key: it for key, it in table.items() if key not in ("$schema", "about")}
    for key, value in settings.items():
        kind = schema["properties"][key].get("type")
        if not _is_of(kind, value):
            raise ValueError(f"{name}: `{key}` is {value!r}; it must be of the type {kind}")
    return {**settings, "budgets": budgets}


def _parsed(path: Path, name: str) -> Json:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"{name} is above {MAX_BYTES >> 20} MiB, the most of a file of budgets")
    try:
        text = data.decode("utf-8-sig")
        table = _toml(text, name) if path.suffix.lower() == ".toml" else json.loads(text)
    except RecursionError:
        raise ValueError(f"{name} is nested too deep; budgets have three levels") from None
    except ValueError as error:
        kind = "TOML" if path.suffix.lower() == ".toml" else "JSON (a file of TOML ends in .toml)"
        raise ValueError(f"{name} is no {kind}: {error}") from None
    if not isinstance(table, dict):
        kind = type(table).__name__
        raise ValueError(  # noqa: TRY004  # of a file, as all that is wrong with one
            f'{name} is a {kind}; it must be {{"budgets": [...]}}'
        )
    return table


def _toml(text: str, name: str) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib.loads(text)
    raise ValueError(f"TOML needs Python 3.11; {name} may be JSON")


def _check_keys(row: Json, known: Json, name: str, place: str) -> None:
    for key in row:
        if key not in known:
            raise ValueError(
                f"{name}: {place} has the key {key!r}, which is none of {', '.join(known)}"
            )


def _is_of(kind: str | None, value: object) -> bool:
    kinds: dict[str, tuple[type, ...]] = {
        "number": (int, float),
        "boolean": (bool,),
        "array": (list,),
        "string": (str,),
    }
    if kind == "number" and isinstance(value, bool):
        return False
    return isinstance(value, kinds.get(kind or "", (object,)))
