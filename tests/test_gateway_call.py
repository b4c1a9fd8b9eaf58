"""One object for a call: bytes go through, changed where it was asked, and are recorded once."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import random
from typing import TYPE_CHECKING, Any, NoReturn, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_rig import ANSWERS, billed
from tokenctx import ContextWindowScaler, HybridTokenEstimator, Metrics, RequestError
from tokenctx.context import ModelLimits
from tokenctx.convert import Dialect
from tokenctx.gateway import Gateway
from tokenctx.gateway.edits import OUTPUT_MEMBERS, BodyFields
from tokenctx.gateway.paths import endpoint_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

Json = dict[str, Any]
CHAT = "/v1/chat/completions"
TEXT = "Why is the sky blue?"
MESSAGES = [{"role": "user", "content": TEXT}]
BODIES: dict[str, Json] = {
    CHAT: {"model": "gpt-4o", "messages": MESSAGES},
    "/v1/responses": {"model": "gpt-4o", "input": TEXT},
    "/v1/messages": {"model": "claude-opus-4-5", "max_tokens": 9, "messages": MESSAGES},
    "/v1beta/models/gemini-2.5-pro:generateContent": {
        "contents": [{"role": "user", "parts": [{"text": TEXT}]}]
    },
    "/model/amazon.nova-pro-v1%3A0/converse": {
        "messages": [{"role": "user", "content": [{"text": TEXT}]}]
    },
}
PATHS = list(BODIES)
STREAMED = [path for path in PATHS if "converse" not in path]
JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}


def gateway(**options: Any) -> Gateway:
    return Gateway(HybridTokenEstimator(), **options)


def raw(path: str, **more: Any) -> bytes:
    return json.dumps({**BODIES[path], **more}).encode()


def answer(path: str, body: bytes) -> tuple[bytes, list[bytes]]:
    """What our provider sends for a body: whole, and as the events of a stream."""
    ending = next(it for it in ANSWERS if path.endswith(it))
    whole, events = ANSWERS[ending](json.loads(body))
    return json.dumps(whole).encode(), events


def cuts(data: bytes, seed: int) -> list[bytes]:
    draw = random.Random(seed)
    places = sorted(draw.randrange(len(data) + 1) for _ in range(draw.randrange(9)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


async def aiter_of(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


# ------------------------------------------------------------------------------ what is sent


@pytest.mark.parametrize("path", PATHS)
def test_a_body_that_nothing_is_to_be_changed_of_is_the_very_object(path: str) -> None:
    body = raw(path)
    call = gateway(clamp_output=True).call(body, path=path)
    assert call.failure is None
    assert call.upstream_body is body
    assert not call.is_changed


@pytest.mark.parametrize(
    ("options", "is_changed"),
    [
        ({"stream": True}, True),
        ({"stream": True, "stream_options": None}, True),
        ({"stream": True, "stream_options": {"include_usage": False, "a": 1}}, True),
        ({"stream": True, "stream_options": {"include_usage": True}}, False),
        ({"stream": False}, False),
        ({"stream": "true"}, False),
        ({}, False),
    ],
)
def test_usage_is_asked_for_where_a_stream_would_not_have_it(
    options: Json, *, is_changed: bool
) -> None:
    body = raw(CHAT, **options)
    call = gateway().call(body, path=CHAT)
    assert call.is_changed is is_changed
    sent = json.loads(call.upstream_body)
    asked = {**(options.get("stream_options") or {}), "include_usage": True}
    expected = {**json.loads(body), "stream_options": asked} if is_changed else json.loads(body)
    assert sent == expected
    assert gateway(include_usage=False).call(body, path=CHAT).upstream_body == body


def test_usage_is_not_asked_for_where_the_format_is_a_guess() -> None:
    body = raw(CHAT, stream=True)
    assert gateway().call(body).upstream_body == body
    assert gateway().call(body, dialect="openai-chat").is_changed
    assert not gateway().call(raw("/v1/messages", stream=True), path="/v1/messages").is_changed


WANTED = 10**6


@pytest.mark.parametrize("dialect", get_args(Dialect))
def test_output_beyond_the_room_is_cut_to_it(dialect: Dialect) -> None:
    for name, *inner in OUTPUT_MEMBERS[dialect]:
        wanted: Any = {inner[0]: WANTED, "other": 1} if inner else WANTED
        body = {"model": "m", "messages": MESSAGES, name: wanted}
        made = gateway(clamp_output=True, limits={"m": ModelLimits(10_000, None, 600)})
        call = made.call(json.dumps(body).encode(), dialect=dialect)
        assert call.refusal is None
        limit: Any = {inner[0]: 600, "other": 1} if inner else 600
        assert json.loads(call.upstream_body) == {**body, name: limit}
        small = gateway(clamp_output=True, limits={"m": 1000}).call(body, dialect=dialect)
        assert small.estimate is not None
        sent = json.loads(small.upstream_body)[name]
        room = WANTED if dialect == "gemini" else 1000 - small.estimate.high
        assert (sent[inner[0]] if inner else sent) == room


def test_output_is_not_cut_below_the_budget_of_thinking() -> None:
    thinking = {"type": "enabled", "budget_tokens": 800}
    body = raw("/v1/messages", max_tokens=900, thinking=thinking)
    made = gateway(clamp_output=True, limits={"claude": ModelLimits(5000, None, 800)})
    assert made.call(body, path="/v1/messages").upstream_body is body


def test_what_is_clamped_is_not_refused() -> None:
    body = raw(CHAT, max_tokens=WANTED)
    assert gateway(refuse_by=None).call(body, path=CHAT).refusal is None
    assert gateway().call(body, path=CHAT).refusal is not None
    clamped = gateway(clamp_output=True).call(body, path=CHAT)
    assert clamped.refusal is None
    assert clamped.estimate is not None
    assert json.loads(clamped.upstream_body)["max_tokens"] == 16_384


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=9,
)
MEMBERS = st.dictionaries(st.sampled_from(["a", "bb", "stream", "ä"]) | st.text(max_size=3), VALUES)


WRITTEN = st.fixed_dictionaries(
    {"indent": st.sampled_from([None, 1]), "is_ascii": st.booleans()},
)


@given(MEMBERS, MEMBERS, WRITTEN, st.sampled_from(["", "\ufeff"]))
def test_a_changed_body_is_the_body_with_the_changes(
    body: Json, changes: Json, written: Json, mark: str
) -> None:
    indent, is_ascii = written["indent"], written["is_ascii"]
    text = mark + json.dumps(body, indent=indent, ensure_ascii=is_ascii)
    fields = BodyFields(text.encode("utf-8", "surrogatepass"))
    if any("\\" in json.dumps(key, ensure_ascii=is_ascii) for key in body):
        assert fields.value("stream") is None  # an escaped key: nothing is known of the members
        return
    sent = fields.changed(changes).decode("utf-8", "surrogatepass").removeprefix(mark)
    assert json.loads(sent) == {**body, **changes}
    assert [fields.value(name) for name in body] == list(body.values())


def test_an_object_is_sent_as_json() -> None:
    body = {**BODIES[CHAT], "stream": True}
    call = gateway().call(body, path=CHAT)
    sent = json.loads(call.upstream_body)
    assert sent == {**body, "stream_options": {"include_usage": True}}
    assert "stream_options" not in body
    assert json.loads(gateway().call(json.dumps(body)).upstream_body) == body


# ------------------------------------------------------------------------------ paths


@pytest.mark.parametrize(
    ("path", "dialect", "model"),
    [
        ("/v1/chat/completions", "openai-chat", ""),
        ("/openai/deployments/my-gpt/chat/completions?api-version=1", "openai-chat", "my-gpt"),
        ("/v1/responses/", "openai-responses", ""),
        ("/v1/messages?beta=true", "anthropic", ""),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "gemini", "gemini-2.5-pro"),
        (
            "/v1/projects/p/locations/l/publishers/google/models/gemini-3-pro:generateContent",
            "gemini",
            "gemini-3-pro",
        ),
        ("/v1/projects/p/publishers/anthropic/models/claude-x:streamRawPredict", None, "claude-x"),
        (
            "/model/us.anthropic.claude-x-v1:0/converse",
            "bedrock-converse",
            "us.anthropic.claude-x-v1:0",
        ),
        ("/model/amazon.nova-v1%3A0/converse-stream", "bedrock-converse", "amazon.nova-v1:0"),
        ("/model/anthropic.claude-x/invoke-with-response-stream", None, "anthropic.claude-x"),
    ],
)
def test_a_path_tells_dialect_and_model(path: str, dialect: str | None, model: str) -> None:
    endpoint = endpoint_of(path)
    assert endpoint is not None
    assert (endpoint.dialect, endpoint.model) == (dialect, model)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/embeddings",
        "/v1/models",
        "/v1/files",
        "/v1/messages/count_tokens",
        "/v1/messages/batches",
        "/v1/responses/input_tokens",
        "/v1/threads/t1/messages",
        "/v1beta/models/m:countTokens",
        "/model/m/count-tokens",
        "/",
    ],
)
def test_other_paths_go_through_uncounted(path: str) -> None:
    made = gateway()
    call = made.call(b'{"input": "a"}', path=path)
    assert (call.estimate, call.headers, call.refusal) == (None, {}, None)
    assert list(call.stream([b"data: 1\n\n"])) == [b"data: 1\n\n"]
    assert made.stats() == {"other_paths": 1}


def test_the_name_of_a_deployment_counts_only_without_a_model() -> None:
    path = "/openai/deployments/gpt-4o-mini/chat/completions"
    named = gateway().call(raw(CHAT), path=path).estimate
    bare = gateway().call(json.dumps({"messages": MESSAGES}).encode(), path=path).estimate
    assert named is not None
    assert bare is not None
    assert (named.model, bare.model) == ("gpt-4o", "gpt-4o-mini")


# ------------------------------------------------------------------------------ the answer


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_a_whole_answer_is_recorded_and_goes_through(path: str, *, is_async: bool) -> None:
    made, body = gateway(), raw(path)
    whole, _ = answer(path, body)
    call = made.call(body, path=path, tenant="acme")
    if is_async:
        sent = asyncio.run(call.aresponse(whole, headers=JSON))
    else:
        sent = call.response(whole, headers=JSON)
    assert sent == whole
    assert call.event is not None
    assert call.event.billed_tokens == billed(json.loads(body))
    again = made.call(body, path=path, tenant="acme").estimate
    other = made.call(body, path=path, tenant="other").estimate
    assert again is not None
    assert other is not None
    assert (again.source, other.source) == ("exact", "estimated")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("path", STREAMED)
def test_a_stream_is_the_same_however_it_is_cut(path: str, *, is_async: bool) -> None:
    for seed in range(20):
        made = gateway()
        asked = {"stream_options": {"include_usage": True}} if path == CHAT else {}
        body = raw(path, stream=True, **asked)
        chunks = cuts(b"".join(answer(path, body)[1]), seed)
        call = made.call(body, path=path)
        sent = asyncio.run(through(call, chunks)) if is_async else list(call.stream(chunks))
        assert sent == [chunk for chunk in chunks if chunk]
        assert call.event is not None
        assert made.stats() == {"estimated": 1, "recorded": 1}


async def through(call: Any, chunks: list[bytes], **about: Any) -> list[bytes]:
    return [chunk async for chunk in call.astream(aiter_of(chunks), **about)]


def test_the_usage_that_we_asked_for_is_taken_out_again_and_nothing_else() -> None:
    body = raw(CHAT, stream=True)
    for ends in (b"\n", b"\r\n", b"\r"):
        for seed in range(40):
            call = gateway().call(body, path=CHAT)
            events = answer(CHAT, call.upstream_body)[1]
            lined = [it.replace(b"\n", ends) for it in events]
            sent = b"".join(call.stream(cuts(b"".join(lined), seed), headers=EVENTS))
            assert sent == b"".join(it for it in lined if b"prompt_tokens" not in it)
            assert call.event is not None


def test_words_about_usage_are_no_usage() -> None:
    text = '"choices": [], "usage": {"prompt_tokens": 1}'
    said = {"choices": [{"index": 0, "delta": {"content": text}}], "usage": None}
    long = {"choices": [], "usage": {"x": "y" * (1 << 17)}}
    events = [f"data: {json.dumps(it)}\n\n".encode() for it in (said, long)]
    comment = b': "choices":[] "usage"\n\n'
    call = gateway().call(raw(CHAT, stream=True), path=CHAT)
    stream = [comment, *events]
    assert b"".join(call.stream(cuts(b"".join(stream), 3))) == b"".join(stream)


def test_it_is_known_before_the_end_is_passed_on() -> None:
    made, body = gateway(), raw(CHAT, stream=True)
    call = made.call(body, path=CHAT)
    events = answer(CHAT, call.upstream_body)[1]
    for sent in call.stream(events):
        if b"[DONE]" in sent:
            break
    estimate = made.call(body, path=CHAT).estimate
    assert estimate is not None
    assert estimate.source == "exact"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("path", STREAMED)
def test_a_client_that_leaves_is_recorded_only_if_the_end_had_come(
    path: str, *, is_async: bool
) -> None:
    asked = {"stream_options": {"include_usage": True}} if path == CHAT else {}
    body = raw(path, stream=True, **asked)
    events = answer(path, body)[1]
    ends = (b'"prompt_tokens"', b'"response.completed"', b'"message_delta"', b"usageMetadata")
    last = next(n for n, it in enumerate(events) if any(end in it for end in ends))
    for left in range(len(events)):
        made = gateway()
        call = made.call(body, path=path)
        (asyncio.run(leave_async(call, events, left)) if is_async else leave(call, events, left))
        is_whole = left >= last
        assert (call.event is not None) is is_whole, left
        assert call.reason == (None if is_whole else "cut")


def leave(call: Any, events: list[bytes], left: int) -> None:
    stream = call.stream(iter(events))
    for _ in range(left + 1):
        next(stream)
    stream.close()


async def leave_async(call: Any, events: list[bytes], left: int) -> None:
    stream = call.astream(aiter_of(events))
    for _ in range(left + 1):
        await anext(stream)
    await stream.aclose()


def test_a_cancelled_task_records_nothing_and_leaves_nothing() -> None:
    async def run() -> tuple[Any, int]:
        started = asyncio.Event()

        async def never() -> AsyncIterator[bytes]:
            yield answer(CHAT, raw(CHAT))[1][0]
            started.set()
            await asyncio.Event().wait()

        call = gateway().call(raw(CHAT, stream=True), path=CHAT)

        async def read() -> None:
            async for _ in call.astream(never()):
                pass

        task = asyncio.create_task(read())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return call, len(asyncio.all_tasks())

    call, tasks = asyncio.run(run())
    assert (call.event, call.reason, tasks) == (None, "cut", 1)


def test_what_breaks_in_the_middle_is_raised_and_not_recorded() -> None:
    def broken() -> Iterator[bytes]:
        yield answer(CHAT, raw(CHAT))[1][0]
        raise ConnectionResetError

    call = gateway().call(raw(CHAT, stream=True), path=CHAT)
    with pytest.raises(ConnectionResetError):
        list(call.stream(broken()))
    assert (call.event, call.reason) == (None, "cut")


@pytest.mark.parametrize("status", [300, 400, 429, 500, 529])
def test_an_error_of_the_provider_goes_through_and_is_not_recorded(status: int) -> None:
    made = gateway(assumed_window_tokens=200_000)
    body = raw(CHAT)
    whole, _ = answer(CHAT, body)
    call = made.call(body, path=CHAT)
    assert call.response(whole, status=status, headers=JSON) == whole
    assert (call.event, call.reason) == (None, "upstream_error")
    assert made.stats()["not_recorded_upstream_error"] == 1


def test_what_gzip_packs_is_recorded_and_other_packing_says_so() -> None:
    made, body = gateway(assumed_window_tokens=200_000), raw(CHAT)
    whole, _ = answer(CHAT, body)
    packed = gzip.compress(whole)
    call = made.call(body, path=CHAT)
    assert call.response(packed, headers={**JSON, "Content-Encoding": "gzip"}) == packed
    assert call.event is not None
    other = made.call(body, path=CHAT)
    assert other.response(b"\x1b\x00", headers=[(b"content-encoding", b"br")]) == b"\x1b\x00"
    assert (other.event, other.reason) == (None, "compressed")


@pytest.mark.parametrize("path", STREAMED)
def test_agents_are_told_in_the_measure_of_their_window_and_we_record_the_bill(path: str) -> None:
    made = gateway(assumed_window_tokens=4_000_000, limits={"g": 1_000_000, "c": 1_000_000})
    body = raw(path, stream=True, stream_options={"include_usage": True})
    whole, events = answer(path, body)
    scaler = ContextWindowScaler(1_000_000, 4_000_000, exempt_models=())
    bill = billed(json.loads(body))
    call = made.call(body, path=path)
    sent = call.response(whole)
    assert sent == bytes(scaler.scale_body(whole))
    assert sent != whole
    assert call.event is not None
    assert call.event.billed_tokens == bill
    streamed = made.call(body, path=path)
    sent = b"".join(streamed.stream(cuts(b"".join(events), 5), headers=EVENTS))
    assert sent == b"".join(scaler.scale_stream(iter(events)))
    assert streamed.event is not None
    assert streamed.event.billed_tokens == bill


def test_of_one_call_one_answer_is_recorded() -> None:
    made, body = gateway(), raw(CHAT)
    whole, _ = answer(CHAT, body)
    call = made.call(body, path=CHAT)
    for _ in range(3):
        assert call.response(whole) == whole
    assert made.stats() == {"estimated": 1, "recorded": 1}
    assert made.estimator.stats()["recorded"] == 1


def test_after_a_failed_attempt_the_next_answer_is_recorded() -> None:
    made, body = gateway(), raw(CHAT)
    whole, _ = answer(CHAT, body)
    call = made.call(body, path=CHAT)
    call.response(b"{}", status=503)
    call.response(whole)
    assert call.event is not None
    assert call.reason is None
    assert made.stats() == {"estimated": 1, "recorded": 1, "not_recorded_upstream_error": 1}


# ------------------------------------------------------------------------------ failures


class FailingEstimator(HybridTokenEstimator):
    """Raises at one of its stages."""

    stage = ""

    def estimate(self, *arguments: Any, **names: Any) -> Any:
        if self.stage == "estimate":
            raise LookupError(TEXT)
        return super().estimate(*arguments, **names)

    def record_event(self, *arguments: Any, **names: Any) -> Any:
        if self.stage == "record":
            raise LookupError(TEXT)
        return super().record_event(*arguments, **names)


@pytest.mark.parametrize("stage", ["estimate", "record"])
def test_our_failure_is_counted_and_logged_once_and_the_bytes_go_through(
    stage: str, caplog: pytest.LogCaptureFixture
) -> None:
    estimator = FailingEstimator(metrics=Metrics())
    estimator.stage = stage
    made, body = Gateway(estimator), raw(CHAT, stream=True)
    with caplog.at_level(logging.WARNING, "tokenctx"):
        for _ in range(3):
            call = made.call(body, path=CHAT)
            asked = {"stream_options": {"include_usage": True}}
            events = answer(CHAT, raw(CHAT, stream=True, **asked))[1]
            sent = b"".join(call.stream(events))
            if stage == "estimate":
                assert sent == b"".join(events)
                assert call.upstream_body is body
                assert call.failure == "estimate: LookupError"
                assert call.headers == {"x-tokenctx-uncounted": "LookupError"}
            else:
                assert call.reason == "record: LookupError"
    assert made.stats()[f"failed_{stage}"] == 3
    assert [record.name for record in caplog.records] == ["tokenctx"]
    assert TEXT not in caplog.text
    assert estimator.metrics is not None
    assert estimator.metrics.snapshot()["tokenctx.failures"] == {(stage,): 3.0}


def test_a_part_of_ours_that_breaks_lets_the_bytes_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> NoReturn:
        raise ArithmeticError

    made = gateway(assumed_window_tokens=4_000_000)
    body = raw(CHAT, stream=True)
    call = made.call(body, path=CHAT)
    events = answer(CHAT, call.upstream_body)[1]
    monkeypatch.setattr("tokenctx.gateway.relay._UsageDropper.push", broken)
    assert b"".join(call.stream(events, headers=EVENTS)) == b"".join(events)
    assert made.stats()["failed_change_answer"] == 1
    assert (call.event, call.reason) == (None, "failed_here")
    monkeypatch.setattr("tokenctx.gateway.call.less_output", broken)
    clamping = gateway(clamp_output=True)
    call = clamping.call(body, path=CHAT)
    assert call.failure == "change_request: ArithmeticError"
    assert call.upstream_body is body


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe{\x00", b"[1,", b"nonsense"])
def test_a_broken_body_is_left_to_its_provider(body: bytes) -> None:
    made = gateway()
    with pytest.raises(RequestError):
        made.estimator.estimate(body)
    call = made.call(body, path=CHAT)
    assert call.upstream_body is body
    assert (call.refusal, call.failure) == (None, "estimate: RequestError")
    assert made.stats() == {"uncounted_unreadable_body": 1}
    assert call.response(b"{}", status=400) == b"{}"


def test_an_empty_body_is_no_call() -> None:
    call = gateway().call(b"", path=CHAT)
    assert (call.upstream_body, call.estimate, call.headers) == (b"", None, {})


def test_refusals_are_counted_in_the_metrics_too() -> None:
    metrics = Metrics()
    made = Gateway(HybridTokenEstimator(metrics=metrics), limits={"gpt": 3})
    assert made.call(raw(CHAT), path=CHAT).refusal is not None
    assert metrics.snapshot()["tokenctx.refused"] == {("openai-chat",): 1.0}


def test_headers_are_the_estimate_and_the_limits_are_the_users() -> None:
    made = gateway(limits={"gpt-4o": 5_000})
    call = made.call(raw(CHAT), path=CHAT)
    estimate = call.estimate
    assert estimate is not None
    assert call.headers == {
        "x-tokenctx-tokens": str(estimate.tokens),
        "x-tokenctx-low": str(estimate.low),
        "x-tokenctx-high": str(estimate.high),
        "x-tokenctx-known": "0",
        "x-tokenctx-source": "estimated",
        "x-tokenctx-quality": "exact",
        "x-tokenctx-window": "5000",
    }
    assert TEXT not in repr(call)


def test_settings_that_cannot_be_meant_are_named() -> None:
    with pytest.raises(TypeError, match="estimator is of type str"):
        Gateway("gpt-4o")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="refuse_by is 'upper'"):
        gateway(refuse_by="upper")
    with pytest.raises(TypeError, match="window"):
        gateway(assumed_window_tokens="128k")
    with pytest.raises(TypeError, match="tenant is of type int"):
        gateway().call(raw(CHAT), tenant=5)  # type: ignore[arg-type]
