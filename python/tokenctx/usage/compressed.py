"""Streams and bodies as they went over the wire: gzip, told by its magic number."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC: Final = b"\x1f\x8b"
FREE_BYTES: Final = 4 << 20
"""The most bytes that may come out of however few."""
MAX_CONTAINERS: Final = 1 << 18
"""Objects and lists of one answer or event: more of them would take a hundred times their bytes."""
MAX_RATIO: Final = 50
"""How much larger what comes out may be than what went in, beyond that. Answers of models are
compressed to a tenth; a thousandth is possible."""
_PIECE_BYTES: Final = 1 << 18


class Inflater:
    """Bytes of one gzip stream, member after member, as they come.

    Attributes:
        has_lost: More would have come out than the limit is; the rest was left.
        is_broken: It was no gzip from some place on.
    """

    def __init__(self) -> None:
        self.has_lost = self.is_broken = False
        self._member = _member()
        self._taken = self._given = 0

    def push(self, data: bytes) -> Iterator[bytes]:
        """The bytes that come out of the next, in pieces; none after the limit or a fault."""
        self._taken += len(data)
        piece = b""
        while (data or len(piece) == _PIECE_BYTES) and not (self.has_lost or self.is_broken):
            if self._member.eof:
                self._member = _member()
            try:
                piece = self._member.decompress(data, _PIECE_BYTES)
            except zlib.error:
                self.is_broken = True
                return
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            self._given += len(piece)
            self.has_lost = self._given > FREE_BYTES + MAX_RATIO * self._taken
            if piece and not self.has_lost:
                yield piece


def _member() -> zlib._Decompress:
    return zlib.decompressobj(wbits=31)
