"""Budgets on a real Redis: `python3 dev.py study budgets`.

The storm: eight processes reserve and settle at random in three budgets on one server; some give
back, some fail in between, some are killed with what they hold, and others take their place. Each
writes down what it was granted and what it settled, and a watcher looks at the balances all the
time. The price: processor time aside, what one step takes beside a bare GET on the same connection.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import redis

from tokenctx.money.budgets import RedisBudgetStore
from tokenctx.money.budgets.store import Claim, Step

LEASE_SECONDS: Final = 3.0
KILLS: Final = 0.003
"""Part of the watcher's looks after which it kills a process, wherever that is."""
WORKERS: Final = 8
LIMITS: Final = {":all": 40_000_000, ":a": 25_000_000, ":b": 20_000_000}
TOP: Final = 900
BATCH: Final = 2500
"""Reservations that a process makes before it ends or is killed."""


def claims(keys: list[str], amount: int, windows: list[int] | None = None) -> list[Claim]:
    """What a call takes of these budgets, which have no window."""
    ends = windows or [-1] * len(keys)
    return [
        Claim(key, LIMITS[key], 0, amount, window) for key, window in zip(keys, ends, strict=True)
    ]


def worker(port: int, seed: int, path: Path) -> None:
    """Reserve `BATCH` times; the last line of the file tells whether it came to its end."""
    chance = random.Random(seed)
    store = RedisBudgetStore(redis.Redis(port=port), prefix="storm")
    dies = chance.random() < 0.3
    with path.open("a", buffering=1) as log:
        for nth in range(BATCH):
            name, amount = f"{seed}-{nth}", chance.randrange(1, TOP)
            keys = [":all", chance.choice((":a", ":b"))]
            if dies and nth == BATCH - 1:
                log.write(f"held {name} {amount} {' '.join(keys)}\n")
            step = Step("reserve", name, claims(keys, amount), LEASE_SECONDS)
            outcome: Any = store.apply(step)
            if outcome.refused is not None:
                log.write(f"refused {name} 0\n")
                continue
            if dies and nth == BATCH - 1:
                os._exit(9)  # with what it holds
            used = chance.choice((0, amount // 2, amount))
            windows = [it.window for it in outcome.balances]
            log.write(f"settling {name} {used} {' '.join(keys)}\n")
            for _ in range(chance.choice((1, 1, 2))):  # the second is a retry and does nothing
                store.apply(Step("settle", name, claims(keys, used, windows), LEASE_SECONDS))
            log.write(f"settled {name} {used} {' '.join(keys)}\n")
        log.write("end\n")


def taken(client: Any) -> dict[str, int]:
    """What is used and held of each budget."""
    return {key: int(client.hget(f"{{storm}}{key}", "t") or 0) for key in LIMITS}


def held(client: Any, key: str, *, is_over: bool) -> int:
    """What is held of a budget by its entries, or booked of those whose lease is over."""
    entries = (value for _, value in client.hscan_iter(f"{{storm}}{key}", "a:*"))
    found = (it for it in entries if it != b"s" and it.endswith(b":l") is is_over)
    return sum(int(value.partition(b":")[0]) for value in found)


def storm(port: int, reservations: int, folder: Path) -> dict[str, Any]:
    """Run it, and judge it: what was found, all of which must be nothing but `granted`."""
    client = redis.Redis(port=port)
    client.flushall()
    chance = random.Random(7)
    running: dict[int, subprocess.Popen[bytes]] = {}
    seed = over = looks = 0
    batches = reservations // BATCH
    killed = 0
    began = time.monotonic()
    while seed < batches or running:
        while len(running) < WORKERS and seed < batches:
            path = folder / f"{seed}.log"
            words = (sys.executable, __file__, "--worker", str(port), str(seed), str(path))
            running[seed] = subprocess.Popen(words)
            seed += 1
        if chance.random() < KILLS and running:
            chance.choice(list(running.values())).kill()
        for number, process in list(running.items()):
            if process.poll() is not None:
                killed += process.returncode != 0
                del running[number]
        for key, amount in taken(client).items():
            looks += 1
            over += amount > LIMITS[key] or amount < 0
        time.sleep(0.01)
    seconds = time.monotonic() - began
    time.sleep(LEASE_SECONDS + 0.2)
    store = RedisBudgetStore(client, prefix="storm")
    for key in LIMITS:  # a step books what the dead have held
        for nth in range(50):  # a step looks at a thousand
            store.apply(Step("settle", f"last {nth}", claims([key], 0, [0]), LEASE_SECONDS))
    said, unsure = dict.fromkeys(LIMITS, 0), dict.fromkeys(LIMITS, 0)
    granted = refused = 0
    for path in folder.glob("*.log"):
        for line in path.read_text().splitlines():
            kind, *rest = line.split()
            granted += kind in ("settling", "held")
            refused += kind == "refused"
            signs = {"settling": (0, 1), "settled": (1, -1)}.get(kind, (0, 0))
            for key in rest[2:]:  # killed in between, it may have settled or not
                said[key] += signs[0] * int(rest[1])
                unsure[key] += signs[1] * int(rest[1])
    now = taken(client)
    still = {key: held(client, key, is_over=False) for key in LIMITS}
    dead = {key: held(client, key, is_over=True) for key in LIMITS}
    lost = {key: now[key] - still[key] - dead[key] - said[key] for key in LIMITS}
    return {
        "reservations": granted + refused,
        "granted": granted,
        "refused": refused,
        "killed": killed,
        "looks": looks,
        "over_or_negative": over,
        "used_less_settled": lost,
        "killed_while_settling": unsure,
        "still_held": still,
        "booked_of_the_dead": dead,
        "per_second": round((granted + refused) / seconds),
    }


def price(port: int, calls: int) -> dict[str, float]:
    """Medians in microseconds: a GET, and a step in one and in three budgets, in turns."""
    client = redis.Redis(port=port)
    client.set("bare", "value")
    store = RedisBudgetStore(client, prefix="price")
    times: dict[str, list[float]] = {"get": [], "reserve_1": [], "reserve_3": [], "settle_3": []}

    def timed(name: str, function: Any) -> Any:
        start = time.perf_counter()
        result = function()
        times[name].append((time.perf_counter() - start) * 1e6)
        return result

    for nth in range(calls):
        one = Step("reserve", f"o{nth}", [Claim(":one", 2**50, 60, 5)], 60.0)
        three = [Claim(f":{it}", 2**50, 60, 5) for it in "abc"]
        timed("get", lambda: client.get("bare"))
        timed("reserve_1", lambda step=one: store.apply(step))
        step = Step("reserve", f"t{nth}", three, 60.0)
        outcome = timed("reserve_3", lambda step=step: store.apply(step))
        settled = [
            claim._replace(window=it.window)
            for claim, it in zip(three, outcome.balances, strict=True)
        ]
        step = Step("settle", f"t{nth}", settled, 60.0)
        timed("settle_3", lambda step=step: store.apply(step))
    return {name: round(statistics.median(all_of_it), 1) for name, all_of_it in times.items()}


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        worker(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reservations", type=int, default=200_000)
    parser.add_argument("--calls", type=int, default=3000, help="steps that are timed")
    options = parser.parse_args()
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        sys.exit("no redis-server or valkey-server is installed; apt-get install redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        words = (program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder)
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        try:
            time.sleep(0.5)
            for name, value in price(port, options.calls).items():
                print(f"{name}: {value} us, median")
            for name, found in storm(port, options.reservations, Path(folder)).items():
                print(f"{name}: {found}")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
