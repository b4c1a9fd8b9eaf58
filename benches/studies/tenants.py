"""Whether one tenant can tell by time what another tenant has sent.

    python3 dev.py study tenants [--pairs 250] [--between 1]

Alice sends a text, then Mallory sends that text and one of the same kind that nobody has sent, each
once, half of the pairs in either order. `AUC` is how often the text that Alice had sent is the
quicker one (0.5: no better than a coin), `KS` the largest distance of the two distributions; beyond
`limit` they differ with a certainty of 95 %. In the control Alice sends a third text. Between Alice
and Mallory, others send so many texts of 16 KB: with none, the caches of the processor still hold
the tables that Alice's text has used.
"""

from __future__ import annotations

import argparse
import bisect
import json
import math
import random
import statistics
import string
import sys
import time
from typing import Final

import tokenctx

MODELS: Final = ("gpt-4o", "llama-3.3-70b", "gemini-2.5-pro", "claude-sonnet-4-5")
LENGTHS: Final = (800, 16_000, 110_000)
OTHERS_LENGTH: Final = 16_000
RARE: Final = 0.1
"""Share of the words that nobody has used, as names and keys are."""


class Texts:
    """Texts of common words and of words that occur nowhere else."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        letters = string.ascii_lowercase
        length = self.random.randint
        self.words = ["".join(self.random.choices(letters, k=length(2, 9))) for _ in range(3000)]

    def text(self, length: int) -> str:
        words, count = [], 0
        while count < length:
            rare = "".join(self.random.choices(string.ascii_letters + string.digits, k=10))
            words.append(rare if self.random.random() < RARE else self.random.choice(self.words))
            count += len(words[-1]) + 1
        return " ".join(words)[:length]


def body(model: str, text: str) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": text}]}).encode()


def auc(quick: list[int], slow: list[int]) -> float:
    """How often one of `quick` is below one of `slow`."""
    ranked = sorted(slow)
    below = [bisect.bisect_left(ranked, it) + bisect.bisect_right(ranked, it) for it in quick]
    return 1 - sum(below) / 2 / len(quick) / len(slow)


def distance(one: list[int], other: list[int]) -> float:
    """The Kolmogorov-Smirnov statistic."""
    one, other = sorted(one), sorted(other)
    share = bisect.bisect_right
    return max(abs(share(one, it) / len(one) - share(other, it) / len(other)) for it in one + other)


def measured(
    model: str, length: int, pairs: int, between: int, *, is_control: bool
) -> tuple[list[int], list[int]]:
    """Nanoseconds of texts that another tenant had sent, and of those that nobody had."""
    texts, estimator = Texts(seed=length), tokenctx.HybridTokenEstimator()
    sent: list[int] = []
    new: list[int] = []
    orders = [1, -1] * (pairs // 2)
    texts.random.shuffle(orders)
    for number, order in enumerate(orders):
        theirs, mine = (body(model, texts.text(length)) for _ in range(2))
        third = body(model, texts.text(length))
        estimator.estimate(third if is_control else theirs, tenant="alice")
        for _ in range(between):
            estimator.estimate(body(model, texts.text(OTHERS_LENGTH)), tenant="carol")
        # Copies: what Alice has sent shall not be nearer to the processor than what nobody has.
        asked = [(bytes(bytearray(theirs)), sent), (bytes(bytearray(mine)), new)]
        for request, times in asked[::order]:
            estimator.estimate(body(model, f"other {number}"), tenant="mallory")
            start = time.perf_counter_ns()
            estimator.estimate(request, tenant="mallory")
            times.append(time.perf_counter_ns() - start)
    return sent, new


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--pairs", type=int, default=250)
    parser.add_argument("--between", type=int, default=1, metavar="TEXTS")
    options = parser.parse_args()
    limit = 1.36 * math.sqrt(2 / options.pairs)
    print(
        f"{options.pairs} pairs a row, {options.between} texts of others between; limit {limit:.3f}"
    )
    columns = ("length", "sent us", "new us", "AUC", "KS")
    print(f"{'model':<20}{'':<9}" + "".join(f"{column:>9}" for column in columns))
    for model in MODELS:
        for length in LENGTHS:
            for is_control in (False, True):
                sent, new = measured(
                    model, length, options.pairs, options.between, is_control=is_control
                )
                middle = (f"{statistics.median(times) / 1000:9.1f}" for times in (sent, new))
                row = "".join((*middle, f"{auc(sent, new):9.3f}", f"{distance(sent, new):9.3f}"))
                kind = "control" if is_control else ""
                print(f"{model:<20}{kind:<9}{length:>9}{row}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
