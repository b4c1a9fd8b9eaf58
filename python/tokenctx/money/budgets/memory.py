"""Budgets of one process."""

from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from tokenctx.money.budgets.store import RETRY_SECONDS, Balance, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenctx.money.budgets.store import Claim, Step

LOOKED_THROUGH: Final = 100_000
"""From this many keys on, those whose window is over are forgotten now and then."""


@dataclass(slots=True)
class _Ledger:
    """One budget of one key. What is held or settled stands in the order in which it ends."""

    counted_parts: int
    part_seconds: float
    newest: int = -1
    taken: int = 0
    parts: dict[int, int] = field(default_factory=dict)
    returns: bool = False
    held: dict[str, tuple[float, int, int]] = field(default_factory=dict)
    lapsed: dict[str, tuple[float, int, int]] = field(default_factory=dict)
    settled: dict[str, float] = field(default_factory=dict)

    @property
    def used(self) -> int:
        """The part of `taken` that is settled."""
        return self.taken - sum(it for _, it, part in self.held.values() if part in self.parts)

    def turn(self, part: int) -> None:
        """Begin a part, if it is a later one; or anew, after a clock that had jumped ahead."""
        if part > self.newest:
            self.newest = part
            for old in [it for it in self.parts if it <= part - self.counted_parts]:
                self.taken -= self.parts.pop(old)
        elif part < self.newest - self.counted_parts:
            self.newest = part
            self.clear()

    def is_over(self, now: float) -> bool:
        """True if nothing of it counts any longer."""
        if not self.part_seconds:
            return False
        return math.floor(now / self.part_seconds) - self.counted_parts >= self.newest

    def clear(self) -> None:
        """Forget all that was taken; a bill that comes twice is known all the same."""
        self.taken = 0
        self.parts.clear()
        self.held.clear()
        self.lapsed.clear()

    def add(self, part: int, amount: int) -> None:
        """Take `amount` of a part, or give it back; nothing if the part counts no longer."""
        if part > self.newest - self.counted_parts:
            self.parts[part] = self.parts.get(part, 0) + amount
            self.taken += amount

    def hold(self, name: str, amount: int, ends: float) -> None:
        """Hold an amount; of what is held already, what there is more of it."""
        before, part = 0, self.newest
        if (known := self.open(name)) is not None:
            _, before, part = known
        self.held[name] = ends, max(amount, before), part
        self.add(part, max(amount - before, 0))

    def open(self, name: str) -> tuple[float, int, int] | None:
        """Take out the end, the amount and the part of what was held; None if nothing is known."""
        return self.held.pop(name, None) or self.lapsed.pop(name, None)

    def expire(self, now: float) -> None:
        """Book what dead callers have reserved, or give back what returns."""
        while self.held and self.held[name := next(iter(self.held))][0] <= now:
            ended, amount, part = self.held.pop(name)
            if self.returns:
                self.add(part, -amount)
            else:
                self.lapsed[name] = ended + RETRY_SECONDS, amount, part
        while self.lapsed and self.lapsed[name := next(iter(self.lapsed))][0] <= now:
            del self.lapsed[name]
        while self.settled and self.settled[name := next(iter(self.settled))] <= now:
            del self.settled[name]

    def room_part(self, wanted: int) -> int:
        """The oldest part without which there is room for an amount."""
        for part in sorted(self.parts):
            wanted -= self.parts[part]
            if wanted <= 0:
                return part
        return self.newest


_Pairs: TypeAlias = "list[tuple[Claim, _Ledger]]"


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
        self._limits: dict[str, int] = {}
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
            ledgers = [self._ledger(claim, now, at) for claim in step.claims]
            pairs = list(zip(step.claims, ledgers, strict=True))
            if step.kind == "settle":
                self._settle(step, pairs, at)
            elif step.kind in ("reserve", "hold"):
                return self._reserve(step, pairs, now, at)
            elif step.kind != "look":
                self._operate(step, pairs)
            return Outcome(None, [self._balance(claim, it, now) for claim, it in pairs])

    def _reserve(self, step: Step, pairs: _Pairs, now: float, at: float) -> Outcome:
        refused = None
        if step.kind == "reserve":
            for nth, (claim, it) in enumerate(pairs):
                if it.taken + claim.amount > self._limit(claim):
                    refused = nth
                    break
        if refused is None:
            for claim, ledger in pairs:
                if step.id not in ledger.settled and (
                    step.kind == "hold" or step.id not in ledger.held
                ):
                    ledger.hold(step.id, claim.amount, at + step.lease_seconds)
            return Outcome(None, [self._balance(claim, it, now) for claim, it in pairs])
        balances = [
            self._balance(claim, it, now, it.taken + claim.amount - self._limit(claim))
            for claim, it in pairs
        ]
        return Outcome(refused, balances)

    def _settle(self, step: Step, pairs: _Pairs, at: float) -> None:
        for claim, ledger in pairs:
            if step.id in ledger.settled:
                continue
            if (held := ledger.open(step.id)) is not None:  # none if its lease was over long ago
                ledger.add(held[2], -held[1])
            is_known = 0 <= claim.window <= ledger.newest
            ledger.add(claim.window if is_known else ledger.newest, claim.amount)
            ledger.settled[step.id] = at + RETRY_SECONDS

    def _operate(self, step: Step, pairs: _Pairs) -> None:
        for claim, ledger in pairs:
            if step.kind == "reset":
                ledger.clear()
            elif claim.amount < 0:
                self._limits.pop(claim.key, None)
            else:
                self._limits[claim.key] = claim.amount

    def _limit(self, claim: Claim) -> int:
        return self._limits.get(claim.key, claim.limit) if self._limits else claim.limit

    def _ledger(self, claim: Claim, now: float, at: float) -> _Ledger:
        ledger = self._ledgers.get(claim.key)
        if ledger is None:
            if len(self._ledgers) >= self._most:
                self._forget(now, at)
            ledger = _Ledger(claim.counted_parts, claim.part_seconds, returns=claim.returns)
            self._ledgers[claim.key] = ledger
        part = math.floor(now / ledger.part_seconds) if ledger.part_seconds else 0
        if part != ledger.newest:
            ledger.turn(part)
        if ledger.held or ledger.settled or ledger.lapsed:
            ledger.expire(at)
        return ledger

    def _balance(self, claim: Claim, ledger: _Ledger, now: float, beyond: int = 0) -> Balance:
        reset = 0.0
        if claim.seconds:
            part = ledger.room_part(beyond) if beyond > 0 else ledger.newest
            reset = max(0.0, (part + ledger.counted_parts) * ledger.part_seconds - now)
        return Balance(ledger.taken, ledger.newest, reset, self._limit(claim))

    def _forget(self, now: float, at: float) -> None:
        """Drop what a new ledger would say as well: nothing, or a window that is over."""
        for key, ledger in list(self._ledgers.items()):
            ledger.expire(at)
            if ledger.is_over(now) or (ledger.taken == 0 and not ledger.held):
                del self._ledgers[key]
        self._most = max(LOOKED_THROUGH, 2 * len(self._ledgers))
