"""Rows of what is known once: a shared beginning, branches, markers that move, tools on either side, other questions.

`studies/known_once.py` shows them, beside `orjson.loads` of the same body where nothing else is said.
"""

from __future__ import annotations

import functools
import itertools
import random
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
    prepared,
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


def turn_rows(name: str, made: Callable[[], Iterator[bytes]], parse: bytes, **aims: float) -> Iterator[Row]:
    """The estimate of each turn, and its record, beside parsing."""
    loads = functools.partial(orjson.loads, parse)
    for work, aim in aims.items():
        knowing, given = estimator(), made()
        knowing.record(next(given), KNOWN_TOKENS)

        def prepare(
            work: str = work, knowing: HybridTokenEstimator = knowing, given: Iterator[bytes] = given
        ) -> bytes:
            turn = next(given)
            if work == "record":
                knowing.estimate(turn)
            return turn

        def estimate(turn: bytes, knowing: HybridTokenEstimator = knowing) -> None:
            knowing.estimate(turn)

        def record(turn: bytes, knowing: HybridTokenEstimator = knowing) -> None:
            knowing.record(turn, KNOWN_TOKENS)

        call = record if work == "record" else estimate
        ours = prepared(call, prepare)
        if work == "estimate":
            ours = recorded_after(ours, knowing, given_last=prepare, call=call)
        yield Row(f"{name}: {work}", aim, aim, ours, loads)


def recorded_after(ours: Timed, knowing: HybridTokenEstimator, *, given_last: Any, call: Any) -> Timed:
    """An estimate of each turn, which is recorded when it was timed."""

    def spend() -> float:
        last: list[bytes] = []

        def prepare() -> bytes:
            last.append(given_last())
            return last[0]

        seconds = prepared(call, prepare).spend()
        knowing.record(last[0], KNOWN_TOKENS)
        return seconds

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
        said = {"role": "user", "content": f"Question {number}: {prose(random.Random(number), 900)}"}
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
        yield from turn_rows(f"200 tools {name}, turns", made, encoded(body), estimate=0.2, record=0.4)
        made = functools.partial(conversations, {**body, "messages": few[:1]}, encoded)
        parse = next(made())
        yield from turn_rows(f"200 tools {name}, first calls", made, parse, estimate=0.2, record=0.4)


def caching() -> Iterator[Row]:
    """With `caching` beside without."""
    for size, (count, byte_count) in {**SIZES, "0.9 MB": (0, 0)}.items():
        body = agent_conversation(count, byte_count) if count else big()
        if 0 < byte_count < 10_000:
            texts = [prose(random.Random(it), 200) for it in range(count)]
            roles = itertools.cycle(("user", "assistant"))
            body = {"model": "gpt-4o", "messages": [
                {"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]}
        for work in ("estimate", "record"):
            def spent(*, is_caching: bool, body: Body = body, work: str = work) -> Timed:
                made = HybridTokenEstimator(secret=SECRET, caching=is_caching)
                given = turns(body)
                made.record(next(given), KNOWN_TOKENS)

                def prepare() -> bytes:
                    turn = next(given)
                    if work == "record":
                        made.estimate(turn)
                    return turn

                call = functools.partial(made.record, usage=KNOWN_TOKENS)
                return prepared(call if work == "record" else made.estimate, prepare)

            yield Row(f"caching / without, {size}: {work}", 1.2, 1.2, spent(is_caching=True), spent(is_caching=False))


def small() -> Iterator[Row]:
    """Small bodies, in us: unknown, known, recorded."""
    for size, (count, chars) in {"0.5 KB": (3, 100), "2.5 KB": (8, 280), "10 KB": (10, 950)}.items():
        roles = itertools.cycle(("user", "assistant"))
        messages = [{"role": next(roles), "content": prose(random.Random(it), chars)} for it in range(count)]
        body = encoded({"model": "gpt-4o", "messages": messages})
        loads = functools.partial(orjson.loads, body)
        made = estimator()
        yield Row(f"{size} unknown, us", 0, 0, functools.partial(made.estimate, body), loads, 200, unit_seconds=1e-6)
        made.record(body, 99)
        yield Row(f"{size} known, us", 0, 0, functools.partial(made.estimate, body), loads, 200, unit_seconds=1e-6)
        yield Row(f"{size} record, us", 0, 0, functools.partial(made.record, body, 99), loads, 200, unit_seconds=1e-6)


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
