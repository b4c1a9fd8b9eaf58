"""Tools as JSON objects, Anthropic's prompt layout with calls as markup, and xAI's calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from reference.document import compact, parse_arguments
from reference.layout import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reference.model import Tool, ToolCall

CALLS: Final = "antml:function_calls"
ANTHROPIC_TAGS: Final = "antml:invoke", "antml:parameter"
"""Around a call and around an argument."""
XAI_TAGS: Final = "xai:function_call", "parameter"
FORMS: Final = ("compact", "spaced", "ollama")
SCHEMA_KEYS: Final = ("type", "$defs", "items", "required")
PROPERTY_KEYS: Final = ("anyOf", "type", "items", "description", "enum")
RESULTS: Final = "<function_results>\n</function_results>"
NO_RESULT: Final = "<system>Tool ran without output or errors</system>"
"""What stands for an empty result."""


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


def calls_text(calls: Iterable[ToolCall], *, are_enclosed: bool) -> str:
    """The markup of the calls of a message, with or without an element around them."""
    lines = [opening(CALLS)] if are_enclosed else []
    lines.extend(call_text(ANTHROPIC_TAGS, call) for call in calls)
    return "\n".join([*lines, closing(CALLS)] if are_enclosed else lines)


def call_text(tags: tuple[str, str], call: ToolCall) -> str:
    """The element of a call."""
    tag, inner = tags
    return f"{opening(tag, call.name)}\n{arguments_text(inner, call.arguments)}{closing(tag)}"


def result_text(text: str, *, is_error: bool) -> str:
    """The only result of a turn."""
    inner = f"\n<error>{text}</error>\n" if is_error else text or f"\n{NO_RESULT}\n"
    return f"<function_results>{inner}</function_results>"


def named_result_text(name: str, text: str) -> str:
    """One of several results of a turn; they stand in `RESULTS`."""
    return f"<result>\n<name>{name}</name>\n<output>{text or NO_RESULT}</output>\n</result>\n"


def schema_text(schema: str) -> str:
    """JSON text of an output schema, a line for each member, indented by two spaces."""
    value, is_json = parse_arguments(schema)
    return _indented(value, 0) if is_json else schema


def _indented(value: Any, depth: int) -> str:
    if depth >= MAX_DEPTH or not isinstance(value, (dict, list)) or not value:
        return spaced(value)
    indent = "\n" + "  " * depth
    if isinstance(value, list):
        items = (_indented(item, depth + 1) for item in value)
        return f"[{indent}  " + f",{indent}  ".join(items) + f"{indent}]"
    items = (f"{spaced(key)}: {_indented(item, depth + 1)}" for key, item in value.items())
    return f"{{{indent}  " + f",{indent}  ".join(items) + f"{indent}}}"


def arguments_text(tag: str, arguments: str) -> str:
    """One element and line for each argument, strings as they are; no JSON object: as it is."""
    value, is_json = parse_arguments(arguments)
    if not is_json or not isinstance(value, dict):
        return arguments
    return "".join(
        opening(tag, name) + (item if isinstance(item, str) else spaced(item)) + closing(tag) + "\n"
        for name, item in value.items()
    )


def opening(tag: str, name: str = "") -> str:
    """An opening tag."""
    return f'<{tag} name="{name}">' if name else f"<{tag}>"


def closing(tag: str) -> str:
    """A closing tag."""
    return f"</{tag}>"


def spaced(value: Any) -> str:
    """JSON text with Python's default separators."""
    return json.dumps(value, ensure_ascii=False)


def respaced(text: str) -> str:
    """JSON text with Python's default separators."""
    value, is_json = parse_arguments(text)
    return spaced(value) if is_json else text
