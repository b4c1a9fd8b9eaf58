"""What many conversations begin with is read once, with the answers of the whole."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from agent_turns import MANY_ANTHROPIC_TOOLS, MANY_TOOLS
from tokenctx import HybridTokenEstimator, RequestError

SAID = (
    "plain words",
    'a "quoted" word',
    "line\nfeeds\n\n",
    "ümläüts",
    "数を数える",
    "\\paths\\",
    "\x7f 7 ",
)
MODELS = ("gpt-4o", "gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro", "deepseek-chat", "a-model")


def long_text(random_: random.Random, bytes_: int = 30_000) -> str:
    text = " ".join(random_.choices(SAID, k=bytes_ // 10))
    return random_.choice(("", "\n\n", "Rules: ")) + text + random_.choice(("", "end", " a b"))


def of_chat(text: str, messages: list[Any]) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": text}, *messages]}


def of_blocks(text: str, messages: list[Any]) -> dict[str, Any]:
    said = [{"type": "text", "text": text}, {"type": "text", "text": "Be brief."}]
    return {"messages": [{"role": "developer", "content": said}, *messages]}


def of_user(text: str, messages: list[Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}, *messages]}


def of_field(text: str, messages: list[Any]) -> dict[str, Any]:
    return {"system": text, "messages": messages, "max_tokens": 99}


def of_field_blocks(text: str, messages: list[Any]) -> dict[str, Any]:
    said = [{"type": "text", "text": "You help."}, {"type": "text", "text": text}]
    return {"messages": messages, "system": said, "max_tokens": 99}


def of_instructions(text: str, messages: list[Any]) -> dict[str, Any]:
    return {"instructions": text, "input": messages}


def of_gemini(text: str, messages: list[Any]) -> dict[str, Any]:
    roles = {"user": "user", "assistant": "model"}
    contents = [{"role": roles[it["role"]], "parts": [{"text": it["content"]}]} for it in messages]
    return {"systemInstruction": {"parts": [{"text": text}]}, "contents": contents}


def of_tool_description(text: str, messages: list[Any]) -> dict[str, Any]:
    tool = {"name": "long", "description": text, "input_schema": {"type": "object"}}
    return {"tools": [tool], "messages": messages, "max_tokens": 99}


SHAPES = {
    it.__name__: it
    for it in (of_chat, of_blocks, of_user, of_field, of_field_blocks, of_instructions, of_gemini,
               of_tool_description)
}  # fmt: skip


def varied(random_: random.Random, body: dict[str, Any], model: str) -> dict[str, Any]:
    """`body` with this model, sometimes with tools and options, members in any order."""
    if "tools" not in body and random_.random() < 0.5:
        body["tools"] = random_.choice((MANY_TOOLS, MANY_ANTHROPIC_TOOLS, MANY_TOOLS[:1]))
    if random_.random() < 0.2:
        body |= random_.choice(({"tool_choice": "required"}, {"odd": 1}, {"user": "me"}))
    if random_.random() < 0.2:
        schema = {"name": "x", "schema": {"type": "object", "properties": {}}}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    members = list(({"model": model} | body).items())
    random_.shuffle(members)
    return dict(members)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_first_calls_and_turns_are_those_of_the_whole(shape: str) -> None:
    resumed = 0
    for seed in range(12):
        random_ = random.Random(f"{shape} {seed}")
        secret = f"beginning {shape} {seed}".encode()
        one, other = (HybridTokenEstimator(secret=secret) for _ in range(2))
        texts = [long_text(random_) for _ in range(2)]
        model = random_.choice(MODELS)
        for number in range(8):
            messages: list[Any] = [{"role": "user", "content": f"Question {number}: why?"}]
            text, state = random_.choice(texts), random_.getstate()
            for turn in range(2):
                random_.setstate(state)
                body = varied(random_, SHAPES[shape](text, messages), model)
                given = json.dumps(body, ensure_ascii=random_.random() < 0.5).encode()
                tenant = random_.choice((None, None, "a", "b"))
                expected = other.estimate(body, tenant=tenant)
                assert one.estimate(given, tenant=tenant) == expected
                billed = expected.tokens + random_.randrange(9)
                event = one.record_event(given, billed, tenant=tenant)
                assert event == other.record_event(body, billed, tenant=tenant)
                messages += [{"role": "assistant", "content": f"Because {turn}."}]
                messages += [{"role": "user", "content": f"And {turn}?"}]
        resumed += one.stats()["resumed"]
        names = ("known_prefixes", "known_shapes", "superseded")
        assert [one.stats()[name] for name in names] == [other.stats()[name] for name in names]
    assert resumed > 20 or shape == "of_tool_description"


def first_call(text: str, number: int, **more: Any) -> bytes:
    asked = {"role": "user", "content": f"Question {number}"}
    return json.dumps({"model": "gpt-4o", **more, **of_chat(text, [asked])}).encode()


def test_a_text_is_known_to_its_tenant_and_model_alone() -> None:
    text = long_text(random.Random(1))
    one = HybridTokenEstimator(secret=b"s" * 16)
    tokens = one.estimate(first_call(text, 0)).tokens
    one.record(first_call(text, 0), tokens)
    for number, names in enumerate(({}, {"tenant": "a"}, {"model": "claude-sonnet-4-5"})):
        given: Any = names
        expected = HybridTokenEstimator(secret=b"s" * 16)
        expected.record(json.loads(first_call(text, 0)), tokens)
        body = first_call(text, 7 + number)
        assert one.estimate(body, **given) == expected.estimate(json.loads(body), **given)
    assert one.stats()["resumed"] == 1


def test_many_long_texts_stay_within_the_memory_for_bodies() -> None:
    one = HybridTokenEstimator(secret=b"s" * 16, capacity_bytes=8 * 16 * 400 * 4)
    texts = [long_text(random.Random(number), 20_000) for number in range(12)]
    for number, text in enumerate(texts):
        body = first_call(text, number)
        one.record(body, one.estimate(body).tokens)
    for text in texts:
        one.estimate(first_call(text, 99))
    assert 1 <= one.stats()["resumed"] <= 4


def test_broken_bodies_of_known_texts_fail() -> None:
    text = long_text(random.Random(2))
    one, body = HybridTokenEstimator(), first_call(text, 0)
    one.record(body, one.estimate(body).tokens)
    for broken in (body[:-1], body + b"}", body.replace(b'"messages"', b"messages", 1)):
        with pytest.raises(RequestError):
            one.estimate(broken)
