"""Why input was paid again, in a generated month with times: each break is called what it was."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from cli.test_month import call, changed, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest.importorskip("duckdb", reason="python3 dev.py clients has it")

TURNS = 8
GROWTH = 2_000
Broken = tuple[dict[str, Any], float]
TOOL = {"name": "clock", "description": "The time.", "input_schema": {"type": "object"}}


def requested(it: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**it, "request": {**it["request"], **more}}


BREAKS: dict[str, tuple[str, bool, Callable[[dict[str, Any], int], Broken]]] = {
    "expired after 5 minutes": ("idle", False, lambda it, _: (it, 420.0)),
    "expired after an hour": ("idle", True, lambda it, _: (it, 3_800.0)),
    "lost within the hour": ("evicted", True, lambda it, _: (it, 900.0)),
    "tools changed": ("context", False, lambda it, _: (requested(it, tools=[TOOL]), 30.0)),
    "system changed": ("context", False, lambda it, _: (requested(it, system="Noon."), 30.0)),
    "edited": (
        "message",
        False,
        lambda it, _: ({**it, "request": changed(it["request"], 2)}, 30.0),
    ),
    "model changed": ("model", False, lambda it, _: ({**it, "model": "claude-opus-4-5"}, 30.0)),
}
"""A break by its name: the cause, whether the cache is kept for an hour, the call and its pause."""


def conversation(name: str, nth: int, drawn: random.Random) -> tuple[list[dict[str, Any]], int]:
    """The calls of a conversation with one break, and the tokens that were paid again for it."""
    _, is_hour, broken = BREAKS[name]
    at, tokens, lost = nth * 7.0, drawn.randrange(5_000, 90_000), 0
    place = drawn.randrange(3, TURNS)
    calls: list[dict[str, Any]] = []
    for turn in range(TURNS):
        is_broken = turn == place
        it = call(turn, 0, tokens, 0, conversation_id=f"{name}-{nth}")
        pause = drawn.uniform(5, 200)
        if is_broken:
            it, pause = broken(it, turn)
            lost = calls[-1]["input_tokens"]
        elif calls:
            it["model"] = calls[-1]["model"]
            it["request"] = {**calls[-1]["request"], "messages": it["request"]["messages"]}
            if name == "edited" and turn > place:
                it["request"] = changed(it["request"], 2)
        read = 0 if is_broken or not calls else calls[-1]["input_tokens"]
        written = tokens - read - 10
        usage = {**it["usage"], "cache_read_input_tokens": read}
        if is_hour and turn == place - 1:  # a short turn before the break reads, and writes nothing
            usage["input_tokens"], written = tokens - read, 0
        usage["cache_creation_input_tokens"] = written
        if is_hour:
            usage["cache_creation"] = {"ephemeral_1h_input_tokens": written}
        at += pause
        calls.append({**it, "usage": usage, "created": 1_764_000_000 + at})
        tokens += drawn.randrange(500, GROWTH)
    return calls, lost


def test_each_break_of_a_month_has_its_cause(tmp_path: Path) -> None:
    drawn = random.Random(45)
    seeded: Counter[str] = Counter()
    calls: list[dict[str, Any]] = []
    for name in BREAKS:
        for nth in range(12):
            made, lost = conversation(name, nth, drawn)
            calls += made
            seeded[BREAKS[name][0]] += lost
    drawn.shuffle(calls)
    found = {it["cause"]: it["tokens"] for it in told(tmp_path / "log.jsonl", calls)["paid_again"]}
    right = sum(min(found.get(cause, 0), tokens) for cause, tokens in seeded.items())
    assert right >= 0.95 * max(seeded.total(), sum(found.values())), (found, seeded)
