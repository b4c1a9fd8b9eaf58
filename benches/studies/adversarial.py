"""Text that is made to be slow to count, the time it takes, and a search for worse.

    python3 dev.py study adversarial [--encoding o200k_base] [--largest 1M] [--only NAME ...]
    python3 dev.py study adversarial --search 60

Every generator is counted at 64 KB and every doubling up to --largest (64M is the full set, some
ten minutes). Before each count, other text takes the places of what is remembered and the lines of
the caches: the text is as new at 64 KB as at 64 MB. `growth` is the factor of time per byte for a
doubling that fits all lengths best, `step` the largest of a single doubling, `worst` the most ms/MB
of all lengths, `memory` the extra peak in bytes per byte of input. Short texts pay for tables that
are not in the caches, which long ones do once: a growth below 1 is usual. The search mutates the
slowest texts for so many seconds and keeps what takes more time per byte.
"""

from __future__ import annotations

import argparse
import functools
import gc
import itertools
import math
import random
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from adversarial_texts import GENERATORS, clipped, make, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

KB: Final = 1024
SMALLEST: Final = 64 * KB
SEARCH_BYTES: Final = SMALLEST
OTHER_PIECES: Final = 4 << 16  # the memo of pieces has 1 << 16 places: 2 % stay
TURNS: Final = itertools.count()
MUST_MS: Final = 40.0
AIM_MS: Final = 20.0
MUST_GROWTH: Final = 1.1
MUST_MEMORY: Final = 8.0


@functools.cache
def other_text() -> bytes:
    """Random words of four letters, of which few are in any other text."""
    random_ = random.Random(0)
    return b" ".join(bytes(random_.choices(range(97, 123), k=4)) for _ in range(OTHER_PIECES))


def forget(count: Callable[[bytes], int]) -> None:
    """Count other text, so that little is remembered of what was counted before: 20 ms."""
    count(b"%s %d" % (other_text(), next(TURNS)))


def nanoseconds(count: Callable[[bytes], int], text: bytes) -> int:
    """Processor time of one count; with an end of its own, as whole texts are remembered."""
    changed = b"%s %d" % (text, next(TURNS))
    start = time.process_time_ns()
    count(changed)
    return time.process_time_ns() - start


def new_nanoseconds(count: Callable[[bytes], int], text: bytes) -> int:
    """The same of text that is new to the process."""
    forget(count)
    return nanoseconds(count, text)


def peak_bytes(count: Callable[[bytes], int], text: bytes) -> int:
    """How much the resident memory rises at most while counting; 0 where nothing tells."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return 0
    gc.collect()
    reset.write_text("5", "utf-8")
    before = _status_kib(status, "VmRSS")
    count(text)
    return max(0, _status_kib(status, "VmHWM") - before) * KB


def _status_kib(status: Path, field: str) -> int:
    lines = status.read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


@dataclass(frozen=True)
class Growth:
    """Time per byte of one generator at every length."""

    name: str
    lengths: tuple[int, ...]
    ms_per_mb: tuple[float, ...]
    memory: float

    @property
    def growth(self) -> float:
        """Factor per doubling: least squares of the logarithms; 1 if there is one length."""
        logarithms = [math.log2(ms) for ms in self.ms_per_mb]
        if len(logarithms) == 1:
            return 1.0
        fit = statistics.linear_regression(range(len(logarithms)), logarithms)
        return float(2**fit.slope)

    @property
    def step(self) -> float:
        """Largest factor of one doubling."""
        pairs = zip(self.ms_per_mb, self.ms_per_mb[1:], strict=False)
        return max((after / before for before, after in pairs), default=1.0)

    @property
    def worst(self) -> float:
        return max(self.ms_per_mb)


def lengths_up_to(largest: int) -> tuple[int, ...]:
    doublings = (largest // SMALLEST).bit_length()
    return tuple(SMALLEST << doubling for doubling in range(doublings))


def measure(count: Callable[[bytes], int], name: str, largest: int) -> Growth:
    """The growth of one generator; small lengths are the best of more repeats."""
    times = []
    text = b""
    for length in lengths_up_to(largest):
        text = make(name, length).encode()
        repeats = max(2, min(9, (4 << 20) // length))
        least = min(new_nanoseconds(count, text) for _ in range(repeats))
        times.append(least / len(text))
    memory = peak_bytes(count, text) / len(text)
    return Growth(name, lengths_up_to(largest), tuple(times), memory)


def counting(encoding: str) -> Callable[[bytes], int]:
    import tokenctx

    return functools.partial(tokenctx.count_tokens, encoding=encoding)  # type: ignore[arg-type]


def table(encoding: str, names: list[str], largest: int) -> list[Growth]:
    """Measure, print and return all, the slowest last."""
    count = counting(encoding)
    measured = []
    print(f"{encoding}, {len(names)} generators, 64 KB to {largest // KB} KB")
    columns = ("first", "last", "worst", "growth", "step", "memory")
    print(f"{'generator':<22}" + "".join(f"{column:>9}" for column in columns))
    for name in names:
        measured.append(measure(count, name, largest))
        print_row(measured[-1])
    measured.sort(key=lambda growth: growth.worst)
    slowest, steepest = measured[-1], max(measured, key=lambda growth: growth.growth)
    sudden = max(measured, key=lambda growth: growth.step)
    hungriest = max(measured, key=lambda growth: growth.memory)
    print(f"\nworst ms/MB    {slowest.worst:9.1f}  {slowest.name} (must {MUST_MS}, aim {AIM_MS})")
    print(f"worst growth   {steepest.growth:9.2f}  {steepest.name} (must {MUST_GROWTH})")
    print(f"largest step   {sudden.step:9.2f}  {sudden.name}")
    print(f"worst memory   {hungriest.memory:9.1f}  {hungriest.name} (must {MUST_MEMORY} B/B)")
    over = [growth.name for growth in measured if growth.worst > MUST_MS]
    print(f"above {MUST_MS} ms/MB: {', '.join(over) or 'none'}")
    return measured


def print_row(growth: Growth) -> None:
    times = (growth.ms_per_mb[0], growth.ms_per_mb[-1], growth.worst)
    cells = "".join(f"{figure:9.2f}" for figure in (*times, growth.growth, growth.step))
    print(f"{growth.name:<22}{cells}{growth.memory:9.1f}", flush=True)


# The search: a genome is repeated to 64 KB, or is as long itself.


def filled(genome: str) -> bytes:
    unit = genome.encode() or b"a"
    return clipped((unit * (SEARCH_BYTES // len(unit) + 1)).decode(), SEARCH_BYTES).encode()


def mutated(random_: random.Random, genome: str, others: list[str]) -> str:
    """`genome` with one change: of a character, a part, a token, a length, a period."""
    characters = list(genome)
    at = random_.randrange(len(characters) + 1)
    end = min(len(characters), at + int(2 ** (random_.random() * 8)))
    other = random_.choice(others)
    start = random_.randrange(len(other))
    change: list[str] = [
        random_.choice(other),
        random_.choice(vocabulary()),
        other[start : start + random_.randrange(1, 200)],
        "",
        "".join(random_.sample(characters[at:end], end - at)),
        "".join(characters[at:end]).swapcase(),
        "".join(characters[at:end]) * random_.randrange(2, 5),
        chr(ord(characters[at - 1]) ^ 1 << random_.randrange(5)) if characters else "a",
    ]
    chosen = random_.choice(change).encode("utf-8", "ignore").decode()
    made = "".join(characters[:at]) + chosen + "".join(characters[end:])
    if random_.random() < 0.05:
        made = made[: random_.randrange(len(made) + 1)]
    return clipped(made, SEARCH_BYTES) or "a"


def search(encoding: str, seconds: float, seed: int) -> tuple[float, str]:
    """The text of the most time per byte that was found, confirmed by 9 more counts.

    One mutation of each of the best is counted after other text. They are of different ancestors
    and have few pieces in common, so that other text in between would cost more than it shows.
    """
    random_ = random.Random(seed)
    count = counting(encoding)

    def cost(genome: str, repeats: int, mark: float = 0) -> float:
        """Least ms/MB of new text; stops at the first count that is not above `mark`."""
        text, least = filled(genome), math.inf
        for _ in range(repeats):
            least = min(least, new_nanoseconds(count, text) / len(text))
            if least <= mark:
                break
        return least

    genomes = [make(name, length) for name in GENERATORS for length in (200, SEARCH_BYTES)]
    ranked = sorted(((cost(genome, 2), genome) for genome in genomes), reverse=True)
    best = [(cost(genome, 7), genome) for _, genome in ranked[:16]]
    print(f"search from {max(best)[0]:.1f} ms/MB, seed {seed}", flush=True)
    deadline, tries = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        forget(count)
        for place, (mark, parent) in enumerate(best):
            tries += 1
            genome = mutated(random_, parent, genomes)
            text = filled(genome)
            once = nanoseconds(count, text) / len(text)
            if once > mark and (again := cost(genome, 7, mark)) > mark:
                best[place] = (again, genome)
    found, genome = max((cost(genome, 9), genome) for _, genome in best)
    print(
        f"{tries} mutations: {found:.1f} ms/MB (must {MUST_MS}, aim {AIM_MS}); {len(genome)} long"
    )
    print(f"begins {genome[:100]!r}")
    return found, genome


def byte_count(text: str) -> int:
    units = {"K": KB, "M": KB * KB}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--encoding", default="o200k_base")
    parser.add_argument("--largest", type=byte_count, default="1M", help="64K to 64M")
    parser.add_argument("--only", nargs="+", default=list(GENERATORS), choices=list(GENERATORS))
    parser.add_argument("--search", type=float, metavar="SECONDS", help="search, no table")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="where the search writes the worst text")
    options = parser.parse_args()
    if options.search is None:
        worst = table(options.encoding, options.only, options.largest)[-1].worst
    else:
        worst, genome = search(options.encoding, options.search, options.seed)
        if options.write:
            options.write.write_bytes(filled(genome))
    return 1 if worst > MUST_MS else 0


if __name__ == "__main__":
    sys.exit(main())
