"""Recordings become turns, and turns become estimates beside what was billed."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tokenctx._cli.evaluation.recordings import RecordingError, Turn, read_recording
from tokenctx._cli.evaluation.replay import Figures, ReplayedTurn, quantile, replay
from tokenctx._cli.tables import reason_lines
from tokenctx._results.tables import table_path

ROOT = Path(__file__).parents[2]
DEMONSTRATION = table_path("agent-session")
SHARED = Path(os.environ.get("TOKENCTX_SHARED", ROOT.parent / "shared"))

Json = dict[str, Any]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def assistant(text: str) -> Json:
    return {"role": "assistant", "content": text}


def saved(folder: Path, *values: Json, name: str = "recording.jsonl") -> Path:
    path = folder / name
    content = "\n".join(map(json.dumps, values)).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def turns_of(path: Path) -> list[Turn]:
    return [turn for one in read_recording(path).conversations for turn in one.turns]


def replayed(path: Path) -> list[ReplayedTurn]:
    return [turn for one in read_recording(path).conversations for turn in replay(one)]


def session(*turns: Json, **fields: Any) -> Json:
    context = {"tools": [], "system": "Be brief."}
    return {
        "dialect": "openai-chat",
        "model": "gpt-4o",
        "context": context,
        "turns": turns,
        **fields,
    }


def call(turn: int, tokens: int, *messages: Json, prev: Json | None = None, **body: Any) -> Json:
    return {
        "conversation_id": "c1",
        "turn": turn,
        "provider": "openai",
        "api": "openai.chat",
        "model": "gpt-4o",
        "request": {"model": "gpt-4o", "messages": messages, **body},
        "usage": {"prompt_tokens": tokens, "completion_tokens": 3},
        "input_tokens": tokens,
        "prev": prev,
    }


def prev(tokens: int, items: int, *, same_context: bool = True) -> Json:
    return {"input_tokens": tokens, "n_items": items, "same_context": same_context}


# The demonstration


def test_every_turn_of_the_demonstration_after_the_first_is_delta() -> None:
    turns = replayed(DEMONSTRATION)
    assert [turn.estimate.source for turn in turns] == ["estimated"] + ["delta"] * 8
    assert {turn.relation for turn in turns[1:]} == {"extends"}
    guesses = {name for turn in turns for name in turn.estimate.assumptions}
    assert guesses <= {"learned_correction"}


def test_a_repeated_continue_is_a_new_message() -> None:
    turns = replayed(DEMONSTRATION)
    bodies = [json.loads(turn.body) for turn in turns_of(DEMONSTRATION)]
    repeated = [n for n, body in enumerate(bodies) if body["messages"][-1]["content"] == "continue"]
    assert len(repeated) == 2
    assert [turns[n].estimate.new_message_count for n in repeated] == [1, 1]


def test_the_demonstration_says_that_its_usage_is_made_up() -> None:
    assert "made up" in read_recording(DEMONSTRATION).about
    assert DEMONSTRATION.stat().st_size < 60_000


def test_errors_are_against_the_billed_total() -> None:
    for turn in replayed(DEMONSTRATION):
        estimate = turn.estimate
        assert estimate.tokens == estimate.known_tokens + estimate.estimated_tokens
        assert turn.error_tokens == estimate.tokens - turn.billed_tokens
        assert turn.error_percent == pytest.approx(100 * turn.error_tokens / turn.billed_tokens)
        assert turn.as_json()["estimate"]["source"] == estimate.source


# Sessions


@pytest.mark.parametrize(
    ("second", "relation", "source"),
    [
        ({}, "extends", "delta"),
        ({"system": "Be loud."}, "context", "estimated"),
        ({"messages": [user("Hullo"), user("?")]}, "messages", "estimated"),
        ({"messages": [{**user("Hello"), "cache_control": {}}, user("?")]}, "extends", "delta"),
    ],
)
def test_whole_requests_extend_each_other_or_say_what_differs(
    tmp_path: Path, second: Json, relation: str, source: str
) -> None:
    first = {"model": "gpt-4o", "system": "Be brief.", "messages": [user("Hello")]}
    longer = {**first, "messages": [user("Hello"), user("?")], **second}
    usage = {"prompt_tokens": 20}
    turns = [{"request": body, "usage": usage} for body in (first, longer)]
    got = replayed(saved(tmp_path, session(*turns)))[1]
    assert (got.relation, got.estimate.source) == (relation, source)


def test_new_messages_come_after_the_reply_of_the_turn_before(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 5}
    first = {"new_messages": [user("Hello")], "usage": usage, "reply": assistant("Hi")}
    second = {"new_messages": [user("?")], "usage": usage, "reply": None}
    path = saved(tmp_path, session(first, second))
    assert json.loads(turns_of(path)[1].body)["messages"] == [
        user("Hello"),
        assistant("Hi"),
        user("?"),
    ]
    assert replayed(path)[1].estimate.new_message_count == 1


def test_a_turn_without_usage_is_left_out(tmp_path: Path) -> None:
    turns = [{"new_messages": [user("Hello")], "usage": None}] * 2
    assert not replayed(saved(tmp_path, session(*turns)))


# Calls


def test_a_predecessor_in_the_file_is_recorded_as_it_was(tmp_path: Path) -> None:
    calls = [call(1, 9, user("a")), call(2, 15, user("a"), user("b"), prev=prev(9, 1))]
    turns = turns_of(saved(tmp_path, *reversed(calls), name="calls.jsonl.gz"))
    assert [(turn.relation, turn.known) for turn in turns] == [("first", None), ("extends", None)]


def test_a_predecessor_that_is_not_in_the_file_is_the_beginning_of_the_request(
    tmp_path: Path,
) -> None:
    path = saved(tmp_path, call(2, 15, user("a"), user("b"), prev=prev(9, 1)))
    turn = turns_of(path)[0]
    assert turn.known is not None
    assert json.loads(turn.known[0])["messages"] == [user("a")]
    estimate = replayed(path)[0].estimate
    assert (estimate.source, estimate.known_tokens) == ("delta", 9)


@pytest.mark.parametrize(
    ("second", "relation"),
    [
        (call(2, 15, user("x"), user("b"), prev=prev(9, 1)), "messages"),
        (call(2, 15, user("y"), user("b"), prev=prev(9, 1, same_context=False)), "context"),
    ],
)
def test_a_call_that_extends_nothing_says_why_and_is_no_miss(
    tmp_path: Path, second: Json, relation: str
) -> None:
    second["request"]["tools"] = [{"type": "function", "function": {"name": "f"}}]
    turn = replayed(saved(tmp_path, call(1, 9, user("a")), second))[1]
    assert (turn.relation, turn.estimate.source) == (relation, "estimated")
    figures = Figures()
    figures.add(turn, has_context=True)
    assert figures.missed == 0
    assert figures.reasons.total() == 1


def test_calls_without_input_tokens_and_single_calls_are_counted_as_skipped(tmp_path: Path) -> None:
    single = {**call(1, 9, user("a")), "conversation_id": None}
    recording = read_recording(
        saved(tmp_path, call(1, 0, user("a")), single, call(1, 9, user("a")))
    )
    assert recording.skipped == {"no input tokens": 1, "single calls": 1}
    assert recording.conversation_count == 1


def test_the_recorded_total_counts_where_the_usage_has_no_field_that_we_read(
    tmp_path: Path,
) -> None:
    odd = {**call(1, 9, user("a")), "usage": {"invocation": {"in": 9}}}
    assert turns_of(saved(tmp_path, odd))[0].billed.input_tokens == 9


def picture(width: int, sha256: str) -> Json:
    stand_in = {"_image": {"width": width, "height": 512, "mime": "image/png", "sha256": sha256}}
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": stand_in}}]}


def test_a_stand_in_has_the_size_and_the_identity_of_its_picture(tmp_path: Path) -> None:
    calls = [
        call(1, 300, picture(512, "aa")),
        call(2, 300, picture(512, "aa")),
        call(3, 300, picture(512, "bb")),
        call(4, 900, picture(2048, "aa")),
    ]
    same, equal, other, wide = replayed(saved(tmp_path, *calls))
    assert [turn.estimate.source for turn in (same, equal, other, wide)] == [
        "estimated",
        "exact",
        "estimated",
        "estimated",
    ]
    assert other.estimate.tokens == same.estimate.tokens < wide.estimate.tokens
    assert not wide.estimate.assumptions


def test_a_stand_in_in_a_base64_field_is_bare_base64(tmp_path: Path) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": {"_image": {"sha256": "aa"}}}
    message = {"role": "user", "content": [{"type": "image", "source": source}]}
    body = json.loads(turns_of(saved(tmp_path, call(1, 9, message)))[0].body)
    assert body["messages"][0]["content"][0]["source"]["data"] == "YWE="


# Steps


def step(tokens: int, *messages: Json, **fields: Any) -> Json:
    usage = {"input_tokens": tokens, "output_tokens": 7}
    reply = assistant("Yes.")
    return {
        "new_messages": messages,
        "reply": reply,
        "usage": usage,
        **usage,
        "model": "gpt-4o",
        **fields,
    }


def test_steps_grow_restart_when_compacted_and_know_their_models(tmp_path: Path) -> None:
    steps = [
        step(50, user("a")),
        step(60, assistant("Yes."), user("b")),
        step(70, assistant("Yes."), user("c"), model="gpt-4"),
        step(40, user("summary"), compacted=True),
        step(52, assistant("Yes."), user("d"), output_final=False),
    ]
    path = saved(
        tmp_path, {"id": "s", "dialect": "openai-chat", "system_known": False, "steps": steps}
    )
    turns = turns_of(path)
    assert [turn.relation for turn in turns] == [
        "first",
        "extends",
        "model",
        "compacted",
        "extends",
    ]
    assert [len(json.loads(turn.body)["messages"]) for turn in turns] == [1, 3, 5, 1, 3]
    assert [turn.reply is None for turn in turns] == [False] * 4 + [True]
    sources = [turn.estimate.source for turn in replayed(path)]
    assert sources == ["estimated", "delta", "estimated", "estimated", "delta"]


def test_without_the_system_prompt_no_full_count_is_compared(tmp_path: Path) -> None:
    steps = [step(50, user("a")), step(60, assistant("Yes."), user("b"))]
    path = saved(tmp_path, {"id": "s", "system_known": False, "steps": steps})
    figures = Figures()
    for turn in replayed(path):
        figures.add(turn, has_context=False)
    assert len(figures.delta_errors) == 1
    assert figures.as_json()["full_recount_error_percent"] == dict.fromkeys(
        ("median", "p90", "p99")
    )


# Shapes and figures


@pytest.mark.parametrize("content", ["", "text", "[1]", '{"a": 1}', '{"request": {}}\nnot JSON'])
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(RecordingError, match=r"no recording|line 2"):
        turns_of(path)


def test_a_turn_without_a_request_is_refused_by_its_number(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="turn 1 has neither"):
        turns_of(saved(tmp_path, session({"usage": {}})))


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.5, 5), (0.9, 9), (1.0, 10)])
def test_a_quantile_is_one_of_the_numbers(share: float, expected: int) -> None:
    assert quantile(list(range(10, 0, -1)), share) == expected


def test_nothing_has_no_quantile() -> None:
    assert quantile([], 0.5) is None


# Recorded data, which is not in the repository


def shared(name: str) -> Path:
    path = SHARED / "data" / name / "dev.jsonl.gz"
    if not path.exists():
        pytest.skip("no recorded data: shared/data is not beside the checkout")
    return path


def figures_of(path: Path) -> Figures:
    total = Figures()
    for conversation in read_recording(path).conversations:
        total.conversations += 1
        for turn in replay(conversation):
            total.add(turn, has_context=conversation.has_context)
            assert turn.relation != "extends" or turn.estimate.source != "estimated", turn.number
    return total


@pytest.mark.slow
@pytest.mark.parametrize(("name", "at_least"), [("usage", 5_000), ("sessions", 900)])
def test_every_recorded_turn_that_extends_a_recorded_one_is_known(name: str, at_least: int) -> None:
    """The promise: over all recorded conversations of several turns, none is missed."""
    figures = figures_of(shared(name))
    print(json.dumps(figures.as_json(), indent=1))  # noqa: T201
    assert figures.missed == 0
    assert figures.sources["delta"] + figures.sources["exact"] >= at_least
    assert figures.known("extends") == figures.relations["extends"]
    assert figures.relations["messages"] <= 9
    assert figures.reasons["messages"] <= 1


# From one turn to the next


def test_the_new_part_is_measured_alone_where_the_reply_is_known(tmp_path: Path) -> None:
    turns: list[Json] = [
        {"new_messages": [user("Hello")], "usage": usage(100, 5), "reply": assistant("Hi")},
        {"new_messages": [user("How are you?")], "usage": usage(125, 5), "reply": None},
        {"new_messages": [assistant("Fine."), user("Bye")], "usage": usage(140, 5)},
    ]
    first, second, third = replayed(saved(tmp_path, session(*turns)))
    assert (first.new_error_percent, third.new_error_percent) == (None, None)
    new_tokens = 125 - second.estimate.known_tokens
    error = second.estimate.estimated_tokens - new_tokens
    assert second.new_error_percent == pytest.approx(100 * error / new_tokens)
    figures = Figures()
    for turn in (first, second, third):
        figures.add(turn, has_context=True)
    assert figures.new_errors == [abs(second.new_error_percent or 0)]
    assert "new part" not in reason_lines(figures)[0]  # of so few turns
    figures.new_errors *= 20
    assert figures.reply_errors == [abs(second.error_percent)]
    assert "new part" in reason_lines(figures)[0]


def usage(tokens: int, output_tokens: int) -> Json:
    return {"prompt_tokens": tokens, "completion_tokens": output_tokens}
