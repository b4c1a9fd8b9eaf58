"""A time that a piece of work has, on every Python."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


class Deadline:
    """`async with Deadline(seconds)`: cancels what is in it, which then raises TimeoutError."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_over = False

    async def __aenter__(self) -> None:
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)

    def _expire(self) -> None:
        self._is_over = True
        if self._task is not None:
            self._task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if self._is_over and kind is asyncio.CancelledError:
            uncancel = getattr(self._task, "uncancel", None)  # from Python 3.11
            if uncancel is not None and uncancel() > 0:
                return  # somebody else cancels too
            raise TimeoutError from None
