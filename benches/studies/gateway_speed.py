"""What gateways feel: each row is a ratio of two things, in turns in one process.

    python3 dev.py study gateway_speed [--rounds 41] [--only NAME ...]

The body is an OpenAI Chat request of an agent: 0.9 MB, 435 messages, 24 tools. Most rows are beside
`orjson.loads` of it. Times are processor time of the thread; shown is the median of the ratios,
with the quartiles. `must` and `aim` are the highest ratio; beside litellm and tiktoken, the lowest.
"""

from __future__ import annotations

import argparse
import functools
import gc
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

import gateway_rows as rows
from conversations import agent_conversation, encoded, with_new_turn
from corpora import take
from counters import tiktoken_encoding
from gateway_rows import KNOWN_TOKENS, big, estimator, known
from tokenctx._core import vector_level

if TYPE_CHECKING:
    from gateway_rows import Row, Work

LINES_BYTES = 20_000_000


FIRST = """
import sys, time, orjson
from tokenctx import HybridTokenEstimator
body = open(sys.argv[1], "rb").read()
made = HybridTokenEstimator(secret=b"benchmark")
for _ in range(5): orjson.loads(body)
began = time.thread_time(); orjson.loads(body); parsed = time.thread_time() - began
began = time.thread_time(); made.estimate(body); print((time.thread_time() - began) / parsed)
"""


def first(rounds: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "body.json")
        path.write_bytes(encoded(with_new_turn(big())))
        command = [sys.executable, "-c", FIRST, str(path)]
        run = functools.partial(subprocess.run, command, capture_output=True, check=True)
        return [float(run().stdout) for _ in range(max(5, rounds // 4))]


def tools(rounds: int) -> list[float]:
    """Microseconds of one tool: a body with 24 beside one without, nothing else new."""
    body = agent_conversation(40, 60_000)
    bare = {name: value for name, value in body.items() if name != "tools"}
    both = ({**body, "tools": big()["tools"]}, bare)
    works = [known(encoded(given), encoded(with_new_turn(given))) for given in both]
    pairs = [[seconds(work, 200) for work in works] for _ in range(rounds)]
    return [(a - b) / 24 * 1e6 for a, b in pairs]


def lines(_: int) -> list[float]:
    """Speed of `tokenctx count --json` beside orjson and tiktoken in a loop, by processor time."""
    random_, rows, texts = random.Random(4), [], iter(take("messages", LINES_BYTES))
    for text in texts:
        parts = [text, *itertools.islice(texts, random_.randrange(3))]
        messages = [{"role": "user", "content": part[:4000]} for part in parts]
        rows.append(encoded({"model": "gpt-4o", "messages": messages}))
    encode = tiktoken_encoding("o200k_base").encode_ordinary
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lines.jsonl")
        path.write_bytes(b"\n".join(rows))
        command = [str(Path(sys.executable).with_name("tokenctx")), "count", "--json", str(path)]
        ratios = []
        for _ in range(5):
            began = os.times()
            subprocess.run(command, capture_output=True, check=True)
            ended = os.times()
            ours = (ended.children_user - began.children_user) + (
                ended.children_system - began.children_system
            )
            start = time.thread_time()
            for row in rows:
                body = orjson.loads(row)
                for message in body["messages"]:
                    len(encode(message["content"]))
            ratios.append((time.thread_time() - start) / ours)
    return ratios


def stalls(_: int) -> list[float]:
    """Milliseconds of processor time of a call while another thread waits for the interpreter.

    The least of each three: where the system stops that thread, work that holds nothing counts.
    """
    body = agent_conversation(4350, 10_000_000)
    made = estimator()
    made.record(body, KNOWN_TOKENS)
    then = with_new_turn(body)
    clock = time.pthread_getcpuclockid(threading.get_ident())
    longest, is_done = 0.0, False

    def spin() -> None:
        nonlocal longest
        last = time.clock_gettime(clock)
        while not is_done:
            now = time.clock_gettime(clock)
            longest = max(longest, now - last)
            last = now

    sys.setswitchinterval(0.0005)
    found = []
    for _ in range(24):
        longest, is_done = 0.0, False
        other = threading.Thread(target=spin)
        other.start()
        time.sleep(0.002)
        made.estimate(then)
        is_done = True
        other.join()
        found.append(longest * 1e3)
    return [min(found[at : at + 3]) for at in range(0, len(found), 3)]


def seconds(work: Work, repeat: int) -> float:
    """Processor time of one call, or what the work says itself."""
    began = time.thread_time()
    for _ in range(repeat):
        work()
    told = getattr(work, "seconds", None)
    return told() if told else (time.thread_time() - began) / repeat


def ratios(row: Row, rounds: int) -> tuple[list[float], list[float]]:
    for work in (row.ours, row.theirs):
        seconds(work, 2)
    repeat, found, ours = row.repeat, [], []
    for _ in range(rounds):
        first, second = seconds(row.ours, repeat), seconds(row.theirs, repeat)
        found.append(second / first if row.is_speed else first / second)
        ours.append(first)
    return found, ours


def shown(
    name: str, limits: tuple[float, float], found: list[float], micros: float | None = None
) -> None:
    must, aim = limits
    low, middle, high = statistics.quantiles(found, n=4)
    us = "" if micros is None else f"{micros:.1f}"
    print(
        f"{name:<62} {must:>6g} {aim:>6g} {middle:>8.3g} [{low:.3g}, {high:.3g}] {us}", flush=True
    )


SETS = {
    "stream": rows.stream,
    "usage": rows.usage,
    "small_record": rows.small_record,
    "big_record": rows.big_record,
    "next_turn": rows.next_turn,
    "markers": rows.markers,
    "sdk_objects": rows.sdk_objects,
    "unknown": rows.unknown,
    "images": rows.images,
    "windows": rows.windows,
    "conversions": rows.conversions,
}
SINGLES: dict[str, Any] = {
    "first": ("first estimate of a process", (6, 3), first),
    "tools": ("an unchanged tool on a known turn, us", (0.5, 0.1), tools),
    "stalls": ("interpreter held by one call, 10 MB dict, ms", (2, 1), stalls),
    "lines": ("count --json on lines, x as fast as orjson + tiktoken", (3, 4), lines),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--only", nargs="*", choices=[*SETS, *SINGLES])
    options = parser.parse_args()
    wanted = options.only or [*SETS, *SINGLES]
    print(f"level {vector_level()}, {time.strftime('%Y-%m-%d')}: must, aim, median [quartiles], us")
    gc.disable()
    for name in wanted:
        if name in SETS:
            for row in SETS[name]():
                found, ours = ratios(row, options.rounds)
                shown(row.name, (row.must, row.aim), found, statistics.median(ours) * 1e6)
            gc.collect()
            continue
        title, limits, work = SINGLES[name]
        shown(title, limits, work(options.rounds))


if __name__ == "__main__":
    main()
