"""Known prefixes: the billed total at a prefix digest, bounded in number and in time."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ENTRY_BYTES: Final = 48
"""Memory that one entry is charged with in Rust; here it only says how many are kept."""
LATEST_KEPT: Final = 3
"""So many of the latest boundaries of a conversation are kept, whatever their distance."""
SPREAD: Final = 8
"""An older one goes if those beside it are no further apart, as a ratio of their distances."""


@dataclass(frozen=True)
class KnownTotal:
    """Input tokens of a prefix.

    `derived_tokens` of them are the output of the call before, not yet billed as input; 0 if the
    provider has billed them all. `reasoning_tokens` of them are reasoning that the next turn of the
    user drops; 0 if there is none, or if nobody has said how much. It was billed with the options
    of this identity (tool choice, output schema, thinking), which were counted as `options_tokens`.
    """

    tokens: int
    derived_tokens: int = 0
    options: bytes = b""
    options_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def is_billed(self) -> bool:
        """Whether the provider has billed all of it as input."""
        return self.derived_tokens == 0


@dataclass(frozen=True)
class Boundary:
    """The end of a recorded request or of its reply, `message_count` messages deep."""

    message_count: int
    digest: bytes
    total: KnownTotal


@dataclass(frozen=True)
class Entry:
    """What is kept of a prefix; `back` messages before it is the boundary before, if not 0."""

    total: KnownTotal
    expires_seconds: float
    back: int = 0


class PrefixStore:
    """Known totals by prefix digest, least recently used first out."""

    def __init__(self, capacity_bytes: int, ttl_seconds: float) -> None:
        self._capacity = max(1, capacity_bytes // ENTRY_BYTES)
        self._capacity_bytes = capacity_bytes
        self._ttl_seconds = ttl_seconds
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._counts = dict.fromkeys(
            ("lookup_hits", "lookup_misses", "superseded", "evicted", "expired"), 0
        )

    def __len__(self) -> int:
        return len(self._entries)

    def record(
        self, digests: Sequence[bytes], boundaries: Sequence[Boundary], now_seconds: float
    ) -> None:
        """Remember the `boundaries` of a call and forget those that are no longer needed.

        `digests` are those of the request's prefixes of one message, two, ...
        """
        if not boundaries:
            return
        new = [boundary.message_count for boundary in reversed(boundaries)]
        counts = new + self._known_before(digests[: new[-1] - 1], now_seconds)
        needless = superseded(counts)
        for count in needless:
            del self._entries[digests[count - 1]]
        self._counts["superseded"] += len(needless)
        kept = [count for count in counts if count not in needless]
        back = {one: one - other for one, other in itertools.pairwise(kept)}
        for boundary in reversed(boundaries):
            self._put(boundary, back.get(boundary.message_count, 0), now_seconds)
        for count in kept[len(new) :]:
            digest = digests[count - 1]
            if digest in self._entries:
                self._entries[digest] = replace(self._entries[digest], back=back.get(count, 0))

    def insert(self, digest: bytes, total: KnownTotal, now_seconds: float) -> None:
        """Remember `total` for the prefix `digest`, wherever its conversation is known else."""
        self._put(Boundary(0, digest, total), 0, now_seconds)

    def deepest(
        self, digests: Sequence[bytes], now_seconds: float
    ) -> tuple[int, KnownTotal] | None:
        """Index and total of the last of `digests` that is known and not expired."""
        found = self.find(digests, now_seconds)
        self._counts["lookup_misses" if found is None else "lookup_hits"] += 1
        return found

    def find(self, digests: Sequence[bytes], now_seconds: float) -> tuple[int, KnownTotal] | None:
        """As `deepest`, in no statistics."""
        for index in range(len(digests) - 1, -1, -1):
            found = self._get(digests[index], now_seconds)
            if found is not None:
                self._entries.move_to_end(digests[index])
                return index, found.total
        return None

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def stats(self) -> dict[str, int]:
        """What is kept, and what was asked and lost so far."""
        return {
            "known_prefixes": len(self),
            "used_bytes": len(self) * ENTRY_BYTES,
            "capacity_bytes": self._capacity_bytes,
            **self._counts,
        }

    def _get(self, digest: bytes, now_seconds: float) -> Entry | None:
        found = self._entries.get(digest)
        if found is not None and now_seconds >= found.expires_seconds:
            del self._entries[digest]
            self._counts["expired"] += 1
            return None
        return found

    def _known_before(self, digests: Sequence[bytes], now_seconds: float) -> list[int]:
        """Message counts of the known boundaries of a conversation, the deepest first."""
        found: list[int] = []
        count, back = len(digests) + 1, 1
        while back < count:
            count -= back
            entry = self._get(digests[count - 1], now_seconds)
            if entry is not None:
                found.append(count)
                back = entry.back
            if found and (entry is None or not back):
                break
        return found

    def _put(self, boundary: Boundary, back: int, now_seconds: float) -> None:
        """Set what is known; a billed total is not replaced by a derived one."""
        found, total = self._get(boundary.digest, now_seconds), boundary.total
        if found is not None and found.total.is_billed and not total.is_billed:
            total = found.total
        self._entries[boundary.digest] = Entry(total, now_seconds + self._ttl_seconds, back)
        self._entries.move_to_end(boundary.digest)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)
            self._counts["evicted"] += 1


def superseded(counts: Sequence[int]) -> set[int]:
    """Those of `counts`, the deepest first, that are needless: their neighbours are near enough.

    The latest and the first stay.
    """
    needless: set[int] = set()
    last_kept = counts[0] - counts[:LATEST_KEPT][-1]
    for place in range(LATEST_KEPT, len(counts) - 1):
        if counts[0] - counts[place + 1] <= last_kept * SPREAD:
            needless.add(counts[place])
        else:
            last_kept = counts[0] - counts[place]
    return needless
