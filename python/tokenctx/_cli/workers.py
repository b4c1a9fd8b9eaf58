"""One worker of `tokenctx serve`: its app, its part of the metrics, and what it knows."""

from __future__ import annotations

import asyncio
import ctypes
import glob
import json
import logging
import os
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenctx._estimate.estimator import HybridTokenEstimator
from tokenctx._estimate.metric_table import INSTRUMENTS
from tokenctx._estimate.metrics import Metrics, merged
from tokenctx.context.configuration import configure
from tokenctx.gateway.server.app import CountServer, count_server
from tokenctx.integrations.metrics import prometheus_of
from tokenctx.stores.redis import RedisPrefixStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenctx._estimate.metrics import Snapshot

_logger = logging.getLogger("tokenctx")
SHARE_SECONDS: Final = 1.0
"""How old the numbers of the other workers are at most in `/metrics`."""
DEAD_SECONDS: Final = 10.0
"""A worker that has told nothing for so long keeps nothing any more; its counts stay."""
SOCKET_SECONDS: Final = 0.5
M_MMAP_THRESHOLD: Final = -3
"""Of malloc.h."""
MAPPED_BYTES: Final = 256 << 10
"""The length from which a block is mapped by itself."""
THREADS: Final = 2
"""That count large bodies: each keeps memory of its own, and large ones wait for each other."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The task of every worker.

    Attributes:
        folder: Where workers tell each other their numbers; None for a single one.
    """

    token: str | None
    secret: bytes | None
    redis_url: str | None
    known: Path | None
    folder: Path | None
    max_body_bytes: int
    max_seconds: float


def make_app(settings: Settings) -> CountServer:
    """The app of a worker, in its process, whose warnings go to standard error."""
    logging.basicConfig(format="%(asctime)s tokenctx serve: %(message)s")
    configure()
    give_memory_back()
    return Worker(settings).app


def give_memory_back() -> None:
    """Have what a large body took go back to the system once it was counted.

    The GNU allocator keeps ever larger blocks in heaps of its own, one for each thread, the more of
    them were freed. With a fixed threshold they are mapped each by itself. Others have no such
    call.
    """
    with suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)


class Worker:
    """The estimator of a process, and what is done when its server starts and stops."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._metrics = Metrics()
        self._name = f"{os.getpid()}.{secrets.token_hex(8)}.json"  # numbers of processes come again
        self._is_telling = threading.Lock()
        self._client: Any = None
        shared = None
        if settings.redis_url is not None:
            from redis.asyncio import Redis

            self._client = Redis.from_url(settings.redis_url, socket_timeout=SOCKET_SECONDS)
            shared = RedisPrefixStore(self._client)
        self._estimator = HybridTokenEstimator(
            secret=settings.secret, shared=shared, metrics=self._metrics
        )
        self._telling: asyncio.Task[None] | None = None
        self.app = count_server(
            self._estimator,
            token=settings.token,
            collector=prometheus_of(self.snapshot),
            max_body_bytes=settings.max_body_bytes,
            max_seconds=settings.max_seconds,
            on_start=self.start,
            on_stop=self.stop,
        )

    async def start(self) -> None:
        """Take over what was known, and begin to tell the other workers."""
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tokenctx")
        asyncio.get_running_loop().set_default_executor(threads)
        known = self._settings.known
        if known is not None and known.exists():
            _import(self._estimator, known)
        if self._client is not None:
            with suppress(Exception):  # the first look-up finds a connection, if there is one
                await self._client.ping()
        if self._settings.folder is not None:
            self._telling = asyncio.create_task(self._tell_always())

    async def stop(self) -> None:
        """Leave behind what is known: in the shared store, and in a part of the file."""
        if self._telling is not None:
            self._telling.cancel()
            self._tell()
        await self._estimator.aflush()
        if self._client is not None:
            await self._client.aclose()
        known = self._settings.known
        if known is not None:
            part = known.with_name(f"{known.name}.{os.getpid()}.part")
            try:
                _replace(part, self._estimator.export_known())
                if self._settings.folder is None:
                    merge_known(known, self._settings.secret)
            except (OSError, ValueError) as error:  # a full disk; the server ends all the same
                _logger.error("what is known is lost: %s", error)  # noqa: TRY400  # no traceback

    def snapshot(self) -> Snapshot:
        """The numbers of all workers: counts of all there were, states of those that live.

        They are told before they are shown, so that no count is less in the next scrape, whichever
        worker answers it.
        """
        folder = self._settings.folder
        if folder is None:
            return self._metrics.snapshot()
        whole = self._tell()
        for path in folder.glob("*.json"):
            if path.name != self._name:
                _add(whole, *_told(path))
        return whole

    def _tell(self) -> Snapshot:
        """Leave the numbers of this worker for the others; they are given back."""
        with self._is_telling:  # a scrape is answered in a thread
            own = self._metrics.snapshot()
            values = {
                name: [[list(labels), value] for labels, value in series.items()]
                for name, series in own.items()
            }
            with suppress(OSError):  # a full disk costs the numbers of this worker, and no request
                path = (self._settings.folder or Path()) / self._name
                _replace(path, json.dumps(values).encode())
        return own

    async def _tell_always(self) -> None:
        while True:
            self._tell()
            await asyncio.sleep(SHARE_SECONDS)


def merge_known(known: Path | None, secret: bytes | None) -> None:
    """Write what is in `known` and in the parts that workers left beside it into the one file.

    A file of another secret or release, or one that is cut, is set aside. Raises OSError if one
    cannot be read or written.
    """
    if known is None:
        return
    estimator = HybridTokenEstimator(secret=secret)
    parts = sorted(known.parent.glob(f"{glob.escape(known.name)}.*.part"))
    for path in (known, *parts):
        if path.exists():
            _import(estimator, path)
    if parts:
        _replace(known, estimator.export_known())
    for part in parts:
        part.unlink(missing_ok=True)


def _import(estimator: HybridTokenEstimator, path: Path) -> None:
    """Take over what is in a file; what cannot be taken over is set aside, and the log says so."""
    try:
        estimator.import_known(path.read_bytes())
    except ValueError:
        aside = path.with_name(f"{path.name}.set-aside")
        path.replace(aside)
        _logger.error(  # noqa: TRY400  # a traceback says no more
            "%s is of another secret or release, or damaged: it is now %s, and nothing is known",
            path.name,
            aside.name,
        )


def _replace(path: Path, content: bytes) -> None:
    """Write a file at once or not at all, for the owner alone."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123  # of a descriptor
        file.write(content)
    fresh.replace(path)


def _told(path: Path) -> tuple[dict[str, Any], bool]:
    """The answer of another worker, and whether it lives; nothing if it cannot be read."""
    try:
        age = time.time() - path.stat().st_mtime
        values: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}, False
    return values, age < DEAD_SECONDS


def _add(whole: Snapshot, values: dict[str, Any], is_alive: bool) -> None:  # noqa: FBT001
    for row in INSTRUMENTS:
        if row.kind == "gauge" and not is_alive:
            continue
        series = whole.setdefault(row.name, {})
        for labels, value in _series(values, row.name):
            mine = series.get(labels)
            if mine is None:
                series[labels] = value
            elif isinstance(mine, list):
                series[labels] = [a + b for a, b in zip(mine, value, strict=True)]
            else:
                series[labels] = merged(row, mine, value)


def _series(values: dict[str, Any], name: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for labels, value in values.get(name, ()):
        yield tuple(labels), value
