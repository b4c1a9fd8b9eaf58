"""The protocol of a shared store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    Values = Sequence[bytes | str | None]


class PrefixStore(Protocol):
    """Short ASCII values by short ASCII keys, each kept for some time: a cache.

    With `is_async` both methods return awaitables. They may raise what they like, take as long as
    they like and return wrong values: none of it reaches an estimate. If not `is_async`, they are
    called from several threads.
    """

    @property
    def is_async(self) -> bool:
        """True if the methods return awaitables."""

    @property
    def deadline_seconds(self) -> float:
        """How long an estimate waits for `get_many` at most."""

    def get_many(self, keys: Sequence[str]) -> Values | Awaitable[Values]:
        """The values of `keys` in their order, None for what is not there: one round trip.

        All keys of a call have the same text in braces, the hash tag of a cluster.
        """

    def set_many(self, values: Mapping[str, str], ttl_seconds: int) -> object | Awaitable[object]:
        """Keep `values` for `ttl_seconds`, in place of what was there."""
