"""Every recorded request is read and counted alike, as bytes, as objects and by the reference."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from reference.request import read_request, view
from test_requests import Pair, as_value
from tokenctx import _core

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STAND_INS = ("_image", "_file", "_media")
BASE64_FIELDS = ("data", "bytes")
PNG_HEAD = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
LEAST_RECORDS = 12_000


def restored(value: Any, field: str = "") -> Any:
    """`value` with each stand-in of large media as bytes of the same picture size."""
    if isinstance(value, list):
        return [restored(item, field) for item in value]
    if not isinstance(value, dict):
        return value
    for name in STAND_INS:
        if isinstance(about := value.get(name), dict):
            return media(about, is_bare=field in BASE64_FIELDS)
    return {key: restored(item, key) for key, item in value.items()}


def media(about: dict[str, Any], *, is_bare: bool) -> str:
    sides = (about.get("width"), about.get("height"))
    content = str(about.get("sha256", "")).encode()
    if all(isinstance(side, int) for side in sides):
        packed = b"".join(int(side or 0).to_bytes(4, "big") for side in sides)
        content = PNG_HEAD + packed + b"\x08\x06\0\0\0" + content
    text = base64.b64encode(content).decode()
    return text if is_bare else f"data:{about.get('mime', '')};base64,{text}"


def records(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path) as lines:
        yield from map(json.loads, lines)


def test_recorded_requests_are_read_and_counted_alike(shared_data: Path) -> None:
    pair = Pair("profile")
    compared = 0
    for record in records(shared_data / "usage" / "dev.jsonl.gz"):
        body = as_value(restored(record["request"]))
        text = json.dumps(body).encode()
        seen = json.loads(_core._request_view(text))
        same = seen == json.loads(_core._request_view(body)) == view(read_request(body))
        assert same, record["id"]
        try:
            estimate = pair.same("estimate", text)
            count = pair.same("count_request", body)
            if pair.same("record", text, record["input_tokens"] or 0):
                assert pair.same("estimate", body).source == "exact"
        except AssertionError as error:
            raise AssertionError(f"{record['id']}: {error}") from None
        assert count.tokens > 0, record["id"]
        assert estimate.low <= estimate.tokens <= estimate.high, record["id"]
        compared += 1
    assert compared >= LEAST_RECORDS


def test_recorded_sessions_are_read_alike(shared_data: Path) -> None:
    path = shared_data / "sessions" / "dev.jsonl.gz"
    if not path.exists():
        pytest.skip("no recorded sessions")
    for record in records(path):
        messages = [message for step in record["steps"] for message in step["new_messages"]]
        body = {"messages": restored(messages)}
        seen = json.loads(_core._request_view(json.dumps(body)))
        assert seen == view(read_request(body)), record["id"]
