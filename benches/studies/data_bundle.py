"""One bundle of profiles, bounds, limits and prices, for `tokenctx data`, and what it changes.

    python3 dev.py study data_bundle --newest --output bundle.json

Profiles and bounds are those of this tree; limits and prices are made anew from the installed
packages, of which `--newest` takes the newest releases. Nothing else is fetched. What differs from
the tables of the package is printed for review: whoever publishes a bundle answers for each row.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
from pathlib import Path

import model_limits
import model_prices
from tokenctx._estimate.data import bundle_of, differences
from tokenctx._results.tables import read_table

MOST_LINES = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, help="the bundle to write")
    parser.add_argument("--all", action="store_true", help="print every row that differs")
    options = parser.parse_args()
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    tables = {
        "profiles": read_table("profiles"),
        "bounds": read_table("bounds"),
        "limits": model_limits.table(model_limits.rows_by_name(), read_table("limits")),
        "prices": json.loads(model_prices.written(model_prices.rows()[0], today)),
    }
    for name, rows in differences(tables).items():
        print(f"{name}: {len(rows):,} rows differ")
        for row, (old, new) in list(rows.items())[: None if options.all else MOST_LINES]:
            print(f"  {row}: {json.dumps(old)} -> {json.dumps(new)}")
    if options.output:
        options.output.write_text(json.dumps(bundle_of(tables)), "utf-8")
        print(f"written: {options.output.name}, {options.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
