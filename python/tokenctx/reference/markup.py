"""Anthropic's prompt layout: tools as lines of JSON, calls as markup."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tokenctx.reference.document import parse_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenctx.reference.model import Tool, ToolCall

PREFIX: Final = "antml:"
"""What the vendor puts before the names of the tags around calls."""


def function_line(tool: Tool) -> str:
    """The line of `tool`."""
    fields: dict[str, Any] = {"description": tool.description} if tool.description else {}
    fields["name"] = tool.name
    line = spaced(fields)
    if tool.schema:
        line = f'{line[:-1]}, "parameters": {respaced(tool.schema)}}}'
    return f"<function>{line}</function>\n"


def calls_text(calls: Iterable[ToolCall], *, follows_text: bool) -> str:
    """The markup of `calls`, behind text or at the beginning of a message."""
    lines = [opening("function_calls")]
    for call in calls:
        lines.append(opening("invoke", call.name))
        lines.append(arguments_text(call.arguments) + closing("invoke"))
    lines.append(closing("function_calls"))
    return ("\n\n" if follows_text else "") + "\n".join(lines)


def arguments_text(arguments: str) -> str:
    """One element and line for each argument, strings as they are; no JSON object: as it is."""
    value, is_json = parse_arguments(arguments)
    if not is_json or not isinstance(value, dict):
        return arguments
    return "".join(
        opening("parameter", name)
        + (item if isinstance(item, str) else spaced(item))
        + closing("parameter")
        + "\n"
        for name, item in value.items()
    )


def opening(tag: str, name: str = "") -> str:
    """An opening tag."""
    return f'<{PREFIX}{tag} name="{name}">' if name else f"<{PREFIX}{tag}>"


def closing(tag: str) -> str:
    """A closing tag."""
    return f"</{PREFIX}{tag}>"


def spaced(value: Any) -> str:
    """JSON text with Python's default separators."""
    return json.dumps(value, ensure_ascii=False)


def respaced(text: str) -> str:
    """JSON text with Python's default separators."""
    value, is_json = parse_arguments(text)
    return spaced(value) if is_json else text
