"""The base of all results, and the forecast of the cache of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tokenctx._results.front import hint

T = TypeVar("T")

CacheLabel = Literal["expected", "possible", "none", "unknown"]
CacheReason = Literal[
    "warm",
    "best_effort",
    "expired",
    "nothing_known",
    "no_marks",
    "below_minimum",
    "beyond_lookback",
    "cached_content",
    "no_rule",
]


class Hinting:
    """Names that others have for what a class does are answered by what it is called here."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a checker knows which names there are

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            message = f"{kind!r} object has no attribute {name!r}{hint(name, kind)}"
            raise AttributeError(message, name=name, obj=self)


class Result(Hinting):
    """A result: fields, and values that are computed from them."""

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
            if type(value) is property and value.fget not in _LOOKED_UP
        )
        names = dict.fromkeys([*kind.__dataclass_fields__, *computed])  # type: ignore[attr-defined]
        return {name: _as_json(getattr(self, name)) for name in names if name[0] != "_"}


@cache
def maker(kind: Any) -> Any:
    """A function that makes a frozen `kind` from its fields, four times as fast as the class.

    A frozen class sets each field by a call. A class with the same slots that is not frozen does
    so here; what it has made becomes one of `kind`, as Python allows where the slots are equal.
    """
    names = [field.name for field in fields(kind)]
    given = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    arguments = ", ".join(f"{name}=given[{name!r}]" if name in given else name for name in names)
    lines = [f"def make(self, {arguments}):", *(f"    self.{name} = {name}" for name in names)]
    scope: dict[str, Any] = {"given": given, "kind": kind}
    exec("\n".join([*lines, "    self.__class__ = kind"]), scope)  # noqa: S102  # as dataclasses do
    body = {"__slots__": kind.__slots__, "__init__": scope["make"]}
    return type(f"_{kind.__name__}", kind.__bases__, body)


def _as_json(value: Any) -> Any:
    if isinstance(value, Result):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {str(name): _as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_json(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value) if hasattr(value, "quantize") else float(value)  # money is a Decimal


_LOOKED_UP: set[Callable[[Any], Any]] = set()


def looked_up(getter: Callable[[Any], T]) -> Callable[[Any], T]:
    """Mark the getter of what is looked up elsewhere, and so is no part of `as_dict`."""
    _LOOKED_UP.add(getter)
    return getter


@dataclass(frozen=True, slots=True)
class CacheForecast(Result):
    """The forecast of what a call will read from the provider's cache and write to it.

    `read_tokens`, `write_tokens` and `uncached_tokens` are the tokens of the estimate, parted.

    Attributes:
        label: Of the read: `expected`, `possible` (the provider promises nothing, or its time may
            have passed), `none`, or `unknown` (nothing is known about this provider's cache).
        read_tokens: Tokens read from the cache; 0 unless a read is more likely than not.
        write_tokens: Tokens written to it at a price of their own; 0 where writing is free.
        uncached_tokens: All other tokens.
        low: Lower bound of `read_tokens`.
        high: Upper bound of `read_tokens`.
        lifetime_seconds: How long what is written is kept after its last use; None if unknown.
        rule: The provider's rule, a name of `data/caching.json`; empty if none is known.
        reason: Why: `warm`, `best_effort`, `expired`, `nothing_known` (no call that ended in this
            prefix was recorded), `no_marks`, `below_minimum`, `beyond_lookback` (more blocks lie
            between a mark and the warm prefix than the provider looks back), `cached_content` (the
            request names a cache that was made before), `no_rule`.
    """

    label: CacheLabel
    read_tokens: int
    write_tokens: int
    uncached_tokens: int
    low: int
    high: int
    lifetime_seconds: int | None
    rule: str
    reason: CacheReason
