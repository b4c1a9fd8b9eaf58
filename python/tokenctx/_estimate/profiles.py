"""Profiles: those of the package by name, and rows of the user's own for an engine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tokenctx._core import profiles as _profiles

Profiles = Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | os.PathLike[str]


@cache
def bundled_profiles() -> dict[str, dict[str, Any]]:
    """The profiles of the package by name, each with all fields of its layout. Read only."""
    return profile_table(None)


def profile_table(rows: str | None) -> dict[str, dict[str, Any]]:
    """The profiles of the package by name, with `rows` over them, as `profile_rows` made them."""
    table: dict[str, dict[str, Any]] = json.loads(_profiles(rows))
    return table


def profile_rows(profiles: Profiles) -> str:
    """The rows of `profiles` as JSON, which an engine takes.

    `profiles` is a row, a list of rows, a mapping with `profiles`, or the path of a JSON file with
    one of these. Raises OSError if the file cannot be read, TypeError or ValueError for a row that
    is no profile; the message names profile, field and what is allowed.
    """
    content: Any = profiles
    if isinstance(profiles, str | os.PathLike):
        content = _content(Path(profiles))
    if isinstance(content, Mapping):
        content = content.get("profiles", [content])
    if not isinstance(content, list | tuple):
        raise TypeError(f"profiles is a {type(content).__name__}; it must be a list of profiles")
    rows = json.dumps([dict(row) if isinstance(row, Mapping) else row for row in content])
    _profiles(rows)
    return rows


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name} is no JSON file: {error}") from None
