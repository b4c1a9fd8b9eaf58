"""The steps of a store of budgets, each for all budgets of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

LEASE_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 120.0
"""For so long a second settle is known to be one."""


class Claim(NamedTuple):
    """The amount that a call takes of one budget.

    Attributes:
        key: The budget and whose it is.
        limit: What there is of it.
        seconds: Length of its window; 0 if it has none.
        amount: What is reserved, or what was used in the end.
        window: The window that it was reserved in; -1 before, and where nobody knows: what was
            used is booked in the present one.
    """

    key: str
    limit: int
    seconds: int
    amount: int
    window: int = -1


class Step(NamedTuple):
    """One step: `reserve` takes the amounts in all budgets or in none, `settle` replaces them."""

    kind: Literal["reserve", "settle"]
    id: str
    claims: Sequence[Claim]
    lease_seconds: float


class Balance(NamedTuple):
    """A budget after a step.

    Attributes:
        taken: Used and reserved in its window.
        window: Number of the window.
        reset_seconds: Seconds to its end; 0 if it has none.
    """

    taken: int
    window: int
    reset_seconds: float


class Outcome(NamedTuple):
    """The outcome of a step; `refused` is the first budget in which there was no room."""

    refused: int | None
    balances: Sequence[Balance]


class BudgetStore(Protocol):
    """Where budgets are kept. Each step is atomic; a retry of a `settle` does nothing."""

    @property
    def is_async(self) -> bool:
        """True if `apply` is awaited."""
        ...

    def apply(self, step: Step) -> Outcome | Awaitable[Outcome]:
        """Do one step."""
        ...
