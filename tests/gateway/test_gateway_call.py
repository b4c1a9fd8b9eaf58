"""One object for a call: bytes go through, changed where it was asked, and are recorded once."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from gateway_calls import (
    CHAT,
    EVENTS,
    JSON,
    PATHS,
    STREAMED,
    TEXT,
    aiter_of,
    answer,
    cuts,
    gateway,
    raw,
)
from gateway_rig import billed
from tokenctx import ContextWindowScaler, HybridTokenEstimator, Metrics, RequestError
from tokenctx.gateway import Gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


# ------------------------------------------------------------------------------ what is sent


# ------------------------------------------------------------------------------ paths


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
    ends = (
        b'"prompt_tokens"',
        b'"response.completed"',
        b'"message_delta"',
        b"usageMetadata",
        b'"inputTokens"',
    )
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
    limits = dict.fromkeys(("gpt", "claude", "gemini", "amazon"), 1_000_000)
    made = gateway(assumed_window_tokens=4_000_000, limits=limits)
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


def test_what_another_gateway_has_scaled_is_no_bill() -> None:
    inner = gateway(assumed_window_tokens=4_000_000, limits={"gpt": 1_000_000})
    outer, body = gateway(), raw(CHAT)
    whole, _ = answer(CHAT, body)
    for headers in ({**JSON}, list({**JSON}.items())):
        first, second = inner.call(body, path=CHAT), outer.call(body, path=CHAT)
        sent = first.response(whole)
        assert first.headers["x-tokenctx-usage"] == "scaled"
        pairs = [*dict(headers).items(), *first.headers.items()]
        coded = [(name.title().encode(), value.encode()) for name, value in pairs]
        assert second.response(sent, headers=coded) == sent
        assert (second.event, second.reason) == (None, "scaled")
    assert outer.stats() == {"estimated": 2, "not_recorded_scaled": 2}
    assert "x-tokenctx-usage" not in outer.call(body, path=CHAT).headers


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
