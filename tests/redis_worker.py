"""One of several worker processes that take turns of the same conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

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


def work(port: int, worker: int, count: int, barrier: Barrier, results: Any) -> None:
    """Take every fourth conversation, on each turn others; put the number of right deltas."""
    import redis

    from tokenctx import HybridTokenEstimator, RedisPrefixStore

    with redis.Redis(port=port) as client:
        store = RedisPrefixStore(client, deadline_seconds=30)
        estimator = HybridTokenEstimator(secret=SECRET, shared=store, learning=False)
        right = 0
        for turn in range(TURNS):
            for index in range((worker + turn) % WORKERS, count, WORKERS):
                body = conversation(index, turn)
                estimate = estimator.estimate(body)
                known = billed(index, turn - 1) if turn else 0
                source = "delta" if turn else "estimated"
                right += (estimate.source, estimate.known_tokens) == (source, known)
                estimator.record(body, billed(index, turn))
            results.put(estimator.flush(60))
            barrier.wait(120)
        results.put(right)
