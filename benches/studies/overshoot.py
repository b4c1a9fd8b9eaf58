"""By how much a budget is exceeded: `python3 dev.py study overshoot`.

A tenant sends as many calls as its budget lets through, each without `max_tokens`, so that nobody
knows its output. Outputs are drawn from a distribution with a long tail (log-normal, median 400
tokens, sigma 1.2, cut at 64,000); input is counted right. Each streams 80 tokens a second and is
billed at its end. The clock is simulated, and the store is the one in memory: what is measured is
the rule, not a machine. Overshoot is what was billed of the calls that began in a window, above its
limit: in windows of the clock, and in any sixty seconds.
"""

from __future__ import annotations

import argparse
import heapq
import random
from typing import Final

from tokenctx.money.budgets import Budget, Budgets, MemoryBudgetStore, Reservation, Uncounted
from tokenctx.usage import Usage

INPUT_TOKENS: Final = 1_000
TOKENS_A_SECOND: Final = 80
TICK_SECONDS: Final = 0.05
SPAN_SECONDS: Final = 60
MEDIAN_TOKENS, SIGMA, MOST_TOKENS = 400, 1.2, 64_000


def outputs(seed: int) -> random.Random:
    """The chance by which outputs are drawn; the same for each rule."""
    return random.Random(seed)


def play(limit: int, minutes: int, *, is_rolling: bool, grows: bool, rushes: bool) -> list[float]:
    """Calls that were billed, as pairs of beginning and tokens, joined in one list.

    With `rushes` no output was learned before: all calls of the first minute come in one burst.
    """
    clock = [1e9 - 1e9 % SPAN_SECONDS]
    one = Budget("minute", tokens=limit, per="minute", is_rolling=is_rolling)
    store = MemoryBudgetStore(clock=lambda: clock[0])
    budgets = Budgets([one], store=store, lease_seconds=3_600)
    chance = outputs(7)
    call = Uncounted(high=INPUT_TOKENS, model="gpt-4o")
    if not rushes:
        for _ in range(64):
            budgets._outputs.add("", "gpt-4o", drawn(chance))  # noqa: SLF001  # as if billed
    ends: list[tuple[float, int]] = []
    running: dict[int, tuple[Reservation, float, int]] = {}
    made: list[float] = []
    began = clock[0]
    while clock[0] - began < minutes * SPAN_SECONDS:
        now = clock[0]
        while ends and ends[0][0] <= now:
            _, nth = heapq.heappop(ends)
            reservation, _, output = running.pop(nth)
            reservation.settle(Usage(uncached_input_tokens=INPUT_TOKENS, output_tokens=output))
        if grows:
            for reservation, at, _ in running.values():
                seen = int((now - at) * TOKENS_A_SECOND)
                if seen > reservation.output_tokens:
                    reservation.grow(seen * 3 // 2)
        while (reservation := budgets.reserve(call)).label == "granted":
            output, nth = drawn(chance), len(made)
            running[nth] = reservation, now, output
            heapq.heappush(ends, (now + output / TOKENS_A_SECOND, nth))
            made += [now - began, float(INPUT_TOKENS + output)]
        clock[0] += TICK_SECONDS
    return made


def drawn(chance: random.Random) -> int:
    """An output in tokens."""
    value = MEDIAN_TOKENS * chance.lognormvariate(0, SIGMA)
    return max(1, min(MOST_TOKENS, int(value)))


def shares(made: list[float], limit: int, minutes: int) -> tuple[float, float, float, float]:
    """Mean and most of limit that windows of the clock took, most of any span, and of all."""
    calls = list(zip(made[::2], made[1::2], strict=True))
    windows = [0.0] * minutes
    for at, tokens in calls:
        windows[int(at // SPAN_SECONDS)] += tokens
    most = taken = 0.0
    first = 0
    for at, tokens in calls:
        taken += tokens
        while calls[first][0] <= at - SPAN_SECONDS:
            taken -= calls[first][1]
            first += 1
        most = max(most, taken)
    mean = sum(windows) / minutes
    return mean / limit, max(windows) / limit, most / limit, len(calls) / minutes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=120)
    options = parser.parse_args()
    print("limit, window, grows, learned | mean, most of a window, most of 60 s | calls a minute")
    for limit in (100_000, 1_000_000):
        for is_rolling in (False, True):
            for grows in (False, True):
                for rushes in (False, True):
                    minutes = 1 if rushes else options.minutes
                    made = play(limit, minutes, is_rolling=is_rolling, grows=grows, rushes=rushes)
                    found = shares(made, limit, minutes)
                    print(
                        f"{limit:>9} {'rolling' if is_rolling else 'fixed':>8} {grows!s:>6} "
                        f"{not rushes!s:>6} | {found[0]:.3f} {found[1]:.3f} {found[2]:.3f} | "
                        f"{found[3]:.0f}"
                    )


if __name__ == "__main__":
    main()
