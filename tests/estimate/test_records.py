"""What is recorded in whatever form it comes; what is not says why, and is counted."""

from __future__ import annotations

import dataclasses
import gzip
import json
import logging
import re
from pathlib import Path
from typing import Any, get_args

import pytest

import tokenctx
from dialect_calls import CALLS
from tokenctx import AccuracyEvent, ContextWindow, NotRecorded, UsageReader, _core
from tokenctx._results.estimates import Reason, ReplyReason
from tokenctx.usage import Usage

REASONS, REPLY_REASONS = get_args(Reason), get_args(ReplyReason)
DOCS = Path(__file__).parents[2] / "docs"
REQUEST = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}
REPLY = {"role": "assistant", "content": "Dust."}
USAGE = {"prompt_tokens": 13, "completion_tokens": 2}
RESPONSE = {"choices": [{"index": 0, "message": REPLY, "finish_reason": "stop"}], "usage": USAGE}
STREAM = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Dust."},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":13,"completion_tokens":2}}\n\ndata: [DONE]'
)
MARK = b"\xef\xbb\xbf"
FORMS: dict[str, Any] = {
    "bytes": lambda text: text,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "str": lambda text: text.decode(),
    "gzip": gzip.compress,
    "a mark before": lambda text: MARK + text,
}


def next_turn(request: Any, reply: Any) -> Any:
    return {**request, "messages": [*request["messages"], reply, {"role": "user", "content": "?"}]}


def known_after(usage: Any, reply: Any = None) -> Any:
    estimator = tokenctx.HybridTokenEstimator()
    assert estimator.record(REQUEST, usage, reply=reply)
    estimate = estimator.estimate(next_turn(REQUEST, REPLY))
    return estimate.source, estimate.known_tokens, estimate.new_message_count


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("answer", [json.dumps(RESPONSE).encode(), STREAM], ids=["body", "stream"])
def test_one_answer_is_usage_and_reply_in_every_form(answer: bytes, form: str) -> None:
    data = FORMS[form](answer)
    expected = known_after(USAGE, REPLY)
    assert expected[0::2] == ("delta", 1)
    assert known_after(data) == known_after(data, data) == known_after(USAGE, data) == expected
    assert known_after(RESPONSE) == expected
    assert known_after({"usage": USAGE}) == ("delta", 13, 2)


@pytest.mark.parametrize("dialect", CALLS)
def test_a_response_is_the_same_as_bytes_and_as_objects(dialect: str) -> None:
    call = CALLS[dialect]
    estimators = [tokenctx.HybridTokenEstimator(secret=b"s" * 16) for _ in range(3)]
    text = json.dumps(call.response).encode()
    answers: list[tuple[Any, Any]] = [(call.response, None), (text, None)]
    answers += [(call.response, call.response)]
    for estimator, (usage, reply) in zip(estimators, answers, strict=True):
        event: Any = estimator.record_event(call.request, usage, reply=reply)
        assert event.reply_reason is None
    known = [sorted(estimator.export_known()) for estimator in estimators]
    assert {len(estimator) for estimator in estimators} == {2}
    assert len(known[0]) == len(known[1]) == len(known[2])


PARTIAL = Usage(uncached_input_tokens=9, is_partial=True)
UNRECORDED: list[tuple[Any, str]] = [
    (None, "no_usage"),
    ({}, "no_usage"),
    ({"usage": {"tokens_in": 5}}, "no_usage"),
    (json.dumps({"choices": []}), "no_usage"),
    (-5, "no_usage"),
    ({"prompt_tokens": 0, "completion_tokens": 7}, "no_input"),
    (10**30, "out_of_range"),
    ({"prompt_tokens": 5, "completion_tokens": 2**40}, "out_of_range"),
    (PARTIAL, "partial"),
    (STREAM[:120], "partial"),
    (gzip.compress(STREAM[:120]), "partial"),
    (dataclasses.replace(PARTIAL, is_partial=False, is_scaled=True), "scaled"),
    ({"error": {"message": "no"}}, "failed"),
    (b'{"error": {"message": "no"}}', "failed"),
    (b"", "no_usage"),
    (b"\x28\xb5\x2f\xfd", "unreadable"),
    (json.dumps(RESPONSE)[:-5], "unreadable"),
    (b"[" * 100_000, "unreadable"),
    (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "unreadable"),
    (gzip.compress(b"")[:8] + b"\0\0 no deflate at all", "unreadable"),
    (gzip.compress(b"\0" * (8 << 20)), "too_large"),
    (b" " * (17 << 20), "too_large"),
]


@pytest.mark.parametrize(("usage", "reason"), UNRECORDED, ids=range(len(UNRECORDED)))
def test_what_is_not_recorded_says_why_and_is_counted(usage: Any, reason: str) -> None:
    estimator = tokenctx.HybridTokenEstimator()
    before = estimator.stats()
    event = estimator.record_event(REQUEST, usage)
    assert event == NotRecorded(reason)  # type: ignore[arg-type]
    assert not event
    changed = {name for name, count in estimator.stats().items() if count != before[name]}
    assert changed - {"lookup_misses", "learned_models"} == {f"not_recorded_{reason}"}
    assert len(estimator) == 0
    assert not ContextWindow("gpt-4o").record(REQUEST, usage)
    assert not ContextWindow("gpt-4o").record_usage(usage)


def test_a_request_without_messages_is_not_recorded() -> None:
    estimator = tokenctx.HybridTokenEstimator()
    assert estimator.record_event({"messages": []}, 5) == NotRecorded("no_messages")
    assert estimator.stats()["not_recorded_no_messages"] == 1


REPLIES: list[tuple[Any, Any, str | None]] = [
    (REPLY, USAGE, None),
    ({"items": [REPLY]}, USAGE, None),
    ({"output": [REPLY]}, USAGE, None),
    ({"content": "Dust."}, USAGE, None),
    ({"role": "assistant", "content": []}, USAGE, None),
    (None, USAGE, None),
    ({"stuff": 1}, USAGE, "reply_not_understood"),
    ({"choices": [{"message": REPLY}, {"message": REPLY}]}, USAGE, "reply_not_understood"),
    (7, USAGE, "reply_not_understood"),
    (b"{", USAGE, "reply_unreadable"),
    ("Dust.", USAGE, "reply_unreadable"),
    (gzip.compress(b"\0" * (8 << 20)), USAGE, "reply_unreadable"),
    (b'data: {"choices":[]}\n\n', USAGE, "reply_missing"),
    (UsageReader(), USAGE, "reply_unreadable"),
    (REPLY, {"prompt_tokens": 13}, "reply_without_output"),
    (None, {"usage": USAGE}, None),
    (None, {"usage": USAGE, "choices": []}, None),
]


@pytest.mark.parametrize(("reply", "usage", "reason"), REPLIES, ids=range(len(REPLIES)))
def test_a_reply_of_which_nothing_is_used_says_why(reply: Any, usage: Any, reason: Any) -> None:
    estimator = tokenctx.HybridTokenEstimator()
    event: Any = estimator.record_event(REQUEST, usage, reply=reply)
    assert (event.billed_tokens, event.reply_reason) == (13, reason)
    counts = {name: estimator.stats()[name] for name in REPLY_REASONS}
    assert counts == {name: int(name == reason) for name in REPLY_REASONS}
    assert estimator.estimate(REQUEST).tokens == 13


@pytest.mark.parametrize("unit", ["{},", '{"a":1},', "[],"])
def test_an_answer_of_many_small_objects_is_not_read(unit: str) -> None:
    """It would take a hundred times its bytes."""
    usage = '"usage":{"prompt_tokens":5,"completion_tokens":1}'
    answer = f'{{"x":[{unit * (1 << 18)}1],{usage}}}'.encode()
    event = tokenctx.HybridTokenEstimator().record_event(REQUEST, answer)
    assert getattr(event, "reason", None) == "too_large"
    reader = UsageReader()
    reader.feed(b"data: " + answer + b"\n\n")
    reader.finish()
    assert reader.reason == "too_large"


def test_a_callback_that_raises_is_logged_once_and_breaks_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("canary")

    estimator = tokenctx.HybridTokenEstimator(on_accuracy=fail)
    scaler = tokenctx.ContextWindowScaler(128_000, on_usage=fail)
    with caplog.at_level(logging.DEBUG):
        assert all(estimator.record(REQUEST, 13) for _ in range(3))
        assert b"".join(scaler.scale_stream([STREAM]))
        assert scaler.scale(5).real.input_tokens == 5
    assert (estimator.stats()["failed_callbacks"], scaler.failed_callbacks) == (3, 2)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "RuntimeError" in caplog.text
    assert "canary" not in caplog.text


def test_an_event_tells_what_the_estimate_was_made_of() -> None:
    events: list[AccuracyEvent] = []
    estimator = tokenctx.HybridTokenEstimator(on_accuracy=events.append)
    estimator.record(REQUEST, RESPONSE, tenant="acme")
    longer = next_turn(REQUEST, REPLY)
    before = estimator.estimate(longer, tenant="acme")  # 13 and 2 were billed, 4 are around a reply
    event = estimator.record_event(longer, 30, tenant="acme")
    assert events[1] is event
    assert events[1].estimate == before
    assert (before.model, before.dialect, before.known_tokens) == ("gpt-4o", "openai-chat", 19)
    assert (events[1].tenant, events[1].usage) == ("acme", Usage(uncached_input_tokens=30))


def documented(page: str, head: str) -> set[str]:
    """The words in the first column of the table below `head`."""
    text = (DOCS / page).read_text("utf-8").partition(head)[2]
    rows = re.search(r"\n\|.*\n\| ?-.*\n((?:\|.*\n)+)", text)
    assert rows is not None
    columns = [row.split("|")[1] for row in rows[1].splitlines()]
    return {word for column in columns for word in re.findall(r"`(\w+)`", column)}


def test_every_reason_and_number_is_documented() -> None:
    reasons = documented("usage.md", "## Why a call is not recorded")
    assert reasons == {*REASONS, *REPLY_REASONS}
    numbers = {f"not_recorded_{reason}" for reason in REASONS} | {*REPLY_REASONS}
    stats = tokenctx.HybridTokenEstimator().stats()
    assert numbers | {"failed_callbacks"} <= stats.keys()
    assert documented("operations.md", "## What an estimator reports") == {*stats}
    engine = tokenctx.HybridTokenEstimator()._engine
    assert isinstance(engine, _core.Engine)
    assert not engine.note("no such reason")
