"""Tools as JSON objects, and Anthropic's prompt layout with calls as markup."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tokenctx.reference.document import compact, parse_arguments

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


def function_object(tool: Tool, *, is_spaced: bool) -> str:
    """`tool` as OpenAI's JSON object, compact or spaced; fields that it lacks are left out."""
    write = spaced if is_spaced else compact
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    text = write({"type": "function", "function": function})
    if not tool.schema:
        return text
    if is_spaced:
        return f'{text[:-2]}, "parameters": {respaced(tool.schema)}}}}}'
    return f'{text[:-2]},"parameters":{tool.schema}}}}}'


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
