"""The law of conversion: `A -> B -> A` is the original, or every difference stands in `losses`.

Written apart from the converter: its own difference of two JSON values, and its own idea of what a
conversation says, so that a converter that lies is found out.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from tokenctx.convert import Conversion, ConversionOptions, convert_messages

if TYPE_CHECKING:
    from collections.abc import Iterator

DIALECTS: Final = (
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "gemini-interactions",
    "ai-sdk",
)
UNVERIFIED: Final = ConversionOptions(verify=False)
SPELLING: Final = frozenset(
    "form added merged split role option field name cache_control item_id signature prefill "
    "duplicate_id refused_id error_flag empty_message misplaced_result".split()
)
"""Losses that leave what is said as it is: its words, arguments and results."""


def differences(one: Any, other: Any) -> Iterator[tuple[Any, ...]]:
    """The place of every difference, as deep as it goes; NaN is as good as NaN; more is none."""
    pending: list[tuple[tuple[Any, ...], Any, Any]] = [((), one, other)]
    while pending:
        path, left, right = pending.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            for key in left:
                if key in right:
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


ROOTS: Final = (
    "systemInstruction system_instruction instructions system messages input contents".split()
)


def said(body: Any) -> Counter[str]:
    """What a conversation says, in any dialect: lines of its texts, arguments and results.

    Knows no dialect: it collects the strings under the names that hold content. JSON values and
    their texts are one.
    """
    found: list[str] = []
    for name in ROOTS:
        _collect(body.get(name), "content", found)
    return Counter(line.strip() for text in found for line in text.splitlines() if line.strip())


_CONTENT: Final = frozenset(
    "text content output result refusal parts value response functionResponse functionCall "
    "function arguments args input error tool_calls custom function_call function_response".split()
)
_VALUES: Final = frozenset({"arguments", "args", "input"})


def _collect(value: Any, name: str, found: list[str]) -> None:
    if name in _VALUES:
        found.append(_normal(value))
    elif isinstance(value, str):
        found.append(value)
    elif isinstance(value, list):
        for item in value:
            _collect(item, name, found)
    elif isinstance(value, dict) and value.get("type") == "execution-denied":
        found.append(value.get("reason", "Tool call execution denied."))
    elif isinstance(value, dict) and not _is_thought(value):
        for key in value.keys() & _CONTENT:
            _collect(value[key], key, found)


def _is_thought(part: Any) -> bool:
    return part.get("thought") is True or part.get("type") == "reasoning"


def _normal(value: Any) -> str:
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except ValueError:
            return str(value)
    if isinstance(value, dict) and set(value) == {"invalid_json"}:
        return _normal(value["invalid_json"])
    return json.dumps(value, sort_keys=True)
