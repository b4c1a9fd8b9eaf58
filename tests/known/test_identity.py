"""What makes two messages one, and what does not."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

import tokenctx
from reference import digest as digests
from talk import BASE64, FAMILY, PNG, URL_SAFE, assistant, picture, talk, user
from tokenctx import _core


def digest(message: object) -> str:
    tracker = tokenctx.ConversationStateTracker(secret=b"test")
    state = tracker.record_actual([message], FAMILY, 1)
    assert state is not None
    (only,) = state.message_hashes
    return str(only)


def call(arguments: Any, call_id: str = "call_1", name: str = "search") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def image(data: Any, mime: str = "image/png") -> dict[str, Any]:
    source = {"type": "base64", "media_type": mime, "data": data}
    return user([{"type": "image", "source": source}])


def editor(*parts: dict[str, Any]) -> dict[str, Any]:
    """A message of the VS Code language model API."""
    return {"role": 1, "content": list(parts)}


def block(kind: str, **fields: Any) -> dict[str, Any]:
    return assistant([{"type": kind, **fields}])


def result(content: Any, **fields: Any) -> dict[str, Any]:
    return user([{"type": "tool_result", "tool_use_id": "1", "content": content, **fields}])


assert BASE64 != URL_SAFE

SAME = {
    "an OpenAI call id": (call("{}", "call_1"), call("{}", "call_2")),
    "an Anthropic call id": (
        block("tool_use", id="1", name="f", input={"a": 1}),
        block("tool_use", id="2", name="f", input={"a": 1}),
    ),
    "the id of a result": (
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
        {"role": "tool", "tool_call_id": "2", "content": "ok"},
    ),
    "an editor's call id": (
        editor({"callId": "1", "name": "f", "input": {}}),
        editor({"callId": "2", "name": "f", "input": {}}),
    ),
    "the id of a Responses item": (
        {"type": "function_call", "id": "fc_1", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "id": "fc_2", "call_id": "2", "name": "f", "arguments": "{}"},
    ),
    "a cache marker on text": (
        user([{"type": "text", "text": "hi"}]),
        user([{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]),
    ),
    "a cache marker on an image": (
        image(BASE64),
        user([{**image(BASE64)["content"][0], "cache_control": {"type": "ephemeral"}}]),
    ),
    "a cache point of Converse": (
        user([{"text": "hi"}]),
        user([{"text": "hi"}, {"cachePoint": {"type": "default"}}]),
    ),
    "a cache marker of an editor": (
        editor({"value": "see [it](http://a)"}),
        editor({"value": "see [it](http://a)"}, {"mimeType": "cache_control", "data": b"x"}),
    ),
    "a stateful marker of an editor": (
        editor({"value": "hi"}),
        editor({"value": "hi"}, {"mimeType": "stateful_marker", "data": "bW9kZWw="}),
    ),
    "an editor's marshalling id": (
        editor({"$mid": 21, "value": "hi"}),
        editor({"$mid": 22, "value": "hi"}),
    ),
    "a marshalling id in a part of unknown kind": (
        editor({"$mid": 21, "shape": "round"}),
        editor({"$mid": 22, "shape": "round"}),
    ),
    "a signature": (
        block("thinking", thinking="so", signature="AAA"),
        block("thinking", thinking="so", signature="BBB"),
    ),
    "a thought signature": (
        {"role": "model", "parts": [{"text": "so", "thoughtSignature": "AAA"}]},
        {"role": "model", "parts": [{"text": "so"}]},
    ),
    "key order of arguments": (call('{"a":1,"b":[2]}'), call('{"b":[2],"a":1}')),
    "white space of arguments": (call('{"a":1}'), call(' {\n  "a" : 1\t}\n')),
    "arguments as text or as a value": (call('{"a":1}'), call({"a": 1})),
    "escapes of arguments": (call('{"a":"\\u00e9"}'), call('{"a":"é"}')),
    "key order of a result's own data": (result({"a": 1, "b": 2}), result({"b": 2, "a": 1})),
    "the alphabet of base64": (image(BASE64), image(URL_SAFE)),
    "padding of base64": (image(base64.b64encode(b"1234").decode()), image("MTIzNA")),
    "line ends in base64": (image(BASE64), image(BASE64[:20] + "\r\n" + BASE64[20:])),
    "raw bytes or base64": (image(BASE64), image(PNG)),
    "bytearray or bytes": (image(bytearray(PNG)), image(memoryview(PNG))),
    "parameters and case of a MIME type": (
        image(BASE64, "image/png"),
        image(BASE64, "IMAGE/PNG; q=1"),
    ),
    "a data URL in capitals": (
        picture(f"data:image/png;base64,{BASE64}"),
        picture(f"DATA:image/png;base64,{BASE64}"),
    ),
    "text as a string or as one part": (user("hi"), user([{"type": "text", "text": "hi"}])),
    "text in one part or in two": (
        user([{"type": "text", "text": "hi there"}]),
        user([{"type": "text", "text": "hi "}, {"type": "text", "text": "there"}]),
    ),
    "an empty text part": (user("hi"), user(["hi", {"type": "text", "text": ""}])),
    "no content or null": (assistant(None), {"role": "assistant"}),
    "the name of a role": (user("hi"), {"role": "human", "content": "hi"}),
    "key order of a message": (user("hi"), {"content": "hi", "role": "user"}),
    "a lone surrogate": (user("\ud800"), user("\ufffd")),
}


DIFFERENT = {
    "role": (user("hi"), assistant("hi")),
    "the role of an editor": (editor({"value": "hi"}), {**editor({"value": "hi"}), "role": 2}),
    "name": (user("hi", name="ann"), user("hi", name="bob")),
    "a name at all": (user("hi", name="ann"), user("hi")),
    "text": (user("hi"), user("hi ")),
    "the target of a link": (user("see [it](http://a)"), user("see [it](http://b)")),
    "Unicode form of text": (user("é"), user("e\u0301")),
    "the name of a tool": (call("{}", name="search"), call("{}", name="find")),
    "arguments": (call('{"a":1}'), call('{"a":2}')),
    "arguments of an Anthropic call": (
        block("tool_use", id="1", name="f", input={"a": 1}),
        block("tool_use", id="1", name="f", input={"a": 2}),
    ),
    "a number's kind in arguments": (call('{"a":1}'), call('{"a":"1"}')),
    "white space inside of an argument": (call('{"a":"b c"}'), call('{"a":"b  c"}')),
    "the number of calls": (call("{}"), {**call("{}"), "tool_calls": call("{}")["tool_calls"] * 2}),
    "a result": (result("sunny"), result("rainy")),
    "a result's own data": (result({"ok": 1}), result({"ok": 2})),
    "a result of an OpenAI tool": (
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
        {"role": "tool", "tool_call_id": "1", "content": "no"},
    ),
    # Both generations of the systems before us hashed every real tool result alike.
    "a result of an editor's tool": (
        editor({"callId": "1", "content": [{"value": "sunny"}]}),
        editor({"callId": "1", "content": [{"value": "rainy"}]}),
    ),
    "a failed result": (result("x"), result("x", is_error=True)),
    "a call and a result": (
        editor({"callId": "1", "name": "f", "content": []}),
        editor({"callId": "1", "name": "f", "input": []}),
    ),
    "bytes of an image": (image(PNG), image(PNG[:-1] + b"!")),
    # The middle of a large file counts too: there, only its two ends were hashed.
    "the middle of a large image": (
        image(PNG + b"a" * 5000 + b"1" + b"b" * 5000),
        image(PNG + b"a" * 5000 + b"2" + b"b" * 5000),
    ),
    "the place of an image": (picture("https://a/1.png"), picture("https://a/2.png")),
    "the type of an image": (image(BASE64, "image/png"), image(BASE64, "image/webp")),
    "detail of an image": (
        user([{"type": "image_url", "image_url": {"url": "https://a", "detail": "low"}}]),
        user([{"type": "image_url", "image_url": {"url": "https://a", "detail": "high"}}]),
    ),
    "an image more": (
        editor({"value": "hi"}),
        editor({"value": "hi"}, {"mimeType": "image/png", "data": PNG}),
    ),
    "reasoning": (block("thinking", thinking="so"), block("thinking", thinking="no")),
    "encrypted reasoning": (
        block("redacted_thinking", data="AAA"),
        block("redacted_thinking", data="BBB"),
    ),
    "text and reasoning": (block("thinking", thinking="so"), block("text", text="so")),
    "the order of parts": (
        user([image(PNG)["content"][0], {"type": "text", "text": "hi"}]),
        user([{"type": "text", "text": "hi"}, image(PNG)["content"][0]]),
    ),
    "text on both sides of a part": (
        user(["a", image(PNG)["content"][0], "b"]),
        user(["ab", image(PNG)["content"][0]]),
    ),
    "a part of unknown kind": (
        editor({"shape": "round"}),
        editor({"shape": "square"}),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_what_the_model_never_sees_does_not_change_identity(name: str) -> None:
    one, other = SAME[name]
    assert digest(one) == digest(other)


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_the_model_sees_changes_identity(name: str) -> None:
    one, other = DIFFERENT[name]
    assert digest(one) != digest(other)


@pytest.mark.parametrize("name", [*SAME, *DIFFERENT])
def test_a_digest_is_made_of_what_was_read(name: str) -> None:
    key = digests.derive_key(b"test")
    for message in {**SAME, **DIFFERENT}[name]:
        (read,) = json.loads(_core._request_view([message]))["messages"]
        assert digest(message) == digests.message_digest(key, read).hex()


def test_digests_of_another_secret_never_match() -> None:
    trackers = [tokenctx.ConversationStateTracker() for _ in range(2)]
    states: list[Any] = [tracker.record_actual(talk("A"), FAMILY, 1) for tracker in trackers]
    assert states[0].message_hashes != states[1].message_hashes
    known = [tokenctx.ConversationStateTracker(secret=b"s") for _ in range(2)]
    states = [tracker.record_actual(talk("A"), FAMILY, 1) for tracker in known]
    assert states[0].message_hashes == states[1].message_hashes
