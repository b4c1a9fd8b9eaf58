"""What a conversion is asked and what it answers, its policies, and hostile input."""

from __future__ import annotations

import json
import logging
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conversion_cases import HIDDEN, USER, call, calls, chat, claude, result
from conversion_law import DIALECTS
from conversion_table import FILE, page
from strategies import is_request
from tokenctx import HybridTokenEstimator, RequestError, convert_messages
from tokenctx.convert import ConversionError, ConversionOptions, convert_response
from tokenctx.convert.conversion import differences
from tokenctx.convert.notes import FAULTS, KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

ESTIMATOR = HybridTokenEstimator()

# ------------------------------------------------------------------------------ the interface


def test_a_request_and_a_list_of_messages_are_taken() -> None:
    whole = convert_messages(chat({"role": "system", "content": "be kind"}, USER), to="anthropic")
    assert whole.body == {
        "model": "gpt-4o",
        "max_tokens": 4096,
        "system": "be kind",
        "messages": [USER],
    }
    assert (whole.source, whole.dialect) == ("openai-chat", "anthropic")
    bare = convert_messages([{"role": "system", "content": "be kind"}, USER], to="gemini")
    assert bare.messages == [{"role": "user", "parts": [{"text": "hello"}]}]
    assert bare.body["systemInstruction"] == {"parts": [{"text": "be kind"}]}
    assert not bare.losses


@pytest.mark.parametrize("make", [json.dumps, lambda body: json.dumps(body).encode(), dict])
def test_text_bytes_and_dicts_are_one(make: Any) -> None:
    body = chat(USER, temperature=0.5)
    assert convert_messages(make(body), to="gemini") == convert_messages(body, to="gemini")


def test_the_input_is_not_changed() -> None:
    body = chat(calls(call("a"), call("a")), USER, tools=[{"type": "function", "function": {}}])
    before = json.dumps(body)
    for target in DIALECTS:
        convert_messages(body, to=target)
    assert json.dumps(body) == before


def test_unknown_fields_keep_value_and_order_in_their_own_dialect() -> None:
    text = (
        '{"z":1,"model":"m","messages":[{"x":[1,{"b":1,"a":2}],"role":"user","content":'
        '[{"new":1,"type":"text","text":"hi","y":null},{"type":"brand_new"}]}],"a":{"k":1.50}}'
    )
    for source in ("openai-chat", "anthropic", "ai-sdk"):
        conversion = convert_messages(text, to=source, source=source)
        assert json.dumps(conversion.body) == json.dumps(json.loads(text))
        assert conversion.losses == ()


@pytest.mark.parametrize("value", ["", "{", "nope", b"\xff", "1", None, 5])
def test_what_is_no_request_is_refused(value: Any) -> None:
    with pytest.raises(RequestError) as caught:
        convert_messages(value, to="anthropic")
    assert "nope" not in str(caught.value)


@pytest.mark.parametrize("opened", ["[", '{"a":'])
def test_depth_is_refused_not_crashed(opened: str) -> None:
    closed = "]" if opened == "[" else "}"
    deep = opened * 100_000 + "1" + closed * 100_000
    with pytest.raises(RequestError, match="deep"):
        convert_messages('{"messages":' + deep + "}", to="anthropic")
    arguments = chat(calls(call("a", arguments=deep)), result("a"))
    conversion = convert_messages(arguments, to="anthropic")
    assert conversion.body["messages"][0]["content"][0]["input"] == {"invalid_json": deep}


def test_names_are_checked() -> None:
    with pytest.raises(ValueError, match="to is 'claude'; it must be one of openai-chat"):
        convert_messages(chat(USER), to="claude")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="source is 'x'"):
        convert_messages(chat(USER), to="gemini", source="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="policy is 'ignore'"):
        ConversionOptions(policy="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="image_in_non_user_message is 'drop'"):
        ConversionOptions(image_in_non_user_message="drop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="policies has"):
        ConversionOptions(policies={"form": "error"})


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ("openai-chat", chat(USER)),
        ("openai-chat", chat(calls(call("a")))),
        ("anthropic", {"messages": [USER], "system": "x"}),
        ("anthropic", claude({"role": "user", "content": [{"type": "tool_result"}]})),
        ("gemini", {"contents": []}),
        ("openai-responses", {"input": "hi"}),
        ("openai-responses", [{"type": "function_call_output", "call_id": "a", "output": ""}]),
        ("ai-sdk", {"messages": [USER], "instructions": "x"}),
        ("ai-sdk", [{"role": "tool", "content": [{"type": "tool-result"}]}]),
        ("vscode", [{"role": 1, "content": [{"value": "hi"}]}]),
    ],
)
def test_the_dialect_is_detected(source: str, body: Any) -> None:
    assert convert_messages(body, to="ai-sdk").source == source


NOTHING: set[str] = set()
GUESSED = {"dialect_guessed"}


def marked(text: str) -> Any:
    block = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
    return {"role": "user", "content": [block]}


@pytest.mark.parametrize(
    ("dialect", "guessed", "body"),
    [
        ("openai-chat", NOTHING, chat(marked("a"), calls(call("a")), result("a"))),
        ("openai-chat", NOTHING, chat(marked("a"), result("a"))),
        ("openai-chat", NOTHING, chat(marked("a"), tools=[{"type": "function", "function": {}}])),
        ("openai-chat", NOTHING, {"model": "gpt-4o", "messages": [marked("a")]}),
        ("openai-chat", GUESSED, {"model": "mistral-small", "messages": [marked("a")]}),
        ("anthropic", GUESSED, {"model": "claude-sonnet-4-5", "messages": [marked("a")]}),
        ("anthropic", NOTHING, {"system": "s", "messages": [marked("a")]}),
        ("anthropic", GUESSED, {"model": "gpt-4o", "system": "s", "messages": [USER]}),
        ("openai-chat", NOTHING, {"model": "claude-sonnet-4-5", "messages": [USER]}),
        ("bedrock-converse", NOTHING, {"messages": [{"role": "user", "content": [{"audio": {}}]}]}),
    ],
)
def test_evidence_is_weighed_by_counter_and_converter_alike(
    dialect: str, guessed: set[str], body: dict[str, Any]
) -> None:
    counted = ESTIMATOR.estimate(body)
    assert (counted.dialect, GUESSED & {*counted.assumptions}) == (dialect, guessed)
    if dialect != "bedrock-converse":
        converted = convert_messages(body, to="ai-sdk")
        notes = {note.kind for note in converted.warnings}
        assert (converted.source, GUESSED & notes) == (dialect, guessed)


OPTIONS: dict[str, dict[str, Any]] = {
    "openai-chat": {"response_format": {"type": "text"}, "max_completion_tokens": 5, "n": 1},
    "anthropic": {"stop_sequences": ["x"], "metadata": {"user_id": "u"}, "top_k": 4},
    "openai-responses": {"store": True, "include": [], "truncation": "disabled"},
    "gemini": {"safetySettings": [], "generationConfig": {"temperature": 1}},
    "bedrock-converse": {"additionalModelRequestFields": {}, "performanceConfig": {}},
}


def requests_of_the_tests() -> Iterator[dict[str, Any]]:
    for path in sorted((Path(__file__).parents[1] / "data/requests").glob("[!rg]*.json")):
        for case in json.loads(path.read_text("utf-8")):
            if isinstance(case["body"], dict) and case["view"]["dialect"] == path.stem:
                yield case


def test_options_of_other_dialects_do_not_change_the_dialect() -> None:
    for case in requests_of_the_tests():
        body, dialect = case["body"], case["view"]["dialect"]
        if not is_request(body) or "dialect" in case or ESTIMATOR.estimate(body).dialect != dialect:
            continue
        for other, options in OPTIONS.items():
            if other != dialect:
                found = ESTIMATOR.estimate({**options, **body}).dialect
                assert found == dialect, (case["name"], other)


def test_sdk_objects_are_taken_as_they_are() -> None:
    from anthropic.types import Message as ClaudeMessage
    from google.genai import types
    from openai.types.chat import ChatCompletionMessage

    answer = ChatCompletionMessage.model_validate(calls(call("a", arguments='{"x": 1}')))
    conversion = convert_messages(chat(USER, answer, result("a")), to="anthropic")
    block = {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}
    assert conversion.body["messages"][1]["content"] == [block]
    reply = ClaudeMessage.model_validate(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [{"type": "text", "text": "hi"}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )
    messages = [USER, {"role": "assistant", "content": reply.content}]
    conversion = convert_messages(claude(*messages), to="openai-chat", source="anthropic")
    assert conversion.messages[1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "hi"}],
    }
    content = types.Content(
        role="model", parts=[types.Part(text="hm", thought=True, thought_signature=b"\xff\xfe")]
    )
    conversion = convert_messages([content], to="ai-sdk")
    signature = {"google": {"thoughtSignature": "//4="}}
    part = {"type": "reasoning", "text": "hm", "providerOptions": signature}
    assert conversion.messages == [{"role": "assistant", "content": [part]}]


def test_notes_are_typed_located_and_without_text() -> None:
    part = {"type": "text", "text": HIDDEN, "cache_control": {"type": "ephemeral"}, HIDDEN: HIDDEN}
    body = claude({"role": "user", "content": [part]}, **{HIDDEN: HIDDEN})
    conversion = convert_messages(body, to="openai-chat")
    loss = next(loss for loss in conversion.losses if loss.kind == "cache_control")
    assert loss.path == ("messages", 0, "content", 0, "cache_control")
    assert loss.where == "messages[0].content[0].cache_control"
    assert str(loss) == f"{loss.where}: cache_control: {KINDS['cache_control']}"
    assert HIDDEN not in repr(conversion) + "".join(map(str, conversion.losses))
    assert pickle.loads(pickle.dumps(conversion)) == conversion  # noqa: S301


def test_the_logger_is_told_of_warnings_without_text(caplog: pytest.LogCaptureFixture) -> None:
    class Lines(list[str]):
        def warning(self, line: str) -> None:
            self.append(line)

    lines = Lines()
    body = chat(calls(call("a", HIDDEN, HIDDEN)), {"role": "user", "content": [{"type": HIDDEN}]})
    with caplog.at_level(logging.WARNING, "tokenctx"):
        convert_messages(body, to="anthropic", options=ConversionOptions(logger=lines))
        assert not caplog.records
        convert_messages(body, to="anthropic")
    assert {record.name for record in caplog.records} == {"tokenctx.convert"}
    assert any("messages[0].tool_calls[0]: unanswered_call" in line for line in lines)
    assert not [line for line in (*lines, caplog.text) if HIDDEN in line]


def test_the_table_in_the_docs_is_what_the_rules_say() -> None:
    assert FILE.read_text("utf-8") == page(), "python tests/rigs/conversion_table.py --write"


# ------------------------------------------------------------------------------ policies


FAULTY = {
    "unanswered_call": chat(USER, calls(call("a")), USER),
    "orphan_result": chat(USER, result("a", HIDDEN)),
    "duplicate_result": chat(calls(call("a")), result("a"), result("a", HIDDEN)),
    "duplicate_id": chat(calls(call("a")), result("a"), calls(call("a")), result("a")),
    "refused_id": chat(calls(call("a|b")), result("a|b")),
    "excess_marker": chat(
        *({"role": "user", "content": "x", "cache_control": {"type": HIDDEN}} for _ in range(5))
    ),
    "misplaced_result": chat(calls(call("a")), USER, result("a", HIDDEN)),
    "invalid_arguments": chat(calls(call("a", arguments=HIDDEN)), result("a")),
    "unknown_part": chat({"role": "user", "content": [{"type": HIDDEN, "text": HIDDEN}]}),
    "unknown_message": chat(HIDDEN),
    "unknown_role": chat({"role": HIDDEN, "content": "x"}),
    "field": chat(USER, **{HIDDEN: HIDDEN}),
    "option": chat(USER, seed=5),
}


@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_every_fault_can_be_refused_without_its_text(kind: str) -> None:
    options = ConversionOptions(policies={kind: "error"})
    with pytest.raises(ConversionError) as caught:
        convert_messages(FAULTY[kind], to="anthropic", options=options)
    assert caught.value.kind == kind
    assert f"the policy for {kind} is 'error'" in str(caught.value)
    assert HIDDEN not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301
    for policy in ("repair", "keep"):
        convert_messages(FAULTY[kind], to="anthropic", options=ConversionOptions(policy=policy))


def test_nothing_raises_in_the_default_mode() -> None:
    for body in FAULTY.values():
        for target in DIALECTS:
            assert convert_messages(body, to=target).body


# ------------------------------------------------------------------------------ hostile input


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("target", DIALECTS)
def test_depth_in_objects_is_carried_or_refused(target: Any) -> None:
    """Values that are only passed on may be as deep as they like; only their text is refused."""
    deep = nested(50_000)
    part = {"type": "text", "text": "x", "new": deep}
    tools = [{"type": "function", "function": {"name": "f", "parameters": deep}}]
    conversion = convert_messages(chat({"role": "user", "content": [part]}, tools=tools), to=target)
    assert bool(conversion.losses) == (target != "openai-chat")
    arguments = {"name": "f", "arguments": deep}
    body = chat(calls({"id": "a", "type": "function", "function": arguments}), result("a"))
    if target == "openai-responses":
        with pytest.raises(RequestError, match="deep"):
            convert_messages(body, to=target)


@pytest.mark.parametrize("target", DIALECTS)
def test_results_in_results_are_no_recursion(target: Any) -> None:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
    for _ in range(5_000):
        block = {"type": "tool_result", "tool_use_id": "a", "content": [block]}
    body = claude({"role": "user", "content": [block]})
    assert convert_messages(body, to=target, source="anthropic").losses


def test_what_holds_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    tool = {"functionDeclarations": [{"name": "f", "parameters": loop}]}
    twofold: dict[str, Any] = {"contents": [], "tools": [{"functionDeclarations": []}]}
    twofold["tools"] += [twofold, twofold]
    for body in (
        chat(USER, x=loop),
        chat(calls(call("a") | {"function": loop})),
        {"contents": [], "tools": [tool]},
        twofold,
        chat(USER, x=[loop, object()]),  # such an object makes it be copied
    ):
        with pytest.raises(RequestError, match="holds itself") as refused:
            convert_messages(body, to="openai-responses")
        assert refused.value.code == "too_deep"


@pytest.mark.parametrize("key", [(1,), object(), 10**5000], ids=("tuple", "object", "int"))
def test_a_key_that_json_cannot_write_is_refused_before_anything_is_made(key: Any) -> None:
    message = calls(call("a"))
    message["tool_calls"][0]["function"]["arguments"] = {"a": {key: 1}}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    for convert, body in ((convert_response, answer), (convert_messages, chat(USER, x={key: 1}))):
        with pytest.raises(RequestError, match="a key is ") as refused:
            convert(body, to="gemini")
        assert refused.value.code == "syntax"


def test_keys_that_are_scalars_are_written_as_json_writes_them() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {1: {None: {True: 2.5}}}}}
    converted = convert_messages(chat(USER, tools=[tool]), to="gemini")
    declared = converted.body["tools"][0]["functionDeclarations"][0]
    assert declared["parametersJsonSchema"] == {"1": {"null": {"true": 2.5}}}


def test_losses_never_raise_however_deep_what_is_written_again() -> None:
    """Around some depth the way there succeeds and the way back does not."""
    limit = sys.getrecursionlimit()
    for depth in range(limit - 150, limit + 10, 2):
        arguments = '{"a":' + depth * "[" + depth * "]" + "}"
        body = chat(USER, calls(call("a", arguments=arguments)), result("a"))
        try:
            converted = convert_messages(body, to="gemini")
        except RequestError:
            continue
        assert {loss.kind for loss in converted.losses} <= {"unverified", "form"}
    twice = {"same": object()}
    assert convert_messages(chat(USER, x=[twice, twice]), to="gemini").messages


ODD = [
    chat({**USER, "cache_control": "ephemeral"}),
    {
        "messages": [
            {"role": "tool", "content": [{"type": "tool-result", "output": {"type": []}}]},
            {"role": "user", "content": [{"type": "file", "data": {"type": {}}, "mediaType": "a"}]},
        ]
    },
    {
        "messages": [
            {"role": "tool", "content": [[{}], {"type": "tool-result", "output": {"type": "json"}}]}
        ]
    },
]


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("body", ODD)
def test_values_of_another_kind_than_documented_do_not_raise(body: Any, target: Any) -> None:
    for source in DIALECTS:
        found = convert_messages(body, to=target, source=source)
        assert found.losses or found.warnings or target == source


def test_losses_do_not_depend_on_the_hashes_of_names() -> None:
    # Both fields stand under one path that no name goes into: the one of the input names the loss.
    found = list(differences({"error": "x", "a": 1}, {"output": "x", "b": 1}))
    assert found == [
        ("form", ("error",)),
        ("form", ("a",)),
        ("added", ("output",)),
        ("added", ("b",)),
    ]
