"""Messages of a conversation in few words."""

from __future__ import annotations

import base64
from typing import Any

FAMILY = "claude"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x40\0\0\0\x20\x08\x06\0\0\0\xfb\xff\xfe\x3f"


def talk(letters: str) -> list[dict[str, str]]:
    """A message for each letter, roles in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[index % 2], "content": text} for index, text in enumerate(letters)]


def user(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **fields}


def assistant(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


def picture(url: str) -> dict[str, Any]:
    return user([{"type": "image_url", "image_url": {"url": url}}])


BASE64 = base64.b64encode(PNG).decode()
URL_SAFE = base64.urlsafe_b64encode(PNG).decode()
