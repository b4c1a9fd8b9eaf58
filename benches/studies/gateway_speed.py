"""What gateways feel: each row is a ratio of two things, in turns in one process.

    python3 dev.py study gateway_speed [--rounds 41] [--only NAME ...]

The body is an OpenAI Chat request of an agent: 0.9 MB, 435 messages, 24 tools. Most rows are beside
`orjson.loads` of it. Times are processor time of the thread; shown is the median of the ratios,
with the quartiles. `must` and `aim` are the highest ratio; beside litellm, tiktoken and gigatoken,
the lowest; of rows in us or ms, the highest time.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import TYPE_CHECKING

import gateway_rows as rows
from gateway_rows import seconds
from tokenctx._core import simd_level

if TYPE_CHECKING:
    from gateway_rows import Row


def values(row: Row, rounds: int) -> tuple[list[float], list[float]]:
    """What is shown of each round, and the seconds of ours."""
    for work in (row.ours, row.theirs):
        seconds(work, 2)
    found, ours = [], []
    for _ in range(min(rounds, row.most_rounds)):
        first, second = (seconds(work, row.repeat) for work in (row.ours, row.theirs))
        ratio = second / first if row.is_speed else first / second
        found.append(first / row.unit_seconds if row.unit_seconds else ratio)
        ours.append(first)
    return found, ours


def show(row: Row, found: list[float], ours: list[float]) -> None:
    low, middle, high = statistics.quantiles(found, n=4)
    limits, us = f"{row.must:>6g} {row.aim:>6g}", statistics.median(ours) * 1e6
    print(f"{row.name:<62} {limits} {middle:>8.3g} [{low:.3g}, {high:.3g}] {us:.1f}", flush=True)


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
    "first": rows.first,
    "tools": rows.tools,
    "stalls": rows.stalls,
    "texts": rows.texts,
    "lines": rows.lines,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--only", nargs="*", choices=SETS)
    options = parser.parse_args()
    print(f"level {simd_level()}, {time.strftime('%Y-%m-%d')}: must, aim, median [quartiles], us")
    gc.disable()
    for name in options.only or SETS:
        for row in SETS[name]():
            show(row, *values(row, options.rounds))
        gc.collect()


if __name__ == "__main__":
    main()
