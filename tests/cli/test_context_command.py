"""`tokenctx context`: the same numbers in a terminal and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tokenctx import ContextWindow
from tokenctx._cli.commands import app
from tokenctx._cli.context_picture import Plans, cells, segments
from tokenctx._cli.context_view import view
from tokenctx._results.tables import table_path
from tokenctx.context import ModelLimits

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
SESSION = table_path("agent-session")
SECRET = "a text that nobody may see"  # noqa: S105
NAMES = [
    "read",
    "mcp__github__" + "a_very_long_name" * 4,
    "<script>alert(1)</script>",
    "esc\x1b[31m",
]


def request(**fields: Any) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in NAMES]
    messages = [
        {"role": "system", "content": SECRET},
        {"role": "user", "content": f"{SECRET} 日本語 " * 30},
    ]
    return {"model": "gpt-4o", "messages": messages, "tools": tools, **fields}


def shown(window: ContextWindow, body: Any, width: int, *, color: Any = None) -> str:
    console = Console(
        width=width, color_system=color, force_terminal=color is not None, record=True, quiet=True
    )
    plans = Plans(window.prune(body), window.retain(body))
    with console.capture() as captured:
        console.quiet = False
        console.print(view(window.usage(body), plans, console))
    return captured.get()


def run(*words: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["context", *map(str, words)])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(request()), "utf-8")
    return path


@pytest.mark.parametrize("width", [32, 40, 80, 100])
@pytest.mark.parametrize("window_tokens", [None, 2_000, 128_000, 1_048_576])
def test_every_line_fits_and_the_bar_is_as_wide_as_it_may(
    width: int, window_tokens: int | None
) -> None:
    window = ContextWindow("gpt-4o", limits=ModelLimits(window_tokens))
    lines = shown(window, request(), width).splitlines()
    assert max(map(len, lines)) <= width
    bar = next(line for line in lines if re.fullmatch(r"S+T+f+U+[.=-]*", line))
    assert len(bar) == width
    assert any(line.startswith("U User messages") for line in lines)
    assert SECRET not in "\n".join(lines)


def test_no_colour_has_no_escapes_and_a_wide_terminal_is_not_filled() -> None:
    window = ContextWindow("gpt-4o")
    plain, coloured = (shown(window, request(), 200, color=it) for it in (None, "truecolor"))
    assert "\x1b" not in plain
    assert "█" in coloured
    assert r"esc\x1b[31m" in plain
    assert max(map(len, plain.splitlines())) == 100


def test_numbers_of_the_view_add_up_to_the_window() -> None:
    usage = ContextWindow("gpt-4o").usage(request())
    parts = segments(usage)
    assert sum(part.tokens for part in parts) == 128_000
    used = [part for part in parts if part.name not in {"free", "buffer", "reserve"}]
    assert sum(part.tokens for part in used) == usage.total_tokens
    for width in (1, 5, 40, 100):
        assert sum(cells(parts, width)) == width
        assert all(cells(parts, width))


def test_json_is_what_the_window_says(file: Path) -> None:
    values = json.loads(run(file, "--json", "--preset", "claude-code"))
    usage = ContextWindow(preset="claude-code").usage(request())
    assert values["total_tokens"] == usage.total_tokens
    assert values["threshold"]["tokens"] == 98_616
    assert values["decision"] == "continue"
    assert values["plans"]["prune"]["results"] == []


def test_options_of_the_caller(file: Path, tmp_path: Path) -> None:
    values = json.loads(run(file, "--json", "--window", "1000", "--threshold", "0.5"))
    assert (values["limits"]["window_tokens"], values["threshold"]["tokens"]) == (1_000, 500)
    mine = tmp_path / "limits.json"
    mine.write_text('{"gpt-4o": 3000}', "utf-8")
    values = json.loads(run(file, "--json", "--limits", mine, "--reserve", "0"))
    assert (values["limits"]["window_tokens"], values["free_tokens"]) == (
        3_000,
        3_000 - values["total_tokens"],
    )
    assert "claude" in run(file, "--model", "claude-sonnet-4-5")


def test_a_recorded_session_is_shown_before_its_last_call() -> None:
    values = json.loads(run(SESSION, "--json"))
    basis = values["basis"]
    assert basis["method"] == "actuals"
    known = basis["last_input_tokens"] + basis["last_output_tokens"] + basis["new_tokens"]
    assert known == values["total_tokens"]
    assert "Last actual input" in run(SESSION)


@pytest.mark.parametrize("content", ["", "{", "plain text", '{"turns": 5}', "[1, 2]"])
def test_another_file_fails_with_its_name_and_without_its_text(
    content: str, tmp_path: Path
) -> None:
    path = tmp_path / "other.json"
    path.write_text(content, "utf-8")
    output = run(path, code=1)
    assert "other.json" in output
    assert "plain text" not in output


@pytest.mark.parametrize(
    "words",
    [["--threshold", "much"], ["--threshold", "1.5"], ["--reserve", "-1"], ["--preset", "x"]],
)
def test_bad_options_are_named(words: list[str], file: Path) -> None:
    assert words[0].strip("-") in run(file, *words, code=2)


def test_a_pipe_cannot_be_watched() -> None:
    assert "--watch" in run("-", "--watch", code=2)


def test_the_file_that_failed_is_the_one_that_is_named(file: Path) -> None:
    missing = "/nonexistent/other.json"
    output = run(file, "--limits", missing, code=1)
    assert output == f"tokenctx: {missing}: No such file or directory\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [('{"messages": [', "not JSON at byte 14"), ("", "byte 0"), ("{}", "no recording")],
)
def test_what_is_no_request_is_told_with_what_would_do(
    tmp_path: Path, content: str, reason: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content, "utf-8")
    output = run(path, code=1)
    assert reason in output
    assert "a request with `messages`" in output


def test_a_watched_file_that_breaks_leaves_the_last_picture(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Callable[[], object]] = [
        lambda: file.write_text('{"messages": [', "utf-8"),
        file.unlink,
        lambda: file.write_text(json.dumps(request(model="claude-sonnet-4-5")), "utf-8"),
        lambda: None,
    ]
    cleared: list[int] = []

    def sleep(_seconds: float) -> None:
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr("tokenctx._cli.context.time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr("rich.console.Console.clear", lambda _self: cleared.append(len(steps)))
    output = CliRunner().invoke(app, ["context", str(file), "--watch"]).output
    places = [
        output.index(it) for it in ("window  gpt", "byte 14", "No such file", "window  claude")
    ]
    assert places == sorted(places)
    assert cleared == [1], "only the new picture takes the place of the old one"


def test_a_watched_file_is_shown_again_when_it_changes(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            file.write_text(json.dumps(request(model="claude-sonnet-4-5")), "utf-8")
        if len(slept) == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr("tokenctx._cli.context.time", SimpleNamespace(sleep=sleep))
    done = CliRunner().invoke(app, ["context", str(file), "--watch"])
    assert done.exit_code == 130
    assert [done.output.count(f"Context window  {it}") for it in ("gpt-4o", "claude")] == [1, 1]
