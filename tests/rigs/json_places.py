"""The places of the objects in a JSON value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all objects in `value`, its own too."""
    if isinstance(value, dict):
        yield path
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in members:
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))
