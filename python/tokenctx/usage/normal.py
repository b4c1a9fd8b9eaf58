"""One normal form of usage, out of whatever a provider, a gateway or an SDK calls by that name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from tokenctx._results.estimates import MAX_TOKENS
from tokenctx._results.pricing import default_prices
from tokenctx._results.result import Result, maker
from tokenctx.usage.gateways import told_by_object
from tokenctx.usage.reading import (
    KNOWN_NAMES,
    Numbers,
    Reading,
    dollars_of,
    may_have_hidden,
    member,
    normal_usage_of,
    number_of,
    numbers_in,
)
from tokenctx.usage.unread import TTLS, unread_names
from tokenctx.usage.uses import KNOWN_USES, untold, uses_of

Origin = Literal["", "framework", "sum", "cache"]

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

    from tokenctx._results.cost import Cost
    from tokenctx._results.estimates import Dialect
    from tokenctx._results.pricing import PriceList
    from tokenctx.usage.gateways import Told
    from tokenctx.usage.uses import Uses

_CACHE_BESIDE_IN_AI_SDK_5: Final = frozenset({"anthropic", "bedrock-converse"})
"""AI SDK 5 passes on the input of these APIs, which is without what was cached."""
_PARTS: Final = {
    name: f"{name}_tokens"
    for name in (
        *(f"cache_write_{ttl}" for ttl in TTLS),
        "tool_use_prompt",
        *("input_audio", "input_image", "input_video", "cache_read_audio", "cache_read_image"),
        *("output_audio", "output_image", "output_video"),
    )
} | {name: name for name in ("web_search_requests", "file_search_requests")}
"""Fields whose numbers are taken as they are, and what they are called here."""


def _by_modality(side: str, *modalities: str) -> list[tuple[str, str]]:
    return [(it.upper(), f"{side}_{it}_tokens") for it in modalities]


_INPUTS: Final = _by_modality("input", "audio", "image", "video")
_OUTPUTS: Final = _by_modality("output", "audio", "image", "video")
_CACHED: Final = _by_modality("cache_read", "audio", "image")
_WRITTEN: Final = frozenset(f"cache_write_{ttl}_tokens" for ttl in TTLS)
_PLAIN: Final = frozenset({"input", "output", "total"})
"""Of these alone none can be inside of another but by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage(Result):
    """Tokens of one call. No number is part of another, but where that is said.

    Attributes:
        uncached_input_tokens: Input that was neither read from nor written to a cache.
        cache_read_tokens: Input read from the provider's cache.
        cache_write_tokens: Input written to it, for whatever time.
        cache_write_5m_tokens: Part of `cache_write_tokens`: for 5 minutes.
        cache_write_1h_tokens: Part of `cache_write_tokens`: for an hour.
        cache_write_30m_tokens: Part of `cache_write_tokens`: for 30 minutes (OpenAI).
        cache_write_12h_tokens: Part of `cache_write_tokens`: for 12 hours (OpenAI).
        tool_use_prompt_tokens: Results of tools that the provider ran, where it counts them beside
            the input (Gemini).
        output_tokens: All output, reasoning included.
        reasoning_tokens: Part of `output_tokens`.
        is_reasoning_inside: Whether the provider's own output number holds the reasoning.
        input_audio_tokens: Part of the input, if it is reported; images and video likewise.
        cache_read_audio_tokens: Part of both `cache_read_tokens` and `input_audio_tokens`, if it is
            reported; images likewise.
        output_audio_tokens: Part of the output, if it is reported; images and video likewise.
        passes: All that was billed beside the numbers above, a compaction or an advisor, each with
            its own usage and model (Anthropic).
        last_call: Of an answer that took several calls of the model, whose numbers are added up
            above, the numbers of the last one: what the next turn goes on from (Anthropic).
        web_search_requests: Searches that the provider ran, which most price by the search: as the
            usage tells, else as the answer shows (`web_search_call`, `webSearchQueries`,
            `server_tool_use`).
        file_search_requests: Likewise, searches of files in the provider's own store (OpenAI, xAI).
        service_tier: The tier that served the call as the provider calls it, as `flex`,
            `priority`, `batch`; empty if it does not say.
        speed: Likewise, as `fast` (Anthropic).
        inference_geo: Likewise, where it was served, as `us` (Anthropic).
        search_size: Likewise, how much the searches of the call may return (Perplexity).
        reported_cost: What the call cost in US dollars, said by who served it (OpenRouter, xAI,
            Perplexity), else by a gateway; None if they do not say, or say 0. It is 0 for the
            answer of a gateway's own cache.
        cost_source: Who says `reported_cost`, where that is a gateway's own sum and no bill of the
            provider: `litellm`; else empty.
        unread: Names of counts of the usage that may cost something and have no field here, such as
            `billed_units.search_units`, and of tools that the answer used, as
            `tools.code_interpreter`; `Cost.unpriced` names them.
        reported_total_tokens: The provider's own total; None without one. It may leave out or add
            what the parts do not.
        is_contradictory: The numbers cannot all be of one call: the total is less than the input,
            as where a turn of several calls was added up, or more was cached than there is input.
        origin: Empty if a provider has sent it, as far as that can be told; `framework` if one has
            counted for itself, `sum` for several calls added up, `cache` if a gateway's own cache
            has answered. These are not recorded.
        is_partial: Of a stream that did not end well: the numbers are the best that are known.
        is_scaled: Not what was billed, but what an agent is told; see `ContextWindowScaler`.
    """

    uncached_input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    cache_write_30m_tokens: int = 0
    cache_write_12h_tokens: int = 0
    tool_use_prompt_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    is_reasoning_inside: bool = True
    input_audio_tokens: int = 0
    input_image_tokens: int = 0
    input_video_tokens: int = 0
    cache_read_audio_tokens: int = 0
    cache_read_image_tokens: int = 0
    output_audio_tokens: int = 0
    output_image_tokens: int = 0
    output_video_tokens: int = 0
    passes: tuple[UsagePass, ...] = ()
    last_call: Usage | None = None
    web_search_requests: int = 0
    file_search_requests: int = 0
    service_tier: str = ""
    speed: str = ""
    inference_geo: str = ""
    search_size: str = ""
    reported_cost: Decimal | None = None
    cost_source: str = ""
    unread: tuple[str, ...] = ()
    reported_total_tokens: int | None = None
    is_contradictory: bool = False
    origin: Origin = ""
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

    @property
    def compaction_input_tokens(self) -> int:
        """Input of compactions on the way to the answer (Anthropic), in no other number."""
        return sum(it.usage.input_tokens for it in self.passes if it.kind == "compaction")

    @property
    def compaction_output_tokens(self) -> int:
        """Their output, in no other number."""
        return sum(it.usage.output_tokens for it in self.passes if it.kind == "compaction")

    @property
    def unknown_fields(self) -> tuple[str, ...]:
        """Those of `unread` that no table knows: without tools whose uses are known by name."""
        return tuple(name for name in self.unread if name not in KNOWN_USES)

    def cost(
        self,
        model: str,
        *,
        provider: str | None = None,
        at: datetime | None = None,
        prices: PriceList | None = None,
    ) -> Cost | None:
        """The cost of the call of `model`; None if its prices are unknown.

        `provider` is who answered, where the name does not say it. `at` is when (UTC if it has no
        zone), by default now. `prices` are those that are installed, unless you have others.
        """
        return (prices or default_prices()).cost(self, model=model, provider=provider, at=at)


@dataclass(frozen=True, slots=True)
class UsagePass(Result):
    """One pass of a model that is billed beside the numbers of the answer.

    Attributes:
        kind: `compaction` or `advisor_message`, as Anthropic calls them; or another word, which
            `Usage.unread` of the answer then names.
        model: The model of the pass; empty for that of the answer.
        usage: Its tokens.
    """

    kind: str
    model: str
    usage: Usage


@dataclass(slots=True)
class SessionUsage(Result):
    """Usage of a conversation, message by message and in sum.

    A message that is added again, as cumulative frames of one are, replaces what was added before.
    """

    messages: dict[object, Usage] = field(default_factory=dict)

    def add(self, usage: object, message_id: object = None) -> Usage | None:
        """The usage of one message in normal form, now part of the session.

        Takes what `normalize_usage` takes. Without an id it is a message of its own. None, and
        nothing is added, if there is no usage in it.
        """
        normal = normalize_usage(usage)
        if normal is None:
            return None
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


_make_usage: Final = maker(Usage)


def normalize_usage(obj: object, dialect: Dialect | None = None) -> Usage | None:
    """The usage in `obj`: a usage object, a response or event that has one, or input tokens.

    Takes mappings and SDK objects of every provider as they are. None if nothing in it is a number
    that is known; what is missing beside one, null or no number counts as 0, a number above
    `MAX_TOKENS` as that; nothing raises. `dialect` is needed for AI SDK 5 alone, whose
    `inputTokens` of Claude are without the cached ones.
    """
    return read_usage(obj, dialect)[0]


def read_usage(
    obj: object, dialect: Dialect | None, uses: Uses | None = None
) -> tuple[Usage | None, object]:
    """As `normalize_usage`, and the object that has the numbers: `obj`, or one in it.

    `uses` are those of tools that a stream has shown; otherwise they are read in `obj`.
    """
    if type(obj) is dict:
        plain = _plain_usage(obj)
        if plain is not None:
            return plain, obj
    elif isinstance(obj, Usage):
        return obj, obj
    elif isinstance(own := normal_usage_of(obj), Usage):
        return own, obj
    elif isinstance(obj, (int, float)):
        number = number_of(obj)
        return (None if number is None else _make_usage(uncached_input_tokens=number)), obj
    numbers = numbers_in(obj)
    if numbers is None:
        return None, obj
    place = numbers.usage
    if isinstance(place, Usage):  # in what stands for a response
        return place, place
    counts = numbers.counts
    if uses is None:
        uses = {} if place is obj else uses_of(obj)
    is_plain = not (uses or numbers.has_more) and counts.keys() <= _PLAIN and _is_sum(counts)
    if is_plain and not (numbers.has_unknown and unread_names(numbers)):
        if place is obj and type(obj) is dict:
            _remember_names(obj, numbers)
        usage = _make_usage(
            uncached_input_tokens=counts.get("input", 0),
            output_tokens=counts.get("output", 0),
            reported_total_tokens=counts.get("total"),
        )
        return _marked(usage, obj, place), place
    reading = Reading(numbers)
    if dialect in _CACHE_BESIDE_IN_AI_SDK_5:
        reading.is_cache_beside |= member(place, "cachedInputTokens") is not None
    return _marked(_normal(reading, uses), obj, place), place


def _marked(usage: Usage, answer: object, place: object) -> Usage:
    """The usage with what litellm tells in the object around it."""
    is_told = place is not answer and may_have_hidden(answer)
    told = told_by_object(answer) if is_told else None
    return usage if told is None else marked(usage, told)


def marked(usage: Usage, told: Told) -> Usage:
    """The usage with what a gateway has told: an answer of its own cache is no bill.

    Its sum stands where the provider has not said itself what the call cost.
    """
    if told.is_cached:
        free = dollars_of("0", "1")
        return replace(usage, reported_cost=free, cost_source=told.by, origin="cache")
    if told.cost and usage.reported_cost is None:
        return replace(usage, reported_cost=told.cost, cost_source=told.by)
    return usage


def _is_sum(counts: dict[str, int]) -> bool:
    input_tokens, output_tokens = counts.get("input", 0), counts.get("output", 0)
    return counts.get("total", input_tokens + output_tokens) == input_tokens + output_tokens


_PLAIN_NAMES: Final[dict[tuple[str, ...], tuple[str, str, str]]] = {}
"""Where input, output and total are in dicts of these names, all of which have whole numbers."""
_MOST_NAMES: Final = 64


def _remember_names(obj: dict[str, object], numbers: Numbers) -> None:
    """Note where the numbers of such dicts are, if they have nothing but known numbers."""
    names = tuple(obj)
    is_whole = all(type(it) is int and 0 <= it <= MAX_TOKENS for it in obj.values())
    if (
        is_whole
        and KNOWN_NAMES.issuperset(names)
        and "input" in numbers.counts
        and len(_PLAIN_NAMES) < _MOST_NAMES
    ):
        found = [numbers.path(field) for field in ("input", "output", "total")]
        if not any("." in path for path in found):
            _PLAIN_NAMES[names] = (found[0], found[1], found[2])


def _plain_usage(obj: dict[str, Any]) -> Usage | None:
    """The usage in a dict of whole numbers whose names were met before; None of any other."""
    names = _PLAIN_NAMES.get(tuple(obj))
    if names is None:
        return None
    for number in obj.values():
        if type(number) is not int or not 0 <= number <= MAX_TOKENS:
            return None
    first, output, total = names
    if total and obj[total] != obj[first] + (obj[output] if output else 0):
        return None
    usage: Usage = _make_usage(
        uncached_input_tokens=obj[first],
        output_tokens=obj[output] if output else 0,
        reported_total_tokens=obj[total] if total else None,
    )
    return usage


def _normal(reading: Reading, uses: Uses, *, is_pass: bool = False) -> Usage:
    """The usage of a call, or of one pass of it, in which others are not looked for."""
    numbers = reading.numbers
    unread = unread_names(numbers) if numbers.has_unknown or numbers.lists else ()
    cache_read, cache_write = reading.cache_read, reading.cache_write
    input_tokens = reading.input_tokens + reading.audio_beside
    if reading.is_cache_beside:
        input_tokens += cache_read + cache_write
    elif cache_read or cache_write:
        cache_read = min(cache_read, reading.input_tokens)
        cache_write = min(cache_write, reading.input_tokens - cache_read)
    counts = reading.counts
    if uses:
        priced, named = untold(uses, counts, unread)
        counts |= priced
        unread += named
    parts: dict[str, Any] = {_PARTS[name]: counts[name] for name in counts if name in _PARTS}
    if reading.lists:
        inputs, outputs = reading.by_modality("input"), reading.by_modality("output")
        input_tokens = input_tokens or sum(inputs.values())
        cached = reading.by_modality("cache")
        for found, names in ((inputs, _INPUTS), (outputs, _OUTPUTS), (cached, _CACHED)):
            if found:
                for modality, name in names:
                    parts[name] = parts.get(name) or found.get(modality, 0)
        for ttl, tokens in reading.written_by_ttl().items():
            if ttl in TTLS:
                name = f"cache_write_{ttl}_tokens"
                parts[name] = parts.get(name) or tokens
        if "usages" in reading.lists:
            if is_pass:
                unread += ("iterations",)
            else:
                calls, beside = reading.iterations()
                parts["passes"] = tuple(
                    UsagePass(kind, model, _normal(it, {}, is_pass=True))
                    for kind, model, it in beside
                )
                parts["last_call"] = (
                    _normal(calls[-1], {}, is_pass=True) if len(calls) > 1 else None
                )
    for name in _WRITTEN & parts.keys():
        parts[name] = min(parts[name], cache_write)
    if texts := reading.texts:
        parts["service_tier"] = texts.get("service_tier") or texts.get("traffic_type", "")
        parts["speed"] = texts.get("speed", "")
        parts["inference_geo"] = texts.get("inference_geo", "")
        parts["search_size"] = texts.get("search_context_size", "")
    usage: Usage = _make_usage(
        uncached_input_tokens=input_tokens - cache_read - cache_write,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
        output_tokens=reading.all_output_tokens,
        reasoning_tokens=reading.reasoning,
        is_reasoning_inside=not reading.is_reasoning_beside,
        reported_total_tokens=counts.get("total"),
        reported_cost=reading.cost() if reading.money else None,
        unread=unread,
        is_contradictory=reading.is_contradictory,
        **parts,
    )
    return usage
