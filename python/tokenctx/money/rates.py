"""Prices of one model: a price for each kind of thing that is billed, and what changes them.

Sums are exact: a price is a whole number of `UNITS`, parts of a dollar, for each token or request.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, Final, NamedTuple

from tokenctx._results.cost import AT, KINDS, STANDARD_KIND, UNITS, dollars
from tokenctx._results.tables import read_table

_PER_MILLION: Final = UNITS // 10**6
BY_USE: Final = frozenset({"web_search", "storage_search", "request"})
"""What is billed by the use and not by the token; no tier, speed or region changes it."""
MODIFIERS: Final = ("service_tier", "speed", "inference_geo", "search_context_size")
"""What of a call changes its prices; in the words of those who bill it."""
_HOSTS: Final = {
    "azure-cognitive-services": "azure",
    "deepseek-ai": "deepseek",
    "bedrock": "aws",
    "copilot": "github-copilot",
    "friendliai": "friendli",
    "gmi": "gmicloud",
    "google-vertex-anthropic": "google",
    "meta-llama": "meta",
    "minimaxai": "minimax",
    "mistralai": "mistral",
    "moonshot": "moonshotai",
    "novita-ai": "novita",
    "qwen": "alibaba",
    "text-completion-codestral": "mistral",
    "text-completion-inception": "inception",
    "togetherai": "together",
    "vertex": "google",
    "xai": "x-ai",
    "xiaomi-mimo": "xiaomi",
    "z-ai": "zai",
    "zai-org": "zai",
}
"""Who answers, in the words of the table of prices; organisations that make models, too."""
_ABOUT: Final = ("from", "between", "sources")


def host_of(name: str) -> str:
    """Who answers, as the table of prices calls it: one name for all that gateways write."""
    word = name.lower().replace("_", "-")
    provider = _provider_words().get(word.replace("-", "_"), word)
    return _HOSTS.get(provider, provider)


@cache
def _provider_words() -> dict[str, str]:
    """The spellings of providers that limits and profiles go by."""
    words: dict[str, str] = read_table("profiles")["providers"]
    return {word: provider for word, provider in words.items() if not word.endswith(":")}


class Words(NamedTuple):
    """What a call says that changes its prices, in lower case; empty where it says nothing."""

    service_tier: str = ""
    speed: str = ""
    inference_geo: str = ""
    search_context_size: str = ""


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices in `UNITS` a token or a use, by length of the call.

    Attributes:
        above: Lengths of the input, in tokens, above which something costs more or less.
        bands: For calls up to the first length, to the second, and so on: a price for each of
            `KINDS`, None where nothing is known.
        own: Kinds that have a price of their own.
        factors: What was applied to the standard prices, such as `service_tier=flex` and `0.5`.
        unknown: What of the call has no factor, such as `speed=fast`: standard prices stand.
    """

    above: tuple[int, ...]
    bands: tuple[tuple[int | None, ...], ...]
    own: frozenset[str]
    factors: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def band(self, input_tokens: int) -> int:
        """Which of `bands` a call of so many input tokens has."""
        return bisect_left(self.above, input_tokens) if self.above else 0

    def price(self, kind: str, input_tokens: int) -> Decimal | None:
        """Dollars for a million of `kind` in a call of so many input tokens; None if unknown."""
        price = self.bands[self.band(input_tokens)][AT[kind]]
        return None if price is None else dollars(price * 10**6)


NO_RATES: Final = Rates((), ((None,) * len(KINDS),), frozenset())
"""Those of a model whose prices nobody knows."""


class Period(NamedTuple):
    """One row of prices, and when it holds: from a day on, or between two times of day (UTC)."""

    row: Mapping[str, Any]
    since: dt.date | None = None
    between: tuple[dt.time, dt.time] | None = None

    def holds(self, at: dt.datetime) -> bool:
        """True if it holds at this moment."""
        if self.since is not None and at.date() < self.since:
            return False
        if self.between is None:
            return True
        start, end = self.between
        now = at.time()
        if end < start:
            return now >= start or now < end
        return start <= now < end


def period_at(periods: Sequence[Period], at: dt.datetime) -> Period:
    """The period of a moment: the last that holds, else the first."""
    return next((it for it in reversed(periods) if it.holds(at)), periods[0])


def read_periods(where: str, row: Any) -> tuple[Period, ...]:
    """The periods in a row of a table of prices. Raises ValueError naming what is wrong."""
    rows = row if isinstance(row, list) else [row]
    if not rows:
        raise ValueError(f"{where} has no price")
    return tuple(_period(where, one) for one in rows)


def check_rows(where: str, row: Any) -> tuple[Period, ...]:
    """As `read_periods`; whatever the row says of any call is read too."""
    periods = read_periods(where, row)
    for period in periods:
        rates_of(where, period.row, Words())
        for modifier in MODIFIERS:
            for word in period.row.get(modifier, {}):
                rates_of(where, period.row, Words(**{modifier: word}))
    return periods


def _period(where: str, row: Any) -> Period:
    if not isinstance(row, Mapping):
        raise ValueError(f"{where} is a {type(row).__name__}; it must be an object")  # noqa: TRY004
    unknown = sorted(set(row) - {*KINDS, *MODIFIERS, *_ABOUT})
    if unknown:
        allowed = ", ".join((*KINDS, *MODIFIERS, *_ABOUT))
        raise ValueError(f"{where} has {unknown[0]!r}; the fields are {allowed}")
    for modifier in MODIFIERS:
        if not isinstance(row.get(modifier, {}), Mapping):
            raise ValueError(f'{where}.{modifier} must be an object, as {{"flex": "0.5"}}')  # noqa: TRY004
    since, between = row.get("from"), row.get("between")
    try:
        return Period(
            row,
            None if since is None else dt.date.fromisoformat(since),
            None if between is None else (_time(between[0]), _time(between[1])),
        )
    except (TypeError, ValueError, LookupError):
        raise ValueError(
            f"{where} has from={since!r}, between={between!r}; write a day as 2026-11-23 and "
            'two times of the day as ["16:30", "00:30"]'
        ) from None


def rates_of(where: str, row: Mapping[str, Any], words: Words) -> Rates:
    """The prices of a row for a call with these `words`; raises as `read_periods`."""
    prices = {kind: _tiers(f"{where}.{kind}", row[kind]) for kind in KINDS if kind in row}
    factors: dict[str, str] = {}
    unknown: list[str] = []
    for modifier, word in zip(MODIFIERS, words, strict=True):
        if not word:
            continue
        name, change = f"{modifier}={word}", row.get(modifier, {}).get(word)
        if change is None:
            unknown.append(name)
        elif isinstance(change, Mapping):  # prices of their own
            place = f"{where}.{modifier}.{word}"
            if unnamed := sorted(set(change) - set(KINDS)):
                raise ValueError(f"{place} has {unnamed[0]!r}; the kinds are {', '.join(KINDS)}")
            prices |= {kind: _tiers(f"{place}.{kind}", change[kind]) for kind in change}
            factors[name] = "own prices"
        else:
            factor = decimal_of(f"{where}.{modifier}.{word}", change)
            prices = {
                kind: tiers if kind in BY_USE else [(above, it * factor) for above, it in tiers]
                for kind, tiers in prices.items()
            }
            factors[name] = str(factor)
    lengths = sorted({above for tiers in prices.values() for above, _ in tiers if above})
    bands = tuple(_band(prices, length) for length in (0, *lengths))
    return Rates(tuple(lengths), bands, frozenset(prices), factors, tuple(unknown))


def _band(prices: Mapping[str, list[tuple[int, Decimal]]], above: int) -> Any:
    """A price for each kind, in calls of more input tokens than `above`."""
    found: dict[str, int | None] = {}
    for kind, standard in STANDARD_KIND.items():
        if kind in prices:
            price = [it for length, it in prices[kind] if length <= above][-1]
            found[kind] = round(price * _PER_MILLION)  # exact up to 18 decimals
        else:
            found[kind] = None if standard is None else found[standard]
    if "input_audio" in prices and "cache_read" not in prices:
        found["cache_read_audio"] = found["input_audio"]
    if "input_image" in prices and "cache_read" not in prices:
        found["cache_read_image"] = found["input_image"]
    return tuple(found.values())


def _time(text: str) -> dt.time:
    return dt.time.fromisoformat(text)


def _tiers(where: str, value: Any) -> list[tuple[int, Decimal]]:
    """`"2.5"`, or with tiers `["2.5", [272000, "5"]]`: lengths and prices from there on."""
    if not isinstance(value, list):
        return [(0, decimal_of(where, value))]
    if not value:
        raise ValueError(f"{where} is empty; it must be a price")
    tiers = [(0, decimal_of(where, value[0]))]
    for tier in value[1:]:
        if not (isinstance(tier, list) and len(tier) == 2 and isinstance(tier[0], int)):
            raise ValueError(f'{where} has the tier {tier!r}; write [above, price], [200000, "5"]')
        if tier[0] <= tiers[-1][0]:
            raise ValueError(f"{where} has a tier above {tier[0]}; tiers must rise")
        tiers.append((tier[0], decimal_of(where, tier[1])))
    return tiers


def decimal_of(where: str, value: Any) -> Decimal:
    """A price per million tokens; never a binary fraction."""
    if isinstance(value, (str, int, Decimal)) and not isinstance(value, bool):
        try:
            price = Decimal(value)
        except InvalidOperation:
            price = Decimal(-1)
        if price.is_finite() and price >= 0:
            return price
    raise ValueError(f'{where} is {value!r}; it must be a decimal of 0 or more, as "2.5"')
