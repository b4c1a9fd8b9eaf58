"""The booking of one call in the budgets of a gateway, from its estimate to its bill."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenctx._results.estimates import Estimate
    from tokenctx.gateway.journal import Journal
    from tokenctx.money.budgets import BudgetRefusal, Budgets, Reservation
    from tokenctx.usage.normal import Usage

NOT_ANSWERED = "upstream_error"
"""Nothing was billed; of any other answer without a bill what was reserved is booked."""


class Booking:
    """Reserved once, settled once. Nothing of it raises: a failure is counted, the call goes on."""

    def __init__(
        self, budgets: Budgets | None, keys: Mapping[str, str | None], journal: Journal
    ) -> None:
        self._budgets = budgets
        self._keys = keys
        self._journal = journal
        self.reservation: Reservation | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The vendor's rate-limit headers; none without budgets."""
        return {} if self.reservation is None else self.reservation.headers

    def reserve(self, estimate: Estimate, provider: str | None) -> BudgetRefusal | None:
        """The answer that refuses the call, if a budget has no room."""
        if self._budgets is None:
            return None
        try:
            return self._kept(self._budgets.reserve(estimate, self._keys, provider=provider))
        except Exception as error:
            self._journal.failed("reserve", error)
            return None

    async def areserve(self, estimate: Estimate, provider: str | None) -> BudgetRefusal | None:
        """As `reserve`, without holding the loop."""
        if self._budgets is None:
            return None
        try:
            found = await self._budgets.areserve(estimate, self._keys, provider=provider)
            return self._kept(found)
        except Exception as error:
            self._journal.failed("reserve", error)
            return None

    def close(self, usage: Usage | None, reason: str | None) -> None:
        """Settle by the bill; without one give back what was not answered, and book the rest."""
        if self.reservation is None:
            return
        try:
            if usage is not None:
                self.reservation.settle(usage)
            elif reason == NOT_ANSWERED:
                self.reservation.release()
            else:
                self.reservation.keep()
        except Exception as error:
            self._journal.failed("settle", error)

    async def aclose(self, usage: Usage | None, reason: str | None) -> None:
        """As `close`, without holding the loop."""
        if self.reservation is None:
            return
        try:
            if usage is not None:
                await self.reservation.asettle(usage)
            elif reason == NOT_ANSWERED:
                await self.reservation.arelease()
            else:
                await self.reservation.akeep()
        except Exception as error:
            self._journal.failed("settle", error)

    def _kept(self, reservation: Reservation) -> BudgetRefusal | None:
        self.reservation = reservation
        if reservation.refusal is not None:
            self._journal.count(f"budget_refused_{reservation.refusal.budget}")
        return reservation.refusal
