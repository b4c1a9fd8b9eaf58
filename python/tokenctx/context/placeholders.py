"""Tool results replaced by a placeholder, in the words of each dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tokenctx._core import _outline
from tokenctx._results.parts import kinds_of
from tokenctx.convert.source import plain

if TYPE_CHECKING:
    from collections.abc import Set

PLACEHOLDER: Final = "[Old tool result content cleared]"
"""The text that dexto and opencode put in the place of a result, so that models have seen it."""
RESULTS: Final = frozenset(name for name, kind in kinds_of("outline").items() if kind == "result")
"""Types of parts, and fields with parts, that are results of tools."""


def cleared(message: Any, parts: Set[int], text: str) -> Any:
    """A copy of `message` with `text` as the content of the results at the places `parts`.

    An SDK object becomes a dict. Everything else of the message stays, call ids above all.
    """
    whole = plain(message)
    [(_, rows)] = _outline([whole])
    places = {place for at in parts if (place := rows[at][3]) is not None}
    if not places:
        return _with_text(whole, text)
    field = "content" if "content" in whole else "parts"
    filled = [
        _with_text(part, text) if at in places else part for at, part in enumerate(whole[field])
    ]
    return {**whole, field: filled}


def _with_text(part: Any, text: str) -> Any:
    if not isinstance(part, dict):
        return text  # a result that is no object is its text
    for name in RESULTS:
        inner = part.get(name)
        if isinstance(inner, dict):
            return {**part, name: _with_text(inner, text)}
    if "output" in part:
        is_ai_sdk = part.get("type") == "tool-result"
        return {**part, "output": {"type": "text", "value": text} if is_ai_sdk else text}
    if "response" in part:
        return {**part, "response": {"result": text}}
    if "toolUseId" in part:
        return {**part, "content": [{"text": text}]}
    if "callId" in part:
        return {**part, "content": [{"value": text}]}
    field = "parts" if "parts" in part and "content" not in part else "content"
    return {**part, field: text}
