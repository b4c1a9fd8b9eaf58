"""Four characters a token: what many agents count with, to compare with."""

from __future__ import annotations

from typing import Final

from tokenctx._core import _text_lengths

SYSTEM_FIELDS: Final = ("system", "instructions", "systemInstruction", "system_instruction")
FILE_TOKENS: Final = 1_000
"""Of an image or another file, as dexto counts them."""


def four_characters(length: int) -> int:
    """A quarter of the characters, rounded half up."""
    return (length + 2) // 4


def four_character_tokens(body: object) -> int:
    """The texts of system prompt, tools and messages by four, and 1,000 for each file."""
    lengths, files = _text_lengths(body, SYSTEM_FIELDS)
    return sum(map(four_characters, lengths)) + FILE_TOKENS * files
