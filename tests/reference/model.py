"""The neutral request that every dialect is read into."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Union

Dialect = Literal[
    "openai-chat", "openai-responses", "anthropic", "gemini", "bedrock-converse", "vscode"
]
MediaKind = Literal["image", "file", "audio", "video"]
CallForm = Literal["plain", "item", "legacy"]
"""`item`: with an id of the provider's own; `legacy`: a `function_call` of Chat."""


@dataclass(frozen=True)
class Text:
    """Text as it is."""

    text: str
    ends: tuple[int, ...] = field(default=(), compare=False)
    """Where the blocks end that it was joined from, all but the last: no part of the identity."""
    documents: tuple[str, ...] = field(default=(), compare=False)
    """File names of the documents in it, empty where it has the name: no part of the identity."""


@dataclass(frozen=True)
class Media:
    """An image, file, audio or video: its bytes, or only where they are."""

    kind: MediaKind
    mime: str = ""
    data: bytes | None = None
    """Decoded bytes, as far as they could be decoded."""
    reference: str = ""
    """URL or file id; empty when the bytes are here."""
    detail: str = ""
    name: str = ""
    """File name; not part of the identity."""
    malformed: str = ""
    """The text that stood for the bytes where it was not base64 to its end."""


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool by the model."""

    name: str
    arguments: str
    """Compact JSON, keys in the given order; text that is not JSON as it is."""
    canonical: str
    """The same with sorted keys."""
    form: CallForm = "plain"
    """How it stands in the body: neither identity nor part of the view."""
    signature_bytes: int = 0
    """Length of the signature of the thoughts before it; no part of the identity either."""
    is_run_by_vendor: bool = False
    """Whether the vendor ran the tool on the way to its answer; no part of the identity either."""


@dataclass(frozen=True)
class ToolResult:
    """What a tool call returned."""

    name: str
    parts: tuple[Part, ...]
    is_error: bool = False
    call_id: str = field(default="", compare=False)
    """The id of the call, where a message of Chat has it: no part of the identity."""


@dataclass(frozen=True)
class Reasoning:
    """Reasoning that the client sends back: readable text, or an opaque blob."""

    text: str
    opaque: str = ""


@dataclass(frozen=True)
class Data:
    """Anything else, counted as its JSON text."""

    json: str
    canonical: str


Part = Union[Text, Media, ToolCall, ToolResult, Reasoning, Data]  # noqa: UP007  # refers to itself


@dataclass(frozen=True)
class Message:
    """One message: who speaks, and its parts in order, adjacent text merged."""

    role: str
    parts: tuple[Part, ...]
    name: str = ""
    has_role: bool = field(default=True, compare=False)
    """False for Gemini's content that does not say whose it is: no part of the identity."""


@dataclass(frozen=True)
class Tool:
    """A tool definition; `builtin` ones run at the provider and are known only by type."""

    name: str
    description: str
    schema: str
    """Compact JSON of the parameters, empty when there are none."""
    canonical: str
    """The whole definition as canonical JSON, cache markers left out: its identity."""
    builtin: bool = False
    is_json_schema: bool = False
    """Whether the schema stands where Gemini takes one as JSON Schema."""
    is_loaded: bool = False
    """Whether the model sees it only because a message refers to it."""


@dataclass(frozen=True)
class Request:
    """System, tools, messages and the options that cost input tokens."""

    dialect: Dialect
    model: str
    system: tuple[Part, ...] = ()
    is_raw: bool = False
    """Whether the messages are a prompt as the model reads it, without a chat template."""
    has_system_role: bool = True
    """False where Gemini's system prompt does not say whose it is."""
    tools: tuple[Tool, ...] = ()
    """Those that the model sees from the start, and deferred ones that a message refers to."""
    deferred_tools: tuple[Tool, ...] = ()
    """All with `defer_loading`, whether a message refers to them or not."""
    added_tools: tuple[Tool, ...] = ()
    """Those in items of the Responses API that add tools."""
    messages: tuple[Message, ...] = ()
    tool_choice: str = ""
    """`required`, `none`, `tool:` and the name of the forced tool, or empty: the model is free."""
    response_schema: str = ""
    """Compact JSON of the structured output's schema."""
    json_schema: bool = False
    """Whether that schema stands where Gemini takes one as JSON Schema."""
    schema_name: str = ""
    schema_description: str = ""
    thinking: bool = False
    citations: bool = False
    """Whether the model is asked to cite a document."""
    serial: bool = False
    """Whether the model may make but one call at a time."""
    pro: bool = False
    """Whether a mode of reasoning with a hidden prompt is asked for."""
    assumptions: frozenset[str] = field(default_factory=frozenset)
