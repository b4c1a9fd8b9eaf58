"""The numbers of several processes as one: each leaves its own in a folder and adds the others'."""

from __future__ import annotations

import atexit
import json
import os
import secrets
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenctx._estimate.metric_table import INSTRUMENTS
from tokenctx._estimate.metrics import merged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenctx._estimate.metrics import Metrics, Snapshot

SHARE_SECONDS: Final = 1.0
"""How old the numbers of the other processes are at most."""
DEAD_SECONDS: Final = 10.0
"""A process that has told nothing for so long keeps nothing any more; its counts stay."""
_ALL: Final[weakref.WeakSet[Processes]] = weakref.WeakSet()


class Processes:
    """The counts of all processes that leave their numbers in one folder.

    A process leaves them once a second from its first estimate on, by a thread of its own, and when
    it ends. One that is forked begins with nothing: what was counted before is its parent's.
    Nothing of it raises: a full disk costs the numbers of a process, and no request.
    """

    def __init__(self, metrics: Metrics, folder: str | os.PathLike[str]) -> None:
        self._metrics = metrics
        self._folder = Path(folder)
        self._before: Snapshot = {}
        self._thread: threading.Thread | None = None
        self._begin()
        metrics.listen(self.start)
        _ALL.add(self)

    def snapshot(self) -> Snapshot:
        """The numbers of all: counts of all that there were, states of those that live.

        They are told before they are shown, so that no count is less in the next scrape, whichever
        process answers it.
        """
        whole = self.tell()
        for path in self._folder.glob("*.json"):
            if path.name != self._name:
                _add(whole, *_told(path))
        return whole

    def tell(self) -> Snapshot:
        """Leave the numbers of this process for the others; they are given back."""
        with self._is_telling:  # a scrape is answered in a thread
            own = self._metrics.snapshot()
            for name, series in self._before.items():
                _subtract(own.get(name, {}), series)
            values = {
                name: [[list(labels), value] for labels, value in series.items()]
                for name, series in own.items()
            }
            with suppress(OSError):
                replace_file(self._folder / self._name, json.dumps(values).encode())
        return own

    def start(self, _: object = None) -> None:
        """Leave the numbers once a second from now on, as after a first estimate."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=_tell_always,
                args=(weakref.ref(self), self._has_stopped),
                name="tokenctx metrics",
                daemon=True,
            )
            self._thread.start()

    def stop(self) -> None:
        """Leave the numbers for the last time."""
        self._has_stopped.set()
        self.tell()

    def forked(self) -> None:
        """Begin anew, in a process that has just been forked."""
        counted = self._metrics.snapshot()
        self._before = {
            row.name: counted[row.name]
            for row in INSTRUMENTS
            if row.kind != "gauge" and row.name in counted
        }
        self._begin()

    def _begin(self) -> None:
        # Numbers of processes come again.
        self._name = f"{os.getpid()}.{secrets.token_hex(8)}.json"
        self._is_telling = threading.Lock()
        self._has_stopped = threading.Event()
        self._thread = None


def _tell_always(owner: weakref.ref[Processes], has_stopped: threading.Event) -> None:
    while (processes := owner()) is not None:
        processes.tell()
        del processes
        if has_stopped.wait(SHARE_SECONDS):
            return


@atexit.register
def _last() -> None:
    for processes in list(_ALL):
        processes.stop()


def _forked() -> None:
    for processes in list(_ALL):
        processes.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file at once or not at all, for the owner alone."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123  # of a descriptor
        file.write(content)
    fresh.replace(path)


def _told(path: Path) -> tuple[dict[str, Any], bool]:
    """The answer of another process, and whether it lives; nothing if it cannot be read."""
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


def _subtract(series: dict[Any, Any], before: dict[Any, Any]) -> None:
    """Take what was counted before out of `series`."""
    for labels, value in before.items():
        now = series.get(labels)
        if isinstance(now, list):
            series[labels] = [a - b for a, b in zip(now, value, strict=True)]
        elif now is not None:
            series[labels] = now - value


def _series(values: dict[str, Any], name: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for labels, value in values.get(name, ()):
        yield tuple(labels), value
