"""Streams with scaled usage, as iterators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from tokenctx.usage.normal import Usage, normalize_usage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from tokenctx._core import Rewriter
    from tokenctx.usage.scaled import ScaledUsage

Numbers = list[tuple[str, int, int]]
"""Path in a usage object, real and scaled number."""


def usage_of_numbers(first: Numbers, last: Numbers) -> Usage:
    """The real usage in the numbers of the first and the last event; 0 replaces nothing."""
    usage: dict[str, Any] = {}
    for path, real, _ in [*first, *(number for number in last if number[1])]:
        *names, name = path.split(".")
        inner = usage
        for step in names:
            inner = inner.setdefault(step, {})
            if not isinstance(inner, dict):
                break
        else:
            inner[name] = real
    return normalize_usage({"usage": usage}) or Usage()


class _Stream(ABC):
    """The state that both kinds of streams share: usage so far, its true numbers first."""

    def __init__(
        self,
        chunks: Any,
        rewriter: Rewriter,
        scaled: Callable[[Usage], ScaledUsage],
        reported: Callable[[ScaledUsage], ScaledUsage],
    ) -> None:
        self._chunks = chunks
        self._rewriter = rewriter
        self._scaled = scaled
        self._reported = reported
        self._is_whole = False
        self._sent: Any = self._send()

    @abstractmethod
    def _send(self) -> Any:
        """The generator of what is passed on."""

    @property
    def usage(self) -> ScaledUsage:
        """The best known usage; partial until the source has ended."""
        real = usage_of_numbers(*self._rewriter.numbers())
        return self._scaled(replace(real, is_partial=not self._is_whole))

    @property
    def normal_usage(self) -> Usage:
        """The real one."""
        return self.usage.real

    @property
    def long_event_count(self) -> int:
        """Events above 1 MiB, which passed as they were."""
        return self._rewriter.long_event_count


class ScaledStream(_Stream, Iterator[bytes]):
    """A stream with scaled usage: an iterator over chunks of bytes."""

    def _send(self) -> Generator[bytes, None, None]:
        try:
            for chunk in self._chunks:
                if sent := self._rewriter.push(chunk):
                    yield sent
            if left := self._rewriter.finish():
                yield left
            self._is_whole = True
        finally:
            if close := getattr(self._chunks, "close", None):
                close()
            self._reported(self.usage)

    def __next__(self) -> bytes:
        return cast("bytes", next(self._sent))

    def close(self) -> None:
        """End the stream and its source."""
        self._sent.close()


class AsyncScaledStream(_Stream, AsyncIterator[bytes]):
    """A stream with scaled usage: an async iterator over chunks of bytes."""

    async def _send(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._chunks:
                if sent := self._rewriter.push(chunk):
                    yield sent
            if left := self._rewriter.finish():
                yield left
            self._is_whole = True
        finally:
            if close := getattr(self._chunks, "aclose", None):
                await close()
            self._reported(self.usage)

    async def __anext__(self) -> bytes:
        return cast("bytes", await anext(self._sent))

    async def aclose(self) -> None:
        """End the stream and its source."""
        await self._sent.aclose()
