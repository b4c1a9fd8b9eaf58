"""One normal form of usage, out of whatever a provider, a gateway or an SDK calls by that name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tokenctx._models import MAX_TOKENS
from tokenctx._tables import read_table

if TYPE_CHECKING:
    from tokenctx._models import Dialect

_TABLE: Final = read_table("usage_fields")
_PLACES: Final = [tuple(path.split(".")) for path in _TABLE["places"]]
_FIELDS: Final = {
    name: [tuple(path.split(".")) for path in paths] for name, paths in _TABLE["fields"].items()
}
_CACHE_BESIDE_IN_AI_SDK_5: Final = frozenset({"anthropic", "bedrock-converse"})
"""AI SDK 5 passes on the input of these APIs, which is without what was cached."""
_MODALITIES: Final = {1: "TEXT", 2: "IMAGE", 3: "VIDEO", 4: "AUDIO", 5: "DOCUMENT"}
"""Numbers of Gemini's `MediaModality`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call. No number is part of another, but where that is said.

    Attributes:
        uncached_input_tokens: Input that was neither read from nor written to a cache.
        cache_read_tokens: Input read from the provider's cache.
        cache_write_tokens: Input written to it, for whatever time.
        cache_write_5m_tokens: Part of `cache_write_tokens`: for 5 minutes.
        cache_write_1h_tokens: Part of `cache_write_tokens`: for an hour.
        tool_use_prompt_tokens: Results of tools that the provider ran, where it counts them beside
            the input (Gemini).
        output_tokens: All output, reasoning included.
        reasoning_tokens: Part of `output_tokens`.
        is_reasoning_inside: Whether the provider's own output number holds the reasoning.
        input_audio_tokens: Part of the input, if it is reported; images likewise.
        output_audio_tokens: Part of the output, if it is reported; images likewise.
        compaction_input_tokens: Billed for a compaction on the way to the answer (Anthropic), in
            no other number.
        compaction_output_tokens: Likewise.
        reported_total_tokens: The provider's own total; None without one. It may leave out or add
            what the parts do not.
        is_partial: Of a stream that did not end well: the numbers are the best that are known.
        is_scaled: Not what was billed, but what an agent is told; see `ContextWindowScaler`.
    """

    uncached_input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    tool_use_prompt_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    is_reasoning_inside: bool = True
    input_audio_tokens: int = 0
    input_image_tokens: int = 0
    output_audio_tokens: int = 0
    output_image_tokens: int = 0
    compaction_input_tokens: int = 0
    compaction_output_tokens: int = 0
    reported_total_tokens: int | None = None
    is_partial: bool = False
    is_scaled: bool = False

    @property
    def input_tokens(self) -> int:
        """All input that filled the window: uncached, read from a cache, written to one."""
        return self.uncached_input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        """Input, tool-use prompt and output; the sum of the parts, whatever was reported."""
        return self.input_tokens + self.tool_use_prompt_tokens + self.output_tokens


@dataclass(slots=True)
class SessionUsage:
    """Usage of a conversation, message by message and in sum.

    A message that is added again, as cumulative frames of one are, replaces what was added before.
    """

    messages: dict[object, Usage] = field(default_factory=dict)

    def add(self, usage: object, message_id: object = None) -> Usage:
        """The usage of one message in normal form, now part of the session.

        Takes what `normalize_usage` takes. Without an id it is a message of its own.
        """
        normal = normalize_usage(usage)
        self.messages[object() if message_id is None else message_id] = normal
        return normal

    @property
    def last(self) -> Usage | None:
        """Usage of the message that was first added last."""
        return next(reversed(self.messages.values()), None)

    @property
    def input_tokens(self) -> int:
        """All input of all messages: what was billed, not what fills the window."""
        return sum(usage.input_tokens for usage in self.messages.values())

    @property
    def output_tokens(self) -> int:
        """All output, reasoning included."""
        return sum(usage.output_tokens for usage in self.messages.values())

    @property
    def reasoning_tokens(self) -> int:
        """Part of the output."""
        return sum(usage.reasoning_tokens for usage in self.messages.values())

    @property
    def cache_read_tokens(self) -> int:
        """Part of the input."""
        return sum(usage.cache_read_tokens for usage in self.messages.values())

    @property
    def cache_write_tokens(self) -> int:
        """Part of the input."""
        return sum(usage.cache_write_tokens for usage in self.messages.values())

    @property
    def total_tokens(self) -> int:
        """Of all messages."""
        return sum(usage.total_tokens for usage in self.messages.values())


def normalize_usage(obj: object, dialect: Dialect | None = None) -> Usage:
    """The usage in `obj`: a usage object, a response or event that has one, or input tokens.

    Takes mappings and SDK objects of every provider as they are. What is missing, null or no number
    counts as 0, a number above `MAX_TOKENS` as that; nothing raises. `dialect` is needed for AI SDK
    5 alone, whose `inputTokens` of Claude are without the cached ones.
    """
    if isinstance(obj, Usage):
        return obj
    if isinstance(own := _attribute(obj, "normal_usage"), Usage):
        return own
    if isinstance(obj, (int, float)):
        return Usage(uncached_input_tokens=_number(obj) or 0)
    return _normal(find_usage(obj), dialect)


def find_usage(obj: object) -> object:
    """The usage object in a response or event; `obj` itself if it has none or is one."""
    for _ in range(2):  # a response in an event, usage in a response
        if has_input(obj):
            return obj
        places = (_at(obj, path) for path in _PLACES)
        found = next((place for place in places if _is_object(place)), None)
        if found is None:
            return obj
        obj = found
    return obj


def has_input(obj: object) -> bool:
    """Whether `obj` is a usage object with input tokens."""
    return _first(obj, "input") is not None


def _normal(obj: object, dialect: Dialect | None) -> Usage:
    reading = Reading(obj)
    if dialect in _CACHE_BESIDE_IN_AI_SDK_5 and _member(obj, "cachedInputTokens") is not None:
        reading.is_cache_beside = True
    inputs, outputs = _by_modality(obj, "input"), _by_modality(obj, "output")
    written = _by_ttl(obj)
    cache_read, cache_write = reading.cache_read, reading.cache_write
    if not reading.is_cache_beside:
        cache_read = min(cache_read, reading.input_tokens)
        cache_write = min(cache_write, reading.input_tokens - cache_read)
    input_tokens = reading.all_input_tokens or sum(inputs.values())
    compactions = _compactions(obj)
    return Usage(
        uncached_input_tokens=input_tokens - cache_read - cache_write,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
        cache_write_5m_tokens=min(
            reading.of("cache_write_5m") or written.get("5m", 0), cache_write
        ),
        cache_write_1h_tokens=min(
            reading.of("cache_write_1h") or written.get("1h", 0), cache_write
        ),
        tool_use_prompt_tokens=reading.of("tool_use_prompt"),
        output_tokens=reading.all_output_tokens,
        reasoning_tokens=reading.reasoning,
        is_reasoning_inside=not reading.is_reasoning_beside,
        input_audio_tokens=reading.of("input_audio") or inputs.get("AUDIO", 0),
        input_image_tokens=reading.of("input_image") or inputs.get("IMAGE", 0),
        output_audio_tokens=reading.of("output_audio") or outputs.get("AUDIO", 0),
        output_image_tokens=reading.of("output_image") or outputs.get("IMAGE", 0),
        compaction_input_tokens=sum(one.all_input_tokens for one in compactions),
        compaction_output_tokens=sum(one.all_output_tokens for one in compactions),
        reported_total_tokens=_first(obj, "total"),
    )


class Reading:
    """A usage object with the question answered what stands inside of what."""

    def __init__(self, obj: object) -> None:
        self.found = {name: _first(obj, name) for name in _FIELDS}
        self.input_tokens, self.output_tokens = self.of("input"), self.of("output")
        self.cache_read = self.of("cache_read_beside") or self.of("cache_read")
        self.cache_write = self.of("cache_write_beside") or self.of("cache_write")
        self.reasoning = self.of("reasoning_beside") or self.of("reasoning")
        has_beside = self.of("cache_read_beside") or self.of("cache_write_beside")
        is_openai = _number(_member(obj, "prompt_tokens")) is not None
        self.is_cache_beside = bool(has_beside) and not is_openai
        self.is_reasoning_beside = (
            self.found["reasoning_beside"] is not None or self.reasoning > self.output_tokens
        )
        self.audio_beside = 0
        self._ask_total()

    def of(self, name: str) -> int:
        """The number of this meaning; 0 without one."""
        return self.found[name] or 0

    def _ask_total(self) -> None:
        """What the total has more than input and output is what stands beside them."""
        if None in (self.found["input"], self.found["output"], self.found["total"]):
            return
        more = self.of("total") - self.all_input_tokens - self.all_output_tokens
        more -= self.of("tool_use_prompt")
        if more <= 0:
            return
        cached = 0 if self.is_cache_beside else self.cache_read + self.cache_write
        reasoning = 0 if self.is_reasoning_beside else self.reasoning
        if more in (reasoning, reasoning + cached):
            self.is_reasoning_beside = reasoning > 0
        if more in (cached, reasoning + cached) and more != reasoning:
            self.is_cache_beside = self.is_cache_beside or cached > 0
        elif more == self.of("input_audio"):
            self.audio_beside = more

    @property
    def all_input_tokens(self) -> int:
        """Input with all that was cached."""
        cached = self.cache_read + self.cache_write if self.is_cache_beside else 0
        return self.input_tokens + cached + self.audio_beside

    @property
    def all_output_tokens(self) -> int:
        """Output with all reasoning."""
        return self.output_tokens + (self.reasoning if self.is_reasoning_beside else 0)


def _by_modality(obj: object, side: str) -> dict[str, int]:
    """Tokens by modality (Gemini: a list of `modality` and `tokenCount`)."""
    tokens: dict[str, int] = {}
    for one in _items(obj, f"{side}_by_modality"):
        modality = _member(one, "modality")
        value = _attribute(modality, "value") or modality
        number = value if isinstance(value, int) else 0
        name = value if isinstance(value, str) else _MODALITIES.get(number, "")
        count = _number(_member(one, "tokenCount")) or _number(_member(one, "token_count"))
        tokens[name] = tokens.get(name, 0) + (count or 0)
    return tokens


def _by_ttl(obj: object) -> dict[str, int]:
    """Tokens written to the cache by the time they stay (Bedrock)."""
    details = [(_member(one, "ttl"), one) for one in _items(obj, "cache_write_by_ttl")]
    tokens = {ttl: _number(_member(one, "inputTokens")) for ttl, one in details if _is_text(ttl)}
    return {ttl: number or 0 for ttl, number in tokens.items()}


def _compactions(obj: object) -> list[Reading]:
    """Iterations of Anthropic that are billed beside the numbers of the answer."""
    kinds = [(_member(one, "type"), one) for one in _items(obj, "usages")]
    return [Reading(one) for kind, one in kinds if _is_text(kind) and kind == "compaction"]


def _items(obj: object, name: str) -> list[object]:
    lists = (_member(obj, field) for field in _TABLE["lists"][name])
    return next((list(one) for one in lists if isinstance(one, (list, tuple))), [])


def _first(obj: object, name: str) -> int | None:
    """The number of the first path of a field that has one."""
    numbers = (_number(_at(obj, path)) for path in _FIELDS[name])
    return next((number for number in numbers if number is not None), None)


def _at(obj: object, path: tuple[str, ...]) -> object:
    for name in path:
        obj = _member(obj, name)
        if obj is None:
            return None
    return obj


def _member(obj: object, name: str) -> Any:
    """A member of a mapping or an attribute of an object; None without one, or if it raises."""
    try:
        return obj.get(name) if isinstance(obj, Mapping) else getattr(obj, name, None)
    except Exception:  # a caller's object may raise anything
        return None


def _attribute(obj: object, name: str) -> Any:
    try:
        return getattr(obj, name, None)
    except Exception:
        return None


def _is_object(value: object) -> bool:
    return not isinstance(value, (type(None), str, bytes, int, float, list, tuple))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _number(value: object) -> int | None:
    """A count, cut to the limit; None for what is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return None
    return min(value, MAX_TOKENS)
