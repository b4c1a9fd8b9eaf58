"""Events that differ in their text alone are read as one, and nobody can tell.

The reference is the same reader, to which the core gives every event by itself.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import UsageReader
from tokenctx._core import Alike, Documents
from tokenctx.usage.replies import NO_REPLY, reply_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CASES = json.loads((Path(__file__).parents[1] / "data" / "usage" / "streams.json").read_bytes())
RECORDED = {
    case["name"]: "".join(line + "\n" for line in case["lines"]).encode()
    for case in CASES["streams"]
}
DAMAGE = [b'"', b"\\", b"\xff", b"\n", b"\x01", b"\xe2\x82", b"0", b"\\ud83d"]
WORDS = [
    "",
    "It ",
    "scatters\n",
    "\\u4f60\u597d",
    "\U0001f600",
    "{[\"'",
    "a\\b",
    "\x7f",
    "long " * 60,
]


class EachEvent(UsageReader):
    """Reads every event."""

    def __init__(self) -> None:
        super().__init__()
        documents = Documents()

        class Alone:
            """The documents, none of which is kept."""

            join = staticmethod(lambda _alike: None)

            def __getattr__(self, name: str) -> Any:
                return getattr(documents, name)

        self._documents: Any = Alone()


def known(reader: UsageReader) -> tuple[Any, ...]:
    return (
        reader.reason,
        reader.is_complete,
        reader.is_partial,
        reader.has_read,
        reader.model,
        reader.dialect,
        reader.usage,
        reader.reply,
    )


def read(
    chunks: Iterable[Any], make: Callable[[], UsageReader], *, asks: bool = False
) -> list[tuple[Any, ...]]:
    """What is known at the end; if it `asks`, behind each chunk too."""
    reader, told = make(), []
    for chunk in chunks:
        reader.feed(chunk)
        told.append(known(reader) if asks else (reader.is_complete, reader.reason))
    reader.finish()
    return [*told, known(reader)]


def assert_same(chunks: list[Any], *, asks: bool = False) -> None:
    assert read(chunks, UsageReader, asks=asks) == read(chunks, EachEvent, asks=asks)


def chat(word: str, number: int) -> Any:
    choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
    return {"id": f"c{number}", "model": "gpt-4o", "choices": [choice], "obfuscation": "x" * number}


def chat_with_usage(word: str, number: int) -> Any:
    details = {"cached_tokens": number + 1}
    usage: Any = {"prompt_tokens": 40, "completion_tokens": number % 3, "details": details}
    return {**chat(word, number), "usage": usage}


def chat_call(word: str, number: int) -> Any:
    call = {"index": number // 5, "function": {"name": "f", "arguments": word}}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}


def chat_both(word: str, number: int) -> Any:
    delta = {
        "content": word,
        "reasoning": "r",
        "reasoning_details": [{"text": "r"}][: number // 4 % 2],
    }
    return {"choices": [{"index": number // 7, "delta": delta}]}


def anthropic(word: str, number: int) -> Any:
    delta = [
        {"type": "text_delta", "text": word},
        {"type": "input_json_delta", "partial_json": word},
        {"type": "citations_delta", "citation": {"cited": 1}, "text": word},
    ][number // 6 % 3]
    return {"type": "content_block_delta", "index": 0, "delta": delta}


def responses(word: str, number: int) -> Any:
    return {"type": "response.output_text.delta", "sequence_number": number, "delta": word}


def gemini(word: str, number: int) -> Any:
    part = {"text": word, **({"thought": True} if number // 4 % 2 else {})}
    usage: Any = {
        "promptTokenCount": 9,
        "candidatesTokenCount": number,
        "totalTokenCount": 9 + number,
    }
    details = [{"modality": "TEXT", "tokenCount": number * 2}]
    usage |= {"candidatesTokensDetails": details}
    return {"candidates": [{"content": {"parts": [part]}}], "usageMetadata": usage}


def converse(word: str, number: int) -> Any:
    kinds: list[Any] = [{"text": word}, {"toolUse": {"input": word}}]
    kinds += [{"reasoningContent": {"text": word, "signature": "s"}}]
    delta = kinds[number // 4 % 3]
    return {"contentBlockDelta": {"contentBlockIndex": number // 4 % 3, "delta": delta, "p": word}}


def cohere(word: str, number: int) -> Any:
    call = {"function": {"arguments": "[1]"}}
    kind = ("content-delta", "tool-call-delta")[number // 4 % 2]
    message = {"content": {"text": word}, **({"tool_calls": call} if number // 4 % 2 else {})}
    return {"type": kind, "index": 0, "delta": {"message": message}}


def ollama(word: str, number: int) -> Any:
    message = {"role": "assistant", "content": word}
    return {"model": "llama", "created_at": f"{number}", "message": message, "done": False}


def interaction(word: str, number: int) -> Any:
    return {"event_type": "content.delta", "event_id": f"e{number}", "delta": {"text": word}}


STOP = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
BLOCK = {"type": "tool_use", "input": {}}
ENDS: dict[Callable[[str, int], Any], tuple[list[Any], list[Any]]] = {
    chat: ([], [STOP, {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}]),
    chat_with_usage: ([], [STOP]),
    chat_call: ([], [STOP]),
    chat_both: ([], [STOP]),
    anthropic: (
        [
            {"type": "message_start", "message": {"model": "claude", "usage": {"input_tokens": 3}}},
            {"type": "content_block_start", "index": 0, "content_block": BLOCK},
        ],
        [{"type": "message_delta", "delta": {"stop_reason": "end"}, "usage": {"output_tokens": 9}}],
    ),
    responses: (
        [{"type": "response.created", "response": {"model": "gpt"}}],
        [
            {
                "type": "response.completed",
                "response": {"output": [{"a": 1}], "usage": {"input_tokens": 3}},
            }
        ],
    ),
    gemini: (
        [],
        [{"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 3}}],
    ),
    converse: (
        [{"messageStart": {}}],
        [{"messageStop": {}}, {"metadata": {"usage": {"inputTokens": 3}}}],
    ),
    cohere: (
        [
            {"type": "message-start"},
            {
                "type": "tool-call-start",
                "index": 0,
                "delta": {"message": {"tool_calls": {"id": 1}}},
            },
        ],
        [{"type": "message-end", "delta": {"usage": {"tokens": {"input_tokens": 3}}}}],
    ),
    ollama: ([], [{"model": "llama", "done": True, "prompt_eval_count": 3, "eval_count": 4}]),
    interaction: (
        [{"event_type": "interaction.start", "interaction": {"status": "in_progress"}}],
        [
            {
                "event_type": "interaction.complete",
                "interaction": {"status": "completed", "usage": {"total_input_tokens": 3}},
            }
        ],
    ),
}
FORMATS = {make.__name__: make for make in ENDS}


def stream(make: Callable[[str, int], Any], draw: random.Random, count: int) -> list[bytes]:
    """The events of a stream, as the provider writes them; some are of another format."""
    start, end = ENDS[make]
    words = [make(draw.choice(WORDS), number) for number in range(count)]
    if draw.random() < 0.5:
        other = draw.choice(list(ENDS))
        words.insert(draw.randrange(count), other("other", 1))
    is_ascii = draw.random() < 0.5
    lines = (json.dumps(it, ensure_ascii=is_ascii).encode() for it in [*start, *words, *end])
    if make is ollama:
        return [line + b"\n" for line in lines]
    return [b"data: " + line + b"\n\n" for line in lines]


def damaged(text: bytes, draw: random.Random) -> bytes:
    """A few bytes are lost, doubled or others."""
    for _ in range(draw.randrange(1, 4)):
        at, end = sorted(draw.randrange(len(text)) for _ in range(2))
        end = min(end, at + draw.randrange(1, 40))
        put = draw.choice(
            [b"", text[at:end] * 2, b'"', b"\\", b"\xff", b"\n", b"\x01", b"\xe2\x82", b"0"]
        )
        text = text[:at] + put + text[end:]
    return text


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read_as_event_by_event(name: str) -> None:
    draw = random.Random(name)
    for _ in range(40):
        events = stream(FORMATS[name], draw, draw.randrange(1, 30))
        assert_same(events)
        assert_same(events, asks=True)
        assert_same([b"".join(events)])


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_stream_is_read_as_event_by_event(name: str) -> None:
    draw = random.Random(name)
    for _ in range(150):
        text = damaged(b"".join(stream(FORMATS[name], draw, draw.randrange(2, 20))), draw)
        place = draw.randrange(len(text) + 1)
        assert_same([text[:place], text[place:]], asks=True)
        assert_same([text[at : at + 50] for at in range(0, len(text), 50)])


@pytest.mark.parametrize("name", FORMATS)
def test_a_stream_is_read_as_event_by_event_wherever_it_is_cut(name: str) -> None:
    text = b"".join(stream(FORMATS[name], random.Random(name), 7))
    whole = read([text], EachEvent)[-1]
    for place in range(len(text)):
        assert read([text[:place], text[place:]], UsageReader)[-1] == whole, place
    assert read([text[at : at + 1] for at in range(len(text))], UsageReader)[-1] == whole


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_streams_are_read_as_event_by_event(name: str) -> None:
    text, draw = RECORDED[name], random.Random(name)
    for _ in range(30):
        changed = damaged(text, draw)
        place = draw.randrange(len(changed) + 1)
        assert_same([changed[:place], changed[place:]], asks=True)


def test_objects_between_bytes_are_read_in_order() -> None:
    events = stream(chat, random.Random(1), 12)
    between = {"choices": [{"index": 0, "delta": {"content": " <object> "}}]}
    chunks: list[Any] = [*events[:8], between, *events[8:]]
    assert_same(chunks)


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"chat_both", "chat_with_usage"}))
def test_most_events_of_an_answer_are_kept(name: str) -> None:
    """Else the tests above would compare nothing."""
    make, documents = FORMATS[name], Documents()
    first, *_ = [*ENDS[make][0], make("word", 1)]
    reply = reply_of(first)
    documents.join(NO_REPLY if reply is None else reply.alike)
    events = [json.dumps(make(f"word {number}", 1)).encode() + b"\n" for number in range(4)]
    assert [documents.push(event) is not None for event in events] == [True, False, False, False]


def test_without_rules_every_event_is_given() -> None:
    documents = Documents()
    documents.join(Alike())
    assert [documents.push(b'{"a":"b"}') for _ in range(3)] == ['{"a":"b"}'] * 3
