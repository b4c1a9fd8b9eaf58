"""The law of conversion: `A -> B -> A` is the original, or every difference stands in `losses`.

Written apart from the converter: its own difference of two JSON values, and its own idea of what a
conversation says, so that a converter that lies is found out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tokenctx.convert import Conversion, ConversionOptions, convert_messages

if TYPE_CHECKING:
    from collections.abc import Iterator

DIALECTS: Final = ("openai-chat", "openai-responses", "anthropic", "gemini", "ai-sdk")
UNVERIFIED: Final = ConversionOptions(verify=False)
SPELLING: Final = frozenset({"form", "added", "merged", "split", "role", "option", "field", "name"})
"""Losses that leave what is said as it is: its words, calls and results."""


def differences(one: Any, other: Any) -> Iterator[tuple[Any, ...]]:
    """The place of every difference, as deep as it goes; NaN is as good as NaN."""
    pending: list[tuple[tuple[Any, ...], Any, Any]] = [((), one, other)]
    while pending:
        path, left, right = pending.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            for key in left.keys() | right.keys():
                if key in left and key in right:
                    pending.append(((*path, key), left[key], right[key]))
                else:
                    yield (*path, key)
        elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            pending += [((*path, index), left[index], right[index]) for index in range(len(left))]
        elif type(left) is not type(right) or (left != right and left == left):  # noqa: PLR0124
            yield path


def unlisted(original: Any, conversion: Conversion) -> list[tuple[Any, ...]]:
    """The differences of the way back that no loss covers; the law says that there are none."""
    source, target = conversion.source, conversion.dialect
    assert source != "vscode"
    back = convert_messages(conversion.body, to=source, source=target, options=UNVERIFIED)
    listed = {loss.path for loss in conversion.losses}
    return [
        path
        for path in differences(original, back.body)
        if not any(path[:length] in listed for length in range(len(path) + 1))
    ]


def said(body: Any) -> list[str]:
    """What a conversation says, in any dialect: its texts, calls and results, in their order.

    Knows no dialect: it collects the strings under the names that hold content. JSON values and
    their texts are one.
    """
    found: list[str] = []
    lists = ("systemInstruction", "instructions", "system", "messages", "input", "contents")
    for name in lists:
        _collect(body.get(name), name, found)
    return [text for text in found if text]


_CONTENT: Final = frozenset(
    "text content output refusal instructions system systemInstruction input contents messages "
    "parts value response functionResponse functionCall function name toolName arguments args error "
    "tool_calls".split()
)
_VALUES: Final = frozenset({"arguments", "args", "input"})


def _collect(value: Any, name: str, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(_normal(value) if name in _VALUES else value)
    elif isinstance(value, list):
        for item in value:
            _collect(item, name, found)
    elif isinstance(value, dict):
        if name in _VALUES:
            found.append(_normal(value))
            return
        for key in sorted(value.keys() & _CONTENT):
            _collect(value[key], key, found)


def _normal(value: Any) -> str:
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except ValueError:
            return value
    if isinstance(value, dict) and set(value) == {"invalid_json"}:
        return str(value["invalid_json"])
    return json.dumps(value, sort_keys=True)
