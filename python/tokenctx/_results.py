"""What all results have in common."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any


class Result:
    """What a call answers: fields, and values that are computed from them."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """All fields and computed values by name, as values that `json.dumps` takes.

        What has to be looked up elsewhere is left out: prices.
        """
        kind = type(self)
        computed = (
            name
            for base in kind.__mro__
            for name, value in vars(base).items()
            if type(value) is property
        )
        names = dict.fromkeys([*kind.__dataclass_fields__, *computed])  # type: ignore[attr-defined]
        return {name: _as_json(getattr(self, name)) for name in names if name[0] != "_"}


def _as_json(value: Any) -> Any:
    if isinstance(value, Result):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {str(name): _as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_json(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Decimal):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else float(value)


class LookedUp(property):
    """A computed value that is looked up elsewhere, and so is no part of `as_dict`."""
