"""Forecasts on recorded sessions whose marks are moved inside of the last message.

A note that differs from call to call is put behind what was recorded, and the mark before it, as
agents with reminders do. A provider by the rules of the documents bills it: what stands before the
mark has the recorded total, the note a token a word, an earlier mark is found within 20 blocks.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import HybridTokenEstimator
from tokenctx._cli.evaluation.recordings import read_recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tokenctx._cli.evaluation.recordings import Turn

MARK = {"cache_control": {"type": "ephemeral"}}
LOOKBACK_BLOCKS = 20
LEAST_TOKENS = 4_096
NOTE_TOKENS = 4


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unmarked(it) for key, it in value.items() if key != "cache_control"}
    return [unmarked(it) for it in value] if isinstance(value, list) else value


def blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


class Provider:
    """Bills calls with one mark inside of the last message.

    `keeps` says whether notes stay in the history, as with clients that only add.
    """

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps
        self._chance = random.Random(5)
        self._notes: dict[int, tuple[str, int]] = {}
        self._cached: tuple[str, int, int] = ("", 0, 0)

    def call(self, turn: Turn) -> tuple[dict[str, Any], dict[str, int]] | None:
        """The request and its bill; None for one that cannot be marked so."""
        body = unmarked(json.loads(turn.body))
        messages = [dict(it) for it in body["messages"]]
        if not messages or messages[-1]["role"] != "user" or not blocks(messages[-1]):
            return None
        added = 0
        for at, (text, tokens) in self._notes.items() if self._keeps else ():
            if at < len(messages) - 1 and messages[at]["role"] == "user":
                note = {"type": "text", "text": text}
                messages[at] = {**messages[at], "content": [*blocks(messages[at]), note]}
                added += tokens
        last = blocks(messages[-1])
        before = [*messages[:-1], {**messages[-1], "content": last}]
        prefix = json.dumps([{**it, "content": blocks(it)} for it in before])
        place = sum(len(blocks(it)) for it in before)
        words = self._chance.randrange(30, 900)
        text = " ".join(["test"] * words)
        marked = [*last[:-1], {**last[-1], **MARK}, {"type": "text", "text": text}]
        known, tokens, at = self._cached
        is_found = known and prefix.startswith(known) and place - at <= LOOKBACK_BLOCKS
        total = turn.billed.input_tokens + added
        read = tokens if is_found and tokens <= total else 0
        self._cached = (prefix[:-3], total, place)  # up to the end of the last block
        self._notes[len(messages) - 1] = (text, words + NOTE_TOKENS)
        body["messages"] = [*messages[:-1], {**messages[-1], "content": marked}]
        usage = {
            "input_tokens": words + NOTE_TOKENS,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": total - read,
            "output_tokens": turn.billed.output_tokens,
        }
        return body, usage


def calls(shared: Path, *, keeps: bool) -> Iterator[tuple[bool, Any, dict[str, int]]]:
    """Whether it continues a call, the forecast, and the bill."""
    for name in ("dev", "dev2"):
        for session in read_recording(shared / "sessions" / f"{name}.jsonl.gz").conversations:
            provider = Provider(keeps=keeps)
            estimator = HybridTokenEstimator(caching=True, clock=lambda: 0.0)
            for turn in session.turns:
                made = provider.call(turn) if turn.billed.input_tokens > LEAST_TOKENS else None
                if made is None:
                    continue
                body, usage = made
                names: dict[str, Any] = {"model": turn.model}
                forecast = estimator.estimate(body, **names).cache
                yield usage["cache_read_input_tokens"] > 0, forecast, usage
                estimator.record(body, usage, reply=turn.reply, **names)


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [False, True])
def test_reads_of_sessions_with_marks_inside_of_messages(shared_data: Path, *, keeps: bool) -> None:
    warm = near = covered = cold = false_alarms = 0
    for is_warm, forecast, usage in calls(shared_data, keeps=keeps):
        read = usage["cache_read_input_tokens"]
        warm += is_warm
        near += is_warm and abs(forecast.read_tokens - read) <= 0.02 * read
        covered += is_warm and forecast.low <= read <= forecast.high
        cold += not is_warm
        false_alarms += not is_warm and forecast.label == "expected"
    assert warm > 500
    assert near >= 0.96 * warm
    assert covered >= 0.9 * warm
    assert false_alarms <= 0.1 * (warm + cold)
