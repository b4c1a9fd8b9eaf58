"""A known total as bytes that may leave the process: packed, versioned, bound to its prefix."""

from __future__ import annotations

import hmac
from typing import Final

from blake3 import blake3

from reference.prefix import KnownTotal

CONTEXT: Final = "tokenctx 2026-11-21 sealed known totals"
VERSION: Final = b"\x02"
MAC_BYTES: Final = 16
OPTIONS_BYTES: Final = 5
MAX_NUMBER_BYTES: Final = 10


class Sealer:
    """Packs known totals and opens them again, under one secret."""

    def __init__(self, secret: bytes) -> None:
        self._key = blake3(secret, derive_key_context=CONTEXT).digest()

    def seal(self, digest: bytes, known: KnownTotal, recorded_seconds: int) -> bytes:
        """`known` of the prefix `digest` as bytes."""
        numbers = (
            recorded_seconds,
            known.tokens,
            known.derived_tokens,
            known.reasoning_tokens,
            int.from_bytes(known.options, "big"),
            2 * known.options_tokens
            if known.options_tokens >= 0
            else -2 * known.options_tokens - 1,
        )
        packed = VERSION + b"".join(map(number_bytes, numbers))
        return packed + self._mac(digest, packed)

    def open(self, digest: bytes, sealed: bytes) -> tuple[KnownTotal, int] | None:
        """Total and time of record; None unless this secret sealed it for `digest`."""
        packed, mac = sealed[:-MAC_BYTES], sealed[-MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(digest, packed)) or packed[:1] != VERSION:
            return None
        numbers = read_numbers(packed[1:])
        if len(numbers) != 6:
            return None
        recorded_seconds, tokens, derived, reasoning, options, zigzag = numbers
        known = KnownTotal(
            tokens,
            derived,
            options.to_bytes(OPTIONS_BYTES, "big") if options else b"",
            zigzag // 2 if zigzag % 2 == 0 else -(zigzag // 2) - 1,
            reasoning,
        )
        return known, recorded_seconds

    def _mac(self, digest: bytes, packed: bytes) -> bytes:
        return blake3(digest + packed, key=self._key).digest(length=MAC_BYTES)


def number_bytes(number: int) -> bytes:
    """Seven bits a byte, low ones first; the last byte has its high bit clear."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_numbers(packed: bytes) -> list[int]:
    """The numbers of which `packed` is made; none if it is not."""
    numbers, number, shift = [], 0, 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number, shift = 0, 0
    return numbers if shift == 0 else []
