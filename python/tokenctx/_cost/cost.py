"""What a call costs: tokens by kind, times prices by kind."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tokenctx._results import Result

if TYPE_CHECKING:
    from tokenctx._cost.prices import Priced

HOUR_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True)
class Cost(Result):
    """What a call costs, in money of `currency`. None is unknown, never 0.

    Attributes:
        input: All input: `uncached_input`, `cache_read` and `cache_write` together.
        output: The output: of an estimate, the most that the request asks for.
        total: Input, output and `request`; None unless they are known.
        uncached_input: Input that is neither read from the provider's cache nor written to it.
        cache_read: Input that is read from it.
        cache_write: Input that is written to it.
        request: What the call costs whatever its length; 0 for most.
        low: Lower bound of the total; of an estimate, without output.
        high: Upper bound of the total; None if the most output is not known.
        currency: `USD`.
        tier_above_tokens: The prices are those of calls of more input tokens than this; 0 is all.
        next_tier_above_tokens: From the next token above this on, all of the call has other prices.
        tokens_to_next_tier: How many more input tokens still have the same prices.
        next_tier_factor: What a token of input costs there, in parts of what it costs here.
        model: The name that the prices were found by.
        provider: Whose prices they are.
        source: Where they are from: `caller`, or a package with its version.
        date: The day that they are of.
        is_stale: Whether that was more than 90 days before the call.
    """

    input: Decimal | None
    output: Decimal | None
    total: Decimal | None
    uncached_input: Decimal | None
    cache_read: Decimal | None
    cache_write: Decimal | None
    request: Decimal
    low: Decimal | None
    high: Decimal | None
    currency: str
    tier_above_tokens: int
    next_tier_above_tokens: int | None
    tokens_to_next_tier: int | None
    next_tier_factor: Decimal | None
    model: str
    provider: str
    source: str
    date: str
    is_stale: bool


class Tokens(NamedTuple):
    """Tokens of one call by what they cost."""

    uncached: int
    read: int
    write: int
    write_1h: int
    output: int | None

    @property
    def input(self) -> int:
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
    from tokenctx._cost.prices import STALE_DAYS

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
