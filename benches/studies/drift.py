"""How soon a change of a provider is told, and how often one is that did not happen.

    python3 dev.py study drift calls.jsonl.gz --bills 200000

Recorded calls are drawn again and again, each as the first of a conversation: programs (calls of
one project with one system prompt and one set of tools) keep their own share of the traffic, and a
program's calls come in bursts. First nothing changes, and each alarm is false. Then bills of one
profile change half way, by a hidden prompt or another tokenizer, and the bills until the alarm are
counted.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenctx import HybridTokenEstimator
from tokenctx._cli.evaluation.evaluation import Unusable, numbered_lines, read_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tokenctx import AccuracyEvent, Drift
    from tokenctx._cli.evaluation.evaluation import RecordedCall

LEAST_CALLS: Final = 40
"""Of a profile, so that there is something to draw from."""
BURST: Final = 8
USUAL_BILLS: Final = 1500
MOST_BILLS: Final = 600
CHANGES: Final[dict[str, Callable[[int], int]]] = {
    "hidden prompt of 20 tokens": lambda billed: billed + 20,
    "hidden prompt of 200 tokens": lambda billed: billed + 200,
    "5 % more": lambda billed: billed * 105 // 100,
    "30 % more": lambda billed: billed * 130 // 100,
    "10 % less": lambda billed: billed * 90 // 100,
}


@dataclass(frozen=True, slots=True)
class Bill:
    """A recorded call as an estimator gets it."""

    program: tuple[str, str]
    names: dict[str, Any]
    body: Any
    billed_tokens: int


def bills(paths: Iterable[Path]) -> dict[str, list[Bill]]:
    """What is watched, by profile: text, tools and schemas that their request determines."""
    counter, found = HybridTokenEstimator(), defaultdict(list)
    for path in paths:
        for number, line, _ in numbered_lines(path):
            with suppress(Unusable):
                call = read_call(number, line)
                if call.stratum in {"text", "tools", "structured output"}:
                    profile = counter.count_request(call.body, **call.names).profile
                    found[profile].append(bill(call))
    return {profile: all_ for profile, all_ in found.items() if len(all_) >= LEAST_CALLS}


def bill(call: RecordedCall) -> Bill:
    system = [
        message
        for message in call.body.get("messages") or ()
        if isinstance(message, dict) and message.get("role") == "system"
    ]
    context = repr((system, call.body.get("system"), call.body.get("tools")))
    return Bill((call.group, context), call.names, call.body, call.billed_tokens)


def traffic(random_: random.Random, all_: list[Bill]) -> Iterator[Bill]:
    """Endless calls, in bursts of one program each."""
    programs: dict[tuple[str, str], list[Bill]] = defaultdict(list)
    for one in all_:
        programs[one.program].append(one)
    listed = list(programs.values())
    weights = [len(program) for program in listed]
    while True:
        [program] = random_.choices(listed, weights)
        for _ in range(random_.randrange(1, BURST)):
            yield random_.choice(program)


def watched(alarms: list[Drift]) -> HybridTokenEstimator:
    """One that knows next to no conversation, so that each call is the first of one."""

    def note(event: AccuracyEvent) -> None:
        if event.drift is not None:
            alarms.append(event.drift)

    return HybridTokenEstimator(capacity_bytes=0, clock=lambda: 0.0, on_accuracy=note)


def false_alarms(all_: list[Bill], count: int, random_: random.Random) -> int:
    alarms: list[Drift] = []
    estimator = watched(alarms)
    for one in itertools.islice(traffic(random_, all_), count):
        estimator.record(one.body, one.billed_tokens, **one.names)
    return len(alarms)


def delay(all_: list[Bill], change: Callable[[int], int], random_: random.Random) -> int | None:
    """Bills until the first alarm after the change; None if there is none."""
    alarms: list[Drift] = []
    estimator, drawn = watched(alarms), traffic(random_, all_)
    for one in itertools.islice(drawn, USUAL_BILLS):
        estimator.record(one.body, one.billed_tokens, **one.names)
    alarms.clear()
    for nth, one in enumerate(itertools.islice(drawn, MOST_BILLS), 1):
        estimator.record(one.body, max(1, change(one.billed_tokens)), **one.names)
        if alarms:
            return nth
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "calls", type=Path, nargs="+", help="recorded calls, as `tokenctx eval` reads"
    )
    parser.add_argument(
        "--bills", type=int, default=200_000, help="without a change, of all profiles"
    )
    parser.add_argument("--tries", type=int, default=5, help="of each change and profile")
    options = parser.parse_args()
    by_profile = bills(options.calls)
    total, began, alarms = sum(map(len, by_profile.values())), time.monotonic(), {}
    for profile, all_ in by_profile.items():
        share = max(2000, options.bills * len(all_) // total)
        alarms[profile] = (share, false_alarms(all_, share, random.Random(profile)))
        print(f"\r{time.monotonic() - began:4.0f} s  {profile:24}", end="", file=sys.stderr)
    print(file=sys.stderr)
    count, false = (sum(column) for column in zip(*alarms.values(), strict=True))
    print(f"nothing changed: {count:,} bills of {len(alarms)} profiles, {false} false alarms")
    for profile, (share, number) in alarms.items():
        if number:
            print(f"  {profile}: {number} in {share:,}")
    missed = f"not told in {MOST_BILLS}"
    print(f"{'changed: bills until told':32}{'median':>8}{'p90':>8}{missed:>22}")
    for title, change in CHANGES.items():
        found = [
            delay(all_, change, random.Random(seed))
            for all_ in by_profile.values()
            for seed in range(options.tries)
        ]
        told = sorted(one for one in found if one is not None)
        middle, most = (
            (told[int(len(told) * share)] for share in (0.5, 0.9)) if told else ("-", "-")
        )
        missed = f"{len(found) - len(told)} of {len(found)}"
        print(f"{title:32}{middle:>8}{most:>8}{missed:>22}")


if __name__ == "__main__":
    main()
