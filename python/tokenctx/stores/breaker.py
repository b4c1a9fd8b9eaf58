"""When a store is not called at all."""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import Final

FAILURES: Final = 5
"""It opens when so many more calls have failed than succeeded."""
PROBE_SECONDS: Final = 0.5
"""Between two probes; up to a fifth less, so that workers do not come all at once."""
_logger = logging.getLogger("tokenctx")


class Breaker:
    """Closed while calls succeed; open after failures, with a probe now and then.

    One line is logged per change: what it guards, the kind of the last failure, never an answer.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._failures = 0
        self._opened: float | None = None
        self._next_probe = 0.0

    @property
    def is_open(self) -> bool:
        """Whether calls are refused."""
        return self._opened is not None

    def admits(self) -> bool:
        """Whether a call would be made now: as usual, or as a probe."""
        return self._opened is None or time.monotonic() >= self._next_probe

    def claim_probe(self) -> bool:
        """Whether the caller is the one that makes the probe which is due."""
        with self._lock:
            is_due = self._opened is not None and time.monotonic() >= self._next_probe
            if is_due:
                self._plan_probe()
            return is_due

    def failed(self, why: str) -> None:
        """Count a failure; `why` is a few words without content."""
        with self._lock:
            self._failures += 1
            if self._opened is not None or self._failures < FAILURES:
                return
            self._opened = time.monotonic()
            self._plan_probe()
        _logger.warning(
            "shared store: %s stopped, last failure: %s; estimates go on with what is known here",
            self._what,
            why,
        )

    def succeeded(self) -> None:
        """Count a success of a usual call."""
        with self._lock:
            if self._opened is None:
                self._failures = max(0, self._failures - 1)

    def close(self) -> None:
        """Admit calls again, after a probe that succeeded."""
        with self._lock:
            opened, self._opened, self._failures = self._opened, None, 0
        if opened is not None:
            seconds = time.monotonic() - opened
            _logger.warning("shared store: %s go on after %.1f s", self._what, seconds)

    def _plan_probe(self) -> None:
        self._next_probe = time.monotonic() + PROBE_SECONDS * random.uniform(0.8, 1)  # noqa: S311
