"""The amounts that a call has reserved, until its bill comes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from tokenctx._results.estimates import Estimate
    from tokenctx.money.budgets.budget import Budget
    from tokenctx.money.budgets.refusal import BudgetRefusal
    from tokenctx.money.budgets.store import Claim
    from tokenctx.usage.normal import Usage

ReservationLabel = Literal["granted", "refused", "unlimited"]
Closing = Literal["settled", "kept", "released"]


class Settler(Protocol):
    """Who has made a reservation."""

    def close(self, reservation: Reservation, usage: Usage | None, kind: Closing, /) -> None:
        """Settle it, keep it, or give it back."""
        ...

    async def aclose(self, reservation: Reservation, usage: Usage | None, kind: Closing, /) -> None:
        """As `close`, without holding the loop."""
        ...


@dataclass(slots=True, eq=False)
class Reservation:
    """The most a call may take, reserved in all its budgets; settled once, by whoever is first.

    Attributes:
        label: `granted`; `refused`, and `refusal` says by what; `unlimited` if no budget applies or
            the store has failed: then nothing is reserved, and the statistics count it.
        tokens: Tokens that are reserved in each budget of tokens.
        money: Dollars that are reserved in each budget of money; None if there is none, or
            if the price is unknown.
        output_tokens: The output in it.
        refusal: What to answer in place of the provider; None if the call should go on.
        headers: The vendor's rate-limit headers, of the budget of tokens that has the least left.
    """

    owner: Settler
    name: str
    label: ReservationLabel
    tenant: str
    estimate: Estimate
    provider: str | None
    tokens: int
    money: Decimal | None
    output_tokens: int
    budgets: Sequence[Budget]
    claims: Sequence[Claim]
    state: Literal["open", "released", "closed"]
    refusal: BudgetRefusal | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Reservation {self.label}, {self.tokens} tokens>"

    def settle(self, usage: Usage) -> None:
        """Put the bill in the place of what was reserved. Never raises; the second does nothing.

        After `release` the bill is booked all the same: an attempt that failed was made again.
        """
        self.owner.close(self, usage, "settled")

    async def asettle(self, usage: Usage) -> None:
        """As `settle`, without holding the loop."""
        await self.owner.aclose(self, usage, "settled")

    def keep(self) -> None:
        """Book what was reserved, where no bill will come of a call that was answered."""
        self.owner.close(self, None, "kept")

    async def akeep(self) -> None:
        """As `keep`, without holding the loop."""
        await self.owner.aclose(self, None, "kept")

    def release(self) -> None:
        """Give all of it back, after a failure. Never raises; after `settle` it does nothing."""
        self.owner.close(self, None, "released")

    async def arelease(self) -> None:
        """As `release`, without holding the loop."""
        await self.owner.aclose(self, None, "released")
