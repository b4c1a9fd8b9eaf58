"""Recorded requests, with media of the recorded size in place of what was left out."""

from __future__ import annotations

import base64
import gzip
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


STAND_INS = ("_image", "_file", "_media")


BASE64_FIELDS = ("data", "bytes")


PNG_HEAD = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


LEAST_RECORDS = 12_000


def restored(value: Any, field: str = "") -> Any:
    """`value` with each stand-in of large media as bytes of the same picture size."""
    if isinstance(value, list):
        return [restored(item, field) for item in value]
    if not isinstance(value, dict):
        return value
    for name in STAND_INS:
        if isinstance(about := value.get(name), dict):
            return media(about, is_bare=field in BASE64_FIELDS)
    return {key: restored(item, key) for key, item in value.items()}


def media(about: dict[str, Any], *, is_bare: bool) -> str:
    sides = (about.get("width"), about.get("height"))
    content = str(about.get("sha256", "")).encode()
    if all(isinstance(side, int) for side in sides):
        packed = b"".join(int(side or 0).to_bytes(4, "big") for side in sides)
        content = PNG_HEAD + packed + b"\x08\x06\0\0\0" + content
    text = base64.b64encode(content).decode()
    return text if is_bare else f"data:{about.get('mime', '')};base64,{text}"


def records(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path) as lines:
        yield from map(json.loads, lines)


SOURCES = {
    "openai.chat": "openai-chat",
    "anthropic.messages": "anthropic",
    "openai.responses": "openai-responses",
    "google.generateContent": "gemini",
}


def recorded(folder: Path) -> Iterator[tuple[Any, Any, str]]:
    """Body, dialect and id of one in three records, or of all with TOKENCTX_ALL_RECORDS=1."""
    step = 1 if os.environ.get("TOKENCTX_ALL_RECORDS") else 3
    for number, record in enumerate(records(folder / "usage" / "dev.jsonl.gz")):
        if number % step == 0:
            yield restored(record["request"]), SOURCES.get(record["api"]), record["id"]
