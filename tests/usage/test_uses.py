"""Searches and other tools that a vendor bills by the use are read in the answer, where its usage
does not tell them: whole, as an object of the SDK, and in a stream."""

from __future__ import annotations

import copy
import json
import typing
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

import tokenctx
from tokenctx import AccuracyEvent, normalize_usage
from tokenctx._results.tables import read_table
from tokenctx.batch import cost as batch_cost
from tokenctx.usage import Usage, UsageReader

TABLE = read_table("usage_fields")
OPENAI = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
GEMINI = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
SEARCH = {"type": "web_search_call", "status": "completed", "action": {"type": "search"}}
OPENED = {"type": "web_search_call", "status": "completed", "action": {"type": "open_page"}}
FILES = {"type": "file_search_call", "id": "fs_1", "queries": ["a"], "status": "completed"}
CODE = {"type": "code_interpreter_call", "id": "ci_1", "container_id": "c", "code": "1"}
IMAGE = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AA=="}
SHELL = {"type": "shell_call", "environment": {"type": "container_reference"}}
CLAUDE_SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
GROUNDING = {"webSearchQueries": ["a", "b", ""], "groundingChunks": [{"web": {"uri": "u"}}]}


def responses(*items: Any, **more: Any) -> dict[str, Any]:
    """An answer of OpenAI's Responses."""
    return {"object": "response", "output": list(items), "usage": OPENAI, **more}


def claude(*blocks: Any, **more: Any) -> dict[str, Any]:
    """An answer of Anthropic."""
    usage = {"input_tokens": 100, "output_tokens": 20, **more}
    return {"type": "message", "role": "assistant", "content": list(blocks), "usage": usage}


def gemini(grounding: Any, model: str = "gemini-3-pro-preview") -> dict[str, Any]:
    """An answer of Gemini."""
    candidate = {"content": {"parts": []}, "finishReason": "STOP", "groundingMetadata": grounding}
    return {"candidates": [candidate], "usageMetadata": GEMINI, "modelVersion": model}


def chat(**message: Any) -> dict[str, Any]:
    """An answer of Chat Completions."""
    choice = {"index": 0, "message": {"content": "a", **message}, "finish_reason": "stop"}
    return {"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 20}}


def interaction(*steps: Any, **usage: Any) -> dict[str, Any]:
    """An answer of Google's Interactions."""
    numbers = {"total_input_tokens": 100, "total_output_tokens": 20, **usage}
    body = {"status": "completed", "steps": list(steps), "usage": numbers}
    return {"event_type": "interaction.completed", "interaction": body}


CITED = [{"type": "url_citation", "url_citation": {}}, {"type": "url_citation"}]
TOLD = {"web_search": {"num_requests": 1}, "image_gen": {"input_tokens": 7}}
ASKED = {"type": "google_search_call", "arguments": {"queries": ["a", "b"]}}
CASES: dict[str, tuple[dict[str, Any], int, int, tuple[str, ...]]] = {
    "searches": (responses(SEARCH, SEARCH, OPENED), 2, 0, ()),
    "a search before it said what it did": (responses({"type": "web_search_call"}), 1, 0, ()),
    "files": (responses(FILES, FILES), 0, 2, ()),
    "code and images": (
        responses(CODE, IMAGE),
        0,
        0,
        ("tools.code_interpreter", "tools.image_gen"),
    ),
    "a hosted shell": (responses(SHELL), 0, 0, ("tools.shell",)),
    "a shell of the caller": (responses({"type": "shell_call"}), 0, 0, ()),
    "a tool that nobody knows": (responses({"type": "odor_call"}), 0, 0, ("tools.odor",)),
    "tools of the caller": (responses({"type": "function_call"}, {"type": "mcp_call"}), 0, 0, ()),
    "told by the usage": (
        responses(SEARCH, SEARCH, IMAGE, tool_usage=TOLD),
        1,
        0,
        ("tool_usage.image_gen.input_tokens",),
    ),
    "told as none": (responses(SEARCH, tool_usage={"web_search": {"num_requests": 0}}), 0, 0, ()),
    "told by xAI": (
        responses(
            SEARCH, usage={**OPENAI, "server_side_tool_usage_details": {"web_search_calls": 5}}
        ),
        5,
        0,
        (),
    ),
    "Claude": (claude(CLAUDE_SEARCH, CLAUDE_SEARCH), 2, 0, ()),
    "Claude, told": (claude(CLAUDE_SEARCH, server_tool_use={"web_search_requests": 0}), 0, 0, ()),
    "Claude's code": (
        claude({**CLAUDE_SEARCH, "name": "bash_code_execution"}, {"type": "text", "text": "a"}),
        0,
        0,
        ("tools.code_execution",),
    ),
    "Claude's free tools": (
        claude({**CLAUDE_SEARCH, "name": "web_fetch"}, {"type": "tool_use", "name": "web_search"}),
        0,
        0,
        (),
    ),
    "Gemini 3": (gemini(GROUNDING), 2, 0, ()),
    "Gemini 2.5": (gemini(GROUNDING, "gemini-2.5-flash"), 1, 0, ()),
    "Gemini with images": (gemini({"imageSearchQueries": ["a"]}), 1, 0, ()),
    "Gemini, what was found alone": (gemini({"groundingChunks": [{"web": {}}]}), 1, 0, ()),
    "maps": (gemini({"groundingChunks": [{"maps": {}}]}), 0, 0, ("tools.google_maps",)),
    "nothing was looked up": (gemini({"webSearchQueries": [], "groundingChunks": []}), 0, 0, ()),
    "a search model": (chat(annotations=CITED), 1, 0, ()),
    "a file is cited": (chat(annotations=[{"type": "file_citation"}]), 0, 0, ()),
    "Groq": (
        chat(executed_tools=[{"type": "search"}, {"type": "python"}, {"type": "odor"}]),
        1,
        0,
        ("tools.code_execution", "tools.odor"),
    ),
    "steps": (interaction(ASKED, {"type": "google_maps_call"}), 2, 0, ("tools.google_maps",)),
    "steps, told": (
        interaction(ASKED, grounding_tool_count=[{"type": "google_search", "count": 1}]),
        1,
        0,
        (),
    ),
}


def figures(usage: Usage | None) -> tuple[int, int, tuple[str, ...]]:
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (100, 20)
    return usage.web_search_requests, usage.file_search_requests, usage.unread


def as_object(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{name: as_object(inner) for name, inner in value.items()})
    return [as_object(it) for it in value] if isinstance(value, list) else value


def events_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a stream with this answer."""
    if "output" in answer:
        items = enumerate(answer["output"])
        done = "response.output_item.done"
        whole = {"type": "response.completed", "response": answer}
        return [*({"type": done, "output_index": at, "item": it} for at, it in items), whole]
    if "content" in answer:
        start = {"type": "message_start", "message": {**answer, "content": []}}
        blocks = [
            {"type": "content_block_start", "index": at, "content_block": it}
            for at, it in enumerate(answer["content"])
        ]
        delta = {"stop_reason": "end_turn"}
        end = {"type": "message_delta", "delta": delta, "usage": answer["usage"]}
        return [start, *blocks, end, {"type": "message_stop"}]
    if "choices" in answer:
        chunk = copy.deepcopy(answer)
        (choice,) = chunk["choices"]
        choice["delta"] = choice.pop("message")
        return [chunk, chunk]
    return [answer, answer]


@pytest.mark.parametrize("name", CASES)
def test_uses_of_tools_are_read_in_the_answer(name: str) -> None:
    answer, *expected = CASES[name]
    assert figures(normalize_usage(answer)) == tuple(expected)
    assert figures(normalize_usage(as_object(answer))) == tuple(expected)
    if "output" in answer:  # the event that ends a stream
        event = {"type": "response.completed", "response": answer}
        assert figures(normalize_usage(event)) == tuple(expected)


@pytest.mark.parametrize("name", CASES)
def test_a_stream_tells_the_uses_of_its_answer(name: str) -> None:
    answer, *expected = CASES[name]
    events = events_of(answer)
    fed, read = UsageReader(), UsageReader()
    for event in events:
        fed.feed(event)
        read.feed(f"data: {json.dumps(event)}\n\n".encode())
    assert figures(fed.finish()) == figures(read.finish()) == tuple(expected)
    if "output" in answer:  # a gateway has left the output out at the end
        bare = UsageReader()
        for event in (*events[:-1], {**events[-1], "response": {**answer, "output": []}}):
            bare.feed(event)
        assert figures(bare.finish()) == tuple(expected)


def test_words_beside_the_usage_of_a_stream_are_read() -> None:
    """As those of the whole answer: the tier, the latency."""
    tier = {"serviceTier": {"type": "flex"}, "performanceConfig": {"latency": "optimized"}}
    converse = {"metadata": {"usage": {"inputTokens": 100, "outputTokens": 20}, **tier}}
    more = {"service_tier": "flex", "metadata": {"service_tier": "no", "note": "the user's own"}}
    for event, words in (
        (converse, ("flex", "optimized")),
        ({"type": "response.completed", "response": responses(**more)}, ("flex", "")),
    ):
        reader = UsageReader()
        reader.feed(event)
        for usage in (reader.finish(), normalize_usage(event)):
            assert usage is not None
            assert (usage.service_tier, usage.speed) == words


def test_a_use_is_in_the_cost_or_named() -> None:
    plain = normalize_usage(OPENAI)
    assert plain is not None
    before = plain.cost("gpt-5")
    assert before is not None
    assert before.total is not None
    for item, dollars in ((SEARCH, "0.01"), (FILES, "0.0025")):
        usage = normalize_usage(responses(item))
        assert usage is not None
        told = usage.cost("gpt-5")
        assert told is not None
        assert told.total is not None
        assert told.total - before.total == Decimal(dollars)
        assert (told.high, told.unpriced) == (told.total, ())
    told = normalize_usage(responses(CODE)).cost("gpt-5")  # type: ignore[union-attr]
    assert told is not None
    assert (told.total, told.high) == (before.total, None)
    assert told.unpriced == ("tools.code_interpreter",)
    rows = batch_cost([responses(), responses(SEARCH), responses(CODE)], "gpt-5")
    assert rows.nano_dollars.tolist() == [325_000, 10_325_000, None]


def test_tools_that_are_known_raise_no_alarm() -> None:
    """What no table knows does."""
    estimator = tokenctx.HybridTokenEstimator()
    body = {"model": "gpt-5", "input": "hi"}
    reasons = {}
    for name in (
        "code and images",
        "a tool that nobody knows",
        "Claude's code",
        "maps",
        "searches",
    ):
        event = estimator.record_event(body, CASES[name][0])
        assert isinstance(event, AccuracyEvent)
        reasons[name] = "unknown_usage_field" in event.bill_reasons
    assert [name for name in reasons if reasons[name]] == ["a tool that nobody knows"]


def words(annotation: Any) -> set[str]:
    if typing.get_origin(annotation) is typing.Literal:
        return set(typing.get_args(annotation))
    return set().union(*map(words, typing.get_args(annotation)))


@pytest.mark.filterwarnings("ignore")  # their own
def test_tools_of_the_sdks_are_all_known() -> None:
    items = pytest.importorskip("openai.types.responses.response_output_item").ResponseOutputItem
    kinds = [it for it in typing.get_args(typing.get_args(items)[0]) if hasattr(it, "model_fields")]
    types = set().union(*(words(it.model_fields["type"].annotation) for it in kinds))
    calls = {it for it in types if it.endswith("_call")}
    assert len(calls) > 10
    assert calls - TABLE["uses"]["output"].keys() == set()
    block = pytest.importorskip("anthropic.types.beta").BetaServerToolUseBlock
    names = words(block.model_fields["name"].annotation)
    assert len(names) > 5
    assert names - TABLE["uses"]["content"].keys() == set()


def test_objects_of_the_sdks_are_read() -> None:
    kind = pytest.importorskip("google.genai.types").GenerateContentResponse
    assert figures(normalize_usage(kind.model_validate(gemini(GROUNDING))))[0] == 2
    kind = pytest.importorskip("openai.types.responses").Response
    assert figures(normalize_usage(kind.model_construct(output=[SEARCH], usage=OPENAI)))[0] == 1


class Hostile:
    """Raises at whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_whatever_stands_in_an_answer_is_no_use_but_a_use() -> None:
    odd: list[Any] = [None, 5, "web_search_call", [SEARCH], {"type": 5}, {"type": {}}, Hostile()]
    for name in ("output", "content", "steps", "candidates", "choices"):
        for value in (odd, "text", {"a": 1}, [odd], [{"message": odd, "groundingMetadata": odd}]):
            assert figures(normalize_usage({name: value, "usage": OPENAI})) == (0, 0, ())
    endless: dict[str, Any] = {"usage": OPENAI}
    endless["response"] = endless["message"] = endless
    assert figures(normalize_usage(endless)) == (0, 0, ())
