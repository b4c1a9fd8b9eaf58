"""The numbers of a usage object, and which of them are part of others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tokenctx._results.estimates import MAX_TOKENS
from tokenctx._results.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Collection
    from decimal import Decimal

TABLE: Final = read_table("usage_fields")
_PLACES: Final = [tuple(path.split(".")) for path in TABLE["places"]]
MODALITIES: Final = {
    0: "MODALITY_UNSPECIFIED",
    1: "TEXT",
    2: "IMAGE",
    3: "VIDEO",
    4: "AUDIO",
    5: "DOCUMENT",
}
"""Numbers of Gemini's `MediaModality`."""
_SLIP_PERCENT: Final = 1
"""Reasoning that is above the output by no more is in it: a host of Kimi counts it one higher."""
CALLS: Final = frozenset({"message", "fallback_message"})
BESIDE: Final = frozenset({"compaction", "advisor_message"})
UNKNOWN: Final = "unknown"
"""Stands for a type that is missing, or that is no word."""
_WORD: Final = re.compile(r"\w[\w.-]*", re.ASCII)
_MAX_PLACES: Final = 16
"""Usage inside of an answer inside of an event is 3; an object that holds itself has no end."""
MAX_WORD: Final = 64
_MAX_DOLLARS: Final = 1_000_000
"""More than a call can cost."""
_OWN_CACHED: Final = 512
"""A host of Grok counts some 160 tokens of its own among the cached: 18 recorded calls, 2026-11."""
_MAX_WINDOW: Final = 2**24
"""Tokens; no model has a window as long."""
COUNT: Final = re.compile(
    "token|request|search|quer|unit|call|second|minute|hour|page|image|audio|video|character|credit"
    "|classification|session"
)
"""A name of something that may be billed; not of a time or an identifier."""
HAS_COUNTS: Final = re.compile("details|usage|units|counts?$|tool_use|billed|connectors")
"""A name of an object of counts; not of one that may hold what a model has written."""
_SEARCHES: Final = "web_search_requests"
TOOL_COUNTS: Final[dict[str, str]] = TABLE["tool_counts"]
TOOL_USES: Final = "tool_usage"
"""Beside the usage of an answer of Responses: what its tools used."""
_FRAMEWORK_DETAILS: Final = "input_token_details.cache_read"
_OPENAI_INPUT: Final = "prompt_tokens"
_COHERE_INPUT: Final = "billed_units.input_tokens"


class Name:
    """A name in a usage object: a number, a list, a word, money, or an object with more names."""

    __slots__ = (
        *("dollars", "field", "is_number", "is_outer", "list", "members", "money", "rank", "text"),
    )

    def __init__(self) -> None:
        self.field = self.list = self.text = self.money = ""
        self.dollars = ""  # what one of its money is
        self.rank = 0  # how many paths of the field or list come before this one
        self.members: dict[str, Name] = {}
        self.is_number = False  # a count and nothing else
        self.is_outer = False  # an object whose members alone say anything

    def at(self, path: str) -> Name:
        """The name at the end of `path`, made if it is new."""
        name = self
        for step in path.split("."):
            name = name.members.setdefault(step, Name())
        return name


def _root() -> Name:
    root = Name()
    parts = (("field", "fields"), ("field", "priced"), ("list", "lists"), ("text", "texts"))
    for kind, part in parts:
        for field, paths in TABLE[part].items():
            for rank, path in enumerate(paths):
                name = root.at(path)
                setattr(name, kind, field)
                name.rank = rank
    for field, units in TABLE["money"].items():
        for dollars, paths in units.items():
            for path in paths:
                name = root.at(path)
                name.money, name.dollars = field, dollars
    for path in TABLE["free"]:
        root.at(path)
    _tell_kinds(root)
    return root


def _tell_kinds(around: Name) -> None:
    for key, name in around.members.items():
        name.is_number = bool(name.field) and not name.money
        name.is_outer = bool(name.members) and not name.money and key != TOOL_USES
        _tell_kinds(name)


_ROOT: Final = _root()
NAMES: Final = _ROOT.members
_USAGE_NAMES: Final = frozenset(NAMES)
PLACE_NAMES: Final = frozenset(path[0] for path in _PLACES)
KNOWN_NAMES: Final = _USAGE_NAMES | PLACE_NAMES
"""Without one of these an event has no usage."""


class Numbers:
    """The numbers of a usage object by meaning, and its lists.

    Attributes:
        counts: By field, the number of the first path that has one.
        lists: Likewise.
        texts: Words of the answer that change its price: service tier, speed, region.
        money: What the answer says that it costs, in dollars.
        usage: The object itself.
        tools: What stands beside it, of the vendor's tools.
        has_unknown: Whether there may be names that no table has.
    """

    __slots__ = (*("_ranks", "counts", "has_unknown", "lists", "money", "texts", "tools", "usage"),)

    def __init__(self, obj: object, around: Numbers | None = None) -> None:
        self.counts: dict[str, int] = {}
        self.lists: dict[str, list[object]] = {}
        self.texts: dict[str, str] = {} if around is None else around.texts
        self.money: dict[str, Decimal] = {}
        self.usage = obj
        self.tools: object = None if around is None else around.tools
        self.has_unknown = self.tools is not None
        self._ranks: dict[str, int] = {}
        self._collect(obj, _ROOT)
        if around is not None and (searches := around.counts.get(_SEARCHES)) is not None:
            self.counts.setdefault(_SEARCHES, searches)

    def path(self, field: str) -> str:
        """Where the number stood; empty if there is none."""
        path: str = TABLE["fields"][field][self._ranks[field]] if field in self.counts else ""
        return path

    def list_path(self, field: str) -> str:
        """Where a list of `lists` stood."""
        return str(TABLE["lists"][field][self._ranks[field]])

    @property
    def has_more(self) -> bool:
        """True if it says more than counts."""
        return bool(self.lists or self.texts or self.money)

    def _collect(self, obj: object, around: Name) -> None:
        if type(obj) is dict:
            self._collect_dict(obj, around.members)
            return
        if not _is_known(obj, around):
            self.has_unknown = True
        for key, value in members(obj, around.members):
            self._take(key, around.members[key], value)

    def _collect_dict(self, obj: dict[Any, Any], names: dict[str, Name]) -> None:
        """As of any object, in half the time: what most members are is asked first."""
        counts, ranks = self.counts, self._ranks
        for key, value in obj.items():
            name = names.get(key)
            if name is None:
                self.has_unknown = True
            elif type(value) is int and name.is_number and 0 <= value <= MAX_TOKENS:
                field = name.field
                if field not in ranks or name.rank < ranks[field]:
                    counts[field], ranks[field] = value, name.rank
            elif type(value) is dict and name.is_outer:
                self._collect_dict(value, name.members)
            elif value is not None:
                self._take(key, name, value)

    def _take(self, key: str, name: Name, value: object) -> None:
        """The meaning of any value of a name."""
        counts, ranks = self.counts, self._ranks
        if key == TOOL_USES and is_object(value):
            self.tools = value
        if name.money and (dollars := dollars_of(value, name.dollars)) is not None:
            self.money.setdefault(name.money, dollars)
            return
        if name.text and isinstance(value, (str, bool)):
            word = value.value if isinstance(value, Enum) else value
            self.texts[name.text] = str(word)[:MAX_WORD].lower()
            return
        number = number_of(value)
        if number is not None:
            if (field := name.field) and name.rank < ranks.get(field, MAX_TOKENS):
                counts[field], ranks[field] = number, name.rank
            elif not field and (name.members or name.list):  # a count where parts should be
                self.has_unknown = True
        elif isinstance(value, float):
            self.has_unknown = True
        elif isinstance(value, (list, tuple)):
            if (field := name.list) and name.rank < ranks.get(field, MAX_TOKENS):
                self.lists[field], ranks[field] = list(value), name.rank
            elif not field and value:
                self.has_unknown = True
        elif is_object(value):
            if name.members:
                self._collect(value, name)
            else:
                self.has_unknown = True


def numbers_in(obj: object) -> Numbers | None:
    """The numbers of the usage in a response or event, or of a usage object; None without any."""
    numbers = None
    for _ in range(_MAX_PLACES):
        numbers = Numbers(obj, numbers)
        if "input" in numbers.counts or "uncached" in numbers.counts:
            return numbers
        place, holder = _place(obj)
        if place is None:
            if numbers.counts or numbers.lists:
                return numbers
            place = _usage_of_choice(obj)
            if place is None:
                return None
        if holder is not obj:  # the answer in an event, which has words and tools beside the usage
            numbers = Numbers(holder, numbers)
        obj = place
    return None


def find_usage(event: dict[str, Any]) -> object:
    """The usage object in an event; None if it has none. Quick where it has not."""
    of_choice = _usage_of_choice(event)
    if of_choice is not None and type(event.get("usage")) is not dict:
        return of_choice
    if KNOWN_NAMES.isdisjoint(event):
        return None
    if type(event.get("timings")) is dict:  # llama.cpp, with usage or without
        usage = event.get("usage")
        return {**(usage if type(usage) is dict else {}), "timings": event["timings"]}
    obj: object = event
    for _ in range(_MAX_PLACES):
        if _has_input(obj):
            return obj
        place, _ = _place(obj)
        if place is None:
            return None if obj is event else obj
        obj = place
    return None


def _usage_of_choice(obj: object) -> dict[str, Any] | None:
    """The usage that Moonshot's streams have in the first choice."""
    choices = obj.get("choices") if type(obj) is dict else None
    if type(choices) is not list or not choices or type(choices[0]) is not dict:
        return None
    usage = choices[0].get("usage")
    return usage if type(usage) is dict else None


def _has_input(obj: object) -> bool:
    """True if it is a usage object with input tokens."""
    if type(obj) is dict and _USAGE_NAMES.isdisjoint(obj):
        return False
    return "input" in Numbers(obj).counts


def _place(obj: object) -> tuple[object, object]:
    """The first object where usage may stand, and the one that it is a member of."""
    paths = _PLACES
    if type(obj) is dict:
        paths = [path for path in _PLACES if path[0] in obj]
    for path in paths:
        place = holder = obj
        for name in path:
            holder, place = place, member(place, name)
            if place is None:
                break
        if is_object(place):
            return place, holder
    return None, obj


class Reading:
    """A usage object whose numbers are told apart: which are part of others."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.counts, self.lists = numbers.counts, numbers.lists
        self.texts, self.money = numbers.texts, numbers.money
        counts = numbers.counts
        for kind, uses in tool_counts(numbers) if numbers.lists else ():
            if (field := TOOL_COUNTS.get(kind)) is not None:
                counts[field] = counts.get(field, 0) + uses
        of = counts.get
        self.input_tokens, self.output_tokens = of("input", 0), of("output", 0)
        self.cache_read = of("cache_read_beside", 0) or of("cache_read", 0)
        self.cache_write = of("cache_write_beside", 0) or of("cache_write", 0)
        self.reasoning = of("reasoning_beside", 0) or of("reasoning", 0)
        if "input" not in counts and "uncached" in counts:
            self.input_tokens = self.of("uncached") + self.cache_read + self.cache_write
        has_beside = of("cache_read_beside") or of("cache_write_beside")
        path = numbers.path("input")
        self.is_openai, self.is_cohere = path == _OPENAI_INPUT, path == _COHERE_INPUT
        self.is_cache_beside = bool(has_beside) and not self.is_openai
        self.audio_beside = 0
        has_total = "total" in counts and "output" in counts and "input" in counts
        self.is_reasoning_beside = "reasoning_beside" in counts or (
            self.reasoning > self.output_tokens and not self._is_slip(has_total=has_total)
        )
        if has_total:
            self._ask_total()
            # A framework adds up a total of its own, which is no evidence.
            is_more = self.cache_read + self.cache_write > self.input_tokens
            if is_more and numbers.path("cache_read").startswith(_FRAMEWORK_DETAILS):
                self.is_cache_beside = True
        elif self.cache_read + self.cache_write > self.input_tokens:
            # It cannot be inside, but for Cohere, which counts it in another measure.
            self.is_cache_beside |= not self.is_cohere

    def of(self, field: str) -> int:
        """The number of this meaning; 0 without one."""
        return self.counts.get(field, 0)

    def _is_slip(self, *, has_total: bool) -> bool:
        """True if reasoning that is more than the output is all of it, counted otherwise."""
        more = self.reasoning - self.output_tokens
        rest = self.of("total") - self.all_input_tokens - self.of("tool_use_prompt")
        return more <= self.output_tokens // 100 * _SLIP_PERCENT or (
            has_total and rest == self.reasoning
        )

    def _ask_total(self) -> None:
        """The tokens beside input and output are those that the total has more."""
        output_tokens = self.output_tokens + (self.reasoning if self.is_reasoning_beside else 0)
        more = self.of("total") - self.all_input_tokens - output_tokens
        more -= self.of("tool_use_prompt")
        if more < 0:
            self._ask_small_total(-more)
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
        elif self.is_openai and not (self.reasoning or self.cache_read or self.cache_write):
            # Google's endpoint of this form counts what was thought in the total alone.
            self.reasoning, self.is_reasoning_beside = more, True

    def _ask_small_total(self, less: int) -> None:
        """A number that the total does not have beside others is inside of one of them."""
        cached = self.cache_read + self.cache_write if self.is_cache_beside else 0
        reasoning = self.reasoning if "reasoning_beside" in self.counts else 0
        if less in (reasoning, reasoning + cached) and reasoning:
            self.is_reasoning_beside = False
            less -= reasoning
        if cached and less == cached:
            self.is_cache_beside = cached > self.input_tokens  # then two numbers were added up

    @property
    def is_contradictory(self) -> bool:
        """True if its numbers cannot all be of one call."""
        cached, input_tokens = self.cache_read + self.cache_write, self.all_input_tokens
        if cached > _MAX_WINDOW:
            return True
        if cached > 2 * input_tokens + _OWN_CACHED and not (self.is_cache_beside or self.is_cohere):
            return True
        total = self.of("total")
        if not 0 < total < input_tokens + self.of("tool_use_prompt"):
            return False
        return total != self.input_tokens + self.output_tokens  # else added up by whoever tells it

    @property
    def all_input_tokens(self) -> int:
        """Input with all that was cached."""
        cached = self.cache_read + self.cache_write if self.is_cache_beside else 0
        return self.input_tokens + cached + self.audio_beside

    @property
    def all_output_tokens(self) -> int:
        """Output with all reasoning."""
        if self.is_reasoning_beside:
            return self.output_tokens + self.reasoning
        return max(self.output_tokens, self.reasoning)

    def by_modality(self, side: str) -> dict[str, int]:
        """Tokens by modality (Gemini: a list of `modality` and `tokenCount`)."""
        tokens: dict[str, int] = {}
        for one in self.lists.get(f"{side}_by_modality", ()):
            if type(one) is dict and type(name := one.get("modality")) is str:
                count = one.get("tokenCount")
                if type(count) is int and 0 <= count <= MAX_TOKENS:  # as nearly all are
                    tokens[name.upper()] = tokens.get(name.upper(), 0) + count
                    continue
            name = modality_of(one)
            count = number_of(member(one, "tokenCount")) or number_of(member(one, "token_count"))
            count = count or number_of(member(one, "tokens"))
            tokens[name.upper()] = tokens.get(name.upper(), 0) + (count or 0)
        return tokens

    def written_by_ttl(self) -> dict[str, int]:
        """Tokens written to the cache by the time they stay (Bedrock)."""
        details = [(member(one, "ttl"), one) for one in self.lists.get("cache_write_by_ttl", ())]
        tokens = {
            ttl: number_of(member(one, "inputTokens")) for ttl, one in details if _is_text(ttl)
        }
        return {ttl: number or 0 for ttl, number in tokens.items()}

    def iterations(self) -> tuple[list[Reading], list[tuple[str, str, Reading]]]:
        """The calls whose sum the answer has, and the passes beside them.

        A pass has a kind and a model: Anthropic counts a compaction and an advisor so. Those of a
        type that nobody knows are calls if the sum has them, else passes.
        """
        found = [(kind_of(it), it) for it in self.lists.get("usages", ()) if is_object(it)]
        read = [(kind, _model_of(it), Reading(Numbers(it))) for kind, it in found]
        calls = [it for kind, _, it in read if kind in CALLS]
        others = [it for kind, _, it in read if kind not in BESIDE]
        if len(others) > len(calls) and self._is_sum(others) and not self._is_sum(calls):
            return others, [it for it in read if it[0] in BESIDE]
        return calls, [it for it in read if it[0] not in CALLS]

    def _is_sum(self, calls: list[Reading]) -> bool:
        inputs = sum(it.all_input_tokens for it in calls)
        outputs = sum(it.all_output_tokens for it in calls)
        return (inputs, outputs) == (self.all_input_tokens, self.all_output_tokens)

    def cost(self) -> Decimal | None:
        """What the answer says that it costs, in dollars; None if it does not, or says nothing.

        A key of one's own is billed elsewhere: what OpenRouter then asks is its fee alone.
        """
        cost, upstream = self.money.get("cost"), self.money.get("upstream_cost")
        if cost is not None and upstream is not None and self.texts.get("is_byok") == "true":
            cost += upstream
        return cost or None


def _is_known(obj: object, around: Name) -> bool:
    """True if all that `obj` of pydantic has is in the table, or counts nothing by its name."""
    its_class: Any = type(obj)
    if not _kind(its_class).is_pydantic:
        return False
    try:
        own, more = vars(obj), getattr(obj, "__pydantic_extra__", None)
        return not more and _are_known(around, tuple(own))
    except Exception:  # a caller's object may raise anything
        return False


@lru_cache(maxsize=256)
def _are_known(around: Name, keys: tuple[str, ...]) -> bool:
    others = (key.lower() for key in keys if key not in around.members)
    return not any(COUNT.search(key) or HAS_COUNTS.search(key) for key in others)


def all_members(obj: object) -> list[tuple[Any, Any]]:
    """What a mapping or an object of an SDK has, under any name; nothing where that is not told."""
    try:
        if isinstance(obj, Mapping):
            return list(obj.items())
        own: dict[str, Any] = getattr(obj, "__dict__", _NOTHING)
        its_class: Any = type(obj)
        is_pydantic = _kind(its_class).is_pydantic
        more = getattr(obj, "__pydantic_extra__", None) if is_pydantic else None
        return [*own.items(), *(more or {}).items()]
    except Exception:  # a caller's object may raise anything
        return []


def tool_counts(numbers: Numbers) -> list[tuple[str, int]]:
    """Uses of the vendor's tools by kind (Interactions: a list of `type` and `count`)."""
    uses = numbers.lists.get("tool_counts", ())
    return [(kind_of(it), number_of(member(it, "count")) or 0) for it in uses]


def kind_of(one: object, name: str = "type") -> str:
    """The word that says what an element of a list is; `UNKNOWN` for what is none."""
    kind = member(one, name)
    value = attribute(kind, "value") if isinstance(kind, Enum) else kind
    is_word = isinstance(value, str) and len(value) <= MAX_WORD and _WORD.fullmatch(value)
    return str(value) if is_word else UNKNOWN


def modality_of(one: object) -> str:
    """The kind of what is counted; `UNKNOWN` for a number that has no name, empty without one."""
    modality = member(one, "modality")
    value = attribute(modality, "value") or modality
    if isinstance(value, int):
        return MODALITIES.get(value, UNKNOWN)
    return value if isinstance(value, str) else ""


def _model_of(one: object) -> str:
    model = member(one, "model")
    return model[: 4 * MAX_WORD] if isinstance(model, str) else ""


def members(obj: object, names: Collection[str]) -> list[tuple[str, Any]]:
    """The values that `obj` has under `names`, whatever it is; without those that raise."""
    try:
        if isinstance(obj, dict):
            return [(key, value) for key, value in obj.items() if key in names]
        its_class: Any = type(obj)
        kind = _kind(its_class)
        if kind.is_mapping:
            mapping: Any = obj
            return [(name, mapping.get(name)) for name in names]
        if not kind.tells_names:
            return [(name, attribute(obj, name)) for name in names]
        own: dict[str, Any] = getattr(obj, "__dict__", _NOTHING)
        found = [
            (name, value) for name, value in own.items() if name in names and name not in kind.names
        ]
        if kind.is_pydantic and (extra := getattr(obj, "__pydantic_extra__", None)):
            found += [(name, value) for name, value in extra.items() if name in names]
        found += [(name, attribute(obj, name)) for name in kind.names if name in names]
    except Exception:  # a caller's object may raise anything
        return []
    return found


_NOTHING: Final[dict[str, Any]] = {}


class _Kind(NamedTuple):
    """The facts that are true of all objects of a class.

    Attributes:
        tells_names: Whether what an object has is known without asking for each name. To ask an
            object of pydantic for an attribute that it has not costs more than all those it has.
        names: Attributes of the class that can be numbers of usage or lead to them.
    """

    is_mapping: bool
    is_pydantic: bool
    tells_names: bool
    names: frozenset[str]
    has_normal_usage: bool
    has_hidden: bool


@lru_cache(maxsize=64)
def _kind(kind: Any) -> _Kind:
    is_pydantic = hasattr(kind, "__pydantic_fields__")
    is_asked = kind.__getattribute__ is not object.__getattribute__ or (
        hasattr(kind, "__getattr__") and not is_pydantic
    )
    return _Kind(
        issubclass(kind, Mapping),
        is_pydantic,
        not is_asked,
        _ALL_NAMES.intersection(dir(kind)),
        hasattr(kind, "normal_usage"),
        not is_pydantic or hasattr(kind, "_hidden_params"),
    )


def normal_usage_of(obj: object) -> Any:
    """The usage of an object of ours in normal form; None of any other."""
    kind: Any = type(obj)
    return attribute(obj, "normal_usage") if _kind(kind).has_normal_usage else None


def may_have_hidden(obj: object) -> bool:
    """True if an object may have litellm's hidden members: one of pydantic has to say so."""
    if type(obj) is dict:
        return "_hidden_params" in obj
    kind: Any = type(obj)
    return _kind(kind).has_hidden


def _all_names(names: dict[str, Name]) -> set[str]:
    return set(names).union(*(_all_names(name.members) for name in names.values()))


_ALL_NAMES: Final = frozenset(_all_names(NAMES))


def member(obj: object, name: str) -> Any:
    """A member of a mapping or an attribute of an object; None without one, or if it raises."""
    if type(obj) is dict:
        return obj.get(name)
    try:
        return obj.get(name) if isinstance(obj, Mapping) else getattr(obj, name, None)
    except Exception:  # a caller's object may raise anything
        return None


def attribute(obj: object, name: str) -> Any:
    """An attribute; None without one, or if it raises."""
    try:
        return getattr(obj, name, None)
    except Exception:
        return None


def is_object(value: object) -> bool:
    """True if it may have members."""
    return not isinstance(value, (type(None), str, bytes, int, float, list, tuple))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def dollars_of(value: object, unit: str) -> Decimal | None:
    """Money in dollars, `value` times `unit`; None for what is none, or beyond all measure."""
    from decimal import Decimal  # which only those who are told a cost need

    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        return None
    try:
        amount = Decimal(value if isinstance(value, str) else str(value)) * Decimal(unit)
    except (ArithmeticError, ValueError):  # no number, or one of very many digits
        return None
    return amount if amount.is_finite() and 0 <= amount <= _MAX_DOLLARS else None


def number_of(value: object) -> int | None:
    """A count, cut to the limit; None for what is none."""
    if type(value) is int and 0 <= value <= MAX_TOKENS:
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return None
    return min(value, MAX_TOKENS)
