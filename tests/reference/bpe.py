"""Byte pair encoding, as tiktoken defines it: split by a pattern, then merge the lowest rank."""

from __future__ import annotations

import functools
import heapq
from typing import Final

import regex

from reference import claude
from tokenctx.encodings import Encoding

MISSING_RANKS: Final = 1000
_CASE = r"[^\r\n\p{L}\p{N}]?"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K: Final = "|".join(
    [
        _CASE + _UPPER + "*" + _LOWER + "+" + _CONTRACTION,
        _CASE + _UPPER + "+" + _LOWER + "*" + _CONTRACTION,
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
CL100K: Final = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
R50K: Final = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
PATTERNS: Final = {
    "o200k_base": O200K,
    "o200k_harmony": O200K,
    "cl100k_base": CL100K,
    "p50k_base": R50K,
    "p50k_edit": R50K,
    "r50k_base": R50K,
    "gpt2": R50K,
}
"""The split patterns, from tiktoken 0.14 (MIT); special tokens in text are ordinary text.

`regex` may know letters of a later Unicode than 16.0, which the core and tiktoken hold to: then a
text that has one of these may be split otherwise here.
"""


@functools.cache
def ranks(encoding: str) -> dict[bytes, int]:
    """Rank of every token of `encoding`; a rank may be missing, but not so many in a row."""
    made, found = Encoding(encoding), dict[bytes, int]()
    rank = missing = 0
    while missing < MISSING_RANKS:
        token = token_bytes(made, rank)
        if token is None:
            missing += 1
        else:
            found[token], missing = rank, 0
        rank += 1
    return found


def token_bytes(encoding: Encoding, rank: int) -> bytes | None:
    """The bytes of an ordinary token; None if there is none of this rank."""
    try:
        return None if encoding.is_special_token(rank) else encoding.decode_bytes([rank])
    except ValueError:
        return None


@functools.cache
def pattern(encoding: str) -> regex.Pattern[str]:
    """The compiled split pattern of `encoding`."""
    return regex.compile(PATTERNS[encoding])


def count_tokens(text: str | bytes, *, encoding: str = "o200k_base") -> int:
    """Number of tokens of `text`; lone surrogates and bytes that are no UTF-8 count as U+FFFD."""
    return count(plain_text(text), encoding)


def encode(text: str | bytes, *, encoding: str = "o200k_base") -> list[int]:
    """Tokens of `text`, special-token spellings as plain text."""
    table = ranks(encoding)
    pieces = (piece.encode() for piece in pattern(encoding).findall(plain_text(text)))
    return [table[token] for piece in pieces for token in merge(piece, table)]


def plain_text(text: str | bytes) -> str:
    """`text` without lone surrogates."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def count(text: str, encoding: str) -> int:
    """Number of tokens of `text`, special-token spellings as plain text."""
    if encoding in claude.FAMILIES:
        return claude.count(text, encoding)
    table = ranks(encoding)
    return sum(piece_count(piece.encode(), table) for piece in pattern(encoding).findall(text))


def piece_count(piece: bytes, table: dict[bytes, int]) -> int:
    """Number of tokens of one piece."""
    return 1 if piece in table else len(merge(piece, table))


def merge(piece: bytes, table: dict[bytes, int]) -> list[bytes]:
    """Tokens of one piece: the pair of lowest rank, leftmost first, is joined until none is."""
    if piece in table:
        return [piece]
    ends = list(range(1, len(piece) + 1))
    starts = list(range(len(piece)))
    pairs = [
        (rank, start)
        for start in starts[:-1]
        if (rank := table.get(piece[start : start + 2])) is not None
    ]
    heapq.heapify(pairs)
    previous = [start - 1 for start in starts]
    alive = [True] * len(piece)

    def offer(start: int) -> None:
        end = ends[start]
        if end < len(piece) and (rank := table.get(piece[start : ends[end]])) is not None:
            heapq.heappush(pairs, (rank, start))

    while pairs:
        rank, start = heapq.heappop(pairs)
        if not alive[start] or ends[start] >= len(piece):
            continue
        middle = ends[start]
        if table.get(piece[start : ends[middle]]) != rank:
            continue
        alive[middle] = False
        ends[start] = ends[middle]
        if ends[start] < len(piece):
            previous[ends[start]] = start
        offer(start)
        if previous[start] >= 0:
            offer(previous[start])
    return [piece[start : ends[start]] for start in starts if alive[start]]
