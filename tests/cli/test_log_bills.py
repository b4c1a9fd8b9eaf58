"""A log is neither doubled nor halved: cached parts, sums of agents, calls in several lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tokenctx._cli.commands import app
from tokenctx._cli.evaluation.logs import REPEATED, SUM, LogReader

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]

MESSAGES = [{"role": "user", "content": "word " * 1000}]  # some 1,010 tokens
PARTS = [{"role": "user", "parts": [{"type": "text", "content": "word " * 1000}]}]
GENERATION: Json = {"type": "GENERATION", "model": "gpt-4o", "input": MESSAGES}
BODY: Json = {"model": "gpt-4o", "messages": MESSAGES}


def read(folder: Path, *rows: object) -> tuple[list[int], dict[str, int]]:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    reader = LogReader(path)
    billed = [call["input_tokens"] for call in reader]
    return billed, {reason: count for reason, count in reader.skipped.items() if count}


@pytest.mark.parametrize(
    ("details", "billed"),
    [
        ({"input": 900, "output": 3}, 900),
        ({"input": 900, "input_cached_tokens": 800, "output": 9, "total": 909}, 900),
        ({"input": 100, "input_cached_tokens": 800, "output": 9, "total": 909}, 900),
        ({"input": 1000, "cache_read_input_tokens": 20, "output": 9, "total": 1029}, 1020),
        ({"input": 9000, "cache_read_tokens": 100, "cache_write_tokens": 8000}, 9000),
        ({"input": 5, "cache_read_tokens": 900, "cache_write_tokens": 95}, 1000),
        # by the count alone: the names say 1,800 tokens, of which there are no more than 1,010
        ({"input": 1000, "input_cached_tokens": 800, "output": 9}, 1000),
        # a total that langfuse has added up is no evidence
        ({"input": 1000, "cache_read_tokens": 800, "output": 9, "total": 1809}, 1000),
        ({"input": 900, "promptTokens": 900, "output": 3, "completionTokens": 3}, 900),
        ({"promptTokens": 900, "completionTokens": 3, "totalTokens": 903}, 900),
        (
            {
                "input": 10,
                "input_cache_creation": 900,
                "input_cache_creation_5m": 600,
                "input_cache_creation_1h": 300,
            },
            910,
        ),
        ({"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 800}}, 900),
    ],
)
def test_langfuse_tells_the_whole_input_once(details: Json, billed: int, tmp_path: Path) -> None:
    assert read(tmp_path, {**GENERATION, "usageDetails": details}) == ([billed], {})


@pytest.mark.parametrize(
    ("usage", "billed"),
    [
        ({"input_tokens": 900}, 900),
        ({"prompt_tokens": "900"}, 900),
        (
            {"input_tokens": 5, "cache_read.input_tokens": 900, "cache_creation.input_tokens": 1},
            906,
        ),
        ({"input_tokens": 5, "cache_read_input_tokens": 900}, 905),
        ({"input_tokens": 900, "cache_read.input_tokens": 800}, 900),
        ({"input_tokens": 600, "cache_read.input_tokens": 400}, 1000),  # by the count
        ({"input_tokens": 600, "details.cache_read_tokens": 300, "total_tokens": 609}, 600),
    ],
)
@pytest.mark.parametrize("generation", ["input.messages", "prompt", "events", "of the span"])
def test_spans_tell_the_whole_input_in_all_generations_of_names(
    usage: Json, billed: int, generation: str, tmp_path: Path
) -> None:
    text = MESSAGES[0]["content"]
    attributes = {f"gen_ai.usage.{name}": it for name, it in usage.items()}
    attributes |= {"gen_ai.usage.output_tokens": 9, "gen_ai.request.model": "gpt-4o"}
    span: Json = {"span_id": "1", "attributes": attributes}
    if generation == "input.messages":
        attributes["gen_ai.input.messages"] = json.dumps(PARTS)
    elif generation == "prompt":
        attributes |= {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": text}
    elif generation == "events":
        event = {"event.name": "gen_ai.user.message", "content": text}
        attributes["events"] = json.dumps([event, {"event.name": "gen_ai.choice", "index": 0}])
    else:
        span["events"] = [{"name": "gen_ai.user.message", "attributes": {"content": text}}]
    assert read(tmp_path, span) == ([billed], {})


def test_sums_failures_and_repetitions_of_spans_are_left_out_and_counted(tmp_path: Path) -> None:
    def span(name: str, parent: str = "", **more: object) -> Json:
        attributes = {"gen_ai.input.messages": json.dumps(PARTS), "gen_ai.usage.input_tokens": 900}
        return {
            "traceId": "t",
            "spanId": name,
            "parentSpanId": parent,
            "attributes": {**attributes, **{it.replace("_", "."): of for it, of in more.items()}},
        }

    agent = {"gen_ai.operation.name": "invoke_agent"}
    sums = "a span that is no single call of a model: an agent, a tool or the like"
    rows = [
        span("a", "b"),
        span("b"),  # its child came before
        span("c"),
        span("d", "c"),  # its parent came before
        span("d", "c"),
        span("e", **{"error.type": "timeout"}),
        {**span("f"), "status": {"code": 2}},
        {**span("g"), "attributes": {**span("g")["attributes"], **agent}},
        {**span("h"), "name": "execute_tool look_up"},
    ]
    billed, skipped = read(tmp_path, *rows)
    assert billed == [900, 900]
    assert skipped == {SUM: 2, REPEATED: 1, "a call that failed": 2, sums: 2}


def test_the_last_line_of_a_call_counts(tmp_path: Path) -> None:
    first = {"id": "1", "request": BODY, "response": {"usage": {"input_tokens": 10}}}
    last = {**first, "response": {"usage": {"input_tokens": 900}}}
    other = {**first, "request": {**BODY, "messages": [*MESSAGES, *MESSAGES]}}
    assert read(tmp_path, first, last, other) == ([900, 10], {REPEATED: 1})


def test_halves_of_a_call_are_joined_by_its_id(tmp_path: Path) -> None:
    asked = {"custom_id": "a", "method": "POST", "body": BODY}
    answered = {"custom_id": "a", "id": "x", "response": {"body": {"usage": {"input_tokens": 900}}}}
    billed, skipped = read(tmp_path, asked, answered, {**asked, "custom_id": "b"})
    assert billed == [900]
    assert skipped == {"a request whose answer is not in this log": 1}


def test_a_batch_of_langfuse_is_joined(tmp_path: Path) -> None:
    def event(kind: str, **body: object) -> Json:
        return {"id": "e", "type": kind, "body": {"id": "1", **body}}

    batch = [
        event("trace-create", name="t"),
        event("generation-create", model="gpt-4o", input=MESSAGES),
        event("generation-update", usageDetails={"input": 900, "output": 3}),
        event("generation-update", endTime="2026-11-01T10:00:00Z"),
    ]
    billed, skipped = read(tmp_path, {"batch": batch})
    assert billed == [900]
    assert skipped == {}


def test_generations_inside_of_a_generation_are_not_added_twice(tmp_path: Path) -> None:
    outer = {**GENERATION, "id": "o", "traceId": "t", "usageDetails": {"input": 1800}}
    inner = {**GENERATION, "traceId": "t", "parentObservationId": "o", "usage": {"input": 900}}
    rows = [outer, {**inner, "id": "1"}, {**inner, "id": "2"}, {"type": "AGENT", "input": MESSAGES}]
    billed, skipped = read(tmp_path, *rows)
    assert billed == [900, 900]
    assert skipped == {SUM: 1, "an observation that is no generation": 1}


@pytest.mark.parametrize(
    ("row", "billed"),
    [
        ({"messages": "word " * 1000, "call_type": "aresponses"}, 900),
        ({"messages": MESSAGES, "call_type": "responses"}, 900),
        ({"messages": "word " * 1000, "call_type": "atext_completion"}, 900),
        ({"metadata": {"usage_object": {"prompt_tokens": 950, "total_tokens": 959}}}, 950),
        (
            {
                "prompt_tokens": 5,
                "metadata": json.dumps(
                    {"additional_usage_values": {"cache_read_input_tokens": 900}}
                ),
            },
            905,
        ),
        ({"metadata": {"additional_usage_values": {"cache_read_input_tokens": 800}}}, 900),
    ],
)
def test_rows_of_litellm(row: Json, billed: int, tmp_path: Path) -> None:
    usual = {"id": "1", "call_type": "acompletion", "prompt_tokens": 900, "completion_tokens": 9}
    assert read(tmp_path, {**usual, "model": "gpt-4o", "messages": MESSAGES, **row}) == (
        [billed],
        {},
    )


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"call_type": "aembedding"}, "a call of litellm that is no chat"),
        (
            {"metadata": {"client_disconnected": True}},
            "a bill that litellm counted by itself, since the client hung up",
        ),
    ],
)
def test_what_litellm_did_not_get_billed_is_left_out(
    row: Json, reason: str, tmp_path: Path
) -> None:
    usual = {"id": "1", "call_type": "acompletion", "prompt_tokens": 900, "messages": MESSAGES}
    assert read(tmp_path, {**usual, **row}) == ([], {reason: 1})


def test_an_export_that_is_given_twice_is_written_once(tmp_path: Path) -> None:
    rows = [{"id": str(n), "request": BODY, "usage": {"input_tokens": 900}} for n in range(3)]
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)), "utf-8")
    found = CliRunner().invoke(
        app, ["recordings", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]
    )
    assert found.exit_code == 0
    assert found.stdout.count('"input_tokens": 900, "output_tokens"') == 6  # usage, and its total
    assert f"3 left out: {REPEATED}" in found.stderr.replace("\n", " ")
