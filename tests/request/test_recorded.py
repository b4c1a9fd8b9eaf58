"""Every recorded request obeys the laws, as bytes and as objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recorded_requests import (
    LEAST_RECORDS,
    records,
    restored,
)
from request_laws import Laws, as_value, one_view

if TYPE_CHECKING:
    from pathlib import Path


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
        count = laws.estimator.count_request(body)
        is_stored = isinstance(body, dict) and isinstance(body.get("prompt"), dict)
        assert count.tokens > 0 or is_stored, record["id"]
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
