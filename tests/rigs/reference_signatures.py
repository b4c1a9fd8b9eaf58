"""The signatures in the reference, for who reads it as Markdown; the site has docstrings there.

    python tests/rigs/reference_signatures.py --write

They are those of the sources and of the stub of the core, so that no framework need be there.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "python/tokenctx"
PAGES: Final = ROOT / "docs/reference"
HEADING: Final = re.compile(
    r"^## (`tokenctx\.[^\n]*)\n\n(?:```text\n.*?^```\n\n)?", re.MULTILINE | re.DOTALL
)
COLUMNS: Final = 100
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def definitions(path: Path) -> dict[str, Definition]:
    """The classes and functions of a module, by name; of overloads the last."""
    body = ast.parse(path.read_text("utf-8")).body
    return {it.name: it for it in body if isinstance(it, Definition)}


def definition(name: str) -> Definition | None:
    """What a public name is defined by, found by the stubs; None for a value."""
    module, _, last = name.rpartition(".")
    place = PACKAGE.joinpath(*module.split(".")[1:])
    for path in (place.with_suffix(".py"), place.with_suffix(".pyi"), *place.glob("__init__.py*")):
        if not path.is_file():
            continue
        if last in definitions(path):
            return definitions(path)[last]
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module != module:
                for it in node.names:
                    if last == (it.asname or it.name):
                        return definition(f"{node.module}.{it.name}")
    return None


def signature(name: str) -> list[str]:
    """The lines of a public name: of a class its own, its fields and its public methods."""
    found = definition(name)
    if found is None:
        return []
    if not isinstance(found, ast.ClassDef):
        return _callable(found, is_method=False)
    lines = [f"class {found.name}"]
    for node in found.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == "__init__":
                lines[0:1] = _callable(node, is_method=True, name=f"class {found.name}")
            elif node.name[0] != "_":
                lines += [f"    {line}" for line in _callable(node, is_method=True)]
        elif isinstance(node, ast.AnnAssign):
            field = ast.unparse(node)
            if field[0] != "_" and "ClassVar" not in field:
                lines.append(f"    {field}")
    return lines


def _callable(
    node: ast.FunctionDef | ast.AsyncFunctionDef, *, is_method: bool, name: str = ""
) -> list[str]:
    decorators = {ast.unparse(it).rpartition(".")[2] for it in node.decorator_list}
    given = node.args
    if given.kwarg is not None and ast.unparse(given.kwarg).endswith("Unpack[NoFields]"):
        given.kwarg = None  # so that a wrong name is answered; there are no others
    if is_method and "staticmethod" not in decorators:
        given = ast.arguments(
            posonlyargs=given.posonlyargs[1:] if given.posonlyargs else [],
            args=given.args if given.posonlyargs else given.args[1:],
            vararg=given.vararg,
            kwonlyargs=given.kwonlyargs,
            kw_defaults=given.kw_defaults,
            kwarg=given.kwarg,
            defaults=given.defaults,
        )
    told = "" if node.returns is None or name else f" -> {ast.unparse(node.returns)}"
    if "property" in decorators or "cached_property" in decorators:
        return [f"{node.name}: {told.removeprefix(' -> ')}"]
    start = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    words = _arguments(ast.unparse(given))
    lines = [f"{start}{name or node.name}("]
    for word in words:
        if len(lines[-1]) + len(word) > COLUMNS - len("    ") - len(told):
            lines.append("    ")
        lines[-1] += f"{word} "
    lines[-1] = f"{lines[-1].rstrip()}){told}"
    return [line.rstrip() for line in lines]


def _arguments(text: str) -> list[str]:
    """The arguments in a signature, each with its comma, written as in the sources."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == " " and depth == 0 and found[-1].endswith(","):
            found.append("")
        else:
            found[-1] += letter
    spaced = (re.sub(r"^(\w+: [^=]+)=", r"\1 = ", word) for word in found)
    return [word for word in spaced if word]


def with_signatures(page: str) -> str:
    """The page with the signatures under its headings."""

    def part(match: re.Match[str]) -> str:
        names = re.findall(r"`(tokenctx\.[\w.]+)`", match[1])
        lines = [line for name in names for line in signature(name)]
        block = "```text\n" + "\n".join(lines) + "\n```\n\n" if lines else ""
        return f"## {match[1]}\n\n{block}"

    return HEADING.sub(part, page)


def main() -> None:
    """Write the signatures into every page of the reference."""
    if "--write" not in sys.argv[1:]:
        sys.exit(__doc__)
    for path in PAGES.glob("*.md"):
        path.write_text(with_signatures(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
