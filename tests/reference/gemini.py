"""Gemini's prompt layouts: tools, calls and results as each generation of models is billed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from reference import python
from reference.document import ascii_upper, compact, parse_arguments
from reference.layout import MAX_DEPTH
from reference.markup import spaced

if TYPE_CHECKING:
    from reference.model import Tool, ToolCall

LAYOUTS: Final = ("gemini-names", "gemini-python", "gemini-declarations")
MAX_REFERENCED_BYTES: Final = 1 << 20
"""Bytes that references of one schema add to its text; what would exceed it is left out."""
RESULT_MARKS: Final = 3
"""Tokens around a result in the Python layout."""


@dataclass
class Marked:
    """A stretch of a prompt: texts that no token joins, and markers that are one token each."""

    texts: list[str] = field(default_factory=list)
    marks: int = 0
    byte_count: int = 0

    def push(self, text: str) -> None:
        """Append to the last text."""
        self.byte_count += len(text.encode())
        if self.texts:
            self.texts[-1] += text
        else:
            self.texts.append(text)

    def mark(self) -> None:
        """Append a marker."""
        self.marks += 1
        self.texts.append("")

    def quote(self, text: str) -> None:
        """Append `text` between markers."""
        self.mark()
        self.push(text)
        self.mark()


def tool_marked(layout: str, tool: Tool) -> Marked:
    """The definition of `tool`."""
    out = Marked()
    schema = json.loads(tool.schema) if tool.schema else None
    if layout == "gemini-python":
        text, space_count = python.function(tool.name, tool.description, schema)
        out.push(text)
        out.marks += space_count
    elif layout == "gemini-declarations":
        _declare(tool, schema, out)
    else:
        out.texts += [tool.name, tool.description]
        if not tool.is_json_schema:
            _schema_texts(schema, 0, out, is_answer=False)
    return out


def answer_schema_marked(schema: str) -> Marked:
    """The schema of the answer, which only costs where texts alone are billed."""
    out = Marked()
    _schema_texts(json.loads(schema), 0, out, is_answer=True)
    return out


def call_marked(layout: str, call: ToolCall) -> Marked:
    """A call."""
    out = Marked()
    arguments, is_json = parse_arguments(call.arguments)
    if layout == "gemini-python":
        out.push(python.call(call.name, arguments))
    elif layout == "gemini-declarations":
        _frame("call", call.name, arguments, out, is_json=is_json)
    else:
        out.texts.append(call.name)
        _value_texts(arguments, 0, out)
    return out


def result_marked(layout: str, name: str, text: str) -> Marked:
    """The result of a call of `name`: a JSON text."""
    out = Marked()
    value, is_json = parse_arguments(text) if text else (None, False)
    if layout == "gemini-declarations":
        _frame("response", name, value, out, is_json=is_json)
    elif layout == "gemini-python":
        out.texts += [name, spaced(value) if is_json else ""]
        out.marks += RESULT_MARKS
    else:
        out.texts.append(name)
        _value_texts(value, 0, out)
    return out


def _frame(kind: str, name: str, value: Any, out: Marked, *, is_json: bool) -> None:
    """A call or response between markers."""
    out.mark()
    out.push(f"{kind}:{name}")
    if is_json:
        _write_value(value, 0, out)
    else:
        out.push("{}")
    out.mark()


def _declare(tool: Tool, schema: Any, out: Marked) -> None:
    """A function between markers."""
    out.mark()
    out.mark()  # the word "declaration", a token of Gemma's that other vocabularies cut
    out.push(f":{tool.name}{{")
    if tool.description:
        out.push("description:")
        out.quote(tool.description)
        out.push(",")
    if tool.schema:
        out.push("parameters:")
        _Declared(schema).write(schema, 0, out)
    out.push("}")
    out.mark()


def _write_value(value: Any, depth: int, out: Marked) -> None:
    """A JSON value whose strings stand between markers and whose keys are bare."""
    if depth > MAX_DEPTH or not isinstance(value, (dict, list, str)):
        out.push(compact(value))
    elif isinstance(value, str):
        out.quote(value)
    elif isinstance(value, list):
        out.push("[")
        for nth, item in enumerate(value):
            out.push("," if nth else "")
            _write_value(item, depth + 1, out)
        out.push("]")
    else:
        out.push("{")
        for nth, (key, item) in enumerate(value.items()):
            out.push(f"{',' if nth else ''}{key}:")
            _write_value(item, depth + 1, out)
        out.push("}")


class _Declared:
    """Writes the schema of a declaration; references are resolved."""

    def __init__(self, root: Any) -> None:
        self.definitions = python.definitions(root)
        self.left_bytes = MAX_REFERENCED_BYTES

    def write(self, schema: Any, depth: int, out: Marked) -> None:
        """Append `schema`."""
        if depth > MAX_DEPTH:
            out.push("{}")
            return
        name = python.reference_name(schema)
        if name is None:
            self._write_keywords(schema, depth, out)
        elif name in self.definitions and self.left_bytes > 0:
            before = out.byte_count
            self._write_keywords(self.definitions[name], depth, out)
            self.left_bytes = max(0, self.left_bytes - (out.byte_count - before))
        else:
            out.push("{}")

    def _write_keywords(self, schema: Any, depth: int, out: Marked) -> None:
        """Append the keywords that are shown, in the order of their names."""
        schema = schema if isinstance(schema, dict) else {}
        out.push("{")
        comma = ""
        for key in ("description", "enum", "items", "properties", "required", "type"):
            value = schema.get(key)
            kind = {"enum": list, "items": dict, "properties": dict, "required": list}.get(key, str)
            if not isinstance(value, kind) or not (value or key in ("enum", "items")):
                continue
            out.push(f"{comma}{key}:")
            comma = ","
            if key == "items":
                self.write(value, depth + 1, out)
            elif isinstance(value, dict):
                self._write_properties(value, depth, out)
            else:
                shown = ascii_upper(value) if key == "type" else value
                _write_value(shown, depth, out)
        out.push("}")

    def _write_properties(self, properties: dict[str, Any], depth: int, out: Marked) -> None:
        out.push("{")
        for nth, (name, item) in enumerate(properties.items()):
            out.push(f"{',' if nth else ''}{name}:")
            self.write(item, depth + 1, out)
        out.push("}")


def _schema_texts(schema: Any, depth: int, out: Marked, *, is_answer: bool) -> None:
    """The texts that are billed of a schema; of that of an answer a few more."""
    if depth > MAX_DEPTH or not isinstance(schema, dict):
        return
    for key in ("type", "format", "description", *(["title"] if is_answer else [])):
        value = schema.get(key)
        text = value if isinstance(value, str) else ""
        out.texts.append(ascii_upper(text) if key == "type" else text)
    ordering = ["propertyOrdering", "property_ordering"] if is_answer else []
    for key in ("enum", "required", *ordering):
        out.texts += python.strings(schema, key)
    for key in ("anyOf", "any_of") if is_answer else ():
        variants = schema.get(key)
        for item in variants if isinstance(variants, list) else ():
            _schema_texts(item, depth + 1, out, is_answer=is_answer)
    _schema_texts(schema.get("items"), depth + 1, out, is_answer=is_answer)
    for name, item in python.properties(schema).items():
        out.texts.append(name)
        _schema_texts(item, depth + 1, out, is_answer=is_answer)


def _value_texts(value: Any, depth: int, out: Marked) -> None:
    """The keys and the texts of a JSON value, and a token for each number."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        out.marks += 1
    elif isinstance(value, str):
        out.texts.append(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            out.texts.append(key)
            _value_texts(item, depth + 1, out)
    elif isinstance(value, list):
        for item in value:
            _value_texts(item, depth + 1, out)
