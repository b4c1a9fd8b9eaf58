"""The booking of one call in the budgets of a gateway, from its estimate to its bill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tokenctx._results.estimates import Estimate
    from tokenctx.gateway.journal import Journal
    from tokenctx.money.budgets import BudgetRefusal, Budgets, Reservation, Uncounted
    from tokenctx.usage.normal import Usage

NEVER_SENT: Final = frozenset(
    {
        "ConnectError",
        "ConnectTimeout",
        "PoolTimeout",
        "ProxyError",
        "LocalProtocolError",
        "UnsupportedProtocol",
        "InvalidURL",
        "ConnectionRefusedError",
        "gaierror",
        "ClientConnectorError",
        "ConnectTimeoutError",
        "NewConnectionError",
    }
)
"""Classes of what ends a request before its provider has seen it, in the clients of HTTP. After any
other error, such as one of the application, the provider may have answered, and will bill."""
MAX_WRAPPED: Final = 16
LATE_STATUSES: Final = frozenset({408, 499, 504, 524})
"""Of somebody between us and the provider who did not wait for its answer."""


@dataclass(frozen=True, slots=True)
class Bill:
    """What is known of the use of one answer.

    Attributes:
        usage: What the provider billed; None without a bill that is believed.
        is_free: Nothing was answered.
        output_tokens: What was passed on of its output, counted.
        input_tokens: What was told of its input.
        model: Who has answered; empty for the model that was asked for.
    """

    usage: Usage | None = None
    is_free: bool = False
    output_tokens: int = 0
    input_tokens: int = 0
    model: str = ""


def may_be_served(error: BaseException, *, with_context: bool = False) -> bool:
    """True if a request that ended by `error` may have been answered all the same."""
    behind = errors_behind(error, with_context=with_context)
    return not any(base.__name__ in NEVER_SENT for one in behind for base in type(one).__mro__)


def is_served(error: BaseException) -> bool:
    """As `may_be_served`, of an error that may tell the status of an answer: a failure is free."""
    for one in errors_behind(error):
        status = status_of(one)
        if status >= 400:
            return status in LATE_STATUSES
    return may_be_served(error)


def status_of(error: object) -> int:
    """The status of HTTP that an SDK's error has; 0 if it has none."""
    of_answer = getattr(getattr(error, "response", None), "status_code", None)
    status = getattr(error, "status_code", None) or of_answer
    return status if isinstance(status, int) else 0


def errors_behind(error: BaseException, *, with_context: bool = False) -> Iterator[BaseException]:
    """An error and those that it was made of: an SDK wraps what its client of HTTP has raised.

    With their context, those that were looked after when it was raised, of another attempt maybe.
    """
    seen: BaseException | None = error
    for _ in range(MAX_WRAPPED):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__ or (seen.__context__ if with_context else None)


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

    def reserve(
        self, call: Estimate | Uncounted, provider: str | None, choices: int
    ) -> BudgetRefusal | None:
        """The answer that refuses the call, if a budget has no room."""
        if self._budgets is None:
            return None
        try:
            return self._kept(
                self._budgets.reserve(call, self._keys, provider=provider, choices=choices)
            )
        except Exception as error:
            self._journal.failed("reserve", error)
            return None

    async def areserve(
        self, call: Estimate | Uncounted, provider: str | None, choices: int
    ) -> BudgetRefusal | None:
        """As `reserve`, without holding the loop."""
        if self._budgets is None:
            return None
        try:
            return self._kept(
                await self._budgets.areserve(call, self._keys, provider=provider, choices=choices)
            )
        except Exception as error:
            self._journal.failed("reserve", error)
            return None

    @property
    def is_open(self) -> bool:
        """True if something will be booked of this call."""
        return self.reservation is not None and bool(self.reservation.claims)

    @property
    def is_unpriced(self) -> bool:
        """True if no price is known of the model that was asked for."""
        return self.reservation is not None and self.reservation.money is None

    @property
    def output_tokens(self) -> int | None:
        """The output that is reserved; None without a reservation."""
        return self.reservation.output_tokens if self.reservation and self.is_open else None

    def grow(self, output_tokens: int) -> None:
        """Hold so much output of a stream that is longer than was thought."""
        if self.reservation is not None:
            try:
                self.reservation.grow(output_tokens)
            except Exception as error:
                self._journal.failed("reserve", error)

    async def agrow(self, output_tokens: int) -> None:
        """As `grow`, without holding the loop."""
        if self.reservation is not None:
            try:
                await self.reservation.agrow(output_tokens)
            except Exception as error:
                self._journal.failed("reserve", error)

    def attempt(self) -> None:
        """Another answer begins: what it uses is booked beside what the one before has used."""
        if self.reservation is not None:
            self.reservation = self.reservation.attempt()

    def close(self, bill: Bill) -> None:
        """Settle by the bill; without one give back what was not answered, and book the rest."""
        if self.reservation is None:
            return
        try:
            if bill.usage is not None:
                self.reservation.settle(bill.usage, model=bill.model)
            elif bill.is_free:
                self.reservation.release()
            else:
                self.reservation.keep(bill.output_tokens, bill.input_tokens)
        except Exception as error:
            self._journal.failed("settle", error)

    async def aclose(self, bill: Bill) -> None:
        """As `close`, without holding the loop."""
        if self.reservation is None:
            return
        try:
            if bill.usage is not None:
                await self.reservation.asettle(bill.usage, model=bill.model)
            elif bill.is_free:
                await self.reservation.arelease()
            else:
                await self.reservation.akeep(bill.output_tokens, bill.input_tokens)
        except Exception as error:
            self._journal.failed("settle", error)

    def _kept(self, reservation: Reservation) -> BudgetRefusal | None:
        self.reservation = reservation
        if reservation.would_refuse is not None:
            self._journal.budgeted("would_refuse", reservation.would_refuse.budget)
        else:
            refusal = reservation.refusal
            self._journal.budgeted(reservation.label, refusal.budget if refusal else "")
        return reservation.refusal
