"""Logs of drawn calls have their totals: in each form, shuffled, doubled, with sums and failures.

The forms are written from the public conventions of those who keep logs, by hand.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tokenctx._cli.commands import app
from tokenctx._cli.evaluation.logs import NO_REQUEST, REPEATED, SUM, TRACE, WAITING, LogReader
from tokenctx._cli.evaluation.recordings import DOUBLE, RecordingError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Json = dict[str, Any]

MODEL = "gpt-4o"
WORDS = ("tide", "lamp", "river", "stone", "field", "cloud")
START = 1_764_000_000
NO_GENERATION = "an observation that is no generation"


def drawn(rng: random.Random, count: int = 12) -> list[Json]:
    """Calls with known totals: some with a cached part, which is in the input."""
    calls = []
    for nth in range(count):
        words = rng.randint(40, 900)
        text = " ".join(rng.choice(WORDS) for _ in range(words))
        whole = words + 9 + rng.randint(0, 5)
        read = rng.choice([0, 0, whole // 2, whole - 5])
        write = rng.choice([0, min(7, whole - read)]) if read else 0
        call = {"nth": nth, "text": text, "whole": whole, "read": read, "write": write}
        calls.append({**call, "output": rng.randint(1, 90), "trace": f"{nth // 4:032x}"})
    return calls


def _span(call: Json, attributes: Json, **more: Any) -> Json:
    at = (START + call["nth"] * 60) * 10**9
    return {
        "traceId": call["trace"],
        "spanId": f"{call['nth'] + 1:016x}",
        "parentSpanId": f"{0xA0 + call['nth'] // 4:016x}",
        "name": f"chat {MODEL}",
        "startTimeUnixNano": str(at),
        "endTimeUnixNano": str(at + 10**9),
        "attributes": attributes,
        "status": {"code": 1},
        **more,
    }


def span_first(call: Json) -> Json:
    """The names of 2024: prompt and completion tokens, numbered prompts."""
    return _span(
        call,
        {
            "llm.request.type": "chat",
            "gen_ai.system": "openai",
            "gen_ai.request.model": MODEL,
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": call["text"],
            "gen_ai.usage.prompt_tokens": call["whole"],
            "gen_ai.usage.completion_tokens": call["output"],
            "gen_ai.usage.cache_read_input_tokens": call["read"],
            "llm.usage.total_tokens": call["whole"] + call["output"],
        },
    )


def span_second(call: Json) -> Json:
    """The names of 2025: input and output tokens, messages as events."""
    message = {"content": call["text"], "role": "user"}
    event = {"name": "gen_ai.user.message", "attributes": message}
    return _span(
        call,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.system": "openai",
            "gen_ai.response.model": MODEL,
            "gen_ai.usage.input_tokens": call["whole"],
            "gen_ai.usage.output_tokens": call["output"],
        },
        events=[event, {"name": "gen_ai.choice", "attributes": {"index": 0}}],
    )


def span_third(call: Json, *, is_beside: bool = False) -> Json:
    """The names of 2026: messages as attributes, cached tokens by kind."""
    cached = call["read"] + call["write"]
    parts = [{"role": "user", "parts": [{"type": "text", "content": call["text"]}]}]
    return _span(
        call,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": MODEL,
            "gen_ai.input.messages": json.dumps(parts),
            "gen_ai.usage.input_tokens": call["whole"] - cached * is_beside,
            "gen_ai.usage.output_tokens": call["output"],
            "gen_ai.usage.cache_read.input_tokens": call["read"],
            "gen_ai.usage.cache_creation.input_tokens": call["write"],
        },
    )


def span_beside(call: Json) -> Json:
    """The same of an instrumentation that tells the input without its cached part."""
    return span_third(call, is_beside=True)


def span_inference(call: Json) -> Json:
    """OpenInference: messages and counts under `llm.`."""
    return _span(
        call,
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": MODEL,
            "llm.provider": "openai",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": call["text"],
            "llm.token_count.prompt": call["whole"],
            "llm.token_count.completion": call["output"],
            "llm.token_count.total": call["whole"] + call["output"],
            "llm.token_count.prompt_details.cache_read": call["read"],
        },
    )


def _otlp(value: object) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": value}


def exported(span: Json) -> Json:
    """The span in an export of OTLP as JSON: typed values, integers as texts."""

    def listed(attributes: Json) -> list[Json]:
        return [{"key": name, "value": _otlp(it)} for name, it in attributes.items()]

    events = [{**it, "attributes": listed(it["attributes"])} for it in span.get("events", ())]
    whole = {**span, "attributes": listed(span["attributes"]), "events": events}
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": [whole]}]}]}


def _observation(call: Json, details: Json, **more: Any) -> Json:
    return {
        "id": f"generation-{call['nth']}",
        "traceId": call["trace"],
        "parentObservationId": f"agent-{call['nth'] // 4}",
        "type": "GENERATION",
        "name": "completion",
        "startTime": f"2026-11-20T10:{call['nth']:02}:00.000Z",
        "model": MODEL,
        "input": [{"role": "user", "content": call["text"]}],
        "output": {"role": "assistant", "content": "yes"},
        "usageDetails": details,
        "level": "DEFAULT",
        **more,
    }


def langfuse(call: Json) -> Json:
    """The input without what was cached, as langfuse wants it; its total of all."""
    cached = call["read"] + call["write"]
    details = {
        "input": call["whole"] - cached,
        "input_cached_tokens": call["read"],
        "input_cache_creation": call["write"],
        "output": call["output"],
        "total": call["whole"] + call["output"],
    }
    more = {"inputUsage": call["whole"], "outputUsage": call["output"], "totalUsage": 0}
    return _observation(call, details, **more)


def langfuse_of_old(call: Json) -> Json:
    """The usage of its first version, and the names of its exports as a table."""
    usage = {"input": call["whole"], "output": call["output"], "unit": "TOKENS"}
    row = _observation(call, {}, usage={**usage, "total": call["whole"] + call["output"]})
    names = {"usageDetails": "usage_details", "traceId": "trace_id", "startTime": "start_time"}
    names["parentObservationId"] = "parent_observation_id"
    return {names.get(name, name): it for name, it in row.items()}


def litellm_spend(call: Json) -> Json:
    """A row of litellm's spend logs, as its table is exported."""
    usage = {"prompt_tokens": call["whole"], "completion_tokens": call["output"]}
    usage["prompt_tokens_details"] = {"cached_tokens": call["read"]}
    messages = [{"role": "user", "content": call["text"]}]
    return {
        "request_id": f"chatcmpl-{call['nth']}",
        "call_type": "acompletion",
        "spend": 0.01,
        "total_tokens": call["whole"] + call["output"],
        "prompt_tokens": call["whole"],
        "completion_tokens": call["output"],
        "startTime": f"2026-11-20 10:{call['nth']:02}:00.000",
        "model": MODEL,
        "custom_llm_provider": "openai",
        "cache_hit": "False",
        "status": "success",
        "session_id": call["trace"],
        "metadata": json.dumps({"usage_object": usage, "status": "success"}),
        "messages": json.dumps(messages),
        "response": "{}",
        "proxy_server_request": json.dumps({"model": MODEL, "messages": messages}),
    }


def litellm_payload(call: Json) -> Json:
    """A payload of litellm's callbacks."""
    return {
        "id": f"chatcmpl-{call['nth']}",
        "trace_id": call["trace"],
        "call_type": "acompletion",
        "stream": False,
        "status": "success",
        "response_cost": 0.01,
        "total_tokens": call["whole"] + call["output"],
        "prompt_tokens": call["whole"],
        "completion_tokens": call["output"],
        "startTime": START + call["nth"] * 60.0,
        "model": MODEL,
        "metadata": {"usage_object": None},
        "cache_hit": None,
        "messages": [{"role": "user", "content": call["text"]}],
        "response": {"choices": [], "usage": {}},
        "model_parameters": {},
    }


def litellm_responses(call: Json) -> Json:
    """The same of a call of Responses: `messages` is its input, a text."""
    usage = {"input_tokens": call["whole"], "output_tokens": call["output"]}
    usage["input_tokens_details"] = {"cached_tokens": call["read"]}
    return {
        **litellm_payload(call),
        "call_type": "aresponses",
        "messages": call["text"],
        "metadata": {"usage_object": usage},
        "response": {"object": "response", "usage": usage},
    }


def exchange(call: Json) -> Json:
    """A request with its response and a time, without an id of its own."""
    usage = {"prompt_tokens": call["whole"], "completion_tokens": call["output"]}
    return {
        "timestamp": f"2026-11-20T10:{call['nth']:02}:00.123Z",
        "request": {"model": MODEL, "messages": [{"role": "user", "content": call["text"]}]},
        "response": {"object": "chat.completion", "choices": [], "usage": usage},
    }


FORMS: dict[str, Callable[[Json], Json]] = {
    it.__name__: it
    for it in (
        *(span_first, span_second, span_third, span_beside, span_inference),
        *(langfuse, langfuse_of_old, litellm_spend, litellm_payload, litellm_responses, exchange),
    )
} | {
    "otlp_first": lambda call: exported(span_first(call)),
    "otlp_second": lambda call: exported(span_second(call)),
    "otlp_third": lambda call: exported(span_third(call)),
    "otlp_inference": lambda call: exported(span_inference(call)),
    "langfuse_trace": langfuse,
}


def sums(form: str, calls: list[Json]) -> list[Json]:
    """Rows that have the sum of the calls of a trace, and one failed call: none was billed."""
    if form.startswith(("litellm", "exchange")):
        failed = {**FORMS[form](calls[0]), "status": "failure", "id": "f", "request_id": "f"}
        return [failed] if form != "exchange" else []
    rows = []
    for nth in range(0, len(calls), 4):
        group = calls[nth : nth + 4]
        total = {"whole": sum(it["whole"] for it in group), "read": 0, "write": 0}
        whole = {**group[0], **total, "output": sum(it["output"] for it in group)}
        if form.startswith("langfuse"):
            row = {**FORMS[form](whole), "id": f"agent-{nth // 4}"}
            row |= {"parentObservationId": None, "parent_observation_id": None}
            rows.append(row if nth else {**row, "type": "AGENT"})
            continue
        row = FORMS[form.replace("otlp", "span")](whole)
        row |= {"spanId": f"{0xA0 + nth // 4:016x}", "parentSpanId": "", "name": "invoke_agent x"}
        attributes = dict(row["attributes"])
        if nth == 0:  # without a name of its operation: its children tell
            row["name"] = "run"
        elif "openinference.span.kind" in attributes:
            attributes["openinference.span.kind"] = "AGENT"
        else:
            attributes["gen_ai.operation.name"] = "invoke_agent"
        row = {**row, "attributes": attributes}
        rows.append(exported(row) if form.startswith("otlp") else row)
    failed = FORMS[form](calls[0])
    if form.startswith("span"):
        failed |= {"spanId": "f" * 16, "status": {"code": 2, "message": "timed out"}}
    elif form.startswith("langfuse"):
        failed |= {"id": "f", "level": "ERROR"}
    else:
        return rows
    return [*rows, failed]


def written(form: str, rows: list[Json], path: Path) -> Path:
    if form == "langfuse_trace":
        traces: dict[str, Json] = {}
        for row in rows:
            trace = {"id": row["traceId"], "name": "run", "totalCost": 1.0, "observations": []}
            traces.setdefault(row["traceId"], trace)["observations"].append(row)
        rows = list(traces.values())
    path.write_text("".join(json.dumps(it) + "\n" for it in rows), "utf-8")
    return path


def totals(path: Path) -> tuple[list[tuple[int, int]], dict[str, int]]:
    log = LogReader(path)
    found = sorted((it["input_tokens"], it["output_tokens"]) for it in log)
    return found, dict(+log.skipped)


def cost(path: Path) -> Json:
    done = CliRunner().invoke(app, ["cost", str(path), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: Json = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_totals_are_those_of_the_calls(form: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{form}{seed}")
    calls = drawn(rng)
    made = [*map(FORMS[form], calls), *sums(form, calls)]
    billed = sorted((it["whole"], it["output"]) for it in calls)
    rng.shuffle(made)
    once, left_out = totals(written(form, made, tmp_path / "once.jsonl"))
    assert once == billed
    assert sum(left_out.values()) == len(made) - len(calls), left_out
    twice = [*made, *made]
    if seed:
        rng.shuffle(twice)
    again, left_out = totals(written(form, twice, tmp_path / "twice.jsonl"))
    assert again == billed
    assert sum(left_out.values()) == len(twice) - len(calls), left_out
    assert left_out[REPEATED] >= len(calls) - 3


@pytest.mark.parametrize("form", FORMS)
def test_costs_are_those_of_the_calls(form: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="python3 dev.py clients has it")
    calls = drawn(random.Random(form))
    made = [*map(FORMS[form], calls), *sums(form, calls)]
    plain = cost(written(form, list(map(FORMS[form], calls)), tmp_path / "plain.jsonl"))
    twice = cost(written(form, [*made, *made], tmp_path / "twice.jsonl"))
    assert twice["total"] == plain["total"]
    assert plain["total"]["calls"] == len(calls)
    assert plain["total"]["input_tokens"] == sum(it["whole"] for it in calls)
    assert plain["total"]["output_tokens"] == sum(it["output"] for it in calls)
    left_out = twice["left_out"]
    assert sum(left_out.values()) == 2 * len(made) - len(calls), left_out


def test_a_sum_is_left_out_however_far_from_its_parts(tmp_path: Path) -> None:
    calls = drawn(random.Random(1), 300)
    agent = {**span_third(calls[0]), "spanId": "a", "parentSpanId": "", "name": "run"}
    part = {**span_third(calls[1]), "parentSpanId": "a"}
    between = [{**span_third(it), "parentSpanId": ""} for it in calls[4:]]
    for rows in ([agent, *between, part], [part, *between, agent]):
        found, left_out = totals(written("span_third", rows, tmp_path / "far.jsonl"))
        assert len(found) == len(between) + 1
        assert left_out == {SUM: 1}


def test_sums_in_a_batch_of_events_are_left_out(tmp_path: Path) -> None:
    def event(kind: str, **body: object) -> Json:
        return {"id": kind, "type": f"generation-{kind}", "body": body}

    calls = drawn(random.Random(5), 2)
    asked = [{"role": "user", "content": calls[0]["text"]}]
    told = {"model": MODEL, "input": asked}
    batch = [
        event("create", id="outer", **told),
        event("create", id="inner", parentObservationId="outer", **told),
        event("update", id="inner", usageDetails={"input": calls[0]["whole"], "output": 1}),
        event("update", id="outer", usageDetails={"input": 2 * calls[0]["whole"], "output": 2}),
    ]
    found, left_out = totals(written("langfuse", [{"batch": batch}], tmp_path / "a.jsonl"))
    assert (found, left_out) == ([(calls[0]["whole"], 1)], {SUM: 1})


def test_what_stands_before_a_broken_line_is_read(tmp_path: Path) -> None:
    calls = drawn(random.Random(4), 200)
    path = written("span_third", list(map(span_third, calls)), tmp_path / "broken.jsonl")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"traceId": "0')
    found: list[Json] = []
    with pytest.raises(RecordingError, match="line 201"):
        found.extend(LogReader(path))
    assert len(found) >= 200 - WAITING


def test_a_trace_without_its_observations_is_no_call(tmp_path: Path) -> None:
    usage = {"input": 9000, "output": 5}
    told = {"id": "t", "input": [{"role": "user", "content": "hi"}], "usageDetails": usage}
    row = {**told, "observations": ["generation-1"], "totalCost": 0.5}
    assert totals(written("langfuse", [row], tmp_path / "a.jsonl")) == ([], {TRACE: 1})


def test_observations_inside_of_observations_are_read(tmp_path: Path) -> None:
    calls = drawn(random.Random(2), 4)
    made = [{**langfuse(it), "parentObservationId": None} for it in calls]
    agent = {"id": "agent", "type": "AGENT", "usageDetails": {"input": 9}, "observations": made}
    outer = {**langfuse(calls[0]), "id": "outer", "observations": [agent, {"type": "TOOL"}]}
    found, left_out = totals(written("langfuse", [outer], tmp_path / "a.jsonl"))
    assert found[:1] == [min((it["whole"], it["output"]) for it in calls)]
    assert left_out == {NO_GENERATION: 2}


def test_rows_that_say_neither_who_nor_when_are_not_taken_for_one(tmp_path: Path) -> None:
    row = exchange(drawn(random.Random(3), 1)[0])
    del row["timestamp"]
    found, left_out = totals(written("exchange", [row, row], tmp_path / "a.jsonl"))
    assert (len(found), left_out) == (2, {})
    row["response"]["id"] = "chatcmpl-1"
    found, left_out = totals(written("exchange", [row, row], tmp_path / "a.jsonl"))
    assert (len(found), left_out) == (1, {REPEATED: 1})


def test_answers_under_one_id_are_not_joined_in_silence(tmp_path: Path) -> None:
    rows = [{"id": "session", "usage": {"prompt_tokens": 90 + nth}} for nth in range(3)]
    assert totals(written("exchange", rows, tmp_path / "a.jsonl")) == ([], {NO_REQUEST: 3})


@pytest.mark.parametrize("count", [3, 200])
def test_answers_alone_cost_each_once(count: int, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="python3 dev.py clients has it")
    rows = [
        {"id": f"a{nth}", "model": MODEL, "usage": {"prompt_tokens": 1 << nth % 8}}
        for nth in range(count)
    ]
    found = cost(written("exchange", [*rows, *rows], tmp_path / "a.jsonl"))
    assert found["total"]["input_tokens"] == sum(1 << nth % 8 for nth in range(count))


@pytest.mark.parametrize("form", ["span_third", "langfuse", "litellm_spend"])
def test_recordings_that_are_there_twice_are_scored_and_replayed_once(
    form: str, tmp_path: Path
) -> None:
    calls = drawn(random.Random(form))
    log = written(form, list(map(FORMS[form], calls)), tmp_path / "log.jsonl")
    made = "".join(json.dumps(it) + "\n" for it in LogReader(log))
    reports: list[dict[str, Json]] = []
    for name, text in (("once", made), ("twice", made + made)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(text, "utf-8")
        done = {
            command: CliRunner().invoke(app, [command, str(path), "--json"])
            for command in ("eval", "replay")
        }
        assert [it.exit_code for it in done.values()] == [0, 0]
        reports.append({command: json.loads(it.stdout) for command, it in done.items()})
    once, twice = reports
    for report in reports:
        del report["replay"]["total"]["full_recount_us"]
    assert twice["replay"]["total"] == once["replay"]["total"]
    assert twice["eval"]["records"] == once["eval"]["records"] == len(calls)
    assert twice["replay"]["not_replayed"].pop(DOUBLE) == len(calls)
    assert len(twice["eval"]["skipped"].pop(DOUBLE)) == len(calls)
