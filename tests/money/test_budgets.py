"""Budgets: a plain model beside both stores, leases, many processes on one server, refusals."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import budgets as study
import redis_rig as rig
from tokenctx import Estimate, HybridTokenEstimator
from tokenctx.money import Prices
from tokenctx.money.budgets import Budget, Budgets, MemoryBudgetStore, RedisBudgetStore
from tokenctx.money.budgets.store import RETRY_SECONDS, Claim, Step
from tokenctx.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tokenctx.money.budgets.store import BudgetStore, Outcome

redis = pytest.importorskip("redis")

LEASE = 10.0
KEYS = (":one", ":two", ":three")
LIMITS = {":one": 100, ":two": 60, ":three": 200}
SECONDS = {":one": 60, ":two": 0, ":three": 7}
RETURNS = {":three"}
"""Of it what dead callers hold is given back; of the others it is booked."""


@pytest.fixture(scope="module", params=["redis", "valkey"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    program = rig.require(request.param)
    with rig.server(program, tmp_path_factory.mktemp("server")) as running:
        yield running


def estimate(model: str = "gpt-4o", output: int | None = 100, **body: Any) -> Estimate:
    if output is not None:
        body["max_tokens"] = output
    body.setdefault("messages", [{"role": "user", "content": "How long is a day?"}])
    return HybridTokenEstimator().estimate({"model": model, **body})


# ---------------------------------------------------------------------------- the model


@dataclass
class Plain:
    """Budgets as plainly as they can be said: a list of what was reserved and settled."""

    now: float = 1_000.0
    held: dict[tuple[str, str], tuple[int, int, float]] = field(default_factory=dict)
    used: dict[tuple[str, int], int] = field(default_factory=dict)
    done: dict[tuple[str, str], float] = field(default_factory=dict)

    def window(self, key: str) -> int:
        return math.floor(self.now / SECONDS[key]) if SECONDS[key] else 0

    def taken(self, key: str) -> int:
        window = self.window(key)
        held = sum(
            amount
            for (one, _), (amount, of, ends) in self.held.items()
            if one == key and of == window and (ends > self.now or key not in RETURNS)
        )
        return held + self.used.get((key, window), 0)

    def reserve(self, name: str, amounts: dict[str, int]) -> bool:
        if any(self.taken(key) + amount > LIMITS[key] for key, amount in amounts.items()):
            return False
        for key, amount in amounts.items():
            self.held[key, name] = amount, self.window(key), self.now + LEASE
        return True

    def settle(self, name: str, amounts: dict[str, int], windows: dict[str, int]) -> None:
        for key, amount in amounts.items():
            if windows[key] != self.window(key) or (key, name) in self.done:
                continue
            if self.now < self.held[key, name][2] + RETRY_SECONDS:
                del self.held[key, name]
            self.done[key, name] = self.now
            place = key, windows[key]
            self.used[place] = self.used.get(place, 0) + amount


SOME = st.integers(0, 70)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("reserve"), st.sets(st.sampled_from(KEYS), min_size=1), st.integers(0, 70)
        ),
        st.tuples(st.just("settle"), st.integers(0, 20), st.integers(0, 90)),
        st.tuples(st.just("wait"), st.sampled_from((0.5, 3.0, 8.0, 30.0)), st.just(0)),
    ),
    max_size=40,
)


def _claim(key: str, amount: int, window: int = -1) -> Claim:
    returns = key in RETURNS
    return Claim(key, LIMITS[key], SECONDS[key], amount, window, returns=returns)


def _as_plain_says(store: BudgetStore, clock: list[float], actions: list[Any]) -> None:
    plain = Plain(now=clock[0])
    granted: list[tuple[str, dict[str, int], dict[str, int]]] = []
    settled: set[str] = set()
    for nth, (kind, first, second) in enumerate(actions):
        if kind == "wait":
            clock[0] += first
            plain.now = clock[0]
        elif kind == "reserve":
            amounts = dict.fromkeys(sorted(first), second)
            claims = [_claim(key, second) for key in amounts]
            outcome: Any = store.apply(Step("reserve", f"n{nth}", claims, LEASE))
            assert (outcome.refused is None) == plain.reserve(f"n{nth}", amounts)
            for key, balance in zip(amounts, outcome.balances, strict=True):
                assert (balance.taken, balance.window) == (plain.taken(key), plain.window(key))
            if outcome.refused is None:
                windows = dict(zip(amounts, (it.window for it in outcome.balances), strict=True))
                granted.append((f"n{nth}", amounts, windows))
        elif granted:
            name, amounts, windows = granted[first % len(granted)]
            if name in settled:  # a late retry is told apart only as long as a lease lasts
                continue
            settled.add(name)
            used = dict.fromkeys(amounts, second)
            claims = [_claim(key, second, windows[key]) for key in amounts]
            for _ in range(2):
                store.apply(Step("settle", name, claims, LEASE))
            plain.settle(name, used, windows)
    for key in KEYS:
        claims = [_claim(key, 0)._replace(limit=2**50)]
        outcome = store.apply(Step("reserve", "last", claims, LEASE))
        assert outcome.balances[0].taken == plain.taken(key)


@given(ACTIONS)
@settings(max_examples=300, deadline=None)
def test_memory_does_what_the_plain_model_does(actions: list[Any]) -> None:
    clock = [1_000.0]
    _as_plain_says(MemoryBudgetStore(clock=lambda: clock[0]), clock, actions)


@pytest.mark.slow
@given(actions=ACTIONS)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_redis_does_what_the_plain_model_does(server: Any, actions: list[Any]) -> None:
    clock = [1_000.0]
    with rig.sync_client("redis", server.port) as client:
        client.flushall()
        _as_plain_says(RedisBudgetStore(client, clock=lambda: clock[0]), clock, actions)


def test_large_amounts_stay_whole(server: Any) -> None:
    most = 2**52
    with rig.sync_client("redis", server.port) as client:
        client.flushall()
        for store in (MemoryBudgetStore(), RedisBudgetStore(client)):
            for name, amount in (("a", most - 1), ("b", 1)):
                claims = [Claim(":k", most, 0, amount)]
                outcome: Outcome = store.apply(Step("reserve", name, claims, LEASE))  # type: ignore[assignment]
                assert outcome.refused is None
            assert outcome.balances[0].taken == most
            claims = [Claim(":k", most, 0, 1)]
            assert store.apply(Step("reserve", "c", claims, LEASE)).refused == 0  # type: ignore[union-attr]


def test_the_clock_of_a_worker_does_not_matter(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rig.sync_client("redis", server.port) as client:
        client.flushall()
        budgets = Budgets([Budget("b", tokens=10_000, per="day")], store=RedisBudgetStore(client))
        assert budgets.reserve(estimate()).label == "granted"
        monkeypatch.setattr("time.time", lambda: 0.0)
        second = budgets.reserve(estimate())
        assert int(second.headers["x-ratelimit-remaining-tokens"]) == 10_000 - 2 * second.tokens


def test_a_script_that_the_server_forgot_is_sent_again(server: Any) -> None:
    with rig.sync_client("redis", server.port) as client:
        budgets = Budgets([Budget("b", tokens=10_000)], store=RedisBudgetStore(client))
        for _ in range(2):
            client.script_flush()
            assert budgets.reserve(estimate()).label == "granted"
        assert budgets.stats() == {"granted": 2}


def test_an_asynchronous_client(server: Any) -> None:
    async def run() -> None:
        client = redis.asyncio.Redis(port=server.port)
        await client.flushall()
        budgets = Budgets([Budget("b", tokens=500, per="day")], store=RedisBudgetStore(client))
        first = await budgets.areserve(estimate())
        assert first.label == "granted"
        await first.asettle(Usage(uncached_input_tokens=400, output_tokens=50))
        second = await budgets.areserve(estimate())
        assert second.refusal is not None
        assert second.refusal.left == 50
        with pytest.raises(TypeError, match="areserve"):
            budgets.reserve(estimate())
        await client.aclose()

    asyncio.run(run())


@pytest.mark.slow
def test_a_storm_of_processes_takes_no_more_than_there_is(server: Any, tmp_path: Path) -> None:
    found = study.storm(server.port, 20_000, tmp_path)
    assert found["over_or_negative"] == 0
    assert found["looks"] > 100
    assert found["granted"] > 5_000
    for key, lost in found["used_less_settled"].items():
        assert 0 <= lost <= found["killed_while_settling"][key]
    assert not any(found["still_held"].values())
    assert found["booked_of_the_dead"][":all"] > 0


# ---------------------------------------------------------------------------- what users see


def test_reserved_then_settled_then_released() -> None:
    budgets = Budgets([Budget("minute", tokens=1_000, per="minute", by="tenant")])
    body = estimate()
    first = budgets.reserve(body, {"tenant": "acme"})
    assert first.tokens == body.high + 100
    assert first.output_tokens == 100
    left = int(first.headers["x-ratelimit-remaining-tokens"])
    assert left == 1_000 - first.tokens
    first.settle(Usage(uncached_input_tokens=20, output_tokens=5))
    first.settle(Usage(uncached_input_tokens=999))
    first.release()
    second = budgets.reserve(body, {"tenant": "acme"})
    assert int(second.headers["x-ratelimit-remaining-tokens"]) == 1_000 - 25 - second.tokens
    second.release()
    other = budgets.reserve(body, {"tenant": "other"})
    assert int(other.headers["x-ratelimit-remaining-tokens"]) == 1_000 - other.tokens
    assert budgets.stats() == {"granted": 3, "settled": 1, "released": 1}


def test_all_budgets_or_none() -> None:
    budgets = Budgets(
        [Budget("all", tokens=10_000, per="day"), Budget("each", tokens=150, per="day", by="user")]
    )
    assert budgets.reserve(estimate(), {"user": "a"}).label == "granted"
    refused = budgets.reserve(estimate(), {"user": "a"})
    assert refused.label == "refused"
    assert refused.refusal is not None
    assert refused.refusal.budget == "each"
    refused.settle(Usage(uncached_input_tokens=50))  # nothing was reserved
    granted = budgets.reserve(estimate(), {"user": "b"})
    store: Any = budgets._store
    [ledger] = [it for key, it in store._ledgers.items() if ":all:" in key]
    assert ledger.taken == 2 * granted.tokens


def test_the_output_is_learned_by_tenant_and_model() -> None:
    budgets = Budgets([Budget("b", tokens=10**9)])
    body = estimate(output=50_000)
    for output in range(100, 108):
        assert budgets.reserve(body, {"tenant": "t"}).output_tokens == 16_384  # of the model
        reservation = budgets.reserve(body, {"tenant": "t"})
        reservation.settle(Usage(uncached_input_tokens=9, output_tokens=output))
    assert budgets.reserve(body, {"tenant": "t"}).output_tokens == 107
    assert budgets.reserve(body, {"tenant": "u"}).output_tokens == 16_384
    small = estimate(output=10)
    assert budgets.reserve(small, {"tenant": "t"}).output_tokens == 10
    assert budgets.reserve(estimate("nobody-knows-it", None)).output_tokens == 1_024
    assert budgets.reserve(body, output_tokens=7).output_tokens == 7


def test_money() -> None:
    prices = Prices(
        {"updated": "2026-11-23", "models": {"gpt-4o": {"input": "2.5", "output": "10"}}},
        package=None,
    )
    budgets = Budgets([Budget("day", money="0.01", per="day")], prices=prices)
    body = estimate(output=900)
    first = budgets.reserve(body)
    expected = Decimal(body.high) * Decimal("2.5") / 10**6 + Decimal("0.009")
    assert first.money == expected
    refused = budgets.reserve(body).refusal
    assert refused is not None
    assert (refused.wanted, refused.limit) == (expected, Decimal("0.01"))
    assert json.loads(refused.body)["error"]["code"] == "insufficient_quota"
    first.settle(Usage(uncached_input_tokens=10, output_tokens=100))
    third = budgets.reserve(estimate(output=100))
    assert third.label == "granted"


@pytest.mark.parametrize("refuses", [False, True])
def test_a_price_that_nobody_knows(*, refuses: bool) -> None:
    budgets = Budgets(
        [Budget("day", money=1, per="day")], prices=Prices(package=None), refuses_unpriced=refuses
    )
    reservation = budgets.reserve(estimate())
    assert reservation.label == ("refused" if refuses else "granted")
    assert reservation.money is None
    reservation.settle(Usage(uncached_input_tokens=10, reported_cost=Decimal("0.4")))
    assert budgets.balance("day").taken == (0 if refuses else Decimal("0.4"))
    assert budgets.stats()["unpriced"] == 1


@pytest.mark.parametrize(
    ("dialect", "path", "value"),
    [
        ("openai-chat", ("error", "code"), "rate_limit_exceeded"),
        ("openai-responses", ("error", "type"), "tokens"),
        ("anthropic", ("error", "type"), "rate_limit_error"),
        ("gemini", ("error", "status"), "RESOURCE_EXHAUSTED"),
    ],
)
def test_refusals_are_worded_as_the_vendor_words_them(
    dialect: Any, path: tuple[str, ...], value: str
) -> None:
    budgets = Budgets([Budget("minute", tokens=2000, per="minute")])
    body = {"model": "m", "max_tokens": 1500, "messages": [{"role": "user", "content": "hi"}]}
    one = HybridTokenEstimator().estimate(body, dialect=dialect)
    assert budgets.reserve(one).label == "granted"
    refusal = budgets.reserve(one).refusal
    assert refusal is not None
    assert refusal.status == 429
    found = json.loads(refusal.body)
    for name in path:
        found = found[name]
    assert found == value
    assert 0 < int(refusal.headers["retry-after"]) <= 60
    assert refusal.retry_after_seconds is not None
    names = " ".join(refusal.headers)
    assert ("anthropic-ratelimit-tokens-remaining" in names) == (dialect == "anthropic")
    never = budgets.reserve(one, output_tokens=10**6).refusal
    assert never is not None
    assert never.retry_after_seconds is None
    assert "retry-after" not in never.headers


@pytest.mark.slow
@pytest.mark.parametrize("refuses", [False, True])
def test_a_store_that_is_down_breaks_nothing(*, refuses: bool) -> None:
    client = redis.Redis(port=rig.free_port(), socket_timeout=0.1, socket_connect_timeout=0.1)
    budgets = Budgets(
        [Budget("b", tokens=1_000)], store=RedisBudgetStore(client), refuses_unreachable=refuses
    )
    for _ in range(20):
        reservation = budgets.reserve(estimate())
        assert reservation.label == ("refused" if refuses else "unlimited")
        assert (reservation.refusal is not None) == refuses
        reservation.settle(Usage(uncached_input_tokens=5))
    stats = budgets.stats()
    assert stats["unreachable"] == 20
    assert stats["failed_reserve"] < 20  # it is left alone for a while


def test_keys_leave_no_trace_in_the_store(server: Any) -> None:
    with rig.sync_client("redis", server.port) as client:
        client.flushall()
        budgets = Budgets(
            [Budget("b", tokens=1_000, per="day", by=("tenant", "model"))],
            store=RedisBudgetStore(client),
        )
        budgets.reserve(estimate(), {"tenant": "a secret name"}).release()
        keys = [key.decode() for key in client.scan_iter()]
        assert len(keys) == 2
        assert not any("secret" in key for key in keys)
        assert len({key[key.index("{") : key.index("}")] for key in keys}) == 1
        assert all(0 < client.ttl(key) <= 86_400 + 600 for key in keys)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "b"}, "either tokens or money"),
        ({"name": "b", "tokens": 1, "money": 1}, "either tokens or money"),
        ({"name": "b", "tokens": 1, "per": "week"}, "per is 'week'"),
        ({"name": "b", "tokens": -1}, "limit of 'b' is -1"),
        ({"name": "b", "money": "many"}, "money is 'many'"),
        ({"name": "b", "money": 10**9}, "limit of 'b'"),
    ],
)
def test_what_is_no_budget(words: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Budget(**words)


def test_what_are_no_budgets() -> None:
    one = Budget("b", tokens=1)
    with pytest.raises(ValueError, match="same name"):
        Budgets([one, one])
    with pytest.raises(TypeError, match="Budget objects"):
        Budgets(["b"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="lease_seconds is 0"):
        Budgets([one], lease_seconds=0)
    with pytest.raises(TypeError, match="client is a object"):
        RedisBudgetStore(object())
