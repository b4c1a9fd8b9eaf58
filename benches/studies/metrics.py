"""What `metrics=` costs an estimate and a record: paired runs, medians of the differences."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING

from tokenctx import HybridTokenEstimator, Metrics

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = 2_000
WORDS = "It scatters blue light more than red, since short waves meet small things. "


def body_of(message_count: int, bytes_each: int) -> bytes:
    text = (WORDS * (bytes_each // len(WORDS) + 1))[:bytes_each]
    messages = [{"role": "user", "content": f"{number} {text}"} for number in range(message_count)]
    return json.dumps({"model": "gpt-4o", "messages": messages}).encode()


def microseconds(call: Callable[[], object], count: int) -> float:
    began = time.thread_time()
    for _ in range(count):
        call()
    return (time.thread_time() - began) / count * 1e6


def estimate(estimator: HybridTokenEstimator, body: bytes) -> object:
    return estimator.estimate(body)


def record(estimator: HybridTokenEstimator, body: bytes) -> object:
    return estimator.record(body, 500)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=41)
    rounds = parser.parse_args().rounds
    print(f"{'body':>10} {'call':>9} {'without':>9} {'with':>9} {'difference':>11}  us, median")
    for size, body, count in (
        ("200 B", body_of(1, 100), CALLS),
        ("2 KB", body_of(4, 450), CALLS),
        ("300 KB", body_of(40, 7_500), CALLS // 50),
    ):
        plain, counted = HybridTokenEstimator(), HybridTokenEstimator(metrics=Metrics())
        for name, call in (("estimate", estimate), ("record", record)):
            pairs = [
                [microseconds(partial(call, it, body), count) for it in (plain, counted)]
                for _ in range(rounds)
            ]
            without, with_metrics = (statistics.median(row) for row in zip(*pairs, strict=True))
            more = statistics.median(b - a for a, b in pairs)
            print(f"{size:>10} {name:>9} {without:9.1f} {with_metrics:9.1f} {more:11.2f}")


if __name__ == "__main__":
    main()
