"""The public names of the twin; `reference` gives them at first use."""

from __future__ import annotations

from typing import Any, ClassVar

from reference.bpe import count_tokens, encode
from reference.estimate import Engine
from reference.media import image_size
from reference.scale import Scale
from reference.tracker import Tracker
from tokenctx._estimate import estimator as _estimator
from tokenctx._estimate import tracker as _tracker
from tokenctx._usage import scaler as _scaling

__all__ = [
    "ContextWindowScaler",
    "ConversationStateTracker",
    "HybridTokenEstimator",
    "count_tokens",
    "encode",
    "image_size",
    "image_tokens",
]


class HybridTokenEstimator(_estimator.HybridTokenEstimator):
    """`tokenctx.HybridTokenEstimator` on the plain Python engine."""

    _core: ClassVar[Any] = Engine


class ContextWindowScaler(_scaling.ContextWindowScaler):
    """`tokenctx.ContextWindowScaler` on the plain Python scale."""

    _core: ClassVar[Any] = Scale


class ConversationStateTracker(_tracker.ConversationStateTracker):
    """`tokenctx.ConversationStateTracker` on the plain Python tracker."""

    _core: ClassVar[Any] = Tracker


def image_tokens(rule: str, width_px: int, height_px: int, detail: str = "auto") -> int:
    """Input tokens of an image under the rule of this name."""
    from reference import media

    if rule not in media.image_rules():
        raise ValueError(f"no image rule is called {rule!r}; see image_rules()")
    return media.image_tokens(media.image_rules()[rule], width_px, height_px, detail)
