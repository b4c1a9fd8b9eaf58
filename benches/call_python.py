"""Reads a stream or converts a request so many times, for instruction counts under valgrind.

    python benches/call_python.py read_stream|convert|convert_parts FILE TIMES

The file has a stream of events, or a body on its first line.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

from tokenctx import UsageReader, convert_messages

CHUNK_BYTES = 4096


def read_stream(content: bytes) -> int:
    """The input tokens of a stream."""
    reader = UsageReader()
    for start in range(0, len(content), CHUNK_BYTES):
        reader.feed(content[start : start + CHUNK_BYTES])
    return reader.finish().input_tokens


def convert(content: bytes) -> int:
    """The messages for Claude of a request whose messages are plain: the core converts them."""
    return len(convert_messages(content.splitlines()[0], to="anthropic").body["messages"])


def convert_parts(content: bytes) -> int:
    """The same with a cache marker at each message, which Python converts."""
    body = json.loads(content.splitlines()[0])
    for message in body["messages"]:
        message["cache_control"] = {"type": "ephemeral"}
    return len(convert_messages(body, to="anthropic").body["messages"])


OPERATIONS = {"read_stream": read_stream, "convert": convert, "convert_parts": convert_parts}

if __name__ == "__main__":
    operation, path, times = sys.argv[1:]
    content = Path(path).read_bytes()
    OPERATIONS[operation](content)  # modules are loaded at the first call
    gc.disable()
    print(sum(OPERATIONS[operation](content) for _ in range(int(times))))
