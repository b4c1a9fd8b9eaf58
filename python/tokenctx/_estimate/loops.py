"""Where the work of an asynchronous call is done: in the loop, or in a thread."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def here(work: Callable[..., T], *arguments: Any) -> T:
    """The result of `work`, done in the loop."""
    return work(*arguments)


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """The result of `work`, done in a thread where the loop is one of asyncio."""
    import asyncio

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # another library's loop
        return work(*arguments)
    return await loop.run_in_executor(None, functools.partial(work, *arguments))
