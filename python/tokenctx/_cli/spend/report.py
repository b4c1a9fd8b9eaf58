"""Questions to the ledger: what was spent, by what, on which kinds, and what it costs elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.spend.files import CUT, TOO_LONG
from tokenctx._cli.spend.prices import COUNTED, MONEY, plain_money
from tokenctx.money.prices import STANDARD, words_of

if TYPE_CHECKING:
    import datetime as dt

    from tokenctx._cli.spend.ledger import Ledger
    from tokenctx.money.cost import Priced
    from tokenctx.money.prices import Prices

GROUPS: Final = {
    "model": "model",
    "provider": "provider",
    "tenant": "tenant",
    "conversation": "conversation",
    "tier": "tier",
    "file": "path",
    "hour": "strftime(moment, '%Y-%m-%d %H:00')",
    "day": "strftime(moment, '%Y-%m-%d')",
    "month": "strftime(moment, '%Y-%m')",
}
"""The columns that sums can be by, and how; times are those of UTC."""
COUNTS: Final = "dropped is null"
"""Holds for the calls that count."""
CALLS: Final = (
    "select path, moment as created, model, provider, tenant, conversation, tier, is_billed, "
    "input_tokens, new_tokens, read_tokens, written_tokens, written_1h_tokens, output_tokens, "
    "reasoning_tokens, nano as nano_dollars, nano_new, nano_read, nano_written, nano_output, "
    f"nano_tools, reason from kept where {COUNTS} order by seq"
)
"""A row for each call that counts."""
_SUMS: Final = ", ".join(f"coalesce(sum({it}), 0)::hugeint as {it}" for it in (*COUNTED, *MONEY))


def dollars(nano: int) -> Decimal:
    """Nano-dollars as dollars."""
    return Decimal(nano).scaleb(-9)


@dataclass(slots=True)
class Group:
    """Sums over some calls.

    Attributes:
        names: What the calls have in common; empty is unknown.
        calls: How many there are.
        open_calls: Those that have no answer yet: their input is estimated.
        unpriced_calls: Those without a price: their tokens are here, and no money for them.
        sums: Tokens and nano-dollars, by the names of `COUNTED` and `MONEY`.
    """

    names: tuple[str, ...]
    calls: int
    open_calls: int
    unpriced_calls: int
    sums: dict[str, int]

    @property
    def nano(self) -> int:
        """All that the calls cost, in nano-dollars."""
        return self.sums["nano"]

    def as_json(self, titles: tuple[str, ...] = ()) -> dict[str, Any]:
        """The sums as JSON values; money is decimal text, in dollars."""
        money = {name.replace("nano", "dollars"): f"{dollars(self.sums[name]):f}" for name in MONEY}
        return {
            **dict(zip(titles, self.names, strict=True)),
            "calls": self.calls,
            "open_calls": self.open_calls,
            "unpriced_calls": self.unpriced_calls,
            **{name: self.sums[name] for name in COUNTED},
            **money,
        }


def groups(ledger: Ledger, by: tuple[str, ...], most: int | None = None) -> list[Group]:
    """The sums by what calls have in common, the dearest first."""
    titles = [f"coalesce({GROUPS[it]}, '')" for it in by]
    grouped = f"group by {', '.join(titles)}" if by else ""
    query = (
        f"select {''.join(f'{it}, ' for it in titles)}count(*), "
        "count(*) filter (not is_billed), count(*) filter (nano is null), "
        f"{_SUMS} from kept where {COUNTS} {grouped} order by coalesce(sum(nano), 0) desc, "
        f"count(*) desc{''.join(f', {it}' for it in titles)}"
    )
    query += f" limit {most}" if most else ""
    found = []
    for row in ledger.rows(query):
        names, rest = row[: len(by)], row[len(by) :]
        sums = dict(zip((*COUNTED, *MONEY), map(int, rest[3:]), strict=True))
        found.append(Group(tuple(names), rest[0], rest[1], rest[2], sums))
    return found


def total(ledger: Ledger) -> Group:
    """The sums over all calls."""
    return groups(ledger, ())[0]


def left_out(ledger: Ledger) -> dict[str, int]:
    """Rows that are in no sum, by reason, the commonest first."""
    found = ledger.rows(
        "select reason, sum(row_count)::bigint as rows from left_out "
        "where path in (select path from named) group by reason union all "
        "select dropped, count(*) from kept where dropped is not null group by dropped "
        "order by rows desc, reason"
    )
    return dict(found)


def lost(ledger: Ledger) -> list[tuple[str, str, int]]:
    """Rows that may be calls and could not be read: their file, why, and how many."""
    return [
        (path, reason, count)
        for path, reason, count in ledger.rows(
            "select path, reason, sum(row_count)::bigint from left_out "
            "where path in (select path from named) and reason in (?, ?) group by all order by all",
            TOO_LONG,
            CUT,
        )
    ]


def unpriced(ledger: Ledger) -> list[tuple[str, str, int]]:
    """Why calls have no price, of which model, and how many; the commonest first."""
    return [
        (reason, model, count)
        for reason, model, count in ledger.rows(
            f"select reason, model, count(*) as calls from kept where {COUNTS} and reason is not "
            "null group by reason, model order by calls desc, reason, model"
        )
    ]


def undated(ledger: Ledger) -> int:
    """Calls whose time is not known: they are priced as calls of the day of the first run."""
    [(count,)] = ledger.rows(f"select count(*) from kept where {COUNTS} and moment is null")
    return int(count)


@dataclass(slots=True)
class Elsewhere:
    """The cost that the same tokens would have had.

    Attributes:
        name: The model, or what else would have been another.
        nano: Nano-dollars of the calls that have a price both here and there.
        here_nano: What these calls cost here.
        unpriced_calls: Calls without a price there, which are in neither sum.
    """

    name: str
    nano: int = 0
    here_nano: int = 0
    unpriced_calls: int = 0

    def as_json(self) -> dict[str, Any]:
        """The sums as JSON values."""
        return {
            "name": self.name,
            "dollars": f"{dollars(self.nano):f}",
            "dollars_here": f"{dollars(self.here_nano):f}",
            "unpriced_calls": self.unpriced_calls,
        }


@dataclass(frozen=True, slots=True)
class Other:
    """Another way to buy the same tokens.

    Attributes:
        name: What it is called.
        model: Another model; empty is the same.
        tier: Another service tier; None is the same.
        keeps_hour: True if all that was written is written for an hour.
    """

    name: str
    model: str = ""
    tier: str | None = None
    keeps_hour: bool = False


_PRICED: Final = (
    "select model, provider, tier, moment, nano, new_tokens, read_tokens, written_tokens, "
    "written_1h_tokens, output_tokens, reasoning_tokens, warm_tokens from {table} "
    "where dropped is null and nano is not null"
)


def elsewhere(ledger: Ledger, prices: Prices, others: list[Other]) -> list[Elsewhere]:
    """The cost of all priced calls had they been others: the same tokens at other prices."""
    found = [Elsewhere(it.name) for it in others]
    if not others:
        return []
    tables = {row[0] for row in ledger.rows("show tables")}
    has_causes = "spent" in tables
    query = _PRICED.format(table="spent" if has_causes else "kept")
    if not has_causes:
        query = query.replace("warm_tokens", "0 as warm_tokens")
    for rows in ledger.batches(query):
        for row in rows:
            for other, sums in zip(others, found, strict=True):
                priced = _priced(prices, other, row, ledger.started)
                amount = None if priced is None else _amount(priced, other, row)
                if amount is None:
                    sums.unpriced_calls += 1
                else:
                    sums.nano += amount
                    sums.here_nano += row["nano"]
    # A tier that no call could have is no choice; a model that was asked for is told all the same.
    pairs = zip(found, others, strict=True)
    return [sums for sums, other in pairs if other.model or sums.here_nano]


def _priced(prices: Prices, other: Other, row: dict[str, Any], now: dt.datetime) -> Priced | None:
    at = now if row["moment"] is None else row["moment"].replace(tzinfo=now.tzinfo)
    tier = (row["tier"] or "") if other.tier is None else other.tier
    model = other.model or row["model"]
    provider = None if other.model else row["provider"] or None
    words = words_of((tier, "", "", ""))
    found = prices.find(model, provider, at, words)
    if found is not None and found.rates.unknown and other.tier is None:
        found = prices.find(model, provider, at, STANDARD)  # that tier is sold here only
    return None if found is None or found.rates.unknown else found


def _amount(priced: Priced, other: Other, row: dict[str, Any]) -> int | None:
    new, read, written = row["new_tokens"], row["read_tokens"], row["written_tokens"]
    hour = min(row["written_1h_tokens"], written)
    if other.keeps_hour:
        kept = min(row["warm_tokens"] or 0, written)
        read, written = read + kept, written - kept
        hour = written
    reasoning = min(row["reasoning_tokens"], row["output_tokens"])
    plain = (new, read, written - hour, hour, reasoning, row["output_tokens"] - reasoning)
    found = plain_money(plain, new + read + written, priced.rates)
    return None if found is None else found[0]
