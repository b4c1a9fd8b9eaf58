"""All budgets of a gateway: what a call falls under, what it takes, what comes back."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import os
from collections import Counter
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any, cast

from tokenctx.money.budgets.budget import NANO, Budget
from tokenctx.money.budgets.memory import MemoryBudgetStore
from tokenctx.money.budgets.outputs import Outputs
from tokenctx.money.budgets.refusal import limit_headers, refusal_of
from tokenctx.money.budgets.reservation import Reservation
from tokenctx.money.budgets.store import LEASE_SECONDS, Claim, Step
from tokenctx.money.prices import default_prices
from tokenctx.stores.breaker import Breaker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tokenctx._results.estimates import Estimate
    from tokenctx.money.budgets.reservation import Closing
    from tokenctx.money.budgets.store import BudgetStore, Outcome
    from tokenctx.money.prices import Prices
    from tokenctx.usage.normal import Usage


class Budgets:
    """Budgets of tokens and money, around one store.

    A call falls under all of `budgets`; it is reserved in all of them or in none. `store` is where
    they are kept: in this process (`MemoryBudgetStore()`, the default) or in Redis or Valkey
    (`RedisBudgetStore(client)`). `lease_seconds` is how long a reservation lives that nobody
    settles: longer than the longest answer. The output that is
    reserved is the quantile 0.9 of learned outputs, and 1,024 tokens where neither request, model
    nor experience says it.
    `prices` are those of `Prices()` unless you have others. `refuses_unpriced` refuses calls under
    a budget of money whose price is unknown, in place of letting them go for nothing;
    `refuses_unreachable` those that cannot be reserved since the store has failed.

    One serves all threads and loops of a process. Raises TypeError or ValueError for settings that
    cannot be meant.
    """

    def __init__(
        self,
        budgets: Iterable[Budget],
        *,
        store: BudgetStore | None = None,
        lease_seconds: float = LEASE_SECONDS,
        prices: Prices | None = None,
        refuses_unpriced: bool = False,
        refuses_unreachable: bool = False,
    ) -> None:
        self._budgets = tuple(budgets)
        if not all(isinstance(it, Budget) for it in self._budgets):
            raise TypeError("budgets must be Budget objects")
        if len({it.name for it in self._budgets}) != len(self._budgets):
            raise ValueError("two budgets have the same name; each needs one of its own")
        if not 0 < lease_seconds <= 86_400:
            raise ValueError(f"lease_seconds is {lease_seconds}; it must be above 0, a day at most")
        self._store: BudgetStore = MemoryBudgetStore() if store is None else store
        self._lease_seconds = float(lease_seconds)
        self._outputs = Outputs()
        self._prices = prices
        self._refuses_unpriced = refuses_unpriced
        self._refuses_unreachable = refuses_unreachable
        self._breaker = Breaker("budgets")
        self._counts: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[Outcome | None]] = set()

    def __repr__(self) -> str:
        return f"<Budgets {', '.join(it.name for it in self._budgets)}>"

    def stats(self) -> dict[str, int]:
        """Numbers of calls by their outcome: `granted`, `refused`, `settled`, and so on."""
        return dict(self._counts)

    def reserve(
        self,
        estimate: Estimate,
        keys: Mapping[str, str | None] | None = None,
        *,
        output_tokens: int | None = None,
        provider: str | None = None,
    ) -> Reservation:
        """Reserve what a call may take: the `high` of its estimate, and its output.

        `keys` say whose call it is, by the names that budgets are kept by; `model` is the
        estimate's unless you give it. A key that is missing is one value more. `output_tokens` is
        what you reserve for the output in place of what is learned. Never raises for a failure of
        the store. An asynchronous store needs `areserve`.
        """
        reservation, step = self._begun(estimate, keys, output_tokens, provider)
        return reservation if step is None else self._judged(reservation, self._applied(step))

    async def areserve(
        self,
        estimate: Estimate,
        keys: Mapping[str, str | None] | None = None,
        *,
        output_tokens: int | None = None,
        provider: str | None = None,
    ) -> Reservation:
        """As `reserve`, without holding the loop."""
        reservation, step = self._begun(estimate, keys, output_tokens, provider)
        return (
            reservation if step is None else self._judged(reservation, await self._aapplied(step))
        )

    def close(self, reservation: Reservation, usage: Usage | None, kind: Closing) -> None:
        """Does what `Reservation.settle`, `keep` and `release` ask for."""
        step = self._closed(reservation, usage, kind)
        if step is None:
            return
        if not self._store.is_async:
            self._applied(step)
            return
        try:
            task = asyncio.get_running_loop().create_task(self._aapplied(step))
        except RuntimeError:  # no loop runs, so the lease has to end
            self._counts["failed_settle"] += 1
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self, reservation: Reservation, usage: Usage | None, kind: Closing) -> None:
        """As `close`, without holding the loop."""
        if (step := self._closed(reservation, usage, kind)) is not None:
            await self._aapplied(step)

    # ------------------------------------------------------------------------ inside

    def _begun(
        self,
        estimate: Estimate,
        keys: Mapping[str, str | None] | None,
        output_tokens: int | None,
        provider: str | None,
    ) -> tuple[Reservation, Step | None]:
        named = {"model": estimate.model, **(keys or {})}
        tenant = named.get("tenant") or ""
        if output_tokens is None:
            output_tokens = self._outputs.expected(tenant, estimate)
        tokens = estimate.high + output_tokens
        money = self._money(estimate, output_tokens, provider)
        amounts = {False: tokens, True: None if money is None else _nano(money)}
        if money is None and any(it.is_money for it in self._budgets):
            self._counts["unpriced"] += 1
            if self._refuses_unpriced:
                amounts[True] = 2**53
        claims = [
            (it, Claim(_key(it, named), it.limit, it.seconds, amount))
            for it in self._budgets
            if (amount := amounts[it.is_money]) is not None
        ]
        reservation = Reservation(
            self,
            os.urandom(12).hex(),
            "granted" if claims else "unlimited",
            tenant=tenant,
            estimate=estimate,
            provider=provider,
            tokens=tokens,
            money=money,
            output_tokens=output_tokens,
            budgets=[it for it, _ in claims],
            claims=[claim for _, claim in claims],
            state="open" if claims else "closed",
        )
        if not claims:
            self._counts["unlimited"] += 1
            return reservation, None
        return reservation, Step(
            "reserve", reservation.name, reservation.claims, self._lease_seconds
        )

    def _judged(self, reservation: Reservation, outcome: Outcome | None) -> Reservation:
        dialect = reservation.estimate.dialect
        if outcome is None:
            self._counts["unreachable"] += 1
            reservation.state = "closed"
            reservation.label = "refused" if self._refuses_unreachable else "unlimited"
            if self._refuses_unreachable:
                reservation.refusal = _unreachable(reservation)
            return reservation
        headers = limit_headers(reservation.budgets, outcome.balances, dialect)
        reservation.headers = headers
        reservation.claims = [
            claim._replace(window=balance.window)
            for claim, balance in zip(reservation.claims, outcome.balances, strict=True)
        ]
        if outcome.refused is None:
            self._counts["granted"] += 1
            return reservation
        self._counts["refused"] += 1
        reservation.label, reservation.state = "refused", "closed"
        budget, claim = reservation.budgets[outcome.refused], reservation.claims[outcome.refused]
        balance = outcome.balances[outcome.refused]
        reservation.refusal = refusal_of(budget, claim.amount, balance, dialect, headers)
        return reservation

    def _closed(self, reservation: Reservation, usage: Usage | None, kind: Closing) -> Step | None:
        """The step that books what a call has used; None if there is nothing to book."""
        if usage is not None:
            self._learn(reservation, usage)
        state = reservation.state
        if state == "closed" or (state == "released" and usage is None):
            return None
        name = reservation.name if state == "open" else f"{reservation.name}+"
        reservation.state = "released" if kind == "released" else "closed"
        self._counts[kind] += 1
        claims = [
            claim if kind == "kept" else claim._replace(amount=amount)
            for claim, amount in zip(
                reservation.claims, self._used(reservation, usage), strict=True
            )
        ]
        return Step("settle", name, claims, self._lease_seconds)

    def _used(self, reservation: Reservation, usage: Usage | None) -> list[int]:
        """The share of a bill in each budget; empty without one."""
        if usage is None:
            return [0] * len(reservation.claims)
        cost = self._cost(usage, reservation)
        if cost is None and reservation.money is not None:
            self._counts["unpriced_bills"] += 1
            cost = reservation.money
        money = 0 if cost is None else _nano(cost)
        return [money if it.is_money else usage.total_tokens for it in reservation.budgets]

    def _learn(self, reservation: Reservation, usage: Usage) -> None:
        self._outputs.add(reservation.tenant, reservation.estimate.model, usage.output_tokens)

    def _money(self, estimate: Estimate, output: int, provider: str | None) -> Decimal | None:
        if not estimate.model or not any(it.is_money for it in self._budgets):
            return None
        prices = self._prices or default_prices()
        cost = prices.cost(estimate, output_tokens=output, provider=provider)
        return None if cost is None else cost.high

    def _cost(self, usage: Usage, reservation: Reservation) -> Decimal | None:
        if not any(it.is_money for it in reservation.budgets):
            return None
        prices = self._prices or default_prices()
        model = reservation.estimate.model
        cost = prices.cost(usage, model=model, provider=reservation.provider)
        return None if cost is None else cost.total

    def _applied(self, step: Step) -> Outcome | None:
        """The outcome of a step; None if the store has failed, or is left alone for a while."""
        if self._store.is_async:
            raise TypeError("the store is asynchronous: use areserve, asettle and arelease")
        if not self._is_tried():
            return None
        try:
            outcome = cast("Outcome", self._store.apply(step))
        except Exception as error:
            self._failed(step, error)
            return None
        self._breaker.succeeded()
        return outcome

    async def _aapplied(self, step: Step) -> Outcome | None:
        if not self._is_tried():
            return None
        try:
            if isinstance(self._store, MemoryBudgetStore):
                return self._store.apply(step)
            if not self._store.is_async:
                loop = asyncio.get_running_loop()
                call = functools.partial(self._store.apply, step)
                outcome: Any = await loop.run_in_executor(None, call)
            else:
                outcome = self._store.apply(step)
                outcome = await outcome if inspect.isawaitable(outcome) else outcome
        except Exception as error:
            self._failed(step, error)
            return None
        self._breaker.succeeded()
        return cast("Outcome", outcome)

    def _is_tried(self) -> bool:
        return not self._breaker.is_open or self._breaker.claim_probe()

    def _failed(self, step: Step, error: Exception) -> None:
        self._counts[f"failed_{step.kind}"] += 1
        self._breaker.failed(type(error).__name__)


def _key(budget: Budget, keys: Mapping[str, str | None]) -> str:
    """Where a budget is kept for these keys: nothing of what they say can be read from it."""
    values = "\0".join(f"{len(it)}:{it}" for it in (str(keys.get(key) or "") for key in budget.by))
    digest = hashlib.blake2b(values.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f":{budget.name}:{budget.per or 'all'}:{digest}"


def _nano(money: Decimal) -> int:
    return int((money * NANO).to_integral_value(rounding=ROUND_CEILING))


def _unreachable(reservation: Reservation) -> Any:
    from tokenctx.money.budgets.store import Balance

    budget, claim = reservation.budgets[0], reservation.claims[0]
    balance = Balance(budget.limit, -1, 1.0)
    return refusal_of(budget, claim.amount, balance, reservation.estimate.dialect, {})
