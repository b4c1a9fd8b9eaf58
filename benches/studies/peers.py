"""Compare tokenctx with every other implementation that is installed.

    python3 dev.py study peers [--encoding o200k_base] [--megabytes 6] [--rounds 3]
                            [--json target/peers.json] [--plot target/peers.png]

The extra `peers` installs the others. Times are processor time, so that other work on the machine
hurts little; two threads are compared by wall time. "fresh" is text that the process has not seen
before, after as much other text, counted by all in turn in one process, 250 KB by one after the
other, so that each finds the caches full of what the others read. "alone" is the same in a process
of its own. "hot" is the same text once more; "cold" is the first text of a fresh process with what
its first call sets up, without loading the vocabulary. A ratio is the median over groups, or over
processes.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import corpora
import counters
from peer_worker import GROUP_BYTES, Blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKER: Final = Path(__file__).with_name("peer_worker.py")
ONE_THREAD: Final = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
ANCHOR: Final = "tiktoken"

# Must and aim of each ratio to the best peer, as the issue of the engine asks for.
FRESH: Final = {
    "english": (1.3, 1.8),
    "code": (1.3, 1.8),
    "json": (1.3, 1.8),
    "multilingual": (1.4, 2.0),
    "messages": (1.4, 2.0),
}
COLD: Final = (2.0, 3.0)
HOT: Final = (1.0, 1.0)
ANCHOR_RATIO: Final = (12.0, 12.0)
THREADS: Final = (1.7, 1.7)
FIRST_COUNT_MS: Final = (5.0, 2.0)
PRIVATE_MB: Final = (12.0, 4.0)


@dataclass(frozen=True)
class Promise:
    """A figure and what it must and should be."""

    what: str
    measured: float
    must: float
    aim: float
    beside: str = ""

    def verdict(self) -> str:
        sign = 1 if self.aim >= self.must else -1  # less is better where the aim is less
        if sign * self.measured >= sign * self.aim:
            return "aim"
        return "must" if sign * self.measured >= sign * self.must else "NO"


def grouped(texts: list[str]) -> list[list[str]]:
    """`texts` in groups of about 250 KB."""
    groups: list[list[str]] = [[]]
    length = 0
    for text in texts:
        groups[-1].append(text)
        length += len(text.encode())
        if length >= GROUP_BYTES:
            groups.append([])
            length = 0
    return [group for group in groups if group]


def write_corpora(path: Path, byte_count: int) -> Blocks:
    """The corpora, also written to `path` for the workers."""
    blocks = {kind: grouped(corpora.take(kind, byte_count)) for kind in corpora.KINDS}
    path.write_bytes(pickle.dumps(blocks))
    return blocks


def worker(**job: Any) -> dict[str, Any]:
    """What a fresh process measures."""
    command = [sys.executable, str(WORKER), json.dumps(job)]
    environment = {**os.environ, **ONE_THREAD}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{job['measure']} failed:\n{done.stderr[-2000:]}")
    made: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return made


def beside_another(**job: Any) -> dict[str, Any]:
    """The same, while a second such process is alive and shares what can be shared."""
    command = [sys.executable, str(WORKER), json.dumps({**job, "wait": True})]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env={**os.environ, **ONE_THREAD}, **pipes) as other:  # type: ignore[call-overload]
        other.stdout.readline()
        made = worker(**job, wait=False)
        other.communicate()
    return made


def usable(encoding: str) -> list[counters.Counter]:
    """The counters that load and count here; says which do not."""
    found = []
    for counter in counters.installed(encoding):
        if reason := fault(counter, encoding):
            print(f"{counter.name}: left out, {reason}")
        else:
            found.append(counter)
    return found


def fault(counter: counters.Counter, encoding: str) -> str:
    """Why the counter does not load or count here; empty if it does."""
    try:
        counter.prepare(counters.vocabulary_folder())
    except RuntimeError as error:
        return str(error)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import counters as c; print("
        "c.named(sys.argv[2]).load(sys.argv[3], c.vocabulary_folder())('hello world'))"
    )
    command = [
        sys.executable,
        "-c",
        program,
        str(Path(counters.__file__).parent),
        counter.name,
        encoding,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Everything of one run, as it is written to --json."""
    counters.write_vocabulary(options.encoding, counters.vocabulary_folder())
    found = usable(options.encoding)
    names = [counter.name for counter in found]
    path = folder / "corpora.pickle"
    blocks = write_corpora(path, int(options.megabytes * corpora.MB))
    common = {"encoding": options.encoding, "path": str(path)}
    say(f"{len(names)} counters in turn, {options.rounds} processes")
    rounds = [worker(measure="interleaved", names=names, **common) for _ in range(options.rounds)]
    return {
        "encoding": options.encoding,
        "python": sys.version.split()[0],
        "versions": {counter.name: counter.version() for counter in found},
        "corpora": {
            kind: corpora.fingerprint([text for group in groups for text in group])
            for kind, groups in blocks.items()
        },
        "interleaved": rounds,
        "isolated": _isolated(names, options.rounds, common),
    }


def _isolated(names: list[str], rounds: int, common: dict[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for corpus in corpora.KINDS:
        say(f"fresh processes: {corpus}")
        job = {"measure": "isolated", "corpus": corpus, **common}
        turns = [
            {name: worker(**job, name=name, wait=False) for name in names} for _ in range(rounds)
        ]
        made[corpus] = {name: [turn[name] for turn in turns] for name in names}
    made["shared"] = {
        name: beside_another(measure="isolated", corpus="messages", name=name, **common)
        for name in names
    }
    return made


def say(text: str) -> None:
    print(f"[peers] {text}", file=sys.stderr, flush=True)


class Run:
    """Figures of a run."""

    def __init__(self, run: dict[str, Any]) -> None:
        self.run = run
        self.names: list[str] = list(run["versions"])
        rounds = run["interleaved"]
        self.wrong = {
            name: max(made["differences"][name] for made in rounds) for name in self.names
        }

    def times(self, corpus: str, phase: str, name: str) -> list[float]:
        """Nanoseconds per byte of every group."""
        if phase in {"cold", "alone"}:
            turns = self.run["isolated"][corpus][name]
            return [self._half_time(turn, is_first=phase == "cold") for turn in turns]
        made = [turn["passes"][corpus] for turn in self.run["interleaved"]]
        pairs = ((one[phase][name], one["bytes"]) for one in made)
        return [ns / length for times, b in pairs for ns, length in zip(times, b, strict=True)]

    @staticmethod
    def _half_time(turn: dict[str, Any], *, is_first: bool) -> float:
        half = len(turn["bytes"]) // 2
        part = slice(half) if is_first else slice(half, None)
        spent: int = sum(turn["nanoseconds"][part]) + is_first * turn["first_count_nanoseconds"]
        return spent / float(sum(turn["bytes"][part]))

    def speed(self, corpus: str, phase: str, name: str) -> float:
        """MB/s: the median over groups."""
        return 1e3 / statistics.median(self.times(corpus, phase, name))

    def ratio(self, corpus: str, phase: str, peer: str) -> float:
        """How many times faster ours is than `peer`: the median over groups."""
        ours = self.times(corpus, phase, counters.OURS)
        pairs = zip(self.times(corpus, phase, peer), ours, strict=True)
        return statistics.median(theirs / our for theirs, our in pairs)

    def best(self, corpus: str, phase: str) -> str:
        """The fastest peer that counted every text right; the fastest of all if none did."""
        peers = [name for name in self.names if name != counters.OURS]
        exact = [name for name in peers if not self.wrong[name]]
        return max(exact or peers, key=lambda name: self.speed(corpus, phase, name))

    def start(self, name: str, field: str) -> float:
        turns = [turn for kind in corpora.KINDS for turn in self.run["isolated"][kind][name]]
        return float(statistics.median(turn[field] for turn in turns))

    def memory(self, name: str, field: str, *, alone: bool = False) -> float:
        """MB after the messages, alone or while another such process lives."""
        made = self.run["isolated"]
        turn = made["messages"][name][0] if alone else made["shared"][name]
        kib: float = turn["kib"][field]
        return kib * 1024 / 1e6

    def threads(self, name: str) -> float:
        return float(max(turn["threads"][name] for turn in self.run["interleaved"]))

    def promises(self) -> Iterator[Promise]:
        """Every figure that the issue of the engine asks for, beside its must and aim."""
        for corpus, (must, aim) in FRESH.items() if len(self.names) > 1 else ():
            fresh = dict.fromkeys(("fresh", "alone"), (must, aim))
            for phase, (least, wish) in (*fresh.items(), ("cold", COLD), ("hot", HOT)):
                best = self.best(corpus, phase)
                ratio = self.ratio(corpus, phase, best)
                yield Promise(f"{phase} {corpus}", ratio, least, wish, f"x {best}")
            for phase in fresh if ANCHOR in self.names else ():
                ratio = self.ratio(corpus, phase, ANCHOR)
                yield Promise(f"{phase} {corpus}", ratio, *ANCHOR_RATIO, f"x {ANCHOR}")
        ours = counters.OURS
        yield Promise("two threads, text by text", self.threads(ours), *THREADS, "x one thread")
        batches = max(turn["batch_threads"] for turn in self.run["interleaved"])
        yield Promise("two threads, by 64 texts", batches, *THREADS, "x one thread")
        first = self.start(ours, "load_ms") + self.start(ours, "first_count_ms")
        yield Promise("first count after import", first, *FIRST_COUNT_MS, "ms")
        yield Promise("private memory", self.memory(ours, "Private"), *PRIVATE_MB, "MB")


def report(run: Run) -> None:
    facts = run.run
    marks = " ".join(f"{kind} {mark}" for kind, mark in facts["corpora"].items())
    print(f"encoding {facts['encoding']}, Python {facts['python']}, corpora {marks}")
    texts = facts["interleaved"][0]["texts"]
    print(f"\nMB/s: alone / fresh (hot) [cold]; texts counted wrong, of {texts}")
    row("", *corpora.KINDS, "wrong")
    for name in run.names:
        cells = (speeds(run, kind, name) for kind in corpora.KINDS)
        row(f"{name} {facts['versions'][name]}", *cells, str(run.wrong[name] or "-"))
    print("\nstart-up in ms; private MB after the messages, alone and beside a second process")
    row("", "import", "load", "first count", "private alone", "private beside", "2 threads")
    for name in run.names:
        start = (run.start(name, f) for f in ("import_ms", "load_ms", "first_count_ms"))
        memory = (run.memory(name, "Private", alone=alone) for alone in (True, False))
        row(name, *(f"{ms:.1f}" for ms in (*start, *memory)), f"{run.threads(name):.2f}")
    print("\nwhat must hold")
    row("", "measured", "must", "aim", "holds", "")
    for promise in run.promises():
        figures = (promise.measured, promise.must, promise.aim)
        cells = (f"{figure:.2f}" for figure in figures)
        row(promise.what, *cells, promise.verdict(), promise.beside)


def speeds(run: Run, corpus: str, name: str) -> str:
    phases = ("alone", "fresh", "hot", "cold")
    figures = (run.speed(corpus, phase, name) for phase in phases)
    return "{} / {} ({}) [{}]".format(*(f"{x:.0f}" if x >= 10 else f"{x:.2g}" for x in figures))


def row(*cells: str) -> None:
    print(f"{cells[0]:<26}" + "".join(f"{cell:>26}" for cell in cells[1:]))


def plot(run: Run, path: Path) -> None:
    """Write a bar chart of new text, alone; without matplotlib, say that there is none."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        say("no plot: matplotlib is not installed")
        return
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(run.names)
    for place, name in enumerate(run.names):
        left = [x + place * width for x in range(len(corpora.KINDS))]
        heights = [run.speed(kind, "alone", name) for kind in corpora.KINDS]
        axes.bar(left, heights, width, label=f"{name} {run.run['versions'][name]}")
    axes.set_xticks([x + 0.4 - width / 2 for x in range(len(corpora.KINDS))], [*corpora.KINDS])
    axes.set_ylabel("MB/s, new text, one thread")
    axes.set_title(f"Counting tokens of {run.run['encoding']}")
    axes.legend()
    figure.savefig(path, dpi=120)
    say(f"plot: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--encoding", default="o200k_base")
    parser.add_argument("--megabytes", type=float, default=6, help="of each corpus")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each figure")
    parser.add_argument("--json", type=Path, help="where to write what was measured")
    parser.add_argument("--plot", type=Path, help="where to write a PNG")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(options, Path(folder))
    if options.json:
        options.json.write_text(json.dumps(measured), "utf-8")
    run = Run(measured)
    report(run)
    if options.plot:
        plot(run, options.plot)


if __name__ == "__main__":
    main()
