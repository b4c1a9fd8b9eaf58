"""A stream is scaled to the same bytes, however it is cut; all but digits of usage stay."""

from __future__ import annotations

import itertools
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from reference import scale as reference
from tokenctx import _core

CASES = json.loads((Path(__file__).parents[1] / "data" / "usage" / "streams.json").read_bytes())
STREAMS: dict[str, dict[str, Any]] = {case["name"]: case for case in CASES["streams"]}
LINE_ENDS = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}
POINTS = {"fixed": [(128_000, 200_000)], "piecewise": [(64_000, 64_000), (128_000, 200_000)]}
LONGEST_EXHAUSTIVE = 4096


def encoded(case: dict[str, Any], line_end: bytes = b"\n") -> bytes:
    """The stream of a case as bytes."""
    text = "".join(case["lines"][index] + "\n" for index in range(len(case["lines"])))
    return text.encode().replace(b"\n", line_end)


def scaled(core: Any, points: Any, chunks: list[bytes], first: int | None = None) -> Any:
    """The bytes of the scaled stream, the numbers seen, the events that were too long."""
    stream = core.Scale(points, "floor").stream(first)
    out = b"".join([*map(stream.push, chunks), stream.finish()])
    return out, stream.numbers(), stream.long_event_count


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(places), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("line_end", LINE_ENDS)
@pytest.mark.parametrize("name", STREAMS)
def test_every_cut_gives_the_same_bytes(name: str, line_end: str, points: str) -> None:
    stream = encoded(STREAMS[name], LINE_ENDS[line_end])
    assert len(stream) <= LONGEST_EXHAUSTIVE
    whole = scaled(reference, POINTS[points], [stream], 77)
    assert scaled(_core, POINTS[points], [stream], 77) == whole
    for place in range(len(stream) + 1):
        assert scaled(_core, POINTS[points], cut(stream, [place]), 77) == whole, place
    assert (
        scaled(_core, POINTS[points], [stream[i : i + 1] for i in range(len(stream))], 77) == whole
    )


DIGITS = re.compile(rb"\d+")


@pytest.mark.parametrize("name", STREAMS)
def test_only_digits_change(name: str) -> None:
    stream = encoded(STREAMS[name])
    out, numbers, _ = scaled(_core, POINTS["fixed"], [stream])
    assert DIGITS.sub(b"0", out) == DIGITS.sub(b"0", stream)
    assert (out != stream) == STREAMS[name].get("is_scaled", True) == bool(numbers[0])


# Generated streams

USAGES = json.loads((Path(__file__).parents[1] / "data" / "usage" / "shapes.json").read_bytes())
SHAPES = [case["usage"] for case in USAGES["cases"] if isinstance(case["usage"], dict)]
TEXTS = ("é€😀", '"usage":{"input_tokens":5}', 'a\\b"c', "data: {}", "\u2028", "x" * 200)
PLAIN = (": ping", "event: message_delta", "id: 7", "retry: 3000", "data", "data: [DONE]", "junk")


def generated_event(draw: random.Random) -> list[bytes]:
    """Lines of an event: of usage, of text, or of neither."""
    kind = draw.randrange(8)
    if kind < 2:
        return [draw.choice(PLAIN).encode() for _ in range(draw.randrange(3))]
    content: dict[str, Any] = {"type": draw.choice(["message_start", "message_delta", "chunk"])}
    content["text"] = draw.choice(TEXTS)
    if kind < 6:
        usage = mutated(draw, draw.choice(SHAPES))
        places = ["usage", "usageMetadata", "message", "response", "x_groq", "tool"]
        for place in draw.sample(places, draw.randint(1, 2)):
            content[place] = usage if place.startswith("usage") else {"usage": usage}
    text = json.dumps(content, ensure_ascii=draw.random() < 0.5, indent=draw.choice([None, 1]))
    lines = [b"data:" + b" " * draw.randrange(2) + line.encode() for line in text.split("\n")]
    if draw.random() < 0.1:
        lines[-1] = lines[-1].replace(b"x", b"\xff").replace(b"}", b"", draw.randrange(2))
    return [*([b"event: x"] if draw.random() < 0.3 else []), *lines]


def mutated(draw: random.Random, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: mutated(draw, inner) for name, inner in value.items() if draw.random() < 0.9}
    if isinstance(value, list):
        return [mutated(draw, inner) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool):
        other = [None, value, -value, float(value), 2 ** draw.randrange(70), draw.randrange(10**6)]
        return draw.choice([value, value, value, *other])
    return value


def generated_stream(draw: random.Random) -> bytes:
    ends = (
        [draw.choice(list(LINE_ENDS.values()))] if draw.random() < 0.8 else [b"\r", b"\n", b"\r\n"]
    )
    out = [b"\xef\xbb\xbf"] if draw.random() < 0.1 else []
    for _ in range(draw.randrange(1, 6)):
        out += [part for line in generated_event(draw) for part in (line, draw.choice(ends))]
        out.append(draw.choice(ends))
    stream = b"".join(out)
    return stream[: len(stream) - draw.randrange(3)]


@pytest.mark.parametrize("seed", range(40))
def test_generated_streams_are_scaled_alike_however_they_are_cut(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(50):
        stream = generated_stream(draw)
        points = draw.choice(list(POINTS.values()))
        first = draw.choice([None, 7])
        expected = scaled(reference, points, [stream], first)
        assert scaled(_core, points, [stream], first) == expected, stream
        for _ in range(8):
            places = [draw.randrange(len(stream) + 1) for _ in range(draw.randrange(6))]
            assert scaled(_core, points, cut(stream, places), first) == expected, (stream, places)
