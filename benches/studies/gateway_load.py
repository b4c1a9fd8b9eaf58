"""A gateway's day in a minute: interleaved conversations that grow, branch and are pruned.

    python3 dev.py study gateway_load --requests 20000 --workers 2
    python3 dev.py study gateway_load --routing random    # conversations move between workers
    python3 dev.py study gateway_load --sessions sessions.jsonl.gz

Each request is estimated and then recorded with its bill and its reply, by one of several worker
processes, each with an estimator of its own. Popularity is Zipf: the conversation of rank k pauses
k times as long between its turns. Time is virtual, so no worker waits, but entries expire as they
would. Now and then a client has an answer made anew, edits an earlier message, clears old results,
drops the oldest turns or changes the system prompt. Bills are made up (four bytes a token): `dev.py
edits` says how good estimates are, this says what they cost and how many are known.

Equal options make equal requests. With a file of recorded sessions one conversation in a hundred is
one of these. Timed are the clock, which counts what else the machine does, and the processor.
"""

from __future__ import annotations

import argparse
import heapq
import json
import multiprocessing
import os
import random
import sys
import time
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from conversations import call, code, prose, tool
from tokenctx import HybridTokenEstimator
from tokenctx._cli.evaluation.recordings import Turn, read_recording

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
CLEARED: Final = "[Old tool result content cleared]"
EDITS: Final = {
    "grow": 0.88,
    "answer made anew": 0.04,
    "message edited": 0.02,
    "results cleared": 0.03,
    "head trimmed": 0.02,
    "system prompt changed": 0.01,
}
"""What a client does with a conversation before it sends it, and how often."""
POOL_CHARS: Final = 1 << 22
THINK_SECONDS: Final = 20.0
THINK_SPREAD: Final = 1.0
"""Of the pause of the most popular conversation: median, and sigma of its logarithm."""
SESSIONS_PER_HUNDRED: Final = 1
PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
TIMES: Final = ("estimate", "record", "estimate, CPU", "record, CPU")
KINDS: Final = ("exact", "delta", "by difference", "estimated")


class Message(NamedTuple):
    """A message without its text: where that begins in the pool, and how long it is."""

    role: str
    start: int
    chars: int


class Request(NamedTuple):
    """What is sent, and what comes back."""

    conversation: int
    now_seconds: float
    edit: str
    body: bytes
    usage: Json
    reply: Json | None


class Pool:
    """Text and tools that all messages are cut from."""

    def __init__(self, seed: int) -> None:
        random_ = random.Random(seed)
        self.prose, self.code = prose(random_, POOL_CHARS), code(random_, POOL_CHARS // 8)
        self.tools = [tool(random_, number) for number in range(12)]
        self.call = call(random_, 0)

    def message(self, message: Message) -> Json:
        text = self.code if message.role == "tool" else self.prose
        start = message.start % (len(text) - message.chars)
        content = text[start : start + message.chars] if message.chars else CLEARED
        if message.role == "call":
            made = {**self.call, "id": f"call_{message.start}"}
            return {"role": "assistant", "content": content, "tool_calls": [made]}
        if message.role == "tool":
            return {"role": "tool", "tool_call_id": "call", "content": content}
        return {"role": message.role, "content": content}


@dataclass
class Conversation:
    """A made-up conversation of an agent, between its turns."""

    random: random.Random
    messages: list[Message] = field(default_factory=list)

    def text(self, role: str, chars: float) -> Message:
        """A new message of about `chars` characters."""
        length = int(self.random.lognormvariate(0, 0.8) * chars) + 1
        return Message(role, self.random.randrange(POOL_CHARS), min(length, 1 << 16))

    def grow(self) -> None:
        """What the client adds: a result of the tool that was called, or a question."""
        if not self.messages:
            self.messages.append(self.text("system", 3000))
        last = self.messages[-1].role
        self.messages.append(self.text("tool", 2500) if last == "call" else self.text("user", 300))

    def edit(self, kind: str) -> None:
        """What the client changes in what it sends."""
        users = [at for at, it in enumerate(self.messages) if it.role == "user"]
        if kind == "grow" or len(users) < 3:
            self.grow()
        elif kind == "answer made anew":
            while self.messages[-1].role not in ("user", "tool"):
                self.messages.pop()
        elif kind == "message edited":
            at = self.random.choice(users[-3:])
            self.messages[at:] = [self.text("user", 300)]
        elif kind == "results cleared":
            kept = len(self.messages) - 8
            self.messages = [
                it._replace(chars=0) if it.role == "tool" and at < kept else it
                for at, it in enumerate(self.messages)
            ]
            self.grow()
        elif kind == "head trimmed":
            del self.messages[1 : users[len(users) // 3]]
            self.grow()
        else:
            self.messages[0] = self.text("system", 3000)
            self.grow()

    def reply(self) -> Message:
        """What the model answers."""
        is_call = self.random.random() < 0.5
        return self.text("call" if is_call else "assistant", 100 if is_call else 500)


def made_turns(pool: Pool, seed: str, turns: int) -> Iterator[tuple[str, bytes, Json, Json]]:
    """The turns of one made-up conversation: edit, body, usage, reply."""
    random_ = random.Random(seed)
    conversation = Conversation(random_)
    for _ in range(1 + int(random_.expovariate(1 / turns))):
        kind = random_.choices(list(EDITS), list(EDITS.values()))[0]
        conversation.edit(kind)
        messages = [pool.message(it) for it in conversation.messages]
        body = {"model": "gpt-4o", "messages": messages, "tools": pool.tools}
        answer = conversation.reply()
        conversation.messages.append(answer)
        text = json.dumps(body, separators=(",", ":")).encode()
        usage = {"prompt_tokens": len(text) // 4, "completion_tokens": answer.chars // 4 + 8}
        yield kind, text, usage, pool.message(answer)


def recorded_turns(turns: list[Turn]) -> Iterator[tuple[str, bytes, Json, Json | None]]:
    for turn in turns:
        usage = {
            "input_tokens": turn.billed.input_tokens,
            "output_tokens": turn.billed.output_tokens,
        }
        yield "recorded", turn.body, usage, turn.reply


def requests(options: argparse.Namespace) -> Iterator[tuple[int, Request]]:
    """Worker and request in the order of time.

    A conversation that ends makes room for a new one of the same popularity.
    """
    random_, pool = random.Random(options.seed), Pool(options.seed)
    sessions = recorded_sessions(options.sessions)
    waiting = [(random_.random() * THINK_SECONDS, rank) for rank in range(options.conversations)]
    heapq.heapify(waiting)
    serial = dict.fromkeys(range(options.conversations), 0)
    running: dict[int, Any] = {}
    for _ in range(options.requests):
        now, rank = heapq.heappop(waiting)
        turn = next(running[rank], None) if rank in running else None
        while turn is None:
            serial[rank] += 1
            if sessions and rank % 100 < SESSIONS_PER_HUNDRED:
                running[rank] = recorded_turns(
                    sessions[(rank // 100 + serial[rank]) % len(sessions)]
                )
            else:
                seed = f"{options.seed} {rank} {serial[rank]}"
                running[rank] = made_turns(pool, seed, options.turns)
            turn = next(running[rank], None)
        is_moving = options.routing == "random"
        worker = random_.randrange(options.workers) if is_moving else rank % options.workers
        yield worker, Request(rank, now, *turn)
        pause = THINK_SECONDS * random_.lognormvariate(0, THINK_SPREAD) * (1 + rank)
        heapq.heappush(waiting, (now + pause, rank))


def recorded_sessions(path: Path | None) -> list[list[Turn]]:
    if path is None:
        return []
    return [list(conversation.turns) for conversation in read_recording(path).conversations]


@dataclass
class Report:
    """What one worker did. Times are in seconds, on the clock and of the processor."""

    worker: int
    kinds: dict[str, Counter[str]] = field(default_factory=dict)
    seconds: dict[str, array[float]] = field(
        default_factory=lambda: {name: array("d") for name in TIMES}
    )
    body_bytes: int = 0
    rss_before_bytes: int = 0
    rss_after_bytes: int = 0
    stats: dict[str, int] = field(default_factory=dict)


def run_worker(options: argparse.Namespace, worker: int) -> Report:
    report, now = Report(worker), [0.0]
    estimator = HybridTokenEstimator(
        capacity_bytes=options.capacity_mib << 20,
        secret=b"load",
        ttl_seconds=options.ttl_seconds,
        clock=lambda: now[0],
    )
    estimator.count_request({"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}]})
    for number, (of, request) in enumerate(requests(options)):
        if number == options.conversations:
            report.rss_before_bytes = resident_bytes()
        if of != worker:
            continue
        now[0] = request.now_seconds
        start = clocks()
        estimate = estimator.estimate(request.body)
        middle = clocks()
        estimator.record(request.body, request.usage, reply=request.reply)
        times = (*elapsed(start, middle), *elapsed(middle, clocks()))
        for name, it in zip(
            ("estimate", "estimate, CPU", "record", "record, CPU"), times, strict=True
        ):
            report.seconds[name].append(it)
        report.body_bytes += len(request.body)
        is_edit = not {"edited_history", "changed_context"}.isdisjoint(estimate.assumptions)
        kind = "by difference" if is_edit else estimate.source
        report.kinds.setdefault(request.edit, Counter())[kind] += 1
    report.rss_after_bytes = resident_bytes()
    report.stats = estimator.stats()
    return report


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.thread_time()


def elapsed(start: tuple[float, float], end: tuple[float, float]) -> tuple[float, float]:
    return end[0] - start[0], end[1] - start[1]


def resident_bytes() -> int:
    """Memory of this process that is in RAM; its peak where the system does not tell that."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def summary(reports: list[Report], wall_seconds: float) -> Json:
    kinds: dict[str, Counter[str]] = {}
    for report in reports:
        for edit, found in report.kinds.items():
            kinds.setdefault(edit, Counter()).update(found)
    times = {name: [it for one in reports for it in one.seconds[name]] for name in TIMES}
    busy = [sum(sum(it.seconds[name]) for name in TIMES if "CPU" in name) for it in reports]
    return {
        "requests": len(times["estimate"]),
        "body_kb": round(sum(it.body_bytes for it in reports) / len(times["estimate"]) / 1e3, 1),
        "wall_seconds": round(wall_seconds, 1),
        "hit_kinds": {edit: {kind: it[kind] for kind in KINDS} for edit, it in kinds.items()},
        "latency_us": {name: percentiles(it) for name, it in times.items()},
        "workers": [
            {
                "requests": len(report.seconds["record"]),
                "requests_per_cpu_second": round(len(report.seconds["record"]) / max(spent, 1e-9)),
                "rss_mb": round(report.rss_after_bytes / 1e6, 1),
                "rss_growth_mb": round((report.rss_after_bytes - report.rss_before_bytes) / 1e6, 1),
                "stats": report.stats,
            }
            for report, spent in zip(reports, busy, strict=True)
        ],
    }


def percentiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {name: round(1e6 * ordered[int(share * last)], 1) for name, share in PERCENTILES.items()}


def show(found: Json) -> None:
    print(
        f"{found['requests']:,} requests, {found['body_kb']} KB each, {found['wall_seconds']} s\n"
    )
    print(f"{'client':24}" + "".join(f"{kind:>15}" for kind in KINDS))
    rows = sorted(found["hit_kinds"].items(), key=lambda row: -sum(row[1].values()))
    total: Counter[str] = Counter()
    for edit, kinds in rows:
        total.update(kinds)
        print(f"{edit:24}" + "".join(f"{kinds[kind]:15,}" for kind in KINDS))
    print(f"{'all':24}" + "".join(f"{total[kind]:15,}" for kind in KINDS))
    print(f"\n{'latency, us':24}" + "".join(f"{name:>15}" for name in PERCENTILES))
    for name, row in found["latency_us"].items():
        print(f"{name:24}" + "".join(f"{row[it]:15,.0f}" for it in PERCENTILES))
    names = ("requests", "requests_per_cpu_second", "rss_mb", "rss_growth_mb")
    titles = ("requests", "a CPU second", "RSS, MB", "grown by, MB", "prefixes", "shapes")
    print(f"\n{'worker':24}" + "".join(f"{title:>15}" for title in titles))
    for number, row in enumerate(found["workers"]):
        kept = (row["stats"][name] for name in ("known_prefixes", "known_shapes"))
        cells = [*(row[name] for name in names), *kept]
        print(f"{number:<24}" + "".join(f"{cell:15,}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--conversations", type=int, default=500, help="at the same time")
    parser.add_argument("--turns", type=int, default=20, help="of a conversation, at the mean")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--routing", choices=("sticky", "random"), default="sticky")
    parser.add_argument("--capacity-mib", type=int, default=64, help="of each worker")
    parser.add_argument("--ttl-seconds", type=float, default=86_400)
    parser.add_argument("--sessions", type=Path, help="recorded sessions to mix in")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="JSON instead of tables")
    options = parser.parse_args()
    start = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.workers) as pool:
        work = [(options, worker) for worker in range(options.workers)]
        reports = pool.starmap(run_worker, work, chunksize=1)
    found = summary(reports, time.perf_counter() - start)
    if options.json:
        json.dump(found, sys.stdout, indent=1)
    else:
        show(found)


if __name__ == "__main__":
    main()
