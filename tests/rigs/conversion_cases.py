"""Short requests to convert, and what is asked of a conversion."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tokenctx


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").decode()
PDF = base64.b64encode(b"%PDF-1.4\n%%EOF").decode()
USER = {"role": "user", "content": "hello"}
HIDDEN = "the secret text of a message"


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": list(messages)} | fields


def claude(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": list(messages), **fields}


def call(call_id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*items: dict[str, Any], content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(items)}


def result(call_id: str, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def kinds(conversion: tokenctx.convert.Conversion) -> set[str]:
    """The kinds of losses that are more than another spelling."""
    return {loss.kind for loss in conversion.losses} - {"form", "added"}


def where(conversion: tokenctx.convert.Conversion, kind: str) -> list[str]:
    return [loss.where for loss in conversion.losses if loss.kind == kind]
