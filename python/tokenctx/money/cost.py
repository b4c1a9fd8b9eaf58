"""The cost of a call: what is billed by kind, times prices by kind, in whole numbers."""

from __future__ import annotations

from bisect import bisect_left
from math import gcd
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tokenctx._results.cost import AT, KINDS, UNITS, Cost
from tokenctx._results.result import maker
from tokenctx.money.rates import NO_RATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tokenctx.money.rates import Rates
    from tokenctx.usage.normal import Usage

HOUR_SECONDS: Final = 3600
NANO: Final = UNITS // 10**9
"""Parts of a dollar in a nano-dollar."""
STALE_DAYS: Final = 90
"""Prices that are older may have changed more than once."""
_STANDS_IN: Final = frozenset(
    AT[kind]
    for kind in ("cache_write_12h", "input_audio", "output_audio", "output_image", "output_video")
)
"""Kinds that cost more than what stands in where they have no price of their own: that is named."""
_INPUT, _READ, _WRITE, _WRITE_1H = (
    AT[kind] for kind in ("input", "cache_read", "cache_write", "cache_write_1h")
)
_WRITE_12H, _REASONING = AT["cache_write_12h"], AT["output_reasoning"]
_OUTPUT, _SEARCH, _REQUEST = AT["output"], AT["web_search"], AT["request"]
_FILES: Final = AT["storage_search"]
_make_cost: Final = maker(Cost)
Totals = tuple[int | None, int | None, int | None, int | None, str]
"""The total, its bounds, what the table says beside what was told, and who has told it."""


class Priced(NamedTuple):
    """Prices that were found, and what of."""

    rates: Rates
    model: str
    provider: str
    source: str
    date: str
    is_doubtful: bool
    has_hours: bool
    is_stale: bool


_UNKNOWN: Final = Priced(
    NO_RATES, "", "", "billed", "", is_doubtful=False, has_hours=False, is_stale=False
)
PLAIN: Final = (_INPUT, _READ, _WRITE, _WRITE_1H, _REASONING, _OUTPUT)
"""The places in `KINDS` of what nearly every call is billed for."""
Plain = tuple[int, int, int, int, int, int]
"""How many tokens of each of `PLAIN`."""
Rare = list[tuple[int, int]]
"""Other things that are billed: places in `KINDS`, and how many."""


def counts_of_usage(usage: Usage, output_tokens: int | None) -> tuple[Plain, Rare, int]:
    """What a usage bills, each token and use once; and all of its input."""
    uncached = usage.uncached_input_tokens + usage.tool_use_prompt_tokens
    read, write, hour = usage.cache_read_tokens, usage.cache_write_tokens, 0
    size = uncached + read + write
    output = usage.output_tokens if output_tokens is None else output_tokens
    rare: Rare = []
    if (
        usage.input_audio_tokens
        or usage.input_image_tokens
        or usage.input_video_tokens
        or usage.cache_read_audio_tokens
        or usage.cache_read_image_tokens
    ):
        uncached, read = _input_media(usage, uncached, read, rare)
    if write:
        hour = min(usage.cache_write_1h_tokens, write)
        if half_day := min(usage.cache_write_12h_tokens, write - hour):
            rare.append((_WRITE_12H, half_day))
        write -= hour + half_day
    if usage.output_audio_tokens or usage.output_image_tokens or usage.output_video_tokens:
        output = _output_media(usage, output, rare)
    reasoning = usage.reasoning_tokens
    if reasoning > output:  # noqa: PLR1730  # `min` takes a twentieth of the whole cost
        reasoning = output
    if usage.web_search_requests:
        rare.append((_SEARCH, usage.web_search_requests))
    if usage.file_search_requests:
        rare.append((_FILES, usage.file_search_requests))
    return (uncached, read, write, hour, reasoning, output - reasoning), rare, size


def _input_media(usage: Usage, uncached: int, read: int, rare: Rare) -> tuple[int, int]:
    """The new input and the read one that are left; media go to `rare`."""
    for kind, tokens, all_cached in (
        ("audio", usage.input_audio_tokens, usage.cache_read_audio_tokens),
        ("image", usage.input_image_tokens, usage.cache_read_image_tokens),
        ("video", usage.input_video_tokens, 0),
    ):
        cached = min(all_cached, read)
        fresh = min(max(tokens - cached, 0), uncached)
        uncached, read = uncached - fresh, read - cached
        rare += [(AT[f"input_{kind}"], fresh)] if fresh else []
        rare += [(AT[f"cache_read_{kind}"], cached)] if cached else []
    return uncached, read


def _output_media(usage: Usage, output: int, rare: Rare) -> int:
    """The output that is left; media go to `rare`."""
    for kind, tokens in (
        ("output_audio", usage.output_audio_tokens),
        ("output_image", usage.output_image_tokens),
        ("output_video", usage.output_video_tokens),
    ):
        part = min(tokens, output)
        output -= part
        rare += [(AT[kind], part)] if part else []
    return output


def counts_of_estimate(estimate: Any, output: int) -> tuple[Plain, Plain, Plain]:
    """What an estimate expects to be billed, the least of it and the most.

    The least has no output.
    """
    cache, low, high = estimate.cache, estimate.low, estimate.high
    if cache is None:
        tokens = estimate.tokens
        return (tokens, 0, 0, 0, 0, output), (low, 0, 0, 0, 0, 0), (high, 0, 0, 0, 0, output)
    fresh, write = cache.uncached_tokens, cache.write_tokens
    read, rest = min(cache.high, low), max(low - cache.high, 0)
    least_fresh = min(rest, fresh) if write > 0 else rest
    most_read, most_rest = min(cache.low, high), max(high - cache.low, 0)
    most_fresh = min(most_rest, fresh) if write > 0 else most_rest
    if (cache.lifetime_seconds or 0) < HOUR_SECONDS:
        return (
            (fresh, cache.read_tokens, write, 0, 0, output),
            (least_fresh, read, rest - least_fresh, 0, 0, 0),
            (most_fresh, most_read, most_rest - most_fresh, 0, 0, output),
        )
    return (
        (fresh, cache.read_tokens, 0, write, 0, output),
        (least_fresh, read, 0, rest - least_fresh, 0, 0),
        (most_fresh, most_read, 0, most_rest - most_fresh, 0, output),
    )


def cost_of_usage(
    usage: Usage,
    priced: Priced,
    output_tokens: int | None,
    passes: Sequence[tuple[str, Cost | None]],
) -> Cost:
    """The cost of a call that was billed, with what stands beside the answer."""
    plain, rare, size = counts_of_usage(usage, output_tokens)
    parts, unpriced, total = _parts(plain, rare, size, priced.rates)
    unpriced += usage.unread
    beside: int | None = 0
    if passes:
        beside, names = _beside(passes)
        unpriced += names
        total = None if total is None or beside is None else total + beside
    totals: Totals = (total, total, None if unpriced else total, None, "")
    if usage.reported_cost is not None:
        totals = _told(usage, total)
    return _make_cost(parts, totals, beside, priced, size, unpriced)  # type: ignore[no-any-return]


def _beside(passes: Sequence[tuple[str, Cost | None]]) -> tuple[int | None, tuple[str, ...]]:
    """The cost of all passes beside the answer, and the kinds of those that are not known."""
    beside: int | None = 0
    unpriced: tuple[str, ...] = ()
    for kind, cost in passes:
        amount = None if cost is None else cost.total_units()
        if amount is None or cost is None or cost.unpriced:
            unpriced += (kind,)
        beside = None if beside is None or amount is None else beside + amount
    return beside, unpriced


def cost_of_estimate(estimate: Any, priced: Priced, output: int | None) -> Cost:
    """The cost of a call before it is made."""
    rates, size = priced.rates, estimate.tokens
    middle, least, most = counts_of_estimate(estimate, output or 0)
    parts, unpriced, total = _parts(middle, (), size, rates)
    can_widen = not unpriced
    for word in estimate.price_words:
        if "=" not in word:  # a use; how often, nobody knows
            unpriced += (word,)
            if word == KINDS[_SEARCH]:
                parts[_SEARCH] = None
    low = total_of(least, estimate.low, rates)
    high = None
    if output is None:
        del parts[_OUTPUT]
        total = None
    elif can_widen:
        high = total_of(most, estimate.high, rates)
    return _make_cost(parts, (total, low, high, None, ""), 0, priced, size, unpriced)  # type: ignore[no-any-return]


def billed_cost(usage: Usage, model: str, provider: str) -> Cost:
    """The cost of a call that says what it cost, of a model whose prices are not known."""
    unknown = _UNKNOWN._replace(model=model, provider=provider)
    return _make_cost({}, _told(usage, None), 0, unknown, 0, ())  # type: ignore[no-any-return]


def _told(usage: Usage, of_table: int | None) -> Totals:
    told = int((usage.reported_cost or 0) * UNITS)
    return told, told, told, of_table, usage.cost_source or "billed"


def total_of(plain: Plain, size: int, rates: Rates) -> int | None:
    """The cost of a call of so many input tokens in `UNITS`; None if a price is not known."""
    prices = rates.bands[rates.band(size)]
    units = prices[_REQUEST] or 0
    for place, count in zip(PLAIN, plain):  # noqa: B905
        if count:
            price = prices[place]
            if price is None:
                return None
            units += price * count
    return units


def nano_dollars(rows: Sequence[Plain], rates: Rates) -> list[int | None]:
    """The cost of each call in dollars times 10 ** 9, rounded half up; None without a price.

    The sums are those of `Cost`, divided by what all prices of a band have in common, so that they
    are short: a row takes a tenth of the time of a `Cost`.
    """
    if rates.unknown:
        return [None] * len(rows)
    bands = [_short(prices) for prices in rates.bands]
    if None in bands:
        return [_rounded(total_of(it, sum(it[:4]), rates)) for it in rows]
    above, found = rates.above, []
    (*each, fee), half, whole = bands[0]  # type: ignore[misc]  # none is None
    a, b, c, d, e, f = each
    for uncached, read, write, hour, reasoning, output in rows:
        if above:
            band = bisect_left(above, uncached + read + write + hour)
            (a, b, c, d, e, f, fee), half, whole = bands[band]  # type: ignore[misc]
        units = a * uncached + b * read + c * write + d * hour + e * reasoning + f * output + fee
        found.append((units + half) // whole)
    return found


def _short(prices: Sequence[int | None]) -> tuple[list[int], int, int] | None:
    """Prices of `PLAIN` and the fee of a call, half a nano-dollar and a whole one, all as small."""
    known = [it for it in (prices[place] for place in PLAIN) if it is not None]
    if len(known) < len(PLAIN):
        return None
    known.append(prices[_REQUEST] or 0)
    unit = gcd(NANO // 2, *known)
    return [it // unit for it in known], NANO // 2 // unit, NANO // unit


def _rounded(units: int | None) -> int | None:
    return None if units is None else (units + NANO // 2) // NANO


def _parts(
    plain: Plain, rare: Iterable[tuple[int, int]], size: int, rates: Rates
) -> tuple[dict[int, int | None], tuple[str, ...], int | None]:
    """What each kind costs, the names of what has no price of its own, the sum.

    The sum is None if the price of a token is not known; other uses without a price are left out.
    """
    prices = rates.bands[rates.band(size)]
    unpriced = rates.unknown
    parts: dict[int, int | None] = {}
    total: int | None = 0
    for place, count in zip(PLAIN, plain):  # noqa: B905  # both are of six, and it is a tenth faster
        if count:
            price = prices[place]
            if price is None:
                unpriced += (KINDS[place],)
                parts[place] = total = None
            else:
                parts[place] = amount = price * count
                if total is not None:
                    total += amount
    parts.setdefault(_OUTPUT, 0)
    for place, count in rare:
        price = prices[place]
        if price is None:
            parts[place] = None if count else 0
            if count:
                unpriced += (KINDS[place],)
                total = total if place >= _SEARCH else None
            continue
        parts[place] = amount = price * count
        if total is not None:
            total += amount
        if place in _STANDS_IN and count and KINDS[place] not in rates.own:
            unpriced += (KINDS[place],)
    if fee := prices[_REQUEST]:
        parts[_REQUEST] = fee
        total = None if total is None else total + fee
    return parts, unpriced, total
