"""Bedrock's streams are read from the bytes that AWS sends."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer

import tokenctx
from frames import chunk_frame, event_frame, exception_frame, frame, prelude
from tokenctx import UsageReader
from tokenctx.usage import Usage

DATA = Path(__file__).parents[1] / "data" / "usage"


def cases(name: str) -> dict[str, Any]:
    return {case["name"]: case for case in json.loads((DATA / name).read_bytes())["streams"]}


EVENT_STREAMS, STREAMS = cases("events.json"), cases("streams.json")
CONVERSE = ("converse", "converse-metadata-first")
INVOKED = ("anthropic-text", "anthropic-tools-thinking", "anthropic-refusal")


def frames_of(name: str) -> list[bytes]:
    if name in CONVERSE:
        return [event_frame(event) for event in EVENT_STREAMS[name]["events"]]
    lines = [line.removeprefix("data: ") for line in STREAMS[name]["lines"] if "data: " in line]
    return [chunk_frame(json.loads(line)) for line in lines]


def finished(chunks: Any) -> UsageReader:
    reader = UsageReader()
    for chunk in chunks:
        reader.feed(chunk)
    reader.finish()
    return reader


@pytest.mark.parametrize("name", CONVERSE + INVOKED)
def test_the_frames_are_those_of_the_sdk(name: str) -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(b"".join(frames_of(name)))
    assert len(list(buffer)) == len(frames_of(name))


@pytest.mark.parametrize("name", CONVERSE + INVOKED)
def test_a_stream_is_read_wherever_it_is_cut(name: str) -> None:
    stream, draw = b"".join(frames_of(name)), random.Random(1)
    bytewise = [stream[at : at + 1] for at in range(len(stream))]
    places = [sorted(draw.choices(range(len(stream)), k=3)) for _ in range(20)]
    cuts = [[stream[:a], stream[a:b], b"", stream[b:c], stream[c:]] for a, b, c in places]
    for chunks in ([stream], bytewise, *cuts):
        reader = finished(chunks)
        case = EVENT_STREAMS[name] if name in CONVERSE else STREAMS[name]
        reply = reader.reply if name in CONVERSE else (reader.reply or {}).get("content")
        assert (reader.usage, reply) == (Usage(**case["usage"]), case["reply"])
        assert (reader.is_complete, reader.dialect) == (True, case["dialect"])


def test_a_call_of_bedrock_is_recorded() -> None:
    estimator = tokenctx.HybridTokenEstimator()
    body = {"modelId": "anthropic.claude-sonnet-4-5-20250929-v1:0"}
    body |= {"messages": [{"role": "user", "content": [{"text": "Hello"}]}]}  # type: ignore[dict-item]
    assert estimator.record(body, finished([b"".join(frames_of("converse"))]))
    assert estimator.estimate(body).source == "exact"


@pytest.mark.parametrize("name", ["converse", "anthropic-text"])
def test_a_cut_stream_is_partial(name: str) -> None:
    whole = frames_of(name)
    first, last = whole[:-3], whole[-3]  # before the usage
    for end in (0, 1, 11, 12, len(last) - 1):
        reader = finished([*first, last[:end]])
        assert not reader.is_complete
        assert reader.reason in ("partial", "no_usage")


def test_a_stream_that_fails_is_not_complete() -> None:
    *first, _ = frames_of("converse")
    reader = finished([*first, exception_frame("throttlingException")])
    assert (reader.reason, reader.is_complete) == ("failed", False)


@pytest.mark.parametrize("place", [3, 6, 9, 40, -2])
def test_damage_is_told(place: int) -> None:
    """In a length, a checksum, a header, a payload: the frame is not believed."""
    first, second, *others = frames_of("converse")
    damaged = bytearray(second)
    damaged[place] ^= 1
    reader = finished([first, bytes(damaged), *others])
    assert not reader.is_complete
    assert reader.reason == "unreadable"


@pytest.mark.parametrize(
    "wrong",
    [
        frame(b"{}", message_type="event"),
        frame(b"{}", event_type='a":1,"usage'),
        frame(b"no JSON", event_type="metadata"),
        frame(b"{}", event_type=""),
    ],
)
def test_a_frame_that_is_no_event_is_told(wrong: bytes) -> None:
    assert finished([*frames_of("converse"), wrong]).reason == "unreadable"


def test_other_headers_are_passed_over() -> None:
    usage = b'{"usage": {"inputTokens": 7, "outputTokens": 2}}'
    values = b"".join(
        b"\x01x" + bytes([kind]) + value
        for kind, value in enumerate(
            (b"", b"", b"1", b"12", b"1234", b"12345678", b"\0\x01a", b"\0\x01a", b"12345678")
        )
    )
    values += b"\x01x\x09" + b"0" * 16
    reader = finished([frame(usage, more=values, event_type="metadata")])
    assert (reader.usage.input_tokens, reader.usage.output_tokens) == (7, 2)


def test_long_frames_are_dropped_and_memory_is_bounded() -> None:
    reader = finished([prelude(0x00FFFFFF, 0), *[b"x" * 1_000_000] * 40])
    assert not reader.is_complete
    reader = finished([*frames_of("converse"), prelude(0x7FFFFFFF, 0), b"x" * 1_000])
    assert reader.reason == "too_large"
