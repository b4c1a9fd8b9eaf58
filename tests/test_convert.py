"""What a conversion does, case by case; the cases of the seed systems are among them."""

from __future__ import annotations

import base64
import json
import logging
import pickle
from typing import Any

import pytest

import tokenctx
from conversion_law import DIALECTS
from conversion_table import FILE, page
from tokenctx import (
    ConversionError,
    ConversionOptions,
    RequestError,
    convert_messages,
    convert_response,
)
from tokenctx.convert.notes import FAULTS, KINDS
from tokenctx.convert.tools import NO_RESULT

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").decode()
PDF = base64.b64encode(b"%PDF-1.4\n%%EOF").decode()
USER = {"role": "user", "content": "hello"}
HIDDEN = "the secret text of a message"


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": list(messages), **fields}


def claude(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": list(messages), **fields}


def call(call_id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*items: dict[str, Any], content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(items)}


def result(call_id: str, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def kinds(conversion: tokenctx.Conversion) -> set[str]:
    """The kinds of losses that are more than another spelling."""
    return {loss.kind for loss in conversion.losses} - {"form", "added"}


def where(conversion: tokenctx.Conversion, kind: str) -> list[str]:
    return [loss.where for loss in conversion.losses if loss.kind == kind]


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
    assert FILE.read_text("utf-8") == page(), "python tests/conversion_table.py --write"


# ------------------------------------------------------------------------------ policies


FAULTY = {
    "unanswered_call": chat(USER, calls(call("a")), USER),
    "orphan_result": chat(USER, result("a", HIDDEN)),
    "duplicate_result": chat(calls(call("a")), result("a"), result("a", HIDDEN)),
    "duplicate_id": chat(calls(call("a")), result("a"), calls(call("a")), result("a")),
    "refused_id": chat(calls(call("a|b")), result("a|b")),
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


# ------------------------------------------------------------------------------ tools


def ids(messages: list[Any]) -> list[tuple[str, str]]:
    """Calls and results of an Anthropic body, in their order."""
    blocks = [block for message in messages for block in message["content"]]
    return [
        (block["type"], block.get("id") or block["tool_use_id"])
        for block in blocks
        if isinstance(block, dict) and block["type"] in {"tool_use", "tool_result"}
    ]


def test_parallel_results_are_one_message_in_their_order() -> None:
    body = chat(calls(call("a"), call("b")), result("b"), result("a"), USER)
    messages = convert_messages(body, to="anthropic").messages
    assert [message["role"] for message in messages] == ["assistant", "user", "user"]
    assert ids(messages)[2:] == [("tool_result", "b"), ("tool_result", "a")]
    back = convert_messages({"messages": messages}, to="openai-chat", source="anthropic")
    assert back.messages == body["messages"]


def test_an_unanswered_call_gets_an_error_result_right_behind_the_others() -> None:
    body = chat(calls(call("a"), call("b"), call("c")), result("b"), USER)
    conversion = convert_messages(body, to="anthropic")
    blocks = conversion.messages[1]["content"]
    assert [block["tool_use_id"] for block in blocks] == ["b", "a", "c"]
    assert blocks[1] == {
        "type": "tool_result",
        "tool_use_id": "a",
        "content": NO_RESULT,
        "is_error": True,
    }
    assert where(conversion, "unanswered_call") == [
        "messages[0].tool_calls[0]",
        "messages[0].tool_calls[2]",
    ]
    last = convert_messages(chat(calls(call("a"))), to="openai-chat")
    assert last.messages[-1]["content"] == NO_RESULT


def test_a_result_pairs_with_the_nearest_outstanding_call() -> None:
    """Ids repeat over a conversation: the result of the second turn answers the second call."""
    body = chat(calls(call("a", "f")), result("a", "1"), calls(call("a", "g")), result("a", "2"))
    conversion = convert_messages(body, to="gemini")
    names = [
        part["functionResponse"]["name"]
        for content in conversion.messages
        for part in content["parts"]
        if "functionResponse" in part
    ]
    assert names == ["f", "g"]
    found = ids(convert_messages(body, to="anthropic").messages)
    assert found == [
        ("tool_use", "a"),
        ("tool_result", "a"),
        ("tool_use", "a_1"),
        ("tool_result", "a_1"),
    ]


def test_the_first_of_two_results_wins() -> None:
    body = chat(calls(call("a")), result("a", "first"), result("a", "second"))
    conversion = convert_messages(body, to="anthropic")
    assert conversion.messages[1]["content"][0]["content"] == "first"
    assert where(conversion, "duplicate_result") == ["messages[2]"]


def test_a_result_without_call_is_dropped_or_kept_under_a_name() -> None:
    body = chat(USER, result("a"))
    conversion = convert_messages(body, to="ai-sdk")
    assert conversion.messages == [USER]
    assert where(conversion, "orphan_result") == ["messages[1]"]
    kept = convert_messages(body, to="ai-sdk", options=ConversionOptions(policy="keep"))
    assert kept.messages[1]["content"][0]["toolName"] == "unknown_tool"


def test_results_to_calls_on_the_server_stay_in_their_dialect() -> None:
    item = {"type": "function_call_output", "call_id": "a", "output": "ok"}
    body = {"previous_response_id": "resp_1", "input": [item]}
    assert convert_messages(body, to="openai-responses").body == body


def test_a_result_moves_behind_its_call() -> None:
    body = chat(calls(call("a")), {"role": "user", "content": "wait"}, result("a"))
    conversion = convert_messages(body, to="openai-chat")
    assert [message["role"] for message in conversion.messages] == ["assistant", "tool", "user"]
    assert "misplaced_result" in kinds(conversion)


@pytest.mark.parametrize(
    ("target", "long_id"),
    [("anthropic", "a|b"), ("openai-chat", "x" * 41), ("openai-responses", "y" * 65)],
)
def test_refused_ids_are_rewritten_on_both_sides(target: Any, long_id: str) -> None:
    part = {"toolCallId": long_id, "toolName": "f"}
    body = {
        "messages": [
            {"role": "assistant", "content": [{"type": "tool-call", **part, "input": {}}]},
            {
                "role": "tool",
                "content": [
                    {"type": "tool-result", **part, "output": {"type": "text", "value": "x"}}
                ],
            },
        ]
    }
    conversion = convert_messages(body, to=target)
    text = json.dumps(conversion.body)
    assert long_id not in text
    new_ids = [word for word in text.split('"') if word.startswith(f"{long_id[0]}") and "_" in word]
    assert len(new_ids) == 2
    assert len(set(new_ids)) == 1
    again = convert_messages(body, to=target)
    assert again.body == conversion.body


def test_gemini_needs_no_ids_and_gets_none_back() -> None:
    parts = [
        {"functionCall": {"name": "f", "args": {}}},
        {"functionCall": {"name": "f", "args": {}}},
    ]
    answers = [
        {"functionResponse": {"name": "f", "response": {"output": text}}} for text in ("1", "2")
    ]
    body = {
        "contents": [{"role": "model", "parts": parts}, {"role": "user", "parts": answers}],
    }
    for target in DIALECTS:
        there = convert_messages(body, to=target)
        back = convert_messages(there.body, to="gemini", source=target)
        assert back.body["contents"] == body["contents"]
        assert not kinds(there)


@pytest.mark.parametrize("arguments", ["{broken", "[1]", "null", '"text"', "3"])
@pytest.mark.parametrize("target", ["anthropic", "gemini", "ai-sdk"])
def test_arguments_that_are_no_object_are_kept_and_come_back(target: Any, arguments: str) -> None:
    body = chat(calls(call("a", arguments=arguments)), result("a"))
    there = convert_messages(body, to=target)
    assert [note.where for note in there.warnings if note.kind == "invalid_arguments"]
    back = convert_messages(there.body, to="openai-chat", source=target)
    assert back.messages == body["messages"]


def test_media_in_results_stay_where_they_may_and_follow_all_results_where_they_may_not() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    text = {"type": "text", "text": "seen"}
    uses = [{"type": "tool_use", "id": name, "name": "f", "input": {}} for name in "ab"]
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": [text, image]},
        {"type": "tool_result", "tool_use_id": "b", "content": "ok"},
    ]
    body = claude({"role": "assistant", "content": uses}, {"role": "user", "content": results})
    conversion = convert_messages(body, to="openai-chat")
    assert [message["role"] for message in conversion.messages] == [
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    assert conversion.messages[3]["content"][0]["image_url"]["url"].endswith(PNG)
    assert where(conversion, "media_moved") == ["messages[1].content[0].content[1]"]
    assert (
        convert_messages(body, to="openai-responses").messages[2]["output"][1]["type"]
        == "input_image"
    )
    response = convert_messages(body, to="gemini").messages[1]["parts"][0]["functionResponse"]
    assert response["parts"] == [{"inlineData": {"mimeType": "image/png", "data": PNG}}]
    output = convert_messages(body, to="ai-sdk").messages[1]["content"][0]["output"]
    assert output["value"][1]["data"] == {"type": "data", "data": PNG}


def test_json_results_and_error_flags_are_carried_or_named() -> None:
    output = {"type": "error-json", "value": {"code": 5}}
    part = {"toolCallId": "a", "toolName": "f"}
    body = {
        "messages": [
            {"role": "assistant", "content": [{"type": "tool-call", **part, "input": {}}]},
            {"role": "tool", "content": [{"type": "tool-result", **part, "output": output}]},
        ]
    }
    conversion = convert_messages(body, to="anthropic")
    block = conversion.messages[1]["content"][0]
    assert (block["content"], block["is_error"]) == ('{"code":5}', True)
    assert kinds(conversion) == {"json_as_text"}
    assert "error_flag" in kinds(convert_messages(body, to="openai-chat"))


def test_remote_media_of_parallel_results_follow_all_of_them() -> None:
    """As dexto does; but an empty user message, which it refuses, is dropped and reported here."""
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    uses = [{"type": "tool_use", "id": name, "name": "f", "input": {}} for name in "ab"]
    results = [{"type": "tool_result", "tool_use_id": name, "content": [image]} for name in "ab"]
    body = claude({"role": "assistant", "content": uses}, {"role": "user", "content": results})
    messages = convert_messages(body, to="openai-chat").messages
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user"]
    urls = [part["image_url"]["url"] for part in messages[-1]["content"]]
    assert urls == ["https://example.com/a.png"] * 2


# ------------------------------------------------------------------------------ system and order


def test_leading_system_messages_go_where_the_target_has_them() -> None:
    system = [{"role": "system", "content": "one"}, {"role": "developer", "content": "two"}]
    body = chat(*system, USER)
    assert convert_messages(body, to="anthropic").body["system"] == [
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two"},
    ]
    instructions = convert_messages(body, to="ai-sdk").body["instructions"]
    assert instructions == [{"role": "system", "content": text} for text in ("one", "two")]
    assert convert_messages(body, to="openai-responses").messages[:2] == system
    assert where(convert_messages(body, to="gemini"), "role") == ["messages[1].role"]


@pytest.mark.parametrize("target", ["gemini", "ai-sdk"])
def test_a_later_system_message_becomes_a_marked_user_message(target: Any) -> None:
    body = chat(USER, {"role": "system", "content": "now in French"}, USER)
    conversion = convert_messages(body, to=target)
    assert "<system>\\nnow in French\\n</system>" in json.dumps(conversion.messages)
    assert "system" not in {message["role"] for message in conversion.messages}
    assert where(conversion, "system_message") == ["messages[1]"]


def test_a_later_system_message_stays_where_it_may() -> None:
    body = chat(USER, {"role": "system", "content": "now in French"}, USER)
    assert convert_messages(body, to="anthropic").messages == body["messages"]
    assert convert_messages(body, to="openai-responses").messages == body["messages"]


@pytest.mark.parametrize("target", ["anthropic", "gemini", "ai-sdk"])
@pytest.mark.parametrize("content", ["", "  \n", [], None, [{"type": "text", "text": ""}]])
def test_empty_messages_are_dropped_where_they_are_refused(target: Any, content: Any) -> None:
    conversion = convert_messages(chat(USER, {"role": "assistant", "content": content}), to=target)
    assert len(conversion.messages) == 1
    assert where(conversion, "empty_message") == ["messages[1]"]


def test_roles_alternate_where_the_target_demands_it_or_the_caller_asks() -> None:
    body = chat(
        USER, USER, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}
    )
    conversion = convert_messages(body, to="gemini")
    assert [content["role"] for content in conversion.messages] == ["user", "model"]
    assert where(conversion, "merged") == ["messages[1]", "messages[3]"]
    assert len(convert_messages(body, to="anthropic").messages) == 4
    options = ConversionOptions(merge_adjacent=True)
    assert len(convert_messages(body, to="anthropic", options=options).messages) == 2


def test_a_beginning_of_the_answer_ends_without_white_space() -> None:
    body = chat(USER, {"role": "assistant", "content": "Once \n"})
    conversion = convert_messages(body, to="anthropic")
    assert conversion.messages[1]["content"] == "Once"
    assert where(conversion, "prefill") == ["messages[1].content"]


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
def test_a_beginning_of_the_answer_is_named_where_it_is_not_continued(target: Any) -> None:
    body = claude(USER, {"role": "assistant", "content": "Once"}, system="x")
    conversion = convert_messages(body, to=target)
    assert [note.where for note in conversion.warnings] == ["messages[1]"]
    assert {note.kind for note in conversion.warnings} == {"prefill"}


# ------------------------------------------------------------------------------ content


def media_of(body: Any) -> list[str]:
    """Kinds of media in a body, by what every dialect calls them."""
    text = json.dumps(body)
    return [word for word in (PNG, PDF, "https://example.com/a.png") if word in text]


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_images_and_pdfs_pass_between_all_dialects(source: Any, target: Any) -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {
            "type": "file",
            "file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "a"},
        },
    ]
    first = convert_messages(chat({"role": "user", "content": parts}), to=source)
    second = convert_messages(first.body, to=target, source=source)
    assert media_of(second.body) == [PNG, PDF, "https://example.com/a.png"]
    assert "media" not in kinds(second)


def test_uploads_are_known_to_their_maker_alone() -> None:
    body = chat({"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]})
    assert where(convert_messages(body, to="anthropic"), "media") == ["messages[0].content[0]"]
    there = convert_messages(body, to="ai-sdk")
    assert there.messages[0]["content"][0]["data"] == {"openai": "file-1"}
    assert (
        convert_messages(there.body, to="openai-chat", source="ai-sdk").messages == body["messages"]
    )


def test_what_a_target_does_not_take_becomes_a_line_of_text() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}
    conversion = convert_messages(chat({"role": "user", "content": [audio]}), to="anthropic")
    assert conversion.messages[0]["content"] == [{"type": "text", "text": "[Audio: audio/wav]"}]
    source = {"type": "text", "media_type": "text/plain", "data": "a document"}
    body = claude({"role": "user", "content": [{"type": "document", "source": source}]})
    conversion = convert_messages(body, to="openai-chat")
    assert conversion.messages[0]["content"] == [{"type": "text", "text": "a document"}]
    assert kinds(conversion) == {"media_as_text"}


ASSISTANT_IMAGE = {
    "messages": [
        {"role": "user", "content": "draw"},
        {"role": "assistant", "content": [{"type": "file", "data": PNG, "mediaType": "image/png"}]},
    ]
}


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses", "anthropic"])
def test_an_image_of_the_assistant_is_replaced_skipped_or_refused(target: Any) -> None:
    replaced = convert_messages(ASSISTANT_IMAGE, to=target, source="ai-sdk")
    assert "[Image]" in json.dumps(replaced.messages[1])
    assert "image_in_non_user_message" in kinds(replaced)
    options = ConversionOptions(image_in_non_user_message="skip")
    skipped = convert_messages(ASSISTANT_IMAGE, to=target, source="ai-sdk", options=options)
    assert "[Image]" not in json.dumps(skipped.messages)
    options = ConversionOptions(image_in_non_user_message="error")
    with pytest.raises(ConversionError, match=r"messages\[1\]\.content\[0\]"):
        convert_messages(ASSISTANT_IMAGE, to=target, source="ai-sdk", options=options)


def test_cache_markers_are_kept_or_named() -> None:
    cache = {"type": "ephemeral", "ttl": "1h"}
    part = {"type": "text", "text": "x", "cache_control": cache}
    tool = {"name": "f", "input_schema": {"type": "object"}, "cache_control": cache}
    body = claude({"role": "user", "content": [part]}, system=[part], tools=[tool])
    there = convert_messages(body, to="ai-sdk")
    back = convert_messages(there.body, to="anthropic", source="ai-sdk")
    assert back.body == body
    assert not there.losses
    assert sorted(where(convert_messages(body, to="gemini"), "cache_control")) == [
        "messages[0].content[0].cache_control",
        "system[0].cache_control",
        "tools[0].cache_control",
    ]


def test_refusals_and_citations_are_named() -> None:
    body = chat({"role": "assistant", "content": None, "refusal": "I will not"}, USER)
    conversion = convert_messages(body, to="anthropic")
    assert conversion.messages[0]["content"] == [{"type": "text", "text": "I will not"}]
    assert kinds(conversion) == {"refusal"}
    cited = {"type": "text", "text": "x", "citations": [{"type": "char_location"}]}
    conversion = convert_messages(claude({"role": "assistant", "content": [cited]}), to="gemini")
    assert where(conversion, "citations") == ["messages[0].content[0].citations"]


# ------------------------------------------------------------------------------ reasoning


THINKING = {"type": "thinking", "thinking": "  hm \n", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "c2VjcmV0"}
ITEM = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
REASONING = {
    "anthropic": claude(
        {"role": "assistant", "content": [THINKING, REDACTED, {"type": "text", "text": "x"}]}
    ),
    "openai-responses": {
        "model": "gpt-5",
        "input": [{**ITEM, "encrypted_content": "c2Vj"}, {"role": "assistant", "content": "x"}],
    },
    "gemini": {
        "contents": [
            {
                "role": "model",
                "parts": [
                    {"text": " hm", "thought": True, "thoughtSignature": "c2ln"},
                    {"text": "x", "thoughtSignature": "dGV4dA=="},
                ],
            }
        ]
    },
}


@pytest.mark.parametrize("source", REASONING)
def test_reasoning_comes_back_unchanged_through_the_ai_sdk(source: Any) -> None:
    body = REASONING[source]
    there = convert_messages(body, to="ai-sdk", source=source)
    back = convert_messages(there.body, to=source, source="ai-sdk")
    field = {"openai-responses": "input", "gemini": "contents"}.get(source, "messages")
    assert back.body[field] == body[field]
    assert not kinds(there)


@pytest.mark.parametrize("target", DIALECTS[:-1])
@pytest.mark.parametrize("source", REASONING)
def test_reasoning_of_another_maker_is_dropped_and_named(source: Any, target: Any) -> None:
    conversion = convert_messages(REASONING[source], to=target, source=source)
    if source == target:
        assert conversion.body == REASONING[source]
        return
    text = json.dumps(conversion.body)
    assert "hm" not in text
    assert "c2ln" not in text
    assert "c2Vj" not in text
    assert "reasoning" in kinds(conversion)


@pytest.mark.parametrize("source", REASONING)
def test_reasoning_does_not_follow_to_another_model(source: Any) -> None:
    options = ConversionOptions(model="another-model")
    body = {"model": "the-first", **REASONING[source]}
    conversion = convert_messages(body, to=source, source=source, options=options)
    assert conversion.body["model"] == "another-model"
    assert "hm" not in json.dumps(conversion.body)
    assert "reasoning" in kinds(conversion)
    same = ConversionOptions(model=body["model"])
    assert convert_messages(body, to=source, source=source, options=same).body == body


@pytest.mark.parametrize("target", DIALECTS)
def test_empty_reasoning_makes_no_part(target: Any) -> None:
    body = chat({"role": "assistant", "content": "x", "reasoning_content": ""}, USER)
    conversion = convert_messages(body, to=target)
    assert target == "openai-chat" or "reasoning" not in json.dumps(conversion.body)


def test_a_signature_on_a_call_comes_back() -> None:
    part = {"functionCall": {"name": "f", "args": {}, "id": "a"}, "thoughtSignature": "c2ln"}
    answer = {"functionResponse": {"name": "f", "id": "a", "response": {"output": "ok"}}}
    body = {
        "contents": [{"role": "model", "parts": [part]}, {"role": "user", "parts": [answer]}],
    }
    there = convert_messages(body, to="ai-sdk")
    assert convert_messages(there.body, to="gemini", source="ai-sdk").body == body
    assert "signature" in kinds(convert_messages(body, to="anthropic"))


# ------------------------------------------------------------------------------ options and tools


def test_options_pass_where_there_is_a_word_for_them() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = {"name": "f", "description": "d", "parameters": schema}
    body = chat(
        USER,
        max_completion_tokens=10,
        temperature=0.5,
        top_p=0.9,
        stop=["x"],
        seed=7,
        tools=[{"type": "function", "function": tool}],
        tool_choice={"type": "function", "function": {"name": "f"}},
        parallel_tool_calls=False,
        reasoning_effort="low",
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
        user="u",
    )
    assert convert_messages(body, to="anthropic").body == {
        "model": "gpt-4o",
        "max_tokens": 10,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_sequences": ["x"],
        "metadata": {"user_id": "u"},
        "output_config": {
            "effort": "low",
            "format": {"type": "json_schema", "schema": schema},
        },
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
        "tools": [{"name": "f", "description": "d", "input_schema": schema}],
        "messages": [USER],
    }
    config = convert_messages(body, to="gemini").body
    assert config["generationConfig"] == {
        "maxOutputTokens": 10,
        "temperature": 0.5,
        "topP": 0.9,
        "seed": 7,
        "stopSequences": ["x"],
        "thinkingConfig": {"thinkingLevel": "low"},
        "responseJsonSchema": schema,
        "responseMimeType": "application/json",
    }
    choice = {"mode": "ANY", "allowedFunctionNames": ["f"]}
    assert config["toolConfig"] == {"functionCallingConfig": choice}
    assert where(convert_messages(body, to="anthropic"), "option") == ["seed"]
    responses = convert_messages(body, to="openai-responses").body
    assert responses["text"] == {"format": {"type": "json_schema", "name": "n", "schema": schema}}
    assert responses["tools"][0] == {"type": "function", **tool, "strict": False}
    assert where(convert_messages(body, to="openai-responses"), "option") == ["seed", "stop"]


@pytest.mark.parametrize("mode", ["auto", "none", "required"])
@pytest.mark.parametrize("target", DIALECTS)
def test_tool_choices_come_back(target: Any, mode: str) -> None:
    body = chat(USER, tool_choice=mode)
    there = convert_messages(body, to=target)
    assert convert_messages(there.body, to="openai-chat", source=target).body["tool_choice"] == mode


def test_vendor_tools_and_unknown_options_are_named() -> None:
    body = claude(
        USER,
        tools=[{"type": "bash_20250124", "name": "bash"}],
        thinking={"type": "adaptive"},
        new_option=1,
    )
    conversion = convert_messages(body, to="openai-chat", source="anthropic")
    assert set(where(conversion, "field")) == {"tools[0]", "thinking", "new_option"}


def test_a_schema_of_gemini_becomes_json_schema() -> None:
    schema = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}}
    body = {
        "contents": [],
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}],
    }
    function = convert_messages(body, to="openai-chat").body["tools"][0]["function"]
    assert function["parameters"] == {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"]}},
    }


# ------------------------------------------------------------------------------ VS Code


def vscode(role: int, *parts: Any) -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


def test_vscode_messages_are_a_source() -> None:
    data = {"mimeType": "image/*", "data": list(base64.b64decode(PNG))}
    messages = [
        vscode(1, {"value": "look"}, data),
        vscode(2, {"value": "hm"}, {"callId": "c1", "name": "f", "input": {"a": 1}}),
        vscode(1, {"callId": "c1", "content": [{"value": "x"}, {"value": "y"}]}),
    ]
    conversion = convert_messages(messages, to="openai-chat")
    assert conversion.source == "vscode"
    assert conversion.messages == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            ],
        },
        calls(call("c1", arguments='{"a":1}'), content="hm"),
        result("c1", [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]),
    ]


def test_vscode_metadata_is_no_content() -> None:
    """The seed system decoded the bytes of a cache marker as text."""
    marker = {"mimeType": "cache_control", "data": [101]}
    conversion = convert_messages([vscode(1, {"value": "hi"}, marker)], to="anthropic")
    assert conversion.messages == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


def test_vscode_assistants_before_the_user_are_the_system_prompt() -> None:
    """The published gateway: plain strings before the first user are joined by a blank line."""
    one, two = ({"role": 2, "content": text} for text in ("one", "two"))
    user = vscode(1, {"value": "hi"})
    assert convert_messages([one, user], to="ai-sdk").body["instructions"] == "one"
    body = convert_messages([one, two, user, {"role": 2, "content": "later"}], to="ai-sdk").body
    assert body["instructions"] == "one\n\ntwo"
    assert [message["role"] for message in body["messages"]] == ["user", "assistant"]
    assert "instructions" not in convert_messages([one, two], to="ai-sdk").body


def test_vscode_oddities_do_not_raise() -> None:
    """Parts that are no objects are skipped; empty results are kept, so that no call is lost."""
    messages = [
        vscode(2, {"callId": "c1", "name": "f", "input": {}}),
        vscode(1, {"callId": "c1", "content": []}, None, 5, {"what": 1}),
        vscode(9, {"mimeType": "text/plain; charset=latin-1", "data": [228]}),
    ]
    for target in DIALECTS:
        conversion = convert_messages(messages, to=target)
        assert "ä" in json.dumps(conversion.body, ensure_ascii=False)
        assert "unanswered_call" not in kinds(conversion)


# ------------------------------------------------------------------------------ answers


CLAUDE_ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 10,
        "cache_read_input_tokens": 90,
        "cache_creation_input_tokens": 5,
        "output_tokens": 7,
    },
}
ANSWERS = {target: convert_response(CLAUDE_ANSWER, to=target).body for target in DIALECTS}


def test_answers_are_what_the_sdks_return() -> None:
    from anthropic.types import Message as ClaudeMessage
    from google.genai.types import GenerateContentResponse
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response

    completion = ChatCompletion.model_validate(ANSWERS["openai-chat"])
    assert completion.choices[0].finish_reason == "tool_calls"
    response = Response.model_validate(ANSWERS["openai-responses"])
    assert response.output_text == "hi"
    assert GenerateContentResponse.model_validate(ANSWERS["gemini"]).candidates
    assert ClaudeMessage.model_validate(ANSWERS["anthropic"]).stop_reason == "tool_use"
    for found in (completion, response):
        assert (
            convert_response(found, to="anthropic").body["content"] == CLAUDE_ANSWER["content"][1:]
        )


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_answers_convert_between_all_dialects(source: Any, target: Any) -> None:
    conversion = convert_response(ANSWERS[source], to=target)
    assert conversion.source == source
    text = json.dumps(conversion.body)
    assert '"hi"' in text
    assert "toolu_1" in text
    assert not {loss.kind for loss in conversion.losses} - {"form", "added", "reasoning", "field"}
    assert not conversion.warnings


def test_usage_keeps_its_meaning() -> None:
    """Anthropic counts cached tokens beside the input, OpenAI and Google inside of it."""
    usage = ANSWERS["openai-chat"]["usage"]
    assert (usage["prompt_tokens"], usage["total_tokens"]) == (105, 112)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 90, "cache_write_tokens": 5}
    assert ANSWERS["gemini"]["usageMetadata"]["promptTokenCount"] == 105
    assert ANSWERS["ai-sdk"]["usage"]["inputTokens"] == 105
    back = convert_response(ANSWERS["openai-chat"], to="anthropic")
    assert back.body["usage"] == CLAUDE_ANSWER["usage"]
    thoughts = {"promptTokenCount": 5, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}
    content = {"role": "model", "parts": [{"text": "x"}]}
    answer = {
        "candidates": [{"content": content, "finishReason": "MAX_TOKENS"}],
        "usageMetadata": thoughts,
    }
    converted = convert_response(answer, to="openai-responses").body
    assert converted["usage"]["output_tokens"] == 7
    assert converted["usage"]["output_tokens_details"] == {"reasoning_tokens": 4}
    assert converted["incomplete_details"] == {"reason": "max_output_tokens"}


def test_an_answer_is_known_from_a_request() -> None:
    assert convert_messages(CLAUDE_ANSWER, to="openai-chat").body == ANSWERS["openai-chat"]
    with pytest.raises(RequestError, match="is no answer"):
        convert_response(chat(USER), to="anthropic")


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


def test_what_holds_itself_is_carried_or_refused() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    assert convert_messages(chat(USER, x=loop), to="gemini").messages
    body = chat(calls(call("a")), {"role": "tool", "tool_call_id": "a", "content": "x"})
    body["messages"][0]["tool_calls"][0]["function"]["arguments"] = loop
    with pytest.raises(RequestError, match="not JSON"):
        convert_messages(body, to="openai-responses")
