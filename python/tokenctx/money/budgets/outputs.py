"""How much output calls usually give, learned from their bills."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tokenctx._results.estimates import Estimate

RECENT: Final = 64
"""Calls of one tenant and model that are remembered."""
LEAST: Final = 8
"""Fewer calls tell nothing."""
MAX_KEYS: Final = 4096
SHARE: Final = 0.9
"""The quantile of learned outputs that is expected."""
DEFAULT_TOKENS: Final = 1024
"""Expected where neither request, model nor experience says anything."""


class Outputs:
    """Outputs of the newest calls by tenant and model; numbers only."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[tuple[str, str], deque[int]] = OrderedDict()

    def add(self, tenant: str, model: str, output_tokens: int) -> None:
        """Remember a bill."""
        key = (tenant, model)
        self._by_key.setdefault(key, deque(maxlen=RECENT)).append(output_tokens)
        try:
            self._by_key.move_to_end(key)
            if len(self._by_key) > MAX_KEYS:
                self._by_key.popitem(last=False)
        except KeyError:  # another thread was quicker
            pass

    def expected(self, tenant: str, estimate: Estimate) -> int:
        """The output to reserve: the learned quantile, else the cap of the request or the model."""
        caps = (estimate.requested_output_tokens, estimate.limits.max_output_tokens)
        most = min((it for it in caps if it), default=None)
        seen = self._by_key.get((tenant, estimate.model))
        if seen is not None and len(seen) >= LEAST:
            outputs = sorted(seen.copy())
            learned = outputs[min(len(outputs) - 1, int(SHARE * len(outputs)))]
            return learned if most is None else min(learned, most)
        asked = estimate.requested_output_tokens
        if asked is None:
            return DEFAULT_TOKENS if most is None else min(DEFAULT_TOKENS, most)
        return asked if most is None else most
