"""Forecasts on made sessions with marks in tools, in the system prompt and inside of messages.

A provider by the rules of the documents bills them: it knows a prefix by its blocks, keeps the one
that ends at each mark, finds it again within 20 blocks before a mark, and keeps none that is short.
A word is a token; what stands around texts is a few more, and around a tool some 160, so texts are
long.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = "claude-sonnet-4-5"
LEAST_TOKENS = 1_024
LOOKBACK_BLOCKS = 20
AROUND_TOKENS = 60
AROUND_TOOL_TOKENS = 160
MARK = {"cache_control": {"type": "ephemeral"}}
WORDS = ("test", "word", "more", "like", "time", "water")


def text(chance: random.Random, words: int) -> dict[str, Any]:
    return {"type": "text", "text": " ".join([chance.choice(WORDS)] * words)}


def tool(number: int, chance: random.Random, words: int) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}}
    return {
        "name": f"tool{number}",
        "description": text(chance, words)["text"],
        "input_schema": schema,
    }


def blocks_of(body: dict[str, Any]) -> Iterator[tuple[str, int, bool]]:
    """Each block without its mark, its tokens, and whether it is marked."""
    placed = [*(("tool", it) for it in body["tools"]), *(("system", it) for it in body["system"])]
    for number, message in enumerate(body["messages"]):
        placed += [(f"{number} {message['role']}", it) for it in message["content"]]
    for place, block in placed:
        plain = {name: it for name, it in block.items() if name != "cache_control"}
        words = block.get("text") or block["description"]
        yield f"{place} {json.dumps(plain)}", len(words.split()), "cache_control" in block


class Provider:
    """Bills calls by what it has cached."""

    def __init__(self) -> None:
        self._cached: set[str] = set()

    def bill(self, body: dict[str, Any]) -> dict[str, int]:
        ends, tokens, prefix = [], 0, ""
        marks = []
        for number, (block, words, is_marked) in enumerate(blocks_of(body)):
            prefix, tokens = prefix + block, tokens + words
            ends.append((prefix, tokens))
            marks += [number] if is_marked else []
        read = 0
        for mark in marks:
            for prefix, size in ends[max(0, mark - LOOKBACK_BLOCKS) : mark + 1]:
                read = max(read, size if prefix in self._cached else 0)
        kept = [mark for mark in marks if ends[mark][1] >= LEAST_TOKENS]
        self._cached |= {ends[mark][0] for mark in kept}
        end = ends[kept[-1]][1] if kept else 0
        return {
            "input_tokens": tokens - max(read, end),
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": max(0, end - read),
            "output_tokens": 5,
        }


def session(kind: str, chance: random.Random) -> Iterator[dict[str, Any]]:
    """The requests of one session: each has the messages of the one before, and more."""
    tools = [tool(nth, chance, 700) for nth in range(4)]
    system = [text(chance, 1_500)]
    if kind in ("tools", "all"):
        tools[-1] |= MARK
    if kind in ("system", "all"):
        system[0] |= MARK
        system.append(text(chance, 300))
    history: list[dict[str, Any]] = []
    for turn in range(12):
        if kind == "tools":
            system = [text(chance, 1_500 + turn)]
        last = [text(chance, chance.randrange(500, 4_000)) for _ in range(chance.randrange(1, 4))]
        marked = [*last]
        if kind in ("parts", "all"):
            marked[0] = {**last[0], **MARK}
            marked.append(text(chance, chance.randrange(50, 900)))
        yield {
            "model": MODEL,
            "max_tokens": 9,
            "tools": tools,
            "system": system,
            "messages": [*history, {"role": "user", "content": marked}],
        }
        plain = [{key: it for key, it in block.items() if key not in MARK} for block in marked]
        history.append({"role": "user", "content": plain})
        history.append({"role": "assistant", "content": [text(chance, 40)]})


def figures(requests: Iterator[dict[str, Any]]) -> list[tuple[Any, dict[str, int]]]:
    """The forecast and the bill of each call."""
    provider, estimator = Provider(), HybridTokenEstimator(caching=True, clock=lambda: 0.0)
    found = []
    for body in requests:
        forecast, usage = estimator.estimate(body).cache, provider.bill(body)
        assert forecast is not None
        found.append((forecast, usage))
        estimator.record(body, usage)
    return found


@pytest.mark.parametrize("kind", ["tools", "system", "parts", "all"])
def test_reads_and_writes_are_told_wherever_the_marks_stand(kind: str) -> None:
    calls = near = 0
    for seed in range(6):
        for forecast, usage in figures(session(kind, random.Random(seed)))[1:]:
            read, write = (usage[f"cache_{it}_input_tokens"] for it in ("read", "creation"))
            calls += 1
            near += abs(forecast.read_tokens - read) <= 0.02 * read + 1
            assert forecast.low <= read <= forecast.high + AROUND_TOKENS
            around = AROUND_TOKENS + 4 * AROUND_TOOL_TOKENS * (kind != "parts")
            assert abs(forecast.write_tokens - write) <= 0.02 * (read + write) + around
    assert near >= 0.96 * calls


@pytest.mark.parametrize(("between", "is_read"), [(18, True), (19, True), (21, False), (40, False)])
def test_a_prefix_is_found_within_twenty_blocks(between: int, is_read: bool) -> None:  # noqa: FBT001
    chance = random.Random(7)
    head = text(chance, 2_000)
    body: dict[str, Any] = {"model": MODEL, "max_tokens": 9, "tools": [], "system": []}
    first = {**body, "messages": [{"role": "user", "content": [{**head, **MARK}]}]}
    more = [text(chance, 30) for _ in range(between)]
    last = [head, *more[:-1], {**more[-1], **MARK}]
    second = {**body, "messages": [{"role": "user", "content": last}]}
    (_, _), (forecast, usage) = figures(iter((first, second)))
    assert bool(usage["cache_read_input_tokens"]) is is_read
    assert abs(forecast.read_tokens - usage["cache_read_input_tokens"]) < 60
    assert forecast.label == ("expected" if is_read else "none")


@pytest.mark.parametrize("words", [900, 1_000, 1_100, 4_000])
def test_what_is_short_is_neither_written_nor_read(words: int) -> None:
    body = {
        "model": MODEL,
        "max_tokens": 9,
        "tools": [],
        "system": [],
        "messages": [{"role": "user", "content": [{**text(random.Random(1), words), **MARK}]}],
    }
    (first, bill), (again, _) = figures(iter((body, body)))
    is_kept = words >= LEAST_TOKENS
    assert bool(bill["cache_creation_input_tokens"]) is is_kept
    assert bool(first.write_tokens) is is_kept
    assert bool(again.read_tokens) is is_kept
