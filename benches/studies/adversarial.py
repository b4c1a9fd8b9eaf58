"""Text and bodies that are made to be slow, the time they take, and a search for worse.

    python3 dev.py study adversarial [--encoding o200k_base] [--largest 1M] [--only NAME ...]
    python3 dev.py study adversarial --search 60
    python3 dev.py study adversarial --bodies [--search 60] [--size 2M]
    python3 dev.py study adversarial --streams [--search 60] [--size 2M]

Every generator is counted at 64 KB and every doubling up to --largest (64M is the full set, some
ten minutes). Before each count, other text takes the places of what is remembered and the lines of
the caches: the text is as new at 64 KB as at 64 MB. `growth` is the factor of time per byte for a
doubling that fits all lengths best, `step` the largest of a single doubling, `worst` the most ms/MB
of all lengths, `memory` the extra peak in bytes per byte of input. Short texts pay for tables that
are not in the caches, which long ones do once: a growth below 1 is usual. The search mutates the
slowest texts for so many seconds and keeps what takes more time per byte.

With `--bodies`, whole requests of small parts are estimated and recorded, each by a process of its
own with an address space of 2 GiB; the search makes requests of a grammar. `beside` is the peak of
memory beyond 8 bytes for each byte of the body, `ms` what is beyond 80 ms for each MB. `--streams`
does the same with answers that come in events: read in pieces of 4 KB, a sixteenth of it byte by
byte, and scaled.
"""

from __future__ import annotations

import argparse
import functools
import gc
import itertools
import math
import os
import random
import resource
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from adversarial_bodies import SHAPES, STREAMS, Shape, random_shape, random_stream
from adversarial_texts import GENERATORS, clipped, make, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KB: Final = 1024
SMALLEST: Final = 64 * KB
SEARCH_BYTES: Final = SMALLEST
OTHER_PIECES: Final = 4 << 16  # the memo of pieces has 1 << 16 places: 2 % stay
TURNS: Final = itertools.count()
MUST_MS: Final = 40.0
AIM_MS: Final = 20.0
MUST_GROWTH: Final = 1.1
MUST_MEMORY: Final = 8.0
BODY_MS: Final = 80.0
BESIDE_MB: Final = 32.0
BESIDE_MS: Final = 300.0
ADDRESS_SPACE: Final = 2 << 30
STREAM_CALLS: Final = ("read", "read bytewise", "scale")
READ_BYTES: Final = 4096


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


# Bodies.


@dataclass(frozen=True)
class Cost:
    """What one call of a body took."""

    name: str
    byte_count: int
    milliseconds: float
    peak: float
    outcome: str

    @property
    def beside_ms(self) -> float:
        return self.milliseconds - BODY_MS * self.byte_count / 1e6

    @property
    def beside_mb(self) -> float:
        return (self.peak - MUST_MEMORY * self.byte_count) / 1e6

    def __str__(self) -> str:
        megabytes = self.byte_count / 1e6
        figures = (self.milliseconds / megabytes, self.peak / self.byte_count)
        beside = (self.beside_ms, self.beside_mb)
        cells = "".join(f"{figure:9.1f}" for figure in (megabytes, *figures, *beside))
        return f"{self.name:<44}{cells}  {self.outcome}"


def cost_of(name: str, body: bytes, call: str) -> Cost:
    """What `call` of the body costs in a process of its own; an abort is an outcome too."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, _told(body, call).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        answer = told.read()
    _, status = os.waitpid(child, 0)
    if status or not answer:
        return Cost(f"{call} {name}", len(body), math.inf, math.inf, f"ended with status {status}")
    milliseconds, peak, outcome = answer.split(" ", 2)
    return Cost(f"{call} {name}", len(body), float(milliseconds), float(peak), outcome)


def _told(body: bytes, call: str) -> str:
    import tokenctx

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    estimator, outcome = tokenctx.HybridTokenEstimator(), ""
    estimator.estimate(b'{"messages":[{"role":"user","content":"a"}]}')

    def work(_: bytes) -> int:
        nonlocal outcome
        try:
            if call in STREAM_CALLS:
                return _streamed(body, call)
            if call == "record":
                return int(estimator.record(body, 1000))
            return estimator.estimate(body).tokens
        except tokenctx.RequestError as error:
            outcome = error.code
            return 0

    start = time.process_time_ns()
    peak = peak_bytes(work, body)
    return f"{(time.process_time_ns() - start) / 1e6} {peak} {outcome}"


def _streamed(stream: bytes, call: str) -> int:
    """The bytes that came through, of a stream in pieces of `READ_BYTES` or byte by byte."""
    import tokenctx

    if call == "scale":
        scaler = tokenctx.ContextWindowScaler(128_000)
        pieces = (stream[at : at + READ_BYTES] for at in range(0, len(stream), READ_BYTES))
        return sum(len(piece) for piece in scaler.scale_stream(pieces))
    size = 1 if call == "read bytewise" else READ_BYTES
    used = stream[: len(stream) if size > 1 else len(stream) // 16]
    reader = tokenctx.UsageReader()
    for at in range(0, len(used), size):
        reader.feed(used[at : at + size])
    reader.finish()
    return len(used)


def bodies(
    size: int,
    seconds: float | None,
    seed: int,
    *,
    calls: tuple[str, ...] = ("estimate", "record"),
    named: dict[str, Shape] = SHAPES,
    random_one: Callable[[random.Random], Shape] = random_shape,
) -> int:
    """Measure named bodies, or random ones for so many seconds; 1 if one is beyond the bounds."""
    random_ = random.Random(seed)
    shapes: Iterator[tuple[str, Shape]] = iter(named.items())
    if seconds is not None:
        deadline = time.monotonic() + seconds
        turns = itertools.takewhile(lambda _: time.monotonic() < deadline, itertools.count())
        made = (random_one(random_) for _ in turns)
        shapes = ((f"{it.before[9:30]}..{it.unit[:12]}", it) for it in made)
    columns = ("MB", "ms/MB", "B/B", "ms", "beside MB")
    print(f"{'body':<44}" + "".join(f"{column:>9}" for column in columns))
    costs: list[Cost] = []
    worst: dict[str, Shape] = {}
    for name, shape in shapes:
        body = shape.body(size if seconds is None else int(size / 2 ** (6 * random_.random())))
        for call in calls:
            costs.append(cost_of(name, body, call))
            worst[costs[-1].name] = shape
            if seconds is None:
                print(costs[-1], flush=True)
    slowest = max(costs, key=lambda cost: cost.beside_ms)
    largest = max(costs, key=lambda cost: cost.beside_mb)
    print(f"\n{len(costs)} calls; slowest, then largest (must {BESIDE_MS} ms, {BESIDE_MB} MB):")
    for cost in (slowest, largest):
        shape = worst[cost.name]
        print(cost)
        print(f"    {shape.before[:300]} ... {shape.unit} ... {shape.after[:60]}")
    return int(slowest.beside_ms > BESIDE_MS or largest.beside_mb > BESIDE_MB)


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
    parser.add_argument("--bodies", action="store_true", help="bodies, not texts")
    parser.add_argument("--streams", action="store_true", help="streams of events, not texts")
    parser.add_argument("--size", type=byte_count, default="2M", help="bytes of a body or stream")
    parser.add_argument("--write", type=Path, help="where the search writes the worst text")
    options = parser.parse_args()
    if options.streams:
        asked = (options.size, options.search, options.seed)
        return bodies(*asked, calls=STREAM_CALLS, named=STREAMS, random_one=random_stream)
    if options.bodies:
        return bodies(options.size, options.search, options.seed)
    if options.search is None:
        worst = table(options.encoding, options.only, options.largest)[-1].worst
    else:
        worst, genome = search(options.encoding, options.search, options.seed)
        if options.write:
            options.write.write_bytes(filled(genome))
    return 1 if worst > MUST_MS else 0


if __name__ == "__main__":
    sys.exit(main())
