"""Calls and results, system messages and the order of messages; cases of the seed systems."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conversion_cases import PNG, USER, call, calls, chat, claude, kinds, result, where
from conversion_law import DIALECTS
from tokenctx import convert_messages
from tokenctx.convert import ConversionOptions
from tokenctx.convert.tools import NO_RESULT

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


def test_roles_alternate_where_the_target_demands_it() -> None:
    body = chat(
        USER, USER, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}
    )
    conversion = convert_messages(body, to="gemini")
    assert [content["role"] for content in conversion.messages] == ["user", "model"]
    assert where(conversion, "merged") == ["messages[1]", "messages[3]"]
    assert len(convert_messages(body, to="anthropic").messages) == 4


@pytest.mark.parametrize("target", DIALECTS)
def test_a_result_of_an_unknown_part_raises_nowhere(target: Any) -> None:
    body = chat(USER, calls(call("a")), {**result("a", {"type": "x"}), "tool_call_id": 5})
    assert len(convert_messages(body, to=target).messages) >= 3
    kept = chat(USER, calls(call("a")), result("a", {"type": "x"}))
    assert convert_messages(kept, to="openai-chat").body == kept


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
