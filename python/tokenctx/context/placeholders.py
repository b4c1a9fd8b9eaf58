"""Tool results replaced by a placeholder, in the words of each dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tokenctx.context.outline import RESULTS, outline

if TYPE_CHECKING:
    from collections.abc import Set

PLACEHOLDER: Final = "[Old tool result content cleared]"
"""What dexto and opencode put in the place of a result, so that models have seen it."""


def cleared(message: Any, parts: Set[int], text: str) -> Any:
    """A copy of `message` with `text` as the content of the results at the places `parts`.

    An SDK object becomes a dict. Everything else of the message stays, call ids above all.
    """
    read = outline([message])
    plain, own = read.raw_messages[0], read.messages[0].parts
    results = [own[at].content for at in parts]
    for field in ("content", "parts"):
        content = plain.get(field)
        if isinstance(content, list) and any(_stands_in(part, results) for part in content):
            filled = [
                _with_text(part, text) if _stands_in(part, results) else part for part in content
            ]
            return {**plain, field: filled}
    return _with_text(plain, text)


def _stands_in(part: Any, results: list[Any]) -> bool:
    """Whether `part` is one of `results`, or holds one in the field that names it."""
    if not isinstance(part, dict):
        return False
    inner = (part.get(name) for name in RESULTS)
    return any(part is result for result in results) or any(
        value is result for value in inner if value is not None for result in results
    )


def _with_text(part: dict[str, Any], text: str) -> dict[str, Any]:
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
