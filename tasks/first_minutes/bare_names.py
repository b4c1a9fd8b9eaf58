"""Ask the installed package for the price and window of every maker's bare names."""

import json
import sys
from decimal import Decimal
from importlib.resources import files

import tokenctx
from tokenctx.context import model_limits
from tokenctx.usage import Usage

TENTH = Usage(uncached_input_tokens=100_000)  # of a million; long calls cost more
ANNOUNCED = {
    "gpt-4o": "2.5",
    "gpt-4o-mini": "0.15",
    "gpt-4.1": "2",
    "gpt-5": "1.25",
    "claude-opus-4-5": "5",
    "claude-sonnet-4-5": "3",
    "claude-haiku-4-5": "1",
    "gemini-2.5-flash": "0.3",
    "grok-4": "3",
}
"""Dollars for a million tokens of input, by the makers' own pages, 2025: not by any table."""
TURN = Usage(uncached_input_tokens=500_000, cache_read_tokens=500_000, output_tokens=100_000)


def main() -> None:
    table = json.loads(files(tokenctx).joinpath("data/prices.json").read_text("utf-8"))
    wrong, asked, makers = [], 0, table["makers"]  # who makes models and sells them
    for name in table["models"]:
        maker, _, bare = name.partition("/")
        of_another = any(bare.startswith(f"{it}-") for it in makers)
        if maker not in makers or of_another or {":", "@", "/"} & set(bare):
            continue
        if any(f"{it}/{bare}" in table["models"] for it in makers[: makers.index(maker)]):
            continue  # the one who made it was asked
        asked += 1
        expected, cost = TURN.cost(name), TURN.cost(bare)
        if cost is None or expected is None:
            wrong.append(f"{bare} has no price, and {name} has one")
        elif cost.total != expected.total:
            wrong.append(f"{bare} costs {cost.total}, and {name} {expected.total}")
    for name, announced in ANNOUNCED.items():
        cost = TENTH.cost(name)
        total = None if cost is None or cost.total is None else cost.total * 10
        if total != Decimal(announced):
            wrong.append(f"{name} costs {total}, and its maker asks {announced}")
    wrong += [f"{it} has no window" for it in ANNOUNCED if not model_limits(it).window_tokens]
    print(f"bare names: {asked} have the price of their maker, but for {len(wrong)}")
    if wrong or asked < 100:
        sys.exit("\n".join(wrong[:20]) or f"only {asked} names were found")


if __name__ == "__main__":
    main()
