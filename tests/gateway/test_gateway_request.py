"""What a gateway changes in a request, and what it tells from its path."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_calls import (
    BODIES,
    CHAT,
    MESSAGES,
    PATHS,
    Json,
    gateway,
    raw,
)
from tokenctx.context import ModelLimits
from tokenctx.convert import Dialect
from tokenctx.gateway.booking import may_be_served
from tokenctx.gateway.bounds import choices_of
from tokenctx.gateway.edits import OUTPUT_MEMBERS, BodyFields
from tokenctx.gateway.paths import endpoint_of


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
        room = WANTED if dialect.startswith("gemini") else 1000 - small.estimate.high
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


@pytest.mark.parametrize(
    ("body", "choices"),
    [
        (b"{}", 1),
        (b'{"n": 4}', 4),
        (b'{"\\u006e": 4}', 4),
        (b'{"n": true}', 1),
        (b'{"n": -4}', 1),
        (b'{"n": 100000}', 1024),
        (b'{"n": 4}{', 4),
        (b'{"best_of": 3, "n": 2}', 3),
        (b'{"contents": [{"args": {"n": 90}}]}', 1),
        (b'{"generationConfig": {"candidateCount": 3}}', 3),
        ({"generation_config": {"candidate_count": 3}}, 3),
    ],
)
def test_answers_side_by_side(body: Any, choices: int) -> None:
    assert choices_of(body) == choices


def test_an_error_of_another_attempt_gives_nothing_back() -> None:
    later, wrapped = KeyError(), RuntimeError()
    later.__context__ = ConnectionRefusedError()  # it was raised while that one was handled
    wrapped.__cause__ = ConnectionRefusedError()  # it was made of that one
    assert may_be_served(later)
    assert may_be_served(TimeoutError())
    assert not may_be_served(wrapped)
