"""Bills that tell their cost, beside our table: `python3 dev.py study told_costs FILE ...`.

Files are JSON lines, as text or gzip: `usage`, `model` (or `request_model`), `provider` and
`created` of calls, or `steps` of such calls. What the bill says is compared with what the table
says of the same usage: equal to the cent is a difference of at most half of one. Each call beyond
that is listed with the reason, which is what the cost itself names as not priced, or one of
`REASONS`; the exit code is 1 if one has none. Most recorded calls cost less than a cent: the shares
within 1 % are told too.
"""

from __future__ import annotations

import argparse
import collections
import datetime as dt
import gzip
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenctx import normalize_usage
from tokenctx.money import Prices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tokenctx.money import Cost

HALF_A_CENT: Final = Decimal("0.005")
NEAR: Final = Decimal("0.01")
REASONS: Final = {
    ("openrouter", "deepseek/deepseek-chat"): "a plugin searched, and the usage says nothing of it",
}
"""What no usage says, by host and model, as the request or the host's own split of its bill do."""
Row = tuple[str, str, Decimal, "Cost | None"]


def told(path: Path) -> Iterator[Row]:
    """Host, model, what the bill says, and our cost, of each call whose bill tells its cost."""
    prices = Prices()
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        for record in calls(map(json.loads, lines)):
            usage = normalize_usage(record.get("usage"))
            model = record.get("model") or record.get("request_model") or ""
            if usage is None or usage.reported_cost is None or not model:
                continue
            host = record.get("provider") or ""
            cost = prices.cost(usage, model=model, provider=host, at=moment(record.get("created")))
            yield host, model, usage.reported_cost, cost


def calls(records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Recorded calls, and those of recorded sessions, which have `steps`."""
    for record in records:
        yield from record.get("steps") or [record]


def moment(created: Any) -> dt.datetime | None:
    """When the call was made: seconds, or a date as text."""
    if not created:
        return None
    if isinstance(created, int | float):
        return dt.datetime.fromtimestamp(created, dt.timezone.utc)
    return dt.datetime.fromisoformat(str(created).replace("Z", "+00:00"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    apart: list[tuple[str, str, Decimal, Decimal, str]] = []
    for host, model, bill, cost in (row for path in options.files for row in told(path)):
        ours = None if cost is None else cost.table_total
        counts = table[host]
        counts["calls"] += 1
        if cost is None or ours is None:
            counts["without a row"] += 1
            continue
        difference = abs(ours - bill)
        counts["within 1 %"] += difference <= NEAR * bill
        counts["to the cent"] += difference <= HALF_A_CENT
        if difference > HALF_A_CENT or (cost.unpriced and difference > NEAR * bill):
            reason = ", ".join(cost.unpriced) or REASONS.get((host, model), "")
            apart.append((host, model, bill, ours, reason))
    columns = ("calls", "without a row", "to the cent", "within 1 %")
    print(f"{'host':<16}" + "".join(f"{it:>16}" for it in columns))
    table["all"] = sum(table.values(), collections.Counter())
    for host, counts in table.items():
        print(f"{host:<16}" + "".join(f"{counts[it]:>16,}" for it in columns))
    for host, model, bill, ours, reason in apart:
        print(f"{host} {model}: billed {bill}, table {ours}: {reason or 'NOT EXPLAINED'}")
    priced = table["all"]["calls"] - table["all"]["without a row"]
    print(f"{table['all']['to the cent'] / max(priced, 1):.2%} of {priced:,} equal to the cent")
    sys.exit(any(not reason for *_, reason in apart))


if __name__ == "__main__":
    main()
