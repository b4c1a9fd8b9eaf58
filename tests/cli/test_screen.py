"""No name in a request, a recording or a path gives orders to the terminal that shows it."""

from __future__ import annotations

import ast
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tokenctx._cli.commands import app
from tokenctx._cli.screen import visible

ROOT = Path(__file__).parents[2]
HOSTILE = "\x1b]0;PWNED\x07\x1b[2J\r\u202e\x9b1m\u2066\x7f\nnext"
"""A title, a cleared screen, a turned line, C1, an isolate, delete, and a line of its own."""


def request(**fields: Any) -> dict[str, Any]:
    function = {"name": f"tool{HOSTILE}", "parameters": {}}
    return {
        "model": f"gpt-4o{HOSTILE}",
        "messages": [{"role": "user", "content": "hello"}, {"role": HOSTILE, "content": "x"}],
        "tools": [{"type": "function", "function": function}],
        **fields,
    }


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    call = {"request": request(), "usage": {"prompt_tokens": 9}, "input_tokens": 9}
    call |= {"provider": HOSTILE, "api": "openai.chat", "model": HOSTILE, "id": HOSTILE}
    turn = {"request": request(), "usage": {"prompt_tokens": 9}, "reply": None}
    contents = {
        "request": request(),
        "calls": call,
        "grouped": {**call, "conversation_id": HOSTILE},
        "session": {"about": HOSTILE, "provider": HOSTILE, "turns": [turn]},
    }
    names = {}
    for name, content in contents.items():
        path = tmp_path / name
        path.write_text(json.dumps(content), "utf-8")
        names[name] = str(path)
    return {**names, "missing": str(tmp_path / f"none{HOSTILE}"), "page": str(tmp_path / "page")}


@pytest.mark.parametrize(
    "words",
    [
        "count request",
        "count --messages request request",
        "count missing",
        "context request",
        "context missing",
        "context request --limits missing",
        "eval calls --least 1 --worst 5",
        "eval calls --least 1 --by model",
        "eval calls --least 1 --markdown",
        "eval calls --vocabulary missing",
        "eval calls --by missing",
        "profiles missing",
        "profiles --profiles missing",
        "replay grouped --verbose",
        "replay session",
        "replay missing",
        "missing",
        "count --missing",
    ],
)
def test_foreign_text_is_shown_and_never_obeyed(files: dict[str, str], words: str) -> None:
    given = [
        files.get(word, f"--{files['missing']}" if word == "--missing" else word)
        for word in words.split()
    ]
    done = CliRunner().invoke(app, given)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    page = Path(files["page"])
    output = done.output + (page.read_text("utf-8") if page.exists() else "")
    assert "PWNED" in output, "the name is not shown, so this shows nothing"
    orders = {it for it in output if unicodedata.category(it) in {"Cc", "Cf", "Zl", "Zp"}}
    assert orders <= {"\n"}
    assert not any(line.startswith("next") for line in output.splitlines())


def test_printable_text_stays() -> None:
    assert visible("größe 日本語 🙂 [bold] \\x1b") == "größe 日本語 🙂 [bold] \\x1b"


def test_one_module_prints() -> None:
    for path in (ROOT / "python/tokenctx").rglob("*.py"):
        calls = [
            it.func for it in ast.walk(ast.parse(path.read_text())) if isinstance(it, ast.Call)
        ]
        names = {it.id if isinstance(it, ast.Name) else getattr(it, "attr", "") for it in calls}
        unsafe = {"echo", "secho"} | ({"Text"} if path.parent.name == "_cli" else set())
        assert path.name == "screen.py" or not names & unsafe, path
        assert "print" not in {it.id for it in calls if isinstance(it, ast.Name)}, path
