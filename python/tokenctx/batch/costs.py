"""Usage of many answers as columns, and what each of them cost in whole nano-dollars."""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenctx._core import Column, _arrow_rows
from tokenctx.batch.counts import Estimates
from tokenctx.batch.table import Table
from tokenctx.money.cost import NANO, counts_of_usage, nano_dollars
from tokenctx.money.prices import NOTHING, Prices, default_prices, said_by, words_of
from tokenctx.usage.normal import Usage, normalize_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenctx._results.estimates import Dialect
    from tokenctx.money.cost import Plain
    from tokenctx.money.prices import Said

MOST_TOKENS: Final = 2**63 - 1
"""The largest number of a column."""
Bill = tuple["Said", "Plain"]
"""The words of a call that change its prices, and its tokens; it bills nothing else."""


@dataclass(frozen=True, slots=True)
class Usages(Table):
    """Tokens of answers, a row each, in the terms of `Usage`.

    Attributes:
        input_tokens: All input.
        uncached_input_tokens: Input beside the provider's cache.
        cache_read_tokens: Input read from it.
        cache_write_tokens: Input written to it.
        output_tokens: All output.
        reasoning_tokens: Part of the output.
    """

    input_tokens: Column
    uncached_input_tokens: Column
    cache_read_tokens: Column
    cache_write_tokens: Column
    output_tokens: Column
    reasoning_tokens: Column
    _rows: tuple[Usage | None, ...]
    _bills: tuple[Bill | None, ...]


@dataclass(frozen=True, slots=True)
class Costs(Table):
    """What calls cost, a row each, in US dollars times 10 ** 9.

    Attributes:
        nano_dollars: The total; null with a reason, never 0 for a price that is not known.
    """

    nano_dollars: Column


def usage(objects: object, *, dialect: Dialect | None = None) -> Usages:
    """The usage in each of `objects`, as `normalize_usage` finds it.

    Rows are mappings, SDK objects, or JSON as `str` or bytes; or JSON lines in one buffer, or a
    column of Arrow with JSON. The reason of a null row is `null`, `syntax`, or `no_usage`.
    """
    found: list[Usage | None] = []
    reasons: list[str | None] = []
    for row in _rows(objects):
        value, reason = _read(row)
        usage = None if reason else normalize_usage(value, dialect)
        found.append(usage)
        reasons.append(reason or ("no_usage" if usage is None else None))

    def column(name: str) -> Column:
        return _numbers([None if it is None else getattr(it, name) for it in found])

    return Usages(
        Column("str", reasons),
        column("input_tokens"),
        column("uncached_input_tokens"),
        column("cache_read_tokens"),
        column("cache_write_tokens"),
        column("output_tokens"),
        column("reasoning_tokens"),
        tuple(found),
        tuple(None if it is None else _bill(it) for it in found),
    )


def _bill(usage: Usage) -> Bill | None:
    """The row of a usage; None for one that is priced alone, since it bills more than tokens."""
    plain, rare, _ = counts_of_usage(usage, None)
    if rare or usage.unread or usage.passes or usage.reported_cost is not None:
        return None
    said = said_by(usage)
    return (NOTHING if said == NOTHING else said), plain


def cost(
    usages: object,
    model: str | Iterable[str | None] | None = None,
    *,
    provider: str | None = None,
    at: dt.datetime | Iterable[dt.datetime | None] | None = None,
    service_tier: str | None = None,
    prices: Prices | None = None,
) -> Costs:
    """What each call cost, as `Prices.cost` tells it, in whole nano-dollars.

    `usages` are what `usage` takes or has made; or what `estimate` has made, of which the input is
    priced. `model` and `at` are for all rows, or one for each; an estimate has a model itself. Rows
    of other lengths are a ValueError. The reason of a null row is that of the usage, `no_model`, or
    `no_price`, also for a use that has no price.
    """
    prices = prices or default_prices()
    bills: Sequence[Bill | None]
    if isinstance(usages, Estimates):
        tokens = usages.tokens.tolist()
        calls: Sequence[Usage | None] = [None] * len(tokens)
        bills = [None if it is None else (NOTHING, (it, 0, 0, 0, 0, 0)) for it in tokens]
        reasons = usages.reason.tolist()
        model = usages.model if model is None else model
    else:
        usages = usages if isinstance(usages, Usages) else usage(usages)
        calls, bills, reasons = usages._rows, usages._bills, usages.reason.tolist()  # noqa: SLF001  # made here
    amounts: list[int | None] = [None] * len(reasons)
    groups: dict[Any, list[int]] = defaultdict(list)
    alone: list[int] = []
    models = _each("model", model, len(reasons))
    moments = _each("at", at or dt.datetime.now(dt.timezone.utc), len(reasons))
    rows_of_all = zip(bills, models, moments, reasons, strict=True)
    for row, (bill, name, moment, reason) in enumerate(rows_of_all):
        if bill is not None and name:
            groups[name, moment, bill[0]].append(row)
        elif reason is None:
            reasons[row] = None if name else "no_model"
            alone += [row] if name else []
    for row in alone:
        found = prices.cost(
            calls[row],
            model=models[row],
            provider=provider,
            at=moments[row],
            service_tier=service_tier,
        )
        units = None if found is None or found.unpriced else found.total_units()
        amounts[row] = None if units is None else (units + NANO // 2) // NANO
    for (name, moment, said), rows in groups.items():
        words = words_of(said if service_tier is None else (service_tier, *said[1:]))
        priced = prices.find(name, provider, moment, words)
        if priced is not None:
            its = nano_dollars([bills[row][1] for row in rows], priced.rates)  # type: ignore[index]
            for row, amount in zip(rows, its, strict=True):
                amounts[row] = amount
    reasons = [
        "no_price" if amount is None and reason is None else reason
        for amount, reason in zip(amounts, reasons, strict=True)
    ]
    return Costs(Column("str", reasons), _numbers(amounts))


def _numbers(numbers: list[int | None]) -> Column:
    if max(filter(None, numbers), default=0) > MOST_TOKENS:
        numbers = [None if it is None else min(it, MOST_TOKENS) for it in numbers]
    return Column("int", numbers)


def _rows(objects: object) -> Iterable[Any]:
    """The rows of a column, of a buffer of JSON lines, or of any iterable."""
    found = _arrow_rows(objects)
    if found is not None:
        return found
    if isinstance(objects, str):
        objects = objects.encode(errors="replace")
    if isinstance(objects, bytes | bytearray | memoryview):
        lines: Iterator[bytes] = (line.strip() for line in bytes(objects).split(b"\n"))
        return (line for line in lines if line)
    if isinstance(objects, dict) or not isinstance(objects, Iterable):
        raise TypeError(
            f"a {type(objects).__name__} has no rows; it must be an iterable of rows, JSON lines "
            "as bytes, or a column of Arrow"
        )
    return objects


def _read(row: Any) -> tuple[Any, str | None]:
    if row is None or row != row:  # noqa: PLR0124  # NaN is null to pandas
        return None, "null"
    if not isinstance(row, str | bytes | bytearray | memoryview):
        return row, None
    try:
        return json.loads(bytes(row) if isinstance(row, memoryview) else row), None
    except (ValueError, RecursionError):
        return None, "syntax"


def _each(name: str, value: Any, rows: int) -> list[Any]:
    """One for each row. Raises ValueError for another number."""
    if value is None or isinstance(value, str | dt.datetime):
        return [value] * rows
    values = list(value)
    if len(values) != rows:
        raise ValueError(f"{name} has {len(values)} rows and the usage {rows}; give one for each")
    return values
