"""Feeds arbitrary requests to the package: `python tests/fuzz_requests.py --seconds 60`.

Whatever comes in, a number or a `tokenctx.Error` comes out, and no error quotes the request. A
finding is printed as hex (`--hex` runs it again) and the exit code is 1. Inputs are seeds, damaged;
half of them as JSON text, half as objects. The core is compiled without coverage counters, which
is why this is a plain loop: a guided fuzzer would be as blind and slower.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tokenctx

if TYPE_CHECKING:
    from collections.abc import Callable

DATA: Final = Path(__file__).parent / "data"
CANARY: Final = "canary7f3a"
"""Stands in every seed; no error may quote it."""

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


class FindingError(Exception):
    """What must not happen, and the input that makes it happen."""


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
        kind = random_.randrange(4)
        if kind == 0:
            parent[key] = random_.choice(VALUES)
        elif kind == 1:
            parent[key] = [other[place]] if other[place] is not parent else None
        elif kind == 2 and isinstance(parent, dict):
            parent[random_.choice(WORDS).decode("latin-1")] = parent.pop(key)
        elif kind == 3:
            del parent[key]
    return value


class Target:
    """One of everything that takes a request."""

    def __init__(self) -> None:
        methods: tuple[Any, ...] = ("profile", "universal", "characters")
        self.estimators = [
            tokenctx.HybridTokenEstimator(method=method, capacity_bytes=1 << 20)
            for method in methods
        ]
        self.tracker = tokenctx.ConversationStateTracker(capacity_bytes=1 << 20)
        self.executions = self.refused = 0

    def body(self, body: Any) -> None:
        """Every entrance for a request; each call is one execution."""
        estimator = self.estimators[self.executions % len(self.estimators)]
        usage = {"prompt_tokens": 9, "completion_tokens": 5}
        self.call(estimator.estimate, body)
        self.call(estimator.count_request, body)
        is_known = self.call(lambda: estimator.record(body, usage, reply=body))
        if is_known and estimator.estimate(body).source != "exact":
            raise FindingError("a recorded request is not exact")
        self.call(estimator.estimate_conversation, body, "gpt-4o")
        self.call(estimator.estimate_message, body, "gpt-4o")
        self.call(estimator.record, [{"role": "user", "content": "hi"}], body)
        self.call(self.tracker.record_actual, body, "family", 5)
        self.call(self.tracker.lookup, body, "family")

    def text(self, text: bytes) -> None:
        """Every entrance for bytes and text."""
        spelled = text.decode("utf-8", "surrogateescape")
        for content in (text, spelled):
            count = self.call(tokenctx.count_tokens, content)
            if count != len(tokenctx.encode(content)):
                raise FindingError("count_tokens is not the length of encode")
        self.call(tokenctx.image_size, text)
        self.call(tokenctx.image_size, PNG[: self.executions % 30] + text)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.executions += 1
        try:
            return function(*arguments)
        except tokenctx.InternalError:
            raise FindingError("InternalError: a panic in the core") from None
        except tokenctx.Error as error:
            self.refused += 1
            if CANARY in str(error) + repr(error.args):
                raise FindingError("an error quotes the request") from None
        except Exception as error:  # what it was is in the report
            raise FindingError(f"{type(error).__name__} came out") from error
        return None


def made(seed: int, texts: list[bytes]) -> tuple[bytes, Any]:
    """The input of this number: text, and the objects that are tried instead of it, or None."""
    random_ = random.Random(seed)
    text = random_.choice(texts)
    if random_.randrange(2):
        return damaged(random_, text, texts), None
    return text, distorted(random_, json.loads(text))


def run(target: Target, text: bytes, value: Any) -> None:
    """Try one input everywhere."""
    if value is not None:
        target.body(value)
        return
    target.body(text)
    target.body(text.decode("utf-8", "surrogateescape"))
    target.text(text)


def main() -> None:
    """Fuzz until the time is over; exit with 1 at the first finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, help="number of the first input; default: the time")
    parser.add_argument("--hex", help="try this text and nothing else")
    options = parser.parse_args()
    target, texts = Target(), seeds()
    if options.hex is not None:
        run(target, bytes.fromhex(options.hex), None)
        return
    first = time.time_ns() % 2**32 if options.seed is None else options.seed
    start, inputs = time.monotonic(), 0
    while inputs == 0 or time.monotonic() - start < options.seconds:
        text, value = made(first + inputs, texts)
        shown = f"--hex {text.hex()}" if value is None else f"objects {value!r}"
        try:
            run(target, text, value)
        except FindingError as finding:
            print(f"FINDING: {finding}; cause: {finding.__cause__!r}", file=sys.stderr)
            print(f"again: --seed {first + inputs} --seconds 0; input: {shown}", file=sys.stderr)
            sys.exit(1)
        inputs += 1
    print(
        f"fuzz: {target.executions:,} executions on {inputs:,} inputs from seed {first} in "
        f"{time.monotonic() - start:.0f} s, {target.refused:,} refused, no finding"
    )


if __name__ == "__main__":
    main()
