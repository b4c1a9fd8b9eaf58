"""One worker of `tokenctx serve`: its app, its part of the metrics, and what it knows."""

from __future__ import annotations

import asyncio
import ctypes
import glob
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenctx._estimate.estimator import HybridTokenEstimator
from tokenctx._estimate.metrics import Metrics
from tokenctx.context.configuration import configure
from tokenctx.gateway.server.app import CountServer, count_server
from tokenctx.integrations._processes import Processes, replace_file
from tokenctx.integrations.metrics import prometheus_of
from tokenctx.stores.redis import RedisPrefixStore

if TYPE_CHECKING:
    from pathlib import Path

_logger = logging.getLogger("tokenctx")
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
        metrics = Metrics()
        self._all = None if settings.folder is None else Processes(metrics, settings.folder)
        self._client: Any = None
        shared = None
        if settings.redis_url is not None:
            from redis.asyncio import Redis

            self._client = Redis.from_url(settings.redis_url, socket_timeout=SOCKET_SECONDS)
            shared = RedisPrefixStore(self._client)
        self._estimator = HybridTokenEstimator(
            secret=settings.secret, shared=shared, metrics=metrics
        )
        self.app = count_server(
            self._estimator,
            token=settings.token,
            collector=prometheus_of((self._all or metrics).snapshot),
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
        if self._all is not None:
            self._all.start()

    async def stop(self) -> None:
        """Leave behind what is known: in the shared store, and in a part of the file."""
        if self._all is not None:
            self._all.stop()
        await self._estimator.aflush()
        if self._client is not None:
            await self._client.aclose()
        known = self._settings.known
        if known is not None:
            part = known.with_name(f"{known.name}.{os.getpid()}.part")
            try:
                replace_file(part, self._estimator.export_known())
                if self._settings.folder is None:
                    merge_known(known, self._settings.secret)
            except (OSError, ValueError) as error:  # a full disk; the server ends all the same
                _logger.error("what is known is lost: %s", error)  # noqa: TRY400  # no traceback


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
        replace_file(known, estimator.export_known())
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
