"""Stores of budgets that freeze or fail, clocks that jump: nobody waits, no bill is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import budget_storm
import redis_rig as rig
from tokenctx import Estimate, HybridTokenEstimator
from tokenctx.money.budgets import Budget, Budgets, MemoryBudgetStore, RedisBudgetStore
from tokenctx.stores.outbox import MAX_ENTRIES
from tokenctx.usage import Usage

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400


def estimate() -> Estimate:
    content = [{"role": "user", "content": "How long is a day?"}]
    return HybridTokenEstimator().estimate(
        {"model": "gpt-4o", "max_tokens": 100, "messages": content}
    )


class Frozen:
    """A store behind the one in memory that does not answer while it is frozen."""

    is_async = False

    def __init__(self) -> None:
        self.store = MemoryBudgetStore()
        self.runs = threading.Event()
        self.calls = 0

    def apply(self, step: Any) -> Any:
        self.calls += 1
        self.runs.wait(30)
        return self.store.apply(step)


class AsyncFrozen(Frozen):
    is_async = True

    async def apply(self, step: Any) -> Any:
        self.calls += 1
        while not self.runs.is_set():
            await asyncio.sleep(0.01)
        return self.store.apply(step)


class Failing(MemoryBudgetStore):
    """Raises for so many steps."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def apply(self, step: Any) -> Any:
        self.times -= 1
        if self.times >= 0:
            raise OSError
        return super().apply(step)


def used(store: MemoryBudgetStore) -> int:
    assert not any(ledger.held for ledger in store._ledgers.values())
    return sum(ledger.used for ledger in store._ledgers.values())


def test_a_frozen_store_is_left_alone_and_gets_all_bills_once_it_is_back() -> None:
    store = Frozen()
    budgets = Budgets([Budget("b", tokens=10**6)], store=store)
    made = [budgets.reserve(estimate()) for _ in range(40)]
    asked = store.calls
    assert asked < 40, "the breaker is open"
    assert not budgets.is_reachable
    for reservation in made:
        assert reservation.label == "unlimited"
        reservation.settle(Usage(uncached_input_tokens=900, output_tokens=100))
    assert budgets.stats()["waiting_settle"] >= 40
    store.runs.set()
    assert budgets.flush(20)
    assert used(store.store) == 40_000
    assert "failed_settle" not in budgets.stats()
    for _ in range(200):
        if budgets.is_reachable:
            break
        time.sleep(0.05)
    assert budgets.reserve(estimate()).label == "granted"


def test_an_asynchronous_store_that_freezes() -> None:
    async def run() -> None:
        store = AsyncFrozen()
        budgets = Budgets([Budget("b", tokens=10**6)], store=store)
        made = await asyncio.gather(*(budgets.areserve(estimate()) for _ in range(20)))
        for _ in range(10):
            made.append(await budgets.areserve(estimate()))
        for reservation in made:
            await reservation.asettle(Usage(uncached_input_tokens=1_000))
        store.runs.set()
        assert await budgets.aflush(20)
        assert used(store.store) == 30_000

    asyncio.run(run())


def test_bills_that_come_while_the_breaker_is_open_are_booked() -> None:
    store = Failing(0)
    budgets = Budgets([Budget("b", tokens=10**6)], store=store)
    made = [budgets.reserve(estimate()) for _ in range(20)]
    store.times = 5
    for _ in range(5):
        budgets.reserve(estimate()).release()
    for reservation in made:
        reservation.settle(Usage(uncached_input_tokens=1_000))
    assert budgets.flush(20)
    assert used(store) == 20_000
    assert budgets.stats()["settled"] == 20


def test_what_is_dropped_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    store = Failing(10**9)
    budgets = Budgets([Budget("b", tokens=10**9)], store=store)
    one = estimate()
    for _ in range(MAX_ENTRIES + 50):
        budgets.reserve(one).settle(Usage(uncached_input_tokens=1))
    assert budgets.stats()["failed_settle"] >= 40
    assert "could not be settled" in caplog.text
    store.times = 0
    assert budgets.flush(30)


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_a_clock_that_jumps_ahead_and_back_locks_nobody_out(kind: str, tmp_path: Path) -> None:
    clock = [1e9]

    def play(store: Any) -> None:
        budgets = Budgets([Budget("b", tokens=1_000, per="minute")], store=store)
        usage = Usage(uncached_input_tokens=100)
        clock[0] += DAY
        late = [budgets.reserve(estimate()) for _ in range(9)]
        assert [it.label for it in late].count("granted") == 8
        clock[0] -= DAY
        assert budgets.reserve(estimate()).label == "granted"
        late[0].settle(usage)
        clock[0] -= 60  # by one window: the later one goes on
        first = budgets.reserve(estimate())
        assert first.label == "granted"
        assert int(first.headers["x-ratelimit-remaining-tokens"]) < 1_000 - 100 - first.tokens

    if kind == "memory":
        play(MemoryBudgetStore(clock=lambda: clock[0]))
        return
    server = rig.server(rig.require("redis"), tmp_path)
    with server as running, rig.sync_client("redis", running.port) as client:
        client.ping()
        play(RedisBudgetStore(client, clock=lambda: clock[0]))


@pytest.mark.parametrize(
    "usage",
    [
        Usage(uncached_input_tokens=float("nan")),  # type: ignore[arg-type]
        Usage(output_tokens=1.5),  # type: ignore[arg-type]
        {"prompt_tokens": 5},
        None,
    ],
)
def test_what_is_no_bill_is_booked_as_reserved(usage: Any) -> None:
    store = MemoryBudgetStore()
    budgets = Budgets([Budget("b", tokens=1_000)], store=store)
    reservation = budgets.reserve(estimate())
    reservation.settle(usage)
    assert used(store) == reservation.tokens


def test_a_bill_below_nothing_gives_nothing_back() -> None:
    store = MemoryBudgetStore()
    budgets = Budgets([Budget("b", tokens=1_000)], store=store)
    budgets.reserve(estimate()).settle(Usage(uncached_input_tokens=-(10**9)))
    assert used(store) >= 0


@pytest.mark.parametrize("deadline_ms", [0, 101, float("nan")])
def test_a_deadline_has_limits(deadline_ms: float) -> None:
    with pytest.raises(ValueError, match="deadline_ms is"):
        Budgets([], deadline_ms=deadline_ms)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["redis", "valkey"])
def test_a_storm_of_faults_loses_no_bill_and_exceeds_no_limit(kind: str, tmp_path: Path) -> None:
    found = budget_storm.storm(rig.require(kind), tmp_path, fault_seconds=0.6)
    assert found["flushed"]
    for name in (budget_storm.OPEN, budget_storm.TIGHT):
        lot = found[name]
        assert lot["stat_unreachable"] > 100, "there was no storm"
        assert lot["stat_settled"] > 100
        assert lot["booked_less_billed"] == 0, "every bill is in, once"
        assert lot["still_held"] == 0
    assert found["over_the_limit"] <= 0
    assert found[budget_storm.TIGHT]["stat_refused"] > 100
