"""Own discounts: what a user has agreed on with a host, as factors on the prices of the tables."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.cost import KINDS
from tokenctx._results.tables import DASHES
from tokenctx.money.rates import BY_USE, decimal_of, host_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal

    from tokenctx.money.rates import Rates

_FIELDS: Final = ("name", "factor", "models", "hosts", "kinds", "from", "until")
_LISTS: Final = ("models", "hosts", "kinds")
_OF_TOKENS: Final = tuple(kind for kind in KINDS if kind not in BY_USE)


@dataclass(frozen=True, slots=True)
class Discount:
    """One agreement: a factor, and the calls that it holds for.

    Attributes:
        name: Told in `Cost.factors`.
        models: Names, `*` stands for any characters; empty is all.
        hosts: Who answers; empty is all.
        kinds: The kinds of prices that it changes.
        since: Its first day; None is any.
        until: Its last day; None is any.
    """

    name: str
    factor: Decimal
    models: tuple[str, ...]
    hosts: tuple[str, ...]
    kinds: tuple[str, ...]
    since: dt.date | None
    until: dt.date | None

    def holds(self, names: Iterable[str], host: str, day: dt.date) -> bool:
        """True for a call of a model of these names, answered by `host` on this day."""
        if (self.since is not None and day < self.since) or (
            self.until is not None and day > self.until
        ):
            return False
        if self.hosts and host not in self.hosts:
            return False
        return not self.models or any(
            fnmatchcase(name, model) for name in names for model in self.models
        )

    def applied(self, rates: Rates) -> Rates:
        """The prices with this factor, which is named in them."""
        above, below = self.factor.as_integer_ratio()
        is_changed = [kind in self.kinds for kind in KINDS]

        def price(it: int | None, *, changes: bool) -> int | None:
            return (it * above + below // 2) // below if changes and it is not None else it

        bands = tuple(
            tuple(price(it, changes=yes) for it, yes in zip(band, is_changed, strict=True))
            for band in rates.bands
        )
        factors = {**rates.factors, f"discount={self.name}": str(self.factor)}
        return replace(rates, bands=bands, factors=factors)


def read_discounts(rows: Any) -> tuple[Discount, ...]:
    """Discounts in a file of prices; of several that hold for a call, the first counts.

    Raises ValueError naming what is wrong.
    """
    if not isinstance(rows, list):
        raise ValueError(f"discounts is a {type(rows).__name__}; it must be a list of objects")  # noqa: TRY004
    return tuple(_discount(f"discounts[{nth}]", row) for nth, row in enumerate(rows))


def spelled(name: str) -> str:
    """A name as discounts compare it, whatever its dashes, dots and capitals."""
    return name.strip().lower().translate(DASHES)


def _discount(where: str, row: Any) -> Discount:
    if not isinstance(row, dict):
        raise ValueError(f"{where} is a {type(row).__name__}; it must be an object")  # noqa: TRY004
    if unknown := sorted(set(row) - set(_FIELDS)):
        raise ValueError(f"{where} has {unknown[0]!r}; the fields are {', '.join(_FIELDS)}")
    for field in _LISTS:
        texts = row.get(field, ["-"])
        if not (isinstance(texts, list) and texts and all(isinstance(it, str) for it in texts)):
            raise ValueError(f"{where}.{field} is {texts!r}; it must be a list of names")
    if unknown := sorted(set(row.get("kinds", ())) - set(KINDS)):
        raise ValueError(f"{where}.kinds has {unknown[0]!r}; the kinds are {', '.join(KINDS)}")
    name = row.get("name", "own")
    if not isinstance(name, str) or not name:
        raise ValueError(f"{where}.name is {name!r}; it must be a text, which costs are told with")
    return Discount(
        name,
        decimal_of(f"{where}.factor", row.get("factor")),
        tuple(spelled(it) for it in row.get("models", ())),
        tuple(map(host_of, row.get("hosts", ()))),
        tuple(row.get("kinds", _OF_TOKENS)),
        _day(f"{where}.from", row.get("from")),
        _day(f"{where}.until", row.get("until")),
    )


def _day(where: str, value: Any) -> dt.date | None:
    try:
        return None if value is None else dt.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(f"{where} is {value!r}; write a day as 2026-11-23") from None
