"""Logs of other programs are recorded calls: the same request and bill, or a reason why not."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import HybridTokenEstimator
from tokenctx._cli.evaluation.evaluation import Evaluation, Filter, evaluate
from tokenctx._cli.evaluation.logs import LogReader
from tokenctx._cli.evaluation.recordings import RecordingError, read_recording
from tokenctx._cli.spend.calls import calls_in_row, calls_of_halves

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]

SYSTEM, ASKED = "Answer in one word.", "Why is the sky blue?"
MESSAGES = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ASKED}]
FUNCTION = {
    "name": "look_up",
    "description": "Looks a word up.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
}
TOOLS = [{"type": "function", "function": FUNCTION}]
BODY = {"model": "gpt-4o", "messages": MESSAGES, "tools": TOOLS}
BILLED = HybridTokenEstimator().count_request(BODY).tokens


def attribute(key: str, value: object) -> Json:
    kinds = {str: "stringValue", int: "intValue"}
    return {"key": key, "value": {kinds[type(value)]: str(value)}}


CONVENTIONS: Json = {
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": BILLED,
    "gen_ai.usage.output_tokens": 3,
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": SYSTEM}]),
    "gen_ai.input.messages": json.dumps(
        [{"role": "user", "parts": [{"type": "text", "content": ASKED}]}]
    ),
    "gen_ai.tool.definitions": json.dumps([{"type": "function", **FUNCTION}]),
}
NUMBERED: Json = {
    "gen_ai.system": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.prompt_tokens": BILLED,
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": SYSTEM,
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": ASKED,
    "gen_ai.tool.definitions": json.dumps(TOOLS),
}
USAGE = {"prompt_tokens": BILLED, "completion_tokens": 3}
LOGS: dict[str, Json] = {
    "litellm spend log": {
        "request_id": "1",
        "call_type": "acompletion",
        **USAGE,
        "model": "gpt-4o",
        "custom_llm_provider": "openai",
        "proxy_server_request": json.dumps(BODY),
        "messages": "{}",
        "session_id": "s",
        "startTime": "2026-11-01T10:00:00Z",
    },
    "litellm payload": {
        "id": "1",
        "call_type": "acompletion",
        **USAGE,
        "model": "gpt-4o",
        "messages": MESSAGES,
        "model_parameters": {"tools": TOOLS, "temperature": 0},
        "startTime": 1793527200.5,
    },
    "langfuse by the API": {
        "id": "1",
        "type": "GENERATION",
        "traceId": "t",
        "model": "gpt-4o",
        "input": {"messages": MESSAGES, "tools": TOOLS},
        "usageDetails": {"input": BILLED - 5, "input_cached_tokens": 5, "output": 3, "total": 99},
        "startTime": "2026-11-01T10:00:00.000Z",
    },
    "langfuse in a bucket": {
        "id": "1",
        "type": "GENERATION",
        "trace_id": "t",
        "provided_model_name": "gpt-4o",
        "input": json.dumps(MESSAGES),
        "model_parameters": json.dumps({"tools": TOOLS}),
        "usage_details": {"input": BILLED, "output": 3},
        "start_time": "2026-11-01 10:00:00.000000",
    },
    "OTLP": {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "spanId": "1",
                                "traceId": "t",
                                "startTimeUnixNano": "1793527200000000000",
                                "attributes": [attribute(*it) for it in CONVENTIONS.items()],
                            }
                        ]
                    }
                ]
            }
        ]
    },
    "a span": {"span_id": "1", "attributes": CONVENTIONS},
    "a span before the conventions": {"span_id": "1", "attributes": NUMBERED},
    "a request log": {"id": "1", "request": BODY, "response": {"model": "gpt-4o", "usage": USAGE}},
    "a request log in texts": {
        "request_body": json.dumps(BODY),
        "response_body": json.dumps({"usage": USAGE}),
    },
    "our own": {"id": "1", "request": BODY, "input_tokens": BILLED, "model": "gpt-4o"},
}


def saved(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize("name", LOGS)
def test_each_log_is_the_same_call(name: str, tmp_path: Path) -> None:
    reader = LogReader(saved(tmp_path / "log.jsonl", LOGS[name]))
    [call] = reader
    assert not reader.skipped
    assert call["input_tokens"] == BILLED
    counted = HybridTokenEstimator().count_request(call["request"], model=call["model"])
    assert counted.tokens == BILLED, "no message and no tool was lost"


@pytest.mark.parametrize("name", LOGS)
def test_each_log_has_the_usage_and_the_model_that_are_priced(name: str, tmp_path: Path) -> None:
    left_out: Counter[str] = Counter()
    log = LogReader(tmp_path / "log.jsonl")
    calls = [*calls_in_row(LOGS[name], log, left_out), *calls_of_halves(log, left_out)]
    [(usage, model)] = [(call.usage, call.model) for call in calls]
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens, model, not left_out) == (
        *(BILLED, 5 if name == "langfuse by the API" else 0),
        *("gpt-4o", True),
    )


def test_a_log_may_be_an_array_a_page_or_packed(tmp_path: Path) -> None:
    rows = [LOGS["litellm payload"], LOGS["a request log"]]
    whole, page, packed = (tmp_path / name for name in ("a.json", "b.json", "c.jsonl.gz"))
    whole.write_text(json.dumps(rows, indent=2), "utf-8")
    page.write_text(json.dumps({"data": rows, "meta": {"page": 1}}), "utf-8")
    packed.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    for path in (whole, page, packed):
        assert [call["input_tokens"] for call in LogReader(path)] == [BILLED, BILLED]


def test_calls_and_results_of_the_conventions_are_those_of_a_chat(tmp_path: Path) -> None:
    call = {"type": "tool_call", "id": "c", "name": "look_up", "arguments": {"word": "sky"}}
    result = {"type": "tool_call_response", "id": "c", "response": "blue"}
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": ASKED}]},
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [result]},
    ]
    attributes = {**CONVENTIONS, "gen_ai.input.messages": json.dumps(messages)}
    [found] = LogReader(saved(tmp_path / "log.jsonl", {"attributes": attributes}))
    function = {"name": "look_up", "arguments": '{"word": "sky"}'}
    assert found["request"]["messages"][1:] == [
        {"role": "user", "content": [{"type": "text", "text": ASKED}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "blue"},
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": "failure"}, "a call that failed"),
        ({"cache_hit": "True"}, "an answer from the gateway's own cache, which nobody billed"),
        ({"prompt_tokens": 0}, "no input tokens"),
        (
            {"proxy_server_request": "{}", "messages": "{}"},
            "no messages: the log was kept without content",
        ),
        (
            {
                "proxy_server_request": {
                    "messages": [{"role": "user", "content": "a (litellm_truncated skipped 9)"}]
                }
            },
            "text that the logger has truncated",
        ),
    ],
)
def test_what_is_no_recorded_call_says_why(change: Json, reason: str, tmp_path: Path) -> None:
    reader = LogReader(saved(tmp_path / "log.jsonl", {**LOGS["litellm spend log"], **change}))
    assert list(reader) == []
    assert dict(reader.skipped) == {reason: 1}


@pytest.mark.parametrize("row", [{}, {"a": 1}, [], 1, {"resourceSpans": [None, {"scopeSpans": 3}]}])
def test_what_is_no_log_is_left_out(row: object, tmp_path: Path) -> None:
    reader = LogReader(saved(tmp_path / "log.jsonl", row))
    assert list(reader) == []


def test_broken_json_names_the_line(tmp_path: Path) -> None:
    path = saved(tmp_path / "log.jsonl", LOGS["a request log"])
    path.write_text(path.read_text("utf-8") + "{nonsense\n", "utf-8")
    with pytest.raises(RecordingError, match=r"log\.jsonl, line 2: not JSON at byte 1"):
        list(LogReader(path))


def test_a_session_is_a_conversation_that_replay_and_eval_read(tmp_path: Path) -> None:
    first = LOGS["litellm spend log"]
    answer = {"role": "assistant", "content": "Scattering."}
    longer = {**BODY, "messages": [*MESSAGES, answer, {"role": "user", "content": "And red?"}]}
    second = {
        **first,
        "proxy_server_request": longer,
        "prompt_tokens": HybridTokenEstimator().count_request(longer).tokens,
    }
    calls = list(LogReader(saved(tmp_path / "log.jsonl", first, second)))
    assert calls[1]["prev"] == {
        "n_items": 2,
        "input_tokens": BILLED,
        "output_tokens": 3,
        "same_context": True,
    }
    path = saved(tmp_path / "calls.jsonl", *calls)
    [conversation] = read_recording(path).conversations
    assert [turn.relation for turn in conversation.turns] == ["first", "extends"]
    evaluation = Evaluation()
    evaluate(path, Filter(), evaluation, lambda _: None)
    assert (evaluation.record_count, evaluation.skipped) == (2, {})
    assert all(
        score.percent == 0 for _, scores in evaluation.own.sorted_pools() for score in scores
    )
