"""Which of these models fits a request, which is cheapest for it, which has it cached.

Functions for whoever routes: each model of a list is a `ModelChoice`, in the order of the list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tokenctx._results.front import own_names
from tokenctx._results.result import Result
from tokenctx.money.prices import default_prices

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tokenctx._results.cost import Cost
    from tokenctx._results.estimates import Dialect, Estimate
    from tokenctx.money.prices import Prices


@dataclass(frozen=True, slots=True)
class ModelChoice(Result):
    """One model for one request.

    Attributes:
        model: As it was named.
        estimate: What the request takes with it.
        fits: Whether input and wanted output fit its window; None if no window is known.
        cost: What the call would cost; None if its prices are unknown.
    """

    model: str
    estimate: Estimate
    fits: bool | None
    cost: Cost | None


class _RequestEstimator(Protocol):
    """Anything that estimates a request, such as `HybridTokenEstimator`."""

    def estimate(
        self,
        body: object,
        *,
        model: str | None = None,
        dialect: Dialect | None = None,
        tenant: str | bytes | None = None,
    ) -> Estimate:
        """The input tokens that `body` is expected to be billed for."""
        ...


def choices(
    estimator: _RequestEstimator,
    body: object,
    models: Iterable[str],
    *,
    dialect: Dialect | None = None,
    tenant: str | bytes | None = None,
    output_tokens: int | None = None,
    prices: Prices | None = None,
) -> tuple[ModelChoice, ...]:
    """Each of `models` for this request; linear in the body for each of them.

    `output_tokens` is the output that you want; by default what the body asks for. Raises as
    `HybridTokenEstimator.estimate`.
    """
    used = prices or default_prices()

    def choice(model: str) -> ModelChoice:
        estimate = estimator.estimate(body, model=model, dialect=dialect, tenant=tenant)
        cost = used.cost(estimate, model=model, output_tokens=output_tokens)
        return ModelChoice(model, estimate, estimate.fits(output_tokens), cost)

    return tuple(map(choice, models))


def fitting(found: Sequence[ModelChoice]) -> tuple[ModelChoice, ...]:
    """Those that the request fits, and those of which no window is known."""
    return tuple(it for it in found if it.fits is not False)


def cheapest(found: Sequence[ModelChoice]) -> ModelChoice | None:
    """The cheapest that the request fits; None if no price is known.

    Models are compared by the total, or by the input alone if the output of one is not known.
    """
    priced = [(it, it.cost) for it in fitting(found) if it.cost is not None]
    has_totals = all(cost.total is not None for _, cost in priced)

    def money(pair: tuple[ModelChoice, Cost]) -> Any:
        return pair[1].total if has_totals else pair[1].input

    known = [pair for pair in priced if money(pair) is not None]
    return min(known, key=money)[0] if known else None


def warm(found: Sequence[ModelChoice]) -> tuple[ModelChoice, ...]:
    """Those that will read part of the request from a cache, the largest part first.

    The estimator has to be one with `caching`; without it none is warm.
    """
    reads = [it for it in found if it.estimate.cache is not None and it.estimate.cache.read_tokens]
    return tuple(sorted(reads, key=_read_tokens, reverse=True))


def _read_tokens(choice: ModelChoice) -> int:
    return 0 if choice.estimate.cache is None else choice.estimate.cache.read_tokens


__all__, __dir__ = own_names(globals())
