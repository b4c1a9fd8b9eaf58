"""An estimate as headers of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tokenctx._results.estimates import Estimate

USAGE: Final = "x-tokenctx-usage"
SCALED: Final = "scaled"
"""The header of an answer whose usage is what an agent is told, and no bill; and its value."""


def estimate_headers(estimate: Estimate, window_tokens: int | None) -> dict[str, str]:
    """How large a request is and how sure that is: `x-tokenctx-tokens`, `-low` and so on.

    All numbers are tokens; the window is left out where none is known.
    """
    headers = {
        "x-tokenctx-tokens": str(estimate.tokens),
        "x-tokenctx-low": str(estimate.low),
        "x-tokenctx-high": str(estimate.high),
        "x-tokenctx-known": str(estimate.known_tokens),
        "x-tokenctx-source": estimate.source,
        "x-tokenctx-quality": estimate.quality,
    }
    if window_tokens:
        headers["x-tokenctx-window"] = str(window_tokens)
    return headers
