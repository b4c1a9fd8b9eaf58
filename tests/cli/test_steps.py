"""The next total by the formula, by a recount and by characters over four, beside the bills."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tokenctx._cli.commands import app
from tokenctx._cli.evaluation.forecasts import forecasts
from tokenctx._cli.evaluation.four_characters import four_character_tokens, four_characters
from tokenctx._cli.evaluation.recordings import read_recording
from tokenctx._cli.evaluation.replay import replay
from tokenctx._cli.evaluation.steps import AFTER_TOTAL, StepReport
from tokenctx._results.tables import table_path

if TYPE_CHECKING:
    from pathlib import Path

SESSION = table_path("agent-session")


@pytest.mark.parametrize(("length", "tokens"), [(100, 25), (10, 3), (8, 2), (0, 0)])
def test_characters_by_four_are_rounded_half_up(length: int, tokens: int) -> None:
    """As dexto and opencode estimate a text."""
    assert four_characters(length) == tokens


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
    assert four_character_tokens(body) == tokens


def test_the_table_of_a_session() -> None:
    done = CliRunner().invoke(app, ["replay", str(SESSION), "--steps"])
    assert done.exit_code == 0
    assert "formula %" in done.output
    report = json.loads(CliRunner().invoke(app, ["replay", str(SESSION), "--json"]).output)
    (steps,) = report["steps"].values()
    turns = [turn for turn in report["turns"] if turn["estimate"]["source"] != "estimated"]
    billed = sum(turn["billed_tokens"] for turn in turns)
    errors = sum(abs(turn["four_character_tokens"] - turn["billed_tokens"]) for turn in turns)
    assert (steps["steps"], steps["billed_tokens"]) == (len(turns), billed)
    assert steps["four_characters"]["error_percent"] == pytest.approx(100 * errors / billed)
    ways = ("formula", "recount", "four_characters")
    assert sorted(ways, key=lambda way: steps[way]["error_percent"]) == list(ways)


@pytest.mark.slow
def test_the_formula_is_nearest_on_recorded_conversations(shared_data: Path) -> None:
    """On every provider: never farther than a recount, nor than characters by four.

    One step may be counted by chance as it was billed.
    """
    report = StepReport()
    for conversation in read_recording(shared_data / "usage/dev.jsonl.gz").conversations:
        for turn in replay(conversation):
            report.add(conversation.provider, turn, has_context=conversation.has_context)
    assert len(report.whole) > 20
    assert report.after_total.keys() < report.whole.keys()
    for steps in report.whole.values():
        formula, recount, by_four = (
            steps.error_percent(way) or 0 for way in ("formula", "recount", "four_characters")
        )
        assert formula <= recount or steps.count == 1
        assert formula <= by_four
        assert steps.count <= 40 or formula < recount < by_four


def test_steps_after_a_total_alone_are_summed_by_themselves(tmp_path: Path) -> None:
    """Nobody knows with what options that call was sent."""
    messages = [{"role": "user", "content": text} for text in "abc"]
    previous = {"n_items": 1, "input_tokens": 8, "same_context": True}
    calls = [
        {"input_tokens": 20, "prev": previous, "request": {"messages": messages[:2]}},
        {
            "input_tokens": 30,
            "prev": {**previous, "n_items": 2, "input_tokens": 20},
            "request": {"messages": messages},
        },
    ]
    path = tmp_path / "calls.jsonl"
    rows = ({"conversation_id": "a", "provider": "p", "usage": {}, **call} for call in calls)
    path.write_text("\n".join(map(json.dumps, rows)))
    report = json.loads(CliRunner().invoke(app, ["replay", str(path), "--json"]).output)
    billed = [report[name]["p"]["billed_tokens"] for name in ("steps", "steps_after_total")]
    assert billed == [30, 20]
    done = CliRunner().invoke(app, ["replay", str(path), "--steps"])
    assert AFTER_TOTAL in " ".join(done.output.split())


def test_steps_tell_what_was_read_from_the_cache(tmp_path: Path) -> None:
    long = {"type": "text", "text": "test " * 3_000, "cache_control": {"type": "ephemeral"}}
    first = {
        "new_messages": [{"role": "user", "content": [long]}],
        "usage": {"input_tokens": 4, "cache_creation_input_tokens": 3_000, "output_tokens": 5},
        "input_tokens": 3_004,
    }
    second = {
        "new_messages": [
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": [{**long, "text": "Why?"}]},
        ],
        "usage": {"input_tokens": 4, "cache_read_input_tokens": 3_000, "output_tokens": 5},
        "input_tokens": 3_004,
    }
    steps = [{**it, "model": "claude-sonnet-4-5", "output_tokens": 5} for it in (first, second)]
    line = {"kind": "agent", "dialect": "anthropic", "steps": steps}
    path = tmp_path / "session.jsonl"
    path.write_text(json.dumps(line))
    figures = forecasts(read_recording(path).conversations)["agent", True]
    assert (figures.calls, figures.near, figures.covered) == (1, 1, 1)
    steps[1]["input_tokens"] = 9_999  # another total than the usage has: it is not believed
    path.write_text(json.dumps(line))
    assert forecasts(read_recording(path).conversations)["agent", True].near == 0
