"""What a shared store adds to an estimate: a lookup that hits or misses, and a server that is gone.

Each request is estimated by an estimator without a shared store and by one with it, in turn, so
that the machine is the same for both. Needs redis-server; clients that are missing are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "rigs"))

import redis_rig as rig
from redis_worker import SECRET, billed, conversation
from tokenctx import HybridTokenEstimator, RedisPrefixStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenctx import Estimate

DEADLINE_SECONDS = 0.003


def estimator(client: Any) -> HybridTokenEstimator:
    store = RedisPrefixStore(client, deadline_seconds=DEADLINE_SECONDS)
    return HybridTokenEstimator(secret=SECRET, shared=store, learning=False)


def alone() -> HybridTokenEstimator:
    return HybridTokenEstimator(secret=SECRET, learning=False)


def microseconds(seconds: list[float], share: float) -> float:
    return 1e6 * sorted(seconds)[int(share * len(seconds))]


def show(client: str, case: str, without: list[float], with_store: list[float], note: str) -> None:
    cells = [
        f"{microseconds(times, share):8.0f}"
        for times in (without, with_store)
        for share in (0.5, 0.99)
    ]
    added = microseconds(with_store, 0.99) - microseconds(without, 0.99)
    print(f"{client:15} {case:12} {' '.join(cells)} {added:8.0f}  {note}", flush=True)


def timed(estimate: Callable[[Any], Estimate], body: Any, times: list[float]) -> Estimate:
    begin = time.perf_counter()
    result = estimate(body)
    times.append(time.perf_counter() - begin)
    return result


def compare(name: str, case: str, client: Any, indices: range) -> None:
    """Second turns, sync."""
    base, shared = alone(), estimator(client)
    for index in range(indices.start - 20, indices.start):
        shared.estimate(conversation(index, 1))  # connects, and finds out that nobody is there
    without: list[float] = []
    with_store: list[float] = []
    deltas = 0
    for index in indices:
        body = conversation(index, 1)
        timed(base.estimate, body, without)
        deltas += timed(shared.estimate, body, with_store).source == "delta"
    show(name, case, without, with_store, f"{deltas} of {len(indices)} delta")


async def acompare(name: str, case: str, client: Any, indices: range) -> None:
    """The same on the loop."""
    base, shared = alone(), estimator(client)
    for index in range(indices.start - 20, indices.start):
        await shared.aestimate(conversation(index, 1))
    without: list[float] = []
    with_store: list[float] = []
    deltas = 0
    for index in indices:
        body = conversation(index, 1)
        timed(base.estimate, body, without)
        begin = time.perf_counter()
        estimate = await shared.aestimate(body)
        with_store.append(time.perf_counter() - begin)
        deltas += estimate.source == "delta"
        await asyncio.sleep(0)
    show(name, case, without, with_store, f"{deltas} of {len(indices)} delta")


def fill(server: rig.Server, count: int) -> None:
    with rig.sync_client("redis", server.port) as client:
        one = estimator(client)
        begin = time.perf_counter()
        for index in range(count):
            one.record(conversation(index, 0), billed(index, 0))
            if index % 5_000 == 4_999:
                one.flush(60)
        assert one.flush(60)
        rate = count / (time.perf_counter() - begin)
        info = client.info("memory")
        bytes_each = (info["used_memory"] - info["used_memory_startup"]) / count
        print(f"recorded and written behind: {rate:,.0f} /s; {bytes_each:.0f} bytes each in Redis")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000)
    count = parser.parse_args().count
    program = rig.binary("redis")
    if program is None:
        sys.exit("no redis-server on this machine: apt-get install redis-server")
    logging.getLogger("tokenctx").addHandler(logging.NullHandler())
    with (
        tempfile.TemporaryDirectory() as folder,
        rig.server(program, Path(folder)) as server,
    ):
        fill(server, count + 20)
        hits, misses = range(20, count + 20), range(10**6, 10**6 + count)
        print("microseconds     without store p50, p99; with store p50, p99; added at p99")
        for case, indices in (("hit", hits), ("miss", misses)):
            for name in rig.SYNC:
                with rig.sync_client(name, server.port) as client:
                    compare(name, case, client, indices)
            for name in rig.ASYNC:
                asyncio.run(on_the_loop(name, case, server.port, indices))
        with rig.sync_client("redis", server.port) as client:
            server.kill()
            compare("redis", "kill -9", client, range(20, 4 * count))
            server.start()
            fill(server, 20)
            server.stop()
            compare("redis", "SIGSTOP", client, range(20, 4 * count))
            server.go_on()


async def on_the_loop(name: str, case: str, port: int, indices: range) -> None:
    async with rig.async_client(name, port) as client:
        await acompare(name, case, client, indices)


if __name__ == "__main__":
    main()
