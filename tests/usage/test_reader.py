"""A reader beside a stream knows the final usage and the reply, and says when it does not."""

from __future__ import annotations

import gzip
import importlib
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import tokenctx
from tokenctx import UsageReader
from tokenctx.usage import Usage

CASES = json.loads((Path(__file__).parents[1] / "data" / "usage" / "streams.json").read_bytes())
STREAMS: dict[str, dict[str, Any]] = {
    case["name"]: case for case in CASES["streams"] if case["usage"] is not None
}
EVENTS = json.loads((Path(__file__).parents[1] / "data" / "usage" / "events.json").read_bytes())
EVENT_STREAMS: dict[str, dict[str, Any]] = {case["name"]: case for case in EVENTS["streams"]}
WHOLE = [name for name, case in STREAMS.items() if not case.get("partial")]
ANSWERED = [name for name in WHOLE if STREAMS[name]["reply"] is not None]
MARK = b"\xef\xbb\xbf"


def usage_of_case(case: dict[str, Any]) -> Usage:
    """The usage that a case expects."""
    expected = dict(case["usage"])
    last = expected.pop("last_call", None)
    return Usage(**expected, last_call=None if last is None else Usage(**last))


def encoded(case: dict[str, Any]) -> bytes:
    return "".join(line + "\n" for line in case["lines"]).encode()


def events(case: dict[str, Any]) -> list[Any]:
    """The events of a stream, parsed."""
    lines = [line.removeprefix("data: ") for line in case["lines"] if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def read(chunks: Any) -> UsageReader:
    reader = UsageReader()
    for chunk in chunks:
        reader.feed(chunk)
    return reader


def assert_expected(reader: UsageReader, case: dict[str, Any]) -> None:
    is_partial = case.get("partial", False)
    assert reader.usage == replace(usage_of_case(case), is_partial=is_partial)
    assert reader.is_partial == is_partial
    assert reader.dialect == case.get("dialect")
    if not is_partial:
        reply = reader.reply
        expected = case["reply"]
        is_list = reply is not None and case["dialect"] == "anthropic"
        assert (reply["content"] if is_list else reply) == expected


@pytest.mark.parametrize("name", STREAMS)
def test_usage_and_reply_are_read_however_the_bytes_are_cut(name: str) -> None:
    case, draw = STREAMS[name], random.Random(0)
    stream = encoded(case)
    for line_end in (b"\n", b"\r\n", b"\r"):
        whole = stream.replace(b"\n", line_end)
        assert_expected(read([whole]), case)
        assert_expected(read(whole[i : i + 1] for i in range(len(whole))), case)
        for _ in range(20):
            place = draw.randrange(len(whole))
            assert_expected(read([whole[:place], whole[place:]]), case)


@pytest.mark.parametrize("name", STREAMS)
def test_usage_and_reply_are_read_from_dicts(name: str) -> None:
    assert_expected(read(events(STREAMS[name])), STREAMS[name])


@pytest.mark.parametrize("name", EVENT_STREAMS)
def test_streams_of_dicts_are_read(name: str) -> None:
    assert_expected(read(EVENT_STREAMS[name]["events"]), EVENT_STREAMS[name])


SDK_EVENTS = {
    "openai-chat": ("openai.types.chat", "ChatCompletionChunk"),
    "openai-responses": ("openai.types.responses", "ResponseStreamEvent"),
    "anthropic": ("anthropic.types", "RawMessageStreamEvent"),
    "gemini": ("google.genai.types", "GenerateContentResponse"),
    "gemini-interactions": ("google.genai._gaos.types.interactions", "InteractionSSEEvent"),
}


def sdk_event(module: str, kind: Any, event: Any) -> Any:
    """As the clients make it: without validation, but for Gemini."""
    if module.startswith("google"):
        return TypeAdapter(kind).validate_python(event)
    models = importlib.import_module(f"{module.partition('.')[0]}._models")
    return models.construct_type(value=event, type_=kind)


def test_a_reader_shows_numbers_and_no_word_of_its_stream() -> None:
    reader = UsageReader()
    reader.feed({"usage": {"prompt_tokens": 7, "completion_tokens": 2}, "service_tier": "secret"})
    assert "7 input" in repr(reader)
    assert "secret" not in repr(reader)


@pytest.mark.parametrize("name", ANSWERED)
def test_usage_and_reply_are_read_from_objects_of_the_sdks(name: str) -> None:
    module, cls = SDK_EVENTS[STREAMS[name]["dialect"]]
    kind = getattr(pytest.importorskip(module), cls)
    reader = read(sdk_event(module, kind, event) for event in events(STREAMS[name]))
    assert reader.usage == usage_of_case(STREAMS[name])
    assert "text" not in repr(reader)
    plain = read(events(STREAMS[name]))
    assert known_after(plain, name) == known_after(reader, name)


def test_an_array_of_gemini_is_read_however_it_is_cut() -> None:
    case = STREAMS["gemini"]
    text = json.dumps(events(case), indent=1, ensure_ascii=False).encode()
    assert_expected(read([text]), case)
    assert_expected(read(text[i : i + 1] for i in range(len(text))), case)


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_data_of_several_lines_is_one_event_however_it_is_cut(line_end: str) -> None:
    lines = ['data: {"choices":[{"delta":{},"finish_reason":"stop"}],', 'data:"usage":', ": x"]
    lines += ['data: {"prompt_tokens":3,', "id: 7", 'data: "completion_tokens":4}}', "", ""]
    stream = line_end.join(lines).encode()
    for place in range(len(stream)):
        reader = read([stream[:place], b"", stream[place:]])
        assert (reader.usage.input_tokens, reader.is_partial) == (3, False), place


def finished(chunks: Any) -> UsageReader:
    reader = read(chunks)
    reader.finish()
    return reader


FORMS: dict[str, Any] = {
    "marked": lambda stream: MARK + stream,
    "gzip": gzip.compress,
    "gzip of two members": lambda it: gzip.compress(it[:40]) + gzip.compress(it[40:]),
    "no blank line at the end": lambda stream: stream.rstrip(b"\n"),
    "no line end at the end, CRLF": lambda it: it.rstrip(b"\n").replace(b"\n", b"\r\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", STREAMS)
def test_every_cut_of_every_form_gives_the_same(name: str, form: str) -> None:
    """In two pieces at each place, and in single bytes; `finish` says that it has ended."""
    case = STREAMS[name]
    stream = FORMS[form](encoded(case))
    places = range(len(stream)) if len(stream) < 1500 else range(0, len(stream), 37)
    for place in places:
        assert_expected(finished([stream[:place], stream[place:]]), case)
    assert_expected(finished(stream[i : i + 1] for i in range(len(stream))), case)


@pytest.mark.parametrize("name", STREAMS)
def test_text_and_lines_are_read_as_bytes_are(name: str) -> None:
    case = STREAMS[name]
    text = encoded(case).decode()
    assert_expected(finished([text]), case)
    assert_expected(finished(text), case)  # character by character
    assert_expected(finished(text.splitlines(keepends=True)), case)
    assert_expected(finished(text.splitlines()), case)  # as `aiter_lines` gives them
    assert_expected(finished([bytearray(encoded(case)), memoryview(b"")]), case)


def test_text_that_looks_like_a_line_is_text() -> None:
    text = 'data: {"choices":[{"delta":{"content":"a data: {}\\n"},"finish_reason":"stop"}],'
    text += '"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n'
    for place in range(len(text)):
        reader = finished([text[:place], text[place:]])
        assert reader.reply["content"] == "a data: {}\n", place


BODIES: dict[str, tuple[Any, Any]] = {
    "openai-chat": (
        {
            "object": "chat.completion",
            "model": "gpt-4o",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Dust."}}],
            "usage": {"prompt_tokens": 13, "completion_tokens": 2},
        },
        {"role": "assistant", "content": "Dust."},
    ),
    "openai-responses": (
        {
            "object": "response",
            "status": "completed",
            "output": [{"type": "message", "role": "assistant", "content": "Dust."}],
            "usage": {"input_tokens": 13, "output_tokens": 2},
        },
        [{"type": "message", "role": "assistant", "content": "Dust."}],
    ),
    "anthropic": (
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "Dust."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 13, "output_tokens": 2},
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Dust."}]},
    ),
    "gemini": (
        {
            "candidates": [
                {"content": {"role": "model", "parts": [{"text": "Dust."}]}, "finishReason": "STOP"}
            ],
            "usageMetadata": {"promptTokenCount": 13, "candidatesTokenCount": 2},
        },
        {"role": "model", "parts": [{"text": "Dust."}]},
    ),
    "gemini-interactions": (
        {
            "object": "interaction",
            "status": "completed",
            "steps": [{"type": "model_output", "content": [{"type": "text", "text": "Dust."}]}],
            "usage": {"total_input_tokens": 13, "total_output_tokens": 2},
        },
        [{"type": "model_output", "content": [{"type": "text", "text": "Dust."}]}],
    ),
    "bedrock-converse": (
        {
            "output": {"message": {"role": "assistant", "content": [{"text": "Dust."}]}},
            "stopReason": "end_turn",
            "usage": {"inputTokens": 13, "outputTokens": 2, "totalTokens": 15},
        },
        {"role": "assistant", "content": [{"text": "Dust."}]},
    ),
}


@pytest.mark.parametrize("dialect", BODIES)
def test_a_body_that_was_not_streamed_is_read_however_it_is_cut(dialect: str) -> None:
    body, reply = BODIES[dialect]
    for text in (json.dumps(body), MARK.decode() + json.dumps(body, indent=1)):
        stream = text.encode()
        for data in (stream, gzip.compress(stream)):
            for place in range(0, len(data), 7):
                reader = finished([data[:place], data[place:]])
                numbers = (reader.usage.input_tokens, reader.usage.output_tokens)
                assert (*numbers, reader.reason) == (13, 2, None)
                assert (reader.reply, reader.dialect) == (reply, dialect)


def test_a_body_of_an_unknown_format_has_its_usage_when_it_has_ended() -> None:
    body = b'{"model":"llama","done":true,"prompt_eval_count":13,"eval_count":2}'
    assert read([body]).is_partial
    reader = finished([body])
    assert (reader.usage.input_tokens, reader.is_partial, reader.reply) == (13, False, None)


def test_chunks_of_langchain_are_whole_when_they_have_ended() -> None:
    """Usage of its chunks adds up; none has the end of a stream of its own."""
    messages = pytest.importorskip("langchain_core.messages")
    make = messages.AIMessageChunk
    call = {"name": "f", "args": '{"a"', "id": "t1", "index": 0, "type": "tool_call_chunk"}
    more = {"name": None, "args": ":1}", "id": None, "index": 0, "type": "tool_call_chunk"}
    chunks = [
        make("Du", usage_metadata={"input_tokens": 13, "output_tokens": 0, "total_tokens": 13}),
        make([{"type": "text", "text": "st.", "index": 0}], tool_call_chunks=[call]),
        make("", tool_call_chunks=[more]),
        make("", usage_metadata={"input_tokens": 0, "output_tokens": 1, "total_tokens": 1}),
        make("", usage_metadata={"input_tokens": 0, "output_tokens": 1, "total_tokens": 1}),
    ]
    reader = read(chunks)
    assert (reader.reason, reader.usage.is_partial) == ("partial", True)
    usage = reader.finish()
    assert (usage.input_tokens, usage.output_tokens, usage.is_partial) == (13, 2, False)
    function = {"name": "f", "arguments": '{"a":1}'}
    calls = [{"id": "t1", "type": "function", "function": function}]
    assert reader.reply == {"role": "assistant", "content": "Dust.", "tool_calls": calls}
    whole = read([messages.AIMessage("Dust.", usage_metadata=chunks[0].usage_metadata)])
    assert (whole.usage.input_tokens, whole.is_partial) == (13, False)


@pytest.mark.parametrize(
    ("chunks", "reason"),
    [
        ([], "no_usage"),
        ([b"garbage"], "unreadable"),
        ([b"\x28\xb5\x2f\xfd compressed otherwise"], "unreadable"),
        ([b'data: {"choices"\n\n'], "unreadable"),
        ([gzip.compress(b"")[:8] + b"\0\0 no deflate at all"], "unreadable"),
        ([object(), 7], "unreadable"),
        ([b'{"error":{"message":"no"}}'], "failed"),
        ([b'data: {"choices":[{"delta":{"content":"Du'], "partial"),
        ([b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'], "no_usage"),
        ([b'{"id": 7}'], "no_usage"),
        ([b'data: {"a":"' + b"x" * (17 << 20) + b'"}\n\n'], "too_large"),
        ([b'[{"a":"', *[b"x" * (1 << 20)] * 17, b'"}]'], "too_large"),
        ([gzip.compress(b" " * (32 << 20))], "too_large"),
        ([b"[" + b'{"a":1},' * 6000], "too_large"),
        ([b'data: {"a":1}\n\n' * 6000], "too_large"),
    ],
)
def test_a_reader_says_why_it_has_nothing(chunks: list[Any], reason: str) -> None:
    reader = finished(chunks)
    assert (reader.reason, reader.is_partial) == (reason, True)


def test_what_comes_behind_a_long_event_is_read() -> None:
    stream = encoded(STREAMS["openai-chat"])
    long = b'data: {"a":"' + b"x" * (17 << 20) + b'"}\n\n'
    reader = finished([long[:100], long[100:] + stream])
    assert reader.usage == Usage(**STREAMS["openai-chat"]["usage"], is_partial=True)
    assert reader.reason == "too_large"


def test_many_pieces_of_a_reply_are_one_text() -> None:
    event = {"choices": [{"index": 0, "delta": {"content": "ab "}}]}
    reader = read([event] * 5000)
    assert reader.reply == {"role": "assistant", "content": "ab " * 5000}


def test_null_and_0_replace_nothing() -> None:
    start = {"input_tokens": 10, "cache_read_input_tokens": 60, "output_tokens": 1}
    delta = {"input_tokens": 0, "cache_read_input_tokens": None, "output_tokens": 20}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": delta}
    first = {"type": "message_start", "message": {"usage": start}}
    usage = read([first, end, {"type": "message_stop"}]).usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (70, 60, 20)


def test_braces_and_quotes_in_text_are_text() -> None:
    """Where they would end an object of an array that is cut there."""
    text = 'a{"b\\\\"}]\\' + "\u20ac\n{"
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 4}
    candidate = {"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}
    array = json.dumps([{"candidates": [candidate], "usageMetadata": usage}]).encode()
    for size in (1, 2, 3, len(array)):
        reader = read(array[i : i + size] for i in range(0, len(array), size))
        assert reader.reply == {"role": "model", "parts": [{"text": text}]}
        assert (reader.usage.input_tokens, reader.usage.output_tokens) == (3, 4)
        assert not reader.is_partial


# What is recorded

REQUESTS: dict[str, dict[str, Any]] = {
    "anthropic": {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "hi"}]},
    "openai-chat": {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]},
    "openai-responses": {"model": "gpt-4.1", "input": [{"role": "user", "content": "hi"}]},
    "gemini": {
        "model": "gemini-2.5-pro",
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    },
    "gemini-interactions": {
        "model": "gemini-2.5-pro",
        "input": [{"type": "user_input", "content": [{"type": "text", "text": "hi"}]}],
    },
    "bedrock-converse": {
        "modelId": "anthropic.claude-sonnet-4-5",
        "messages": [{"role": "user", "content": [{"text": "hi"}]}],
    },
}
FIELD = {"gemini": "contents", "openai-responses": "input", "gemini-interactions": "input"}


def next_request(case: dict[str, Any]) -> dict[str, Any]:
    """What a client sends next: the request, the reply as it keeps it, and a new message."""
    dialect, reply = case["dialect"], case["reply"]
    request, field = REQUESTS[dialect], FIELD.get(dialect, "messages")
    reply = {"role": "assistant", "content": reply} if dialect == "anthropic" else reply
    messages = [*request[field], *(reply if isinstance(reply, list) else [reply])]
    return {**request, field: [*messages, *request[field]]}


def known_after(reader: UsageReader, name: str) -> tuple[str, int, int]:
    case = {**STREAMS, **EVENT_STREAMS}[name]
    estimator = tokenctx.HybridTokenEstimator()
    assert estimator.record(REQUESTS[case["dialect"]], reader)
    estimate = estimator.estimate(next_request(case))
    return estimate.source, estimate.known_tokens, estimate.new_message_count


@pytest.mark.parametrize("name", [*ANSWERED, *EVENT_STREAMS])
def test_a_reader_is_all_that_record_needs(name: str) -> None:
    """The next turn starts behind the reply: only the new message is counted."""
    case = {**STREAMS, **EVENT_STREAMS}[name]
    if case["dialect"] is None:
        pytest.skip("Cohere has no request dialect here")
    reader = read(case.get("events") or [encoded(case)])
    source, known, new_message_count = known_after(reader, name)
    assert (source, new_message_count) == ("delta", 1)
    assert known > (reader.usage.last_call or reader.usage).input_tokens


@pytest.mark.parametrize("name", ANSWERED)
def test_a_stream_that_is_cut_is_never_recorded(name: str) -> None:
    """At whatever event it ends before its last one that counts."""
    case = STREAMS[name]
    found = events(case)
    estimator = tokenctx.HybridTokenEstimator()
    for count in range(len(found)):
        reader = read(found[:count])
        assert reader.is_partial == reader.usage.is_partial
        if reader.is_partial:
            assert not estimator.record(REQUESTS[case["dialect"]], reader)
    assert len(estimator) == 0 or name == "groq-usage-twice"
    assert not read(found).is_partial


def test_best_known_usage_of_a_cut_stream() -> None:
    reader = read(events(STREAMS["anthropic-text"])[:3])
    assert (reader.usage.input_tokens, reader.usage.is_partial) == (60001, True)


def test_an_error_at_the_end_is_partial() -> None:
    found = events(STREAMS["openai-chat"])
    assert read([*found, {"error": {"message": "no"}}]).is_partial
    failed = {"type": "response.failed", "response": {"status": "failed", "usage": None}}
    assert read([*events(STREAMS["openai-responses"])[:-1], failed]).is_partial


def test_several_answers_are_no_reply() -> None:
    found = events(STREAMS["openai-chat"])
    other = {"choices": [{"index": 1, "delta": {"content": "B"}, "finish_reason": None}]}
    reader = read([other, *found])
    assert reader.reply is None
    assert not reader.is_partial


@pytest.mark.parametrize("chunk", [b"", b"data: {\n\n", b"{]", b"\xff\xfe", None, 7, object()])
def test_what_is_no_stream_is_nothing(chunk: Any) -> None:
    reader = read([chunk, chunk])
    assert (reader.is_partial, reader.usage.input_tokens, reader.reply) == (True, 0, None)


ALL = [event for case in STREAMS.values() for event in events(case)]
ALL += [event for case in EVENT_STREAMS.values() for event in case["events"]]
ODD: list[Any] = [None, [], {}, 7, -1, "x", b"x", [None], {"type": []}, {"index": {}}]


def mutilated(draw: random.Random, value: Any) -> Any:
    if draw.random() < 0.05:
        return draw.choice(ODD)
    if isinstance(value, dict):
        return {name: mutilated(draw, inner) for name, inner in value.items()}
    return [mutilated(draw, inner) for inner in value] if isinstance(value, list) else value


def test_no_event_however_odd_raises() -> None:
    draw = random.Random(0)
    for _ in range(2000):
        reader = read(mutilated(draw, event) for event in draw.choices(ALL, k=6))
        assert reader.usage.input_tokens >= 0
        assert reader.reply is None or reader.reply
