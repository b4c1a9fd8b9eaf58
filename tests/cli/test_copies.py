"""Two copies of one call without an id count once, and are said; two calls that look alike stay."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from cli.test_drawn_logs import cost, totals
from tokenctx._cli.commands import app
from tokenctx._cli.evaluation.logs import REPEATED

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]
START = 1_764_000_000
LONG = "All that there is to say about tides, in a sentence that nobody is given twice. " * 2


def call(text: str = "", at: object = None, tokens: int = 90, **more: Any) -> Json:
    """A request with its answer and no id."""
    usage = {"prompt_tokens": tokens, "completion_tokens": 5}
    choice = {"message": {"role": "assistant", "content": text or "yes"}}
    row = {
        "request": {"model": "gpt-4o", "messages": [{"role": "user", "content": "Why?"}]},
        "response": {"model": "gpt-4o", "choices": [choice], "usage": usage},
        **more,
    }
    return row if at is None else {**row, "timestamp": at}


def recorded(text: str = "", at: object = None, tokens: int = 90, **more: Any) -> Json:
    """The same as `tokenctx eval` reads it."""
    row = call(text, at, tokens, **more)
    return {**row, "usage": row["response"]["usage"], "input_tokens": tokens}


def answered(text: str = "", at: object = None, tokens: int = 90, **more: Any) -> Json:
    """The answer alone."""
    row = call(text, at, tokens, **more)
    del row["request"]
    return row


def written(rows: list[Json], path: Path) -> Path:
    path.write_text("".join(json.dumps(it) + "\n" for it in rows), "utf-8")
    return path


PAIRS: dict[str, tuple[Json, Json, int]] = {
    "same time": ({"at": START}, {"at": START}, 1),
    "same time in other words": ({"at": START}, {"at": "2025-11-24T16:00:00Z"}, 1),
    "same time, collected twice": ({"at": START, "shard": 1}, {"at": START, "shard": 2}, 1),
    "same long answer": ({"text": LONG}, {"text": LONG}, 1),
    "same short answer": ({}, {}, 2),
    "another time": ({"at": START, "text": LONG}, {"at": START + 2, "text": LONG}, 2),
    "another usage": ({"at": START}, {"at": START, "tokens": 91}, 2),
    "another answer": ({"at": START}, {"at": START, "text": "no"}, 2),
    "another tenant": ({"at": START, "user": "a"}, {"at": START, "user": "b"}, 2),
    "a duration that is no time": ({"time": 1.25}, {"time": 1.25}, 2),
}


@pytest.mark.parametrize("made", [call, recorded, answered])
@pytest.mark.parametrize("name", PAIRS)
def test_copies_cost_once(name: str, made: Any, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="python3 dev.py clients has it")
    first, second, count = PAIRS[name]
    found = cost(written([made(**first), made(**second)], tmp_path / "log.jsonl"))
    assert found["total"]["calls"] == count
    assert found["left_out"] == ({REPEATED: 1} if count == 1 else {})


@pytest.mark.parametrize("name", PAIRS)
def test_copies_are_recorded_once(name: str, tmp_path: Path) -> None:
    first, second, count = PAIRS[name]
    found, left_out = totals(written([call(**first), call(**second)], tmp_path / "log.jsonl"))
    assert len(found) == count
    assert left_out == ({REPEATED: 1} if count == 1 else {})


@pytest.mark.parametrize("command", ["eval", "replay"])
def test_a_line_that_is_there_twice_is_scored_once_by_its_time(
    command: str, tmp_path: Path
) -> None:
    rows = [recorded(at=START, conversation_id="a", api="openai.chat") for _ in range(2)]
    for times, count in (((START, START), 1), ((START, START + 1), 2)):
        timed = [{**it, "created": at} for it, at in zip(rows, times, strict=True)]
        path = written(timed, tmp_path / "log.jsonl")
        done = CliRunner().invoke(app, [command, str(path), "--json"], catch_exceptions=False)
        told = json.loads(done.stdout)
        assert (told["records"] if command == "eval" else told["total"]["turns"]) == count


@pytest.mark.parametrize("made", [call, recorded, answered])
@pytest.mark.parametrize(
    "field", ["time", "timestamp", "created", "created_at", "start_time", "ts", "date"]
)
@pytest.mark.parametrize("at", [START, START * 1000, "2025-11-24T16:00:00Z"])
def test_the_time_of_a_call_is_read(field: str, made: Any, at: object, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="python3 dev.py clients has it")
    assert cost(written([made(**{field: at})], tmp_path / "log.jsonl"))["undated_calls"] == 0


def test_the_time_of_an_answer_is_that_of_its_call(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="python3 dev.py clients has it")
    row = call()
    row["response"]["created"] = START
    assert cost(written([row], tmp_path / "log.jsonl"))["undated_calls"] == 0
