"""Counts: tokens of a message, of all that stands around the messages, and what is assumed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tokenctx.reference import anthropic, bpe, gemini, layout, markup
from tokenctx.reference.cut import cut
from tokenctx.reference.document import compact, parse_arguments
from tokenctx.reference.files import file_tokens, media_count
from tokenctx.reference.media import (
    DETAILS,
    MAX_SIDE_PX,
    image_rules,
    image_size,
    image_tokens,
)
from tokenctx.reference.model import Data, Media, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tokenctx._estimate.vocabularies import TextCounter
    from tokenctx.reference.model import Message, Part, Request, Tool
    from tokenctx.reference.profile import LayoutRule, Profile

DEFAULT_SIZE_PX: Final = (1024, 1024)
"""Width and height of an image whose size is not known; the reason is in `image_rules.json`."""


EMPTY_TOKENS: Final = 1
"""What a message without content costs where texts alone are billed."""


class FailedVocabularyError(Exception):
    """The user's vocabulary has raised, or gave no number of tokens."""


def own_count(own: TextCounter, text: str) -> int:
    """Tokens of `text` in the user's vocabulary."""
    try:
        count = own.count(text)
    except Exception as error:
        raise FailedVocabularyError from error
    if not isinstance(count, int) or not 0 <= count < 1 << 32:
        raise FailedVocabularyError
    return count


class Counter:
    """Counts one request with one profile and collects what it had to assume."""

    def __init__(self, profile: Profile, request: Request, own: TextCounter | None = None) -> None:
        self.profile = profile
        self.own = own
        self.encoding = profile.encoding if own is None else own.name
        self.request = request
        self.rule = profile.layout_rule(request.dialect, request.model)
        self.media_count = 0
        self.counts_signatures = False
        self.assumptions: set[str] = set()
        self.only_text = True
        self.tools_tokens = self.schema_tokens = self.media_tokens = 0
        self.has_markup = profile.layout == "anthropic"
        self.frames = list(anthropic.frames(request, profile)) if self.has_markup else []
        self.is_gemini = profile.layout in gemini.LAYOUTS
        self.reply_schema_tokens = self._reply_schema()

    def _reply_schema(self) -> int:
        """The header of an answer names the output schema, unless the model may call tools."""
        named = 0 if self.rule is None else self.rule.reply_schema_tokens
        if named <= 0 or not self.request.response_schema or self.request.tools:
            return 0
        return max(0, named + self.scaled(self.text(self.request.schema_name)))

    def text(self, text: str) -> int:
        """Tokens of `text` in the profile's encoding or the user's, before scaling."""
        if self.own is not None:
            return own_count(self.own, text)
        if self.profile.encoding == "characters":
            return len(text)
        parts = cut(text, self.profile.text_cuts)
        return sum(bpe.count(part, self.profile.encoding) for part in parts)

    def scaled(self, tokens: int) -> int:
        """`tokens` of the encoding as tokens of the provider, rounded up."""
        if self.own is not None:
            return tokens
        return -(-tokens * self.profile.text_numerator // self.profile.text_denominator)

    def context(self, request: Request) -> int:
        """Tokens of all but the messages: request framing, system prompt, tools, options."""
        profile = self.profile
        tokens = 0 if request.is_raw else profile.request_tokens
        if self.has_markup:
            tokens += anthropic.block_tokens(request, profile) + self._system(request.system)
        elif request.system:
            is_framed = request.has_system_role or not self.is_gemini
            tokens += profile.system_tokens if is_framed else 0
            tokens += self.parts(request.system, counts_reasoning=False)
        if request.citations:
            tokens += profile.citations_tokens
        if self.rule is not None:
            total = max(0, tokens + self._layout(self.rule))
            if request.tools:
                self.tools_tokens = max(0, total - tokens)
            else:
                self.schema_tokens = max(0, total - tokens)
            return total
        if self.is_gemini:
            return tokens + self._gemini_context(request)
        has_system = leading_system(request) is not None
        if not has_system and not request.is_raw:
            tokens = max(0, tokens + profile.no_system_tokens)
        if profile.hides_tools(request):
            self.only_text, self.tools_tokens = False, profile.tools_after_result_tokens or 0
            tokens += self.tools_tokens
        elif request.tools and not self._drops_tools(request):
            more = self.serial() + (0 if has_system else profile.tools_without_system_tokens)
            deferred = request.deferred_tools if profile.lists_deferred_tools else ()
            tools = self.tools((*request.tools, *deferred)) + self.choice(request.tool_choice)
            self.tools_tokens = max(0, tools + more)
            tokens += self.tools_tokens
        if request.response_schema:
            self.only_text = False
            schema = request.response_schema
            text = self.text(markup.schema_text(schema) if self.has_markup else schema)
            schema_tokens = _permille(self.scaled(text), profile.schema_permille)
            self.schema_tokens = profile.schema_tokens + schema_tokens
            tokens += self.schema_tokens
        return tokens + (profile.thinking_tokens if request.thinking else 0)

    def _drops_tools(self, request: Request) -> bool:
        """Whether the tool choice takes the tools out of the prompt."""
        return self.profile.none_choice_drops_tools and request.tool_choice == "none"

    def _gemini_context(self, request: Request) -> int:
        """Tokens of tools and of the schema of the answer in a layout of Gemini's."""
        layout, schema = self.profile.layout, request.response_schema
        own = [tool for tool in request.tools if not tool.builtin]
        self.tools_tokens = sum(self._marked(gemini.tool_marked(layout, tool)) for tool in own)
        if layout == "gemini-names" and schema and not request.json_schema:
            self.schema_tokens = self._marked(gemini.answer_schema_marked(schema))
        self.only_text &= not request.tools and not schema
        return self.tools_tokens + self.schema_tokens

    def _gemini_result(self, result: ToolResult) -> int:
        """Tokens of a result: what is text or data in one frame, media by themselves."""
        texts = [
            self._gemini_output(part.text) if isinstance(part, Text) else part.json
            for part in result.parts
            if isinstance(part, (Text, Data))
        ]
        others = [part for part in result.parts if not isinstance(part, (Text, Data))]
        is_by_id = self.profile.names_results_by_id and result.call_id
        name = result.call_id if is_by_id else result.name
        marked = gemini.result_marked(self.profile.layout, name, "".join(texts))
        return self.parts(others, counts_reasoning=True) + self._marked(marked)

    def _gemini_output(self, text: str) -> str:
        """The output of a tool as JSON: a gateway that names results by id reads it as such."""
        is_read = self.profile.names_results_by_id and text.strip(" \t\n\r")
        return text if is_read and parse_arguments(text)[1] else markup.spaced(text)

    def _marked(self, marked: gemini.Marked) -> int:
        return marked.marks + self.scaled(sum(map(self.text, marked.texts)))

    def tools(self, tools: Iterable[Tool]) -> int:
        """Tokens of tool definitions."""
        self.only_text = False
        profile, tokens = self.profile, self.profile.tools_header_tokens
        for tool in tools:
            if self.has_markup and not tool.builtin:
                texts = [markup.function_line(tool)]
            elif profile.tool_text in markup.FORMS and not tool.builtin:
                texts = [markup.function_object(tool, profile.tool_text)]
            else:
                texts = [tool.name, tool.description, tool.schema]
            tokens += self.scaled(sum(map(self.text, texts)))
            tokens = max(0, tokens + profile.tool_tokens)
        return profile.tools_tokens + _permille(tokens, profile.tools_permille)

    def choice(self, choice: str) -> int:
        """Tokens that a forced tool choice adds."""
        if choice == "required":
            return self.profile.required_choice_tokens
        if choice.startswith("tool:"):
            name = f'"{choice[5:]}"' if self.has_markup else choice[5:]
            return self.profile.forced_choice_tokens + self.scaled(self.text(name))
        return 0

    def serial(self) -> int:
        """Tokens that a request for one call at a time adds to those of the tools."""
        is_forced = self.request.tool_choice.startswith(("required", "tool:"))
        if not self.request.serial or not self.request.tools:
            return 0
        return (
            self.profile.forced_no_parallel_calls_tokens
            if is_forced
            else self.profile.no_parallel_calls_tokens
        )

    def _layout(self, rule: LayoutRule) -> int:
        """Tokens of tools, output schema and options in the OpenAI layout."""
        request, tokens = self.request, rule.request_tokens
        if request.pro and rule.pro_tokens > 0:
            self.only_text = False
            tokens += rule.pro_tokens
        own = [tool for tool in request.tools if not tool.builtin]
        added = [tool for tool in request.added_tools if not tool.builtin]
        system = leading_system(request)
        blocks = []
        if own:
            blocks.append(self._tools_text(own))
            tokens += rule.tools_tokens if system is None else rule.tools_with_system_tokens
            tokens += rule.described_tokens if own[0].description else 0
            tokens += self._layout_choice(rule, own)
        if request.response_schema:
            name, description = request.schema_name, request.schema_description
            blocks.append(layout.schema_text(name, description, request.response_schema))
            if own:
                tokens += rule.schema_with_tools_tokens
            else:
                tokens += rule.schema_tokens if system is None else rule.schema_with_system_tokens
            tokens += self.reply_schema_tokens if rule.prompt_has_reply_schema else 0
        text = sum(self.text(tool.name) for tool in request.tools if tool.builtin)
        if added:
            self.only_text = False
            text += self.text(self._tools_text(added))
            tokens += rule.added_tools_tokens
        self.only_text &= not request.tools and not blocks
        if blocks:
            block = "\n\n".join(blocks)
            if system is not None and rule.joins_system:
                end = system[-1].text if system and isinstance(system[-1], Text) else ""
                text += self.text(f"{end}\n\n{block}") - self.text(end)
            else:
                text += self.text(block)
                tokens += self.profile.message_tokens
        return self.scaled(text) + tokens

    def _tools_text(self, tools: list[Tool]) -> str:
        """The block that shows tools in the OpenAI layout."""
        texts = [(tool.name, tool.description, tool.schema) for tool in tools]
        return layout.tools_text(texts, is_2023=self.profile.layout == "openai-2023")

    def _layout_choice(self, rule: LayoutRule, own: list[Tool]) -> int:
        choice = self.request.tool_choice
        if choice == "none":
            return rule.none_choice_tokens
        forced = choice[5:] if choice.startswith("tool:") else None
        if choice == "required" and rule.forces_lone_tool and len(own) == 1:
            forced = own[0].name
        if forced is None or rule.forced_choice_tokens == 0:
            return 0
        return rule.forced_choice_tokens + self.scaled(self.text("." + forced))

    def messages(self, start: int) -> list[int]:
        """Tokens of the messages from `start` on, one by one, each with its framing."""
        return self.messages_at(range(start, len(self.request.messages)))

    def messages_at(self, indices: Sequence[int]) -> list[int]:
        """Tokens of the messages at `indices`, as they stand among all."""
        messages, rule = self.request.messages, self.profile.reasoning
        turn = last_user_index(messages, len(messages))
        self.media_count = media_count([messages[index] for index in indices])
        tokens = []
        for index in indices:
            self.counts_signatures = _counts_reasoning(self.profile.signatures, index, turn)
            counts_reasoning = _counts_reasoning(rule, index, turn)
            tokens.append(self.message(index, counts_reasoning=counts_reasoning))
        return tokens

    def message(self, index: int, *, counts_reasoning: bool) -> int:
        """Tokens of one message with its framing."""
        messages = self.request.messages
        message = messages[index]
        if self.has_markup:
            return self._marked_up(index, counts_reasoning=counts_reasoning)
        if self.rule is None:
            parts = list(message.parts)
            if message.role == "assistant" and not counts_reasoning:
                parts = [self._without_thought(part) for part in parts]
            texts, others = self._parts(parts, counts_reasoning=counts_reasoning)
            return max(0, self.scaled(texts) + others + self._frame(message))
        parts = [part for part in message.parts if not isinstance(part, ToolCall)]
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        if message.role == "tool" and self._is_wrapped(index):
            return self._wrapped_results(index, parts, counts_reasoning=counts_reasoning)
        texts, others = self._parts(parts, counts_reasoning=counts_reasoning)
        is_reasoning = all(isinstance(part, Reasoning) for part in message.parts)
        if counts_reasoning or not message.parts or not is_reasoning:
            others += self._frame(message)
        if calls:
            self.only_text = False
        if len(calls) > 1 and self.rule.wrapper_tokens > 0 and message.role != "tool":
            texts += self.text(_wrapper_text(calls))
            others += self.rule.wrapper_tokens
        else:
            for call in calls:
                name_texts, tokens = self._call(self.rule, call, index)
                texts, others = texts + name_texts, others + tokens
        return max(0, self.scaled(texts) + others)

    def _marked_up(self, index: int, *, counts_reasoning: bool) -> int:
        """Tokens of a message in Anthropic's layout."""
        message, frame = self.request.messages[index], self.frames[index]
        if frame.is_system:
            return frame.tokens + self._system(message.parts)
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        others = [part for part in message.parts if not isinstance(part, (ToolCall, ToolResult))]
        texts, tokens = self._parts(others, counts_reasoning=counts_reasoning)
        if calls:
            self.only_text = False
            are_enclosed = self.profile.encloses_calls
            texts += self.text(markup.calls_text(calls, are_enclosed=are_enclosed))
        if frame.names and frame.is_first:
            texts += self.text(markup.RESULTS)
        for nth, result in enumerate(results):
            name = frame.names[nth] if nth < len(frame.names) else None
            inner = self._marked_up_result(result, name)
            texts, tokens = texts + inner[0], tokens + inner[1]
        return max(0, tokens + frame.tokens + self.scaled(texts))

    def _marked_up_result(self, result: ToolResult, name: str | None) -> tuple[int, int]:
        """A result, with the name of its call if it is one of several."""
        self.only_text = False
        shown = [part for part in result.parts if isinstance(part, (Text, Data))]
        text = "".join(part.text if isinstance(part, Text) else part.json for part in shown)
        rest = [part for part in result.parts if not isinstance(part, (Text, Data))]
        texts, tokens = self._parts(rest, counts_reasoning=False)
        documents = [self._documents(part) for part in shown if isinstance(part, Text)]
        texts += sum(text for text, _ in documents)
        tokens += sum(frame for _, frame in documents)
        if name is None:
            return texts + self.text(markup.result_text(text, is_error=result.is_error)), tokens
        return texts + self.text(markup.named_result_text(name, text)) + 1, tokens

    def _system(self, parts: tuple[Part, ...]) -> int:
        """Tokens of a system prompt; line feeds before it join the one of its frame."""
        tokens = 0
        if parts and isinstance(parts[0], Text) and parts[0].text.startswith("\n"):
            parts = (Text(parts[0].text.lstrip("\n")), *parts[1:])
            tokens = 0 if anthropic.block_tokens(self.request, self.profile) else 1
        return tokens + self.parts(parts, counts_reasoning=False)

    def _frame(self, message: Message) -> int:
        """Tokens that stand around a message."""
        if self.request.is_raw:
            return 0
        profile, is_framed = self.profile, message.has_role or not self.is_gemini
        tokens = profile.message_tokens if is_framed else 0
        if profile.layout == "gemini-names" and not message.parts:
            tokens += EMPTY_TOKENS
        if message.role == "assistant":
            tokens += profile.assistant_tokens + self.reply_schema_tokens
        if message.name:
            tokens += profile.name_tokens + self.scaled(self.text(message.name))
        return tokens

    def _call(self, rule: LayoutRule, call: ToolCall, index: int) -> tuple[int, int]:
        """A call that stands by itself; its name is billed with it and with its result."""
        messages = self.request.messages
        follows = index > 0 and _has_call(messages[index - 1])
        leads = index + 1 < len(messages) and _has_call(messages[index + 1])
        tokens = rule.legacy_call_tokens if call.form == "legacy" else rule.call_tokens
        if call.form == "item" and not follows and not leads:
            tokens += rule.item_id_tokens
        if follows:
            tokens += rule.next_call_tokens
        dotted = min(max(0, rule.dotted_name_count), 2)
        names = dotted * self.text("." + call.name) + (2 - dotted) * self.text(call.name)
        return names + self.text(call.arguments), tokens

    def _is_wrapped(self, index: int) -> bool:
        """Whether the results in message `index` belong to calls in one wrapper."""
        messages = self.request.messages
        while index >= 0 and messages[index].role == "tool":
            index -= 1
        if index < 0 or self.rule is None or self.rule.wrapper_tokens <= 0:
            return False
        return sum(isinstance(part, ToolCall) for part in messages[index].parts) > 1

    def _wrapped_results(self, index: int, parts: list[Part], *, counts_reasoning: bool) -> int:
        """Results of a wrapper: elements of one JSON array with a space after each comma."""
        messages, self.only_text = self.request.messages, False
        is_first = messages[index - 1].role != "tool"
        is_last = index + 1 == len(messages) or messages[index + 1].role != "tool"
        results = [part for part in parts if isinstance(part, ToolResult)]
        others = [part for part in parts if not isinstance(part, ToolResult)]
        texts, tokens = self._parts(others, counts_reasoning=counts_reasoning)
        tokens += self._frame(messages[index]) if is_first else 0
        for nth, result in enumerate(results):
            text = "".join(
                part.text if isinstance(part, Text) else part.json
                for part in result.parts
                if isinstance(part, (Text, Data))
            )
            rest = [part for part in result.parts if not isinstance(part, (Text, Data))]
            inner = self._parts(rest, counts_reasoning=False)
            before = "[" if is_first and nth == 0 else " "
            behind = "]" if is_last and nth + 1 == len(results) else ","
            texts += inner[0] + self.text(before + layout.result_text(text) + behind)
            tokens += inner[1]
        return max(0, self.scaled(texts) + tokens)

    def parts(self, parts: Iterable[Part], *, counts_reasoning: bool) -> int:
        """Tokens of parts; their text is scaled as a whole."""
        texts, others = self._parts(parts, counts_reasoning=counts_reasoning)
        return self.scaled(texts) + others

    def reasoning(self, message: Message) -> int:
        """Tokens of the reasoning in `message` that the next turn of the user drops."""
        profile, texts, others = self.profile, 0, 0
        for part in message.parts:
            if isinstance(part, Reasoning) and profile.reasoning == "loop":
                nested = self._parts([part], counts_reasoning=True)
                texts, others = texts + nested[0], others + nested[1]
            elif isinstance(part, ToolCall) and profile.signatures == "loop":
                others += self._signature(part)
            elif isinstance(part, Text) and message.role == "assistant":
                said = self._parts([self._without_thought(part)], counts_reasoning=True)[0]
                texts += max(0, self.text(part.text) - said)
        return max(0, self.scaled(texts) + others)

    def _signature(self, call: ToolCall) -> int:
        """Tokens of the signature of the thoughts before a call."""
        has_signatures = self.profile.layout == "gemini-declarations"
        return self._opaque(call.signature_bytes) if has_signatures else 0

    def _without_thought(self, part: Part) -> Part:
        """What an answer says after its thought, if the profile's models think between tags."""
        if not (self.profile.has_think_tags and isinstance(part, Text)):
            return part
        _, tag, said = part.text.rpartition("</think>")
        return Text(said.lstrip("\n")) if tag else part

    def _parts(self, parts: Iterable[Part], *, counts_reasoning: bool) -> tuple[int, int]:
        texts = others = 0
        for part in parts:
            if not isinstance(part, Text):
                self.only_text = False
            if isinstance(part, Text) and self.is_gemini:
                texts += sum(map(self.text, pieces(part)))
            elif isinstance(part, Text):
                texts += self.text(part.text)
                nested = self._documents(part)
                texts, others = texts + nested[0], others + nested[1]
            elif isinstance(part, Data):
                texts += self.text(part.json)
            elif isinstance(part, ToolCall) and self.is_gemini:
                others += self._marked(gemini.call_marked(self.profile.layout, part))
                others += self._signature(part) if self.counts_signatures else 0
            elif isinstance(part, ToolResult) and self.is_gemini:
                others += self._gemini_result(part)
            elif isinstance(part, ToolCall) and self.profile.has_call_elements:
                texts += self.text(markup.call_text(markup.XAI_TAGS, part))
                others += self.profile.call_tokens
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
                    opaque = self._opaque(len(part.opaque.encode()))
                    others += opaque + self.profile.reasoning_tokens
            else:
                tokens = self.media(part)
                self.media_tokens += tokens
                others += tokens
        return texts, others

    def _documents(self, part: Text) -> tuple[int, int]:
        """What stands around documents that are text, in Anthropic's layout."""
        names = part.documents if self.has_markup else ()
        return sum(map(self.text, filter(None, names))), len(names) * self.profile.document_tokens

    def _opaque(self, byte_count: int) -> int:
        """Tokens of an encrypted blob of this length."""
        if byte_count == 0:
            return 0
        self.assumptions.add("opaque_reasoning")
        scaled = byte_count * self.profile.opaque_permille // 1000
        return max(0, scaled + self.profile.opaque_offset_tokens)

    def media(self, media: Media) -> int:
        """Tokens of an image by the profile's rule, of other media by its flat price."""
        if self.profile.name == "universal":
            return self.text(media.name) + self.text(media.mime)
        if media.kind != "image":
            tokens = file_tokens(self.profile, self.rule, media, self.media_count, self.assumptions)
            if tokens is not None:
                return tokens
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
        if self.profile.shared_media_tokens > 0 and self.media_count > 1:
            return self.profile.shared_media_tokens
        width_px, height_px = DEFAULT_SIZE_PX if header is None else header[:2]
        detail = media.detail if media.detail in DETAILS else "auto"
        sides = min(width_px, MAX_SIDE_PX), min(height_px, MAX_SIDE_PX)
        return image_tokens(image_rules()[self.profile.image_rule], *sides, detail)


def has_results(message: Message) -> bool:
    """Whether `message` has results of calls."""
    return message.role == "tool" or any(isinstance(part, ToolResult) for part in message.parts)


def pieces(text: Text) -> list[str]:
    """The blocks that `text` was joined from."""
    return [text.text[start:end] for start, end in pairwise((0, *text.ends, len(text.text)))]


def last_user_index(messages: tuple[Message, ...], end: int) -> int:
    """Index of the last turn of the user among the first `end` messages, -1 without one."""
    for index in range(end - 1, -1, -1):
        message = messages[index]
        is_result = any(isinstance(part, ToolResult) for part in message.parts)
        if message.role == "user" and not is_result:
            return index
    return -1


def leading_system(request: Request) -> tuple[Part, ...] | None:
    """The system prompt or system message that the prompt begins with."""
    if request.system:
        return request.system
    if request.messages and request.messages[0].role in ("system", "developer"):
        return request.messages[0].parts
    return None


def _has_call(message: Message) -> bool:
    return any(isinstance(part, ToolCall) for part in message.parts)


def _wrapper_text(calls: list[ToolCall]) -> str:
    uses = (
        f'{{"recipient_name":{compact("functions." + call.name)},"parameters":{call.arguments}}}'
        for call in calls
    )
    return f'{{"tool_uses":[{",".join(uses)}]}}'


def _counts_reasoning(rule: str, index: int, turn: int) -> bool:
    return rule == "all" or (rule == "loop" and index > turn)


def _permille(tokens: int, permille: int) -> int:
    return -(-tokens * permille // 1000)
