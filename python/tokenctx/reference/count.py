"""Counts: tokens of a message, of all that stands around the messages, and what is assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tokenctx.reference import bpe
from tokenctx.reference.media import (
    DETAILS,
    MAX_SIDE_PX,
    image_rules,
    image_size,
    image_tokens,
)
from tokenctx.reference.model import Data, Media, Message, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenctx.reference.model import Part, Request, Tool
    from tokenctx.reference.profile import Profile
DEFAULT_SIZE_PX: Final = (1024, 1024)
"""Width and height of an image whose size is not known; the reason is in `image_rules.json`."""


class Counter:
    """Counts with one profile and collects what it had to assume."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.assumptions: set[str] = set()
        self.only_text = True

    def text(self, text: str) -> int:
        """Tokens of `text` in the profile's encoding, before scaling."""
        if self.profile.encoding == "characters":
            return len(text)
        return bpe.count(text, self.profile.encoding)

    def scaled(self, tokens: int) -> int:
        """`tokens` of the encoding as tokens of the provider, rounded up."""
        return -(-tokens * self.profile.text_numerator // self.profile.text_denominator)

    def context(self, request: Request) -> int:
        """Tokens of all but the messages: request framing, system prompt, tools, options."""
        profile, tokens = self.profile, self.profile.request_tokens
        if request.system:
            tokens += profile.system_tokens + self.parts(request.system, counts_reasoning=False)
        if request.tools:
            tokens += self.tools(request.tools) + self.choice(request.tool_choice)
        if request.response_schema:
            self.only_text = False
            schema = self.scaled(self.text(request.response_schema))
            tokens += profile.schema_tokens + _permille(schema, profile.schema_permille)
        return tokens + (profile.thinking_tokens if request.thinking else 0)

    def tools(self, tools: Iterable[Tool]) -> int:
        """Tokens of tool definitions."""
        self.only_text = False
        profile, tokens = self.profile, self.profile.tools_header_tokens
        for tool in tools:
            texts = (tool.name, tool.description, tool.schema)
            tokens += profile.tool_tokens + self.scaled(sum(map(self.text, texts)))
        return profile.tools_tokens + _permille(tokens, profile.tools_permille)

    def choice(self, choice: str) -> int:
        """Tokens that a forced tool choice adds."""
        if choice == "required":
            return self.profile.required_choice_tokens
        if choice.startswith("tool:"):
            return self.profile.forced_choice_tokens + self.scaled(self.text(choice[5:]))
        return 0

    def message(self, message: Message, *, counts_reasoning: bool) -> int:
        """Tokens of one message with its framing."""
        profile, tokens = self.profile, self.profile.message_tokens
        if message.role == "assistant":
            tokens += profile.assistant_tokens
        if message.name:
            tokens += profile.name_tokens + self.scaled(self.text(message.name))
        return tokens + self.parts(message.parts, counts_reasoning=counts_reasoning)

    def parts(self, parts: Iterable[Part], *, counts_reasoning: bool) -> int:
        """Tokens of parts; their text is scaled as a whole."""
        texts, others = self._parts(parts, counts_reasoning=counts_reasoning)
        return self.scaled(texts) + others

    def reasoning(self, message: Message) -> int:
        """Tokens of the reasoning in `message`."""
        parts = (part for part in message.parts if isinstance(part, Reasoning))
        return self.parts(parts, counts_reasoning=True)

    def _parts(self, parts: Iterable[Part], *, counts_reasoning: bool) -> tuple[int, int]:
        texts = others = 0
        for part in parts:
            if not isinstance(part, Text):
                self.only_text = False
            if isinstance(part, Text):
                texts += self.text(part.text)
            elif isinstance(part, Data):
                texts += self.text(part.json)
            elif isinstance(part, ToolCall):
                texts += self.profile.call_name_count * self.text(part.name)
                texts += self.text(part.arguments)
                others += self.profile.call_tokens
            elif isinstance(part, ToolResult):
                nested = self._parts(part.parts, counts_reasoning=counts_reasoning)
                texts += nested[0]
                others += nested[1] + self.profile.result_tokens
            elif isinstance(part, Reasoning):
                if counts_reasoning:
                    texts += self.text(part.text)
                    others += self._opaque(part.opaque)
            else:
                others += self.media(part)
        return texts, others

    def _opaque(self, opaque: str) -> int:
        if not opaque:
            return 0
        self.assumptions.add("opaque_reasoning")
        scaled = len(opaque.encode()) * self.profile.opaque_permille // 1000
        return max(0, scaled + self.profile.opaque_offset_tokens)

    def media(self, media: Media) -> int:
        """Tokens of an image by the profile's rule, of other media by its flat price."""
        if self.profile.name == "universal":
            return self.text(media.name) + self.text(media.mime)
        if media.kind != "image":
            self.assumptions.add(f"flat_{media.kind}")
            prices = {
                "file": self.profile.file_tokens,
                "audio": self.profile.audio_tokens,
                "video": self.profile.video_tokens,
            }
            return prices[media.kind]
        header = None if media.data is None else image_size(media.data)
        if header is None and media.data is not None:
            self.assumptions.add("unreadable_image")
        width_px, height_px = DEFAULT_SIZE_PX if header is None else header[:2]
        detail = media.detail if media.detail in DETAILS else "auto"
        sides = min(width_px, MAX_SIDE_PX), min(height_px, MAX_SIDE_PX)
        return image_tokens(image_rules()[self.profile.image_rule], *sides, detail)


def last_user_index(messages: tuple[Message, ...], end: int) -> int:
    """Index of the last turn of the user among the first `end` messages, -1 without one."""
    for index in range(end - 1, -1, -1):
        message = messages[index]
        is_result = any(isinstance(part, ToolResult) for part in message.parts)
        if message.role == "user" and not is_result:
            return index
    return -1


def _permille(tokens: int, permille: int) -> int:
    return -(-tokens * permille // 1000)
