"""Rows of what is known once: a shared beginning, branches, moved markers, tools on either side.

`studies/known_once.py` shows them, beside `orjson.loads` of the body where nothing else is said.
"""

from __future__ import annotations

import functools
import itertools
import random
import time
from typing import TYPE_CHECKING, Any

import orjson

from conversations import agent_conversation, encoded, prose, tool
from gateway_rows import (
    KNOWN_TOKENS,
    SECRET,
    Row,
    Timed,
    anthropic,
    big,
    branches,
    estimator,
    marked,
    windows,
)
from tokenctx import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Body = dict[str, Any]

SIZES = {"2 KB": (8, 2_000), "20 KB": (20, 20_000), "300 KB": (150, 300_000)}


def turns(body: Body, words: str = "next {}", encode: Any = encoded) -> Iterator[bytes]:
    """`body`, and each of its later turns, which are short."""
    messages = list(body["messages"])
    for number in itertools.count():
        yield encode({**body, "messages": messages})
        said = {"role": "user", "content": words.format(number)}
        messages = [*messages, {"role": "assistant", "content": f"Step {number}."}, said]


def turn_rows(
    name: str, made: Callable[[], Iterator[bytes]], parse: bytes, **aims: float
) -> Iterator[Row]:
    """The estimate of each turn, and its record, beside parsing."""
    loads = functools.partial(orjson.loads, parse)
    for work, aim in aims.items():
        ours = work_on_turns(estimator(), made(), work)
        yield Row(f"{name}: {work}", aim, aim, ours, loads)


def work_on_turns(knowing: HybridTokenEstimator, given: Iterator[bytes], work: str) -> Timed:
    """The `estimate` or the `record` of each next turn, which gets the other one untimed."""
    record = functools.partial(knowing.record, usage=KNOWN_TOKENS)
    record(next(given))

    def spend() -> float:
        turn = next(given)
        if work == "record":
            knowing.estimate(turn)
        began = time.thread_time()
        (record if work == "record" else knowing.estimate)(turn)
        spent = time.thread_time() - began
        if work == "estimate":
            record(turn)
        return spent

    return Timed(spend)


def moved() -> Iterator[Row]:
    body = anthropic(big())
    for name, words in (("new text", "go on {}"), ("repeated text", "go on")):
        made = functools.partial(turns, body, words, lambda it: encoded(marked(it)))
        parse = encoded(marked(body))
        yield from turn_rows(f"markers moved, {name}", made, parse, estimate=0.45, record=0.35)


def plain() -> Iterator[Row]:
    body = big()
    yield from turn_rows(
        "plain next turn", functools.partial(turns, body), encoded(body), estimate=0.13, record=0.2
    )


def conversations(beginning: Body, encode: Any) -> Iterator[bytes]:
    for number in itertools.count():
        said = {
            "role": "user",
            "content": f"Question {number}: {prose(random.Random(number), 900)}",
        }
        yield encode({**beginning, "messages": [*beginning["messages"], said]})


def shared_beginning() -> Iterator[Row]:
    """First calls of conversations that begin with the same 300 KB of system prompt."""
    text, tools = prose(random.Random(4), 300_000), agent_conversation(4, 5000)["tools"]
    chat = {"model": "gpt-4o", "messages": [{"role": "system", "content": text}], "tools": tools}
    first = {"model": "gpt-4o", "tools": tools, "messages": chat["messages"]}
    claude = {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": text, "messages": []}
    blocks = {**claude, "system": [{"type": "text", "text": text}]}
    for name, body in {
        "system message, tools behind": chat,
        "system message, tools before": first,
        "system field": claude,
        "system blocks": blocks,
    }.items():
        made = functools.partial(conversations, body, encoded)
        parse = next(made())
        yield from turn_rows(f"shared {name}", made, parse, estimate=0.2, record=0.4)


def many_tools() -> Iterator[Row]:
    """Young conversations with 200 tools: beside parsing."""
    tools = [tool(random.Random(8), index) for index in range(200)]
    few = agent_conversation(4, 5000)["messages"]
    before = {"model": "gpt-4o", "tools": tools, "messages": few}
    behind = {"model": "gpt-4o", "messages": few, "tools": tools}
    for name, body in (("before", before), ("behind", behind)):
        made = functools.partial(turns, body)
        yield from turn_rows(
            f"200 tools {name}, turns", made, encoded(body), estimate=0.2, record=0.4
        )
        made = functools.partial(conversations, {**body, "messages": few[:1]}, encoded)
        parse = next(made())
        yield from turn_rows(
            f"200 tools {name}, first calls", made, parse, estimate=0.2, record=0.4
        )


def caching() -> Iterator[Row]:
    """With `caching` beside without."""
    for size, (count, byte_count) in {**SIZES, "0.9 MB": (0, 0)}.items():
        body = agent_conversation(count, byte_count) if count else big()
        if 0 < byte_count < 10_000:
            texts = [prose(random.Random(it), 200) for it in range(count)]
            roles = itertools.cycle(("user", "assistant"))
            body = {
                "model": "gpt-4o",
                "messages": [
                    {"role": role, "content": text}
                    for role, text in zip(roles, texts, strict=False)
                ],
            }
        for work in ("estimate", "record"):
            ours, theirs = (
                work_on_turns(HybridTokenEstimator(secret=SECRET, caching=it), turns(body), work)
                for it in (True, False)
            )
            yield Row(f"caching / without, {size}: {work}", 1.2, 1.2, ours, theirs)


def small() -> Iterator[Row]:
    """Small bodies, in us: unknown, known, recorded."""
    for size, (count, chars) in {
        "0.5 KB": (3, 100),
        "2.5 KB": (8, 280),
        "10 KB": (10, 950),
    }.items():
        roles = itertools.cycle(("user", "assistant"))
        messages = [
            {"role": next(roles), "content": prose(random.Random(it), chars)} for it in range(count)
        ]
        body = encoded({"model": "gpt-4o", "messages": messages})
        loads = functools.partial(orjson.loads, body)
        made = estimator()
        yield Row(
            f"{size} unknown, us",
            0,
            0,
            functools.partial(made.estimate, body),
            loads,
            200,
            unit_seconds=1e-6,
        )
        made.record(body, 99)
        yield Row(
            f"{size} known, us",
            0,
            0,
            functools.partial(made.estimate, body),
            loads,
            200,
            unit_seconds=1e-6,
        )
        yield Row(
            f"{size} record, us",
            0,
            0,
            functools.partial(made.record, body, 99),
            loads,
            200,
            unit_seconds=1e-6,
        )


SETS = {
    "plain": plain,
    "moved": moved,
    "branches": branches,
    "shared_beginning": shared_beginning,
    "many_tools": many_tools,
    "caching": caching,
    "windows": windows,
    "small": small,
}
