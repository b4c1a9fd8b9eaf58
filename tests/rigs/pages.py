"""The documents, their blocks of code, and their prose."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.mark.structures import ParameterSet


ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "DESIGN.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMING = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
"""Documents whose paths, links and commands are checked; the blocks of the first of them run."""


@dataclass(frozen=True)
class Block:
    """A fenced block: what stands behind the fence, and its lines."""

    kind: str
    source: str


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = iter(page.splitlines())
    for line in lines:
        if line.startswith("```"):
            inner = "\n".join(takewhile(lambda line: line != "```", lines))
            yield Block(line.removeprefix("```"), inner)


def prose(page: str) -> str:
    """A page without its blocks."""
    return re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)


def spans(page: str) -> list[str]:
    """What stands in backticks in the prose of a page."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def by_name(paths: list[Path]) -> list[ParameterSet]:
    return [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in paths]


each_page = pytest.mark.parametrize("path", by_name(PAGES))


each_document = pytest.mark.parametrize("path", by_name(NAMING))


def anchors(page: str) -> set[str]:
    """The anchors of the headings of a page, as the host of the repository makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: str, folder: Path) -> list[str]:
    """Relative links to files or headings that are not there."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        name, _, anchor = link.partition("#")
        target = folder / name
        if "://" in link:
            continue
        text = target.read_text("utf-8") if name and target.is_file() else page
        if not target.exists() or (anchor and anchor not in anchors(text)):
            broken.append(link)
    return broken


ENGINES = ("polars", "pandas", "datafusion", "daft", "datasets", "ray")


def lacks_engine(source: str) -> bool:
    """True for a block of an engine that is not here; tests/batch/test_recipes.py runs it."""
    used = re.findall(rf"^import ({'|'.join(ENGINES)})\b", source, re.MULTILINE)
    return any(importlib.util.find_spec(it) is None for it in used)


def python_sources(page: str) -> list[str]:
    """The blocks of Python that can run here."""
    found = [block.source for block in blocks(page) if block.kind == "python"]
    return [source for source in found if not lacks_engine(source)]
