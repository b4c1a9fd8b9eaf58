"""Threads that are left behind if a call does not return."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
IDLE_SECONDS: Final = 5.0
"""A thread without work ends after it."""


class Threads:
    """At most `limit` daemon threads, started when they are needed.

    Unlike `ThreadPoolExecutor`, a call that never ends holds up no exit of the interpreter.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[tuple[Future[object], Callable[[], object]]] = (
            queue.SimpleQueue()
        )
        self._unfinished = 0
        self._running = 0

    @property
    def is_full(self) -> bool:
        """True if a further call would wait."""
        return self._unfinished >= self._limit

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """The result to be of `call`, which waits for a thread if all are busy."""
        future: Future[T] = Future()
        with self._lock:
            self._unfinished += 1
            is_short = self._running < min(self._unfinished, self._limit)
            self._running += is_short
        self._calls.put((future, call))  # type: ignore[arg-type]
        if is_short:
            try:
                threading.Thread(target=self._run, name="tokenctx", daemon=True).start()
            except RuntimeError:  # no more threads; or the interpreter ends
                with self._lock:
                    self._running -= 1
        return future

    def _run(self) -> None:
        while True:
            try:
                future, call = self._calls.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._running > self._unfinished:
                        self._running -= 1
                        return
                continue
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:  # looked at by who waits
                    future.set_exception(error)
                else:
                    future.set_result(result)
            del future, call
            with self._lock:
                self._unfinished -= 1
