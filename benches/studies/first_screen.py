"""Writes the table and the picture of README's first screen from the tables of docs/accuracy.md.

    python3 dev.py study first_screen

The picture is two files, for light and for dark pages: the share of recorded calls that each
counter tells exactly.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = ROOT / "docs" / "accuracy.md"
README: Final = ROOT / "README.md"
PICTURES: Final = {
    "light": ("#1f2328", "#59636e", "#d1d9e0"),
    "dark": ("#f0f6fc", "#9198a1", "#3d444d"),
}
"""Colours of words, of the other counters' bars, and of the lines."""
OWN_COLOUR: Final = "#2f81f7"
START, END = "<!-- accuracy -->\n", "<!-- end of accuracy -->\n"
HEADING: Final = "## Counters beside each other"
ROWS: Final = {
    "OpenAI chat: tools": "OpenAI Chat with tools",
    "OpenAI responses: countable": "OpenAI Responses",
    "Anthropic: tools": "Anthropic with tools",
    "Gemini: countable": "Gemini",
    "other vendors": "other vendors",
}
"""The pools that README shows, and what it calls them."""
COUNTERS: Final = ("tokenctx", "litellm", "tiktoken")
Row = tuple[str, str, list[tuple[int, str]]]
"""A kind of call, how many there are, and for each counter the exact share and median error."""


def compared(page: str) -> tuple[list[str], list[Row]]:
    """The counters with their versions, and the rows that README shows."""
    part = page.partition(HEADING)[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    titles, _, *rows = lines
    places = [titles.index(next(it for it in titles if it.startswith(name))) for name in COUNTERS]
    by_pool = {row[0]: row for row in rows}
    return [titles[place] for place in places], [
        (name, by_pool[pool][1], [figures(by_pool[pool][place]) for place in places])
        for pool, name in ROWS.items()
    ]


def figures(cell: str) -> tuple[int, str]:
    """The exact share and the median error of a cell such as `89 / 96 / 98, 0.0`."""
    found = re.fullmatch(r"(\d+) / \d+ / \d+, ([\d.]+)", cell)
    if found is None:
        raise ValueError(f"a cell of docs/accuracy.md is {cell!r}, not shares and an error")
    return int(found[1]), found[2]


def table(page: str) -> str:
    """The comparison for README."""
    names, rows = compared(page)
    lines = [f"| Recorded calls | {' | '.join(names)} |", "| --- | --: | --: | --: |"]
    for name, count, cells in rows:
        shown = " | ".join(f"{share} % / {error} %" for share, error in cells)
        lines.append(f"| {name} ({count}) | {shown} |")
    return "\n".join(lines) + "\n"


def picture(page: str, theme: str) -> str:
    """The shares as bars, as an SVG for light or dark pages."""
    words, others, rule = PICTURES[theme]
    _, rows = compared(page)
    left, width, bar, gap = 230, 430, 11, 20
    height = 44 + len(rows) * (3 * bar + gap)
    size = f'viewBox="0 0 760 {height}" width="760" height="{height}"'
    font = 'font-family="system-ui, sans-serif" font-size="13"'
    heading = "Calls counted exactly as billed, in %"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {font}>',
        "<title>Share of recorded calls that are counted exactly as billed, in %</title>",
        f'<text x="0" y="16" fill="{words}" font-weight="600">{heading}</text>',
    ]
    top = 36
    for name, _, cells in rows:
        middle = top + 1.5 * bar + 4
        parts.append(f'<text x="0" y="{middle:g}" fill="{words}">{escape(name)}</text>')
        for counter, (share, _) in zip(COUNTERS, cells, strict=True):
            colour = OWN_COLOUR if counter == COUNTERS[0] else others
            length = max(1.0, share / 100 * width)
            end = left + length + 6
            parts.append(
                f'<rect x="{left}" y="{top}" width="{length:g}" height="{bar - 2}" '
                f'rx="2" fill="{colour}"/>'
                f'<text x="{end:g}" y="{top + bar - 2}" fill="{words}" font-size="10">'
                f"{share} {counter}</text>"
            )
            top += bar
        top += gap
    parts.insert(3, f'<path d="M{left} 28V{height - 14}" stroke="{rule}"/>')
    return "\n".join([*parts, "</svg>\n"])


def path_of(theme: str) -> Path:
    """Where the picture of a theme stands."""
    return ROOT / "docs" / "site" / f"first-screen-{theme}.svg"


def with_table(readme: str, content: str) -> str:
    """`readme` with `content` between its two marks."""
    before, rest = readme.split(START)
    _, after = rest.split(END)
    return f"{before}{START}\n{content}\n{END}{after}"


def write() -> None:
    """Write the table and both pictures."""
    page = DOCUMENT.read_text("utf-8")
    README.write_text(with_table(README.read_text("utf-8"), table(page)), "utf-8")
    for theme in PICTURES:
        path_of(theme).write_text(picture(page, theme), "utf-8")


if __name__ == "__main__":
    write()
    print(f"written: the first screen of {README.name}, from {DOCUMENT.name}")
