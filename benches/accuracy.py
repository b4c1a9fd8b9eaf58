"""Writes the tables of `docs/accuracy.md` and README.md, as `tokenctx eval` scores recorded calls.

python3 dev.py study accuracy calls.jsonl.gz --compare litellm tiktoken langchain chars4

The page begins with what is generated; what stands behind its mark is written by hand and stays.
"""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from tokenctx import __version__
from tokenctx._cli.eval_tables import Grid, document, pools
from tokenctx._evaluation.evaluation import Evaluation, Filter, evaluate
from tokenctx._evaluation.peers import PEERS, Peer

ROOT: Final = Path(__file__).parents[1]
DOCUMENT: Final = ROOT / "docs" / "accuracy.md"
README: Final = ROOT / "README.md"
START, END = "<!-- accuracy -->\n", "<!-- end of accuracy -->\n"
LEAST_CALLS: Final = 20
README_POOLS: Final = (
    "OpenAI chat: tools",
    "Anthropic: tools",
    "Gemini: all determined",
    "other vendors",
    "files, audio, video",
    "delta, 1,000 tokens or more known",
)
README_TITLES: Final = ("pool", "N", "exact", "2 %", "5 %", "MAPE", "median", "p90", "in bounds")
"""README shows six of the pools, by these columns; the page has all of them."""
WARNING: Final = """
{date}, tokenctx {version}, {count:,} calls. **The rules were worked out on these recordings, so
expect less on others.**

"""


def with_table(readme: str, table: str) -> str:
    """`readme` with `table` between its two marks."""
    before, rest = readme.split(START)
    _, after = rest.split(END)
    return f"{before}{START}{table}{END}{after}"


def with_page(old: str, page: str) -> str:
    """`page` up to the last mark, and what stands behind the mark in `old`."""
    _, end, after = old.partition(END)
    return f"{page}\n{end or END}{after}"


def shortened(grid: Grid) -> Grid:
    """The rows and columns of `grid` that README shows, in README's order of rows."""
    columns = [grid.titles.index(title) for title in README_TITLES]
    rows = {row[0]: tuple(row[column] for column in columns) for row in grid.rows}
    kept = [rows[pool] for pool in README_POOLS if pool in rows]
    return Grid(grid.caption, README_TITLES, grid.left, kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("calls", type=Path, help="recorded calls, as `tokenctx eval` reads them")
    parser.add_argument("--compare", nargs="*", choices=PEERS, default=())
    options = parser.parse_args()
    peers = [Peer(name) for name in options.compare]
    evaluation = Evaluation(("family", "provider"), peers=peers)
    evaluate(options.calls, Filter(), evaluation, lambda _: None)
    date = datetime.now(timezone.utc).date().isoformat()
    page = document(evaluation, LEAST_CALLS, date)
    DOCUMENT.write_text(with_page(DOCUMENT.read_text("utf-8"), page), "utf-8")
    warning = WARNING.format(date=date, version=__version__, count=evaluation.record_count)
    table = f"{warning}{shortened(pools(evaluation.own)).as_markdown()}\n"
    README.write_text(with_table(README.read_text("utf-8"), table), "utf-8")
    print(f"written: the tables of {DOCUMENT.name} and {README.name}")


if __name__ == "__main__":
    main()
