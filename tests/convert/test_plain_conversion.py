"""The core converts plain messages; whatever it converts is what Python would have made of it."""

from __future__ import annotations

import copy
import json
import logging
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversion_law import DIALECTS
from nasty_conversations import conversation
from recorded_requests import LEAST_RECORDS, recorded
from strategies import requests
from tokenctx import Error, RequestError, _core
from tokenctx.convert import conversion as python
from tokenctx.convert import convert_messages
from tokenctx.convert.conversion import RULES
from tokenctx.convert.source import plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OF_THE_CORE: Final = tuple(it for it in DIALECTS if it != "gemini-interactions")
"""The dialects that the core converts; Interactions are for Python alone."""
BATCH: Final = 16
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, 2.5, "", " \n", "text", "\ud83d", "call_1", "tokenctx_call_7", "x" * 70),
    *("user", "assistant", "tool", "system", "developer", "model", "ü", "{}", "[1]", "{broken"),
    *('{"a":NaN}', '{"a": 1}', ' {"b":1} ', '{"invalid_json":"x"}', {"invalid_json": "x"}),
    *([], {}, [None], {"a": [1, {"b": 2.5}]}, {"type": "text", "text": "t"}, [{"text": "t"}]),
)
NAMES: Final = ("type", "text", "content", "name", "id", "is_error", "role", "cache_control", "new")


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """No log lines: there would be a hundred thousand."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def chat() -> dict[str, Any]:
    """A conversation with all that is plain."""

    def call(call_id: str, arguments: str) -> dict[str, Any]:
        function = {"name": "read_file", "arguments": arguments}
        return {"id": call_id, "type": "function", "function": function}

    texts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    calls = [call("call_1", '{"path":"a.py","n":[1,2.5,null,123456789012345678901]}')]
    messages = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "read a.py"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_1", "content": "print()\n"},
        {"role": "assistant", "content": "It prints. Shall I read more?"},
        {"role": "user", "content": texts},
        {
            "role": "assistant",
            "content": "b.py and c.py",
            "tool_calls": [call("call_2", ""), call("call_3", "{}")],
        },
        {"role": "tool", "tool_call_id": "call_2", "content": ""},
        {"role": "tool", "tool_call_id": "call_3", "content": "c"},
    ]
    return {"model": "gpt-4o", "messages": messages}


PLAIN: Final = {to: convert_messages(chat(), to=to).body for to in OF_THE_CORE}


def messages_of(body: Any, source: Any) -> Any:
    return body.get(RULES[source].list_field) if isinstance(body, dict) else None


def outcome(body: Any, source: Any, target: Any) -> Any:
    """All that a conversion says, or how it failed; a text, so that the order of keys counts."""
    try:
        found = convert_messages(body, to=target, source=source)
    except Error as error:
        return repr(error)
    return json.dumps(found.body), found.warnings, set(found.losses)


def check(body: Any, source: Any, name: str) -> int:
    """Core and Python agree on all targets; how many the core has converted."""
    converted = 0
    for target in OF_THE_CORE:
        ours = outcome(body, source, target)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(python, "_convert_plain", lambda *_: None)
            assert ours == outcome(body, source, target), f"{name} to {target}"
        messages = messages_of(body, source)
        if isinstance(messages, list):
            converted += _core._convert_plain(messages, source, RULES[target]) is not None
    return converted


@pytest.mark.parametrize("target", OF_THE_CORE)
@pytest.mark.parametrize("source", OF_THE_CORE)
def test_plain_messages_are_converted_by_the_core(source: Any, target: Any) -> None:
    messages = messages_of(PLAIN[source], source)
    found = _core._convert_plain(messages, source, RULES[target])
    assert found is not None
    system_count, written, left_over, merged = found
    assert not left_over
    assert not merged
    expected = messages_of(PLAIN[target], target)
    assert json.dumps(messages[:system_count] + written) == json.dumps(expected) or (
        RULES[source].system != RULES[target].system
    )
    assert check(PLAIN[source], source, source) == len(OF_THE_CORE)


@pytest.mark.parametrize("kind", ["text", "call", "result", "role"])
def test_one_field_more_is_not_plain(kind: str) -> None:
    body = chat()
    messages = body["messages"]
    part = {
        "text": messages[5]["content"][0],
        "call": messages[2]["tool_calls"][0],
        "result": messages[3],
        "role": messages[1],
    }[kind]
    part["cache_control"] = {"type": "ephemeral"}
    found = _core._convert_plain(messages, "openai-chat", RULES["anthropic"])
    place = {"text": 5, "role": 1}.get(kind)
    if place is None:
        assert found is None
    else:
        assert found is not None
        ((index, written_index),) = found[2]
        assert index == place
        assert found[1][written_index] is None
    assert check(body, "openai-chat", kind) == (0 if found is None else len(OF_THE_CORE) - 1)


PNG: Final = "iVBORw0KGgo="
"""No dialect looks into it."""


def with_picture(body: dict[str, Any], *places: int, is_marked: bool = False) -> dict[str, Any]:
    """`body` with a picture beside what the user says at `places`, and behind it a cache marker."""
    body = copy.deepcopy(body)
    for place in places:
        url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
        said = {"type": "text", "text": f"Look at picture {place}."}
        if is_marked:
            said["cache_control"] = {"type": "ephemeral"}  # type: ignore[assignment]
        body["messages"][place] = {"role": "user", "content": [url, said]}
    return body


@pytest.mark.parametrize("is_marked", [False, True])
@pytest.mark.parametrize("places", [(1,), (5,), (1, 5)])
@pytest.mark.parametrize("source", ["openai-chat", "anthropic", "gemini", "ai-sdk"])
def test_pictures_and_markers_are_converted_apart(
    source: Any, places: tuple[int, ...], *, is_marked: bool
) -> None:
    asked = with_picture(chat(), *places, is_marked=is_marked)
    body = convert_messages(asked, to=source).body
    converted = check(body, source, f"{source} with pictures at {places}")
    assert converted == len(OF_THE_CORE) - 1, "all but the way to the same dialect"
    for target in OF_THE_CORE:
        if target != source:
            found = _core._convert_plain(messages_of(body, source), source, RULES[target])
            assert found is not None
            assert len(found[2]) == len(places)


@pytest.mark.parametrize("source", ["openai-chat", "anthropic", "ai-sdk"])
def test_what_follows_a_result_is_joined_to_it(source: Any) -> None:
    """An interrupted agent: the user speaks behind a result, or twice; Gemini wants one message."""
    body = chat()
    said = {"role": "user", "content": "stop"}
    body["messages"] = [*body["messages"], said, said]
    body["messages"].insert(4, said)
    asked = convert_messages(body, to=source).body
    assert check(asked, source, f"{source}, spoken after a result") >= len(OF_THE_CORE) - 1
    check(with_picture(body, 4, -1), "openai-chat", "a picture after a result")
    found = _core._convert_plain(messages_of(asked, source), source, RULES["gemini"])
    assert found is not None
    assert len(found[3]) == 3
    converted = convert_messages(asked, to="gemini", source=source)
    assert sum(note.kind == "merged" for note in converted.losses) >= 3


def test_more_markers_than_a_dialect_takes_are_dropped_alike() -> None:
    turn = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
    body = {"model": "gpt-4o", "messages": [*(turn * 7), turn[0]]}
    places = range(0, 15, 2)
    for count in range(1, len(places)):
        marked = with_picture(body, *places[:count], is_marked=True)
        check(marked, "openai-chat", f"{count} markers")
        found = convert_messages(marked, to="anthropic")
        assert str(found.body).count("cache_control") == min(count, 4)


def mutated(body: Any, random: Random) -> Any:
    """`body` with one to three values of its messages changed, added or gone."""
    body = copy.deepcopy(body)
    for _ in range(random.choice((1, 1, 2, 3))):
        holders = [body]
        for holder in holders:
            items = holder.values() if isinstance(holder, dict) else holder
            holders += [item for item in items if isinstance(item, dict | list)]
        holder = random.choice(holders)
        value = copy.deepcopy(random.choice(VALUES))
        if isinstance(holder, list):
            mutate_list(holder, value, random)
        elif holder and random.random() < 0.8:
            key = random.choice(list(holder))
            if random.random() < 0.2:
                del holder[key]
            else:
                holder[key] = value
        else:
            holder[random.choice(NAMES)] = value
    return body


def mutate_list(items: list[Any], value: Any, random: Random) -> None:
    kind = random.choice(("set", "insert", "delete", "repeat", "swap"))
    index = random.randrange(len(items) + 1)
    if kind == "insert" or not items:
        items.insert(index, value)
    elif kind == "set":
        items[index % len(items)] = value
    elif kind == "delete":
        del items[index % len(items)]
    elif kind == "repeat":
        items.insert(index, copy.deepcopy(items[index % len(items)]))
    else:
        items.append(items.pop(index % len(items)))


@pytest.mark.slow
@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_nearly_plain_conversations_are_converted_alike(seed: int) -> None:
    for number in range(BATCH):
        random = Random(seed * BATCH + number)
        source = random.choice(OF_THE_CORE)
        check(mutated(PLAIN[source], random), source, f"seed {seed}, number {number}")


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_nasty_conversations_are_converted_alike(seed: int) -> None:
    for number in range(BATCH):
        source, body = conversation(seed * BATCH + number)
        check(body, source, f"seed {seed}, number {number}")


@settings(max_examples=100)
@given(requests())
def test_any_json_is_converted_alike(body: Any) -> None:
    for source in OF_THE_CORE:
        check(body, source, source)


@pytest.mark.slow
def test_recorded_requests_are_converted_alike(shared_data: Path) -> None:
    """The core converts a quarter of them and more, so the rest of the test says something."""
    bodies = converted = 0
    for body, source, name in recorded(shared_data):
        if source is not None:
            converted += check(body, source, name)
            bodies += 1
    assert bodies > LEAST_RECORDS // 4
    assert converted > bodies * len(OF_THE_CORE) // 4


@pytest.mark.parametrize("value", [None, True, 1, 2.5, "text", [], {}, [{"a": [1, None]}]])
def test_json_values_are_taken_as_they_are(value: Any) -> None:
    assert _core._is_json(value)
    assert plain([value])[0] is value


class Text(str):
    """No JSON value, but like one."""

    __slots__ = ()


@pytest.mark.parametrize("value", [(), b"", object(), Text("a"), [{"a": ()}], {"a": [{1}]}])
def test_other_values_are_no_json(value: Any) -> None:
    assert not _core._is_json(value)


@pytest.mark.slow
def test_what_repeats_without_end_is_no_json() -> None:
    """2**40 ways lead through the one, and the other holds itself."""
    value: list[Any] = []
    for _ in range(40):
        value = [value, value]
    around: list[Any] = [{"a": 1}]
    around[0]["self"] = around
    assert not _core._is_json(value)
    assert not _core._is_json(around)
    with pytest.raises(RequestError, match="values"):
        plain(value)
