"""Every field is counted, costs nothing by a source, or is labelled: `fields.json`.

The second source is the types of the official SDKs, and AWS's own model of Converse.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

import sdk_types
from tokenctx import HybridTokenEstimator
from tokenctx._core import _request_view
from tokenctx._results.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Json = dict[str, Any]

TABLE: Final = read_table("fields")
PLACES: Final = ("request", "configuration", "message", "part", "tool", "vendor_tool")
MEANINGS: Final = ("read", "no_tokens", "state", "uncounted")
WORDS: Final = "word " * 40


def names(place: str, *meanings: str) -> set[str]:
    abouts = TABLE["dialects"].values()
    return {
        name for about in abouts for it in meanings for name in about.get(place, {}).get(it, ())
    }


# ------------------------------------------------------------------------------ the table

PARAMETERS: Final = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION: Final = {"name": "weather", "description": "Tells it.", "parameters": PARAMETERS}
TEXT: Final = "What is the weather in Paris?"
BODIES: Final[dict[str, tuple[str, Json]]] = {
    "openai-chat": (
        "gpt-5",
        {
            "messages": [{"role": "user", "content": [{"type": "text", "text": TEXT}]}],
            "tools": [{"type": "function", "function": FUNCTION}],
            "response_format": {"type": "text"},
        },
    ),
    "openai-responses": (
        "gpt-5.6-sol",
        {
            "input": [{"role": "user", "content": [{"type": "input_text", "text": TEXT}]}],
            "tools": [{"type": "function", **FUNCTION}],
            "reasoning": {"summary": "auto"},
        },
    ),
    "anthropic": (
        "claude-opus-4-8",
        {
            "max_tokens": 9,
            "messages": [{"role": "user", "content": [{"type": "text", "text": TEXT}]}],
            "tools": [{"name": "weather", "input_schema": PARAMETERS}],
            "output_config": {"effort": "high"},
        },
    ),
    "gemini": (
        "gemini-2.5-flash",
        {
            "contents": [{"role": "user", "parts": [{"text": TEXT}]}],
            "tools": [{"functionDeclarations": [FUNCTION]}],
            "generationConfig": {"temperature": 0},
        },
    ),
    "gemini-interactions": (
        "gemini-3.5-flash",
        {
            "input": [{"type": "user_input", "content": [{"type": "text", "text": TEXT}]}],
            "tools": [{"type": "function", **FUNCTION}],
            "generation_config": {"temperature": 0},
            "response_format": {"type": "text", "mime_type": "application/json"},
        },
    ),
    "bedrock-converse": (
        "anthropic.claude-sonnet-4-5",
        {
            "messages": [{"role": "user", "content": [{"text": TEXT}]}],
            "toolConfig": {
                "tools": [{"toolSpec": {"name": "weather", "inputSchema": {"json": PARAMETERS}}}]
            },
            "inferenceConfig": {"maxTokens": 9},
        },
    ),
    "vscode": ("gpt-5", {"messages": [{"role": 1, "content": [{"$mid": 21, "value": TEXT}]}]}),
}


def owners(body: Json) -> Iterator[tuple[str, Json]]:
    """The objects of a body whose members the table knows, each with the name of its place."""
    yield "request", body
    for name in TABLE["owners"]:
        if isinstance(body.get(name), dict):
            yield "configuration", body[name]
    for message in body.get("messages") or body.get("contents") or body["input"]:
        yield "message", message
        for part in message.get("content") or message["parts"]:
            yield "part", part
    for tool in body.get("tools") or body.get("toolConfig", {}).get("tools", ()):
        inner = tool.get("functionDeclarations", [tool.get("toolSpec", tool)])
        for definition in inner:
            yield "tool", definition


CASES: Final = [
    (dialect, nth, place)
    for dialect, (_, body) in BODIES.items()
    for nth, (place, _) in enumerate(owners(body))
]


def with_field(dialect: str, nth: int, name: str, value: Any) -> Json:
    model, body = copy.deepcopy(BODIES[dialect])
    [*objects] = owners(body)
    objects[nth][1][name] = value
    return {"model": model, **body}


def fresh() -> HybridTokenEstimator:
    return HybridTokenEstimator(learning=False)


@pytest.mark.parametrize(("dialect", "nth", "place"), CASES)
@pytest.mark.parametrize("value", [WORDS, 7, False, {"a": [WORDS]}], ids=["text", "7", "no", "map"])
def test_an_invented_field_is_labelled(dialect: Any, nth: int, place: str, value: Any) -> None:
    plain = fresh().estimate(with_field(dialect, nth, "frobnicate", None), dialect=dialect)
    assert "unknown_field" not in plain.assumptions
    found = fresh().estimate(with_field(dialect, nth, "frobnicate", value), dialect=dialect)
    assert "unknown_field" in found.assumptions, place
    assert (found.tokens, found.quality) == (plain.tokens, "heuristic")
    assert found.low == plain.low
    most = 3 * len(json.dumps(value)) + 140
    assert 99 <= found.high - plain.high <= most, "as far as its text would reach"


@pytest.mark.parametrize(("dialect", "nth", "place"), CASES)
def test_a_tabled_field_is_counted_or_labelled_or_costs_nothing(
    dialect: str, nth: int, place: str
) -> None:
    """`no_tokens` and `read` are no assumption; `state` and `uncounted` have theirs."""
    body = dict(owners(BODIES[dialect][1]))[place]
    known = names(place, "read", "no_tokens")
    for name in sorted(names(place, *MEANINGS) - body.keys()):
        view = json.loads(_request_view(with_field(dialect, nth, name, {"type": "a"})))
        if name in names(place, "state"):
            assert "server_state" in view["assumptions"], name
        elif name not in known:
            assert "unknown_field" in view["assumptions"], name
        elif name in names(place, "no_tokens") - names(place, "read"):
            assert "unknown_field" not in view["assumptions"], name


@pytest.mark.parametrize("dialect", BODIES)
def test_bytes_and_the_dict_say_the_same(dialect: str) -> None:
    for nth, _ in enumerate(owners(BODIES[dialect][1])):
        body = with_field(dialect, nth, "frobnicate", WORDS)
        one, other = fresh().estimate(body), fresh().estimate(json.dumps(body).encode())
        assert (one.low, one.tokens, one.high) == (other.low, other.tokens, other.high)
        assert one.assumptions == other.assumptions


def test_a_message_with_another_value_is_another_message() -> None:
    estimator = fresh()
    body = with_field("openai-chat", 3, "frobnicate", "one")
    assert estimator.record(body, 500)
    assert estimator.estimate(body).source == "exact"
    body["messages"][0]["content"][0]["frobnicate"] = "two"
    assert estimator.estimate(body).source != "exact"


def test_a_field_of_the_request_is_an_option_of_it() -> None:
    estimator = fresh()
    body = with_field("openai-chat", 0, "frobnicate", "one")
    assert estimator.record(body, 500)
    assert estimator.estimate(body).source == "exact"
    found = estimator.estimate(body | {"frobnicate": "two"})
    assert (found.source, found.tokens) == ("delta", 500)
    assert "changed_options" in found.assumptions


@pytest.mark.parametrize("field", ["frobnicate", "temperature"])
def test_a_turn_behind_recorded_bytes_goes_on_from_them(field: str) -> None:
    """A field around the messages, known or not, is no reason to lose what is known of them."""
    estimator = fresh()
    talk = [
        {"role": ("user", "assistant")[n % 2], "content": f"{n} {WORDS * 3}"} for n in range(41)
    ]
    body: Any = {"model": "gpt-5", field: 1, "messages": talk}
    assert estimator.record(json.dumps(body).encode(), 9000)
    body["messages"] = [*talk, {"role": "assistant", "content": "a"}]
    longer = json.dumps(body | {"messages": [*body["messages"], talk[0]]}).encode()
    found = estimator.estimate(longer)
    assert (found.source, found.known_tokens, found.new_message_count) == ("delta", 9000, 2)
    assert ("unknown_field" in found.assumptions) == (field == "frobnicate")


# ------------------------------------------------------------------------------ the SDKs


def fields(*roots: Any) -> set[str]:
    """The fields of all objects in an annotation, whose fields are not looked into."""
    return {name for root in roots for kind in sdk_types.objects(root) for name in wire_names(kind)}


def wire_names(kind: Any) -> list[str]:
    if hasattr(kind, "model_fields"):
        return [field.alias or name for name, field in kind.model_fields.items()]
    return list(sdk_types.annotations_of(kind))


def inner(kind: Any, name: str) -> list[Any]:
    """The annotations of the field `name` of all objects in `kind`."""
    found = (sdk_types.annotations_of(it).get(name) for it in sdk_types.objects(kind))
    return [it for it in found if it is not None]


def openai_chat() -> dict[str, set[str]]:
    from openai.types.chat import completion_create_params as params

    kind = params.CompletionCreateParamsNonStreaming
    of = sdk_types.annotations_of(kind)
    content, calls = inner(of["messages"], "content"), inner(of["messages"], "tool_calls")
    functions = [it for tool in sdk_types.objects(of["tools"]) for it in inner(tool, "function")]
    return {
        "request": fields(kind, params.CompletionCreateParamsStreaming),
        "configuration": fields(of["response_format"], of["tool_choice"], of["stream_options"]),
        "message": fields(of["messages"]),
        "part": fields(*content, *calls),
        "tool": fields(of["tools"], *functions),
    }


def openai_responses() -> dict[str, set[str]]:
    from openai.types import responses
    from openai.types.responses import response_create_params as params

    kind = params.ResponseCreateParamsNonStreaming
    of = sdk_types.annotations_of(kind)
    return {
        "request": fields(kind, params.ResponseCreateParamsStreaming),
        "configuration": fields(of["text"], of["reasoning"], of["tool_choice"]),
        "message": fields(responses.EasyInputMessageParam, responses.ResponseOutputMessageParam),
        "part": fields(responses.ResponseInputItemParam, responses.ResponseInputContentParam)
        | fields(*inner(responses.ResponseOutputMessageParam, "content")),
        "tool": fields(responses.FunctionToolParam, responses.CustomToolParam),
        "vendor_tool": fields(responses.ToolParam),
    }


def anthropic() -> dict[str, set[str]]:
    from anthropic import types
    from anthropic.types import beta, message_create_params
    from anthropic.types.beta import message_create_params as beta_params

    kinds = (
        message_create_params.MessageCreateParamsNonStreaming,
        beta_params.MessageCreateParamsNonStreaming,
    )
    of = sdk_types.annotations_of(kinds[1])
    return {
        "request": fields(*kinds),
        "configuration": fields(of["output_config"], of["thinking"], of["tool_choice"]),
        "message": fields(types.MessageParam, beta.BetaMessageParam, types.Message),
        "part": fields(types.ContentBlockParam, beta.BetaContentBlockParam),
        "tool": fields(types.ToolParam, beta.BetaToolParam),
        "vendor_tool": fields(types.ToolUnionParam, beta.BetaToolUnionParam),
    }


def gemini() -> dict[str, set[str]]:
    from google.genai import types

    held = [field.annotation for field in types.Part.model_fields.values()]
    blobs = (types.Blob, types.FileData, types.FunctionCall, types.FunctionResponse)
    assert fields(*blobs) <= fields(*held)
    return {
        "configuration": fields(types.GenerationConfig),
        "message": fields(types.Content),
        "part": fields(types.Part),
        "tool": fields(types.FunctionDeclaration),
        "vendor_tool": fields(types.Tool) | fields(types.GoogleSearch, types.FileSearch),
    }


def converse() -> dict[str, set[str]]:
    from botocore import session

    model = session.get_session().get_service_model("bedrock-runtime")
    members = model.operation_model("Converse").input_shape.members
    message, tool = members["messages"].member, members["toolConfig"].members["tools"].member
    return {
        "request": set(members),
        "configuration": set(members["inferenceConfig"].members)
        | set(members["outputConfig"].members),
        "message": set(message.members),
        "part": set(message.members["content"].member.members),
        "tool": set(tool.members) | set(tool.members["toolSpec"].members),
    }


def interactions() -> dict[str, set[str]]:
    from google.genai._gaos.types import interactions as its

    kinds = (its.CreateModelInteractionParam, its.CreateAgentInteractionParam)
    steps = (its.StepParam, its.ContentParam)
    return {
        "request": fields(*kinds),
        "configuration": fields(its.GenerationConfigParam, its.TextResponseFormatParam)
        - {"schema_"},
        "message": fields(its.UserInputStepParam, its.ModelOutputStepParam) - {"error"},
        "part": fields(*steps),
        "tool": fields(its.FunctionParam),
        "vendor_tool": fields(its.ToolParam),
    }


SDKS: Final[dict[str, Callable[[], dict[str, set[str]]]]] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "gemini-interactions": interactions,
    "bedrock-converse": converse,
}


@pytest.mark.parametrize(
    ("model", "asked", "window"),
    [
        ("gpt-4o", 10**15, 128_000),
        ("gpt-4o", 2**63, 128_000),
        ("qwen3:14b", 8_192, 8_192),
        ("qwen3:14b", 131_072, 40_960),
        ("nobody-knows-it", 8_192, 8_192),
    ],
)
def test_a_request_makes_the_window_smaller_and_never_larger(
    model: str, asked: int, window: int
) -> None:
    """Else a field would take a tenant past the guard of the window."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    found = fresh().estimate(body | {"options": {"num_ctx": asked}})
    assert found.window_tokens == window


@pytest.mark.parametrize("dialect", SDKS)
def test_every_field_of_an_sdk_is_in_the_table(dialect: str) -> None:
    for place, found in SDKS[dialect]().items():
        assert len(found) >= 2
        assert sorted(found - names(place, *MEANINGS)) == [], f"{place} of {dialect}"


def test_a_field_has_one_meaning_in_its_place() -> None:
    """But for `prompt`: a text that is read, or an object that names what the provider keeps."""
    for place in PLACES:
        known, other = names(place, "read", "no_tokens"), names(place, "state", "uncounted")
        assert known & other <= {"prompt"}, place
        for dialect, about in TABLE["dialects"].items():
            lists = list(about.get(place, {}).values())
            assert sum(map(len, lists)) == len(set().union(*lists)), (dialect, place)


def test_the_columns_are_explained() -> None:
    assert TABLE["columns"].keys() == {*PLACES, *MEANINGS, "inner"}
    for about in TABLE["dialects"].values():
        assert about.keys() <= {"source", "date", *PLACES}
        assert all(about[place].keys() <= {*MEANINGS} for place in about.keys() & {*PLACES})
