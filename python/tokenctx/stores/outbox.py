"""Entries that wait to be written behind."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from tokenctx.stores.breaker import PROBE_SECONDS, Breaker

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_ENTRIES: Final = 10_000
"""The oldest beyond it are dropped: about 3 MB."""
BATCH_ENTRIES: Final = 16
V = TypeVar("V")


class Outbox(Generic[V]):
    """Entries by key, bounded, with one writer at a time; a stuck writer is replaced.

    What a writer has taken waits again when it fails, and when it is replaced. The newest prefixes
    are written first: after an outage it is their conversations that go on.
    """

    def __init__(self, what: str = "writes", *, is_newest_first: bool = True) -> None:
        self.breaker = Breaker(what)
        self._is_newest_first = is_newest_first
        self._taken: list[tuple[str, V]] = []
        self.written = 0
        self.dropped = 0
        self._lock = threading.Lock()
        self._entries: dict[str, V] = {}
        self._writer = 0
        self._since: float | None = None

    def put(self, entries: Iterable[tuple[str, V]]) -> None:
        """Add entries, at the cost of the oldest."""
        with self._lock:
            for key, value in entries:
                self._entries.pop(key, None)
                self._entries[key] = value
            while len(self._entries) > MAX_ENTRIES:
                del self._entries[next(iter(self._entries))]
                self.dropped += 1

    def __len__(self) -> int:
        return len(self._entries) + len(self._taken)

    @property
    def is_empty(self) -> bool:
        """True if all was written."""
        return not self._entries and self._since is None

    def new_writer(self) -> int | None:
        """The number of a writer that is to begin; None if none is needed or admitted."""
        now = time.monotonic()
        with self._lock:
            if self._since is not None and now - self._since < PROBE_SECONDS:
                return None
            is_stuck, self._since = self._since is not None, None
            self._restore(self._taken)
            self._taken = []
            if not self._entries:
                return None
        if is_stuck:
            self.breaker.failed("no answer")
        if self.breaker.is_open and not self.breaker.claim_probe():
            return None
        with self._lock:
            self._writer += 1
            self._since = now
            return self._writer

    def take(self, writer: int) -> list[tuple[str, V]]:
        """The entries that `writer` is to write next; empty if it is done or was replaced."""
        with self._lock:
            if writer != self._writer:
                return []
            count = min(len(self._entries), 1 if self.breaker.is_open else BATCH_ENTRIES)
            self._since = time.monotonic() if count else None
            self._taken = [self._next() for _ in range(count)]
            return self._taken

    def done(self, writer: int, entries: list[tuple[str, V]]) -> None:
        """Count `entries` as written."""
        with self._lock:
            self.written += len(entries)
            if writer == self._writer:
                self._taken = []
        if self.breaker.is_open:
            self.breaker.close()
        else:
            self.breaker.succeeded()

    def failed(self, writer: int, entries: list[tuple[str, V]], why: str) -> bool:
        """True if `writer` shall go on; `entries` wait again, if there is room."""
        self.breaker.failed(why)
        with self._lock:
            is_current = writer == self._writer
            if is_current:
                self._restore(entries)
                self._taken = []
            if self.breaker.is_open and is_current:
                self._since = None
            return not self.breaker.is_open

    def _next(self) -> tuple[str, V]:
        if self._is_newest_first:
            return self._entries.popitem()
        key = next(iter(self._entries))
        return key, self._entries.pop(key)

    def _restore(self, entries: list[tuple[str, V]]) -> None:
        for key, value in reversed(entries):
            if len(self._entries) < MAX_ENTRIES:
                self._entries.setdefault(key, value)
            else:
                self.dropped += 1
