"""Requests as they come, whole or damaged: what holds for each of them.

`HYPOTHESIS_PROFILE=explore` draws other requests at every run, `REQUESTS` says how many.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import tokenctx
from request_laws import Laws, as_value, one_document
from strategies import arbitrary, is_request, replies, requests
from tokenctx import _core

REQUESTS = int(os.environ.get("REQUESTS", "20000"))
BATCH = 8
METHODS = ("profile", "profile", "universal", "characters")
# Drawing is what takes the time, and large requests are wanted.
thorough = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.slow
def test_generated_requests_obey_the_laws() -> None:
    laws = {method: Laws(method) for method in METHODS}
    checked = 0

    # To shrink a batch takes minutes; the body that failed is small and in the message.
    @settings(thorough, max_examples=-(-REQUESTS // BATCH), phases=[Phase.generate])
    @given(
        st.lists(requests(), min_size=BATCH, max_size=BATCH),
        replies(),
        st.tuples(st.integers(0, 5000), st.integers(0, 500), st.integers(0, 600)),
        st.sampled_from(METHODS),
    )
    def check(batch: list[Any], reply: Any, billed: tuple[int, int, int], method: str) -> None:
        nonlocal checked
        for body in map(as_value, batch):
            if not is_request(body):
                checked += 1  # which other tests look at
                continue
            try:
                laws[method].check(body, as_value(reply), billed)
            except AssertionError as error:
                raise AssertionError(f"{error} of {body!r}, reply {reply!r}") from None
            checked += 1

    check()
    assert checked >= REQUESTS


@pytest.mark.slow
@settings(thorough, max_examples=2000)
@given(replies())
def test_replies_are_read_the_same_from_text_and_from_objects(reply: Any) -> None:
    reply = as_value(reply)
    view = _core._reply_view(reply)
    assert view == _core._reply_view(json.dumps(reply))
    for message in json.loads(view):
        assert message.keys() - {"unread"} == {"role", "name", "parts"}


@pytest.mark.slow
@settings(thorough, max_examples=500)
@given(requests(), st.sampled_from(["gpt-4o", "claude-5", "", "what"]), st.data())
def test_the_model_and_dialect_of_the_caller_are_what_counts(
    body: Any, model: str, data: st.DataObject
) -> None:
    dialects = ["openai-chat", "openai-responses", "anthropic", "gemini", "vscode"]
    dialect: Any = data.draw(st.sampled_from([*dialects, "bedrock-converse", None]))
    body = as_value(body)
    assume(is_request(body))
    read = json.loads(_core._request_view(body, model=model, dialect=dialect))
    estimate = tokenctx.HybridTokenEstimator().estimate(body, model=model, dialect=dialect)
    assert estimate.model == read["model"] == model
    assert estimate.dialect == read["dialect"]
    assert dialect in (None, estimate.dialect)


@settings(thorough, max_examples=500)
@given(arbitrary)
def test_any_json_value_gives_a_number_or_is_no_request(value: Any) -> None:
    estimator = tokenctx.HybridTokenEstimator()
    value = as_value(value)
    if not is_request(value):
        with pytest.raises((TypeError, tokenctx.RequestError), match="messages"):
            estimator.estimate(value)
        return
    estimate = estimator.estimate(value)
    assert 0 <= estimate.low <= estimate.tokens <= estimate.high
    assert estimator.count_request(json.dumps(value)).tokens == estimate.tokens
    assert estimator.estimate_conversation(value, "gpt-4o").tokens >= 0
    assert estimator.estimate_message(value, "gpt-4o") >= 0


@pytest.mark.slow
@settings(thorough, max_examples=2000)
@given(requests())
def test_a_request_is_the_document_that_the_interpreter_reads(body: Any) -> None:
    one_document(as_value(body))
    one_document(json.dumps(body))
    one_document(json.dumps(body).encode())


@settings(thorough, max_examples=500)
@given(st.text(max_size=30) | st.binary(max_size=30))
def test_any_text_is_the_document_that_the_interpreter_reads_or_refused(
    text: str | bytes,
) -> None:
    one_document(text)


@pytest.mark.slow
@pytest.mark.parametrize("edit", ["change", "cut", "remove", "insert"])
@settings(thorough, max_examples=200)
@given(body=requests(), at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_damaged_json_is_the_document_that_the_interpreter_reads_or_refused(
    edit: str, body: Any, at: int, byte: int
) -> None:
    text = bytearray(json.dumps(body).encode())
    at %= len(text)
    if edit == "insert":
        text.insert(at, byte)
    elif edit == "change":
        text[at] = byte
    else:
        del text[at : None if edit == "cut" else at + 1]
    one_document(bytes(text))
