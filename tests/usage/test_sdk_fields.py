"""Every field of the usage types of the SDKs changes the cost, is named in it, or is free.

The types are those that are installed: a new release of an SDK with a field that nobody has thought
of fails here, and not in a bill.
"""

from __future__ import annotations

import copy
import inspect
import typing
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import create_model

from tokenctx import normalize_usage
from tokenctx._results.cost import KINDS
from tokenctx.money import Prices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenctx.money import Cost

TYPES = {
    "openai chat": "openai.types.CompletionUsage",
    "openai responses": "openai.types.responses.ResponseUsage",
    "openai tools": "openai.types.responses.response.ToolUsage",
    "openai realtime": "openai.types.realtime.RealtimeResponseUsage",
    "openai images": "openai.types.images_response.Usage",
    "openai transcripts": "openai.types.audio.transcription.UsageTokens",
    "openai embeddings": "openai.types.create_embedding_response.Usage",
    "anthropic": "anthropic.types.Usage",
    "anthropic beta": "anthropic.types.beta.BetaUsage",
    "anthropic delta": "anthropic.types.MessageDeltaUsage",
    "gemini": "google.genai.types.GenerateContentResponseUsageMetadata",
    "gemini live": "google.genai.types.UsageMetadata",
    "gemini interactions": "google.genai._gaos.types.interactions.usage.Usage",
    "mistral": "mistralai.client.models.UsageInfo",
    "mistral conversations": "mistralai.client.models.ConversationUsageInfo",
    "cohere": "cohere.types.Usage",
    "cohere meta": "cohere.types.ApiMeta",
}
WHOLE = {"input_tokens": 1_000, "output_tokens": 1_000}
BASES: dict[str, dict[str, Any]] = {
    "anthropic": {**WHOLE, "cache_creation_input_tokens": 300},
    "cohere": {"billed_units": WHOLE},
    "gemini": {
        "promptTokenCount": 900,
        "candidatesTokenCount": 900,
        "cachedContentTokenCount": 300,
    },
    "gemini live": {
        "promptTokenCount": 900,
        "responseTokenCount": 900,
        "cachedContentTokenCount": 300,
    },
    "gemini interactions": {
        "total_input_tokens": 900,
        "total_output_tokens": 900,
        "total_cached_tokens": 300,
    },
    "openai chat": {"prompt_tokens": 1_000, "completion_tokens": 1_000},
    "openai responses": {**WHOLE, "input_tokens_details": {"cache_write_tokens": 300}},
    "openai realtime": {**WHOLE, "input_token_details": {"cached_tokens": 300}},
    "openai tools": {},
    "openai embeddings": {"prompt_tokens": 1_000},
    "mistral": {"prompt_tokens": 1_000, "completion_tokens": 1_000},
}
"""The wholes that a part is part of."""
FREE = {
    "total_tokens": "the parts are priced",
    "totalTokenCount": "likewise",
    "text_tokens": "what is left of the whole",
    "initial_input_tokens": "part of the input",
    "accepted_prediction_tokens": "part of the output",
    "rejected_prediction_tokens": "likewise",
    "ephemeral_5m_input_tokens": "written at the standard price, which the whole has",
    "ttl_30m_tokens": "likewise",
    "modality": "of the number beside it",
    "web_fetch_requests": "Anthropic: no charge beside the tokens",
    "tool_use_tokens_by_modality[].tokens": "input, of which the whole is priced",
    "toolUsePromptTokensDetails[].tokenCount": "likewise",
    "api_version.version": "no count: Cohere says which version has answered",
    "api_version.is_deprecated": "likewise",
    "api_version.is_experimental": "likewise",
    "tokens.input_tokens": "Cohere bills `billed_units`",
    "tokens.output_tokens": "likewise",
    "fallback_credit.status.reason": "says why a refund was given",
    "fallback_credit.status.remove_to_redeem": "likewise",
    "iterations[].model": "of the numbers beside it",
    "api_version": "no count",
    "warnings": "no count",
    "type": "no count",
    "billed_units.text_tokens": "Cohere: part of the input",
}
ROW = {kind: str(place + 2) for place, kind in enumerate(KINDS) if kind != "request"}
"""Each kind has a price of its own."""
PRICES = Prices(
    {"updated": "2026-11-20", "models": {"all": {**ROW, "service_tier": {"some-word": "0.5"}}}},
    package=None,
)


def is_free(place: str) -> bool:
    """True for a name of `FREE`, a whole one, or the end of a path."""
    return any(f".{place}".endswith(f".{it}") for it in FREE)


def found(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(pytest.importorskip(module, exc_type=ImportError), name)


def types_in(annotation: Any, *, is_list: bool = False) -> Iterator[tuple[Any, bool]]:
    """Types with fields in an annotation, and whether they stand in a list."""
    if inspect.isclass(annotation) and hasattr(annotation, "model_fields"):
        yield annotation, is_list
    for inner in typing.get_args(annotation):
        yield from types_in(inner, is_list=is_list or typing.get_origin(annotation) is list)


def leaves(kind: Any, path: str = "", seen: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Each field without fields of its own: where it is, and what it may be."""
    for own, field in kind.model_fields.items():
        name = field.serialization_alias or field.alias or own
        inner = [it for it in types_in(field.annotation) if it[0] not in seen]
        for one, is_list in inner:
            place = f"{path}{name}{'[]' if is_list else ''}."
            yield from leaves(one, place, (*seen, kind))
        if not inner:
            yield path + name, field.annotation


def value(annotation: Any) -> Any:
    """77, or a word where the field is one of words."""
    inner = (annotation, *typing.get_args(annotation))
    if any(typing.get_origin(it) is dict for it in inner):
        return {"web_search": 77}
    is_word = str in inner or any(typing.get_origin(it) is typing.Literal for it in inner)
    enums = (it for it in inner if inspect.isclass(it) and hasattr(it, "__members__"))
    return "some-word" if is_word or next(enums, None) is not None else 77


def put(usage: dict[str, Any], path: str, number: Any, more: dict[str, Any]) -> None:
    """`number` at the end of `path`; in a list, in one object that also has `more`."""
    *steps, last = path.split(".")
    place = usage
    for step in steps:
        if step.endswith("[]"):
            place = place.setdefault(step[:-2], [dict(more)])[0]
        else:
            place = place.setdefault(step, {})
    place[last] = number


def cost(usage: dict[str, Any], path: str) -> Cost | None:
    whole = {"usage": usage}
    if path.startswith("tool_usage"):
        whole = {"usage": WHOLE, **usage}
    normal = normalize_usage(whole)
    return None if normal is None else PRICES.cost(normal, model="all")


def figures(told: Cost | None) -> Any:
    return told and (told.total, told.unpriced, told.factors)


def element(path: str) -> dict[str, Any]:
    """What else stands in the object of a list."""
    if "iterations" in path:
        return {"type": "compaction", **BASES["anthropic"]}
    return {"type": "google_maps"} if "tool_count" in path else {"modality": "AUDIO"}


def silent_fields(kind: Any, name: str) -> list[str]:
    """Fields whose number neither changes a price nor is named, though they are not free."""
    base = next((BASES[it] for it in (name, name.partition(" ")[0]) if it in BASES), WHOLE)
    silent = []
    for path, annotation in leaves(kind):
        place = f"tool_usage.{path}" if name == "openai tools" else path
        if is_free(place):
            continue
        before, after = copy.deepcopy(base), copy.deepcopy(base)
        if "[]" in place:
            put(before, place.partition("[]")[0] + "[].nothing", 0, element(place))
            after = copy.deepcopy(before)
        put(after, place, value(annotation), element(place))
        told = cost(after, place)
        if figures(cost(before, place)) == figures(told) and (
            told is None or place not in told.unpriced
        ):
            silent.append(place)
    return silent


@pytest.mark.parametrize("name", sorted(TYPES))
@pytest.mark.filterwarnings("ignore")  # their own
def test_no_field_that_costs_money_is_priced_0_silently(name: str) -> None:
    kind = found(TYPES[name])
    assert list(leaves(kind))
    assert silent_fields(kind, name) == []


def test_a_new_field_that_is_not_read_is_found() -> None:
    """Also one whose name has that of a free one inside: the check itself can fail."""
    fields = ("input_tokens", "odor_volume", "subtotal_tokens_of_type", "prototypes", "type")
    kind = create_model("NewUsage", **dict.fromkeys(fields, (int, 0)))  # type: ignore[call-overload]
    assert silent_fields(kind, "new") == ["odor_volume", "prototypes"]
    assert is_free("iterations[].type")
    assert not is_free("subtotal_tokens_of_type")


@pytest.mark.parametrize("name", ["multimedia_tokens", "realtime_calls", "costumeImages"])
def test_a_name_that_has_a_time_or_a_cost_inside_of_a_word_is_a_count(name: str) -> None:
    told = cost({**WHOLE, name: 4}, "")
    assert told is not None
    assert told.unpriced == (name,)


@pytest.mark.parametrize(
    ("usage", "named"),
    [
        ({"billed_units": {**WHOLE, "search_units": 1}}, ("billed_units.search_units",)),
        ({**WHOLE, "server_tool_use": {"new_requests": 4}}, ("server_tool_use.new_requests",)),
        (
            {**WHOLE, "input_tokens_details": {"odor_tokens": 4}},
            ("input_tokens_details.odor_tokens",),
        ),
        ({**WHOLE, "sandbox_seconds": 0.5}, ("sandbox_seconds",)),
        ({**WHOLE, "usage_items": [{"type": "odor", "calls": 4}]}, ("usage_items.odor.calls",)),
        ({**WHOLE, "sandbox_seconds": 0}, ()),
        ({**WHOLE, "server_tool_use": {"web_fetch_requests": 3}}, ()),
        ({**WHOLE, "tokens_per_second": 3.5, "total_time": 2, "id": 5}, ()),
        ({**WHOLE, "message": {"tool_calls": [{"image_tokens": 5}], "pages": 4}}, ()),
        ({**WHOLE, "a name with text tokens": 4}, ()),
    ],
)
def test_a_count_that_nobody_knows_is_named(usage: Any, named: tuple[str, ...]) -> None:
    told = cost(usage, "")
    assert told is not None
    assert told.unpriced == named
    assert told.high == (None if named else told.total)


def test_a_pass_of_a_kind_that_nobody_knows_is_in_the_cost() -> None:
    """The total has it at the price of the answer's model, and no upper bound is told."""
    message = {"type": "message", **WHOLE}
    plain = cost({**WHOLE, "iterations": [message]}, "")
    odd = cost({**WHOLE, "iterations": [message, {"type": "odd_pass", "input_tokens": 500}]}, "")
    beside = cost({"input_tokens": 500}, "")
    assert plain is not None
    assert odd is not None
    assert beside is not None
    assert beside.total is not None
    assert (odd.parts["passes"], odd.total) == (beside.total, (plain.total or 0) + beside.total)
    assert (odd.unpriced, odd.high) == (("iterations.odd_pass",), None)
    assert (plain.unpriced, plain.high) == ((), plain.total)


def test_names_of_counts_are_bounded() -> None:
    many = {f"odd_tokens_{nth}": 5 for nth in range(1_000)}
    deep: Any = {}
    place = deep
    for _ in range(50):
        place["usage"] = place = {"odd_tokens": 5}
    holds_itself: dict[str, Any] = {**WHOLE}
    holds_itself["usage_details"] = holds_itself
    for usage in ({**WHOLE, **many}, {**WHOLE, "details": deep}, holds_itself):
        normal = normalize_usage(usage)
        assert normal is not None
        assert len(normal.unread) <= 16


def test_words_and_counts_beside_the_usage_are_read() -> None:
    tools = {"web_search": {"num_requests": 3}, "image_gen": {"input_tokens": 7}}
    normal = normalize_usage({"object": "response", "tool_usage": tools, "usage": WHOLE})
    assert normal is not None
    assert (normal.web_search_requests, normal.unread) == (
        3,
        ("tool_usage.image_gen.input_tokens",),
    )
    bedrock = {
        "usage": {"inputTokens": 5, "outputTokens": 7},
        "serviceTier": {"type": "flex"},
        "performanceConfig": {"latency": "optimized"},
    }
    normal = normalize_usage(bedrock)
    assert normal is not None
    assert (normal.service_tier, normal.speed) == ("flex", "optimized")
    spoken = {
        "promptTokenCount": 100,
        "responseTokenCount": 50,
        "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 40}],
        "trafficType": "ON_DEMAND_FLEX",
    }
    normal = normalize_usage(spoken)
    assert normal is not None
    assert (normal.output_tokens, normal.output_audio_tokens) == (50, 40)
    told = normal.cost("gemini-2.5-flash")
    assert told is not None
    assert told.factors.keys() == {"service_tier=flex"}
