"""The provider's cost export beside the ledger: how far they differ, and which rows explain it."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.spend.files import SpendError
from tokenctx._cli.spend.report import COUNTS, dollars
from tokenctx._core import model_name
from tokenctx.money.prices import DATED, STANDARD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tokenctx._cli.spend.ledger import Ledger
    from tokenctx.money.prices import Prices

DAY: Final = (
    *("usage_date_utc", "usage_date", "date", "day", "start_time_iso", "start_time"),
    *("bucket_start_time", "bucket", "period", "usage_start_time", "timestamp"),
)
MODEL: Final = ("model", "model_name", "model_version", "sku", "line_item", "description")
AMOUNT: Final = (
    *("cost_usd", "amount_usd", "cost", "amount_value", "amount", "total_cost", "cost_in_usd"),
    *("spend", "price", "total", "value"),
)
"""Columns of the exports, in small letters with `_`; the first that is there counts."""
MOST_FIELD_CHARACTERS: Final = 1 << 20
NANO: Final = 10**9
CENT: Final = NANO // 100


@dataclass(frozen=True, slots=True)
class Line:
    """One day and model of the bill.

    Attributes:
        day: The day in UTC; empty is none that the bill tells.
        billed_nano: Nano-dollars of the bill.
        ours_nano: Those of the ledger.
        why: What explains the difference; empty where there is none.
    """

    day: str
    model: str
    billed_nano: int
    ours_nano: int
    why: str = ""

    @property
    def missing_nano(self) -> int:
        """How much more the bill is."""
        return self.billed_nano - self.ours_nano

    def as_json(self) -> dict[str, Any]:
        """The line as JSON values; money is decimal text, in dollars."""
        return {
            "day": self.day,
            "model": self.model,
            "dollars_billed": f"{dollars(self.billed_nano):f}",
            "dollars": f"{dollars(self.ours_nano):f}",
            "why": self.why,
        }


def compared(ledger: Ledger, prices: Prices, path: Path) -> list[Line]:
    """Each day and model of the bill and of the ledger, what differs most first.

    Models are the same if their names are but for a date. Raises SpendError for what is no
    export, OSError if it cannot be read.
    """
    names: dict[str, str] = {}

    def common(model: str) -> str:
        if model not in names:
            found = prices.find(model, None, ledger.started, STANDARD) if model else None
            names[model] = DATED.sub("", model_name(found.model if found else model))
        return names[model]

    billed: dict[tuple[str, str], int] = {}
    has_days = False
    for day, model, nano in _rows(path):
        key = (day, common(model))
        has_days |= bool(day)
        billed[key] = billed.get(key, 0) + nano
    ours: dict[tuple[str, str], tuple[int, int, int]] = {}
    when = "strftime(moment, '%Y-%m-%d')" if has_days else "''"
    for day, model, nano, lacking, undated in ledger.rows(
        f"select coalesce({when}, ''), model, coalesce(sum(nano), 0)::bigint, "
        "count(*) filter (nano is null), count(*) filter (moment is null) "
        f"from kept where {COUNTS} and is_billed group by 1, 2"
    ):
        key = (day, common(model))
        had = ours.get(key, (0, 0, 0))
        ours[key] = (had[0] + nano, had[1] + lacking, had[2] + undated)
    days = {day for day, _ in billed}
    found = [
        Line(*key, billed.get(key, 0), ours.get(key, (0,))[0], _why(key, billed, ours, days))
        for key in {*billed, *ours}
    ]
    return sorted(found, key=lambda it: (-abs(it.missing_nano), it.day, it.model))


def _why(
    key: tuple[str, str],
    billed: dict[tuple[str, str], int],
    ours: dict[tuple[str, str], tuple[int, int, int]],
    days: set[str],
) -> str:
    bill, (nano, lacking, undated) = billed.get(key, 0), ours.get(key, (0, 0, 0))
    if abs(bill - nano) < CENT and not lacking:
        return ""
    if key not in ours:
        return "no call of this model and day is in the files"
    if lacking:
        return f"{lacking:,} calls have no price here"
    if undated and not key[0]:
        return f"{undated:,} calls have no time, so that they are on no day of the bill"
    if key not in billed:
        return "not in the bill" if key[0] in days or not key[0] else "a day that the bill lacks"
    if bill > nano:
        return "calls are missing in the files, or were billed at other prices"
    return "the bill has a discount or a credit, or calls count twice in the files"


def _rows(path: Path) -> Iterator[tuple[str, str, int]]:
    """Day, model and nano-dollars of each row of an export."""
    csv.field_size_limit(MOST_FIELD_CHARACTERS)
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.DictReader(file)
        named = {_plain(it): it for it in reader.fieldnames or ()}
        day, model, amount = (
            next((named[it] for it in names if it in named), None) for names in (DAY, MODEL, AMOUNT)
        )
        if amount is None:
            raise SpendError(
                f"{path} is no cost export: it has no column for the money; one must be called "
                f"{', '.join(AMOUNT)}"
            )
        try:
            for row in reader:
                nano = _nano(row.get(amount) or "")
                if nano is not None:
                    yield _day(row.get(day or "") or ""), _model(row.get(model or "") or ""), nano
        except csv.Error as error:
            raise SpendError(f"{path} is no CSV, line {reader.line_num}: {error}") from None


def _plain(title: str) -> str:
    return re.sub(r"\W+", "_", title.strip().lower()).strip("_")


def _nano(amount: str) -> int | None:
    try:
        found = Decimal(amount.strip().lstrip("$").replace(",", ""))
        return round(found * NANO) if found.is_finite() else None
    except (InvalidOperation, ValueError, OverflowError):
        return None


def _day(text: str) -> str:
    found = re.match(r"\d{4}-\d{2}-\d{2}", text.strip())
    if found:
        return found[0]
    if text.strip().isdigit():
        from tokenctx._cli.evaluation.logs import created

        seconds = created(text.strip())
        if seconds is not None and 0 < seconds < 1 << 35:
            import datetime as dt

            return dt.datetime.fromtimestamp(seconds, dt.timezone.utc).date().isoformat()
    return ""


def _model(text: str) -> str:
    """The model in an item such as `gpt-4o-2024-08-06, cached input`."""
    return text.partition(",")[0].strip()
