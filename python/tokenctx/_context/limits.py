"""Limits of models: how long a context, an input and an output may be."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tokenctx._core import model_name, profile_of_model
from tokenctx._estimate.profiles import bundled_profiles
from tokenctx._tables import read_table

MAX_NAME_CHARACTERS: Final = 500
"""A longer name is no model's."""

DASHES: Final = str.maketrans("._", "--")
"""Hosts write `claude-sonnet-4.5` for `claude-sonnet-4-5`."""

Overrides = Mapping[str, Any] | str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What a model takes and gives, in tokens. None is unknown, and so is a window of 0.

    Attributes:
        window_tokens: Input and output together.
        max_input_tokens: The most input, where it is less than the window.
        max_output_tokens: The most output.
        source: Where the numbers are from: `caller`, `error` (the provider has refused more), a
            profile of the package, or the packages that the table was made from.
    """

    window_tokens: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    source: str = "caller"

    def __post_init__(self) -> None:
        for name in ("window_tokens", "max_input_tokens", "max_output_tokens"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise TypeError(f"{name} is {value!r}; it must be a number of tokens or None")
            if value is not None and value < 0:
                raise ValueError(f"{name} is {value}; it must be 0 or more, or None for unknown")


UNKNOWN_LIMITS: Final = ModelLimits(source="unknown")


def model_limits(model: str, overrides: Overrides | None = None) -> ModelLimits:
    """The limits of `model`, by its own name; all None if nobody knows it.

    Names are read as clouds and gateways write them. `overrides` are yours: beginnings of names and
    what is true of them, a number (the window) or a mapping with fields of `ModelLimits`; or the
    path of a JSON file with one. Of names that begin alike the longest counts. Then come the table
    of the package, a name in it that `model` continues (`gpt-4o-2024-11-20`), and the model's
    profile. Raises OSError if the file cannot be read, TypeError or ValueError for
    what is wrong in it.
    """
    if len(model) > MAX_NAME_CHARACTERS:
        return UNKNOWN_LIMITS
    own = plain_name(model)
    if overrides is not None:
        rows = _read_overrides(overrides)
        keys = [key for key in rows if own.startswith(plain_name(key)) or model.startswith(key)]
        if keys:
            return _override(rows[max(keys, key=len)])
    found = _continued(own)
    if found is not None:
        return found
    profile, is_known = profile_of_model(model, "openai-chat")
    window = bundled_profiles()[profile]["context_window_tokens"] if is_known else None
    return ModelLimits(window, source=f"profile {profile}") if window else UNKNOWN_LIMITS


def plain_name(model: str) -> str:
    """The model's own name in lower case with `-` for `.` and `_`: no host, region, vendor, tag."""
    return model_name(model).translate(DASHES)


def limits_date() -> str:
    """The day on which the table of limits was made, as 2026-11-21."""
    return str(_table()["updated"])


def _continued(own: str) -> ModelLimits | None:
    """The row of the longest name in the table that is `own` or goes on with a `-` in it."""
    table = _table()
    end = len(own)
    while end > 0:
        row = table["models"].get(own[:end])
        if row is not None:
            window, most_input, most_output, letters = row
            names = [name for name in table["sources"] if name[0] in letters]
            return ModelLimits(window, most_input, most_output, ", ".join(names))
        end = own.rfind("-", 0, end)
    return None


def _read_overrides(overrides: Overrides) -> Mapping[str, Any]:
    if isinstance(overrides, Mapping):
        return overrides
    path = Path(overrides)
    try:
        rows = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name} is no JSON file: {error}") from None
    if not isinstance(rows, dict):
        raise TypeError(f"{path.name} holds a {type(rows).__name__}; it must be an object")
    return rows


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


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = read_table("limits")
    return table
