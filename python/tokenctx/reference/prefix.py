"""Known prefixes: the billed total at a prefix digest, bounded in bytes and in time."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ENTRY_BYTES: Final = 128
"""Memory that one entry is charged with: key, totals, expiry, links and table overhead."""


@dataclass(frozen=True)
class KnownTotal:
    """Input tokens of a prefix.

    `derived_tokens` of them are the output of the call before, not yet billed as input; 0 if the
    provider has billed them all. It was billed with the options of this identity (tool choice,
    output schema, thinking), which were counted as `options_tokens`.
    """

    tokens: int
    derived_tokens: int = 0
    options: bytes = b""
    options_tokens: int = 0

    @property
    def is_billed(self) -> bool:
        """Whether the provider has billed all of it as input."""
        return self.derived_tokens == 0


class PrefixStore:
    """Known totals by prefix digest, least recently used first out."""

    def __init__(self, capacity_bytes: int, ttl_seconds: float) -> None:
        self._capacity = max(1, capacity_bytes // ENTRY_BYTES)
        self._ttl_seconds = ttl_seconds
        self._entries: OrderedDict[bytes, tuple[KnownTotal, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def record(self, digest: bytes, known: KnownTotal, now_seconds: float) -> None:
        """Remember `known` for the prefix; a billed total is not replaced by a derived one."""
        found = self._entries.get(digest)
        is_fresh = found is not None and now_seconds < found[1]
        if found is not None and is_fresh and found[0].is_billed and not known.is_billed:
            known = found[0]
        self._entries[digest] = known, now_seconds + self._ttl_seconds
        self._entries.move_to_end(digest)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def deepest(
        self, digests: Sequence[bytes], now_seconds: float
    ) -> tuple[int, KnownTotal] | None:
        """Index and total of the last of `digests` that is known and not expired."""
        for index in range(len(digests) - 1, -1, -1):
            found = self._entries.get(digests[index])
            if found is None:
                continue
            if now_seconds < found[1]:
                self._entries.move_to_end(digests[index])
                return index, found[0]
            del self._entries[digests[index]]
        return None

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
