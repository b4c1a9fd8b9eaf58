"""What stands between an estimator and a shared store: keys, a deadline, breakers, a queue.

Nothing here raises, whatever the store does, and nothing waits longer than the deadline. What the
store answers is not believed: the engine opens each value with the digest it was asked for.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import concurrent.futures
import functools
import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from tokenctx.stores.breaker import Breaker
from tokenctx.stores.outbox import Outbox
from tokenctx.stores.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from tokenctx.stores.outbox import Entries
    from tokenctx.stores.protocol import PrefixStore, Values

THREADS: Final = 16
"""Calls that may be stuck at once: those that open a breaker, then one each half second, for a
client that gives up after 5 s. So after an outage one of them is always about to try again."""
PROBE_CALLS: Final = 3
"""A probe opens a connection first, so its first call may be slow."""
ASYNC_SECONDS: Final = 0.5
"""How long an asynchronous call may take that nobody waits for."""
MAX_VALUE_CHARACTERS: Final = 128
"""A sealed value has 92 at most."""
_POLL_SECONDS: Final = 0.002


@dataclass(frozen=True)
class Question:
    """What to ask a store: `digests`, the deepest last, of the conversation with this `root`.

    `insert` takes over the sealed value of a digest, or says that it is not what was sealed for it.
    """

    root: bytes
    digests: Sequence[bytes]
    insert: Callable[[bytes, bytes], bool]

    def keys(self) -> list[str]:
        """What the digests are stored under."""
        return [_key(self.root, digest) for digest in self.digests]


@dataclass
class _State:
    """All that must not outlive a fork: locks, threads, what waits to be written."""

    pid: int = field(default_factory=os.getpid)
    reads: Breaker = field(default_factory=lambda: Breaker("lookups"))
    outbox: Outbox = field(default_factory=Outbox)
    readers: Threads = field(default_factory=lambda: Threads(THREADS))
    writers: Threads = field(default_factory=lambda: Threads(THREADS))
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    taken: int = 0
    refused: int = 0


class SharedPrefixes:
    """A shared store that costs no more than its deadline and never fails.

    Threads start with the first lookup or write, tasks on the loop that runs then; after a fork the
    child begins anew.
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
        """Whether a lookup would be made now."""
        return self._state.reads.admits()

    def lookup(self, question: Question) -> None:
        """Take over what the store has; give up when the deadline has passed.

        Nothing from an asynchronous store, which cannot be waited for here.
        """
        if self._is_async or self._is_left_to_probe(question):
            return
        state = self._state
        call = state.readers.submit(functools.partial(self._ask, state, question))
        try:
            error = call.exception(self._deadline_seconds)
        except concurrent.futures.TimeoutError:
            call.cancel()
            state.reads.failed("no answer in time")
        else:
            _count(state.reads, error)

    async def alookup(self, question: Question) -> None:
        """As `lookup`, of any store, without blocking the loop."""
        if self._is_left_to_probe(question):
            return
        state = self._state
        if self._is_async:
            call: asyncio.Future[None] = self._task(self._aask(state, question))
        else:
            ask = functools.partial(self._ask, state, question)
            call = asyncio.wrap_future(state.readers.submit(ask))
            call.add_done_callback(_looked_at)
        try:
            await asyncio.wait([call], timeout=self._deadline_seconds)
        finally:
            is_late = not call.done()
            self._give_up(call)
        if is_late or call.cancelled():
            state.reads.failed("no answer in time" if is_late else "cancelled inside")
        else:
            _count(state.reads, call.exception())

    def _give_up(self, call: asyncio.Future[None]) -> None:
        """Leave a call behind: what has begun may end, so that no connection is lost by haste."""
        if self._is_async and not call.done():
            asyncio.get_running_loop().call_later(ASYNC_SECONDS, call.cancel)
        else:
            call.cancel()

    def put(self, entries: Iterable[tuple[bytes, bytes, bytes]]) -> None:
        """Write entries (root, digest, sealed value) behind: soon, and not here."""
        packed = [(_key(root, digest), _text(value)) for root, digest, value in entries]
        self._state.outbox.put(packed)
        self._begin_write()

    def flush(self, timeout_seconds: float) -> bool:
        """Whether all was written within `timeout_seconds`."""
        end = time.monotonic() + timeout_seconds
        while not self._is_flushed() and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        return self._state.outbox.is_empty

    async def aflush(self, timeout_seconds: float) -> bool:
        """Whether all was written within `timeout_seconds`, and no task of ours is left."""
        end = time.monotonic() + timeout_seconds
        while not (is_done := self._is_flushed() and not self._state.tasks):
            if time.monotonic() >= end:
                break
            await asyncio.sleep(_POLL_SECONDS)
        return is_done

    def stats(self) -> dict[str, int]:
        """Values taken and refused, entries written and dropped, and what is stopped (1)."""
        state = self._state
        return {
            "shared_taken": state.taken,
            "shared_refused": state.refused,
            "shared_written": state.outbox.written,
            "shared_dropped": state.outbox.dropped,
            "shared_reads_stopped": int(state.reads.is_open),
            "shared_writes_stopped": int(state.outbox.breaker.is_open),
        }

    def _is_flushed(self) -> bool:
        self._begin_write()
        return self._state.outbox.is_empty

    def _is_left_to_probe(self, question: Question) -> bool:
        """Whether there is no waiting for the store; it is tried beside the estimates, if due."""
        state = self._state
        if not state.reads.is_open:
            return False
        if not state.reads.claim_probe():
            return True
        if self._is_async:
            self._task(asyncio.wait_for(self._aprobe(state, question), ASYNC_SECONDS))
        elif not state.readers.is_full:
            state.readers.submit(functools.partial(self._probe, state, question))
        return True

    def _probe(self, state: _State, question: Question) -> None:
        for _ in range(PROBE_CALLS):
            begin = time.monotonic()
            self._ask(state, question)
            if time.monotonic() - begin < self._deadline_seconds:
                state.reads.close()
                return

    async def _aprobe(self, state: _State, question: Question) -> None:
        for _ in range(PROBE_CALLS):
            begin = time.monotonic()
            await self._aask(state, question)
            if time.monotonic() - begin < self._deadline_seconds:
                state.reads.close()
                return

    def _ask(self, state: _State, question: Question) -> None:
        _take(state, question, cast("Values", self._store.get_many(question.keys())))

    async def _aask(self, state: _State, question: Question) -> None:
        values = await cast("Awaitable[Values]", self._store.get_many(question.keys()))
        _take(state, question, values)

    def _begin_write(self) -> None:
        """Start a writer, if there is something to write and nobody does."""
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

    def _write(self, outbox: Outbox, writer: int) -> None:
        while (entries := outbox.take(writer)) and self._write_batch(outbox, writer, entries):
            pass

    def _write_batch(self, outbox: Outbox, writer: int, entries: Entries) -> bool:
        """Whether to go on."""
        try:
            self._store.set_many(dict(entries), self._ttl_seconds)
        except BaseException as error:  # nobody waits for it
            return outbox.failed(writer, entries, type(error).__name__)
        outbox.done(entries)
        return True

    async def _awrite(self, outbox: Outbox, writer: int) -> None:
        while (entries := outbox.take(writer)) and await self._awrite_batch(
            outbox, writer, entries
        ):
            pass

    async def _awrite_batch(self, outbox: Outbox, writer: int, entries: Entries) -> bool:
        """Whether to go on."""
        try:
            call = self._store.set_many(dict(entries), self._ttl_seconds)
            await asyncio.wait_for(cast("Awaitable[object]", call), ASYNC_SECONDS)
        except asyncio.CancelledError:
            outbox.failed(writer, entries, "cancelled")
            raise
        except BaseException as error:  # nobody waits for it
            return outbox.failed(writer, entries, type(error).__name__)
        outbox.done(entries)
        return True

    def _task(self, work: Any) -> asyncio.Task[Any]:
        """`work` as a task that is kept alive and whose failure nobody else asks for."""
        task = asyncio.get_running_loop().create_task(work)
        tasks = self._state.tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(_looked_at)
        return task


def _take(state: _State, question: Question, values: Values) -> None:
    """Insert the deepest that is there. Raises what it likes for values that are no answer."""
    found = list(zip(question.digests, values, strict=True))
    taken = refused = 0
    while found and not taken:
        digest, value = found.pop()
        if value is not None and question.insert(digest, _sealed(value)):
            taken = 1
        elif value is not None:
            refused += 1
    with state.lock:
        state.taken += taken
        state.refused += refused


def _count(reads: Breaker, error: BaseException | None) -> None:
    if error is None:
        reads.succeeded()
    else:
        reads.failed(type(error).__name__)


def _looked_at(call: asyncio.Future[Any]) -> None:
    """Keep the loop from reporting a failure that nobody waited for."""
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
