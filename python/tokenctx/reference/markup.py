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
FORMS: Final = ("compact", "spaced", "ollama")
SCHEMA_KEYS: Final = ("type", "$defs", "items", "required")
PROPERTY_KEYS: Final = ("anyOf", "type", "items", "description", "enum")


def function_line(tool: Tool) -> str:
    """The line of `tool`."""
    fields: dict[str, Any] = {"description": tool.description} if tool.description else {}
    fields["name"] = tool.name
    line = spaced(fields)
    if tool.schema:
        line = f'{line[:-1]}, "parameters": {respaced(tool.schema)}}}'
    return f"<function>{line}</function>\n"


def function_object(tool: Tool, form: str) -> str:
    """`tool` as OpenAI's JSON object in one of the `FORMS`; what it lacks is left out."""
    write = spaced if form == "spaced" else compact
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    text = write({"type": "function", "function": function})
    if not tool.schema:
        return text
    if form == "spaced":
        return f'{text[:-2]}, "parameters": {respaced(tool.schema)}}}}}'
    schema = _parameters(tool.schema) if form == "ollama" else tool.schema
    return f'{text[:-2]},"parameters":{schema}}}}}'


def _parameters(schema: str) -> str:
    """What Ollama keeps of a schema: at the top, and of each property."""
    value, is_json = parse_arguments(schema)
    if not is_json or not isinstance(value, dict):
        return schema
    kept = {key: value[key] for key in SCHEMA_KEYS if key in value}
    properties = value.get("properties")
    if isinstance(properties, dict):
        kept["properties"] = {
            name: {key: item[key] for key in PROPERTY_KEYS if key in item}
            if isinstance(item, dict)
            else {}
            for name, item in properties.items()
        }
    return compact(kept)


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
