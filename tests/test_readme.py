"""The README does what it says: its Python runs, and its commands exist."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def run_block(source: str, names: dict[str, Any]) -> list[tuple[str, str]]:
    """What an expression with a comment is, and what its comment says it is."""
    lines, pairs = source.splitlines(), []
    for node in ast.parse(source).body:
        comment = lines[(node.end_lineno or 1) - 1][node.end_col_offset :].strip()
        if isinstance(node, ast.Expr) and comment.startswith("# "):
            code = compile(ast.Expression(node.value), "README.md", "eval")
            pairs.append((repr(eval(code, names)), comment.removeprefix("# ")))  # noqa: S307
        else:
            exec(compile(ast.Module([node], []), "README.md", "exec"), names)  # noqa: S102
    return pairs


def test_every_python_block_gives_the_output_beside_it() -> None:
    names: dict[str, Any] = {}
    pairs = [pair for block in blocks("python") for pair in run_block(block, names)]
    assert len(pairs) >= 5
    assert [actual for actual, _ in pairs] == [stated for _, stated in pairs]


@pytest.mark.parametrize("command", ["demo", "test"])
def test_the_two_commands_are_in_the_first_screen_and_exist(command: str) -> None:
    assert f"python3 dev.py {command}" in "\n".join(README.splitlines()[:60])
    words = [sys.executable, "dev.py", command, "--help"]
    subprocess.run(words, cwd=ROOT, capture_output=True, check=True)


def test_every_file_that_is_linked_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []
