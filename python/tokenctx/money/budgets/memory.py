"""Budgets of one process."""

from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tokenctx.money.budgets.store import RETRY_SECONDS, Balance, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenctx.money.budgets.store import Claim, Step

LOOKED_THROUGH: Final = 100_000
"""From this many keys on, those whose window is over are forgotten now and then."""


@dataclass(slots=True)
class _Ledger:
    """One budget of one key. What is held or settled stands in the order in which it ends."""

    seconds: int
    window: int = -1
    used: int = 0
    taken: int = 0
    held: dict[str, tuple[float, int]] = field(default_factory=dict)
    settled: dict[str, tuple[float, int]] = field(default_factory=dict)

    def turn(self, window: int) -> None:
        """Begin a window, if it is a later one; or anew, after a clock that had jumped ahead."""
        if window > self.window or window < self.window - 1:
            self.window, self.used, self.taken = window, 0, 0
            self.held.clear()
            self.settled.clear()

    def expire(self, now: float) -> None:
        """Give back what dead callers have reserved."""
        for entries in (self.held, self.settled):
            while entries and entries[name := next(iter(entries))][0] <= now:
                self.taken -= entries.pop(name)[1]


class MemoryBudgetStore:
    """Budgets in the memory of this process, shared by its threads and loops.

    `clock` gives seconds since 1970, by which windows begin and leases end. After a fork each
    process goes on with a copy. Windows that are over are forgotten in time; what is limited in all
    is kept for every key.
    """

    is_async: Final = False

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        # Leases are no matter of the day: a clock that jumps neither ends nor prolongs them.
        self._lease_clock = time.monotonic if clock is time.time else clock
        self._ledgers: dict[str, _Ledger] = {}
        self._most = LOOKED_THROUGH
        self._pid, self._lock = os.getpid(), threading.Lock()

    def __len__(self) -> int:
        return len(self._ledgers)

    def apply(self, step: Step) -> Outcome:
        """Do one step."""
        if self._pid != os.getpid():  # the lock may have been copied locked
            self._pid, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            now, at = self._clock(), self._lease_clock()
            if step.kind == "reserve":
                return self._reserve(step, now, at)
            return self._settle(step, now, at)

    def _reserve(self, step: Step, now: float, at: float) -> Outcome:
        ledgers = [self._ledger(claim, now, at) for claim in step.claims]
        pairs = list(zip(step.claims, ledgers, strict=True))
        full = (
            nth for nth, (claim, it) in enumerate(pairs) if it.taken + claim.amount > claim.limit
        )
        refused = next(full, None)
        if refused is None:
            for claim, ledger in pairs:
                if step.id not in ledger.held:
                    ledger.held[step.id] = at + step.lease_seconds, claim.amount
                    ledger.taken += claim.amount
        return Outcome(refused, [_balance(claim, it, now) for claim, it in pairs])

    def _settle(self, step: Step, now: float, at: float) -> Outcome:
        pairs = [(claim, self._ledger(claim, now, at)) for claim in step.claims]
        for claim, ledger in pairs:
            if 0 <= claim.window < ledger.window or step.id in ledger.settled:
                continue  # of a window that is over, or a retry
            _, reserved = ledger.held.pop(step.id, (0.0, 0))  # none if its lease was over
            ledger.taken += claim.amount - reserved
            ledger.used += claim.amount
            ledger.settled[step.id] = at + RETRY_SECONDS, 0
        return Outcome(None, [_balance(claim, it, now) for claim, it in pairs])

    def _ledger(self, claim: Claim, now: float, at: float) -> _Ledger:
        ledger = self._ledgers.get(claim.key)
        if ledger is None:
            if len(self._ledgers) >= self._most:
                self._forget(now, at)
            ledger = self._ledgers[claim.key] = _Ledger(claim.seconds)
        ledger.turn(math.floor(now / claim.seconds) if claim.seconds else 0)
        ledger.expire(at)
        return ledger

    def _forget(self, now: float, at: float) -> None:
        """Drop what a new ledger would say as well: nothing, or a window that is over."""
        for key, ledger in list(self._ledgers.items()):
            ledger.expire(at)
            is_over = ledger.seconds and math.floor(now / ledger.seconds) > ledger.window
            if is_over or (ledger.used == 0 and not ledger.held):
                del self._ledgers[key]
        self._most = max(LOOKED_THROUGH, 2 * len(self._ledgers))


def _balance(claim: Claim, ledger: _Ledger, now: float) -> Balance:
    reset = (ledger.window + 1) * claim.seconds - now if claim.seconds else 0.0
    return Balance(ledger.taken, ledger.window, max(0.0, reset))
