"""The neutral conversation that every dialect is read into and written from.

Nothing is changed once it is made; nodes are not frozen only because a frozen one takes four times
as long to make. A node keeps the value it was read from (`raw`), so that a conversation which goes
back to its own dialect keeps every field, known or not, and the place of it (`path`), so that what
is lost can be named.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from tokenctx._results.errors import RequestError
from tokenctx.convert import mime

if TYPE_CHECKING:
    from collections.abc import Mapping

Dialect = Literal[
    "openai-chat", "openai-responses", "anthropic", "gemini", "gemini-interactions", "ai-sdk"
]
Source = Literal[
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "gemini-interactions",
    "ai-sdk",
    "vscode",
]
Role = Literal["system", "developer", "user", "assistant", "tool"]
Maker = Literal["anthropic", "openai", "google"]
Path = tuple["str | int", ...]
Json = dict[str, Any]

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def _nothing() -> Mapping[str, Any]:
    return NOTHING


INVALID_ARGUMENTS: Final = "invalid_json"
"""The only key of an object that stands for arguments which are no JSON object."""


@dataclass(slots=True)
class Node:
    """The fields that every message and part has.

    Attributes:
        path: Where it stood in the source.
        raw: What it was read from; None if it was made or changed here.
        extra: Fields of the source that have no neutral name.
        cache: Anthropic's cache marker.
    """

    path: Path = ()
    raw: Any = None
    extra: Mapping[str, Any] = field(default_factory=_nothing)
    cache: Mapping[str, Any] | None = None


@dataclass(slots=True)
class Text(Node):
    """Text, with citations in the words of its maker and Gemini's thought signature."""

    text: str = ""
    citations: tuple[Any, ...] = ()
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Media:
    """Bytes, or the place where they are. One of the four is set.

    Attributes:
        data: Base64.
        url: Where it can be fetched.
        file_id: The id of an upload, known to `owner` only.
        text: A document that is plain text.
        mime: Normalised; None if it is not said.
    """

    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    owner: Maker | None = None
    text: str | None = None
    mime: str | None = None

    @property
    def is_web(self) -> bool:
        """True if anybody may fetch it."""
        return self.url is not None and self.url.lower().startswith(("https://", "http://"))

    @property
    def as_url(self) -> str | None:
        """The URL, or a data URL of the bytes."""
        if self.data is not None:
            return mime.data_url(self.mime or "application/octet-stream", self.data)
        return self.url


@dataclass(slots=True)
class Image(Node):
    """A picture; `detail` is OpenAI's."""

    media: Media = Media()
    detail: str | None = None


@dataclass(slots=True)
class File(Node):
    """A document, a video or any other file."""

    media: Media = Media()
    name: str | None = None


@dataclass(slots=True)
class Audio(Node):
    """Sound."""

    media: Media = Media()


@dataclass(slots=True)
class ToolCall(Node):
    """A call of a tool.

    Attributes:
        id: None where the dialect has none.
        arguments: JSON text if `is_text`, else a JSON value.
        is_custom: The input of the tool is free text, not JSON.
        item_id: The id of the item that OpenAI Responses has beside the call's.
        signature: Gemini's thought signature.
    """

    id: str | None = None
    name: str = ""
    arguments: Any = None
    is_text: bool = False
    is_custom: bool = False
    item_id: str | None = None
    signature: str | None = None

    def arguments_text(self) -> str:
        """The arguments as JSON text, or the free text of a custom tool."""
        if self.is_text:
            return str(self.arguments)
        if is_invalid_arguments(self.arguments):
            return str(self.arguments[INVALID_ARGUMENTS])
        return dumps({} if self.arguments is None else self.arguments)

    def arguments_object(self) -> tuple[Json, bool]:
        """The arguments as an object, and whether they are one; else they stand in a wrapper."""
        value = self.arguments
        if self.is_text and not self.is_custom:
            value = loads(value) if value.strip() else {}
        if value is None and not self.is_text:
            value = {}
        if isinstance(value, dict):
            return value, not is_invalid_arguments(value)
        if self.is_custom:
            return {"input": self.arguments_text()}, True
        return {INVALID_ARGUMENTS: self.arguments_text()}, False


@dataclass(slots=True)
class ToolResult(Node):
    """The answer of a tool.

    Attributes:
        is_plain: The content was one string, not a list of parts.
        is_custom: It answers a custom tool.
    """

    call_id: str | None = None
    name: str | None = None
    parts: tuple[Part, ...] = ()
    is_error: bool = False
    is_plain: bool = True
    is_custom: bool = False


@dataclass(slots=True)
class Reasoning(Node):
    """A thought of a model.

    Attributes:
        text: Empty if it is secret.
        signature: Anthropic's or Gemini's proof that the text is the model's own.
        encrypted: Anthropic's redacted data or OpenAI's encrypted content.
        id: OpenAI's item id.
        maker: Who made it and takes it back; None if it has no proof.
    """

    text: str = ""
    signature: str | None = None
    encrypted: str | None = None
    id: str | None = None
    maker: Maker | None = None


@dataclass(slots=True)
class Refusal(Node):
    """The model's refusal, in its words."""

    text: str = ""


@dataclass(slots=True)
class Summary(Node):
    """What the provider made of all that was said before it."""

    text: str = ""


@dataclass(slots=True)
class Data(Node):
    """A JSON value that is content, such as the result of a tool."""

    value: Any = None


@dataclass(slots=True)
class Unknown(Node):
    """A part that only its own dialect understands."""


Part = (
    Text
    | Image
    | File
    | Audio
    | ToolCall
    | ToolResult
    | Reasoning
    | Refusal
    | Summary
    | Data
    | Unknown
)


@dataclass(slots=True)
class Message(Node):
    """A message.

    Attributes:
        is_plain: The content was one string, not a list of parts.
        is_top: A system prompt that stands outside of the list of messages.
        name: Of the participant; OpenAI Chat's.
    """

    role: Role = "user"
    parts: tuple[Part, ...] = ()
    is_plain: bool = False
    is_top: bool = False
    name: str | None = None


@dataclass(slots=True)
class Tool(Node):
    """A function that the model may call.

    Attributes:
        schema: Of its arguments; None: it has none.
        is_custom: Its input is free text.
        format: Of that text, as OpenAI Responses has it; None: any text.
    """

    name: str = ""
    description: str | None = None
    schema: Any = None
    strict: bool | None = None
    is_custom: bool = False
    format: Any = None


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """`mode` is auto, none, required or tool, the last with the name of it."""

    mode: str
    name: str | None = None
    is_custom: bool = False


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """`kind` is text, json or schema."""

    kind: str
    schema: Any = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """The value of an option, and where it stood."""

    value: Any
    path: Path


@dataclass(frozen=True, slots=True)
class Conversation:
    """A request of any dialect.

    Attributes:
        options: By neutral name; the names are in `fields.OPTIONS`.
        extra: Paths and values of the body that have no neutral name.
        tool_names: By call id, for results that do not say it.
    """

    dialect: Source
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    options: Mapping[str, Option] = field(default_factory=_nothing)
    extra: Mapping[Path, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=_nothing)
    tool_names: Mapping[str, str] = field(default_factory=_nothing)


def changed(node: Any, **fields: Any) -> Any:
    """`node` with other `fields`; what it was read from is no longer what it is."""
    return replace(node, raw=None, **fields)


def with_marker(parts: tuple[Part, ...], cache: Any) -> tuple[Part, ...]:
    """`parts` with the cache marker of their message at the last that may have one and has none."""
    if cache is None or not parts:
        return parts
    last = parts[-1]
    if isinstance(last, Reasoning) or last.cache is not None:
        return parts
    return (*parts[:-1], replace(last, cache=cache))


def rest(value: Json, known: frozenset[str]) -> Mapping[str, Any]:
    """The fields of `value` that are not `known`."""
    if value.keys() <= known:
        return NOTHING
    return {name: item for name, item in value.items() if name not in known}


def is_invalid_arguments(value: Any) -> bool:
    """True if `value` stands for arguments that are no JSON object."""
    return (
        isinstance(value, dict)
        and len(value) == 1
        and isinstance(value.get(INVALID_ARGUMENTS), str)
    )


def loads(text: str) -> Any:
    """The JSON value of `text`; None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def dumps(value: Any) -> str:
    """`value` as JSON text, as models write it: no white space, characters as they are.

    Raises RequestError for what is no JSON value, such as an object that holds itself.
    """
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError):
        raise RequestError("a value is not JSON: it has no text", "syntax") from None
