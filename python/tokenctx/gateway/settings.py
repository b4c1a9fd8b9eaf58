"""The settings that all calls of a gateway share, and the names that one call is asked under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenctx._estimate.estimator import HybridTokenEstimator
    from tokenctx._results.estimates import Dialect, Estimate, ModelLimits
    from tokenctx.gateway.journal import Journal
    from tokenctx.money.budgets import Budgets
    from tokenctx.usage.scaler import ContextWindowScaler

RefuseBy = Literal["tokens", "high"]
Body = bytes | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that all calls of a gateway share."""

    estimator: HybridTokenEstimator
    journal: Journal
    refuse_by: RefuseBy | None
    clamp_output: bool
    include_usage: bool
    limits_of: Callable[[Estimate], ModelLimits]
    scaler_of: Callable[[ModelLimits], ContextWindowScaler | None]
    budgets: Budgets | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """The arguments that `estimate` and `record` share.

    `alias` is the name that the client has used for the model, where that is an alias. `fallbacks`
    are names to send and the models that they stand for.
    """

    model: str | None
    dialect: Dialect | None
    provider: str | None
    tenant: str | bytes | None
    keys: Mapping[str, str | None] | None = None
    alias: str = ""
    fallbacks: Sequence[tuple[str, str]] = ()

    @property
    def budget_keys(self) -> dict[str, str | None]:
        """Whose call it is, by the names that budgets are kept by."""
        tenant = self.tenant.decode("latin-1") if isinstance(self.tenant, bytes) else self.tenant
        return {"tenant": tenant, **(self.keys or {})}

    def as_arguments(self) -> dict[str, Any]:
        """Keyword arguments of the estimator."""
        return {
            "model": self.model,
            "dialect": self.dialect,
            "provider": self.provider,
            "tenant": self.tenant,
        }
