"""Four characters a token: what many agents count with, to compare with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tokenctx._context.outline import SYSTEM_FIELDS, Piece, outline

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_TOKENS: Final = 1_000
"""Of an image or another file, as dexto counts them."""


def four_characters(text: str | None) -> int:
    """A quarter of the characters, rounded half up."""
    return (len(text or "") + 2) // 4


def four_character_tokens(body: object) -> int:
    """The texts of system prompt, tools and messages by four, and 1,000 for each file."""
    read = outline(body)
    pieces = [piece for message in read.messages for piece in message.pieces]
    pieces += [Piece("text", read.fields[name]) for name in SYSTEM_FIELDS if name in read.fields]
    tokens = sum(four_characters(text) for piece in pieces for text in _texts(piece))
    tokens += sum(four_characters(_json(tool)) for _, tool in read.tools)
    return tokens + FILE_TOKENS * sum(piece.has_file for piece in pieces)


def _texts(piece: Piece) -> Iterator[str]:
    if piece.kind != "file":
        yield from piece.texts()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
