"""Points of the provider's cache are those of the whole body, also where not all of it is read."""

from __future__ import annotations

import copy
import json
import random
import time
from typing import Any

import pytest

from agent_turns import SHAPES, TOOL_SHAPES, edited_anywhere
from tokenctx import HybridTokenEstimator, normalize_usage

ALL_SHAPES = SHAPES | TOOL_SHAPES
FIELDS = (
    "tokens_after_mark",
    "contexts",
    "model",
    "vendor",
    "provider",
    "has_cached_content",
    "retention_seconds",
    "reply",
)
MARK = {"cache_control": {"type": "ephemeral"}}


def encoded(body: dict[str, Any], *, is_last: bool) -> bytes:
    """`body` as bytes, its messages before or behind all other members."""
    names = sorted(body, key=lambda name: (name in ("messages", "input", "contents")) is is_last)
    return json.dumps({name: body[name] for name in names}).encode()


def marked(random_: random.Random, body: dict[str, Any], field: str) -> dict[str, Any]:
    """`body` with marks at some of the last messages, seldom elsewhere."""
    body = copy.deepcopy(body)
    messages, places = body[field], []
    if random_.random() < 0.8:
        places = [len(messages) - random_.randrange(1, 5), len(messages) - 1]
    if random_.random() < 0.2:
        places.append(random_.randrange(len(messages)))
    for place in places:
        message = messages[max(0, place)]
        blocks = message.get("content")
        if isinstance(blocks, str):
            blocks = message["content"] = [{"type": "text", "text": blocks}]
        if isinstance(blocks, list) and blocks:
            random_.choice([blocks[-1], random_.choice(blocks)]).update(MARK)
    if random_.random() < 0.1 and body.get("tools"):
        random_.choice(body["tools"]).update(MARK)
    return {**body, **MARK} if random_.random() < 0.1 else body


def told(points: Any) -> dict[str, Any]:
    """The fields of the points of a call."""
    marks = [
        (it.message_count, it.is_at_end, it.lifetime_seconds, it.blocks) for it in points.marks
    ]
    return {"marks": marks, "points": list(points.points)} | {
        name: getattr(points, name) for name in FIELDS
    }


def recorded(estimator: HybridTokenEstimator, body: Any, billed: int, reply: bytes) -> Any:
    usage = normalize_usage({"prompt_tokens": billed, "completion_tokens": 9})
    call = estimator._anyone
    return estimator._engine.record(body, call, usage, reply, time.monotonic(), 1_700_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("shape", ALL_SHAPES)
def test_points_of_a_record_are_those_of_the_whole(shape: str, *, is_last: bool) -> None:
    turn, rest, field = ALL_SHAPES[shape]
    answer = b'{"choices": [{"message": {"role": "assistant", "content": "yes"}}]}'
    for seed in range(4):
        random_ = random.Random(seed)
        secret = f"points {shape} {is_last} {seed}".encode()
        one, other = (HybridTokenEstimator(secret=secret, caching=True) for _ in range(2))
        messages: list[Any] = []
        for number in range(24):
            messages += turn(random_, number)
            if random_.random() < 0.1:
                edited_anywhere(random_, messages)
            body = marked(random_, {**rest, field: messages}, field)
            if random_.random() < 0.3:
                body = {"user": f"{number}", **body}
            text, billed = encoded(body, is_last=is_last), 4000 + 300 * number
            mine, whole = (
                recorded(one, text, billed, answer),
                recorded(other, body, billed, answer),
            )
            assert mine.estimate == whole.estimate
            assert told(mine.cache_points) == told(whole.cache_points)


def test_an_estimate_with_points_reads_new_messages_only() -> None:
    """A mark in a message that is known already is seen, too."""
    words = "the quick brown fox jumps over the lazy dog " * 8
    roles = ["user", "assistant"] * 40
    messages: list[Any] = [{"role": role, "content": [text(words)]} for role in roles]
    one, other = (HybridTokenEstimator(secret=b"s" * 16, caching=True) for _ in range(2))
    for turn in range(6):
        messages += [{"role": role, "content": [text(f"{turn}")]} for role in roles[:2]]
        body: dict[str, Any] = {
            "user": f"{turn}",
            "model": "claude-sonnet-4-5",
            "messages": messages,
        }
        body |= {"system": "Be brief.", "max_tokens": 9}
        body = copy.deepcopy(body)
        for place in (3, -1) if turn == 4 else (-1,):
            body["messages"][place]["content"][0].update(MARK)
        given = encoded(body, is_last=True)
        assert one.estimate(given) == other.estimate(body)
        mine, whole = recorded(one, given, 9000, b""), recorded(other, body, 9000, b"")
        assert told(mine.cache_points) == told(whole.cache_points)
        assert len(mine.cache_points.marks) == (2 if turn == 4 else 1)
    assert (one.stats()["resumed"], other.stats()["resumed"]) == (5, 0)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}
