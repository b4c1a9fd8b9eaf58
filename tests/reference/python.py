"""Functions as Python: how Gemini 2.5 is shown its tools and the calls it has made."""

from __future__ import annotations

from typing import Any, Final

from reference.document import ascii_lower, ascii_upper
from reference.layout import MAX_DEPTH
from reference.markup import spaced

MAX_TYPE_BYTES: Final = 1 << 20
"""Bytes of class names and repeated types of one tool; what would exceed it is `Any`."""
SCALARS: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}


def function(name: str, description: str, schema: Any) -> tuple[str, int]:
    """The function `name`, with the classes that its parameters need; and the spaces left out.

    Those stand before a line end: each is a token of Gemma's that other vocabularies join with it.
    """
    writer = _Writer(schema)
    fields = writer.fields(schema, camel(name), 0)
    signature = "".join(f"    {field},\n" for _, _, field in fields)
    arguments = writer.described(fields)
    text = (
        f"{''.join(writer.classes)}def {name}(\n{signature}) -> dict:\n"
        f'  """{indented(description)}\n\n  Args:\n{arguments}  """\n'
    )
    return text, writer.space_count


def call(name: str, arguments: Any) -> str:
    """A call of the function `name`."""
    members = arguments.items() if isinstance(arguments, dict) else ()
    return f"print(default_api.{name}({', '.join(f'{k} = {spaced(v)}' for k, v in members)}))\n"


class _Writer:
    def __init__(self, root: Any) -> None:
        self.definitions = definitions(root)
        self.known: dict[str, str] = {}
        self.classes: list[str] = []
        self.left_bytes = MAX_TYPE_BYTES
        self.space_count = 0

    def fields(self, schema: Any, owner: str, depth: int) -> list[tuple[str, str, str]]:
        """Key, description and declaration of each property of `schema`."""
        found = []
        needed = set(strings(schema, "required"))
        for key, item in properties(schema).items():
            kind = self.kind(item, (owner, key), depth + 1)
            if key not in needed:
                kind += ("" if kind.endswith("None") else " | None") + " = None"
            found.append((key, _description(item), f"{key}: {kind}"))
        return found

    def described(self, fields: list[tuple[str, str, str]]) -> str:
        """The lines of documentation of properties."""
        self.space_count += sum(not text for _, text, _ in fields)
        return "".join(f"    {key}:{' ' * bool(text)}{text}\n" for key, text, _ in fields)

    def kind(self, schema: Any, name: tuple[str, str], depth: int) -> str:
        """The type of a value, `name` if it needs a class."""
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return "Any"
        target = reference_name(schema)
        if target is not None:
            return self._referred(target, name, depth)
        values = schema.get("enum")
        if isinstance(values, list) and values:
            return f"Literal{spaced(values)}"
        for key in ("anyOf", "any_of", "oneOf"):
            variants = schema.get(key)
            if isinstance(variants, list):
                return union([self.kind(item, name, depth + 1) for item in variants])
        kinds = schema.get("type")
        if isinstance(kinds, list):
            names = [kind for kind in kinds if isinstance(kind, str)]
            return union([self._named(kind, schema, name, depth) for kind in names])
        return self._named(kinds if isinstance(kinds, str) else "", schema, name, depth)

    def _referred(self, target: str, name: tuple[str, str], depth: int) -> str:
        if target in self.known:
            left_bytes = self.left_bytes - len(self.known[target].encode())
            self.left_bytes = max(0, left_bytes)
            return self.known[target] if left_bytes >= 0 else "Any"
        if target not in self.definitions:
            return "Any"
        whole = self._whole(name)
        if whole is None:
            return "Any"
        self.known[target] = whole
        self.known[target] = self.kind(self.definitions[target], name, depth + 1)
        return self.known[target]

    def _named(self, kind: str, schema: dict[str, Any], name: tuple[str, str], depth: int) -> str:
        """The type of a value whose JSON type is `kind`."""
        kind = ascii_lower(kind)
        if kind in SCALARS:
            return SCALARS[kind]
        if kind == "array":
            items = self.kind(schema["items"], name, depth + 1) if "items" in schema else "Any"
            return f"list[{items}]"
        if properties(schema):
            return self._class(schema, name, depth)
        return "dict" if kind == "object" else "Any"

    def _whole(self, name: tuple[str, str]) -> str | None:
        """`name` in one word; none if there is no room left for it."""
        owner, key = name
        left_bytes = self.left_bytes - len(owner.encode()) - len(key.encode())
        if left_bytes < 0:
            return None
        self.left_bytes = left_bytes
        return owner + camel(key)

    def _class(self, schema: dict[str, Any], name: tuple[str, str], depth: int) -> str:
        """Writes the class `name`; its name."""
        whole = self._whole(name)
        if whole is None:
            return "Any"
        fields = self.fields(schema, whole, depth)
        attributes = self.described(fields)
        declared = "".join(f"  {field}\n" for _, _, field in fields)
        self.classes.append(
            f'@dataclasses.dataclass(kw_only=True)\nclass {whole}:\n  """{_description(schema)}'
            f'\n\n  Attributes:\n{attributes}  """\n{declared}\n\n'
        )
        return whole


def definitions(root: Any) -> dict[str, Any]:
    """What a schema defines for its references."""
    found: dict[str, Any] = {}
    for key in ("definitions", "$defs"):
        items = root.get(key) if isinstance(root, dict) else None
        found.update(items if isinstance(items, dict) else {})
    return found


def reference_name(schema: Any) -> str | None:
    """The name of the definition that `schema` refers to."""
    target = schema.get("$ref") if isinstance(schema, dict) else None
    return target.rsplit("/", 1)[-1] if isinstance(target, str) else None


def properties(schema: Any) -> dict[str, Any]:
    """The properties of `schema`."""
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def strings(schema: Any, key: str) -> list[str]:
    """The texts of the list at `key`."""
    found = schema.get(key) if isinstance(schema, dict) else None
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def union(kinds: list[str]) -> str:
    """Types with `|` between them, each once."""
    return " | ".join(dict.fromkeys(kinds))


def camel(key: str) -> str:
    """A key as part of the name of a class."""
    return "".join(ascii_upper(word[:1]) + word[1:] for word in key.split("_"))


def indented(text: str) -> str:
    """`text` with two spaces before each line but the first and blank ones."""
    first, *lines = text.split("\n")
    return "\n".join([first, *(f"  {line}" if line.strip(" \t\r\v\f") else line for line in lines)])


def _description(schema: Any) -> str:
    found = schema.get("description") if isinstance(schema, dict) else None
    return found if isinstance(found, str) else ""
