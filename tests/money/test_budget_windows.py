"""Windows that roll, beside an exact list of what was taken when; requests and calls at once."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import redis_rig as rig
from tokenctx import Estimate, HybridTokenEstimator
from tokenctx.money.budgets import Budget, Budgets, MemoryBudgetStore, RedisBudgetStore, Uncounted
from tokenctx.money.budgets.budget import PARTS
from tokenctx.money.budgets.store import Claim, Step
from tokenctx.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tokenctx.money.budgets.store import BudgetStore, Outcome

pytest.importorskip("redis")

LEASE, LIMIT, SPAN = 10.0, 100, 60
Made = tuple["BudgetStore", list[float]]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with rig.server(rig.require("redis"), tmp_path_factory.mktemp("server")) as running:
        yield running.port


@pytest.fixture(params=["memory", "redis"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[], Made]]:
    """A store and the clock that it goes by; every call empties it."""
    if request.param == "memory":
        yield _in_memory
        return
    with rig.sync_client("redis", request.getfixturevalue("port")) as client:

        def made() -> Made:
            clock = [1e9]
            client.flushall()
            return RedisBudgetStore(client, clock=lambda: clock[0]), clock

        yield made


def _in_memory() -> Made:
    clock = [1e9]
    return MemoryBudgetStore(clock=lambda: clock[0]), clock


def estimate(output: int = 100, **words: Any) -> Estimate:
    content = [{"role": "user", "content": "How long is a day?"}]
    body = {"model": "gpt-4o", "max_tokens": output, "messages": content}
    return HybridTokenEstimator().estimate(body, **words)


# ---------------------------------------------------------------------------- the exact list


@dataclass
class Exact:
    """Every call with its beginning, its amount and its end; nothing is rounded."""

    calls: dict[str, tuple[float, int, float]] = field(default_factory=dict)

    def taken(self, now: float, span: float) -> int:
        return sum(
            amount for at, amount, ends in self.calls.values() if now - span < at and now < ends
        )


def _as_the_list_says(store: Any, clock: list[float], actions: list[Any]) -> None:
    exact, windows = Exact(), {}
    for nth, (kind, first, second) in enumerate(actions):
        now = clock[0]
        if kind == "wait":
            clock[0] += first
        elif kind == "reserve":
            claims = [Claim(":k", LIMIT, SPAN, first, parts=PARTS)]
            outcome: Outcome = store.apply(Step("reserve", f"n{nth}", claims, LEASE))
            least = exact.taken(now, SPAN)
            most = exact.taken(now, SPAN + SPAN / PARTS)
            if outcome.refused is None:
                assert least + first <= LIMIT, "no span has more than the limit"
                exact.calls[f"n{nth}"] = now, first, float("inf")  # a dead caller's is booked
                windows[f"n{nth}"] = outcome.balances[0].window
                least, most = least + first, most + first
            else:
                assert most + first > LIMIT, "nothing older than a sixtieth more counts"
                _has_room_then(store, clock, first, outcome.balances[0].reset_seconds)
            assert least <= outcome.balances[0].taken <= most
        elif windows:
            name = sorted(windows)[first % len(windows)]
            claims = [Claim(":k", LIMIT, SPAN, second, windows.pop(name), PARTS)]
            for _ in range(2):  # a retry does nothing
                store.apply(Step("settle", name, claims, LEASE))
            exact.calls[name] = exact.calls[name][0], second, float("inf")


def _has_room_then(store: Any, clock: list[float], amount: int, reset: float) -> None:
    """What `reset_seconds` says after a refusal: then there is room, if nobody else takes it."""
    assert 0 < reset <= SPAN + SPAN / PARTS
    if isinstance(store, MemoryBudgetStore) and amount <= LIMIT:
        ledger = copy.deepcopy(store._ledgers[":k"])
        ledger.turn(int(clock[0] + reset + 1e-6))
        assert ledger.taken + amount <= LIMIT


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(0, 70), st.just(0)),
        st.tuples(st.just("settle"), st.integers(0, 20), st.integers(0, 70)),
        st.tuples(
            st.just("wait"), st.sampled_from((0.3, 0.99, 1.0, 3.7, 9.5, 31.0, 70.0)), st.just(0)
        ),
    ),
    max_size=60,
)


@given(actions=ACTIONS)
@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_span_has_more_than_the_limit(make: Callable[[], Made], actions: list[Any]) -> None:
    _as_the_list_says(*make(), actions)


def test_a_fixed_window_lets_twice_the_limit_through_and_a_rolling_one_does_not(
    make: Callable[[], Made],
) -> None:
    for is_rolling, granted in ((False, 2), (True, 1)):
        store, clock = make()
        clock[0] = 60.0 * 10**7 - 0.5
        one = Budget("b", requests=1, per="minute", is_rolling=is_rolling)
        budgets = Budgets([one], store=store)
        labels = [budgets.reserve(estimate()).label]
        clock[0] += 1.0
        labels.append(budgets.reserve(estimate()).label)
        assert labels.count("granted") == granted


def test_what_a_rolling_window_keeps_is_bounded() -> None:
    clock = [1e9]
    store = MemoryBudgetStore(clock=lambda: clock[0])
    budgets = Budgets([Budget("b", tokens=10**9, per="minute", is_rolling=True)], store=store)
    one = estimate()
    for _ in range(3_000):
        clock[0] += 0.25
        budgets.reserve(one).settle(Usage(uncached_input_tokens=10))
    [ledger] = store._ledgers.values()
    assert len(ledger.parts) <= PARTS + 1
    assert len(ledger.held) == 0
    assert len(ledger.settled) <= 4 * 120 + 1, "ids of two minutes, by which a retry is known"
    assert ledger.taken <= 4 * 61 * 10


@pytest.mark.parametrize("span", ["minute", "day"])
def test_a_clock_that_jumps_locks_no_rolling_window(make: Callable[[], Made], span: Any) -> None:
    store, clock = make()
    budgets = Budgets([Budget("b", tokens=1_000, per=span, is_rolling=True)], store=store)
    clock[0] += 30 * 86_400
    late = [budgets.reserve(estimate()) for _ in range(9)]
    assert [it.label for it in late].count("granted") == 8
    clock[0] -= 30 * 86_400
    assert budgets.reserve(estimate()).label == "granted"
    late[0].settle(Usage(uncached_input_tokens=100))  # of the other time: booked now
    left = budgets.reserve(estimate())
    assert int(left.headers["x-ratelimit-remaining-tokens"]) == 1_000 - 100 - 2 * left.tokens
    clock[0] -= 5  # by less than a window: what was taken goes on to count
    again = budgets.reserve(estimate())
    assert int(again.headers["x-ratelimit-remaining-tokens"]) == 1_000 - 100 - 3 * left.tokens


# ---------------------------------------------------------------------------- requests, slots


def test_requests_count_however_they_end(make: Callable[[], Made]) -> None:
    store, _ = make()
    budgets = Budgets([Budget("rpm", requests=4, per="minute", by="tenant")], store=store)
    one, keys = estimate(), {"tenant": "acme"}
    budgets.reserve(one, keys).release()
    budgets.reserve(one, keys).keep()
    budgets.reserve(one, keys).settle(Usage(uncached_input_tokens=5))
    retried = budgets.reserve(one, keys)
    retried.release()
    retried.settle(Usage(uncached_input_tokens=5))  # another attempt of the same request
    refusal = budgets.reserve(one, keys).refusal
    assert refusal is not None
    assert (refusal.wanted, refusal.left, refusal.limit) == (1, 0, 4)
    assert 1 <= int(refusal.headers["retry-after"]) <= 60
    assert refusal.headers["x-ratelimit-limit-requests"] == "4"
    assert refusal.headers["x-ratelimit-remaining-requests"] == "0"
    assert "x-ratelimit-reset-requests" in refusal.headers
    error = json.loads(refusal.body)["error"]
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
    assert budgets.reserve(one, {"tenant": "other"}).label == "granted"


def test_requests_in_the_words_of_anthropic() -> None:
    budgets = Budgets(
        [Budget("tpm", tokens=10**6, per="minute"), Budget("rpm", requests=9, per="minute")]
    )
    headers = budgets.reserve(estimate(dialect="anthropic")).headers
    assert headers["anthropic-ratelimit-requests-remaining"] == "8"
    assert headers["anthropic-ratelimit-requests-limit"] == "9"
    assert headers["anthropic-ratelimit-tokens-limit"] == "1000000"


@pytest.mark.parametrize("end", ["settle", "keep", "release", "twice", "failed"])
def test_a_slot_is_given_back_once(make: Callable[[], Made], end: str) -> None:
    store, _ = make()
    budgets = Budgets([Budget("slots", concurrency=2)], store=store)
    one, bill = estimate(), Usage(uncached_input_tokens=5)
    first, second = budgets.reserve(one), budgets.reserve(one)
    assert (first.label, second.label) == ("granted", "granted")
    refusal = budgets.reserve(one).refusal
    assert refusal is not None
    assert refusal.headers["retry-after"] == "1"
    assert "2 calls at once" in refusal.message
    if end == "settle":
        first.settle(bill)
    elif end == "keep":
        first.keep(100)
    elif end == "failed":
        first.settle(None)  # type: ignore[arg-type]
    else:
        first.release()
    if end == "twice":
        first.release()
        first.settle(bill)
        first.keep()
        first.attempt().settle(bill)
    assert budgets.reserve(one).label == "granted"
    assert budgets.reserve(one).label == "refused", "one slot was given back, not two"


def test_the_slot_of_a_caller_that_dies_ends_with_its_lease(make: Callable[[], Made]) -> None:
    store, clock = make()
    budgets = Budgets([Budget("slots", concurrency=1)], store=store, lease_seconds=30)
    dead = budgets.reserve(estimate())
    clock[0] += 29
    assert budgets.reserve(estimate()).label == "refused"
    clock[0] += 2
    alive = budgets.reserve(estimate())
    assert alive.label == "granted"
    dead.release()  # it was not dead, only late: the slot of the other is left alone
    assert budgets.reserve(estimate()).label == "refused"


def test_a_body_that_nobody_can_count_is_still_a_request() -> None:
    budgets = Budgets([Budget("rpm", requests=1, per="minute")])
    assert budgets.reserve(Uncounted(high=None)).label == "granted"
    assert budgets.reserve(Uncounted(high=None)).label == "refused"


def test_a_plan_and_a_tenant_have_limits_of_their_own() -> None:
    one = Budget(
        "rpm",
        requests=1,
        per="day",
        by="tenant",
        plans={"gold": 3, "silver": 2},
        tenants={"acme": 4},
    )
    budgets = Budgets([one])
    for keys, limit in (
        ({"tenant": "a", "plan": "gold"}, 3),
        ({"tenant": "b", "plan": "silver"}, 2),
        ({"tenant": "c", "plan": "tin"}, 1),
        ({"tenant": "d"}, 1),
        ({"tenant": "acme", "plan": "gold"}, 4),
    ):
        made = [budgets.reserve(estimate(), keys) for _ in range(limit + 1)]
        assert [it.label for it in made] == ["granted"] * limit + ["refused"]
        assert made[-1].refusal is not None
        assert made[-1].refusal.limit == limit


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ({"concurrency": 1, "per": "minute"}, "has no `per`"),
        ({"tokens": 1, "is_rolling": True}, "needs `per`"),
        ({"requests": 1, "tokens": 1}, "it has tokens and requests"),
        ({"requests": 1, "plans": {"a": -1}}, "limit of 'b' is -1"),
    ],
)
def test_what_is_no_limit(words: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Budget("b", **words)
