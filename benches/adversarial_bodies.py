"""Bodies that are made to be slow or large to read: by name, and at random from a grammar.

A `Shape` is what is repeated, and what stands before and behind it; `random_shape` nests parts of a
request in each other. All are bytes of JSON, or nearly.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

CHAT: Final = '{"model":"%s","messages":['
MODELS: Final = ("gpt-4o", "claude-sonnet-4-5", "gemini-2.5-pro", "llama-3.3-70b", "grok-4", "none")
STREAM: Final = b" obj/Filter/FlateDecode stream\n" + zlib.compress(b"") + b"endstream"
PDF: Final = b"%PDF-1.4 1 0 obj<</Type /Page>>endobj "


@dataclass(frozen=True)
class Shape:
    """A body: `unit` again and again, with commas if it is an element."""

    before: str
    unit: str
    after: str
    comma: str = ","

    def body(self, size: int) -> bytes:
        """About `size` bytes of it; a `#` in the unit is a number of its own."""
        count = max(1, size // (len(self.unit) + len(self.comma)))
        if "#" in self.unit:
            numbered = (self.unit.replace("#", f"{number:x}") for number in range(count))
            return (self.before + self.comma.join(numbered) + self.after).encode()
        units = self.unit + (self.comma + self.unit) * (count - 1)
        return (self.before + units + self.after).encode()


def _file(head: bytes, unit: bytes) -> Shape:
    """A PDF of which `unit`, as base64, is repeated."""
    units = unit * 3
    before, repeated = (
        base64.b64encode(it).decode() for it in (head + b" " * (-len(head) % 3), units)
    )
    block = '{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"'
    opened = CHAT % "claude-sonnet-4-5" + '{"role":"user","content":[' + block + before
    return Shape(opened, repeated, '"}}]}]}', "")


USER: Final = CHAT % "gpt-4o" + '{"role":"user","content":'
SHAPES: Final[dict[str, Shape]] = {
    **{
        f"messages of {unit}": Shape('{"messages":[', unit, "]}")
        for unit in ("1", "[]", "{}", '""', "null", '{"role":"user","content":"a"}')
    },
    "parts of 1": Shape(USER + "[", "1", "]}]}"),
    "parts of {}": Shape(USER + "[", "{}", "]}]}"),
    "texts": Shape(USER + "[", '"a"', "]}]}"),
    "text blocks": Shape(USER + "[", '{"type":"text","text":"a"}', "]}]}"),
    "images": Shape(USER + "[", '{"type":"image_url","image_url":{"url":"x"}}', "]}]}"),
    "calls": Shape(CHAT % "gpt-4o" + '{"role":"assistant","tool_calls":[', "{}", "]}]}"),
    "tools": Shape('{"messages":[],"tools":[', '{"name":"f"}', "]}"),
    "members": Shape("{", '"#":1', "}"),
    "equal members": Shape("{", '"":1', "}"),
    "long numbers": Shape("[", "1e15", "]"),
    "escapes": Shape(USER + '"', "\\u0041", '"}]}', ""),
    "line ends": Shape(USER + '"', "\\n", '"}]}', ""),
    "brackets": Shape('{"x":[', "[[[[[[]]]]]]", "]}"),
    "empty PDF streams": _file(PDF, STREAM),
    "PDF pages": _file(b"%PDF-1.4 ", b"/Type /Page "),
    "PDF texts": _file(PDF + b" obj stream BT ", b"(((("),
    "properties": Shape(
        '{"model":"gpt-4o","messages":[],"tools":[{"type":"function","function":{"name":"f",'
        '"parameters":{"type":"object","properties":{',
        '"#":{}',
        "}}}}]}",
    ),
}


def _nested(random_: random.Random, depth: int) -> tuple[str, str]:
    """What stands around a list of JSON values inside of arguments or of a schema."""
    before, after = "", ""
    for _ in range(random_.randrange(depth)):
        key = random_.choice(("a", "properties", "items", "anyOf", "enum", "$defs", "description"))
        opened, closed = random_.choice((("[", "]"), (f'{{"{key}":', "}"), (f'{{"{key}":[', "]}")))
        before, after = before + opened, closed + after
    return before + "[", "]" + after


def random_shape(random_: random.Random) -> Shape:
    """A request of some model in which something small is repeated somewhere."""
    scalar = random_.choice(
        (
            "1",
            "0.1",
            "1e9",
            '""',
            '"a"',
            '"#"',
            '"\\n"',
            '"\\u00e9"',
            "[]",
            "{}",
            "null",
            "true",
            '{"type":"text","text":"a"}',
            '{"a":#}',
            "[[1]]",
            '{"role":"user","content":"#"}',
            '{"type":"string"}',
            '{"name":"f#"}',
            '{"text":"a"}',
            '{"functionCall":{"name":"f"}}',
            '{"type":"tool_use","name":"f","input":{}}',
            '{"type":"tool_result","content":"a"}',
            '{"role":"tool","content":"1"}',
            '{"role":"assistant","tool_calls":[{}]}',
            '"\\"\\\\"',
        )
    )
    model = random_.choice(MODELS)
    value, closed = _nested(random_, 12)
    user, said = CHAT % model + '{"role":"user","content":', '{"role":"assistant",'
    function = '{"type":"function","function":{"name":"f","parameters":'
    gemini = f'{{"model":"{model}","contents":[{{"role":"model","parts":['
    places = (
        (f'{{"model":"{model}","messages":[', "]}"),
        (f'{{"model":"{model}","input":[', "]}"),
        (f'{{"model":"{model}","contents":[', "]}"),
        (user + "[", "]}]}"),
        (user + '[{"type":"tool_result","content":[', "]}]}]}"),
        (CHAT % model + said + '"tool_calls":[', "]}]}"),
        (
            CHAT % model + said + '"tool_calls":[{"function":{"name":"f","arguments":' + value,
            closed + "}}]}]}",
        ),
        (
            CHAT % model + said + '"content":[{"type":"tool_use","name":"f","input":' + value,
            closed + "}]}]}",
        ),
        (gemini + '{"functionCall":{"name":"f","args":' + value, closed + "}}]}]}"),
        (gemini + '{"functionResponse":{"name":"f","response":' + value, closed + "}}]}]}"),
        (CHAT % model + '],"tools":[', "]}"),
        (CHAT % model + '],"tools":[' + function + value, closed + "}}]}"),
        (CHAT % model + '],"tools":[{"name":"f","input_schema":' + value, closed + "}]}"),
        (
            CHAT % model + '],"response_format":{"type":"json_schema","json_schema":{"name":"x",'
            '"schema":' + value,
            closed + "}}}",
        ),
        (CHAT % model + '],"system":[', "]}"),
        (CHAT % model + '],"x":' + value, closed + "}"),
    )
    before, after = random_.choice(places)
    return Shape(before, scalar, after)


# Streams of events, which the reader and the scaler take in pieces.

EVENTS: Final = (
    "{}",
    "[]",
    "1",
    '"a"',
    '{"choices":[]}',
    '{"choices":[{"delta":{"content":"a"}}]}',
    '{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}',
    '{"usage":{}}',
    '{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}',
    '{"type":"message_delta","usage":{"output_tokens":1}}',
    '{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}',
    '{"type":"response.output_text.delta","delta":"a"}',
    '{"a":{"usage":1}}',
    '"usage"',
)
STREAMS: Final = {
    "empty objects of an array": Shape("[", "{}", "]"),
    "numbers of an array": Shape("[", "1", "]"),
    "open braces": Shape("[", "{", "", ""),
    "one long line": Shape('data: {"x":"', "a", '"}\n\n', ""),
    "escapes in one line": Shape('data: {"x":"', "\\n", '"}\n\n', ""),
    "line ends": Shape("", "\n", "", ""),
    "returns": Shape("", "\r", "", ""),
    "empty fields": Shape("", "data:\n", "", ""),
    "comments": Shape("", ":\n\n", "", ""),
    **{f"events of {event[:28]}": Shape("", f"data: {event}\n\n", "", "") for event in EVENTS},
}


def random_stream(random_: random.Random) -> Shape:
    """Events of some kind between line ends of some kind, or elements of an array."""
    event = random_.choice(EVENTS)
    for _ in range(random_.randrange(3)):
        event = random_.choice(('{"a":%s}', "[%s]", '{"usage":%s}', '{"choices":[%s]}')) % event
    if random_.random() < 0.3:
        return Shape("[", event, "]")
    end = random_.choice(("\n\n", "\r\n\r\n", "\r\r", "\n\n\n\n"))
    head = random_.choice(("", "event: x\n", ":\n", "id: 1\n"))
    return Shape("", f"{head}data: {event}{end}", "", "")
