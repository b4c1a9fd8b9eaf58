"""The plots of the site, made from numbers that stand in the tree: tables of pages, and floors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tomli

import plots

if TYPE_CHECKING:
    from collections.abc import Callable

BENCHES: Final = Path(__file__).resolve().parents[2] / "benches"
Rows = list[dict[str, str]]


def table(part: str) -> Rows:
    """The first table of a part of a page, a dict for each row."""
    found = re.search(r"^\|.*\n\|[ :|-]+\n(?:\|.*(?:\n|$))+", part, re.MULTILINE)
    if found is None:
        raise ValueError("no table stands under the heading")
    head, _, *rows = (
        [cell.strip() for cell in line.strip("| ").split(" | ")]
        for line in found[0].strip().splitlines()
    )
    return [dict(zip(head, row, strict=True)) for row in rows]


def counters(part: str) -> str:
    """Calls within 2 % of the bill, of each counter."""
    rows = table(part)
    names = [name for name in rows[0] if name not in {"pool", "N"}]
    shares = [(row["pool"], [float(row[name].split(" / ")[1]) for name in names]) for row in rows]
    return plots.dots("Calls within 2 % of the bill, in %", names, shares)


def pools(part: str) -> str:
    """Calls that are exact, and within some percent."""
    names = ["exact", "2 %", "5 %", "10 %"]
    shares = [(row["pool"], [float(row[name]) for name in names]) for row in table(part)]
    return plots.dots("Calls that are exact, or within 2, 5, 10 % of the bill, in %", names, shares)


def bounds(part: str) -> str:
    """Bills within the bounds of their estimate."""
    shares = [(row["pool"], [float(row["in bounds"])]) for row in table(part)]
    return plots.dots("Bills within low and high, in %", ["in bounds"], shares, low=50)


def floors(_: str) -> str:
    """The least ratio of each benchmark that CI allows."""
    rows = tomli.loads((BENCHES / "floors.toml").read_text("utf-8"))
    ratios = sorted(
        ((name, [float(row["ratio"])]) for name, row in rows.items()), key=lambda r: r[1]
    )
    low, high = 0.1, 10 ** len(str(int(ratios[-1][1][0])))
    title = "Least times as fast as the plain reference, or as a peer, that passes"
    return plots.dots(title, ["floor"], ratios[::-1], low=low, high=high, is_logarithmic=True)


def instructions(_: str) -> str:
    """Instructions per byte of text, by corpus and encoding."""
    recorded = tomli.loads((BENCHES / "instructions.toml").read_text("utf-8"))
    names = [name for name in recorded if name.endswith("_base")]
    rows = [(corpus, [recorded[name][corpus] for name in names]) for corpus in recorded[names[0]]]
    high = 1.1 * max(max(values) for _, values in rows)
    return plots.dots("Instructions per byte of new text", names, rows, high=high)


def calls(_: str) -> str:
    """Instructions per byte of a body or a stream, by what is done with it."""
    recorded = tomli.loads((BENCHES / "instructions.toml").read_text("utf-8"))
    rows = [
        (f"{name.replace('_', ' ')} ({table})", [spent])
        for table in ("core", "package")
        for name, spent in recorded[table].items()
    ]
    title = "Instructions per byte of a request or a stream"
    return plots.dots(title, [title], rows, low=1, high=1000, is_logarithmic=True)


FIGURES: Final[dict[tuple[str, str], tuple[Callable[[str], str], ...]]] = {
    ("accuracy.md", "Pools, with must and aim"): (pools, bounds),
    ("accuracy.md", "Counters beside each other"): (counters,),
    ("counting.md", "Floors"): (floors,),
    ("counting.md", "Instructions"): (instructions, calls),
}
"""Page and beginning of a heading, and what is drawn under it."""


def with_plots(name: str, text: str) -> str:
    """A page with its plots, each at the end of the first paragraph of its part."""
    for (page, title), figures in FIGURES.items():
        if page != name:
            continue
        head = re.search(rf"^##+ {re.escape(title)}.*\n", text, re.MULTILINE)
        if head is None:
            raise ValueError(f"{name} has no heading that begins with {title!r}; mend FIGURES")
        part = re.split(r"\n##+ ", text[head.end() :], maxsplit=1)[0]
        drawn = "\n\n".join(figure(part) for figure in figures)
        text = f"{text[: head.end()]}\n{drawn}\n{text[head.end() :]}"
    return text
