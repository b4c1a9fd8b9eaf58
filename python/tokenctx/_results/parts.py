"""The types of parts: `data/parts.json`, which the core reads too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from tokenctx._results.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = TypeVar("T")
PartReader = Literal["request", "outline", "conversion"]

MEDIA: Final = frozenset({"image", "file", "audio", "video"})


@dataclass(frozen=True, slots=True)
class PartType:
    """A row of the table, which says what its columns mean.

    Attributes:
        names: The type and its other spelling.
    """

    dialect: str
    names: tuple[str, ...]
    place: str
    kind: str
    id: str
    name: str
    arguments: tuple[str, ...]
    content: tuple[str, ...]
    is_custom: bool
    marks: int
    unread_by: tuple[str, ...]


def _part_types() -> Iterator[PartType]:
    for dialect, about in read_table("parts")["dialects"].items():
        for row in about["parts"]:
            yield PartType(
                dialect,
                (row["type"], *_texts(row.get("also"))),
                row["place"],
                row["kind"],
                row.get("id", ""),
                row.get("name", ""),
                _texts(row.get("arguments")),
                _texts(row.get("content")),
                row.get("is_custom", False),
                row.get("marks", 0),
                _texts(row.get("unread_by")),
            )


def _texts(value: Any) -> tuple[str, ...]:
    """One text, or a list of them."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


PART_TYPES: Final = tuple(_part_types())
ID_FIELDS: Final = tuple(dict.fromkeys(part.id for part in PART_TYPES if part.id))
"""Every field that can have the id of a call."""


def types_of(dialect: str, place: str, reader: PartReader = "conversion") -> dict[str, PartType]:
    """The types that `reader` reads at a place of a dialect, by their names."""
    found = (part for part in PART_TYPES if part.dialect == dialect and part.place == place)
    return {name: part for part in found if reader not in part.unread_by for name in part.names}


def kinds_of(reader: PartReader) -> dict[str, str]:
    """The kinds of parts by the type that they say, or the field that they stand in."""
    named = (part for part in PART_TYPES if part.place in {"part", "item", "field"})
    return {
        name: part.kind for part in named if reader not in part.unread_by for name in part.names
    }


def functions_of(dialect: str, place: str, functions: Mapping[str, T]) -> dict[str, T]:
    """The function for each type that is converted: under its name, or else under its kind."""
    return {
        name: functions[name if name in functions else part.kind]
        for name, part in types_of(dialect, place).items()
        if name in functions or part.kind in functions
    }
