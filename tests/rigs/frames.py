"""Frames of AWS's binary event stream, as Bedrock sends them."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any


def frame(payload: bytes, *, more: bytes = b"", **headers: str) -> bytes:
    """One frame with headers of text, `event_type` for `:event-type`, behind those of `more`."""
    spelled = more + b"".join(
        struct.pack("!B", len(name) + 1)
        + b":"
        + name.replace("_", "-").encode()
        + b"\x07"
        + struct.pack("!H", len(value))
        + value.encode()
        for name, value in headers.items()
    )
    body = prelude(16 + len(spelled) + len(payload), len(spelled)) + spelled + payload
    return body + struct.pack("!I", zlib.crc32(body))


def prelude(frame_bytes: int, header_bytes: int) -> bytes:
    """The beginning of a frame."""
    lengths = struct.pack("!II", frame_bytes, header_bytes)
    return lengths + struct.pack("!I", zlib.crc32(lengths))


def event_frame(event: dict[str, Any]) -> bytes:
    """An event of ConverseStream, as `{"metadata": {...}}`."""
    (name, payload), *_ = event.items()
    spelled = json.dumps(payload).encode()
    return frame(spelled, event_type=name, content_type="application/json", message_type="event")


def chunk_frame(event: dict[str, Any]) -> bytes:
    """An event of InvokeModelWithResponseStream."""
    inner = base64.b64encode(json.dumps(event).encode()).decode()
    payload = json.dumps({"bytes": inner, "p": "abcdefgh"}).encode()
    return frame(payload, event_type="chunk", message_type="event")


def exception_frame(name: str) -> bytes:
    """The end of a stream that failed."""
    return frame(b'{"message": "wait"}', exception_type=name, message_type="exception")
