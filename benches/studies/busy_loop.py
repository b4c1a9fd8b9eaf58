"""Lookups of a shared store on an event loop that other work holds, with default settings.

One estimator records and flushes; another of the same process asks on the loop, with a client of
its own, for what only the store knows, while a coroutine holds the loop for some milliseconds at a
time. Needs redis-server; clients that are missing are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "rigs"))

import redis_rig as rig
from redis_worker import SECRET, billed, conversation
from tokenctx import HybridTokenEstimator, RedisPrefixStore

HOLDS = {
    "not at all": (0, 1),
    "1 ms of 5": (1, 4),
    "5 ms of 25": (5, 20),
    "20 ms of 40": (20, 20),
    "5 ms of 10": (5, 5),
    "5 ms of 6.2": (5, 1.2),
    "always, 1 ms at a time": (1, 0),
    "always, 5 ms at a time": (5, 0),
}
"""Milliseconds that the loop is held and left free, in turn."""


def estimator(client: Any) -> HybridTokenEstimator:
    return HybridTokenEstimator(secret=SECRET, shared=RedisPrefixStore(client), learning=False)


async def hold(held_ms: float, free_ms: float) -> None:
    while True:
        end = time.perf_counter() + held_ms / 1e3
        while time.perf_counter() < end:
            pass
        await asyncio.sleep(free_ms / 1e3)


async def deltas(name: str, port: int, count: int, held: tuple[float, float]) -> tuple[int, Any]:
    """How many of `count` lookups found what the other recorded, and what `stats` says then."""
    async with rig.async_client(name, port) as mine, rig.async_client(name, port) as others:
        one, other = estimator(mine), estimator(others)
        base = int(time.time() * 1e3) % 10**9
        for index in range(base, base + count):
            one.record(conversation(index, 0), billed(index, 0))
        assert await one.aflush(60)
        holder = asyncio.ensure_future(hold(*held)) if held[0] else None
        found = 0
        for index in range(base, base + count):
            found += (await other.aestimate(conversation(index, 1))).source == "delta"
        if holder is not None:
            holder.cancel()
        stats = other.stats()
        await other.aflush(10)
        return found, stats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    program = rig.binary("redis")
    if program is None:
        sys.exit("no redis-server on this machine: apt-get install redis-server")
    logging.getLogger("tokenctx").addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory() as folder, rig.server(program, Path(folder)) as server:
        for name in rig.ASYNC:
            for title, held in HOLDS.items():
                runs = [
                    asyncio.run(deltas(name, server.port, options.count, held))
                    for _ in range(options.rounds)
                ]
                found = ", ".join(f"{number:3}" for number, _ in runs)
                late = ", ".join(f"{stats['shared_late']:3}" for _, stats in runs)
                stopped = sum(stats["shared_reads_stopped"] for _, stats in runs)
                print(
                    f"{name:15} {title:24} deltas of {options.count}: {found}; "
                    f"late {late}; stopped in {stopped} of {options.rounds}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
