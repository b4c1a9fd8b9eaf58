"""The tables of docs/assumptions.md, made of `assumptions.json`, which the commands read, too.

python tests/rigs/assumption_tables.py --write
"""

from __future__ import annotations

import sys

from pages import ROOT
from tokenctx._results.tables import read_table

FILE = ROOT / "docs" / "assumptions.md"
HEAD = "| Word | What was guessed, and how it is counted | What to do |\n| --- | --- | --- |\n"
ROW = "| `{name}` | {meaning} | {remedy} |\n"


def page() -> str:
    """The whole file: its beginning, and the lines before a table, as they are written by hand."""
    first, *old = FILE.read_text("utf-8").split("\n## ")
    said = {it.partition("\n")[0]: it.partition("| Word |")[0] for it in old}
    sections = [
        said.get(it["title"], f"{it['title']}\n\n")
        + HEAD
        + "".join(ROW.format(**r) for r in it["rows"])
        for it in read_table("assumptions")["sections"]
    ]
    return "\n## ".join([first, *sections])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(page(), "utf-8")
    elif FILE.read_text("utf-8") != page():
        sys.exit("docs/assumptions.md is old; run python tests/rigs/assumption_tables.py --write")
