"""Feeds arbitrary input to the package: `python tests/rigs/fuzz_requests.py --seconds 60`.

What must hold of it stands in fuzz_laws.py. Inputs are requests, answers and streams of every
dialect, damaged: as text, or as objects. A finding is printed with its seed and the exit code is 1.
The core is compiled without coverage counters, which is why this is a plain loop: a guided fuzzer
would be as blind and slower.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any, Final

from frames import chunk_frame, event_frame
from fuzz_laws import CANARY, MODELS, FindingError, Target
from nasty_conversations import conversation

DATA: Final = Path(__file__).parents[1] / "data"
MAX_BYTES: Final = 4 << 30
"""Of address space: what grows without end is a finding, and not the end of the machine."""

PNG: Final = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\4\0\0\0\3\0\x08\x06\0\0\0" + CANARY.encode()
SEEDS: Final[list[Any]] = [
    {
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": CANARY},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": f"Look {CANARY}"},
                    {
                        "type": "image_url",
                        "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="},
                    },
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "1", "function": {"name": CANARY, "arguments": '{"a":[1,2.5,"é"]}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": f'{{"{CANARY}":null}}'},
        ],
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
        ],
        "response_format": {"type": "json_schema", "json_schema": {"schema": {"a": CANARY}}},
    },
    {
        "model": "claude-sonnet-4-5",
        "system": [{"type": "text", "text": CANARY, "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": CANARY, "signature": "x"},
                    {"type": "tool_use", "id": "1", "name": "f", "input": {"q": CANARY}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "1",
                        "content": [
                            {"type": "text", "text": CANARY},
                            {
                                "type": "image",
                                "source": {"type": "base64", "data": "R0lGODlhAQABAA=="},
                            },
                        ],
                    }
                ],
            },
        ],
        "tools": [{"name": "f", "description": CANARY, "input_schema": {"type": "object"}}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    },
    {
        "model": "gpt-5",
        "instructions": CANARY,
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": CANARY}]},
            {"type": "reasoning", "encrypted_content": CANARY, "summary": []},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": CANARY},
        ],
    },
    {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": CANARY},
                    {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
                ],
            },
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": CANARY}}}]},
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "f", "response": {"r": 1e400}}}],
            },
        ],
        "systemInstruction": {"parts": [{"text": CANARY}]},
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": {}}], "googleSearch": {}}],
    },
    {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"text": CANARY},
                    {"document": {"format": "pdf", "source": {"bytes": "AAAA"}}},
                ],
            },
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "1", "name": "f", "input": {}}}],
            },
        ],
        "toolConfig": {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {}}}}]},
    },
    [{"role": 1, "content": [{"value": CANARY}, {"callId": "1", "content": [{"value": CANARY}]}]}],
]
WORDS: Final = (
    b'{ } [ ] , : " \\ \\u \\ud800 \\udc00 null true false NaN -Infinity 1e999'
    b" -0 0.1e-7 // /* \0 \xff \xed\xa0\x80 \xef\xbb\xbf \xc0\x80"
    b" messages content role type text data source image_url"
    b" tool_calls arguments data:image/png;base64, data:, file_id input parts contents"
).split(b" ")
VALUES: Final[list[Any]] = [
    *(None, True, False, 0, -1, 2**64, -(10**400), 1.5, float("nan"), float("-inf"), "", CANARY),
    *(
        "\ud800",
        "\x00",
        "data:image/png;base64,",
        "{" * 50,
        [],
        {},
        [[]],
        {"": ""},
        b"",
        PNG,
        b"\xff",
    ),
    *(object(), {1, 2}, (1,), 1j, {1: 2, None: 3, (1,): 4}, range(3), iter(()), Exception, print),
]


def seeds() -> list[bytes]:
    """Our own requests, and those of the request tests."""
    found = list(SEEDS)
    for path in sorted((DATA / "requests").glob("*.json")):
        cases = json.loads(path.read_text("utf-8"))
        found += [case["body"] for case in cases if isinstance(case.get("body"), (dict, list))]
    return [json.dumps(seed).encode() for seed in found]


def damaged(random_: random.Random, text: bytes, others: list[bytes]) -> bytes:
    """`text` with up to eight places cut, copied, overwritten, or joined with another seed."""
    body = bytearray(text)
    for _ in range(random_.randrange(9)):
        at, length = random_.randrange(len(body) + 1), random_.choice((1, 1, 2, 8, 64))
        kind = random_.randrange(7)
        if kind == 0:
            del body[at : at + length]
        elif kind == 1:
            body[at:at] = body[at : at + length] * random_.choice((1, 2, 200))
        elif kind == 2:
            body[at : at + 1] = bytes([random_.randrange(256)])
        elif kind == 3:
            body[at:at] = random_.choice(WORDS)
        elif kind == 4:
            body[at : at + length] = random_.choice(WORDS)
        elif kind == 5:
            other = random_.choice(others)
            start = random_.randrange(len(other))
            body[at:at] = other[start : start + length * 4]
        else:
            del body[at:]
    return bytes(body)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each container in `value`, which may hold itself, with each of its keys."""
    found, pending, seen = [], [value], set()
    while pending:
        parent = pending.pop()
        if id(parent) in seen:
            continue
        seen.add(id(parent))
        if isinstance(parent, dict):
            members = list(parent.items())
        elif isinstance(parent, list):
            members = list(enumerate(parent))
        else:
            continue
        found += [(parent, key) for key, _ in members]
        pending += [member for _, member in members]
    return found


def distorted(random_: random.Random, value: Any) -> Any:
    """`value` with up to four places of it replaced, some of them by what is no JSON."""
    for _ in range(random_.randrange(5)):
        found = places(value)
        if not found:
            return value
        parent, key = random_.choice(found)
        other, place = random_.choice(found)
        kind = random_.choices(range(5), (8, 8, 8, 8, 1))[0]  # the last is slow
        if kind == 0:
            parent[key] = random_.choice(VALUES)
        elif kind == 1:
            parent[key] = [other[place]] if other[place] is not parent else None
        elif kind == 2 and isinstance(parent, dict):
            parent[random_.choice(WORDS).decode("latin-1")] = parent.pop(key)
        elif kind == 3:
            del parent[key]
        elif kind == 4:
            parent[key] = other  # may be around it: then it has no end
    return value


def usages() -> list[Any]:
    """Usage and answers in the shapes of all providers."""
    cases = json.loads((DATA / "usage" / "shapes.json").read_text("utf-8"))["cases"]
    return [case["usage"] for case in cases]


def streams() -> list[bytes]:
    """Streams in the formats of all providers: events of text, and the same as JSON."""
    texts = json.loads((DATA / "usage" / "streams.json").read_text("utf-8"))["streams"]
    objects = json.loads((DATA / "usage" / "events.json").read_text("utf-8"))["streams"]
    found = ["\n".join(stream["lines"]).encode() for stream in texts]
    found += [json.dumps(stream["events"]).encode() for stream in objects]
    converse = next(it["events"] for it in objects if it["dialect"] == "bedrock-converse")
    found.append(b"".join(map(event_frame, converse)))
    found.append(b"".join(map(chunk_frame, converse)))
    return found


class Inputs:
    """The inputs by their numbers."""

    def __init__(self) -> None:
        self.bodies, self.usages, self.streams = seeds(), usages(), streams()
        self.target = Target(self.usages, self.streams)

    def tried(self, number: int) -> None:
        """Make the input of this number, and try it everywhere where its kind is taken."""
        random_, target = random.Random(number), self.target
        kind = random_.randrange(8)
        if kind < 2:
            text = damaged(random_, random_.choice(self.bodies), self.bodies)
            target.body(random_, text)
            target.body(random_, text.decode("utf-8", "surrogateescape"))
            target.text(random_, text)
        elif kind < 4:
            target.body(random_, distorted(random_, json.loads(random_.choice(self.bodies))))
        elif kind == 4:
            _, body = conversation(number)
            target.body(random_, distorted(random_, body) if random_.randrange(3) == 0 else body)
        elif kind == 5:
            usage = distorted(random_, copy.deepcopy(random_.choice(self.usages)))
            target.usage(random_, usage)
            target.usage(random_, target.answer(random_))
        elif kind == 6:
            target.stream(random_, damaged(random_, random_.choice(self.streams), self.streams))
        else:
            text = damaged(random_, random_.choice(self.bodies), self.bodies)
            target.name(
                random_.choice(
                    (*filter(None, MODELS), text.decode("latin-1")[:100].replace(CANARY, "x"))
                )
            )
            target.command(random_, text)


def main() -> None:
    """Fuzz until the time is over; exit with 1 at the first finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, help="number of the first input; default: the time")
    parser.add_argument("--keep-going", action="store_true", help="go on after a finding")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    inputs = Inputs()
    first = time.time_ns() % 2**32 if options.seed is None else options.seed
    print(f"fuzz: from seed {first}", flush=True)
    start, tried, found, slowest = time.monotonic(), 0, 0, (0.0, first)
    while tried == 0 or time.monotonic() - start < options.seconds:
        begun = time.process_time()
        try:
            inputs.tried(first + tried)
        except FindingError as finding:
            found += 1
            print(f"FINDING: {finding}; cause: {finding.__cause__!r}", file=sys.stderr)
            print(f"again: --seed {first + tried} --seconds 0", file=sys.stderr, flush=True)
            if not options.keep_going:
                sys.exit(1)
        slowest = max(slowest, (time.process_time() - begun, first + tried))
        tried += 1
    target = inputs.target
    print(
        f"fuzz: {target.executions:,} executions on {tried:,} inputs from seed {first} in "
        f"{time.monotonic() - start:.0f} s, {target.refused:,} refused, {found or 'no'} finding; "
        f"slowest: {slowest[0]:.1f} s of processor for --seed {slowest[1]}"
    )
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
