"""The plain Python twin of the Rust core.

The same names and the same answers as `tokenctx`, written to be read: the oracle of every test,
the baseline of every benchmark. To count it needs the extra `test` (blake3, regex), which is why
nothing is loaded before it is used: the package itself reads its tables through modules of the
twin. The vocabularies come from the core's own tables, which are checked against the published
files by their SHA-256.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reference.api import (
        ContextWindowScaler,
        ConversationStateTracker,
        HybridTokenEstimator,
        count_tokens,
        encode,
        image_size,
        image_tokens,
    )

__all__ = [
    "ContextWindowScaler",
    "ConversationStateTracker",
    "HybridTokenEstimator",
    "count_tokens",
    "encode",
    "image_size",
    "image_tokens",
]


def __getattr__(name: str) -> object:
    """The public name, at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from reference import api

    globals()[name] = value = getattr(api, name)
    return value
