"""The next total by the formula, by a recount and by characters over four, beside the bills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tokenctx._commands import app
from tokenctx._quarter import quarter, quarter_tokens
from tokenctx._recordings import read_recording
from tokenctx._replay import replay
from tokenctx._replay_steps import Steps

SESSION = Path(__file__).parent / "data/agent-session.json"
PROVIDERS = {"anthropic", "deepseek", "groq", "mistral", "openrouter"}


@pytest.mark.parametrize(
    ("text", "tokens"), [("x" * 100, 25), ("x" * 10, 3), ("x" * 8, 2), ("", 0), (None, 0)]
)
def test_characters_by_four_are_rounded_half_up(text: str | None, tokens: int) -> None:
    """As dexto and opencode estimate a text."""
    assert quarter(text) == tokens


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"messages": []}, 0),
        ({"messages": [{"role": "user", "content": 7}]}, 0),
        ({"messages": [{"role": "user", "content": "x" * 400}]}, 100),
        ({"system": "x" * 40, "messages": []}, 10),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "url": "u" * 99}]}]},
            1_000,
        ),
        ({"messages": [], "tools": [{"name": "f"}]}, 3),
    ],
)
def test_a_request_by_four(body: Any, tokens: int) -> None:
    assert quarter_tokens(body) == tokens


def test_the_table_of_a_session() -> None:
    done = CliRunner().invoke(app, ["replay", str(SESSION), "--steps"])
    assert done.exit_code == 0
    assert "formula %" in done.output
    report = json.loads(CliRunner().invoke(app, ["replay", str(SESSION), "--json"]).output)
    (steps,) = report["steps"].values()
    turns = [turn for turn in report["turns"] if turn["estimate"]["source"] != "estimated"]
    billed = sum(turn["billed_tokens"] for turn in turns)
    errors = sum(abs(turn["quarter_tokens"] - turn["billed_tokens"]) for turn in turns)
    assert (steps["steps"], steps["billed_tokens"]) == (len(turns), billed)
    assert steps["quarter"]["error_percent"] == pytest.approx(100 * errors / billed)
    ways = ("formula", "recount", "quarter")
    assert sorted(ways, key=lambda way: steps[way]["error_percent"]) == list(ways)


def test_the_formula_is_nearest_on_recorded_conversations(shared_data: Path) -> None:
    by_provider: dict[str, Steps] = {}
    for conversation in read_recording(shared_data / "usage/dev.jsonl.gz").conversations:
        if conversation.provider in PROVIDERS:
            steps = by_provider.setdefault(conversation.provider, Steps())
            for turn in replay(conversation):
                steps.add(turn, has_context=conversation.has_context)
    assert set(by_provider) == PROVIDERS
    for steps in by_provider.values():
        assert steps.count > 40
        formula, recount, by_four = (
            steps.error_percent(way) or 0 for way in ("formula", "recount", "quarter")
        )
        assert formula < recount < by_four
