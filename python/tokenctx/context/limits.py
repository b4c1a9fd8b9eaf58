"""Limits of models: how long a context, an input and an output may be."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from tokenctx._core import limits_of_model, model_name
from tokenctx._estimate.arguments import require_names
from tokenctx._results.estimates import ModelLimits
from tokenctx._results.tables import DASHES, read_table
from tokenctx.money.cost import STALE_DAYS

Overrides = Mapping[str, Any] | str | os.PathLike[str]

_CALLER: Final = "caller"
"""The source of limits that are the caller's own; the table names a source by its first letter."""
UNKNOWN_LIMITS: Final = ModelLimits(source="unknown")


def model_limits(model: str, overrides: Overrides | None = None) -> ModelLimits:
    """The limits of `model`, by its own name; all None if it is unknown.

    Names are read as clouds and gateways write them. `overrides` are yours: beginnings of names and
    what is true of them, a number (the window) or a mapping with fields of `ModelLimits`; or the
    path of a JSON file with one. `{"updated": "2026-11-23", "models": {...}}` has a day: `source`
    tells it, and after 90 days that it is stale. Of names that begin alike the longest counts. Then
    come the table of the package, a name in it that `model` continues (`gpt-4o-2024-11-20`), and
    the model's profile, as in `Estimate.limits`. Raises OSError if the file cannot be read,
    TypeError or ValueError for what is wrong in it.
    """
    require_names(model=model)
    own = None if overrides is None else own_limits(model, read_overrides(overrides))
    return own or limits_of_model(model)


def own_limits(model: str, rows: Mapping[str, Any]) -> ModelLimits | None:
    """The limits that `overrides`, once read, have for `model`; None if they have none."""
    own = plain_name(model)
    keys = [key for key in rows if own.startswith(plain_name(key)) or model.startswith(key)]
    return _override(rows[max(keys, key=len)]) if keys else None


def limits_table(table: Mapping[str, Any], rows: Mapping[str, Any]) -> dict[str, Any]:
    """The table with `overrides`, once read, in place of all rows that begin as they do."""
    own = {plain_name(name): _override(it) for name, it in rows.items()}
    models = {name: row for name, row in table["models"].items() if not name.startswith((*own,))}
    for name, it in own.items():
        models[name] = [it.window_tokens, it.max_input_tokens, it.max_output_tokens, _CALLER[0]]
    dated = {it.source for it in own.values() if it.source.startswith(_CALLER)}
    sources = {**table["sources"], min(dated, default=_CALLER): ""}
    return {**table, "sources": sources, "models": models}


def plain_name(model: str) -> str:
    """The model's own name in lower case with `-` for `.` and `_`: no host, region, vendor, tag."""
    return model_name(model).translate(DASHES)


def limits_date() -> str:
    """The day on which the table of limits was made, as 2026-11-21."""
    return str(read_table("limits")["updated"])


def read_overrides(overrides: Overrides) -> Mapping[str, Any]:
    """The rows of `overrides`, of a file too, with their day in the source; raises as above."""
    rows: Any = overrides
    if not isinstance(overrides, Mapping):
        path = Path(overrides)
        try:
            rows = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise ValueError(f"{path.name} is no JSON file: {error}") from None
        if not isinstance(rows, dict):
            raise TypeError(f"{path.name} holds a {type(rows).__name__}; it must be an object")
    if set(rows) != {"updated", "models"}:
        return cast("Mapping[str, Any]", rows)
    source = _dated(rows["updated"])
    models = rows["models"]
    if not isinstance(models, Mapping):
        raise TypeError(f"models holds a {type(models).__name__}; it must be an object")
    return {name: replace(_override(row), source=source) for name, row in models.items()}


def _dated(updated: Any) -> str:
    """The caller's source with its day, and whether that is long ago."""
    try:
        day = dt.date.fromisoformat(updated)
    except (TypeError, ValueError):
        raise ValueError(
            f"updated is {updated!r}; write the day that the limits are of, as 2026-11-23"
        ) from None
    age = dt.datetime.now(dt.timezone.utc).date() - day
    return f"caller, {day}{', stale' if age.days > STALE_DAYS else ''}"


def _override(value: Any) -> ModelLimits:
    if isinstance(value, ModelLimits):
        return value
    if isinstance(value, Mapping):
        allowed = ("window_tokens", "max_input_tokens", "max_output_tokens")
        unknown = sorted(set(value) - set(allowed))
        if unknown:
            raise ValueError(f"limits have {unknown[0]!r}; the fields are {', '.join(allowed)}")
        return ModelLimits(**value)
    return ModelLimits(value)
