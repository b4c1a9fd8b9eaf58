"""How much output calls usually give, learned from their bills."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tokenctx._results.estimates import Estimate
    from tokenctx.money.budgets.uncounted import Uncounted

RECENT: Final = 64
"""Calls of one tenant and model that are remembered."""
LEAST: Final = 8
"""Fewer calls tell nothing."""
MAX_KEYS: Final = 4096
SHARE: Final = 0.9
"""The quantile of learned outputs that is expected."""
ASKED_SHARE: Final = 0.5
"""Of what a request asks for, this is expected at least, until most calls of its tenant and model
end with a bill: what is learned of the others is only what was seen of them."""
DEFAULT_TOKENS: Final = 1024
"""Expected where neither request, model nor experience says anything."""


@dataclass(slots=True)
class _Seen:
    """The newest calls of one tenant and model: outputs, and which of them a bill has told."""

    outputs: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))
    is_billed: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))


class Outputs:
    """Outputs of the newest calls by tenant and model; numbers only."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[tuple[str, str], _Seen] = OrderedDict()

    def add(self, tenant: str, model: str, output_tokens: int, *, is_billed: bool = True) -> None:
        """Remember the output of a bill, or what was seen of an answer without one."""
        key = (tenant, model)
        seen = self._by_key.setdefault(key, _Seen())
        seen.outputs.append(output_tokens)
        seen.is_billed.append(is_billed)
        try:
            self._by_key.move_to_end(key)
            if len(self._by_key) > MAX_KEYS:
                self._by_key.popitem(last=False)
        except KeyError:  # another thread was quicker
            pass

    def expected(self, tenant: str, estimate: Estimate | Uncounted, choices: int = 1) -> int:
        """The output to reserve: the learned quantile, else the cap of the request or the model.

        Each of the `choices` that a request asks for may be as long as the cap.
        """
        asked = estimate.requested_output_tokens
        caps = (asked, estimate.limits.max_output_tokens)
        most = min((it * choices for it in caps if it), default=None)
        asked = None if asked is None else asked * choices
        default = DEFAULT_TOKENS * choices
        seen = self._by_key.get((tenant, estimate.model))
        if seen is not None and len(seen.outputs) >= LEAST:
            outputs, billed = sorted(seen.outputs.copy()), sum(seen.is_billed.copy())
            learned = outputs[min(len(outputs) - 1, int(SHARE * len(outputs)))]
            if 2 * billed <= len(outputs):
                least = default if asked is None else asked
                learned = max(learned, int(ASKED_SHARE * least))
            return learned if most is None else min(learned, most)
        if asked is None:
            return default if most is None else min(default, most)
        return asked if most is None else most
