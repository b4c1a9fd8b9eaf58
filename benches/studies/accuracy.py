"""Writes `docs/accuracy.md` and the table of README.md, as `tokenctx eval` scores recorded calls.

python3 dev.py study accuracy calls.jsonl.gz --compare litellm tiktoken langchain chars4
"""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from tokenctx import __version__
from tokenctx._cli.eval_tables import document, pools
from tokenctx._evaluation.evaluation import Evaluation, Filter, evaluate
from tokenctx._evaluation.peers import PEERS, Peer

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = ROOT / "docs" / "accuracy.md"
README: Final = ROOT / "README.md"
START, END = "<!-- accuracy -->\n", "<!-- end of accuracy -->\n"
LEAST_CALLS: Final = 20
WARNING: Final = """
{date}, tokenctx {version}, {count:,} calls. **The rules were worked out on these recordings, so
expect less on others.**

"""


def with_table(readme: str, table: str) -> str:
    """`readme` with `table` between its two marks."""
    before, rest = readme.split(START)
    _, after = rest.split(END)
    return f"{before}{START}{table}{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("calls", type=Path, help="recorded calls, as `tokenctx eval` reads them")
    parser.add_argument("--compare", nargs="*", choices=PEERS, default=())
    options = parser.parse_args()
    peers = [Peer(name) for name in options.compare]
    evaluation = Evaluation(("family", "provider"), peers=peers)
    evaluate(options.calls, Filter(), evaluation, lambda _: None)
    date = datetime.now(timezone.utc).date().isoformat()
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(document(evaluation, LEAST_CALLS, date), "utf-8")
    warning = WARNING.format(date=date, version=__version__, count=evaluation.record_count)
    table = f"{warning}{pools(evaluation.own).as_markdown()}\n"
    README.write_text(with_table(README.read_text("utf-8"), table), "utf-8")
    print(f"written: {DOCUMENT.name} and the table of {README.name}")


if __name__ == "__main__":
    main()
