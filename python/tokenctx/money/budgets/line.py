"""The way to a store of budgets: no step waits for it longer than its deadline, no bill is lost."""

from __future__ import annotations

import asyncio
import atexit
import functools
import inspect
import logging
import os
import threading
import time
import weakref
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from tokenctx.money.budgets.memory import MemoryBudgetStore
from tokenctx.money.budgets.store import Step
from tokenctx.stores.outbox import Outbox
from tokenctx.stores.threads import Threads

if TYPE_CHECKING:
    from collections import Counter

    from tokenctx.money.budgets.store import BudgetStore, Outcome

MAX_DEADLINE_MS: Final = 100.0
FIRST_SECONDS: Final = 0.08
"""The deadline until a step was answered: a client connects with it, and a cluster asks around."""
MAX_THREADS: Final = 16
"""Of these each may be held by a client that does not return."""
KEEPER_SECONDS: Final = 0.1
"""Between two looks at what waits to be settled."""
EXIT_SECONDS: Final = 1.0
PROBE: Final = "probe"
_logger = logging.getLogger("tokenctx")


class Line:
    """Steps to one store, each within a deadline; what is settled and fails is tried again.

    While the breaker is open no step is tried on the path of a request: what is to be settled waits
    in the outbox, and its writer probes. A step has an id, so that one that was done, though its
    answer came too late, is done once. With `gives_back` calls are refused whose step has failed:
    what it may have reserved is given back.
    """

    def __init__(
        self, store: BudgetStore, deadline_ms: float, counts: Counter[str], *, gives_back: bool
    ) -> None:
        if not 0 < deadline_ms <= MAX_DEADLINE_MS:
            raise ValueError(
                f"deadline_ms is {deadline_ms}; it must be above 0, {MAX_DEADLINE_MS:g} at most"
            )
        self._store = store
        self._is_local = isinstance(store, MemoryBudgetStore)
        self._seconds = deadline_ms / 1000
        self._counts = counts
        self._gives_back = gives_back
        self._patience = max(self._seconds, FIRST_SECONDS)
        self._begin()
        atexit.register(_flush_at_exit, weakref.ref(self))

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._outbox: Outbox[Step] = Outbox("budgets", is_newest_first=False)
        self._steps, self._writers = Threads(MAX_THREADS), Threads(MAX_THREADS)
        self._keeper: threading.Thread | asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Future[Any]] = set()

    @property
    def waiting(self) -> int:
        """Steps that wait to be settled."""
        return len(self._outbox)

    @property
    def is_open(self) -> bool:
        """True while the store is left alone."""
        return self._outbox.breaker.is_open

    def reserve(self, step: Step) -> Outcome | None:
        """The outcome of a step; None if the store did not answer in time, or is left alone."""
        if self._store.is_async:
            raise TypeError("the store is asynchronous: use areserve, asettle and arelease")
        return self._tried(step)

    async def areserve(self, step: Step) -> Outcome | None:
        """As `reserve`, without holding the loop. If it is cancelled, nothing stays reserved."""
        try:
            return await self._atried(step)
        except BaseException:
            if step.kind == "reserve":
                self.give_back(step)
            raise

    def give_back(self, step: Step) -> None:
        """Have nothing booked of a call that is not made, though its store may have reserved it."""
        self._leave(
            step._replace(kind="settle", claims=[it._replace(amount=0) for it in step.claims])
        )

    def settle(self, step: Step) -> Outcome | None:
        """The outcome of a step that is done now; None if it is done once the store answers."""
        outcome = None if self._store.is_async else self._tried(step)
        if outcome is None:
            self._leave(step)
        return outcome

    async def asettle(self, step: Step) -> Outcome | None:
        """As `settle`, without holding the loop. If it is cancelled, it is done all the same."""
        outcome = None
        try:
            outcome = await self._atried(step)
        finally:
            if outcome is None:
                self._leave(step)
        return outcome

    def flush(self, seconds: float) -> bool:
        """True if nothing waits to be settled within `seconds`; of a store that is not awaited."""
        ends = time.monotonic() + seconds
        while not self._outbox.is_empty:
            if self._store.is_async or time.monotonic() >= ends:
                return False
            self._keep()
            time.sleep(0.005)
        return True

    async def aflush(self, seconds: float) -> bool:
        """As `flush`, of any store."""
        ends = time.monotonic() + seconds
        while not self._outbox.is_empty:
            if time.monotonic() >= ends:
                return False
            self._keep()
            await asyncio.sleep(0.005)
        return True

    # ------------------------------------------------------------------------ one step

    def _is_tried(self) -> bool:
        if self._pid != os.getpid():  # threads are not copied, and what waits is the parent's
            self._begin()
        if not self.is_open:
            return True
        if self._outbox.is_empty:
            self._outbox.put([(PROBE, Step("settle", PROBE, (), 1.0))])
        self._keep()
        return False

    def _tried(self, step: Step) -> Outcome | None:
        if not self._is_tried():
            return None
        began = time.monotonic()
        try:
            outcome: Any = self._store.apply(step) if self._is_local else self._called(step, began)
        except Exception as error:
            self._failed(step, error, began)
            return None
        return self._succeeded(outcome)

    async def _atried(self, step: Step) -> Outcome | None:
        if not self._is_tried():
            return None
        began = time.monotonic()
        try:
            if self._is_local:
                outcome: Any = self._store.apply(step)
            else:
                outcome = await self._acalled(step, began)
        except Exception as error:
            self._failed(step, error, began)
            return None
        return self._succeeded(outcome)

    def _called(self, step: Step, began: float) -> Any:
        """The outcome of a step in a thread. Raises TimeoutError after the deadline."""
        if self._steps.is_full:
            raise TimeoutError
        call = self._steps.submit(functools.partial(self._store.apply, step))
        is_over = _ends_within(call, self._patience)
        if not is_over and self._was_held(began):
            is_over = _ends_within(call, self._seconds)
        if not is_over:
            call.cancel()
            raise TimeoutError
        return call.result()

    async def _acalled(self, step: Step, began: float) -> Any:
        """As `_called`, without holding the loop."""
        if self._store.is_async:
            call: asyncio.Future[Any] = asyncio.ensure_future(self._awaited(step))
        elif self._steps.is_full:
            raise TimeoutError
        else:
            work = functools.partial(self._store.apply, step)
            call = asyncio.wrap_future(self._steps.submit(work))
        self._tasks.add(call)
        call.add_done_callback(self._ended)
        await asyncio.wait([call], timeout=self._patience)
        if not call.done() and self._was_held(began):
            await asyncio.wait([call], timeout=self._seconds)
        if not call.done():
            if len(self._tasks) > MAX_THREADS:  # else it may end, and leave its connection
                call.cancel()
            raise TimeoutError
        return call.result()

    def _succeeded(self, outcome: Any) -> Outcome:
        self._outbox.breaker.succeeded()
        self._patience = self._seconds
        return cast("Outcome", outcome)

    async def _awaited(self, step: Step) -> Any:
        outcome = self._store.apply(step)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def _was_held(self, began: float) -> bool:
        """True if the deadline passed since this process had no processor, and not the store."""
        late = time.monotonic() - began
        return 2 * self._patience < late < MAX_DEADLINE_MS / 1000 - self._seconds

    def _failed(self, step: Step, error: Exception, began: float) -> None:
        if step.kind in ("reserve", "hold"):
            self._counts["failed_reserve"] += 1
        if step.kind == "reserve" and self._gives_back:
            self.give_back(step)
        self._outbox.breaker.failed(type(error).__name__, began)

    def _ended(self, call: asyncio.Future[Any]) -> None:
        self._tasks.discard(call)
        if not call.cancelled():
            call.exception()  # which nobody else looks at, if it came too late

    # ------------------------------------------------------------------------ what is left

    def _leave(self, step: Step) -> None:
        """Leave a step to the writer, at the cost of the oldest."""
        before = self._outbox.dropped
        self._outbox.put([(step.id, step)])
        self._keep()
        if self._outbox.dropped > before:
            self._dropped(self._outbox.dropped - before)

    def _dropped(self, count: int) -> None:
        is_first = not self._counts["failed_settle"]
        self._counts["failed_settle"] += count
        if is_first:
            _logger.error("budgets: %d bills could not be settled and are lost", count)

    def _keep(self) -> None:
        """Have a writer as long as anything is left."""
        if self._store.is_async:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # the next step on a loop goes on
                return
            keeper = self._keeper
            if (
                not isinstance(keeper, asyncio.Task)
                or keeper.done()
                or keeper.get_loop() is not loop
            ):
                self._keeper = loop.create_task(self._aserve())
            return
        with self._lock:
            if isinstance(self._keeper, threading.Thread) and self._keeper.is_alive():
                return
            thread = threading.Thread(target=self._serve, name="tokenctx-budgets", daemon=True)
            self._keeper = thread
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter ends
                self._keeper = None

    def _serve(self) -> None:
        while True:
            with self._lock:
                if self._outbox.is_empty:
                    self._keeper = None
                    return
            writer = None if self._writers.is_full else self._outbox.new_writer()
            if writer is not None:
                call = self._writers.submit(functools.partial(self._write, writer))
                wait([call], KEEPER_SECONDS)
                if call.done():
                    continue
            time.sleep(KEEPER_SECONDS)

    def _write(self, writer: int) -> None:
        while entries := self._outbox.take(writer):
            done = 0
            try:
                for _, step in entries:
                    self._store.apply(step)
                    done += 1
            except Exception as error:  # nobody waits for it
                if not self._outbox.failed(writer, entries[done:], type(error).__name__):
                    return
            else:
                self._outbox.done(writer, entries)

    async def _aserve(self) -> None:
        while not self._outbox.is_empty:
            writer = self._outbox.new_writer()
            if writer is not None:
                call = asyncio.ensure_future(self._awrite(writer))
                self._tasks.add(call)
                call.add_done_callback(self._ended)
                await asyncio.wait([call], timeout=KEEPER_SECONDS)
                if call.done():
                    continue
            await asyncio.sleep(KEEPER_SECONDS)

    async def _awrite(self, writer: int) -> None:
        while entries := self._outbox.take(writer):
            done = 0
            try:
                for _, step in entries:
                    await self._awaited(step)
                    done += 1
            except Exception as error:  # nobody waits for it
                if not self._outbox.failed(writer, entries[done:], type(error).__name__):
                    return
            else:
                self._outbox.done(writer, entries)

    def end(self) -> None:
        """The process ends: what is left is settled now, or counted and logged as lost."""
        if self._pid == os.getpid() and not self.flush(EXIT_SECONDS):
            self._dropped(self.waiting)


def _ends_within(call: Future[Any], seconds: float) -> bool:
    """True if `call` has ended; a third of the cost of `wait`."""
    with suppress(TimeoutError, FutureTimeout):
        call.exception(seconds)
    return call.done()


def _flush_at_exit(line: weakref.ref[Line]) -> None:
    found = line()
    if found is not None and found.waiting:
        found.end()
