"""A call that nobody could count, as budgets take it: by a bound that needs no parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tokenctx._results.estimates import ModelLimits
from tokenctx._results.result import Result

if TYPE_CHECKING:
    from tokenctx._results.estimates import Dialect


@dataclass(frozen=True, slots=True)
class Uncounted(Result):
    """A call without an estimate, for `Budgets.reserve`.

    Attributes:
        high: A bound of its input in tokens, such as the length of its body in bytes; None if even
            that is not known, as of a body in an encoding that is not read: it is refused.
        model: The model, where something says it; empty else.
        dialect: In whose words a refusal is.
        requested_output_tokens: The most output that it asks for; None if that is not known.
        limits: Those of the model, where they are known.
    """

    high: int | None
    model: str = ""
    dialect: Dialect | None = None
    requested_output_tokens: int | None = None
    limits: ModelLimits = field(default_factory=ModelLimits)
