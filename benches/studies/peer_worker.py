"""What `peers.py` runs in fresh processes: one measurement each, JSON on the standard output."""

from __future__ import annotations

import ctypes
import functools
import json
import pickle
import random
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import counters

if TYPE_CHECKING:
    from collections.abc import Callable

Blocks = dict[str, list[list[str]]]
GROUP_BYTES: Final = 250_000
HELLO: Final = "hello world"
BATCH: Final = 64


def load_blocks(path: str) -> Blocks:
    """The corpora that `peers.py` wrote: name -> groups of texts of about 250 KB."""
    blocks: Blocks = pickle.loads(Path(path).read_bytes())  # noqa: S301  # our own file
    return blocks


def cache_utf8(groups: list[list[str]]) -> None:
    """Make every str hold its UTF-8, so that not the first counter alone pays for it."""
    as_utf8 = ctypes.pythonapi.PyUnicode_AsUTF8AndSize
    as_utf8.restype = ctypes.c_void_p
    for group in groups:
        for text in group:
            as_utf8(ctypes.py_object(text), None)


def byte_length(group: list[str]) -> int:
    return sum(len(text.encode()) for text in group)


def count_group(count: counters.Count, group: list[str]) -> tuple[int, int]:
    """Nanoseconds of processor time (of all threads of the process), and tokens."""
    start = time.process_time_ns()
    tokens = sum(map(count, group))
    return time.process_time_ns() - start, tokens


def kilobytes(field: str) -> int:
    """A field of the memory of this process, in KiB: `Private` is clean and dirty."""
    lines = Path("/proc/self/smaps_rollup").read_text("utf-8").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(field))


def isolated(name: str, encoding: str, path: str, corpus: str, *, wait: bool) -> dict[str, Any]:
    """Start-up, memory, and both halves of a corpus by one counter in this process.

    With `wait` it stays until the standard input ends: the other worker on the machine, which
    shares what can be shared.
    """
    groups = load_blocks(path)[corpus]
    cache_utf8(groups)
    before = {field: kilobytes(field) for field in ("Private", "Private_Dirty", "Rss")}
    start = time.perf_counter_ns()
    counter = counters.named(name)
    __import__(counter.module)
    imported = time.perf_counter_ns()
    count = counter.load(encoding, counters.vocabulary_folder())
    loaded = time.perf_counter_ns()
    processor = time.process_time_ns()
    count(HELLO)
    processor = time.process_time_ns() - processor
    first = time.perf_counter_ns()
    after_start = {field: kilobytes(field) - before[field] for field in before}
    times = [count_group(count, group)[0] for group in groups]
    after = {field: kilobytes(field) - before[field] for field in before}
    if wait:
        print("ready", flush=True)
        sys.stdin.read()
    return {
        "import_ms": (imported - start) / 1e6,
        "load_ms": (loaded - imported) / 1e6,
        "first_count_ms": (first - loaded) / 1e6,
        "first_count_nanoseconds": processor,
        "bytes": [byte_length(group) for group in groups],
        "nanoseconds": times,
        "kib_after_start": after_start,
        "kib": after,
    }


def interleaved(names: list[str], encoding: str, path: str) -> dict[str, Any]:
    """Fresh and hot passes of all counters in turn, and two threads against one."""
    folder = counters.vocabulary_folder()
    counts = {name: counters.named(name).load(encoding, folder) for name in names}
    blocks = load_blocks(path)
    made: dict[str, Any] = {"passes": {}, "differences": dict.fromkeys(names, 0), "texts": 0}
    for corpus, groups in blocks.items():
        cache_utf8(groups)
        half = len(groups) // 2
        _check(counts, groups[:half], made)
        passes = {"fresh": groups[half:], "hot": groups[half:]}
        made["passes"][corpus] = {name: _in_turn(counts, part) for name, part in passes.items()}
        made["passes"][corpus]["bytes"] = [byte_length(group) for group in groups[half:]]
    if "messages" in blocks:
        texts = [text for group in blocks["messages"] for text in group]
        loops = {name: functools.partial(_one_by_one, count) for name, count in counts.items()}
        made["threads"] = {name: _two_threads(work, texts) for name, work in loops.items()}
        made["batch_threads"] = _two_threads(functools.partial(_in_batches, encoding), texts)
    return made


def _check(
    counts: dict[str, counters.Count], groups: list[list[str]], made: dict[str, Any]
) -> None:
    """Count the first half, which warms everything, and compare every text."""
    reference = counts.get("tiktoken") or counts[counters.OURS]
    for group in groups:
        expected = list(map(reference, group))
        made["texts"] += len(group)
        for name, count in counts.items():
            wrong = sum(count(text) != tokens for text, tokens in zip(group, expected, strict=True))
            made["differences"][name] += wrong


def _in_turn(counts: dict[str, counters.Count], groups: list[list[str]]) -> dict[str, list[int]]:
    """Nanoseconds per counter and group.

    Every group has another order: what a counter leaves behind, as freed memory that the kernel
    takes back, is not always paid by the same next one.
    """
    times: dict[str, list[int]] = {name: [] for name in counts}
    for place, group in enumerate(groups):
        for name in random.Random(place).sample(sorted(counts), len(counts)):
            times[name].append(count_group(counts[name], group)[0])
    return times


def _one_by_one(count: counters.Count, texts: list[str]) -> None:
    for text in texts:
        count(text)


def _in_batches(encoding: str, texts: list[str]) -> None:
    """The messages of a request in one call, as `tokenctx` offers it."""
    import tokenctx

    counter = tokenctx.get_encoding(encoding)
    for start in range(0, len(texts), BATCH):
        counter.count_batch(texts[start : start + BATCH])


def _two_threads(work: Callable[[list[str]], None], texts: list[str]) -> float:
    """Median of five: wall time of one thread over that of two with half of the texts each.

    Every pass has other texts, of known words: each text has another end.
    """
    return statistics.median(_ratio(work, texts, turn) for turn in range(5))


def _ratio(work: Callable[[list[str]], None], texts: list[str], turn: int) -> float:
    one, two = ([f"{text} {turn}{passed}" for text in texts] for passed in "ab")
    return _wall(work, [one]) / _wall(work, [two[::2], two[1::2]])


def _wall(work: Callable[[list[str]], None], parts: list[list[str]]) -> float:
    """Seconds until one thread for each part has counted it."""
    barrier = threading.Barrier(len(parts) + 1)

    def start(part: list[str]) -> None:
        barrier.wait()
        work(part)

    threads = [threading.Thread(target=start, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    barrier.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    print(json.dumps(globals()[job.pop("measure")](**job)))
