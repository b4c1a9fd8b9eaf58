"""Changes of a body before it is sent: a few members, and not one byte beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tokenctx._core import _json_members

if TYPE_CHECKING:
    from tokenctx._results.estimates import Dialect

Json = dict[str, Any]

MAX_VALUE_BYTES: Final = 1 << 16
"""No option that is looked at here is longer."""
LITERALS: Final = {b"true": True, b"false": False, b"null": None}
OUTPUT_MEMBERS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "openai-chat": (("max_completion_tokens",), ("max_tokens",)),
    "vscode": (("max_completion_tokens",), ("max_tokens",)),
    "openai-responses": (("max_output_tokens",),),
    "anthropic": (("max_tokens",),),
    "gemini": (
        ("generationConfig", "maxOutputTokens"),
        ("generation_config", "max_output_tokens"),
    ),
    "gemini-interactions": (("generation_config", "max_output_tokens"),),
    "bedrock-converse": (("inferenceConfig", "maxTokens"),),
}
"""Where a body says how much output it wants, by dialect."""


class BodyFields:
    """The top level of a request body, JSON bytes or a dict, read only where it is asked for."""

    def __init__(self, body: bytes | Mapping[str, Any]) -> None:
        self._body = body
        self._found: dict[str, tuple[int, int]] | None = None

    @property
    def _places(self) -> dict[str, tuple[int, int]]:
        """Where the values of bytes begin and end; of equal keys the last counts."""
        if self._found is None:
            members = _json_members(self._body) if isinstance(self._body, bytes) else None
            self._found = {key: (start, end) for key, start, end in members or ()}
        return self._found

    @property
    def is_read(self) -> bool:
        """True if its members are known."""
        return not isinstance(self._body, bytes) or bool(self._places)

    def value(self, name: str) -> Any:
        """The value of a member; None if it is not there, long or no JSON."""
        if not isinstance(self._body, bytes):
            return self._body.get(name)
        start, end = self._places.get(name, (0, 0))
        if start == end or end - start > MAX_VALUE_BYTES:
            return None
        text = self._body[start:end]
        if text in LITERALS:
            return LITERALS[text]
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None

    def changed(self, changes: Mapping[str, Any]) -> bytes:
        """The body as bytes, with other values, or new members at its beginning."""
        if not isinstance(self._body, bytes):
            return json.dumps({**self._body, **changes}).encode()
        body, at = memoryview(self._body), self._body.index(b"{") + 1  # a body is copied once
        new = {name: value for name, value in changes.items() if name not in self._places}
        parts: list[bytes | memoryview] = [body[:at]]
        if new:
            inner = json.dumps(new)[1:-1].encode()
            parts.append(inner + b", " if self._places else inner)
        for (start, end), name in sorted((self._places[it], it) for it in changes.keys() - new):
            parts += [body[at:start], json.dumps(changes[name]).encode()]
            at = end
        return b"".join([*parts, body[at:]])


def usage_wanted(body: BodyFields) -> Json:
    """The edits that make a stream of OpenAI's Chat report its usage; empty if it does."""
    if body.value("stream") is not True:
        return {}
    options = body.value("stream_options")
    if not isinstance(options, Mapping):
        options = {}
    if options.get("include_usage"):
        return {}
    return {"stream_options": {**options, "include_usage": True}}


def less_output(body: BodyFields, dialect: Dialect, most: int) -> Json:
    """The edits that ask for `most` output tokens at most; empty if nothing is changed.

    A request whose thinking needs more than that is left alone: its vendor refuses less.
    """
    thinking = body.value("thinking") if dialect == "anthropic" else None
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    if isinstance(budget, int) and budget >= most:
        return {}
    changes: Json = {}
    for name, *inner in OUTPUT_MEMBERS[dialect]:
        value = body.value(name)
        if not inner and _is_more(value, most):
            changes[name] = most
        elif inner and isinstance(value, Mapping) and _is_more(value.get(inner[0]), most):
            changes[name] = {**value, inner[0]: most}
    return changes


def _is_more(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > most
