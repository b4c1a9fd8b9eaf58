"""Shapes of recorded calls: what an edited or branched conversation is compared with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from reference.bounds import STRATA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from reference.prefix import KnownTotal

KEYS: Final = 8
"""Messages that a shape is filed under."""
PLACES: Final = 4
"""Shapes that are filed under one message."""
CANDIDATES: Final = 4
"""Shapes that are compared with a request."""
SHAPE_BYTES: Final = 384
KEY_BYTES: Final = 48
SEEN_BYTES: Final = 8
MAX_TOKENS: Final = 2**21 - 1
ODD: Final = 0x9E37_79B9_7F4A_7C15
"""2^64 over the golden ratio: spreads a name over 64 bits."""


def name_of(digest: bytes) -> int:
    """40 bits of a digest."""
    return int.from_bytes(digest[3:8], "little")


@dataclass(frozen=True)
class Seen:
    """A message of a recorded call: 40 bits of its digest, its stratum, its tokens."""

    name: int
    stratum: str
    tokens: int


@dataclass
class Sum:
    """Messages taken together; `stratum` is the last of theirs."""

    messages: int = 0
    tokens: int = 0
    stratum: str = "text"

    def add(self, seen: Seen) -> None:
        """Take one more message in."""
        self.messages += 1
        self.tokens += seen.tokens
        self.stratum = max(self.stratum, seen.stratum, key=STRATA.index)


@dataclass(frozen=True)
class Shape:
    """What was billed for a recorded call, and what its messages were counted as."""

    family: bytes
    context: bytes
    context_tokens: int
    """Of what stands before the messages, without options."""
    context_stratum: str
    total: KnownTotal
    """Billed for all messages; the reply, if there is one, is derived."""
    turn: int
    """The user's last turn, -1 without one."""
    request_len: int
    """Messages without the reply."""
    messages: tuple[Seen, ...]

    @property
    def names(self) -> list[int]:
        """What its messages are compared by."""
        return [seen.name for seen in self.messages]

    def overlap(self, digests: Sequence[bytes], start: int, bound: Sequence[bool]) -> Overlap:
        """What messages of these digests, of which `start` are known, share with this one.

        Equal messages are paired in their order, but in a run with their neighbours if they can be.
        A message that is `bound` to the one before it, as a result to its call, is not the same
        behind another.
        """
        waiting: dict[int, list[int]] = {}
        for number, seen in enumerate(self.messages):
            waiting.setdefault(seen.name, []).append(number)
        found: list[int | None] = []
        following = 0
        for name in map(name_of, digests):
            numbers = waiting.get(name)
            place = None
            if numbers:
                place = following if following in numbers else numbers[0]
                numbers.remove(place)
            following = 0 if place is None else place + 1
            found.append(place)
        for index, place in enumerate(found):
            before = found[index - 1] if index else None
            if place is not None and bound[index] and before != place - 1:
                found[index] = None
        overlap = Overlap(found)
        for index, place in enumerate(found):
            if place is not None and index >= start:
                overlap.kept.add(self.messages[place])
        for number, seen in enumerate(self.messages):
            if number not in found:
                overlap.left.add(seen)
        return overlap

    def is_continued_by(self, later: Shape) -> bool:
        """Whether `later` is a later turn of it, or the same call again."""
        is_same = (self.family, self.context) == (later.family, later.context)
        names = self.names[: self.request_len]
        return is_same and later.names[: len(names)] == names


@dataclass
class Overlap:
    """What a request shares with a shape.

    Attributes:
        places: For each message of the request, its place in the shape.
        left: Messages of the shape that the request has not.
        kept: Messages that both have, beyond the known prefix of the request.
    """

    places: list[int | None] = field(default_factory=list)
    left: Sum = field(default_factory=Sum)
    kept: Sum = field(default_factory=Sum)


class Shapes:
    """Shapes, bounded in bytes and in time; the one that was recorded first goes first."""

    def __init__(self, capacity_bytes: int, ttl_seconds: float) -> None:
        self._capacity_bytes = capacity_bytes
        self._ttl_seconds = ttl_seconds
        self.clear()

    def __len__(self) -> int:
        return len(self._filed)

    def clear(self) -> None:
        """Forget all."""
        self._filed: dict[int, tuple[Shape, list[int], float]] = {}
        self._places: dict[int, list[int]] = {}
        self._last = self._bytes = 0

    def record(self, shape: Shape, now_seconds: float) -> None:
        """Remember `shape`, in place of one that it continues; one too large is not kept."""
        under = (number for name in shape.names for number in self._filed_under(shape.family, name))
        old = (number for number in under if self._filed[number][0].is_continued_by(shape))
        if (found := next(old, None)) is not None:
            self._forget(found)
        keys = self._free_keys(shape)
        size = _bytes(shape, keys)
        if size > self._capacity_bytes or not keys:
            return
        while self._bytes + size > self._capacity_bytes:
            self._forget(next(iter(self._filed)))
        self._last += 1
        for key in keys:
            places = self._places.setdefault(key, [])
            places.append(self._last)
            del places[:-PLACES]
        self._bytes += size
        self._filed[self._last] = shape, keys, now_seconds + self._ttl_seconds

    def near(self, family: bytes, digests: Iterable[bytes], now_seconds: float) -> list[Shape]:
        """Shapes that are filed under most of the messages first, of equals the newest."""
        names = map(name_of, digests)
        hits = Counter(number for name in names for number in self._filed_under(family, name))
        ordered = sorted(hits, key=lambda number: (hits[number], number), reverse=True)
        filed = [self._filed[number] for number in ordered]
        fresh = [it for it, _, expires in filed if it.family == family and now_seconds < expires]
        return fresh[:CANDIDATES]

    def beginning(self, family: bytes, context: bytes, digests: Iterable[bytes]) -> Shape | None:
        """A shape that begins with `context` and messages of these digests."""
        names = list(map(name_of, digests))
        for number in (number for name in names for number in self._filed_under(family, name)):
            shape = self._filed[number][0]
            is_same = (shape.family, shape.context) == (family, context)
            if is_same and shape.names[: len(names)] == names:
                return shape
        return None

    def _filed_under(self, family: bytes, name: int) -> Iterator[int]:
        return iter(tuple(self._places.get(_key(family, name), ())))

    def _free_keys(self, shape: Shape) -> list[int]:
        """What `shape` is to be filed under: the smallest of its names that are not full."""
        keys = [_key(shape.family, name) for name in sorted(set(shape.names))]
        free = [key for key in keys if len(self._places.get(key, ())) < PLACES]
        return free[:KEYS] or keys[:1]

    def _forget(self, number: int) -> None:
        shape, keys, _ = self._filed.pop(number)
        self._bytes -= _bytes(shape, keys)
        for key in keys:
            places = self._places.get(key, [])
            if number in places:
                places.remove(number)
            if not places:
                self._places.pop(key, None)


def _key(family: bytes, name: int) -> int:
    return int.from_bytes(family, "little") ^ (name * ODD % 2**64)


def _bytes(shape: Shape, keys: list[int]) -> int:
    return SHAPE_BYTES + SEEN_BYTES * len(shape.messages) + KEY_BYTES * len(keys)
