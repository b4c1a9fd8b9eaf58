"""When a store is not called at all."""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import Final

FAILURES: Final = 5
"""It opens when failed calls outnumber the others by this many."""
PROBE_SECONDS: Final = 0.5
"""Between two probes; up to a fifth less, so that workers do not come all at once."""
_chance = random.Random()  # noqa: S311  # not that of the program, which may be seeded
_logger = logging.getLogger("tokenctx")


class Breaker:
    """Closed while calls succeed; open after failures, with a probe now and then.

    Failures of calls that ran side by side are one. One line is logged per change: what it guards,
    the kind of the last failure, never an answer.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._failures = 0
        self._last_failure = float("-inf")
        self._opened: float | None = None
        self._next_probe = 0.0
        self._why = ""

    @property
    def is_open(self) -> bool:
        """True if calls are refused."""
        return self._opened is not None

    @property
    def open_seconds(self) -> float:
        """How long calls have been refused; 0 if they are not."""
        opened = self._opened
        return 0.0 if opened is None else time.monotonic() - opened

    def stopped(self) -> tuple[float, str]:
        """How long calls have been refused, and why; 0 and nothing if they are not."""
        with self._lock:
            is_open, why = self._opened is not None, self._why
        return (self.open_seconds, why) if is_open else (0.0, "")

    def admits(self) -> bool:
        """True if a call would be made now: as usual, or as a probe."""
        return self._opened is None or time.monotonic() >= self._next_probe

    def claim_probe(self) -> bool:
        """True if the caller is the one that makes the probe which is due."""
        with self._lock:
            is_due = self._opened is not None and time.monotonic() >= self._next_probe
            if is_due:
                self._plan_probe()
            return is_due

    def failed(self, why: str, began: float | None = None) -> None:
        """Count a failure; `why` is a few words without content.

        `began` is when the call did, by `time.monotonic`: before the last failure was counted, it
        is a failure of the same incident, such as a burst of calls that all had to connect.
        """
        with self._lock:
            if began is not None and began < self._last_failure:
                return
            self._last_failure = time.monotonic()
            self._failures += 1
            self._why = why
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
        self._next_probe = time.monotonic() + PROBE_SECONDS * _chance.uniform(0.8, 1)
