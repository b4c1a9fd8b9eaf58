"""The layer between an estimator and a shared store: keys, a deadline, breakers, a queue.

Nothing here raises, whatever the store does, and nothing waits longer than the deadline. What the
store answers is not believed: the engine opens each value with the digest it was asked for.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import concurrent.futures
import contextlib
import functools
import os
import threading
import time
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from tokenctx.stores.breaker import Breaker
from tokenctx.stores.outbox import Outbox
from tokenctx.stores.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from tokenctx.stores.protocol import PrefixStore, Values

    Entries = list[tuple[str, str]]

THREADS: Final = 16
"""Calls that may be stuck at once: those that open a breaker, then one each half second, for a
client that gives up after 5 s. So after an outage one of them is always about to try again."""
PROBE_CALLS: Final = 3
"""A probe opens a connection first, so its first call may be slow."""
PROBE_TICK_SECONDS: Final = 0.1
LATE_SECONDS: Final = 0.5
"""The longest that a call may take after its caller has stopped waiting."""
WAITS: Final = 3
"""A deadline on the loop is waited for in this many parts, to see how late the loop is."""
TIMER_SECONDS: Final = 0.001
"""How exact the loop's timers are."""
LOOKS: Final = 8
"""More turns of the loop for an answer that may have come while the loop was held."""
MAX_VALUE_CHARACTERS: Final = 384
"""A sealed total has 92 at most, what was learned of a model 322."""
_POLL_SECONDS: Final = 0.002


THREAD: Final = "thread"
"""The thread that probes a synchronous store; a loop does an asynchronous one."""


@dataclass(frozen=True)
class Question:
    """A question for a store: `digests`, the deepest last, of the conversation with this `root`.

    `insert` takes over the sealed value of a digest, or says that it is not what was sealed for it.
    Of `digests` the deepest that is there is taken; of `points`, by `insert_point`, all. What was
    `learned` of the model, if that is asked for, is taken by `insert_learned`.
    """

    root: bytes
    digests: Sequence[bytes]
    insert: Callable[[bytes, bytes], bool]
    points: Sequence[bytes] = ()
    insert_point: Callable[[bytes, bytes], bool] | None = None
    learned: bytes | None = None
    insert_learned: Callable[[bytes, bytes], bool] | None = None

    def batches(self) -> list[list[str]]:
        """All keys that are asked for at once: digests, points, and the key of what was learned."""
        batch = [_key(self.root, digest) for digest in (*self.digests, *self.points)]
        learned = [] if self.learned is None else [_key(self.learned, self.learned)]
        return [keys for keys in (batch, learned) if keys]


@dataclass
class _State:
    """All that must not outlive a fork: locks, threads, what waits to be written."""

    pid: int = field(default_factory=os.getpid)
    reads: Breaker = field(default_factory=lambda: Breaker("lookups"))
    outbox: Outbox[str] = field(default_factory=Outbox)
    readers: Threads = field(default_factory=lambda: Threads(THREADS))
    writers: Threads = field(default_factory=lambda: Threads(THREADS))
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    late_calls: deque[tuple[float, concurrent.futures.Future[None]]] = field(default_factory=deque)
    question: Question | None = None
    prober: object = None
    late: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    taken: int = 0
    refused: int = 0


class SharedPrefixes:
    """A shared store that costs no more than its deadline and never fails.

    The deadline is time of the store: where this process or its loop is held by other work, a call
    has a little longer and is no failure before it has ended. Threads start with the first lookup
    or write, tasks on the loop that runs then; after a fork the child begins anew.
    """

    def __init__(self, store: PrefixStore, ttl_seconds: float) -> None:
        self._store = store
        self._is_async = store.is_async
        self._deadline_seconds = store.deadline_seconds
        self._ttl_seconds = int(max(1.0, min(ttl_seconds, 2**31)))
        self._now = _State()

    @property
    def _state(self) -> _State:
        if self._now.pid != os.getpid():
            self._now = _State()
        return self._now

    def is_asked(self) -> bool:
        """True if a lookup would be made now."""
        return self._state.reads.admits()

    def lookup(self, question: Question) -> None:
        """Take over what the store has; give up when the deadline has passed.

        Nothing from an asynchronous store, which cannot be waited for here.
        """
        if self._is_async or self._is_left_to_probe(question):
            return
        state = self._state
        state.question = question
        self._judge_late(state)
        began, processor_time = time.monotonic(), time.process_time()
        call = state.readers.submit(functools.partial(self._ask, state, question))
        if _ends_within(call, self._deadline_seconds):
            self._count(state, call.exception(), began)
            return
        seconds = time.monotonic() - began
        is_held = (
            seconds > 2 * self._deadline_seconds
            or time.process_time() - processor_time > seconds / 2
        )
        if is_held and _ends_within(call, self._deadline_seconds):
            self._count(state, call.exception(), began)
            return
        if is_held and not state.readers.is_full:
            state.late_calls.append((began, call))
        else:
            call.cancel()
            state.reads.failed("no answer in time", began)
        self._count_late(state)

    async def alookup(self, question: Question) -> None:
        """As `lookup`, of any store, without blocking the loop; nothing where no loop runs."""
        loop = _running_loop()
        if loop is None or self._is_left_to_probe(question):
            return
        state = self._state
        state.question = question
        self._judge_late(state)
        began = time.monotonic()
        if self._is_async:
            call: asyncio.Future[None] = self._task(self._aask(state, question))
        else:
            ask = functools.partial(self._ask, state, question)
            call = asyncio.wrap_future(state.readers.submit(ask))
            call.add_done_callback(_looked_at)
        is_answered: bool | None = None
        try:
            is_answered = await _answered(call, self._deadline_seconds)
        finally:
            if not call.done():
                self._give_up(call)
        if is_answered:
            error = RuntimeError() if call.cancelled() else call.exception()
            why = "cancelled inside" if call.cancelled() else type(error).__name__
            self._count(state, error, began, why)
            return
        if is_answered is None:
            call.add_done_callback(functools.partial(_count_done, state.reads, began))
        else:
            state.reads.failed("no answer in time", began)
        self._count_late(state)

    def _count(
        self, state: _State, error: BaseException | None, began: float, why: str | None = None
    ) -> None:
        if error is None:
            state.reads.succeeded()
        else:
            state.reads.failed(why or type(error).__name__, began)
            self._begin_probing(state)

    def _count_late(self, state: _State) -> None:
        with state.lock:
            state.late += 1
        self._begin_probing(state)

    def _judge_late(self, state: _State) -> None:
        """Count the calls that were left to end by themselves: those that failed or hang."""
        now = time.monotonic()
        with state.lock:
            calls, state.late_calls = state.late_calls, deque()
        for began, call in calls:
            if call.done():
                if (error := call.exception()) is not None:
                    state.reads.failed(type(error).__name__, began)
            elif now - began > LATE_SECONDS:
                state.reads.failed("no answer in time", began)
            else:
                state.late_calls.append((began, call))

    def _give_up(self, call: asyncio.Future[None]) -> None:
        """Leave a call behind: what has begun may end, so that no connection is lost by haste."""
        if self._is_async:
            asyncio.get_running_loop().call_later(LATE_SECONDS, call.cancel)
        else:
            call.cancel()

    def put(self, entries: Iterable[tuple[bytes, bytes, bytes]]) -> None:
        """Write entries (root, digest, sealed value) behind: soon, and not here."""
        packed = [(_key(root, digest), _text(value)) for root, digest, value in entries]
        self._state.outbox.put(packed)
        self._begin_write()

    def flush(self, timeout_seconds: float) -> bool:
        """True if all was written within `timeout_seconds`."""
        end = time.monotonic() + timeout_seconds
        while not self._is_flushed() and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        return self._state.outbox.is_empty

    async def aflush(self, timeout_seconds: float) -> bool:
        """True if all was written within `timeout_seconds`, and no task of ours is left."""
        if _running_loop() is None:
            raise RuntimeError("aflush needs asyncio, and its loop does not run; call flush()")
        end = time.monotonic() + timeout_seconds
        while not (is_done := self._is_flushed() and not self._state.tasks):
            if time.monotonic() >= end:
                break
            await asyncio.sleep(_POLL_SECONDS)
        return is_done

    def stats(self) -> dict[str, int]:
        """Values taken and refused, late calls, entries written and dropped, what is stopped."""
        state = self._state
        return {
            "shared_taken": state.taken,
            "shared_refused": state.refused,
            "shared_late": state.late,
            "shared_written": state.outbox.written,
            "shared_dropped": state.outbox.dropped,
            "shared_reads_stopped": int(state.reads.is_open),
            "shared_reads_stopped_seconds": int(state.reads.open_seconds),
            "shared_writes_stopped": int(state.outbox.breaker.is_open),
            "shared_writes_stopped_seconds": int(state.outbox.breaker.open_seconds),
        }

    def stopped(self) -> dict[str, tuple[float, str]]:
        """Seconds and the kind of the last failure, for `reads` and `writes`; 0 and nothing."""
        breakers = {"reads": self._state.reads, "writes": self._state.outbox.breaker}
        return {name: breaker.stopped() for name, breaker in breakers.items()}

    def _is_flushed(self) -> bool:
        self._begin_write()
        return self._state.outbox.is_empty

    def _is_left_to_probe(self, question: Question) -> bool:
        """True if there is no waiting for the store; it is tried beside the estimates, if due."""
        state = self._state
        if not state.reads.is_open:
            return False
        state.question = question
        self._begin_probing(state)
        self._probe_if_due(state)
        return True

    def _begin_probing(self, state: _State) -> None:
        """See to it that an open breaker is probed, whether or not estimates come.

        A daemon thread does it, or timers of the loop; both end with the breaker's opening, and
        neither keeps this object alive.
        """
        if not state.reads.is_open:
            return
        me = weakref.ref(self)
        if self._is_async:
            loop = _running_loop()
            if loop is not None and state.prober is not loop:
                state.prober = loop
                loop.call_later(PROBE_TICK_SECONDS, _probe_on_loop, me, loop)
            return
        with state.lock:
            is_first, state.prober = state.prober is None, THREAD
        if is_first:
            with contextlib.suppress(RuntimeError):  # no more threads; or the interpreter ends
                threading.Thread(
                    target=_probe_in_thread, args=(me,), name="tokenctx", daemon=True
                ).start()

    def goes_on_probing(self, prober: object = THREAD) -> bool:
        """Make the probe that is due; whether this `prober` is needed any longer."""
        state = self._state
        with state.lock:
            if state.prober is not prober:
                return False
            if not state.reads.is_open:
                state.prober = None
                return False
        self._probe_if_due(state)
        return True

    def _probe_if_due(self, state: _State) -> None:
        question = state.question
        if question is None or not state.reads.claim_probe():
            return
        if self._is_async:
            self._task(asyncio.wait_for(self._aprobe(state, question), LATE_SECONDS))
        elif not state.readers.is_full:
            state.readers.submit(functools.partial(self._probe, state, question))

    def _probe(self, state: _State, question: Question) -> None:
        for _ in range(PROBE_CALLS):
            began, processor_time = time.monotonic(), time.process_time()
            self._ask(state, question)
            seconds = time.monotonic() - began
            is_held = time.process_time() - processor_time > seconds / 2
            if seconds < self._deadline_seconds or (is_held and seconds < LATE_SECONDS):
                state.reads.close()
                return

    async def _aprobe(self, state: _State, question: Question) -> None:
        for _ in range(PROBE_CALLS):
            call = self._task(self._aask(state, question))
            is_answered = await _answered(call, self._deadline_seconds)
            await call
            if is_answered is not False:
                state.reads.close()
                return

    def _ask(self, state: _State, question: Question) -> None:
        values: list[Any] = []
        for keys in question.batches():
            values += cast("Values", self._store.get_many(keys))
        _take(state, question, values)

    async def _aask(self, state: _State, question: Question) -> None:
        values: list[Any] = []
        for keys in question.batches():
            values += await cast("Awaitable[Values]", self._store.get_many(keys))
        _take(state, question, values)

    def _begin_write(self) -> None:
        """Start a writer, if there is something to write and none is running."""
        state, loop = self._state, None
        if self._is_async:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # the next call on the loop takes it along
                return
        writer = None if state.writers.is_full else state.outbox.new_writer()
        if writer is None:
            return
        if loop is None:
            state.writers.submit(functools.partial(self._write, state.outbox, writer))
        else:
            self._task(self._awrite(state.outbox, writer))

    def _write(self, outbox: Outbox[str], writer: int) -> None:
        while (entries := outbox.take(writer)) and self._write_batch(outbox, writer, entries):
            pass

    def _write_batch(self, outbox: Outbox[str], writer: int, entries: Entries) -> bool:
        """True if the thread should go on."""
        try:
            self._store.set_many(dict(entries), self._ttl_seconds)
        except BaseException as error:  # nobody waits for it
            return outbox.failed(writer, entries, type(error).__name__)
        outbox.done(writer, entries)
        return True

    async def _awrite(self, outbox: Outbox[str], writer: int) -> None:
        while (entries := outbox.take(writer)) and await self._awrite_batch(
            outbox, writer, entries
        ):
            pass

    async def _awrite_batch(self, outbox: Outbox[str], writer: int, entries: Entries) -> bool:
        """True if the thread should go on."""
        try:
            call = self._store.set_many(dict(entries), self._ttl_seconds)
            await asyncio.wait_for(cast("Awaitable[object]", call), LATE_SECONDS)
        except asyncio.CancelledError:
            outbox.failed(writer, entries, "cancelled")
            raise
        except BaseException as error:  # nobody waits for it
            return outbox.failed(writer, entries, type(error).__name__)
        outbox.done(writer, entries)
        return True

    def _task(self, work: Any) -> asyncio.Task[Any]:
        """`work` as a task that is kept alive and whose failure is asked for nowhere else."""
        task = asyncio.get_running_loop().create_task(work)
        tasks = self._state.tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(_looked_at)
        return task


def _take(state: _State, question: Question, values: Values) -> None:
    """Insert the deepest that is there. Raises what it likes for values that are no answer."""
    learned = [] if question.learned is None else [question.learned]
    pairs = list(zip((*question.digests, *question.points, *learned), values, strict=True))
    taken = refused = 0
    if learned:
        name, value = pairs.pop()
        if value is not None and question.insert_learned is not None:
            refused += not question.insert_learned(name, _sealed(value))
    found, points = pairs[: len(question.digests)], pairs[len(question.digests) :]
    for digest, value in points:
        if value is not None and question.insert_point is not None:
            refused += not question.insert_point(digest, _sealed(value))
    while found and not taken:
        digest, value = found.pop()
        if value is not None and question.insert(digest, _sealed(value)):
            taken = 1
        elif value is not None:
            refused += 1
    with state.lock:
        state.taken += taken
        state.refused += refused


def _probe_in_thread(reference: weakref.ref[SharedPrefixes]) -> None:
    is_needed, pause = True, threading.Event()
    while is_needed:
        pause.wait(PROBE_TICK_SECONDS)
        shared = reference()
        is_needed = shared is not None and shared.goes_on_probing()
        del shared


def _probe_on_loop(reference: weakref.ref[SharedPrefixes], loop: asyncio.AbstractEventLoop) -> None:
    shared = reference()
    if shared is not None and shared.goes_on_probing(loop):
        loop.call_later(PROBE_TICK_SECONDS, _probe_on_loop, reference, loop)


def _ends_within(call: concurrent.futures.Future[None], seconds: float) -> bool:
    try:
        call.exception(seconds)
    except concurrent.futures.TimeoutError:
        return call.done()
    return True


async def _answered(call: asyncio.Future[None], deadline_seconds: float) -> bool | None:
    """True if `call` ended within the deadline; None if the loop was too late to tell.

    The deadline is waited for in parts, so that a loop that was held for long has turned a few
    times before the answer is given up: it may wait in the socket.
    """
    loop, part = asyncio.get_running_loop(), deadline_seconds / WAITS
    is_held = False
    for _ in range(WAITS):
        began = loop.time()
        await asyncio.wait([call], timeout=part)
        if call.done():
            return True
        is_held |= loop.time() - began > 2 * part + TIMER_SECONDS
    for _ in range(LOOKS):
        await asyncio.sleep(0)
        if call.done():
            return True
    return None if is_held else False


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop of asyncio that runs here; none under another library's."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _count_done(reads: Breaker, began: float, call: asyncio.Future[None]) -> None:
    """Judge a call that was late by its end: a lag of ours is no failure of the store."""
    if call.cancelled():
        reads.failed("no answer in time", began)
    elif (error := call.exception()) is not None:
        reads.failed(type(error).__name__, began)


def _looked_at(call: asyncio.Future[Any]) -> None:
    """Keep the loop from reporting a failure that no caller waits for."""
    if not call.cancelled():
        call.exception()


def _key(root: bytes, digest: bytes) -> str:
    """`tcx1:{8 characters of the root}:22 characters of the digest`."""
    return f"tcx1:{{{_text(root[:6])}}}:{_text(digest)}"


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _sealed(value: Any) -> bytes:
    """The bytes of a value as it was written; empty for anything else."""
    if not isinstance(value, bytes | str) or len(value) > MAX_VALUE_CHARACTERS:
        return b""
    padding = "=" * (-len(value) % 4)
    try:
        return base64.urlsafe_b64decode(
            value + padding if isinstance(value, str) else value + padding.encode()
        )
    except (binascii.Error, ValueError):
        return b""
