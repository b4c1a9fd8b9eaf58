"""Profiles of the user's own: rows in the shape of `profiles.json`, checked before they count."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, get_args

from tokenctx._models import ClaudeFamilyName, EncodingName
from tokenctx.reference.cut import CUTS
from tokenctx.reference.gemini import LAYOUTS as GEMINI_LAYOUTS
from tokenctx.reference.markup import FORMS
from tokenctx.reference.media import image_rules
from tokenctx.reference.model import Dialect
from tokenctx.reference.profile import LAYOUTS, LayoutRule, Profile, bundled

MAX_NUMBER: Final = 1_000_000_000
SIGNED: Final = frozenset(
    "assistant_tokens name_tokens no_system_tokens tool_tokens tools_without_system_tokens "
    "opening_tokens joined_tokens results_tokens forced_results_tokens after_results_tokens "
    "answer_tokens serial_tokens forced_serial_tokens opaque_offset_tokens".split()
)
"""Fields that may be below 0, beside those of `chat` and `responses`."""
MINIMA: Final = {"text_denominator": 1}
CHOICES: Final[dict[str, Sequence[str]]] = {
    "encoding": (*get_args(EncodingName), *get_args(ClaudeFamilyName), "characters"),
    "quality": ("exact", "calibrated", "heuristic"),
    "layout": ("linear", "anthropic", *LAYOUTS, *GEMINI_LAYOUTS),
    "reasoning": ("loop", "all", "never"),
    "tool_text": ("parts", *FORMS),
    "confidence": ("documented", "verified", "inferred"),
}
LISTS: Final[dict[str, Sequence[str]]] = {
    "models": (),
    "providers": (),
    "dialects": get_args(Dialect),
    "text_cuts": tuple(CUTS),
}
"""Fields that are lists, and what may stand in them; empty: any text."""
NOTES: Final = frozenset({"like", "source", "date"})

Row = dict[str, Any]
Profiles = Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | os.PathLike[str]


def profile_rows(profiles: Profiles) -> str:
    """What `read_profiles` says, as JSON for an engine."""
    return json.dumps(read_profiles(profiles))


def read_profiles(profiles: Profiles) -> list[Row]:
    """The rows of `profiles` in an order in which each stands behind the one that it is like.

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
    rows = [_checked(row, number) for number, row in enumerate(content, 1)]
    names = [row["name"] for row in rows]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"profile {twice!r} is there twice; each may be there once")
    return _ordered(rows)


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name} is no JSON file: {error}") from None


def _ordered(rows: list[Row]) -> list[Row]:
    """Rows behind those that they are like; raises ValueError if there is no such order."""
    waiting = {row["name"]: row for row in rows}
    known = set(bundled().profiles)
    done: list[Row] = []
    while waiting:
        ready = [row for row in waiting.values() if row.get("like") not in waiting]
        if not ready:
            raise ValueError(f"profiles are like each other in a circle: {', '.join(waiting)}")
        for row in ready:
            if "like" in row and row["like"] not in known:
                raise ValueError(
                    f"profile {row['name']!r}: like is {row['like']!r}; it must be the name of a "
                    "profile of the package or of yours"
                )
            done.append(waiting.pop(row["name"]))
            known.add(row["name"])
    return done


def _checked(row: object, number: int) -> Row:
    if not isinstance(row, Mapping):
        raise TypeError(f"profile {number} is a {type(row).__name__}; it must be a dict")
    name = row.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError(f"profile {number}: name is {name!r}; it must be a text that is not empty")
    checked = {key: _value(f"profile {name!r}: {key}", key, row[key]) for key in row}
    is_new = name not in bundled().profiles
    return {**({"like": "unknown"} if is_new else {}), **checked}


def _value(title: str, key: str, value: object) -> object:
    """`value` if the field `key` may have it."""
    kinds = {field.name: str(field.type) for field in fields(Profile)}
    if key in ("chat", "responses"):
        return _rule(title, value)
    if key in LISTS:
        return _texts(title, value, LISTS[key])
    if key in NOTES:
        return _text(title, value, ())
    if key not in kinds and key != "confidence":
        allowed = ", ".join(sorted(kinds.keys() | NOTES | {"models", "confidence"}))
        raise ValueError(f"{title} is no field of a profile; the fields are {allowed}")
    kind = kinds.get(key, "str")
    if kind == "bool":
        return _flag(title, value)
    if kind.startswith("int"):
        if value is None and "None" in kind:
            return value
        minimum = -MAX_NUMBER if key in SIGNED else MINIMA.get(key, 0)
        return _number(title, value, minimum)
    return _text(
        title, value, tuple(image_rules()) if key == "image_rule" else CHOICES.get(key, ())
    )


def _rule(title: str, value: object) -> Row:
    """The numbers of a prompt layout."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{title} is a {type(value).__name__}; it must be a dict")
    kinds = {field.name: str(field.type) for field in fields(LayoutRule)}
    for key, member in value.items():
        if key not in kinds:
            raise ValueError(f"{title}.{key} is no field; the fields are {', '.join(kinds)}")
        if kinds[key] == "bool":
            _flag(f"{title}.{key}", member)
        else:
            _number(f"{title}.{key}", member, -MAX_NUMBER)
    return dict(value)


def _number(title: str, value: object, minimum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{title} is {value!r}; it must be a whole number")
    if not minimum <= value <= MAX_NUMBER:
        raise ValueError(f"{title} is {value}; it must be {minimum} to {MAX_NUMBER}")
    return value


def _flag(title: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{title} is {value!r}; it must be true or false")
    return value


def _text(title: str, value: object, choices: Sequence[str]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{title} is {value!r}; it must be a text")
    if choices and value not in choices:
        raise ValueError(f"{title} is {value!r}; it must be one of {', '.join(choices)}")
    return value


def _texts(title: str, value: object, choices: Sequence[str]) -> list[str]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"{title} is {value!r}; it must be a list of texts")
    return [_text(title, item, choices) for item in value]
