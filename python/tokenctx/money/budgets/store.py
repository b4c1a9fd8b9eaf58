"""The steps of a store of budgets, each for all budgets of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

LEASE_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 120.0
"""For so long a second settle is known to be one, and a bill that comes after its lease."""


class Claim(NamedTuple):
    """The amount that a call takes of one budget.

    Attributes:
        key: The budget and whose it is.
        limit: What there is of it.
        seconds: Length of its window; 0 if it has none.
        amount: What is reserved, or what was used in the end.
        window: The part of a window that it was reserved in; -1 before, and where nobody knows:
            what was used is booked in the present one.
        parts: The parts of a window that rolls, of which one more counts; 1 for a window that
            begins and ends.
        returns: It is given back when the lease of its caller ends, as a place among the calls
            that are under way. Of other budgets it is booked then, since the call may have been
            answered; a bill that comes later takes its place.
    """

    key: str
    limit: int
    seconds: int
    amount: int
    window: int = -1
    parts: int = 1
    returns: bool = False

    @property
    def part_seconds(self) -> float:
        """Length of a part; 0 if it has no window."""
        return self.seconds / self.parts

    @property
    def counted_parts(self) -> int:
        """The parts that count at any time."""
        return self.parts + 1 if self.parts > 1 else 1


StepKind = Literal["reserve", "settle", "hold", "look", "reset", "limit"]


class Step(NamedTuple):
    """One step of one call, or of the operator.

    Attributes:
        kind: `reserve` takes the amounts in all budgets or in none, `settle` replaces them; `hold`
            takes them, or more of them than before, whatever the limits are. `look` changes
            nothing, `reset` forgets all that was taken and held, and `limit` puts the amounts in
            place of the limits from now on, or the limits of the claims again if they are -1.
        id: Of the reservation.
        claims: What it takes of each budget.
        lease_seconds: How long a reservation is open that nobody settles.
    """

    kind: StepKind
    id: str
    claims: Sequence[Claim]
    lease_seconds: float


class Balance(NamedTuple):
    """A budget after a step.

    Attributes:
        taken: Used and reserved in its window.
        window: Number of the window, or of its newest part.
        reset_seconds: Seconds until nothing of this counts any longer; after a refusal, until there
            is room. 0 if it has no window.
        limit: What there is of it.
    """

    taken: int
    window: int
    reset_seconds: float
    limit: int


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
