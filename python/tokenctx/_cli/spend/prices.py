"""The cost of each kind of tokens, in whole nano-dollars that add up to the cost of the call."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Final, NamedTuple

from tokenctx._core import _apportioned
from tokenctx._results.cost import AT, UNITS
from tokenctx.batch.counts import estimate
from tokenctx.money.cost import NANO, PLAIN, counts_of_usage
from tokenctx.money.prices import said_by, words_of
from tokenctx.usage.normal import Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenctx._cli.spend.calls import Call
    from tokenctx._results.cost import Cost
    from tokenctx.money.cost import Plain
    from tokenctx.money.prices import Prices
    from tokenctx.money.rates import Rates

COUNTED: Final = (
    *("input_tokens", "new_tokens", "read_tokens", "written_tokens", "written_1h_tokens"),
    *("output_tokens", "reasoning_tokens", "most_output_tokens"),
)
"""Tokens of a call: of its input, and of that the parts new, read and written; of its output."""
MONEY: Final = ("nano", "nano_new", "nano_read", "nano_written", "nano_output", "nano_tools")
"""Nano-dollars of a call, then of each kind: they add up."""
MOST_UNITS: Final = 10**6 * UNITS
"""A million dollars, more than any call costs: what says so is damaged."""
TOO_DEAR: Final = "a call of more than a million dollars: its numbers are damaged"
NO_MODEL: Final = "no model is named"
NO_PRICE: Final = "no price is known for this model"
_READ: Final = frozenset(place for kind, place in AT.items() if kind.startswith("cache_read"))
_WRITE: Final = frozenset(place for kind, place in AT.items() if kind.startswith("cache_write"))
_OUTPUT: Final = frozenset(place for kind, place in AT.items() if kind.startswith("output"))
_USES: Final = frozenset(AT[it] for it in ("web_search", "storage_search", "request"))


class Row(NamedTuple):
    """The cost of a call, or why that is not known.

    Attributes:
        counts: Tokens, in the order of `COUNTED`.
        money: Nano-dollars, in the order of `MONEY`; None for a call without price.
    """

    counts: tuple[int, ...]
    money: tuple[int, ...] | None
    tier: str
    reason: str | None


class Pricer:
    """Prices calls by `prices`, those without a time at `now`, those without a model as `model`."""

    def __init__(self, prices: Prices, now: dt.datetime, model: str = "") -> None:
        self._prices = prices
        self._now = now
        self._model = model

    def priced(self, calls: Sequence[Call]) -> list[Row]:
        """A row for each call, in their order; calls without an answer are estimated."""
        found: list[Row | None] = [
            None if it.usage is None else self._billed(it, it.usage) for it in calls
        ]
        open_calls = [it for it in calls if it.usage is None]
        rows = iter(self._estimated(open_calls))
        return [next(rows) if it is None else it for it in found]

    def _billed(self, call: Call, usage: Usage) -> Row:
        tier = usage.service_tier if call.tier is None else call.tier
        counts = (
            usage.input_tokens,
            usage.uncached_input_tokens + usage.tool_use_prompt_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            min(usage.cache_write_1h_tokens, usage.cache_write_tokens),
            usage.output_tokens,
            usage.reasoning_tokens,
            0,
        )
        model = call.model or self._model
        if not model:
            return Row(counts, None, tier, NO_MODEL)
        found = self.money(usage, model, call.provider, self._moment(call.at), call.tier)
        if isinstance(found, str):
            return Row(counts, None, tier, found)
        return Row(counts, found, tier, None)

    def _moment(self, at: float | None) -> dt.datetime:
        if at is None:
            return self._now
        try:
            return dt.datetime.fromtimestamp(at, dt.timezone.utc)
        except (OverflowError, ValueError, OSError):
            return self._now

    def money(
        self, usage: Usage, model: str, provider: str, at: dt.datetime, tier: str | None
    ) -> tuple[int, ...] | str:
        """The nano-dollars of a call, in the order of `MONEY`; or why that is not known."""
        plain, rare, size = counts_of_usage(usage, None)
        if rare or usage.unread or usage.passes or usage.reported_cost is not None:
            cost = self._prices.cost(
                usage, model=model, provider=provider or None, at=at, service_tier=tier
            )
            return money_of(cost)
        said = said_by(usage)
        words = words_of(said if tier is None else (tier, *said[1:]))
        priced = self._prices.find(model, provider or None, at, words)
        if priced is None:
            return NO_PRICE
        if priced.rates.unknown:
            return f"no price is known for {', '.join(priced.rates.unknown)}"
        found = plain_money(plain, size, priced.rates)
        if found is None:
            return NO_PRICE
        return TOO_DEAR if found[0] > MOST_UNITS // NANO else found

    def _estimated(self, calls: Sequence[Call]) -> list[Row]:
        """Requests without an answer: their input as it is counted, no output yet."""
        if not calls:
            return []
        bodies = [json.dumps(it.body) for it in calls]
        by_model: dict[str, list[int]] = {}
        for place, call in enumerate(calls):
            by_model.setdefault(call.model or self._model, []).append(place)
        found: dict[int, Row] = {}
        for model, places in by_model.items():
            made = estimate([bodies[it] for it in places], model=model or None)
            columns = (made.tokens, made.requested_output_tokens, made.reason)
            for place, tokens, most, reason in zip(places, *columns, strict=True):
                found[place] = self._asked(calls[place], model, tokens, most or 0, reason)
        return [found[place] for place in range(len(calls))]

    def _asked(
        self, call: Call, model: str, tokens: int | None, most: int, reason: str | None
    ) -> Row:
        tier = call.tier or ""
        if tokens is None:
            return Row((0,) * len(COUNTED), None, tier, f"a request that cannot be read ({reason})")
        counts = (tokens, tokens, 0, 0, 0, 0, 0, most)
        if not model:
            return Row(counts, None, tier, NO_MODEL)
        usage = Usage(uncached_input_tokens=tokens)
        moment = self._moment(call.at)
        found = self.money(usage, model, call.provider, moment, call.tier)
        if isinstance(found, str):
            return Row(counts, None, tier, found)
        return Row(counts, found, tier, None)


def plain_money(plain: Plain, size: int, rates: Rates) -> tuple[int, ...] | None:
    """The nano-dollars of a call that bills only tokens; None if one has no price."""
    prices = rates.bands[rates.band(size)]
    amounts = []
    for place, count in zip(PLAIN, plain, strict=True):
        price = prices[place]
        if count and price is None:
            return None
        amounts.append(count * (price or 0))
    new, read, write, hour, reasoning, output = amounts
    fee = prices[AT["request"]] or 0
    return _rounded((new, read, write + hour, output + reasoning, fee))


def money_of(cost: Cost | None) -> tuple[int, ...] | str:
    """The nano-dollars of a cost, in the order of `MONEY`; or why that is not known."""
    if cost is None:
        return NO_PRICE
    total = cost.total_units()
    if total is None or cost.unpriced:
        names = ", ".join(cost.unpriced) or "a kind of tokens"
        return f"no price is known for {names}"
    if total > MOST_UNITS:
        return TOO_DEAR
    kinds = [0, 0, 0, 0, 0]
    for name, amount in cost.parts.items():
        place = AT.get(name)
        units = 0 if amount is None else int(amount * UNITS)
        if place in _READ:
            kinds[1] += units
        elif place in _WRITE:
            kinds[2] += units
        elif place in _OUTPUT:
            kinds[3] += units
        elif place in _USES:
            kinds[4] += units
        else:
            kinds[0] += units
    if sum(kinds) == total:
        return _rounded(tuple(kinds))
    # The provider says the total itself: the table's parts tell how to divide it.
    nano = (total + NANO // 2) // NANO
    weights = [it // NANO for it in kinds]
    if not any(weights):
        weights = [1, 0, 0, 0, 0]
    return (nano, *_shares(nano, weights))


def _shares(nano: int, weights: list[int]) -> list[int]:
    most = max(weights)
    while most >= 1 << 31:
        weights = [it >> 1 for it in weights]
        most = max(weights)
    return list(_apportioned(nano, weights))


def _rounded(units: tuple[int, ...]) -> tuple[int, ...]:
    """The total in whole nano-dollars, rounded half up, and its parts, which add up to it."""
    total = (sum(units) + NANO // 2) // NANO
    parts = [it // NANO for it in units]
    largest = max(range(len(parts)), key=lambda it: units[it])
    parts[largest] += total - sum(parts)
    return (total, *parts)
