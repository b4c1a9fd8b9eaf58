"""Prices of one model: a number for each kind of token, in tiers where the length counts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

MILLION: Final = 1_000_000
PARTS: Final = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "request")
_PERIOD_KEYS: Final = ("from", "between")


class Tier(NamedTuple):
    """A price per million tokens, for calls of more input tokens than `above`."""

    above: int
    price: Decimal


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices per million tokens, and of a million requests; an empty tuple where there is none.

    What is read from a cache or written to one costs as other input where it has no price; what is
    written for an hour as what is written. The whole of a call pays the price of its tier.
    """

    input: tuple[Tier, ...] = ()
    cache_read: tuple[Tier, ...] = ()
    cache_write: tuple[Tier, ...] = ()
    cache_write_1h: tuple[Tier, ...] = ()
    output: tuple[Tier, ...] = ()
    request: tuple[Tier, ...] = ()

    def price(self, part: str, input_tokens: int) -> Decimal | None:
        """Price of a million tokens of `part` in a call of this many input tokens."""
        tiers = self._tiers(part)
        found = next((it for it in reversed(tiers) if input_tokens > it.above), None)
        found = found or next(iter(tiers), None)
        return None if found is None else found.price

    def cost(self, part: str, tokens: int, input_tokens: int) -> Decimal | None:
        """The cost of `tokens` of `part`; None if it has no price."""
        price = self.price(part, input_tokens)
        return None if price is None else price * tokens / MILLION

    @property
    def tiers(self) -> tuple[int, ...]:
        """Lengths of the input above which something costs more or less."""
        return tuple(sorted({it.above for part in PARTS for it in getattr(self, part)} - {0}))

    def _tiers(self, part: str) -> tuple[Tier, ...]:
        own: tuple[Tier, ...] = getattr(self, part)
        if own or part in ("input", "output", "request"):
            return own
        if part == "cache_write_1h" and self.cache_write:
            return self.cache_write
        return self.input


class Period(NamedTuple):
    """Rates, and when they hold: from a day on (UTC), or between two times of the day."""

    rates: Rates
    since: dt.date | None = None
    between: tuple[dt.time, dt.time] | None = None

    def holds(self, at: dt.datetime) -> bool:
        """True if they hold at this moment."""
        if self.since is not None and at.date() < self.since:
            return False
        if self.between is None:
            return True
        start, end = self.between
        now = at.time()
        if end < start:
            return now >= start or now < end
        return start <= now < end


def rates_at(periods: Sequence[Period], at: dt.datetime) -> Rates:
    """The rates of a moment: the last that hold, else the first."""
    return next((it.rates for it in reversed(periods) if it.holds(at)), periods[0].rates)


def read_periods(where: str, row: Any) -> tuple[Period, ...]:
    """The periods in a row of a table of prices. Raises ValueError naming what is wrong."""
    rows = row if isinstance(row, list) else [row]
    if not rows:
        raise ValueError(f"{where} has no price")
    return tuple(_period(where, one) for one in rows)


def _period(where: str, row: Any) -> Period:
    if not isinstance(row, Mapping):
        raise ValueError(f"{where} is a {type(row).__name__}; it must be an object")  # noqa: TRY004
    unknown = sorted(set(row) - {*PARTS, *_PERIOD_KEYS})
    if unknown:
        allowed = ", ".join((*PARTS, *_PERIOD_KEYS))
        raise ValueError(f"{where} has {unknown[0]!r}; the fields are {allowed}")
    parts = {part: _read_tiers(f"{where}.{part}", row[part]) for part in PARTS if part in row}
    since, between = row.get("from"), row.get("between")
    try:
        return Period(
            Rates(**parts),
            None if since is None else dt.date.fromisoformat(since),
            None if between is None else (_time(between[0]), _time(between[1])),
        )
    except (TypeError, ValueError, LookupError):
        raise ValueError(
            f"{where} has from={since!r}, between={between!r}; write a day as 2026-11-23 and "
            'two times of the day as ["16:30", "00:30"]'
        ) from None


def _time(text: str) -> dt.time:
    return dt.time.fromisoformat(text)


def _read_tiers(where: str, value: Any) -> tuple[Tier, ...]:
    """`"2.5"`, or with tiers `["2.5", [272000, "5"]]`."""
    if not isinstance(value, list):
        return (Tier(0, _decimal(where, value)),)
    if not value:
        raise ValueError(f"{where} is empty; it must be a price")
    tiers = [Tier(0, _decimal(where, value[0]))]
    for tier in value[1:]:
        if not (isinstance(tier, list) and len(tier) == 2 and isinstance(tier[0], int)):
            raise ValueError(f'{where} has the tier {tier!r}; write [above, price], [200000, "5"]')
        if tier[0] <= tiers[-1].above:
            raise ValueError(f"{where} has a tier above {tier[0]}; tiers must rise")
        tiers.append(Tier(tier[0], _decimal(where, tier[1])))
    return tuple(tiers)


def _decimal(where: str, value: Any) -> Decimal:
    """A price per million tokens; never a binary fraction."""
    if isinstance(value, (str, int, Decimal)) and not isinstance(value, bool):
        try:
            price = Decimal(value)
        except InvalidOperation:
            price = Decimal(-1)
        if price.is_finite() and price >= 0:
            return price
    raise ValueError(f'{where} is {value!r}; it must be a decimal of 0 or more, as "2.5"')
