"""The record of a gateway: numbers, and one line of log for each kind of failure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tokenctx._estimate.metrics import Metrics

UNSEEN: Final = ("not_recorded", "uncounted", "other_paths", "unrecognised_paths")
"""What these begin is counted in the metrics too; the rest has a metric of its own there."""
_logger = logging.getLogger("tokenctx")


class Journal:
    """Counts by name, and in the metrics of the estimator; nothing holds text of a request."""

    def __init__(self, metrics: Metrics | None) -> None:
        self._metrics = metrics
        self._counts: dict[str, int] = {}
        self._logged: set[tuple[str, str]] = set()

    def count(self, name: str) -> None:
        """One more of `name`."""
        self._counts[name] = self._counts.get(name, 0) + 1
        if self._metrics is not None and name.startswith(UNSEEN):
            self._metrics.count_call(name)

    def refused(self, dialect: str) -> None:
        """One more request that was refused for its size."""
        self.count("refused")
        if self._metrics is not None:
            self._metrics.count_refused(dialect)

    def budgeted(self, outcome: str, budget: str = "") -> None:
        """One more call under budgets; `budget` has refused it, or would have."""
        if budget:
            self.count(f"budget_{outcome}_{budget}")
        if self._metrics is not None:
            self._metrics.count_budgeted(outcome, budget)

    def failed(self, stage: str, error: BaseException) -> str:
        """Count a failure of ours; the stage and the class of `error`, which is logged once."""
        kind = type(error).__name__
        self.count(f"failed_{stage}")
        if self._metrics is not None:
            self._metrics.count_failure(stage)
        if (stage, kind) not in self._logged:
            self._logged.add((stage, kind))
            _logger.warning(
                "gateway, %s: %s was raised; the call goes on, later ones are counted, not logged",
                stage,
                kind,
            )
        return f"{stage}: {kind}"

    def counts(self) -> dict[str, int]:
        """All that was counted so far."""
        return dict(self._counts)
