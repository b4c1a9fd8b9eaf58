"""One request, one answer: of either implementation, as JSON text or as objects.

`HYPOTHESIS_PROFILE=explore` draws other requests at every run, `REQUESTS` says how many.
"""

from __future__ import annotations

import base64
import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import reference
import tokenctx
from reference.request import read_reply, read_request, reply_view, view
from strategies import arbitrary, replies, requests
from tokenctx import _core

REQUESTS = int(os.environ.get("REQUESTS", "20000"))
BATCH = 8
METHODS = ("profile", "profile", "universal", "characters")
# Drawing is what takes the time, and large requests are wanted.
thorough = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def clock() -> float:
    return 0.0


class Pair:
    """An estimator and a tracker of each implementation, which must answer alike."""

    def __init__(self, method: str) -> None:
        options: dict[str, Any] = {"secret": b"test", "clock": clock}
        both = (tokenctx, reference)
        self.estimators = [each.HybridTokenEstimator(method=method, **options) for each in both]
        self.trackers = [each.ConversationStateTracker(**options) for each in both]

    def same(self, name: str, *arguments: Any, **options: Any) -> Any:
        rust, reference = (getattr(each, name)(*arguments, **options) for each in self.estimators)
        assert rust == reference, name
        return rust

    def compare(self, body: Any, reply: Any, billed: tuple[int, int, int]) -> None:
        """Estimates before and after a record, a count, and digests."""
        self.same("estimate", body)
        self.same("count_request", body)
        tokens, output_tokens, reasoning_tokens = billed
        usage = {
            "prompt_tokens": tokens,
            "completion_tokens": output_tokens,
            "completion_tokens_details": {"reasoning_tokens": reasoning_tokens},
        }
        if self.same("record", body, usage, reply=reply):
            assert self.same("estimate", body).source == "exact"
        self.same("estimate", extended(body, reply))
        rust, reference = (
            tracker.record_actual(body, "family", tokens) for tracker in self.trackers
        )
        assert (rust is None) == (reference is None)
        if rust is not None:
            assert rust.message_hashes == reference.message_hashes
        rust, reference = (tracker.lookup(body, "family") for tracker in self.trackers)
        assert rust == reference


def extended(body: Any, reply: Any) -> Any:
    """`body` with the message in `reply` and another of the user, where it has a list for them."""
    new = [reply, {"role": "user", "content": "go on"}]
    if isinstance(body, list):
        return [*body, *new]
    for name in ("messages", "contents", "input"):
        if isinstance(body, dict) and isinstance(body.get(name), list):
            return {**body, name: [*body[name], *new]}
    return body


def as_value(body: Any) -> Any:
    """`body`, which would be read as JSON text if it were a string."""
    return [body] if isinstance(body, str) else body


def refusal(read: Any, body: Any) -> tuple[str, Any]:
    try:
        return "", read(body)
    except tokenctx.Error as error:
        return type(error).__name__, None


def same_view(body: Any) -> None:
    rust = refusal(lambda body: json.loads(_core._request_view(body)), body)
    assert rust == refusal(lambda body: view(read_request(body)), body)


def with_bytes(value: Any) -> Any:
    """`value` with media as bytes, as SDKs hold them, where their text is base64."""
    if isinstance(value, list):
        return [with_bytes(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: with_bytes(item) for key, item in value.items()}
    for key in ("data", "bytes"):
        if isinstance(made.get(key), str):
            try:
                made[key] = base64.b64decode(made[key], validate=True)
            except ValueError:
                continue
    return made


def test_generated_requests_are_read_and_counted_alike() -> None:
    pairs = {method: Pair(method) for method in METHODS}
    compared = 0

    # To shrink a batch takes minutes; the body that failed is small and in the message.
    @settings(thorough, max_examples=-(-REQUESTS // BATCH), phases=[Phase.generate])
    @given(
        st.lists(requests(), min_size=BATCH, max_size=BATCH),
        replies(),
        st.tuples(st.integers(0, 5000), st.integers(0, 500), st.integers(0, 600)),
        st.sampled_from(METHODS),
    )
    def compare(batch: list[Any], reply: Any, billed: tuple[int, int, int], method: str) -> None:
        nonlocal compared
        for body in map(as_value, batch):
            text = json.dumps(body)
            same_view(body)
            assert _core._request_view(text) == _core._request_view(body)
            assert _core._request_view(text.encode()) == _core._request_view(body)
            same_view(with_bytes(body))
            try:
                pairs[method].compare(body, as_value(reply), billed)
            except AssertionError as error:
                raise AssertionError(f"{error} differs: {body!r}, reply {reply!r}") from None
            compared += 1

    compare()
    assert compared >= REQUESTS


@settings(thorough, max_examples=2000)
@given(replies())
def test_replies_are_read_alike(reply: Any) -> None:
    reply = as_value(reply)
    view = json.loads(_core._reply_view(reply))
    assert view == reply_view(read_reply(reply))
    assert view == json.loads(_core._reply_view(json.dumps(reply)))


@settings(thorough, max_examples=500)
@given(requests(), st.sampled_from(["gpt-4o", "claude-5", "", "what"]), st.data())
def test_the_model_and_dialect_of_the_caller_are_read_alike(
    body: Any, model: str, data: st.DataObject
) -> None:
    dialects = ["openai-chat", "openai-responses", "anthropic", "gemini", "vscode"]
    dialect: Any = data.draw(st.sampled_from([*dialects, "bedrock-converse", None]))
    body = as_value(body)
    rust = json.loads(_core._request_view(body, model=model, dialect=dialect))
    assert rust == view(read_request(body, model=model, dialect=dialect))
    estimate = Pair("profile").same("estimate", body, model=model, dialect=dialect)
    assert estimate.model == model
    assert dialect in (None, estimate.dialect)


@settings(thorough, max_examples=500)
@given(arbitrary)
@pytest.mark.parametrize("module", [tokenctx, reference], ids=["rust", "reference"])
def test_any_json_value_gives_a_number(module: Any, value: Any) -> None:
    estimator = module.HybridTokenEstimator()
    value = as_value(value)
    estimate = estimator.estimate(value)
    assert 0 <= estimate.low <= estimate.tokens <= estimate.high
    assert estimator.count_request(json.dumps(value)).tokens == estimate.tokens
    assert estimator.estimate_conversation(value, "gpt-4o").tokens >= 0
    assert estimator.estimate_message(value, "gpt-4o") >= 0


@settings(thorough, max_examples=500)
@given(st.text(max_size=30) | st.binary(max_size=30))
def test_any_text_is_read_or_refused_alike(text: str | bytes) -> None:
    same_view(text)


@pytest.mark.parametrize("edit", ["change", "cut", "remove", "insert"])
@settings(thorough, max_examples=200)
@given(body=requests(), at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_damaged_json_is_read_or_refused_alike(edit: str, body: Any, at: int, byte: int) -> None:
    text = bytearray(json.dumps(body).encode())
    at %= len(text)
    if edit == "insert":
        text.insert(at, byte)
    elif edit == "change":
        text[at] = byte
    else:
        del text[at : None if edit == "cut" else at + 1]
    same_view(bytes(text))
