"""The cost of a call: tokens by kind, times prices by kind."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tokenctx._results.result import Cost

if TYPE_CHECKING:
    from tokenctx.money.rates import Rates

HOUR_SECONDS: Final = 3600


STALE_DAYS: Final = 90
"""Prices that are older may have changed more than once."""


class Priced(NamedTuple):
    """Rates that were found, and what of."""

    rates: Rates
    model: str
    provider: str
    source: str
    date: str


class Tokens(NamedTuple):
    """Tokens of one call by what they cost."""

    uncached: int
    read: int
    write: int
    write_1h: int
    output: int | None

    @property
    def input(self) -> int:
        """All input, cached or not."""
        return self.uncached + self.read + self.write


class Split(NamedTuple):
    """Tokens of a call: as expected or billed, the fewest money, the most money."""

    middle: Tokens
    least: Tokens
    most: Tokens

    @classmethod
    def of(cls, tokens: Any, output_tokens: int | None) -> Split:
        """The tokens of an estimate or of a usage, told apart by what they have."""
        if hasattr(tokens, "uncached_input_tokens"):
            billed = Tokens(
                tokens.uncached_input_tokens,
                tokens.cache_read_tokens,
                tokens.cache_write_tokens,
                tokens.cache_write_1h_tokens,
                tokens.output_tokens if output_tokens is None else output_tokens,
            )
            return cls(billed, billed, billed)
        if not hasattr(tokens, "requested_output_tokens"):
            raise TypeError(
                f"tokens are of type {type(tokens).__name__}; they must be an Estimate or a Usage"
            )
        output = tokens.requested_output_tokens if output_tokens is None else output_tokens
        cache = tokens.cache
        if cache is None:
            middle = Tokens(tokens.tokens, 0, 0, 0, output)
            return cls(
                middle,
                middle._replace(uncached=tokens.low, output=0),
                middle._replace(uncached=tokens.high),
            )
        is_long = (cache.lifetime_seconds or 0) >= HOUR_SECONDS
        writes = cache.write_tokens > 0

        def parted(all_tokens: int, read: int, output: int | None) -> Tokens:
            read = min(read, all_tokens)
            rest = all_tokens - read
            uncached = min(rest, cache.uncached_tokens) if writes else rest
            write = rest - uncached
            return Tokens(uncached, read, write, write if is_long else 0, output)

        middle = Tokens(
            cache.uncached_tokens,
            cache.read_tokens,
            cache.write_tokens,
            cache.write_tokens if is_long else 0,
            output,
        )
        return cls(
            middle, parted(tokens.low, cache.high, 0), parted(tokens.high, cache.low, output)
        )


def cost_of(split: Split, priced: Priced, at: dt.datetime) -> Cost:
    """The cost of a call at these prices."""
    middle = split.middle
    uncached, read, write = _input_parts(middle, priced)
    whole_input = _sum(uncached, read, write)
    output = _output(middle, priced)
    size = middle.input
    tiers = priced.rates.tiers
    above = max((it for it in tiers if size > it), default=0)
    following = min((it for it in tiers if size <= it), default=None)
    age = at.date() - dt.date.fromisoformat(priced.date)
    fee = priced.rates.cost("request", 1, size) or Decimal(0)
    low, high = (_sum(*_input_parts(it, priced), _output(it, priced), fee) for it in split[1:])
    return Cost(
        whole_input,
        output,
        _sum(whole_input, output, fee),
        uncached,
        read,
        write,
        fee,
        low,
        high,
        "USD",
        above,
        following,
        None if following is None else following - size,
        None if following is None else _factor(priced, size, following),
        priced.model,
        priced.provider,
        priced.source,
        priced.date,
        age.days > STALE_DAYS,
    )


def _input_parts(
    tokens: Tokens, priced: Priced
) -> tuple[Decimal | None, Decimal | None, Decimal | None]:
    rates, size = priced.rates, tokens.input
    hour = min(tokens.write_1h, tokens.write)
    return (
        rates.cost("input", tokens.uncached, size),
        rates.cost("cache_read", tokens.read, size),
        _sum(
            rates.cost("cache_write", tokens.write - hour, size),
            rates.cost("cache_write_1h", hour, size),
        ),
    )


def _output(tokens: Tokens, priced: Priced) -> Decimal | None:
    if tokens.output is None:
        return None
    return priced.rates.cost("output", tokens.output, tokens.input)


def _sum(*parts: Decimal | None) -> Decimal | None:
    known = [it for it in parts if it is not None]
    return sum(known, start=Decimal(0)) if len(known) == len(parts) else None


def _factor(priced: Priced, size: int, following: int) -> Decimal | None:
    here = priced.rates.price("input", size)
    there = priced.rates.price("input", following + 1)
    return there / here if here and there is not None else None
