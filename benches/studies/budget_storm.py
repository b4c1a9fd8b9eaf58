"""Budgets while their Redis fails in every way: `python3 dev.py study budget_storm`.

Eight processes, half of them on a loop, reserve and settle without a break in two lots of budgets
on one server that writes down every step. One lot lets calls go while the server is away, the other
refuses them and is tight. Meanwhile the server is frozen, killed and started again, made a replica
that takes no writes, made to forget its scripts, and left without memory. At the end each process
flushes, and what it has written down is compared with the server.

What a step has waited stands beside what the same processes waited for the processor alone, since
the machine is full.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import redis

from tokenctx.money.budgets import Budget, Budgets, RedisBudgetStore
from tokenctx.money.budgets.uncounted import Uncounted
from tokenctx.usage import Usage

WORKERS: Final = 8
TASKS: Final = 4
OPEN, TIGHT = "open", "tight"
LIMITS: Final = {OPEN: 10**12, TIGHT: 400_000}
PAUSE_SECONDS: Final = 0.002
FLUSH_SECONDS: Final = 30.0
HIGH, OUTPUT = 150, 100
"""Of each call: tokens that are reserved; a bill is never more."""
FAULTS: Final = ("freeze", "kill", "read only", "script flush", "out of memory", "failover")


class Lot:
    """One lot of budgets in a process, and what it has done."""

    def __init__(self, name: str, client: Any, chance: random.Random) -> None:
        store = RedisBudgetStore(client, prefix=name)
        rows = [Budget("b", tokens=LIMITS[name], per=None)]
        self.budgets = Budgets(rows, store=store, refuses_unreachable=name == TIGHT)
        self.billed = self.calls = 0
        self.waits: list[float] = []
        self._chance = chance
        self._call = Uncounted(HIGH)

    def call(self) -> None:
        began = time.perf_counter()
        reservation = self.budgets.reserve(self._call, output_tokens=OUTPUT)
        self.waits.append(time.perf_counter() - began)
        if (usage := self._bill(reservation)) is not None:
            began = time.perf_counter()
            reservation.settle(usage)
            self.waits.append(time.perf_counter() - began)

    async def acall(self) -> None:
        began = time.perf_counter()
        reservation = await self.budgets.areserve(self._call, output_tokens=OUTPUT)
        self.waits.append(time.perf_counter() - began)
        if (usage := self._bill(reservation)) is not None:
            began = time.perf_counter()
            await reservation.asettle(usage)
            self.waits.append(time.perf_counter() - began)

    def _bill(self, reservation: Any) -> Usage | None:
        self.calls += 1
        if reservation.refusal is not None:
            return None
        usage = Usage(
            uncached_input_tokens=self._chance.randrange(HIGH),
            output_tokens=self._chance.randrange(OUTPUT),
        )
        self.billed += usage.total_tokens
        return usage

    def told(self) -> dict[str, Any]:
        waits = sorted(self.waits)
        return {
            "calls": self.calls,
            "billed": self.billed,
            "worst_ms": round(waits[-1] * 1000, 1),
            "p99_ms": round(waits[len(waits) * 99 // 100] * 1000, 1),
            "steps_above_100": sum(it > 0.1 for it in waits),
            "steps": len(waits),
            **{f"stat_{name}": count for name, count in self.budgets.stats().items()},
        }


def worker(port: int, seed: int, path: Path, until: float) -> None:
    """Call until the storm is over, flush, and write down what was done."""
    chance, late = random.Random(seed), 0.0
    if seed % 2:
        client = redis.Redis(port=port)
        lots = [Lot(name, client, chance) for name in LIMITS]
        while time.time() < until:
            for lot in lots:
                lot.call()
            late = max(late, _slept(PAUSE_SECONDS))
        is_flushed = all(lot.budgets.flush(FLUSH_SECONDS) for lot in lots)
    else:
        lots, late, is_flushed = asyncio.run(_aworker(port, chance, until))
    found = {lot_name: lot.told() for lot_name, lot in zip(LIMITS, lots, strict=True)}
    path.write_text(json.dumps({**found, "late_ms": late * 1000, "flushed": is_flushed}))


async def _aworker(port: int, chance: random.Random, until: float) -> tuple[list[Lot], float, bool]:
    client = redis.asyncio.Redis(port=port)
    lots = [Lot(name, client, chance) for name in LIMITS]
    late = 0.0

    async def calls() -> None:
        nonlocal late
        while time.time() < until:
            for lot in lots:
                await lot.acall()
            began = time.perf_counter()
            await asyncio.sleep(PAUSE_SECONDS)
            late = max(late, time.perf_counter() - began - PAUSE_SECONDS)

    await asyncio.gather(*(calls() for _ in range(TASKS)))
    is_flushed = all([await lot.budgets.aflush(FLUSH_SECONDS) for lot in lots])
    await client.aclose()
    return lots, late, is_flushed


def _slept(seconds: float) -> float:
    began = time.perf_counter()
    time.sleep(seconds)
    return time.perf_counter() - began - seconds


class Server:
    """A server that writes each step down before it answers."""

    def __init__(self, program: str, folder: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        words = ("--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", folder)
        self._command = (program, "--port", str(self.port), "--bind", "127.0.0.1", *words)
        self.client: Any = redis.Redis(port=self.port)
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        while not self._is_up():
            time.sleep(0.02)

    def _is_up(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:  # not yet, or it still reads what it wrote
            return False

    def suffer(self, fault: str, seconds: float) -> None:
        """Have one fault for so long, and be well again."""
        if fault == "freeze":
            self.process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            self.process.send_signal(signal.SIGCONT)
        elif fault == "kill":
            self.process.kill()
            self.process.wait()
            time.sleep(seconds)
            self.start()
        elif fault == "read only":
            self.client.execute_command("REPLICAOF", "127.0.0.1", "1")
            time.sleep(seconds)
            self.client.execute_command("REPLICAOF", "NO", "ONE")
        elif fault == "script flush":
            self.client.script_flush()
            time.sleep(seconds)
        elif fault == "out of memory":
            self.client.config_set("maxmemory-policy", "noeviction")
            self.client.config_set("maxmemory", "1")
            time.sleep(seconds)
            self.client.config_set("maxmemory", "0")
        elif fault == "failover":  # connections break, and the server starts with what was written
            self.client.client_kill_filter(_type="normal", skipme=True)
            self.process.terminate()
            self.process.wait()
            self.start()
            time.sleep(seconds)


def taken(client: Any, name: str) -> tuple[int, int]:
    """What is taken in a lot, and what is held of it."""
    total = held = 0
    for key in client.scan_iter(f"{{{name}}}:b:*"):
        if key.endswith(b":l"):
            continue
        total += int(client.hget(key, "t") or 0)
        entries = (it for _, it in client.hscan_iter(key, "a:*"))
        held += sum(int(it.partition(b":")[0]) for it in entries if it != b"s")
    return total, held


def storm(program: str, folder: Path, fault_seconds: float = 1.5) -> dict[str, Any]:
    """Run it; what was found."""
    server = Server(program, str(folder))
    try:
        paths = [folder / f"{nth}.json" for nth in range(WORKERS)]
        until = time.time() + 3 + len(FAULTS) * (2 * fault_seconds + 1)
        words = (sys.executable, __file__, "--worker", str(server.port))
        running = [
            subprocess.Popen((*words, str(nth), str(path), str(until)))
            for nth, path in enumerate(paths)
        ]
        time.sleep(2)
        over = 0
        for fault in FAULTS:
            server.suffer(fault, fault_seconds)
            until_next = time.monotonic() + fault_seconds
            while time.monotonic() < until_next:
                over = max(over, taken(server.client, TIGHT)[0] - LIMITS[TIGHT])
                time.sleep(0.05)
        for process in running:
            process.wait()
        rows = [json.loads(path.read_text()) for path in paths]
        found: dict[str, Any] = {"late_ms": [round(it["late_ms"]) for it in rows]}
        found["flushed"] = all(it["flushed"] for it in rows)
        for name in LIMITS:
            lots = [it[name] for it in rows]
            total, held = taken(server.client, name)
            billed = sum(it["billed"] for it in lots)
            found[name] = {
                key: sum(it.get(key, 0) for it in lots)
                for key in sorted({key for it in lots for key in it})
                if not key.endswith("_ms")
            }
            found[name] |= {
                "worst_ms": max(it["worst_ms"] for it in lots),
                "p99_ms": max(it["p99_ms"] for it in lots),
                "booked_less_billed": total - held - billed,
                "still_held": held,
            }
        found["over_the_limit"] = max(over, taken(server.client, TIGHT)[0] - LIMITS[TIGHT])
        return found
    finally:
        server.process.send_signal(signal.SIGCONT)
        server.process.terminate()
        server.process.wait()


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        port, seed, path, until = sys.argv[2:6]
        worker(int(port), int(seed), Path(path), float(until))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each fault")
    options = parser.parse_args()
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        sys.exit("no redis-server or valkey-server is installed; apt-get install redis-server")
    with tempfile.TemporaryDirectory() as folder:
        for name, found in storm(program, Path(folder), options.seconds).items():
            print(f"{name}: {found}")


if __name__ == "__main__":
    main()
