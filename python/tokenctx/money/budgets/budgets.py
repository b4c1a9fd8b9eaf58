"""All budgets of a gateway: what a call falls under, what it takes, what comes back."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tokenctx._results.estimates import MAX_TOKENS
from tokenctx._results.front import advised
from tokenctx.money.budgets.balance import Alarms, balance_of
from tokenctx.money.budgets.budget import NANO, Budget
from tokenctx.money.budgets.file import read_budgets
from tokenctx.money.budgets.line import Line
from tokenctx.money.budgets.memory import MemoryBudgetStore
from tokenctx.money.budgets.outputs import Outputs
from tokenctx.money.budgets.refusal import refusal_of, unknown_refusal
from tokenctx.money.budgets.reservation import Reservation
from tokenctx.money.budgets.store import LEASE_SECONDS, Balance, Claim, Outcome, Step
from tokenctx.money.budgets.uncounted import Uncounted
from tokenctx.money.prices import default_prices, plain_model
from tokenctx.usage.normal import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tokenctx._results.cost import Cost
    from tokenctx._results.estimates import Estimate
    from tokenctx.money.budgets.balance import BudgetAlarm, BudgetBalance
    from tokenctx.money.budgets.budget import Amount, Unit
    from tokenctx.money.budgets.refusal import BudgetRefusal
    from tokenctx.money.budgets.reservation import Ended
    from tokenctx.money.budgets.store import BudgetStore, StepKind
    from tokenctx.money.prices import Prices


COUNTED: Final = ("tokens", "money")
"""What a call takes more or less of; of requests and calls at once it is one."""
REMEMBERED: Final = 4096
"""Digests of keys and names of models that are not made again, if they are no longer than:"""
REMEMBERED_LENGTH: Final = 256

EXAMPLE: Final = 'Budgets([Budget("a day", tokens=1_000_000, per="day", by=("tenant",))])'


class Budgets:
    """Budgets of tokens, money, requests and calls at once, around one store.

    A call falls under all of `budgets`; it is reserved in all of them or in none. `store` is where
    they are kept: in this process (`MemoryBudgetStore()`, the default) or in Redis or Valkey
    (`RedisBudgetStore(client)`). `lease_seconds` is how long a reservation is open
    that nobody settles, longer than the longest answer; then it is booked as it is. The output
    that is reserved is the quantile 0.9 of learned outputs, and 1,024 tokens where neither request,
    model nor experience says it.
    `prices` are those of `Prices()` unless you have others. `refuses_unpriced` refuses calls under
    a budget of money whose price is unknown, in place of letting them go for nothing;
    `refuses_unreachable` those that cannot be reserved since the store has failed;
    `refuses_uncounted` those without an estimate, in place of reserving a bound of their length.
    A step waits for the store for `deadline_ms`, 100 at most, whatever the client's own timeouts
    are. Bills that a store does not take are kept, 10,000 of them, and tried again until it does.
    `observe_only` refuses nothing: all is counted and booked, and what would have been refused is
    counted as `would_refuse`. `on_alarm` is called in a thread of its own when a call takes a
    budget to one of the shares `alarms` of its limit, once in each window, process and key.

    One serves all threads and loops of a process. Raises TypeError or ValueError for settings that
    cannot be meant.
    """

    @advised(EXAMPLE)
    def __init__(
        self,
        budgets: Iterable[Budget],
        *,
        store: BudgetStore | None = None,
        lease_seconds: float = LEASE_SECONDS,
        prices: Prices | None = None,
        refuses_unpriced: bool = False,
        refuses_unreachable: bool = False,
        refuses_uncounted: bool = False,
        deadline_ms: float = 20.0,
        observe_only: bool = False,
        on_alarm: Callable[[BudgetAlarm], object] | None = None,
        alarms: Iterable[float] = (0.8, 1.0),
    ) -> None:
        self._budgets = tuple(budgets)
        if not all(isinstance(it, Budget) for it in self._budgets):
            raise TypeError(f"budgets must be Budget objects: {EXAMPLE}")
        if len({it.name for it in self._budgets}) != len(self._budgets):
            raise ValueError("two budgets have the same name; each needs one of its own")
        if not 0 < lease_seconds <= 86_400:
            raise ValueError(f"lease_seconds is {lease_seconds}; it must be above 0, a day at most")
        self._of_money = [it for it in self._budgets if it.is_money]
        self._is_counted = any(it.unit in COUNTED for it in self._budgets)
        self._store: BudgetStore = MemoryBudgetStore() if store is None else store
        self._lease_seconds = float(lease_seconds)
        self._outputs = Outputs()
        self._prices = prices
        self._refuses_unpriced = refuses_unpriced
        self._refuses_unreachable = refuses_unreachable
        self._refuses_uncounted = refuses_uncounted
        self._counts: Counter[str] = Counter()
        self._observe_only = observe_only
        self._alarms = Alarms(alarms, on_alarm, self._counts)
        gives_back = refuses_unreachable and not observe_only
        self._line = Line(self._store, deadline_ms, self._counts, gives_back=gives_back)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        store: BudgetStore | None = None,
        prices: Prices | None = None,
        on_alarm: Callable[[BudgetAlarm], object] | None = None,
    ) -> Budgets:
        """The budgets of a file, JSON or TOML: `budgets`, each as `Budget` takes it, and settings.

        Raises OSError for a file that cannot be read; ValueError for one that is not right, which
        names the line or the key, what is there, and what there may be.
        """
        settings = read_budgets(path)
        try:
            return cls(**settings, store=store, prices=prices, on_alarm=on_alarm)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{Path(path).name}: {error}") from None

    def __repr__(self) -> str:
        return f"<Budgets {', '.join(it.name for it in self._budgets)}>"

    def stats(self) -> dict[str, int]:
        """Numbers of calls by their outcome: `granted`, `refused`, `settled`, and so on.

        `waiting_settle` are bills that the store has not taken yet, `failed_settle` those that are
        lost since too many waited, or the process ended.
        """
        waiting = self._line.waiting
        return dict(self._counts) | ({"waiting_settle": waiting} if waiting else {})

    @property
    def is_reachable(self) -> bool:
        """True unless the store has failed so often that it is left alone for now."""
        return not self._line.is_open

    def flush(self, seconds: float = 1.0) -> bool:
        """True if the store has taken all bills within `seconds`. It is done at exit, too."""
        return self._line.flush(seconds)

    async def aflush(self, seconds: float = 1.0) -> bool:
        """As `flush`, for any store: an asynchronous one cannot be flushed at exit."""
        return await self._line.aflush(seconds)

    def reserve(
        self,
        estimate: Estimate | Uncounted,
        keys: Mapping[str, str | None] | None = None,
        *,
        output_tokens: int | None = None,
        provider: str | None = None,
        choices: int = 1,
    ) -> Reservation:
        """Reserve what a call may take: the `high` of its estimate, and its output.

        What nobody could count is an `Uncounted`, which is refused where no bound of it is known.

        `keys` say whose call it is, by the names that budgets are kept by; `model` is the
        estimate's unless you give it, and all spellings of one are one. A key that is missing is
        one value more. `output_tokens` is what you reserve for the output in place of what is
        learned. `choices` is how many answers the request asks for. Never raises for a failure of
        the store. An asynchronous store needs `areserve`.
        """
        reservation, step = self._begun(estimate, keys, output_tokens, provider, choices)
        return reservation if step is None else self._judged(reservation, self._line.reserve(step))

    async def areserve(
        self,
        estimate: Estimate | Uncounted,
        keys: Mapping[str, str | None] | None = None,
        *,
        output_tokens: int | None = None,
        provider: str | None = None,
        choices: int = 1,
    ) -> Reservation:
        """As `reserve`, without holding the loop."""
        reservation, step = self._begun(estimate, keys, output_tokens, provider, choices)
        if step is None:
            return reservation
        return self._judged(reservation, await self._line.areserve(step))

    def close(self, reservation: Reservation, ended: Ended) -> None:
        """Does what `Reservation.settle`, `keep` and `release` ask for."""
        if (step := self._closed(reservation, ended)) is not None:
            outcome = self._line.settle(step)
            if outcome is not None and ended.kind != "released":
                self._look(reservation, outcome)

    async def aclose(self, reservation: Reservation, ended: Ended) -> None:
        """As `close`, without holding the loop."""
        if (step := self._closed(reservation, ended)) is not None:
            outcome = await self._line.asettle(step)
            if outcome is not None and ended.kind != "released":
                self._look(reservation, outcome)

    def grow(self, reservation: Reservation, output_tokens: int) -> None:
        """Does what `Reservation.grow` asks for."""
        if (step := self._grown(reservation, output_tokens)) is not None:
            self._line.reserve(step)

    async def agrow(self, reservation: Reservation, output_tokens: int) -> None:
        """As `grow`, without holding the loop."""
        if (step := self._grown(reservation, output_tokens)) is not None:
            await self._line.areserve(step)

    # ------------------------------------------------------------------------ the operator

    def balance(self, name: str, keys: Mapping[str, str | None] | None = None) -> BudgetBalance:
        """What is taken and left of a budget for these keys.

        As `reset` and `set_limit`: raises KeyError for a budget that is none of these, and
        ConnectionError if the store does not answer in time.
        """
        return self._operate("look", name, keys)

    def reset(self, name: str, keys: Mapping[str, str | None] | None = None) -> BudgetBalance:
        """Forget what was taken of a budget. Calls that are under way are booked when they end."""
        return self._operate("reset", name, keys)

    def set_limit(
        self, name: str, limit: Amount | None, keys: Mapping[str, str | None] | None = None
    ) -> BudgetBalance:
        """Put another limit in the place of a budget's for these keys, from the next call on.

        It holds in all processes that share the store, until it is set to None. Raises TypeError
        or ValueError for what is no limit of this budget.
        """
        return self._operate("limit", name, keys, limit)

    async def abalance(
        self, name: str, keys: Mapping[str, str | None] | None = None
    ) -> BudgetBalance:
        """As `balance`, without holding the loop."""
        return await self._aoperate("look", name, keys)

    async def areset(
        self, name: str, keys: Mapping[str, str | None] | None = None
    ) -> BudgetBalance:
        """As `reset`, without holding the loop."""
        return await self._aoperate("reset", name, keys)

    async def aset_limit(
        self, name: str, limit: Amount | None, keys: Mapping[str, str | None] | None = None
    ) -> BudgetBalance:
        """As `set_limit`, without holding the loop."""
        return await self._aoperate("limit", name, keys, limit)

    # ------------------------------------------------------------------------ inside

    def _operate(
        self,
        kind: StepKind,
        name: str,
        keys: Mapping[str, str | None] | None,
        limit: Amount | None = None,
    ) -> BudgetBalance:
        budget, step = self._operation(kind, name, keys, limit)
        return self._told(budget, step, self._line.reserve(step))

    async def _aoperate(
        self,
        kind: StepKind,
        name: str,
        keys: Mapping[str, str | None] | None,
        limit: Amount | None = None,
    ) -> BudgetBalance:
        budget, step = self._operation(kind, name, keys, limit)
        return self._told(budget, step, await self._line.areserve(step))

    def _operation(
        self,
        kind: StepKind,
        name: str,
        keys: Mapping[str, str | None] | None,
        limit: Amount | None,
    ) -> tuple[Budget, Step]:
        budget = next((it for it in self._budgets if it.name == name), None)
        if budget is None:
            known = ", ".join(it.name for it in self._budgets)
            raise KeyError(f"no budget is named {name!r}; there are {known}")
        named = _named(dict(keys or {}))
        amount = 0
        if kind == "limit":
            amount = -1 if limit is None else budget.checked(limit)
        claim = _claim(budget, named, amount)
        return budget, Step(kind, "operator", [claim], self._lease_seconds)

    def _told(self, budget: Budget, step: Step, outcome: Outcome | None) -> BudgetBalance:
        if outcome is None:
            raise ConnectionError(
                "the store of budgets has failed or did not answer in time; is_reachable tells "
                "when it can be asked again"
            )
        if step.kind != "look":
            self._alarms.forget(step.claims)
        return balance_of(budget, outcome.balances[0])

    def _begun(
        self,
        estimate: Estimate | Uncounted,
        keys: Mapping[str, str | None] | None,
        output_tokens: int | None,
        provider: str | None,
        choices: int,
    ) -> tuple[Reservation, Step | None]:
        named = _named({"model": estimate.model, **(keys or {})})
        tenant = named.get("tenant") or ""
        if output_tokens is None:
            output_tokens = self._outputs.expected(tenant, estimate, choices)
        tokens = (estimate.high or 0) + output_tokens
        money, known = self._money(estimate, output_tokens, provider)
        amounts: dict[Unit, int] = {
            "tokens": tokens,
            "money": _nano(known),
            "requests": 1,
            "concurrency": 1,
        }
        refusal: BudgetRefusal | None = None
        if self._is_counted and isinstance(estimate, Uncounted):
            refusal = self._uncounted(estimate, money)
        if money is None and self._of_money:
            self._counts["unpriced"] += 1
            if self._refuses_unpriced and refusal is None:
                why = "no price is known of this model, and refuses_unpriced is set"
                refusal = unknown_refusal(self._of_money[0], why, estimate.dialect, {})
        observed = refusal if self._observe_only else None
        if observed is not None:
            self._counts["would_refuse"] += 1
            refusal = None
        claims = [
            (it, _claim(it, named, amounts[it.unit])) for it in self._budgets if refusal is None
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
            keys=named if self._alarms.is_on else {},
            would_refuse=observed,
        )
        if refusal is not None:
            self._counts["refused"] += 1
            reservation.label, reservation.refusal = "refused", refusal
            return reservation, None
        if not claims:
            self._counts["unlimited"] += 1
            return reservation, None
        kind: StepKind = "hold" if self._observe_only else "reserve"
        return reservation, Step(kind, reservation.name, reservation.claims, self._lease_seconds)

    def _judged(self, reservation: Reservation, outcome: Outcome | None) -> Reservation:
        dialect = reservation.estimate.dialect
        if outcome is None:
            self._counts["unreachable"] += 1
            reservation.label = "unlimited"
            if self._refuses_unreachable:
                self._refuse(reservation, _unreachable(reservation))
            return reservation  # open, so that its bill is booked once the store is back
        reservation.balances = outcome.balances
        reservation.claims = [
            Claim(it.key, it.limit, it.seconds, it.amount, balance.window, it.parts, it.returns)
            for it, balance in zip(reservation.claims, outcome.balances, strict=True)
        ]
        self._look(reservation, outcome)
        if self._observe_only:
            outcome = _observed(reservation, outcome)
        if outcome.refused is None:
            self._counts["granted"] += 1
            return reservation
        budget, claim = reservation.budgets[outcome.refused], reservation.claims[outcome.refused]
        balance = outcome.balances[outcome.refused]
        headers = reservation.headers
        self._refuse(reservation, refusal_of(budget, claim.amount, balance, dialect, headers))
        return reservation

    def _refuse(self, reservation: Reservation, refusal: BudgetRefusal) -> None:
        """Refuse a call; or say that it would be refused, and book it all the same."""
        if self._observe_only:
            reservation.would_refuse = reservation.would_refuse or refusal
            self._counts["would_refuse"] += 1
            return
        self._counts["refused"] += 1
        reservation.label, reservation.state, reservation.refusal = "refused", "closed", refusal

    def _look(self, reservation: Reservation, outcome: Outcome) -> None:
        if self._alarms.is_on:
            rows = zip(reservation.budgets, reservation.claims, outcome.balances, strict=True)
            self._alarms.look(rows, reservation.keys)

    def _uncounted(self, call: Uncounted, money: Decimal | None) -> BudgetRefusal | None:
        """The answer for a call without an estimate; None if a bound of it can be reserved."""
        self._counts["uncounted"] += 1
        unpriced = [it for it in self._budgets if it.is_money and money is None]
        if self._refuses_uncounted:
            why = "this request could not be counted, and refuses_uncounted is set"
        elif call.high is None:
            why = "this request could not be counted, and no bound of its tokens is known"
        elif unpriced:
            why = "this request could not be counted, and no price is known of its model"
        else:
            return None
        named = unpriced or [it for it in self._budgets if it.unit in COUNTED]
        return unknown_refusal(named[0], why, call.dialect, {})

    def _grown(self, reservation: Reservation, output_tokens: int) -> Step | None:
        """The step that holds more; None if that much is held, or nothing is."""
        more = output_tokens - reservation.output_tokens
        if more <= 0 or reservation.state != "open":
            return None
        reservation.output_tokens += more
        reservation.tokens += more
        _, known = self._money(reservation.estimate, output_tokens, reservation.provider)
        amounts = {"tokens": reservation.tokens, "money": _nano(known)}
        rows = zip(reservation.claims, reservation.budgets, strict=True)
        # The claims themselves stay: without a bill what was seen is booked, not what was feared.
        claims = [it._replace(amount=amounts.get(of.unit, it.amount)) for it, of in rows]
        self._counts["grown"] += 1
        return Step("hold", reservation.name, claims, self._lease_seconds)

    def _closed(self, reservation: Reservation, ended: Ended) -> Step | None:
        """The step that books what a call has used; None if there is nothing to book."""
        state = reservation.state
        if state == "closed" or (state == "released" and ended.kind == "released"):
            if ended.usage is not None:
                self._learn(reservation, ended.usage)
            return None
        try:
            used = self._used(reservation, ended)
        except Exception:  # a bill that is none, such as NaN: what was reserved is booked
            self._counts["failed_bill"] += 1
            ended = replace(ended, kind="kept", usage=None)
            used = [
                0 if it.unit == "concurrency" else claim.amount
                for it, claim in zip(reservation.budgets, reservation.claims, strict=True)
            ]
        name = reservation.name if state == "open" else f"{reservation.name}+"
        reservation.state = "released" if ended.kind == "released" else "closed"
        self._counts[ended.kind] += 1
        claims = [
            Claim(it.key, it.limit, it.seconds, amount, it.window, it.parts, it.returns)
            for it, amount in zip(reservation.claims, used, strict=True)
        ]
        return Step("settle", name, claims, self._lease_seconds)

    def _used(self, reservation: Reservation, ended: Ended) -> list[int]:
        """What is booked in each budget: the share of the bill, or what is more without one."""
        if ended.kind == "released":
            return _amounts(reservation, 0, 0)
        usage = ended.usage
        if usage is not None:
            self._learn(reservation, usage)
            return self._shares(reservation, usage, ended.model)
        seen = max(reservation.estimate.high or 0, ended.input_tokens)
        usage = Usage(uncached_input_tokens=seen, output_tokens=ended.output_tokens)
        self._learn(reservation, usage, is_billed=False)
        shares = self._shares(reservation, usage, ended.model)
        rows = zip(shares, reservation.claims, reservation.budgets, strict=True)
        return [
            max(share, claim.amount) if budget.unit in COUNTED else share
            for share, claim, budget in rows
        ]

    def _shares(self, reservation: Reservation, usage: Usage, model: str) -> list[int]:
        """What a bill takes of each budget."""
        cost = self._cost(usage, reservation, model)
        money = Decimal(0) if cost is None else cost.total
        if cost is None or money is None:
            if self._of_money:
                self._counts["unpriced_bills"] += 1
            least = cost.low if cost is not None and cost.low is not None else Decimal(0)
            money = max(reservation.money or Decimal(0), least)
        return _amounts(reservation, _whole(usage.total_tokens), max(0, _nano(money)))

    def _learn(self, reservation: Reservation, usage: Usage, *, is_billed: bool = True) -> None:
        tokens = _whole(usage.output_tokens)
        model = reservation.estimate.model
        self._outputs.add(reservation.tenant, model, tokens, is_billed=is_billed)

    def _money(
        self, estimate: Estimate | Uncounted, output: int, provider: str | None
    ) -> tuple[Decimal | None, Decimal]:
        """The most that a call may cost, None if nobody knows; and what is known of it."""
        if not estimate.model or not self._of_money:
            return None, Decimal(0)
        prices = self._prices or default_prices()
        if isinstance(estimate, Uncounted):
            tokens = Usage(uncached_input_tokens=estimate.high or 0, output_tokens=output)
            cost = prices.cost(tokens, model=estimate.model, provider=provider)
        else:
            cost = prices.cost(estimate, output_tokens=output, provider=provider)
        if cost is None:
            return None, Decimal(0)
        known = (it for it in (cost.high, cost.total, cost.low) if it is not None)
        return cost.high, next(known, Decimal(0))

    def _cost(self, usage: Usage, reservation: Reservation, answered: str) -> Cost | None:
        model = answered or reservation.estimate.model
        if not model or not self._of_money:
            return None
        prices = self._prices or default_prices()
        return prices.cost(usage, model=model, provider=reservation.provider)


@lru_cache(maxsize=REMEMBERED)
def _digest(values: str) -> str:
    return hashlib.blake2b(values.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@lru_cache(maxsize=REMEMBERED)
def _plain(model: str) -> str:
    return plain_model(model)


def _named(keys: dict[str, str | None]) -> dict[str, str | None]:
    """The keys of a call with one name for all spellings of its model."""
    model = keys.get("model") or ""
    keys["model"] = _plain(model) if len(model) <= REMEMBERED_LENGTH else plain_model(model)
    return keys


def _claim(budget: Budget, keys: Mapping[str, str | None], amount: int) -> Claim:
    limit = budget.limit_for(keys)
    returns = budget.unit == "concurrency"
    return Claim(_key(budget, keys), limit, budget.seconds, amount, -1, budget.parts, returns)


def _key(budget: Budget, keys: Mapping[str, str | None]) -> str:
    """Where a budget is kept for these keys: nothing of what they say can be read from it."""
    values = "\0".join(
        [f"{len(it)}:{it}" for it in [str(keys.get(key) or "") for key in budget.by]]
    )
    digest = (_digest if len(values) <= REMEMBERED_LENGTH else _digest.__wrapped__)(values)
    span = f"{budget.per or 'all'}{'~' if budget.is_rolling else ''}"
    return f":{budget.name}:{span}:{digest}"


def _amounts(reservation: Reservation, tokens: int, money: int) -> list[int]:
    """The amounts that are booked in each budget, of money billionths of a dollar.

    A request counts however it ends, and once whatever its attempts are. What is under way at once
    is given back.
    """
    requests = 1 if reservation.state == "open" else 0
    amounts = {"tokens": tokens, "money": money, "requests": requests, "concurrency": 0}
    return [amounts[it.unit] for it in reservation.budgets]


def _whole(tokens: object) -> int:
    """A number of tokens that can be booked. Raises TypeError for what is no number of them."""
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        raise TypeError(f"a number of tokens is of type {type(tokens).__name__}")
    return min(max(0, tokens), MAX_TOKENS)


def _nano(money: Decimal) -> int:
    return int((money * NANO).to_integral_value(rounding=ROUND_CEILING))


def _observed(reservation: Reservation, outcome: Outcome) -> Outcome:
    """The outcome as it would be if it had not been held whatever the limits are."""
    before = [
        balance._replace(taken=balance.taken - claim.amount)
        for claim, balance in zip(reservation.claims, outcome.balances, strict=True)
    ]
    full = (nth for nth, it in enumerate(outcome.balances) if it.taken > it.limit)
    return Outcome(next(full, None), before)


def _unreachable(reservation: Reservation) -> BudgetRefusal:
    budget, claim = reservation.budgets[0], reservation.claims[0]
    balance = Balance(claim.limit, -1, 1.0, claim.limit)
    return refusal_of(budget, claim.amount, balance, reservation.estimate.dialect, {})
