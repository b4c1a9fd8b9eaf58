"""The amounts that a call has reserved, until its bill comes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from tokenctx.money.budgets.refusal import limit_headers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from tokenctx._results.estimates import Estimate
    from tokenctx.money.budgets.budget import Budget
    from tokenctx.money.budgets.refusal import BudgetRefusal
    from tokenctx.money.budgets.store import Balance, Claim
    from tokenctx.money.budgets.uncounted import Uncounted
    from tokenctx.usage.normal import Usage

ReservationLabel = Literal["granted", "refused", "unlimited"]
Closing = Literal["settled", "kept", "released"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt has ended.

    Attributes:
        kind: With a bill; without one, though it was answered; or with nothing that is billed.
        usage: The bill.
        output_tokens: What was seen of the output, where there is no bill.
        input_tokens: What was told of the input, likewise.
        model: Who has answered; empty if that is the model that was asked for.
    """

    kind: Closing
    usage: Usage | None = None
    output_tokens: int = 0
    input_tokens: int = 0
    model: str = ""


class Settler(Protocol):
    """Who has made a reservation."""

    def close(self, reservation: Reservation, ended: Ended, /) -> None:
        """Settle it, keep it, or give it back."""
        ...

    async def aclose(self, reservation: Reservation, ended: Ended, /) -> None:
        """As `close`, without holding the loop."""
        ...

    def grow(self, reservation: Reservation, output_tokens: int, /) -> None:
        """Hold more."""
        ...

    async def agrow(self, reservation: Reservation, output_tokens: int, /) -> None:
        """As `grow`, without holding the loop."""
        ...


@dataclass(slots=True, eq=False)
class Reservation:
    """The most a call may take, reserved in all its budgets; settled once, by whoever is first.

    Attributes:
        label: `granted`; `refused`, and `refusal` says by what; `unlimited` if no budget applies or
            the store has failed: then nothing is reserved, and the statistics count it.
        tokens: Tokens that are reserved in each budget of tokens; `grow` adds to them.
        money: Dollars that are reserved in each budget of money; None if there is none, or
            if the price is unknown.
        output_tokens: The output in it.
        refusal: What to answer in place of the provider; None if the call should go on.
        balances: The budgets after it was reserved.
        keys: Whose call it is, where alarms want to know.
        would_refuse: What `observe_only` did not refuse.
    """

    owner: Settler
    name: str
    label: ReservationLabel
    tenant: str
    estimate: Estimate | Uncounted
    provider: str | None
    tokens: int
    money: Decimal | None
    output_tokens: int
    budgets: Sequence[Budget]
    claims: Sequence[Claim]
    state: Literal["open", "released", "closed"]
    refusal: BudgetRefusal | None = None
    balances: Sequence[Balance] = ()
    keys: Mapping[str, str | None] = field(default_factory=dict)
    would_refuse: BudgetRefusal | None = None

    def __repr__(self) -> str:
        return f"<Reservation {self.label}, {self.tokens} tokens>"

    @property
    def headers(self) -> dict[str, str]:
        """The vendor's rate-limit headers, of tokens and requests, with the least left of each."""
        if not self.balances:
            return {}
        return limit_headers(self.budgets, self.balances, self.estimate.dialect)

    def attempt(self) -> Reservation:
        """The reservation of the next attempt of the call: this one, until an attempt was booked.

        Of a later one nothing is reserved, and what it uses is booked beside what was.
        """
        if self.state != "closed" or not self.claims:
            return self
        return replace(self, name=f"{self.name}~", state="released")

    def grow(self, output_tokens: int) -> None:
        """Hold so much output, where a stream is longer than was thought; never less than now.

        The answer goes on whatever the limits are, and its lease begins anew; the next calls find
        less room. Never raises.
        """
        self.owner.grow(self, output_tokens)

    async def agrow(self, output_tokens: int) -> None:
        """As `grow`, without holding the loop."""
        await self.owner.agrow(self, output_tokens)

    def settle(self, usage: Usage, *, model: str = "") -> None:
        """Put the bill in the place of what was reserved. Never raises; the second does nothing.

        After `release` the bill is booked all the same: an attempt that failed was made again.
        `model` is who has answered, where that is another one than was asked.
        """
        self.owner.close(self, Ended("settled", usage, model=model))

    async def asettle(self, usage: Usage, *, model: str = "") -> None:
        """As `settle`, without holding the loop."""
        await self.owner.aclose(self, Ended("settled", usage, model=model))

    def keep(self, output_tokens: int = 0, input_tokens: int = 0) -> None:
        """Book what was reserved, where no bill will come of a call that was answered.

        If more was seen of its output, or told of its input, that is booked.
        """
        self.owner.close(self, Ended("kept", None, output_tokens, input_tokens))

    async def akeep(self, output_tokens: int = 0, input_tokens: int = 0) -> None:
        """As `keep`, without holding the loop."""
        await self.owner.aclose(self, Ended("kept", None, output_tokens, input_tokens))

    def release(self) -> None:
        """Give all of it back, after a failure. Never raises; after `settle` it does nothing."""
        self.owner.close(self, Ended("released"))

    async def arelease(self) -> None:
        """As `release`, without holding the loop."""
        await self.owner.aclose(self, Ended("released"))
