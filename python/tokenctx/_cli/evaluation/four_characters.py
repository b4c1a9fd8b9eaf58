"""Four characters a token: what many agents count with, to compare with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tokenctx.context.outline import SYSTEM_FIELDS, Part, outline

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
    parts = [part for message in read.messages for part in message.parts]
    parts += [Part("text", read.fields[name]) for name in SYSTEM_FIELDS if name in read.fields]
    tokens = sum(four_characters(text) for part in parts for text in _texts(part))
    tokens += sum(four_characters(_json(tool)) for _, tool in read.tools)
    return tokens + FILE_TOKENS * sum(part.has_file for part in parts)


def _texts(part: Part) -> Iterator[str]:
    if part.kind != "file":
        yield from part.texts()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
