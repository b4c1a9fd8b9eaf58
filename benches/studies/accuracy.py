"""Writes the tables of `docs/accuracy.md` and README.md, as `tokenctx eval` scores recorded calls.

    python3 dev.py study accuracy a.jsonl.gz b.jsonl.gz --compare litellm tiktoken langchain chars4

The page begins with what is generated; what stands behind its mark is written by hand and stays.
README shows some rows beside those of litellm and tiktoken: `first_screen` makes them.
"""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

import first_screen
from leave_one_out import mapped
from tokenctx._cli.eval_tables import document, left_out
from tokenctx._cli.evaluation.evaluation import Evaluation, Filter, evaluate
from tokenctx._cli.evaluation.held_out import by_pool, held_out
from tokenctx._cli.evaluation.peers import PEERS, Peer

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = ROOT / "docs" / "accuracy.md"
END: Final = first_screen.END
LEAST_CALLS: Final = 20
LEFT_OUT: Final = """
## Out of project

Each project is left out in turn: constants that were fitted are fitted again to the calls of the
others, and what only this project has called falls to the nearest family. So exact / 2 % / 5 % with
all rules stand beside what a project that is not here may expect; a project that sent the same to
more than 200 models weighs each as one call. The width is the median of `high` less `low`, in % of
the count. The bounds are those of the package, which all projects made: on a project that is not
here they hold less, which `python3 dev.py study bounds` shows. `python3 dev.py study leave_one_out`
has the rows by profile.

"""


def with_page(old: str, page: str) -> str:
    """`page` up to the last mark, and what stands behind the mark in `old`."""
    _, end, after = old.partition(END)
    return f"{page}\n{end or END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("calls", type=Path, nargs="+", help="recorded calls, as `eval` reads them")
    parser.add_argument("--compare", nargs="*", choices=PEERS, default=())
    options = parser.parse_args()
    peers = [Peer(name) for name in options.compare]
    evaluation = Evaluation(("family", "provider"), peers=peers)
    for path in options.calls:
        evaluate(path, Filter(), evaluation, lambda _: None)
    with mapped("calls") as apply:
        grid = left_out("pool", by_pool(held_out(options.calls, apply)))
    date = datetime.now(timezone.utc).date().isoformat()
    page = f"{document(evaluation, LEAST_CALLS, date)}{LEFT_OUT}{grid.as_markdown()}"
    DOCUMENT.write_text(with_page(DOCUMENT.read_text("utf-8"), page), "utf-8")
    first_screen.write()
    print(f"written: the tables of {DOCUMENT.name} and README.md")


if __name__ == "__main__":
    main()
