"""One of several worker processes that take turns of the same conversations."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

CONVERSATIONS = 10_000
WORKERS = 4
TURNS = 3
SECRET = bytes(range(32))


def conversation(index: int, turn: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"Question {index}?"}]
    for step in range(turn):
        messages.append({"role": "assistant", "content": f"Answer {step}."})
        messages.append({"role": "user", "content": f"And {step}?"})
    return {"model": "gpt-4o", "messages": messages}


def billed(index: int, turn: int) -> int:
    """Made up, and told by nothing in the request."""
    return 1_000_000 + 10 * index + turn


def share(port: int, kind: str = "Redis") -> int:
    """How many turns of all conversations are right, each taken by another process.

    `kind` is the class of the client in the package redis.
    """
    spawn = multiprocessing.get_context("spawn")
    barrier, results = spawn.Barrier(WORKERS), spawn.Queue()
    workers = [
        spawn.Process(target=work, args=(port, kind, worker, barrier, results))
        for worker in range(WORKERS)
    ]
    for one in workers:
        one.start()
    right: int = sum(results.get(timeout=180) for _ in workers)
    for one in workers:
        one.join()
        assert one.exitcode == 0
    return right


def work(port: int, kind: str, worker: int, barrier: Barrier, results: Any) -> None:
    """Take every fourth conversation, on each turn others; put the number of right answers."""
    import redis

    from tokenctx import HybridTokenEstimator, RedisPrefixStore

    with getattr(redis, kind)(host="127.0.0.1", port=port) as client:
        store = RedisPrefixStore(client, deadline_seconds=30)
        estimator = HybridTokenEstimator(secret=SECRET, shared=store, learning=False)
        right = 0
        for turn in range(TURNS):
            for index in range((worker + turn) % WORKERS, CONVERSATIONS, WORKERS):
                body = conversation(index, turn)
                estimate = estimator.estimate(body)
                known = billed(index, turn - 1) if turn else 0
                source = "delta" if turn else "estimated"
                right += (estimate.source, estimate.known_tokens) == (source, known)
                estimator.record(body, billed(index, turn))
            assert estimator.flush(60)
            barrier.wait(120)
        results.put(right)
