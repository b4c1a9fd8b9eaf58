"""Every recorded request obeys the laws, as bytes and as objects."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from request_laws import Laws, as_value, one_view

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


@pytest.mark.slow
def test_recorded_requests_obey_the_laws(shared_data: Path) -> None:
    laws = Laws("profile")
    checked = 0
    for record in records(shared_data / "usage" / "dev.jsonl.gz"):
        body = as_value(restored(record["request"]))
        said = {"role": "assistant", "content": "so"}
        try:
            laws.check(body, said, (record["input_tokens"] or 0, 9, 0))
        except AssertionError as error:
            raise AssertionError(f"{record['id']}: {error}") from None
        assert laws.estimator.count_request(body).tokens > 0, record["id"]
        checked += 1
    assert checked >= LEAST_RECORDS


def test_recorded_sessions_are_read_the_same_in_every_form(shared_data: Path) -> None:
    path = shared_data / "sessions" / "dev.jsonl.gz"
    if not path.exists():
        pytest.skip("no recorded sessions")
    for record in records(path):
        messages = [message for step in record["steps"] for message in step["new_messages"]]
        view = one_view({"messages": restored(messages)})
        assert len(view["messages"]) == len(messages), record["id"]
