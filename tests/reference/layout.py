"""The OpenAI prompt layout: tools and output schema as the text that stands in the prompt."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from reference.document import compact, parse_arguments

MAX_DEPTH: Final = 24
"""Levels of a schema, or of one referenced definition, that are rendered; deeper is `any`."""
MAX_REFERENCES: Final = 4
"""Definitions inside of definitions that are rendered; deeper is `any`, so cycles end."""
MAX_REFERENCED_BYTES: Final = 1 << 20
"""Bytes that the references of one tool add to its text; what would exceed it is `any`."""

SPACE: Final = " \t\n\r\v\f"
SCALARS: Final = {
    "string": "string",
    "boolean": "boolean",
    "null": "null",
    "number": "number",
    "integer": "number",
}
BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
UNSHOWN: Final = frozenset(
    "additionalProperties required $schema default format pattern multipleOf minimum maximum "
    "exclusiveMinimum exclusiveMaximum minLength maxLength minItems maxItems uniqueItems".split()
)
"""Keywords of an output schema that are enforced and not shown to the model."""
NAMED: Final = ("properties", "$defs", "definitions")
"""Keywords whose members are named by the client."""


class Rendered(NamedTuple):
    """The text of a type, and whether it needs lines of its own."""

    text: str
    is_long: bool = False


ANY: Final = Rendered("any")


def tools_text(tools: list[tuple[str, str, str]], *, is_2023: bool) -> str:
    """The text of tools, each a name, a description and a schema as JSON; linear in them."""
    render = _function_2023 if is_2023 else _function
    functions = "".join(render(*tool) + "\n\n" for tool in tools)
    head = "# Tools\n\n## functions\n\nnamespace functions {\n\n"
    return f"{head}{functions}}} // namespace functions"


def schema_text(name: str, description: str, schema: str) -> str:
    """The text of an output schema, given as JSON."""
    comment = f"// {description}\n" if description else ""
    shown = ascii_json(compact(_shown(json.loads(schema), 0, is_named=False)))
    return f"# Response Formats\n\n## {name}\n\n{comment}{shown}"


def result_text(text: str) -> str:
    """A result of a parallel call: the JSON value that it holds, else its text as a string."""
    value, is_json = parse_arguments(text)
    if not is_json or not text.strip(" \t\n\r"):
        value = text
    return ascii_json(_spaced(value))


def ascii_json(text: str) -> str:
    """JSON text with every character outside of ASCII as an escape, like Python's default."""
    if text.isascii():
        return text
    return "".join(char if char.isascii() else json.dumps(char)[1:-1] for char in text)


def _spaced(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shown(value: Any, depth: int, *, is_named: bool) -> Any:
    if depth > MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {
            key: _shown(item, depth + 1, is_named=key in NAMED and not is_named)
            for key, item in value.items()
            if is_named or key not in UNSHOWN
        }
    if isinstance(value, list):
        return [_shown(item, depth + 1, is_named=False) for item in value]
    return value


def _string(value: Any, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _comment(text: str) -> list[str]:
    lines = (line.strip(SPACE) for line in text.strip(SPACE).split("\n"))
    return [f"// {line}" if line else "//" for line in lines]


def _notes(title: str, description: str) -> list[str]:
    notes = [f"// {title}"] if title else []
    if title and description:
        notes.append("//")
    return notes + (_comment(description) if description else [])


def _properties(schema: Any) -> dict[str, Any]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _required(schema: dict[str, Any]) -> set[str]:
    listed = schema.get("required")
    return {key for key in listed if isinstance(key, str)} if isinstance(listed, list) else set()


def _list(schema: dict[str, Any], key: str) -> list[Any] | None:
    found = schema.get(key)
    return found if isinstance(found, list) else None


def _function(name: str, description: str, schema: str) -> str:
    root = json.loads(schema) if schema else None
    lines = _comment(description) if description else []
    if root is None or not _properties(root):
        return "\n".join([*lines, f"type {name} = () => any;"])
    notes = _notes(_string(root, "title"), _string(root, "description"))
    head = "".join(note + "\n" for note in notes)
    body = _Renderer(root).object(root, 0, 0).text
    return "\n".join([*lines, f"type {name} = (_: {head}{body}) => any;"])


class _Renderer:
    """Renders the schema of one tool."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.definitions: dict[str, Any] = {}
        for key in ("$defs", "definitions"):
            found = root.get(key)
            for name, item in found.items() if isinstance(found, dict) else ():
                self.definitions.setdefault(name, item)
        self.rendered: dict[tuple[str, int], Rendered] = {}
        self.left_bytes = MAX_REFERENCED_BYTES

    def target(self, schema: Any) -> Any:
        """What a reference points to, `schema` itself if it is none."""
        reference = _string(schema, "$ref")
        return self.definitions.get(reference.rsplit("/", 1)[-1]) if reference else schema

    def told(self, schema: Any, key: str) -> str:
        """Text of a reference, or of what it points to."""
        return _string(schema, key) or _string(self.target(schema), key)

    def notes(self, schema: Any) -> list[str]:
        """The comment above a property or an element."""
        return _notes(self.told(schema, "title"), self.told(schema, "description"))

    def reference(self, schema: dict[str, Any], references: int) -> Rendered:
        """The type of a definition; each is rendered once on each level."""
        name = schema["$ref"].rsplit("/", 1)[-1]
        if references == MAX_REFERENCES or name not in self.definitions:
            return ANY
        key = (name, references)
        found = self.rendered.get(key)
        if found is None:
            found = self.type(self.definitions[name], 0, references + 1)
            self.rendered[key] = found
        cost = len(found.text.encode())
        if cost > self.left_bytes:
            return ANY
        self.left_bytes -= cost
        return found

    def type(self, schema: Any, depth: int, references: int) -> Rendered:
        """The type of any schema."""
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return ANY
        if _string(schema, "$ref"):
            return self.reference(schema, references)
        for key in ("anyOf", "oneOf"):
            if (variants := _list(schema, key)) is not None:
                types = [self.type(item, depth + 1, references) for item in variants]
                return self.union(types, [self.aside(item) for item in variants])
        whole = _list(schema, "allOf")
        if whole is not None and len(whole) == 1:
            return self.type(whole[0], depth + 1, references)
        if "const" in schema:
            return Rendered(_spaced(schema["const"]))
        if (names := _list(schema, "type")) is not None:
            types = [self.named(schema, name, depth, references) for name in names]
            return self.union(types, [_aside(schema, [name]) for name in names])
        return self.named(schema, schema.get("type"), depth, references)

    def aside(self, variant: Any) -> str:
        """What is said of one variant of a union."""
        found = self.target(variant)
        return _aside(found, [found.get("type")]) if isinstance(found, dict) else ""

    def union(self, types: list[Rendered], asides: list[str]) -> Rendered:
        """Variants on one line, or on a line each if something is said of one; any absorbs all."""
        if ANY in types:
            return ANY
        if not any(asides):
            text = " | ".join(item.text for item in types)
            return Rendered(text, any(item.is_long for item in types))
        lines = (
            f" | {item.text}" + (f" // {aside}" if aside else "")
            for item, aside in zip(types, asides, strict=True)
        )
        return Rendered("\n" + "\n".join(lines) + "\n", is_long=True)

    def named(self, schema: dict[str, Any], name: Any, depth: int, references: int) -> Rendered:
        """The type of a schema whose type has this name."""
        if values := _list(schema, "enum"):
            return Rendered(" | ".join(map(_spaced, values)))
        if isinstance(name, str) and name in SCALARS:
            return Rendered(SCALARS[name])
        if name == "array":
            return self.array(schema.get("items"), depth, references)
        if _properties(schema):
            return self.object(schema, depth, references)
        return ANY

    def array(self, items: Any, depth: int, references: int) -> Rendered:
        """The type of an array."""
        item = self.type(items, depth + 1, references)
        notes = self.notes(items)
        if item.is_long or notes:
            return Rendered("\n".join(["Array<", *notes, item.text, ">"]), is_long=True)
        is_union = " | " in item.text and not item.text.startswith("{")
        return Rendered(f"({item.text})[]" if is_union else f"{item.text}[]")

    def object(self, schema: dict[str, Any], depth: int, references: int) -> Rendered:
        """The type of an object with properties: one line, or a line each if one is commented."""
        required = _required(schema)
        rows: list[tuple[list[str], str, str]] = []
        is_long = False
        for key, item in _properties(schema).items():
            found = self.type(item, depth + 1, references)
            notes, aside = self.notes(item), self.trailing(item)
            is_long |= bool(notes or aside or found.is_long)
            space = "" if found.text.startswith("\n") else " "
            optional = "" if key in required else "?"
            rows.append((notes, f"{key}{optional}:{space}{found.text}", aside))
        if not is_long:
            return Rendered("{ " + ", ".join(text for _, text, _ in rows) + " }")
        lines = ["{"]
        for notes, text, aside in rows:
            lines += [*notes, f"{text},{aside}"]
        return Rendered("\n".join([*lines, "}"]), is_long=True)

    def trailing(self, schema: Any) -> str:
        """The comment behind a property: its default and its bounds."""
        found = self.target(schema)
        said: list[str] = []
        if isinstance(schema, dict) and "default" in schema:
            said.append("default: " + _spaced(schema["default"]))
        elif isinstance(found, dict) and "default" in found:
            said.append("default: " + _spaced(found["default"]))
        is_union = isinstance(found, dict) and any(
            _list(found, key) is not None for key in ("anyOf", "oneOf", "type")
        )
        if isinstance(found, dict) and not is_union:
            said += _bounds(found, [found.get("type")])
        return " // " + ", ".join(said) if said else ""


def _aside(schema: dict[str, Any], names: list[Any]) -> str:
    words = " ".join(line[3:] for line in _comment(_string(schema, "description")) if line[3:])
    return ", ".join([*([words] if words else []), *_bounds(schema, names)])


def _bounds(schema: dict[str, Any], names: list[Any]) -> list[str]:
    """Limits of a number and the format of a string, in the order of the schema."""
    keys: tuple[str, ...] = ()
    if any(name in ("integer", "number") for name in names):
        keys = BOUNDS
    elif "string" in names:
        keys = ("format",)
    return [f"{key}: {_spaced(value)}" for key, value in schema.items() if key in keys]


def _function_2023(name: str, description: str, schema: str) -> str:
    """A function as until the end of 2023: indented, never on one line, few comments."""
    root = json.loads(schema) if schema else None
    comment = f"// {description.strip(SPACE)}\n" if description else ""
    if root is None or not _properties(root):
        return f"{comment}type {name} = () => any;"
    return f"{comment}type {name} = (_: {{\n{_properties_2023(root, 0, 0)}\n}}) => any;"


def _properties_2023(schema: dict[str, Any], indent: int, depth: int) -> str:
    required = _required(schema)
    lines = []
    for key, item in _properties(schema).items():
        if isinstance(item, dict) and item.get("type") == "object" and not _properties(item):
            continue
        if indent == 0 and (description := _string(item, "description")):
            lines.append(f"// {description.strip(SPACE)}")
        optional = "" if key in required else "?"
        lines.append(f"{'  ' * indent}{key}{optional}: {_type_2023(item, indent, depth)},")
    return "\n".join(lines)


def _type_2023(schema: Any, indent: int, depth: int) -> str:
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return "any"
    for key in ("anyOf", "oneOf"):
        if (variants := _list(schema, key)) is not None:
            types = [_type_2023(item, indent, depth + 1) for item in variants]
            return "any" if "any" in types else " | ".join(types)
    name = schema.get("type")
    if values := _list(schema, "enum"):
        return " | ".join(map(_spaced, values))
    if isinstance(name, str) and name in SCALARS:
        return SCALARS[name]
    if name == "array":
        item = _type_2023(schema["items"], indent, depth + 1) if "items" in schema else "any"
        return f"{item}[]"
    if _properties(schema):
        return f"{{\n{_properties_2023(schema, indent + 1, depth + 1)}\n{'  ' * indent}}}"
    return "any"
