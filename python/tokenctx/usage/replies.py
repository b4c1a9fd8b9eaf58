"""The assistant's message, put together from the events of a stream.

One class for each stream format. Each gives the message in the shape of its own API, as a client
sends it back, so that `record(reply=...)` reads it like a response that was not streamed.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from tokenctx._core import Alike
from tokenctx._results.parts import types_of

Json = dict[str, Any]
PIECES: Final = 1024
OTHER: Final = "other"
"""Places of text begin with it that is in no message."""


class Reply(ABC):
    """The message so far.

    Attributes:
        has_ended: The message is whole; usage in this or a later event is final.
        is_complete: The stream has all that its format has at the end.
        has_several: There are several answers, so none that must come back.
        has_usage_deltas: Each event has the usage that it adds.
        alike: What may differ between events that are read as one: texts that are joined, what
            no one reads, and usage that replaces the one before. Reading all else of such an event
            a second time must change nothing; what is `absent` would.
    """

    dialect: ClassVar[str | None] = None
    alike: ClassVar[Alike] = Alike()
    has_usage_deltas: ClassVar[bool] = False

    def __init__(self) -> None:
        self.has_ended = False
        self.is_complete = False
        self.has_several = False
        self._pieces: dict[tuple[Any, ...], _Text] = {}
        self._whole: Any = None  # of an answer that was not streamed
        self._others: list[Any] = []  # as much of further ones

    @abstractmethod
    def add(self, event: Json) -> None:
        """Take the next event."""

    @abstractmethod
    def message(self) -> Any:
        """The message; None if there is nothing in it."""

    def end(self) -> None:
        """The stream has ended, says who reads it; what has an end of its own knows better."""
        return

    def texts(self) -> list[str]:
        """All text of all answers that has come, in no order."""
        return [*texts_of([self.message(), self._others]), *self._heard()]

    def _heard(self) -> list[str]:
        """Texts that have come in pieces and are in no message yet, or never are."""
        return [it.joined() for place, it in self._pieces.items() if place[0] == OTHER]

    def emptied(self) -> Reply:
        """A reader that knows as much of the stream, but has no message any more."""
        other = type(self)()
        other.has_ended, other.is_complete = self.has_ended, self.is_complete
        other.has_several = True
        return other

    def _take(self, message: object) -> None:
        """The message of an answer that was not streamed."""
        self._whole = message
        self.has_ended = self.is_complete = True

    def _append(self, text: object, *place: Any) -> None:
        if isinstance(text, str) and text:
            pieces = self._pieces.get(place)
            if pieces is None:
                pieces = self._pieces[place] = _Text()
            pieces.append(text)

    def _text(self, *place: Any) -> str:
        pieces = self._pieces.get(place)
        return pieces.joined() if pieces else ""

    def _arguments(self, *place: Any, default: object) -> Any:
        """JSON that came in pieces; the text itself if it is none."""
        text = self._text(*place)
        try:
            return json.loads(text) if text else default
        except (ValueError, RecursionError):
            return text


class _Text:
    """A text that comes in pieces, which are joined now and then: a piece alone takes 70 bytes."""

    __slots__ = ("_joined", "_new")

    def __init__(self) -> None:
        self._joined: list[str] = []
        self._new: list[str] = []

    def append(self, piece: str) -> None:
        self._new.append(piece)
        if len(self._new) == PIECES:
            self._joined.append("".join(self._new))
            self._new.clear()

    def joined(self) -> str:
        return "".join((*self._joined, *self._new))


class ChatReply(Reply):
    """OpenAI Chat Completions, and all that speak it."""

    dialect = "openai-chat"
    TEXTS: Final = ("content", "refusal", "reasoning_content", "reasoning", "thinking")
    LISTS: Final = frozenset({"content", "reasoning_details", "images"})
    CALLS: Final = tuple(
        (field, part.arguments[0]) for field, part in types_of("openai-chat", "call").items()
    )
    alike = Alike(
        joined=[
            "choices.0.text",
            *(f"choices.0.delta.{name}" for name in TEXTS),
            *(f"choices.0.delta.tool_calls.0.{field}.{name}" for field, name in CALLS),
            *(f"choices.0.delta.function_call.{name}" for name in ("name", "arguments")),
        ],
        ignored=["id", "created", "obfuscation"],
        latest=["usage"],
        absent=["data", *(f"choices.0.delta.{name}" for name in ("reasoning_details", "images"))],
    )

    def __init__(self) -> None:
        super().__init__()
        self._role = "assistant"
        self._lists: dict[str, list[Any]] = {}
        self._calls: dict[int, Json] = {}
        self._has_legacy_call = False

    def add(self, event: Json) -> None:
        for choice in objects(event.get("choices")):
            self._append(choice.get("text"), OTHER, number(choice.get("index")))  # a completion's
            if choice.get("index"):
                self.has_several = True
                self._other(choice)
                continue
            if message := fields(choice.get("message")):
                self._take(message)
            self._delta(fields(choice.get("delta")))
            if choice.get("finish_reason") is not None:
                self.has_ended = self.is_complete = True

    def _other(self, choice: Json) -> None:
        self._others += [choice["message"]] if choice.get("message") else []
        for nth, it in enumerate(texts_of(choice.get("delta"))):
            self._append(it, OTHER, number(choice.get("index")), nth)

    def _delta(self, delta: Json) -> None:
        self._role = text(delta.get("role")) or self._role
        for name, value in delta.items():
            if isinstance(value, str):
                if name in self.TEXTS:
                    self._append(value, name)
                elif name != "role":
                    self._append(value, OTHER, 0, name)
            elif value and name in self.LISTS and (found := objects(value)):
                self._lists.setdefault(name, []).extend(found)
        for position, call in enumerate(objects(delta.get("tool_calls"))):
            self._call(call, call.get("index"), position)
        if legacy := fields(delta.get("function_call")):
            self._has_legacy_call = True
            self._append(legacy.get("name"), "legacy", "name")
            self._append(legacy.get("arguments"), "legacy", "arguments")

    def _call(self, part: Json, index: object, position: int) -> None:
        place = number(index, position)
        call = self._calls.setdefault(place, {})
        call |= {name: part[name] for name in ("id", "type") if part.get(name)}
        for kind, argument in self.CALLS:
            if inner := fields(part.get(kind)):
                call.setdefault(kind, {})
                if name := text(inner.get("name")):
                    call[kind]["name"] = name
                self._append(inner.get(argument), place, kind, argument)

    def message(self) -> Any:
        if self._whole:
            return self._whole
        message: Json = {name: self._text(name) for name in self.TEXTS if self._text(name)}
        message |= self._lists
        if self._calls:
            message["tool_calls"] = [self._made(place) for place in sorted(self._calls)]
        if self._has_legacy_call:
            names = ("name", "arguments")
            message["function_call"] = {name: self._text("legacy", name) for name in names}
        return {"role": self._role, "content": None, **message} if message else None

    def _made(self, place: int) -> Json:
        call = dict(self._calls[place])
        for kind, argument in self.CALLS:
            if kind in call:
                call[kind] = {**call[kind], argument: self._text(place, kind, argument)}
        return call


class ResponsesReply(Reply):
    """OpenAI Responses."""

    dialect = "openai-responses"
    alike = Alike(joined=["delta"], ignored=["obfuscation", "sequence_number"], absent=["data"])

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[int, Json] = {}
        self._output: list[Json] = []

    def add(self, event: Json) -> None:
        kind = event.get("type")
        index = event.get("output_index")
        if kind is None and event.get("status") in (None, "completed", "incomplete"):
            self._take(objects(event.get("output")))
        if kind == "response.output_item.done" and isinstance(index, int):
            self._items[index] = fields(event.get("item"))
            for place in [it for it in self._pieces if it[1] == index]:
                del self._pieces[place]  # the item has it
        elif isinstance(delta := event.get("delta"), str):
            self._append(delta, OTHER, number(index), text(kind))
        if kind in ("response.completed", "response.incomplete"):
            self._output = objects(fields(event.get("response")).get("output"))
            self.has_ended = self.is_complete = True

    def message(self) -> Any:
        items = [self._items[index] for index in sorted(self._items)]
        return self._whole or self._output or items or None


class AnthropicReply(Reply):
    """Anthropic Messages."""

    dialect = "anthropic"
    DELTAS: Final = {
        "text_delta": "text",
        "thinking_delta": "thinking",
        "signature_delta": "signature",
        "compaction_delta": "content",
    }
    alike = Alike(
        joined=["delta.partial_json", *(f"delta.{name}" for name in DELTAS.values())],
        ignored=["p"],
        absent=["data", "delta.citation"],
    )
    ARGUMENTS: Final = frozenset(
        name
        for part in types_of("anthropic", "part", "request").values()
        for name in part.arguments
    )

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, Json] = {}

    def add(self, event: Json) -> None:
        kind, index = event.get("type"), event.get("index")
        if kind == "content_block_start" and isinstance(index, int):
            self._blocks[index] = dict(fields(event.get("content_block")))
        elif kind == "content_block_delta" and isinstance(index, int) and index in self._blocks:
            self._delta(index, fields(event.get("delta")))
        elif kind == "message_delta":
            if fields(event.get("delta")).get("stop_reason") is not None:
                self.has_ended = self.is_complete = True  # what follows says nothing more
        elif kind == "message":
            self._blocks = dict(enumerate(objects(event.get("content"))))
            self._take(None)

    def _delta(self, index: Any, delta: Json) -> None:
        kind = delta.get("type")
        if kind == "input_json_delta":
            self._append(delta.get("partial_json"), index, "json")
        elif kind == "citations_delta":
            block = self._blocks[index]
            block["citations"] = [*objects(block.get("citations")), delta.get("citation")]
        elif isinstance(kind, str) and (name := self.DELTAS.get(kind)):
            self._append(delta.get(name), index, name)

    def message(self) -> Any:
        blocks = [self._made(index) for index in sorted(self._blocks)]
        return {"role": "assistant", "content": blocks} if blocks else None

    def _made(self, index: int) -> Json:
        block = dict(self._blocks[index])
        for name in self.DELTAS.values():
            if more := self._text(index, name):
                block[name] = text(block.get(name)) + more
        for name in self.ARGUMENTS & block.keys():
            block[name] = self._arguments(index, "json", default=block[name])
        return block


class GeminiReply(Reply):
    """Gemini, as server-sent events or as an array."""

    dialect = "gemini"
    alike = Alike(
        joined=["candidates.0.content.parts.0.text"],
        latest=["usageMetadata"],
        absent=["data", "response"],
    )

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[Json] = []

    def add(self, event: Json) -> None:
        body = fields(event.get("response")) or event
        for candidate in objects(body.get("candidates")):
            if candidate.get("index"):
                self.has_several = True
                for nth, it in enumerate(texts_of(candidate.get("content"))):
                    self._append(it, OTHER, number(candidate.get("index")), nth)
                continue
            for part in objects(fields(candidate.get("content")).get("parts")):
                self._part(part)
            reason = candidate.get("finishReason") or candidate.get("finish_reason")
            if reason is not None:
                self.has_ended = self.is_complete = True

    def _part(self, part: Json) -> None:
        last = self._parts[-1] if self._parts else {}
        is_more = isinstance(part.get("text"), str) and "text" in last
        if is_more and bool(part.get("thought")) == bool(last.get("thought")):
            last |= {name: value for name, value in part.items() if name != "text"}
        else:
            self._parts.append({**part, "text": ""} if "text" in part else part)
        self._append(part.get("text"), len(self._parts) - 1)

    def message(self) -> Any:
        made = [
            {**part, "text": self._text(index)} if "text" in part else part
            for index, part in enumerate(self._parts)
        ]
        parts = [part for part in made if part.get("text") != "" or len(part) > 1]
        return {"role": "model", "parts": parts} if parts else None


class ConverseReply(Reply):
    """Bedrock ConverseStream."""

    dialect = "bedrock-converse"
    EVENTS: Final = (
        "messageStart",
        "contentBlockStart",
        "contentBlockDelta",
        "contentBlockStop",
        "messageStop",
        "metadata",
    )
    PARTS: Final = types_of("bedrock-converse", "field", "request")
    alike = Alike(
        joined=[
            f"contentBlockDelta.delta.{name}"
            for name in (
                "text",
                "toolUse.input",
                "reasoningContent.text",
                "reasoningContent.signature",
            )
        ],
        ignored=["contentBlockDelta.p"],
        absent=["data"],
    )

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, Json] = {}

    def add(self, event: Json) -> None:
        started = fields(event.get("contentBlockStart"))
        delta = fields(event.get("contentBlockDelta"))
        if started:
            self._block(started)[1].update(fields(started.get("start")))
        if delta:
            self._delta(*self._block(delta), delta.get("delta"))
        if "messageStop" in event:
            self.has_ended = self.is_complete = True
        if "metadata" in event:  # which has the usage, and may come first
            self.has_ended = True
        if message := fields(fields(event.get("output")).get("message")):
            self._take(message)

    def _block(self, event: Json) -> tuple[int, Json]:
        index = number(event.get("contentBlockIndex"))
        return index, self._blocks.setdefault(index, {})

    def _delta(self, index: int, block: Json, delta: object) -> None:
        for field, value in fields(delta).items():
            part = self.PARTS.get(field)
            if part is None:
                continue
            if part.kind == "text":
                block.setdefault(field, "")
                self._append(value, index, field)
            elif part.kind == "call":
                self._append(fields(value).get(part.arguments[0]), index, field)
            elif part.kind == "reasoning":
                opaque = block.setdefault(field, {})
                for name, inner in fields(value).items():
                    self._append(inner, index, field, name)
                    if isinstance(inner, bytes) and isinstance(opaque, dict):
                        opaque[name] = opaque.get(name, b"") + inner

    def message(self) -> Any:
        if self._whole:
            return self._whole
        blocks = [self._made(index, block) for index, block in sorted(self._blocks.items())]
        blocks = [block for block in blocks if block]
        return {"role": "assistant", "content": blocks} if blocks else None

    def _made(self, index: int, block: Json) -> Json:
        made = dict(block)
        for field, part in self.PARTS.items():
            if field not in block:
                continue
            if part.kind == "text":
                made[field] = self._text(index, field)
            elif part.kind == "call":
                arguments = self._arguments(index, field, default={})
                made[field] = {**fields(block[field]), part.arguments[0]: arguments}
            elif part.kind == "reasoning" and not block[field]:
                names = ("text", "signature")
                text = {name: self._text(index, field, name) for name in names}
                made[field] = {"reasoningText": text}
        return made


class CohereReply(Reply):
    """Cohere v2 Chat."""

    alike = Alike(
        joined=[f"delta.message.content.{name}" for name in ("text", "thinking")],
        absent=["data", "delta.message.tool_calls"],
    )

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[int, Json] = {}

    def add(self, event: Json) -> None:
        index = number(event.get("index"))
        message = fields(fields(event.get("delta")).get("message"))
        content, call = fields(message.get("content")), fields(message.get("tool_calls"))
        self._append(content.get("text"), "text")
        self._append(content.get("thinking"), "thinking")
        function = fields(call.get("function"))
        if event.get("type") == "tool-call-start":
            self._calls[index] = {**call, "function": function}
        elif event.get("type") == "tool-call-delta":
            self._append(function.get("arguments"), "arguments", index)
        elif event.get("type") == "message-end":
            self.has_ended = self.is_complete = True
        elif "type" not in event:
            self._take(fields(event.get("message")))

    def message(self) -> Any:
        if self._whole:
            return self._whole
        message: Json = {}
        if self._text("text"):
            message["content"] = [{"type": "text", "text": self._text("text")}]
        if thinking := self._text("thinking"):
            thought = {"type": "thinking", "thinking": thinking}
            message["content"] = [thought, *message.get("content", [])]
        if self._calls:
            message["tool_calls"] = [self._made(index) for index in sorted(self._calls)]
        return {"role": "assistant", **message} if message else None

    def _made(self, index: int) -> Json:
        call = self._calls[index]
        begun = text(call["function"].get("arguments"))
        arguments = begun + self._text("arguments", index)
        return {**call, "function": {**call["function"], "arguments": arguments}}


class InteractionReply(Reply):
    """Google's Interactions: steps, each in events of its own."""

    dialect = "gemini-interactions"
    ENDS: Final = frozenset({"completed", "requires_action", "incomplete", "budget_exceeded"})
    alike = Alike(
        joined=["delta.text", "delta.arguments"],
        ignored=["event_id"],
        absent=["data", "delta.content", "delta.signature"],
    )

    def __init__(self) -> None:
        super().__init__()
        self._steps: dict[int, Json] = {}

    def add(self, event: Json) -> None:
        kind, index = event.get("event_type"), event.get("index")
        body = fields(event.get("interaction") or event)
        status = body.get("status")
        if isinstance(status, str) and status in self.ENDS:
            self.has_ended = True
            self.is_complete |= kind != "interaction.status_update"
            self._whole = objects(body.get("steps")) or self._whole
        if kind == "step.start" and isinstance(index, int):
            self._steps[index] = dict(fields(event.get("step")))
        elif kind == "step.delta" and isinstance(index, int) and index in self._steps:
            self._delta(index, fields(event.get("delta")))

    def _delta(self, index: int, delta: Json) -> None:
        step = self._steps[index]
        kind = delta.get("type")
        if kind == "text":
            self._append(delta.get("text"), index, "text")
        elif kind == "arguments_delta":
            self._append(delta.get("arguments"), index, "json")
        elif kind == "thought_signature":
            step["signature"] = delta.get("signature")
        elif kind == "thought_summary":
            step["summary"] = [*objects(step.get("summary")), delta.get("content")]
        elif step.get("type") == "model_output":
            step["content"] = [*objects(step.get("content")), delta]
        else:  # the vendor's own calls and results come whole
            step.update({name: value for name, value in delta.items() if name != "type"})

    def message(self) -> Any:
        steps = [self._made(index) for index in sorted(self._steps)]
        return self._whole or steps or None

    def _made(self, index: int) -> Json:
        step = dict(self._steps[index])
        if said := self._text(index, "text"):
            step["content"] = [*objects(step.get("content")), {"type": "text", "text": said}]
        if self._text(index, "json"):
            step["arguments"] = self._arguments(index, "json", default={})
        return step


class LangChainReply(Reply):
    """Chunks of LangChain, in OpenAI's format, to which its own function converts messages."""

    has_usage_deltas = True

    def __init__(self) -> None:
        super().__init__()
        self.has_ended = True  # usage is the sum of all chunks
        self._calls: dict[int, Json] = {}

    def add(self, event: Json) -> None:
        content = event.get("content")
        self._append(content, "text")
        for block in objects(content):
            self._append(block.get("text"), "text")
        for position, call in enumerate(objects(event.get("tool_call_chunks"))):
            index = number(call.get("index"), position)
            self._call(index, call)
            self._append(call.get("args"), index)
        if event.get("type") == "AIMessage":
            for position, call in enumerate(objects(event.get("tool_calls"))):
                self._call(position, call)
                self._append(json.dumps(call.get("args")), position)
        is_last = event.get("chunk_position") == "last"
        self.is_complete |= is_last or event.get("type") == "AIMessage"

    def end(self) -> None:
        self.is_complete = True

    def _call(self, index: int, call: Json) -> None:
        made = self._calls.setdefault(index, {})
        made |= {name: call[name] for name in ("id", "name") if call.get(name)}

    def message(self) -> Any:
        message: Json = {}
        if self._calls:
            message["tool_calls"] = [self._made(index) for index in sorted(self._calls)]
        if not message and not self._text("text"):
            return None
        return {"role": "assistant", "content": self._text("text") or None, **message}

    def _made(self, index: int) -> Json:
        call = self._calls[index]
        function = {"name": text(call.get("name")), "arguments": self._text(index)}
        return {"id": call.get("id"), "type": "function", "function": function}


NO_REPLY: Final = Alike(
    ignored=["message.content", "message.thinking", "response", "thinking", "created_at"],
    absent=["data"],
)
"""Of a stream whose format is not known, as that of Ollama: its text is not read."""
FORMAT_NAMES: Final = frozenset(
    {"choices", "type", "event_type", "object", "output", "response", "candidates", "message"}
    | {"usageMetadata", *ConverseReply.EVENTS}
)
"""The types of events that tell the format of a stream."""


def reply_of(event: Json) -> Reply | None:
    """An empty reply of the format that `event` belongs to; None if it shows none."""
    if FORMAT_NAMES.isdisjoint(event):
        return None
    kind = text(event.get("type"))
    inner = fields(event.get("response"))
    if "choices" in event:
        return ChatReply()
    if kind.startswith("response.") or (not kind and isinstance(event.get("output"), list)):
        return ResponsesReply()
    if kind.startswith(("message_", "content_block_")) or kind == "message":
        return AnthropicReply()
    if kind.startswith("AIMessage"):
        return LangChainReply()
    if text(event.get("event_type")).startswith(("interaction.", "step.")) or (
        event.get("object") == "interaction"
    ):
        return InteractionReply()
    if kind.startswith(("message-", "content-", "tool-call-", "tool-plan-")):
        return CohereReply()
    if {"candidates", "usageMetadata"} & {*event, *inner}:
        return GeminiReply()
    if any(name in event for name in ConverseReply.EVENTS):
        return ConverseReply()
    if fields(fields(event.get("output")).get("message")):
        return ConverseReply()
    if "finish_reason" in event and fields(event.get("message")):
        return CohereReply()
    return None


def fields(value: object) -> Json:
    """`value` if it is an object, else an empty one."""
    if isinstance(value, dict):
        return value
    return dict(value) if isinstance(value, Mapping) else {}


def objects(value: object) -> list[Json]:
    """The objects in a list; none if it is no list."""
    items = value if isinstance(value, (list, tuple)) else ()
    return [item for item in items if isinstance(item, dict)]


def texts_of(value: object) -> list[str]:
    """Every text in a value, keys left out."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, Mapping):
            waiting += one.values()
        elif isinstance(one, (list, tuple)):
            waiting += one
    return found


def number(value: object, otherwise: int = 0) -> int:
    """`value` if it is an index, else another."""
    return value if isinstance(value, int) else otherwise


def text(value: object) -> str:
    """`value` if it is text, else the empty one."""
    return value if isinstance(value, str) else ""
