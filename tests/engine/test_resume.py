"""A body that begins with a recorded body gives what it would give if it were read in whole."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from agent_turns import (
    MANY_ANTHROPIC_TOOLS,
    MANY_TOOLS,
    SHAPES,
    TOOL_SHAPES,
    TOOLS,
    chat_turn,
    edited_anywhere,
    encoded,
    long_body,
)
from tokenctx import HybridTokenEstimator, RequestError

ALL_SHAPES = SHAPES | TOOL_SHAPES


@pytest.mark.slow
@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("shape", ALL_SHAPES)
def test_a_growing_conversation_is_resumed_with_equal_answers(shape: str, *, is_last: bool) -> None:
    turn, rest, field = ALL_SHAPES[shape]
    for seed in range(4):
        random_ = random.Random(seed)
        one, other = HybridTokenEstimator(), HybridTokenEstimator()
        messages: list[Any] = []
        for number in range(24):
            messages += turn(random_, number)
            body = {**rest, field: list(messages)}
            for end in sorted({len(messages) - 2, len(messages) - 1, len(messages)}):
                part = {**body, field: messages[:end]}
                text = encoded(part, is_last=is_last)
                assert one.estimate(text) == other.estimate(part)
                if random_.random() < 0.8:
                    billed = other.count_request(part).tokens + number
                    assert one.record(text, billed) == other.record(part, billed)
        assert one.stats()["resumed"] > 10
        assert other.stats()["resumed"] == 0


def moved(shape: str, random_: random.Random, messages: list[Any]) -> list[Any]:
    """`messages` with a cache marker at one of the last, where the dialect has such."""
    messages = list(messages)
    at = len(messages) - random_.randrange(1, min(4, len(messages)) + 1)
    content = messages[at].get("content")
    if shape == "anthropic" and content:
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        blocks = [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]
        messages[at] = {**messages[at], "content": blocks}
    return messages


@pytest.mark.slow
@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("shape", ALL_SHAPES)
def test_known_messages_are_not_read_again_whatever_moves(shape: str, *, is_last: bool) -> None:
    """Fields before the messages change with each turn, markers move, and now and then an edit."""
    turn, rest, field = ALL_SHAPES[shape]
    resumed = 0
    for seed in range(6):
        random_ = random.Random(seed)
        # Which conversations are found to be near is a matter of chance, by the secret; another
        # shape has another one, or its messages would be known as those of this shape.
        secret = f"{shape} {is_last} {seed}".encode()
        one, other = (HybridTokenEstimator(secret=secret) for _ in range(2))
        messages: list[Any] = []
        for number in range(24):
            messages += turn(random_, number)
            if random_.random() < 0.1:
                edited_anywhere(random_, messages)
            for end in sorted({len(messages) - 2, len(messages) - 1, len(messages)}):
                given = moved(shape, random_, messages[: max(1, end)])
                part = {"user": f"{number} {end}", **rest, "max_tokens": 100 + end, field: given}
                text = encoded(part, is_last=is_last)
                assert one.estimate(text) == other.estimate(part)
                if random_.random() < 0.8:
                    billed = 4000 + end * 100 + number
                    assert one.record_event(text, billed) == other.record_event(part, billed)
        resumed += one.stats()["resumed"]
        names = ("known_prefixes", "known_shapes", "superseded")
        assert [one.stats()[name] for name in names] == [other.stats()[name] for name in names]
    assert resumed > 50 or shape in TOOL_SHAPES


def test_what_stands_between_known_messages_is_read() -> None:
    body = long_body()
    estimator = HybridTokenEstimator()
    text = encoded(body, is_last=True)
    estimator.record(text, 27_000)
    body["max_tokens"] = 7
    body["messages"].append({"role": "user", "content": "and now?"})
    text = encoded(body, is_last=True)
    expected = HybridTokenEstimator()
    expected.record(long_body(), 27_000)
    assert estimator.estimate(text) == expected.estimate(body)
    assert estimator.stats()["resumed"] == 1
    for old, new in (
        (b"}, {", b"} {"),
        (b"}, {", b"}, , {"),
        (b'"}]', b'"},]'),
        (b"}, {", b"}, x {"),
    ):
        assert old in text
        with pytest.raises(RequestError):
            estimator.estimate(text.replace(old, new, 1))
        with pytest.raises(RequestError):
            estimator.record(text.replace(old, new, 1), 27_000)


def changed_message(body: dict[str, Any]) -> None:
    body["messages"][7] = {"role": "user", "content": "another"}


def changed_first_message(body: dict[str, Any]) -> None:
    body["messages"][0]["content"] += "!"


def changed_tools(body: dict[str, Any]) -> None:
    body["tools"] = []


def changed_tool(body: dict[str, Any]) -> None:
    tools = body["tools"] = json.loads(json.dumps(body["tools"]))
    tools[2]["function"]["description"] += "!"


def renamed_tool(body: dict[str, Any]) -> None:
    text = json.dumps(body["tools"]).replace("read_three", "read_seven")
    body["tools"] = json.loads(text)


def moved_tools(body: dict[str, Any]) -> None:
    body["tools"] = body["tools"][::-1]


def dropped_tool(body: dict[str, Any]) -> None:
    body["tools"] = body["tools"][:-1]


def added_tool(body: dict[str, Any]) -> None:
    body["tools"] = [*body["tools"], TOOLS[0]]


def deferred_tool(body: dict[str, Any]) -> None:
    body["tools"] = [*body["tools"], {**TOOLS[0], "defer_loading": True}]


def added_functions(body: dict[str, Any]) -> None:
    body["functions"] = [TOOLS[0]["function"]]


def loaded_tools(body: dict[str, Any]) -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": MANY_TOOLS[:2]}
    body["messages"].append(item)


def forced_tool(body: dict[str, Any]) -> None:
    body["tool_choice"] = {"type": "function", "function": {"name": "read_three"}}


def added_format(body: dict[str, Any]) -> None:
    schema = {"name": "x", "schema": {"type": "object", "properties": {}}}
    body["response_format"] = {"type": "json_schema", "json_schema": schema}


def ends_with_tools(body: dict[str, Any]) -> None:
    said = json.dumps({"tools": body["tools"]})
    body["messages"].append({"role": "user", "content": said[1:]})


def added_limit(body: dict[str, Any]) -> None:
    body["max_tokens"] = 77


def serial_calls(body: dict[str, Any]) -> None:
    body["parallel_tool_calls"] = False


def added_system(body: dict[str, Any]) -> None:
    body["system"] = "Be brief."


def changed_model(body: dict[str, Any]) -> None:
    body["model"] = "claude-sonnet-4-5"


def other_choice(body: dict[str, Any]) -> None:
    body["tool_choice"] = "none"


def dropped_messages(body: dict[str, Any]) -> None:
    del body["messages"][3:9]


CHANGES = [
    changed_message,
    changed_first_message,
    changed_tools,
    changed_tool,
    renamed_tool,
    moved_tools,
    dropped_tool,
    added_tool,
    deferred_tool,
    added_functions,
    loaded_tools,
    forced_tool,
    added_format,
    ends_with_tools,
    added_limit,
    serial_calls,
    added_system,
    changed_model,
    other_choice,
    dropped_messages,
]


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_is_seen(change: Any, *, is_last: bool) -> None:
    body = long_body()
    one, other = HybridTokenEstimator(), HybridTokenEstimator()
    one.record(encoded(body, is_last=is_last), 27_000)
    other.record(body, 27_000)
    body["messages"].append({"role": "user", "content": "and now?"})
    change(body)
    assert one.estimate(encoded(body, is_last=is_last)) == other.estimate(body)


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text[:-1] + b',"messages":[]}',
        lambda text: text[:-1] + b',"messages":[{"role":"user","content":"x"}]}',
        lambda text: text.replace(b'"messages"', b'"m\\u0065ssages"'),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b"and now?", b"and \xff now?"),
        lambda text: text.replace(b"and now?", b"and \\ud800 now?"),
        lambda text: text[:-1] + b',"input":[1]}',
        lambda text: text[:-1] + b',"temperature":NaN}',
        lambda text: text[:-1] + b',"model":"claude-sonnet-4-5"}',
        lambda text: text[:-1] + b',"model":"gpt-4o","model":"gpt-4o"}',
        lambda text: b'{"unknown":{"messages":[1]},' + text[1:],
        lambda text: text[:-1] + b',"unknown":[{"role":"user","content":"x"}]}',
        lambda text: b'{"messages":null,' + text[1:],
        lambda text: text.replace(b'"model"', b'"mod\\u0065l"'),
        lambda text: text.replace(b'"role": "user"', b'"role":"tool","role": "user"', 9),
        lambda text: text.replace(b'"content"', b'"c\\u006fntent"', 9),
        lambda text: text.replace(b'"messages": [', b'"messages": [null,7,"x",'),
        lambda text: b" \n\t" + text + b"\r\n ",
        lambda text: text[:-1] + b',"tools":[]}',
        lambda text: text.replace(b'"tools"', b'"too\\u006cs"'),
        lambda text: text.replace(b'"tools"', b'"functions"'),
        lambda text: text[:-1] + b',"functions":' + json.dumps(MANY_TOOLS).encode() + b"}",
        lambda text: b'{"tools":[1],' + text[1:],
        lambda text: text.replace(b'"tools": [', b'"tools": [null,"a",'),
    ],
)
def test_odd_bodies_are_read_as_ever(edit: Any) -> None:
    body = long_body()
    one = HybridTokenEstimator()
    recorded, other = edit(encoded(body, is_last=True)), HybridTokenEstimator(secret=b"other")
    body["messages"].append({"role": "user", "content": "and now?"})
    text = edit(encoded(body, is_last=True))
    for estimator in (one, other):
        assert estimator.record(recorded, 27_000) in (True, False)
    spaced = text.replace(b'"role": ', b'"role" : ')
    assert one.estimate(text) == other.estimate(spaced)
    assert one.record(text, 27_100) == other.record(spaced, 27_100)
    assert one.estimate(text) == other.estimate(spaced)
    assert one.estimate(recorded) == other.estimate(recorded)


@pytest.mark.parametrize("is_last", [True, False])
def test_conversations_that_begin_alike_are_all_resumed(*, is_last: bool) -> None:
    """As all of one agent do: its system prompt and its tools are most of their bytes."""
    system = {"role": "system", "content": "You help. " * 8_000}
    one = HybridTokenEstimator()
    bodies = []
    for number in range(30):
        random_ = random.Random(number)
        messages = [message for turn in range(6) for message in chat_turn(random_, turn)]
        body: dict[str, Any] = {"model": "gpt-4o", "tools": TOOLS, "messages": [system, *messages]}
        one.record(encoded(body, is_last=is_last), 37_500 + number)
        body["messages"].append({"role": "user", "content": f"and now {number}?"})
        bodies.append(body)
    found = [one.estimate(encoded(body, is_last=is_last)) for body in bodies]
    assert [it.known_tokens for it in found] == [37_500 + number for number in range(30)]
    assert one.stats()["resumed"] == 30


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_is_recorded_as_what_it_is(change: Any, *, is_last: bool) -> None:
    """A record takes the digests of known messages over; what it keeps is what it would make."""
    body = long_body()
    # Which conversations are found to be near is a matter of chance, by the secret.
    one, other = (HybridTokenEstimator(secret=b"a secret") for _ in range(2))
    for tokens in (27_000, 27_100, 27_200):
        text = encoded(body, is_last=is_last)
        assert one.record_event(text, tokens) == other.record_event(body, tokens)
        if tokens == 27_000:
            body["messages"].append({"role": "user", "content": "and now?"})
            change(body)
        body["messages"].append({"role": "assistant", "content": f"{tokens} words"})
        for end in range(len(body["messages"]) - 4, len(body["messages"]) + 1):
            part = {**body, "messages": body["messages"][:end]}
            assert one.estimate(part) == other.estimate(part)
    names = ("known_prefixes", "known_shapes", "superseded")
    assert [one.stats()[name] for name in names] == [other.stats()[name] for name in names]


@pytest.mark.slow
def test_a_large_body_of_images_is_resumed_with_equal_answers() -> None:
    """Near the limit of 128 MiB; most of it is base64."""
    image = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(1 << 20)).decode()
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
    seen = {"role": "user", "content": [{"type": "text", "text": "look"}, part]}
    messages = [seen, {"role": "assistant", "content": "seen"}] * 90
    body: dict[str, Any] = {"model": "gpt-4o", "messages": messages}
    one, other = HybridTokenEstimator(), HybridTokenEstimator()
    text = encoded(body, is_last=True)
    assert 120 << 20 < len(text) < 128 << 20
    assert one.record(text, 90_000)
    assert other.record(body, 90_000)
    body["messages"] = [*messages, {"role": "user", "content": "and now?"}]
    text = encoded(body, is_last=True)
    assert one.estimate(text) == other.estimate(body)
    assert one.stats()["resumed"] == 1
    with pytest.raises(ValueError, match="must arrive whole"):
        one.estimate(text[:-2])
    with pytest.raises(ValueError, match="134217728"):
        one.estimate(text + b" " * (8 << 20))


def test_a_cut_body_is_refused_as_ever() -> None:
    body = long_body()
    estimator = HybridTokenEstimator()
    estimator.record(encoded(body, is_last=True), 27_000)
    body["messages"].append({"role": "user", "content": "and now?"})
    text = encoded(body, is_last=True)
    for end in range(len(text) - 40, len(text)):
        with pytest.raises(ValueError, match="must arrive whole"):
            estimator.estimate(text[:end])


def test_other_white_space_is_the_same_conversation() -> None:
    body = long_body()
    estimator = HybridTokenEstimator()
    estimator.record(encoded(body, is_last=True), 27_000)
    body["messages"].append({"role": "user", "content": "and now?"})
    compact = estimator.estimate(encoded(body, is_last=True))
    assert estimator.stats()["resumed"] == 1
    assert estimator.estimate(encoded(body, is_last=True, indent=1)) == compact
    assert estimator.stats()["resumed"] == 1


def test_reset_forgets_beginnings() -> None:
    body = long_body()
    estimator = HybridTokenEstimator()
    estimator.record(encoded(body, is_last=True), 27_000)
    estimator.reset()
    assert estimator.estimate(encoded(body, is_last=True)).source == "estimated"


def test_many_branches_of_one_conversation() -> None:
    body = long_body()
    one, other = HybridTokenEstimator(), HybridTokenEstimator()
    for branch in range(20):
        grown = {**body, "messages": [*body["messages"], {"role": "user", "content": f"{branch}"}]}
        one.record(encoded(grown, is_last=True), 27_000 + branch)
        other.record(grown, 27_000 + branch)
    for branch in range(20):
        more = [{"role": "user", "content": f"{branch}"}, {"role": "user", "content": "go on"}]
        grown = {**body, "messages": [*body["messages"], *more]}
        assert one.estimate(encoded(grown, is_last=True)) == other.estimate(grown)


ROLES = ["user", "assistant"] * 40

# What speaks for one dialect, or a bit for another.
EVIDENCE = [
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
    {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "x"}}]},
    {"role": "user", "content": [{"type": "text", "text": "a", "citations": [{"type": "x"}]}]},
    {"role": "assistant", "content": "", "refusal": "no"},
    {"role": "tool", "tool_call_id": "a", "content": "a"},
    {"role": "developer", "content": "a"},
    {"role": "system", "content": "a"},
]


def said(random_: random.Random, role: str) -> dict[str, Any]:
    return {"role": role, "content": f"{random_.random()} " * 20}


SYSTEM = {"role": "system", "content": "You help with the code of this project. " * 500}


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("shape", TOOL_SHAPES)
def test_young_conversations_of_many_tools_are_resumed(shape: str, *, is_last: bool) -> None:
    """From the second turn on, though their messages are a small part of the body."""
    turn, rest, field = TOOL_SHAPES[shape]
    rest = {**rest, "tools": rest["tools"] * 12}
    resumed = 0
    for seed in range(60):
        random_ = random.Random(seed)
        one, other = (HybridTokenEstimator(secret=f"{seed}".encode()) for _ in range(2))
        messages: list[Any] = [SYSTEM] if random_.random() < 0.3 else []
        for number in range(2):
            messages += [*turn(random_, number), *random_.sample(EVIDENCE, random_.randrange(2))]
            for end in range(max(1, len(messages) - 3), len(messages) + 1):
                body = {**rest, field: messages[:end]}
                text = encoded(body, is_last=is_last)
                assert one.estimate(text) == other.estimate(body)
                billed = other.count_request(body).tokens + number
                assert one.record_event(text, billed) == other.record_event(body, billed)
        resumed += one.stats()["resumed"]
    assert resumed > 300


@pytest.mark.parametrize("is_last", [True, False])
def test_the_dialect_of_a_mixed_body_is_that_of_the_whole(*, is_last: bool) -> None:
    """What speaks for another dialect may be in the part that is not read again."""
    random_ = random.Random(5)
    dialects, resumed = set(), 0
    for _ in range(150):
        secret = random_.randbytes(8)
        one, other = (HybridTokenEstimator(secret=secret) for _ in range(2))
        model = random_.choice(["gpt-4o", "claude-sonnet-4-5", "x/claude-sonnet-4-5", "x"])
        rest: dict[str, Any] = {"model": model}
        rest["tools"] = random_.choice([[], MANY_TOOLS, MANY_ANTHROPIC_TOOLS])
        rest |= random_.choice([{}, {"system": "Be brief."}, {"response_format": {"type": "text"}}])
        told = random_.sample(EVIDENCE, random_.randrange(4))
        plain = [said(random_, role) for role in ROLES]
        told = random_.sample([*told, *plain[8:-8]], len(told) + len(plain) - 16)
        messages = [*plain[:8], *told, *plain[-8:]]
        for number in range(3):
            body = {"user": f"{number * random_.randrange(2)}", **rest, "messages": list(messages)}
            text = encoded(body, is_last=is_last)
            estimate = one.estimate(text)
            assert estimate == other.estimate(body)
            dialects.add(estimate.dialect)
            billed = 20_000 + number * 900
            assert one.record_event(text, billed) == other.record_event(body, billed)
            new = random_.choice([*EVIDENCE, said(random_, "user")])
            messages += [new, said(random_, "assistant")]
        resumed += one.stats()["resumed"]
    assert dialects == {"openai-chat", "anthropic"}
    assert resumed > 30
