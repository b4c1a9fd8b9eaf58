"""The memory of budgets: what is forgotten had no say, and what grows is what it grew to."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tokenctx.money.budgets import Budget, MemoryBudgetStore
from tokenctx.money.budgets.budget import MOST, NANO, SECONDS
from tokenctx.money.budgets.store import Claim, Step

LEASE = 10.0


def claim(key: str, amount: int, seconds: int = 60, **words: Any) -> Claim:
    return Claim(key, 100, seconds, amount, **words)


def made() -> tuple[MemoryBudgetStore, list[float]]:
    """A store that looks for what is over at every third key, and its clock at a window's begin."""
    clock = [6_000.0]
    store = MemoryBudgetStore(clock=lambda: clock[0])
    store._most = 2
    return store, clock


def use(store: MemoryBudgetStore, key: str, amount: int, seconds: int = 60) -> None:
    store.apply(Step("reserve", key, [claim(key, amount, seconds)], LEASE))
    store.apply(Step("settle", key, [claim(key, amount, seconds)], LEASE))


def taken(store: MemoryBudgetStore, key: str, seconds: int = 60) -> int:
    return store.apply(Step("look", "look", [claim(key, 0, seconds)], LEASE)).balances[0].taken


@pytest.mark.parametrize(("later", "kept"), [(59.9, 3), (60.0, 1)])
def test_a_key_is_forgotten_as_soon_as_its_window_is_over(later: float, kept: int) -> None:
    store, clock = made()
    use(store, "a", 70)
    use(store, "b", 30)
    clock[0] += later
    use(store, "c", 10)
    assert len(store._ledgers) == kept
    assert taken(store, "a") == (70 if kept == 3 else 0)


def test_what_has_no_window_or_is_still_held_is_kept_for_ever() -> None:
    store, clock = made()
    use(store, "all", 40, seconds=0)
    store.apply(Step("reserve", "held", [claim("held", 20, 0)], LEASE))
    for turn in range(20):
        clock[0] += 61.0
        store.apply(Step("hold", "held", [claim("held", 20, 0)], LEASE + 100))
        use(store, f"key {turn}", 1)
    assert taken(store, "all", 0) == 40
    assert taken(store, "held", 0) == 20


def test_a_key_that_took_nothing_is_forgotten_at_once() -> None:
    store, _ = made()
    for number in range(4):
        use(store, str(number), 0)
    assert len(store._ledgers) < 4


def test_each_look_is_paid_for_by_as_many_new_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenctx.money.budgets.memory.LOOKED_THROUGH", 2)
    store, _ = made()
    looks, look = [], store._forget

    def counted(now: float, at: float) -> None:
        looks.append(len(store._ledgers))
        look(now, at)

    monkeypatch.setattr(store, "_forget", counted)
    for number in range(1_000):
        use(store, str(number), 1)
    assert looks == [2**power for power in range(1, 10)]


def test_what_is_held_grows_to_an_amount_and_not_by_it() -> None:
    store, clock = made()
    for amount, expected in [(40, 40), (60, 60), (50, 60)]:
        outcome = store.apply(Step("hold", "a", [claim("a", amount)], LEASE))
        assert outcome.balances[0].taken == expected
    clock[0] += LEASE - 0.1
    assert taken(store, "a") == 60
    clock[0] += 0.1
    assert taken(store, "a") == 60  # whoever died may have been served
    assert not store._ledgers["a"].held


def test_one_lock_is_for_all_calls_of_a_process() -> None:
    store, _ = made()
    lock = store._lock
    use(store, "a", 1)
    assert store._lock is lock
    store._pid = 0  # as in a child
    use(store, "a", 1)
    assert store._lock is not lock


def test_a_window_ends_when_the_vendor_says() -> None:
    assert dict(SECONDS) == {"minute": 60, "hour": 3_600, "day": 86_400}
    store, clock = made()
    clock[0] += 13.0
    refused = store.apply(Step("reserve", "a", [claim("a", 101)], LEASE))
    assert refused.refused == 0
    assert refused.balances[0].reset_seconds == 47.0


def test_a_reservation_that_comes_twice_is_held_once() -> None:
    store, _ = made()
    step = Step("reserve", "one", [claim("a", 30)], LEASE)
    assert [store.apply(step).balances[0].taken for _ in range(3)] == [30, 30, 30]
    store.apply(Step("settle", "one", [claim("a", 10)], LEASE))
    assert store.apply(step).balances[0].taken == 10  # late, behind its own bill
    assert taken(store, "a") == 10


def test_a_refusal_says_when_there_is_room() -> None:
    store, clock = made()
    rolling = [claim("a", 40, parts=60)]
    for number in range(2):
        store.apply(Step("reserve", f"{number}", rolling, LEASE))
        store.apply(Step("settle", f"{number}", rolling, LEASE))
        clock[0] += 10.0
    refused = store.apply(Step("reserve", "third", rolling, LEASE))
    assert (refused.refused, refused.balances[0].reset_seconds) == (0, 41.0)
    more = store.apply(Step("reserve", "fourth", [claim("a", 70, parts=60)], LEASE))
    assert (more.refused, more.balances[0].reset_seconds) == (0, 51.0)  # both must be over
    clock[0] += 41.0
    assert store.apply(Step("reserve", "fifth", rolling, LEASE)).refused is None


@pytest.mark.parametrize(
    "words",
    [
        {"tokens": 0},
        {"tokens": MOST},
        {"money": 0},
        {"money": Decimal(MOST) / NANO},
    ],
)
def test_a_limit_may_be_nothing_and_very_much(words: dict[str, Any]) -> None:
    assert Budget("b", **words)


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ({"tokens": MOST + 1}, f"{MOST} tokens"),
        ({"money": Decimal(MOST + 1) / NANO}, f"{MOST // NANO} dollars"),
    ],
)
def test_a_limit_has_an_end(words: dict[str, Any], most: str) -> None:
    with pytest.raises(ValueError, match=rf"the limit of 'b' is \S+; it must be from 0 to {most}$"):
        Budget("b", **words)
