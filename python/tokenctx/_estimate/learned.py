"""The corrections that one estimator has learned, as another one takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

LEARNED_VERSION: Final = 1


def learned_models(learned: Any) -> Mapping[str, Any]:
    """The rows of `learned` by model; raises ValueError unless it is `learned()` of today."""
    version = learned.get("version") if isinstance(learned, Mapping) else None
    if version != LEARNED_VERSION:
        raise ValueError(
            f"version is {version!r}; it must be {LEARNED_VERSION}: "
            "export again with the release that runs here"
        )
    models = learned.get("models")
    if not isinstance(models, Mapping):
        raise ValueError(  # noqa: TRY004  # as for all else that is not learned() of ours
            f"models is of type {type(models).__name__}; it must be a mapping, as in learned()"
        )
    return models


def take_over(learned: object, set_learned: Callable[..., bool]) -> None:
    """Hand each model of `learned` to `set_learned`; raises ValueError at the first it refuses."""
    for model, row in learned_models(learned).items():
        try:
            is_taken = set_learned(model, row.get("calls", 1), row["wins"], row["numbers"])
        except (AttributeError, KeyError, TypeError, OverflowError):
            is_taken = False
        if not is_taken:
            raise ValueError(
                f"what was learned of {model!r} is no number of wins and finite numbers"
            )
