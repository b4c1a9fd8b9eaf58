"""What a forecast of the cache adds to an estimate: `python3 dev.py study forecast_cost`.

The next turn of a known conversation of 0.9 MB and 24 tools, from bytes, by two estimators in
turns: one with `caching` and one without. Processor time, medians of each, and of their ratios.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from typing import Any

from tokenctx import HybridTokenEstimator


def bodies() -> tuple[bytes, bytes, dict[str, Any]]:
    """A recorded body, the next turn, and the reply between them."""
    chance = random.Random(3)
    words = [f"w{chance.randrange(9000)} " for _ in range(20_000)]

    def text(count: int) -> str:
        return "".join(chance.choice(words) for _ in range(count // 6))

    schema = {"type": "object", "properties": {"a": {"type": "string", "description": text(100)}}}
    tools = [
        {"name": f"tool{nth}", "description": text(300), "input_schema": schema}
        for nth in range(24)
    ]
    messages: list[dict[str, Any]] = [
        {
            "role": "assistant" if nth % 2 else "user",
            "content": [{"type": "text", "text": text(2000)}],
        }
        for nth in range(434)
    ]
    mark = {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}
    body = {"model": "claude-sonnet-4-5", "tools": tools, "messages": messages[:433]}
    following = {**body, "messages": [*messages, {"role": "user", "content": [mark]}]}
    return json.dumps(body).encode(), json.dumps(following).encode(), messages[433]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    options = parser.parse_args()
    before, body, reply = bodies()
    estimators = [HybridTokenEstimator(caching=caching) for caching in (False, True)]
    usage = {"input_tokens": 4, "cache_creation_input_tokens": 290_000, "output_tokens": 300}
    for estimator in estimators:
        estimator.record(before, usage, reply=reply)
    times: list[list[float]] = [[], []]
    for _ in range(options.rounds):
        for place, estimator in enumerate(estimators):
            start = time.process_time()
            estimate = estimator.estimate(body)
            times[place].append((time.process_time() - start) * 1e6)
    assert estimate.cache is not None
    ratio = statistics.median(with_it / plain for plain, with_it in zip(*times, strict=True))
    plain, with_it = map(statistics.median, times)
    print(f"{len(body):,} bytes, {estimate.source}, cache {estimate.cache.label}")
    print(f"without {plain:.0f} us, with {with_it:.0f} us, ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
