"""What an operator does while calls go on: balances, limits, alarms, and only looking on."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import redis_rig as rig
from tokenctx import Estimate, HybridTokenEstimator
from tokenctx._estimate.metrics import Metrics
from tokenctx.gateway import Gateway
from tokenctx.money.budgets import (
    Budget,
    BudgetAlarm,
    Budgets,
    MemoryBudgetStore,
    RedisBudgetStore,
    Uncounted,
)
from tokenctx.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

redis = pytest.importorskip("redis")
ACME = {"tenant": "acme"}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with rig.server(rig.require("redis"), tmp_path_factory.mktemp("server")) as running:
        yield running.port


@pytest.fixture(params=["memory", "redis"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[], Any]]:
    """The store of one worker; all that are made share what is kept."""
    if request.param == "memory":
        store = MemoryBudgetStore()
        yield lambda: store
        return
    with rig.sync_client("redis", request.getfixturevalue("port")) as client:
        client.flushall()
        yield lambda: RedisBudgetStore(client)


def estimate() -> Estimate:
    content = [{"role": "user", "content": "How long is a day?"}]
    return HybridTokenEstimator().estimate(
        {"model": "gpt-4o", "max_tokens": 100, "messages": content}
    )


def bill(tokens: int) -> Usage:
    return Usage(uncached_input_tokens=tokens)


def test_balance_reset_and_limit_of_a_tenant(make: Callable[[], Any]) -> None:
    one = Budget("day", tokens=500, per="day", by="tenant")
    here, there = Budgets([one], store=make()), Budgets([one], store=make())
    assert here.balance("day", ACME).taken == 0
    here.reserve(estimate(), ACME).settle(bill(450))
    found = there.balance("day", ACME)
    assert (found.budget, found.taken, found.left, found.limit) == ("day", 450, 50, 500)
    assert 0 < found.reset_seconds <= 86_400
    assert there.reserve(estimate(), ACME).label == "refused"

    assert there.set_limit("day", 1_000, ACME).left == 550
    granted = here.reserve(estimate(), ACME)
    assert granted.label == "granted"
    assert granted.headers["x-ratelimit-limit-tokens"] == "1000"
    granted.release()
    assert here.balance("day", {"tenant": "other"}).limit == 500
    assert here.set_limit("day", 0, ACME).left == 0
    refusal = here.reserve(estimate(), ACME).refusal
    assert refusal is not None
    assert refusal.limit == 0
    assert here.set_limit("day", None, ACME).limit == 500
    assert here.reserve(estimate(), ACME).label == "refused"

    under_way = there.reserve(estimate(), {"tenant": "b"})
    assert here.reset("day", ACME).taken == 0
    assert here.reset("day", {"tenant": "b"}).taken == 0
    under_way.settle(bill(30))
    under_way.settle(bill(30))
    assert there.balance("day", {"tenant": "b"}).taken == 30
    assert here.reserve(estimate(), ACME).label == "granted"


def test_a_bill_that_comes_again_after_a_reset_is_booked_once(make: Callable[[], Any]) -> None:
    store = make()
    budgets = Budgets([Budget("b", tokens=1_000)], store=store)
    reservation = budgets.reserve(estimate())
    step = budgets._closed(reservation, _settled(40))
    store.apply(step)
    budgets.reset("b")
    store.apply(step)
    assert budgets.balance("b").taken == 0


def _settled(tokens: int) -> Any:
    from tokenctx.money.budgets.reservation import Ended

    return Ended("settled", bill(tokens))


def test_a_limit_outlives_the_window(port: int) -> None:
    with rig.sync_client("redis", port) as client:
        for store in (MemoryBudgetStore, lambda clock: RedisBudgetStore(client, clock=clock)):
            clock = [1e9]
            made: Any = store(clock=lambda: clock[0])  # noqa: B023
            one = Budget("m", tokens=500, per="minute", is_rolling=True, by="tenant")
            budgets = Budgets([one], store=made)
            budgets.set_limit("m", 7, ACME)
            clock[0] += 86_400
            assert budgets.balance("m", ACME).limit == 7


def test_money_is_told_in_dollars() -> None:
    budgets = Budgets([Budget("day", money="12.5", per="day")])
    assert budgets.balance("day").left == Decimal("12.5")
    assert budgets.set_limit("day", "20.25").limit == Decimal("20.25")


def test_what_an_operator_cannot_do() -> None:
    budgets = Budgets([Budget("day", tokens=5, per="day")])
    with pytest.raises(KeyError, match="no budget is named 'week'; there are day"):
        budgets.balance("week")
    with pytest.raises(TypeError, match="must be a whole number"):
        budgets.set_limit("day", "many")
    with pytest.raises(ValueError, match="from 0 to"):
        budgets.set_limit("day", -1)


def test_a_store_that_is_down_is_told_to_the_operator() -> None:
    client = redis.Redis(port=rig.free_port(), socket_timeout=0.1, socket_connect_timeout=0.1)
    budgets = Budgets([Budget("b", tokens=5)], store=RedisBudgetStore(client))
    with pytest.raises(ConnectionError, match="did not answer"):
        budgets.balance("b")


def test_an_operator_on_a_loop(port: int) -> None:
    async def run() -> None:
        client = redis.asyncio.Redis(port=port)
        await client.flushall()
        budgets = Budgets([Budget("b", tokens=500)], store=RedisBudgetStore(client))
        await (await budgets.areserve(estimate())).asettle(bill(100))
        assert (await budgets.abalance("b")).taken == 100
        assert (await budgets.aset_limit("b", 900)).left == 800
        assert (await budgets.areset("b")).left == 900
        await client.aclose()

    asyncio.run(run())


# ---------------------------------------------------------------------------- alarms


def _alarmed(count: int, **words: Any) -> tuple[Budgets, list[BudgetAlarm], threading.Event]:
    seen: list[BudgetAlarm] = []
    enough = threading.Event()

    def alarm(it: BudgetAlarm) -> None:
        seen.append(it)
        if len(seen) == count:
            enough.set()

    one = Budget("day", tokens=1_000, per="day", by="tenant")
    return Budgets([one], on_alarm=alarm, **words), seen, enough


def test_an_alarm_for_each_threshold_once() -> None:
    budgets, seen, enough = _alarmed(3)
    for _ in range(3):
        budgets.reserve(estimate(), ACME).settle(bill(300))
    for _ in range(3):
        budgets.reserve(estimate(), {"tenant": "b"}, output_tokens=1).settle(bill(270))
    for _ in range(2):
        budgets.reserve(estimate(), ACME, output_tokens=1).settle(bill(50))
    assert enough.wait(10)
    found = [(it.budget, it.keys, it.threshold, it.limit) for it in seen]
    assert found == [
        ("day", (("tenant", "acme"),), 0.8, 1_000),
        ("day", (("tenant", "b"),), 0.8, 1_000),
        ("day", (("tenant", "acme"),), 1.0, 1_000),
    ]
    assert seen[0].taken == 900
    assert budgets.stats()["alarms"] == 3


def test_an_alarm_holds_up_no_call_and_what_waits_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tokenctx.money.budgets.balance.MAX_WAITING", 3)
    held, let = threading.Event(), threading.Event()

    def alarm(_: BudgetAlarm) -> None:
        held.set()
        let.wait(30)
        raise OSError

    budgets = Budgets(
        [Budget("day", tokens=100, per="day", by="tenant")], on_alarm=alarm, alarms=[0.5]
    )
    budgets.reserve(estimate(), ACME, output_tokens=1).settle(bill(60))
    assert held.wait(10)
    for nth in range(5):
        budgets.reserve(estimate(), {"tenant": f"{nth}"}, output_tokens=1).settle(bill(60))
    stats = budgets.stats()
    assert (stats["alarms"], stats["dropped_alarms"], stats["settled"]) == (6, 2, 6)
    let.set()
    for _ in range(1_000):
        if budgets.stats().get("failed_alarms") == 4:
            return
        threading.Event().wait(0.01)
    raise AssertionError(budgets.stats())


@pytest.mark.parametrize("alarms", [[0], [1.5], [float("nan")]])
def test_what_is_no_threshold(alarms: list[float]) -> None:
    with pytest.raises(ValueError, match="alarms are"):
        Budgets([], alarms=alarms)


# ---------------------------------------------------------------------------- only looking on


def test_observe_only_books_all_and_refuses_nothing(make: Callable[[], Any]) -> None:
    limits = [
        Budget("day", tokens=150, per="day"),
        Budget("slots", concurrency=1),
        Budget("rpm", requests=9, per="day"),
    ]
    budgets = Budgets(limits, store=make(), observe_only=True)
    made = [budgets.reserve(estimate()) for _ in range(3)]
    assert [it.refusal for it in made] == [None] * 3
    assert [it.label for it in made] == ["granted"] * 3
    assert [it.would_refuse and it.would_refuse.budget for it in made] == [None, "day", "day"]
    assert budgets.balance("slots").taken == 3
    for reservation in made:
        reservation.settle(bill(200))
    assert budgets.balance("day").taken == 600
    assert budgets.balance("slots").taken == 0
    assert budgets.balance("rpm").taken == 3
    assert budgets.stats() == {"granted": 1, "would_refuse": 2, "settled": 3}


def test_observe_only_and_what_nobody_can_count() -> None:
    budgets = Budgets([Budget("day", tokens=10**6, per="day")], observe_only=True)
    reservation = budgets.reserve(Uncounted(high=None))
    assert reservation.refusal is None
    assert reservation.would_refuse is not None
    reservation.settle(bill(70))
    assert budgets.balance("day").taken == 70


def test_a_gateway_counts_what_it_would_refuse() -> None:
    metrics = Metrics()
    budgets = Budgets([Budget("day", tokens=0, per="day")], observe_only=True)
    front = Gateway(HybridTokenEstimator(metrics=metrics), budgets=budgets)
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}
    call = front.call(body)
    assert call.refusal is None
    assert front.stats()["budget_would_refuse_day"] == 1
    found = metrics.snapshot()["tokenctx.budget.requests"]
    assert found == {("would_refuse", "day"): 1}
