"""The life of a call that a framework makes: estimated, reserved, and ended once.

An adapter says what the call is, what has answered, or what has ended it. Whether that is a bill is
decided here alone, by the rules of the gateway; the estimator, the budgets and the metrics follow.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tokenctx import HybridTokenEstimator, normalize_usage
from tokenctx.gateway.answerer import is_another
from tokenctx.gateway.booking import Bill, Booking, is_served
from tokenctx.gateway.bounds import choices_of, text_tokens, uncounted, unseen_tokens
from tokenctx.gateway.journal import Journal
from tokenctx.integrations._provenance import told
from tokenctx.money.budgets.refusal import BudgetError
from tokenctx.money.budgets.uncounted import Uncounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tokenctx import Estimate
    from tokenctx.money.budgets import BudgetRefusal, Budgets
    from tokenctx.usage.normal import Usage

Json = dict[str, Any]

LOG: Final = logging.getLogger("tokenctx")


class Calls:
    """All calls of one adapter; `failures` are those of ours, logged once by class.

    `read` makes the arguments of `estimate` of what the framework gives, and may raise. With
    budgets a call that could not be read is refused, since nothing bounds what it takes.
    """

    def __init__(
        self,
        name: str,
        estimator: HybridTokenEstimator | None,
        on_estimate: Callable[[Estimate], None] | None = None,
        budgets: Budgets | None = None,
        *,
        always_estimates: bool = False,
    ) -> None:
        self.name = name
        self.estimator = HybridTokenEstimator() if estimator is None else estimator
        self.on_estimate = on_estimate
        self.budgets = budgets
        self.is_estimated = always_estimates or budgets is not None or on_estimate is not None
        self.journal = Journal(self.estimator.metrics)
        self.failures = 0

    def begin(
        self, read: Callable[[], Json], output_tokens: int | None = None, choices: int = 1
    ) -> Life:
        """The call, estimated and reserved; raises BudgetError if a budget has no room.

        `output_tokens` and `choices` are what the framework asks for beside the body.
        """
        life = self.life(read)
        try:
            if (asked := life.question) is not None:
                life.estimated(self.estimator.estimate(**asked))
        except Exception as error:  # nothing of ours fails a call
            self.failed(error)
        life.reserve(output_tokens, choices)
        return life

    async def abegin(
        self, read: Callable[[], Json], output_tokens: int | None = None, choices: int = 1
    ) -> Life:
        """As `begin`, without holding the loop."""
        life = self.life(read)
        try:
            if (asked := life.question) is not None:
                life.estimated(await self.estimator.aestimate(**asked))
        except Exception as error:
            self.failed(error)
        await life.areserve(output_tokens, choices)
        return life

    def life(self, read: Callable[[], Json]) -> Life:
        """The call, neither estimated nor reserved."""
        return Life(self, self._read(read))

    def failed(self, error: Exception) -> None:
        """Count a failure of ours."""
        self.failures += 1
        if self.estimator.metrics is not None:
            self.estimator.metrics.count_failure(self.name)
        if self.failures == 1:  # the class alone: what it says may hold text of a request
            LOG.warning("tokenctx's %s raised %s", self.name, type(error).__name__)

    def _read(self, read: Callable[[], Json]) -> Json | None:
        try:
            return read()
        except Exception as error:
            self.failed(error)
            return None


class Life:
    """One call; of `answered`, `aanswered` and `failed` the first that comes ends it."""

    def __init__(self, calls: Calls, call: Json | None) -> None:
        self._calls = calls
        self._call = call
        self._booking = Booking(
            calls.budgets, {"tenant": (call or {}).get("tenant")}, calls.journal
        )
        self._asked: int | None = None
        self._choices = 1
        self._has_ended = False
        self.estimate: Estimate | None = None

    @property
    def question(self) -> Json | None:
        """The arguments of the estimate; None if nobody wants one or the call was not read."""
        return self._call if self._calls.is_estimated else None

    def estimated(self, estimate: Estimate) -> None:
        """Take the estimate, and tell it."""
        self.estimate = estimate
        if self._calls.on_estimate is not None:
            self._calls.on_estimate(estimate)

    def reserve(self, output_tokens: int | None, choices: int) -> None:
        """Reserve it; raises BudgetError."""
        if self._calls.budgets is not None:
            taken, count = self._taken(output_tokens, choices)
            self._refuse(self._booking.reserve(taken, self._provider, count))

    async def areserve(self, output_tokens: int | None, choices: int) -> None:
        """As `reserve`, without holding the loop."""
        if self._calls.budgets is not None:
            taken, count = self._taken(output_tokens, choices)
            self._refuse(await self._booking.areserve(taken, self._provider, count))

    def answered(
        self,
        usage: object,
        model: object,
        *,
        reply: object = None,
        answerer: str | None = None,
        texts: Iterable[str] | None = None,
    ) -> None:
        """Record and book what came with an answer; `model` is the framework's object.

        `answerer` is the name of the model that has answered. Without a bill what was reserved is
        booked, or what was told or what `texts` count if that is more.
        """
        if self._ends():
            bill = self._untold(usage, texts)
            try:
                if self._call is not None:
                    record = self._record(usage, model, reply, answerer)
                    event = self._calls.estimator.record_event(**record)
                    bill = self._bill(event, bill, record, answerer)
            except Exception as error:
                self._calls.failed(error)
            self._booking.close(bill)

    async def aanswered(
        self,
        usage: object,
        model: object,
        *,
        reply: object = None,
        answerer: str | None = None,
        texts: Iterable[str] | None = None,
    ) -> None:
        """As `answered`, without holding the loop."""
        if self._ends():
            bill = self._untold(usage, texts)
            try:
                if self._call is not None:
                    record = self._record(usage, model, reply, answerer)
                    event = await self._calls.estimator.arecord_event(**record)
                    bill = self._bill(event, bill, record, answerer)
            except Exception as error:
                self._calls.failed(error)
            except BaseException:  # cancelled in between
                self._booking.close(bill)
                raise
            await self._booking.aclose(bill)

    def failed(
        self, error: BaseException | None, texts: Iterable[str] | None = None, events: int = 0
    ) -> None:
        """Give back what was reserved, unless the provider may have answered: then it is booked.

        `error` is what has ended the call; None if its reader left. `texts` and `events` are what
        had come of the answer; None if nobody could see.
        """
        if not self._ends():
            return
        if error is not None and not events and not is_served(error):
            self._booking.close(Bill(is_free=True))
            return
        self._booking.close(Bill(output_tokens=max(events, self._output(texts))))

    def _output(self, texts: Iterable[str] | None) -> int:
        """The output of an answer without a bill: a framework shows one of several choices."""
        try:
            if texts and (said := list(texts)):
                model = self.estimate.model if self.estimate is not None else ""
                return text_tokens(said, model) * self._choices
        except Exception as error:
            self._calls.failed(error)
        return unseen_tokens(self._asked)

    def _ends(self) -> bool:
        before, self._has_ended = self._has_ended, True
        return not before

    @property
    def _provider(self) -> str | None:
        return (self._call or {}).get("provider")

    def _taken(self, output_tokens: int | None, choices: int) -> tuple[Estimate | Uncounted, int]:
        """The most that the call takes of budgets, and how many answers it asks for."""
        call = self._call
        if call is None:
            return Uncounted(None), 1
        taken: Estimate | Uncounted
        count = choices
        try:
            count = max(choices, choices_of(call["body"]))
            given = call.get("model"), call.get("dialect")
            taken = self.estimate or uncounted(call["body"], None, *given)
        except Exception as error:
            self._calls.failed(error)
            taken = self.estimate or Uncounted(None)
        if output_tokens:
            taken = replace(taken, requested_output_tokens=output_tokens)
        asked = taken.requested_output_tokens
        self._asked, self._choices = asked * count if asked else None, count
        return taken, count

    def _refuse(self, refusal: BudgetRefusal | None) -> None:
        if refusal is not None:
            raise BudgetError(refusal)

    def _record(self, usage: object, model: object, reply: object, answerer: str | None) -> Json:
        """The arguments of `record`: a count of the framework's own is marked as such."""
        call: Json = self._call or {}
        own = told(usage, model, call, self._calls.estimator)
        names = call if reply is None else {**call, "reply": reply}
        if answerer and (asked := call.get("model")) and is_another(asked, answerer):
            names = {**names, "model": answerer, "provider": None}
        return {**names, "usage": usage if own is None else own}

    def _untold(self, usage: object, texts: Iterable[str] | None) -> Bill:
        """The least that is booked, where nobody has sent a bill."""
        output = self._output(texts)
        try:
            seen = normalize_usage(usage)
        except Exception as error:
            self._calls.failed(error)
            seen = None
        if seen is None:
            return Bill(output_tokens=output)
        return Bill(output_tokens=max(output, seen.output_tokens), input_tokens=seen.input_tokens)

    def _bill(self, event: Any, least: Bill, record: Json, answerer: str | None) -> Bill:
        """The bill of a recorded call; else `least`."""
        usage: Usage | None = event.usage if event else None
        if usage is None:
            return least
        model = record.get("model") or ""
        return Bill(usage, model=answerer or model if self._booking.is_unpriced else model)
