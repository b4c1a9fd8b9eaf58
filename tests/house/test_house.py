"""Imports go down only, from room to room, and never in a circle, from file to file."""

from __future__ import annotations

import ast
import functools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
ROOMS: dict[str, Any] = json.loads((ROOT / "tests/data/rooms.json").read_text("utf-8"))
CORE, PACKAGE = ROOT / "src", ROOT / "python/tokenctx"

Arrows = dict[str, set[str]]
"""The files that a file imports, by their paths in dots: `engine.reading`, `_usage.reader`."""


def rust_files(folder: Path) -> dict[str, Path]:
    """The modules of a crate; `mod.rs` has the name of its folder, `lib.rs` is left out."""
    files = {}
    for path in folder.rglob("*.rs"):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "mod" else parts)
        if name != "lib":
            files[name] = path
    return files


def rust_arrows(folder: Path) -> Arrows:
    """What the `use` lines of each module name, its own tests left out."""
    files = rust_files(folder)
    arrows: Arrows = {name: set() for name in files}
    for name, path in files.items():
        text = re.sub(r"//.*", "", path.read_text("utf-8").partition("#[cfg(test)]\nmod tests")[0])
        home = name.split(".") if path.name == "mod.rs" else name.split(".")[:-1]
        for line in re.findall(r"^ *(?:pub(?:\(.*\))? )?use ([^;]+);", text, re.MULTILINE):
            for used in spelled_out(re.sub(r"\s+", "", line)):
                arrows[name] |= {it for it in [target(used, home, path, files)] if it}
    return {name: found - {name} for name, found in arrows.items()}


def spelled_out(use: str) -> Iterator[str]:
    """`a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`."""
    inner = re.fullmatch(r"(.*?)\{(.*)\}", use)
    if inner is None:
        yield use
        return
    depth, start = 0, 0
    members = inner[2] + ","
    for at, character in enumerate(members):
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            if at > start:
                yield from spelled_out(inner[1] + members[start:at])
            start = at + 1


def target(used: str, home: list[str], path: Path, files: dict[str, Path]) -> str | None:
    """The module of the crate that a path names or has in it; None for other crates."""
    first, *rest = used.split("::")
    if first == "crate":
        parts = rest
    elif first in {"super", "self"}:
        parts = home if path.name != "mod.rs" or first == "self" else home[:-1]
        while rest and rest[0] == "super":
            parts, rest = parts[:-1], rest[1:]
        parts = [*parts, *rest]
    elif path.name == "mod.rs" and ".".join([*home, first]) in files:
        parts = [*home, first, *rest]
    else:
        return None
    names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((name for name in names if name in files), None)


def python_arrows(folder: Path) -> Arrows:
    """What the imports of each module name, at its top, in functions and for types alone."""
    package = folder.name
    files = {
        ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (*folder.rglob("*.py"), *folder.rglob("*.pyi"))
    }
    arrows: Arrows = {}
    for name, path in files.items():
        named = imported(path.read_text("utf-8"))
        own = {it.removeprefix(f"{package}.") for it in named if it.startswith(f"{package}.")}
        ends = {it if it in files else it.rpartition(".")[0] for it in own}
        arrows[name] = (ends & files.keys()) - {name}
    arrows.pop("__init__", None)  # it imports everything
    return arrows


@functools.cache
def imported(source: str) -> frozenset[str]:
    """The names that a module imports, with those of their modules."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            named |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
    return frozenset(named)


def climbing(arrows: Arrows, order: list[str]) -> list[str]:
    """The imports that do not go down, `a -> b`."""
    floor = {room: number for number, room in enumerate(order)}
    return [
        f"{name} -> {other}"
        for name, found in sorted(arrows.items())
        for other in sorted(found)
        if room(name) != room(other) and floor[room(name)] <= floor[room(other)]
    ]


def room(name: str) -> str:
    return name.partition(".")[0]


def circle(arrows: Arrows) -> list[str]:
    """Files that import each other in a circle, a folder's own file too; empty if there are none."""
    left = {name: set(found) for name, found in arrows.items()}
    while True:
        done = {name for name, found in left.items() if not found & left.keys()}
        if not done:
            return sorted(left)
        left = {name: found for name, found in left.items() if name not in done}


FOLDERS = [(CORE, rust_arrows), (PACKAGE, python_arrows)]


@pytest.mark.parametrize(("folder", "read"), FOLDERS)
def test_every_room_has_a_floor(folder: Path, read: Any) -> None:
    order = ROOMS[folder.relative_to(ROOT).as_posix()]
    assert {room(name) for name in read(folder)} == set(order)


@pytest.mark.parametrize(("folder", "read"), FOLDERS)
def test_imports_go_down_only(folder: Path, read: Any) -> None:
    assert climbing(read(folder), ROOMS[folder.relative_to(ROOT).as_posix()]) == []


@pytest.mark.parametrize(("folder", "read"), FOLDERS)
def test_no_files_import_each_other_in_a_circle(folder: Path, read: Any) -> None:
    assert circle(read(folder)) == []


@pytest.mark.parametrize(
    ("at", "line", "found"),
    [
        ("json/tape.rs", "use crate::engine::Engine;", "json.tape -> engine"),
        ("media/pdf.rs", "use crate::{Error, count::Counter};", "media.pdf -> count"),
        ("known/store.rs", "pub(crate) use super::super::engine::learn;", "known.store -> engine"),
    ],
)
def test_an_arrow_up_in_the_core_is_found(at: str, line: str, found: str, tmp_path: Path) -> None:
    turned = copied(CORE, tmp_path)
    path = turned / at
    path.write_text(f"{line}\n{path.read_text('utf-8')}", "utf-8")
    assert found in " ".join(climbing(rust_arrows(turned), ROOMS["src"]))


@pytest.mark.parametrize(
    "line",
    [
        "from tokenctx._cli.main import main",
        "def f():\n    from tokenctx._cli import main",
        "if TYPE_CHECKING:\n    import tokenctx._cli.main",
    ],
)
def test_an_arrow_up_in_the_package_is_found(line: str, tmp_path: Path) -> None:
    turned = copied(PACKAGE, tmp_path)
    with (turned / "_usage/reader.py").open("a") as file:
        file.write(f"\n{line}\n")
    up = climbing(python_arrows(turned), ROOMS["python/tokenctx"])
    assert up == ["_usage.reader -> _cli.main"]


def test_a_circle_is_found(tmp_path: Path) -> None:
    turned = copied(CORE, tmp_path)
    tape = turned / "json/tape.rs"
    tape.write_text(f"use super::parser::Parser;\n{tape.read_text('utf-8')}", "utf-8")
    assert {"json.parser", "json.tape"} <= set(circle(rust_arrows(turned)))


def copied(folder: Path, to: Path) -> Path:
    """The sources in `folder` again, in a folder of the same name."""
    made = to / folder.name
    for path in folder.rglob("*"):
        if path.suffix in {".rs", ".py", ".pyi"}:
            other = made / path.relative_to(folder)
            other.parent.mkdir(parents=True, exist_ok=True)
            other.write_bytes(path.read_bytes())
    return made
