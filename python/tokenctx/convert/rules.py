"""The rules of a dialect for the converter, and the writing of its parts."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from tokenctx.convert import mime
from tokenctx.convert.model import (
    Audio,
    Data,
    File,
    Image,
    Reasoning,
    Refusal,
    Summary,
    Text,
    Unknown,
    dumps,
)
from tokenctx.convert.notes import ConversionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tokenctx.convert import model
    from tokenctx.convert.fields import Field
    from tokenctx.convert.model import Conversation, Dialect, Json, Maker, Message, Part
    from tokenctx.convert.notes import Notes

Place = Literal["system", "user", "assistant", "result"]
PartWriter: TypeAlias = "Callable[[Any, Writer], Any]"

UNKNOWN_TOOL: Final = "unknown_tool"
"""The name or the id where there is none and one is demanded."""
IMAGE_STAND_IN: Final = "[Image]"
ID_LETTERS: Final = frozenset(string.ascii_letters + string.digits + "_-")


@dataclass(frozen=True, slots=True)
class IdRule:
    """Which ids of calls a dialect takes; `letters` None: all."""

    longest: int
    letters: frozenset[str] | None = None

    def takes(self, text: str) -> bool:
        """True if the id may stay as it is."""
        is_spelled = self.letters is None or self.letters.issuperset(text)
        return 0 < len(text) <= self.longest and is_spelled


@dataclass(frozen=True, slots=True)
class Rules:
    """A dialect as a table.

    Attributes:
        list_field: The field of the body with the messages.
        maker: Whose reasoning and uploads it takes; None: anybody's.
        read: The body as a neutral conversation.
        write: The neutral conversation as a body.
        fields: The options.
        parts: By place, which parts it takes and how they are written.
        results: Where tool results stand: each in a message of its own (``each``), those of one
            turn in one tool message (``tool``) or in a user message (``user``).
        system: Whether system messages stand outside of the list (``top``), in it (``list``), or
            the first outside and later ones in it (``both``).
        has_developer: Whether there is a developer role.
        has_custom: Whether there are tools whose input is free text.
        has_cache: Whether there are cache markers.
        max_cache_markers: How many of them a request may have; None: any number.
        refuses_empty: Whether empty messages and texts are refused.
        alternates: Whether adjacent messages of one role are refused.
        continues: Whether a last message of the assistant is the beginning of the answer.
        ids: Which ids of calls it takes.
    """

    name: Dialect
    list_field: str
    maker: Maker | None
    read: Callable[[Json, Notes], Conversation]
    write: Callable[[Conversation, Writer], Json]
    fields: tuple[Field, ...]
    parts: Mapping[Place, Mapping[type, PartWriter]]
    results: Literal["each", "tool", "user"]
    system: Literal["top", "list", "both"]
    has_developer: bool = False
    has_custom: bool = False
    has_cache: bool = False
    max_cache_markers: int | None = None
    refuses_empty: bool = False
    alternates: bool = False
    continues: bool = True
    ids: IdRule | None = None


class Writer:
    """Writes the parts of a conversation in one dialect, and notes what it could not write."""

    def __init__(self, rules: Rules, conversation: Conversation, notes: Notes) -> None:
        self.rules = rules
        self.notes = notes
        self.is_same = conversation.dialect == rules.name
        self.custom_calls: set[str | None] = set()  # ids, of those that have been written
        self._names = conversation.tool_names
        model = conversation.options.get("model")
        self.model = str(notes.options.model or (model.value if model else ""))

    def parts(self, parts: Iterable[Part], place: Place) -> list[Any]:
        """All `parts` that could be written."""
        written = [self.part(part, place) for part in parts]
        return [value for value in written if value is not None]

    def part(self, part: Part, place: Place) -> Any:
        """`part` as the dialect writes it there; None if it is dropped."""
        if self.is_same and part.raw is not None:
            return part.raw
        write = self.rules.parts[place].get(type(part))
        value = write(part, self) if write is not None else None
        if value is None:
            return self._stand_in(part, place)
        return self.finish(part, value)

    def tool_name(self, result: model.ToolResult) -> str:
        """The name of the tool that answered."""
        return result.name or self._names.get(result.call_id or "") or UNKNOWN_TOOL

    def finish(self, node: model.Node, value: Any) -> Any:
        """`value` with the other fields of `node`, or a note that they are lost."""
        if not node.extra and node.cache is None:
            return value
        if self.is_same:
            return {**value, **node.extra} if isinstance(value, dict) else value
        for name in node.extra:
            self.notes.lose("field", (*node.path, name))
        if node.cache is not None and not self.rules.has_cache:
            self.notes.lose("cache_control", (*node.path, "cache_control"))
        return value

    def message(self, message: Message, value: Json) -> Json:
        """`value` with the other fields of `message`, or a note that they are lost."""
        if message.name is not None and "name" not in value:
            self.notes.lose("name", (*message.path, "name"))
        finished: Json = self.finish(message, value)
        return finished

    def takes_file_id(self, media: model.Media) -> bool:
        """True if an upload is known to the maker of this dialect."""
        return media.file_id is not None and media.owner == self.rules.maker

    def takes_data(self, part: Image | File | Audio) -> bool:
        """True if there are bytes, of a type that the dialect takes."""
        media = part.media
        is_taken = mime.accepts(
            self.rules.name, media.mime, "image" if isinstance(part, Image) else None
        )
        return is_taken and mime.is_base64(media.data)

    def signature(self, node: Text | model.ToolCall) -> str | None:
        """The thought signature, if the dialect is Google's."""
        if node.signature is not None and self.rules.maker not in {"google", None}:
            self.notes.lose("signature", (*node.path, "thoughtSignature"))
            return None
        return node.signature

    def _stand_in(self, part: Part, place: Place) -> Any:
        """The text in place of a part that the dialect does not take there."""
        if isinstance(part, Reasoning):
            self.notes.lose("reasoning", part.path)
            return None
        text = self._stand_in_text(part, place)
        if text is None:
            return None
        return self.part(Text(part.path, None, part.extra, part.cache, text), place)

    def _stand_in_text(self, part: Part, place: Place) -> str | None:
        if isinstance(part, Refusal):
            self.notes.lose("refusal", part.path)
            return part.text
        if isinstance(part, Summary):
            self.notes.lose("summary", part.path)
            return part.text
        if isinstance(part, Data):
            self.notes.lose("json_as_text", part.path)
            return dumps(part.value)
        if isinstance(part, Image) and place in {"system", "assistant"}:
            return self._image_text(part)
        if isinstance(part, Image | File | Audio):
            return self._media_text(part)
        if isinstance(part, Text):
            return None
        self.notes.lose("unknown_part", part.path)
        if not isinstance(part, Unknown):
            self.notes.warn("unknown_part", part.path)
        return None

    def _image_text(self, image: Image) -> str | None:
        kind = "image_in_non_user_message"
        policy = self.notes.options.image_in_non_user_message
        if policy == "error":
            raise ConversionError(kind, image.path)
        self.notes.lose(kind, image.path)
        return None if policy == "skip" else IMAGE_STAND_IN

    def _media_text(self, part: Image | File | Audio) -> str:
        text = text_of(part.media)
        if text is not None:
            self.notes.lose("media_as_text", part.path)
            return text
        self.notes.lose("media", part.path)
        return f"[{type(part).__name__}: {part.media.mime or 'unknown type'}]"


def is_text(value: Any) -> bool:
    """True if a part, as it is written, is a text and nothing more."""
    return isinstance(value, dict) and value.keys() == {"type", "text"}


def text_of(media: model.Media) -> str | None:
    """The text of a file of text, or None if it is none."""
    if media.text is not None:
        return media.text
    if media.data is None or mime.part_kind(media.mime) not in {"text", "json"}:
        return None
    content = mime.decode_base64(media.data)
    return None if content is None else mime.decode_text(content)
