"""The house stays small and plain: lines by room, words of its comments, rooms of its tests."""

from __future__ import annotations

import ast
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
ROOMS: dict[str, Any] = json.loads((ROOT / "tests/data/rooms.json").read_text("utf-8"))
TOPS = ("src", "python/tokenctx")
SUFFIXES = {".rs", ".py", ".pyi"}
MOST_RIDDLES = 60
MOST_LINES_OF_A_TEST = 500
MOST_LINES_OF_CODE = 700
LONG = {"src/bpe/split/mod.rs"}
"""One rule over one kind of block: its speed is frozen, so its lines only go."""
NO_CODE = {"benches", "data", "house", "node", "reference", "rigs"}
"""Folders of `tests/` that are named after no room: what they test or hold is not in one."""


def sources(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*.*")) if path.suffix in SUFFIXES)


def lines_by_room(top: Path) -> dict[str, int]:
    """The lines of each room, those of tests inside of Rust files left out."""
    found: dict[str, int] = {}
    for path in sources(top):
        room = path.relative_to(top).parts[0].partition(".")[0]
        code = path.read_text("utf-8").partition("#[cfg(test)]\nmod tests")[0]
        found[room] = found.get(room, 0) + code.count("\n")
    return found


def over_budget(top: Path, budgets: dict[str, int]) -> list[str]:
    """The rooms without a budget, and those with more lines than they may have."""
    return [
        f"{room} has {lines} lines of {budgets.get(room, 0)}"
        for room, lines in lines_by_room(top).items()
        if lines > budgets.get(room, 0)
    ]


def riddles(path: Path) -> list[str]:
    """The comments of a file that open with What or Whether, and so do not say who does it."""
    text = path.read_text("utf-8")
    if path.suffix == ".rs":
        lines = ["", *(line.strip() for line in text.splitlines())]
        firsts = (it for before, it in pairwise(lines) if not before.startswith(("///", "//!")))
        return [it for it in firsts if re.match(r"//[/!] (?:What|Whether)\b", it)]
    texts = (
        node.value.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
    return [it for it in texts if isinstance(it, str) and re.match(r"\s*(?:What|Whether)\b", it)]


@pytest.mark.parametrize("top", TOPS)
def test_no_room_has_more_lines_than_its_budget(top: str) -> None:
    """Whoever raises a budget in `rooms.json` says why in the commit."""
    assert over_budget(ROOT / top, ROOMS["lines"][top]) == []


@pytest.mark.parametrize("top", TOPS)
def test_a_budget_is_a_little_above_the_lines(top: str) -> None:
    """A room that has shrunk does not grow again unseen."""
    lines, budgets = lines_by_room(ROOT / top), ROOMS["lines"][top]
    assert budgets.keys() == lines.keys()
    assert [it for it in budgets if budgets[it] > lines[it] * 1.05 + 50] == []


def test_comments_say_who_does_what() -> None:
    files = [path for top in TOPS for path in sources(ROOT / top)]
    found = [(path.name, it) for path in files for it in riddles(path)]
    assert len(found) <= MOST_RIDDLES, found


def test_a_room_of_tests_has_the_name_of_a_room_of_code() -> None:
    rooms = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()} - {"__pycache__"}
    code = {room.strip("_") for top in TOPS for room in ROOMS[top]}
    assert sorted(rooms - code - NO_CODE) == []
    loose = {path.name for path in (ROOT / "tests").iterdir() if path.is_file()}
    assert loose == {"conftest.py"}


def test_no_file_of_tests_is_long() -> None:
    files = [*(ROOT / "tests").glob("*/*.py"), *(ROOT / "tests").glob("*/*.rs")]
    lengths = {path.name: path.read_text("utf-8").count("\n") for path in files}
    assert len(lengths) > 100
    assert {name: it for name, it in lengths.items() if it > MOST_LINES_OF_A_TEST} == {}


def test_no_file_of_code_is_long() -> None:
    files = [path for top in TOPS for path in sources(ROOT / top) if path.suffix != ".pyi"]
    lengths = {str(it.relative_to(ROOT)): it.read_text("utf-8").count("\n") for it in files}
    assert {name for name, it in lengths.items() if it > MOST_LINES_OF_CODE} == LONG


def test_a_line_too_many_is_found(tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()
    (tmp_path / "json/mod.rs").write_text("a\nb\n#[cfg(test)]\nmod tests {\n}\n", "utf-8")
    assert over_budget(tmp_path, {"json": 2}) == []
    (tmp_path / "json/more.rs").write_text("c\n", "utf-8")
    assert over_budget(tmp_path, {"json": 2}) == ["json has 3 lines of 2"]
    assert over_budget(tmp_path, {}) == ["json has 3 lines of 0"]


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("a.rs", "/// What it costs.\nfn a() {}\n", 1),
        ("a.rs", "//! Whether it does.\n", 1),
        ("a.rs", "/// The price,\n/// What of it.\nfn a() {}\n// What is this?\n", 0),
        ("a.py", 'def a():\n    """Whether it does."""\n', 1),
        ("a.py", 'A = 1\n"""What it is."""\n', 1),
        ("a.py", 'A = "What it is."\n', 0),
    ],
)
def test_a_riddle_is_found(name: str, text: str, count: int, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert len(riddles(tmp_path / name)) == count
