"""A budget of one tenant as an operator reads it, and the alarm that one is nearly used up."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tokenctx._results.result import Result

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from decimal import Decimal

    from tokenctx.money.budgets.budget import Budget
    from tokenctx.money.budgets.store import Balance, Claim

MAX_WATCHED: Final = 4096
"""Budgets of one key whose last alarm is remembered."""
MAX_WAITING: Final = 1000
"""Alarms that wait for the callback; later ones are dropped and counted."""


@dataclass(frozen=True, slots=True)
class BudgetBalance(Result):
    """A budget for one set of keys, now; amounts in tokens, dollars, requests or calls at once.

    Attributes:
        budget: The name of the budget.
        taken: Used and reserved.
        left: What is left, 0 at least.
        limit: What there is of it.
        reset_seconds: Seconds until nothing of `taken` counts any longer; 0 if it has no window.
    """

    budget: str
    taken: int | Decimal
    left: int | Decimal
    limit: int | Decimal
    reset_seconds: float


@dataclass(frozen=True, slots=True)
class BudgetAlarm(Result):
    """So much of a budget is taken that somebody wants to know.

    Attributes:
        budget: The name of the budget.
        keys: Whose it is, by the names that it is kept by.
        threshold: The share of the limit that was reached.
        taken: Used and reserved, in the unit of the budget.
        limit: What there is of it.
    """

    budget: str
    keys: tuple[tuple[str, str], ...]
    threshold: float
    taken: int | Decimal
    limit: int | Decimal


def balance_of(budget: Budget, balance: Balance) -> BudgetBalance:
    """A balance of the store as it is told."""
    rest = max(0, balance.limit - balance.taken)
    taken, left, limit = map(budget.told, (balance.taken, rest, balance.limit))
    return BudgetBalance(budget.name, taken, left, limit, balance.reset_seconds)


class Alarms:
    """Calls back at thresholds, each once for a key and window, in a thread of its own.

    No call waits for it. A callback that raises is counted as `failed_alarms`, and what a slow one
    leaves waiting above `MAX_WAITING` as `dropped_alarms`.
    """

    def __init__(
        self,
        thresholds: Iterable[float],
        call: Callable[[BudgetAlarm], object] | None,
        counts: Counter[str],
    ) -> None:
        self._thresholds = tuple(sorted(thresholds))
        if not all(0 < it <= 1 for it in self._thresholds):
            raise ValueError(
                f"alarms are {self._thresholds}; each must be above 0, and 1 at most, as 0.8"
            )
        if call is not None and not callable(call):
            raise TypeError(f"on_alarm is of type {type(call).__name__}; it must be callable")
        self._call = call
        self._counts = counts
        self._last: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._waiting: deque[BudgetAlarm] = deque()
        self._lock = threading.Lock()
        self._is_running = False

    @property
    def is_on(self) -> bool:
        """True if anybody wants to know."""
        return self._call is not None

    def look(
        self,
        rows: Iterable[tuple[Budget, Claim, Balance]],
        keys: Mapping[str, str | None],
    ) -> None:
        """Raise an alarm for each budget that has reached a further threshold."""
        if self._pid != os.getpid():  # the thread is not copied, and what waits is the parent's
            self._begin()
        for budget, claim, balance in rows:
            reached = [it for it in self._thresholds if balance.taken >= it * balance.limit]
            window = balance.window // claim.parts
            if not reached or budget.unit == "concurrency" or balance.taken == 0:
                continue
            with self._lock:
                last, before = self._last.get(claim.key, (window, 0.0))
                if abs(window - last) >= 1:
                    before = 0.0
                if reached[-1] <= before:
                    continue
                self._last[claim.key] = window, reached[-1]
                self._last.move_to_end(claim.key)
                if len(self._last) > MAX_WATCHED:
                    self._last.popitem(last=False)
            whose = tuple((it, str(keys.get(it) or "")) for it in budget.by)
            amounts = map(budget.told, (balance.taken, balance.limit))
            self._raise(BudgetAlarm(budget.name, whose, reached[-1], *amounts))

    def forget(self, claims: Sequence[Claim]) -> None:
        """Begin anew with these budgets, which were reset or have another limit."""
        with self._lock:
            for claim in claims:
                self._last.pop(claim.key, None)

    def _raise(self, alarm: BudgetAlarm) -> None:
        self._counts["alarms"] += 1
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                self._counts["dropped_alarms"] += 1
                return
            self._waiting.append(alarm)
            if self._is_running:
                return
            self._is_running = True
        try:
            threading.Thread(target=self._run, name="tokenctx-alarms", daemon=True).start()
        except RuntimeError:  # no more threads, or the interpreter ends
            self._is_running = False

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                alarm = self._waiting.popleft()
            try:
                if self._call is not None:
                    self._call(alarm)
            except Exception:  # the user's own function: no call fails for it
                self._counts["failed_alarms"] += 1
