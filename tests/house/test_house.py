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

MODULE = re.compile(r"tokenctx(\.\w+)+")
"""A string that may name a module of the package."""

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
    """The modules that each module names: in imports anywhere, in strings, and in its stub.

    The core has no source here: `_core` is its stub, and the Rust files beside the package which
    import Python modules by name.
    """
    package = folder.name
    sources: dict[str, list[str]] = {}
    for path in (*folder.rglob("*.py"), *folder.rglob("*.pyi")):
        name = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        sources.setdefault(name, []).append(path.read_text("utf-8"))
    arrows: Arrows = {}
    for name, texts in sources.items():
        named = {it for text in texts for it in imported(text)}
        if name == "_core":
            named |= named_by_rust(folder.parents[1] / "src/py", package)
        own = {it.removeprefix(f"{package}.") for it in named if it.startswith(f"{package}.")}
        ends = {it if it in sources else it.rpartition(".")[0] for it in own}
        arrows[name] = (ends & sources.keys()) - {name}
    arrows.pop("__init__", None)  # the top of the package: it imports everything
    return arrows


def named_by_rust(folder: Path, package: str) -> set[str]:
    """The modules of the package that Rust files name: `"tokenctx.a.b"`, `(tokenctx.a.b, Name)`."""
    named = re.compile(rf"[\"(]\s*({package}(?:\.\w+)+)\s*[,\"]")
    files = (re.sub(r"//.*", "", it.read_text("utf-8")) for it in folder.rglob("*.rs"))
    return {name for text in files for name in named.findall(text)}


@functools.cache
def imported(source: str) -> frozenset[str]:
    """The names that a module imports, with those of their modules, and names in strings."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            named |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and MODULE.fullmatch(str(node.value)):
            named.add(str(node.value))  # for import_module, or a table of what is loaded later
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
    """Files that import each other in a circle, a folder's own file too; empty if none do."""
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
        'import_module("tokenctx._cli.main").main',
        "__import__('tokenctx._cli.main')",
        'TABLE = {"main": "tokenctx._cli.main"}',
        'NAME = "tokenctx._cli.main.main"',
    ],
)
def test_an_arrow_up_in_the_package_is_found(line: str, tmp_path: Path) -> None:
    turned = copied(PACKAGE, tmp_path)
    with (turned / "usage/reader.py").open("a") as file:
        file.write(f"\n{line}\n")
    up = climbing(python_arrows(turned), ROOMS["python/tokenctx"])
    assert up == ["usage.reader -> _cli.main"]


def hidden_imports(source: str) -> list[str]:
    """The calls that import a module whose name is put together, which no reader can follow."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in {"import_module", "__import__"}
        and not re.match(r"['\"]\w", ast.unparse(node.args[0]))
    ]


def test_modules_are_imported_by_names_that_can_be_read() -> None:
    """The front alone imports by a variable: what it read in a stub, which is read here too."""
    found = {
        path.relative_to(PACKAGE).as_posix(): hidden_imports(path.read_text("utf-8"))
        for path in PACKAGE.rglob("*.py")
    }
    assert {name for name, calls in found.items() if calls} == {"_results/front.py"}


@pytest.mark.parametrize(
    "call", ['import_module(f"tokenctx.{name}")', 'importlib.import_module(".main", "tokenctx")']
)
def test_an_import_by_a_name_that_is_put_together_is_found(call: str) -> None:
    assert hidden_imports(f"x = {call}") == [ast.unparse(ast.parse(call))]


def test_a_public_name_from_a_higher_room_is_found(tmp_path: Path) -> None:
    turned = copied(PACKAGE, tmp_path)
    with (turned / "usage/__init__.pyi").open("a") as file:
        file.write("from tokenctx._cli.main import main as main\n")
    up = climbing(python_arrows(turned), ROOMS["python/tokenctx"])
    assert up == ["usage -> _cli.main"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('fn f() { py.import("tokenctx._cli.main"); }', "_core -> _cli.main"),
        ('cell.import(py, "tokenctx.money.prices", name)', "_core -> money.prices"),
        ("pyo3::import_exception!(tokenctx.usage.normal, Usage);", "_core -> usage.normal"),
    ],
)
def test_an_arrow_from_the_core_into_the_package_is_found(
    line: str, found: str, tmp_path: Path
) -> None:
    turned = copied(PACKAGE, tmp_path / "python")
    binding = copied(CORE / "py", tmp_path / "src")
    with (binding / "errors.rs").open("a") as file:
        file.write(f"\n{line}\n")
    assert found in climbing(python_arrows(turned), ROOMS["python/tokenctx"])


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
