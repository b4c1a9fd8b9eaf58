"""Where a result asks for its price.

Prices are made from results, so results cannot import them. The package hands over a function when
it is imported; the tables of prices are read at the first question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenctx._results.cost import Cost


class PriceList(Protocol):
    """Anything that says what a call costs, such as `Prices`."""

    def cost(
        self,
        tokens: object,
        *,
        model: str | None = None,
        provider: str | None = None,
        at: Any = None,
    ) -> Cost | None:
        """The cost of an estimate or a usage; None if the prices of its model are unknown."""
        ...


class Installed:
    """The price list that results ask where the caller names no other."""

    load: Callable[[], PriceList]


def default_prices() -> PriceList:
    """The prices that are installed."""
    return Installed.load()
