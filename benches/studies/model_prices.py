"""The table of prices, made from genai-prices: `python3 dev.py study model_prices --write`.

Nothing is fetched: the numbers are those of the installed package. Of a model each part that is
priced by the token is kept, with its tiers, its periods and its hours; what is priced by the
request, the page or the second is not.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
from importlib import metadata
from pathlib import Path
from typing import Any, Final

TABLE: Final = Path(__file__).parents[2] / "python/tokenctx/data/prices.json"
FIELDS: Final = {
    "input": "input_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "output": "output_mtok",
}
REQUESTS: Final = "requests_kcount"
MAKERS: Final = (
    *("openai", "anthropic", "google", "deepseek", "x-ai", "mistral", "moonshotai", "cohere"),
    *("perplexity", "minimax", "zai", "meta", "voyageai"),
)
ABOUT: Final = (
    "Prices in dollars per million tokens, and of a million requests, by provider and model, of "
    "the package in sources; makers come first. A list is a price and its tiers, [above so many "
    "input tokens, price]; a list of rows has periods, `from` a day and `between` two times of the "
    "day (UTC), the last that holds counts. Made by dev.py study model_prices."
)


def text(price: Any) -> str:
    """A decimal without an exponent or idle zeros."""
    digits = f"{price:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def tiers(price: Any) -> Any:
    base = getattr(price, "base", None)
    if base is None:
        return text(price)
    return [text(base), *([it.start, text(it.price)] for it in price.tiers)]


def row(prices: Any, constraint: Any = None) -> dict[str, Any]:
    found = {name: getattr(prices, field) for name, field in FIELDS.items()}
    made = {name: tiers(price) for name, price in found.items() if price is not None}
    said = {name: it for name, it in vars(prices).items() if it is not None}
    if not said or any(name.endswith("_mtok") for name in said):
        made = {"input": "0", **made, "output": made.get("output", "0")}
    if made and (fee := said.get(REQUESTS)) is not None:
        made["request"] = text(fee * 1000)
    if (since := getattr(constraint, "start_date", None)) is not None:
        made["from"] = since.isoformat()
    if (start := getattr(constraint, "start_time", None)) is not None:
        made["between"] = [f"{it:%H:%M:%S}" for it in (start, constraint.end_time)]
    return made


def rows() -> dict[str, Any]:
    from genai_prices import data

    made: dict[str, Any] = {}
    for provider in data.providers:
        for model in provider.models:
            periods = model.prices
            if isinstance(periods, list):
                one: Any = [row(it.prices, it.constraint) for it in periods]
                is_priced = any("input" in it for it in one)
            else:
                one = row(periods)
                is_priced = "input" in one
            if is_priced:
                made[f"{provider.id}/{model.id}".lower()] = one
    return made


def _rank(name: str) -> int:
    """Makers come first: where nobody says who answers, the price is the maker's."""
    host = name.partition("/")[0]
    return MAKERS.index(host) if host in MAKERS else len(MAKERS)


def written(updated: str) -> str:
    """The table as text, a line for each model."""
    head = {
        "about": ABOUT,
        "updated": updated,
        "makers": MAKERS,
        "sources": {"genai-prices": metadata.version("genai-prices")},
    }
    found = sorted(rows().items(), key=lambda it: (_rank(it[0]), it[0]))
    lines = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in found]
    top = json.dumps(head, indent=1)[:-2]
    return f'{top},\n "models": {{\n' + ",\n".join(lines) + "\n }\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table")
    options = parser.parse_args()
    content = written(dt.datetime.now(dt.timezone.utc).date().isoformat())
    if options.write:
        TABLE.write_text(content, "utf-8")
    before = json.loads(TABLE.read_text("utf-8"))["models"]
    now = json.loads(content)["models"]
    changed = sum(before.get(name) != one for name, one in now.items())
    print(f"{len(now)} models, {changed} of them other than in the table, {len(content)} bytes")


if __name__ == "__main__":
    main()
