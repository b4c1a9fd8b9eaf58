"""Every conversion obeys the law, on recorded requests and on made-up ones."""

from __future__ import annotations

import copy
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversion_law import DIALECTS, SPELLING, differences, said, unlisted
from nasty_conversations import conversation
from recorded_requests import LEAST_RECORDS, recorded
from sdk_types import ai_sdk_faults, faults
from strategies import requests
from tokenctx import RequestError
from tokenctx.convert import convert_messages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BATCH = 16
"""Conversations in one example of hypothesis: to draw a seed is cheap, to draw a body is not."""


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """No log lines: there would be a hundred thousand."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def check(body: Any, source: Any, name: str, *, is_typed: bool) -> None:
    """The body in all dialects: the law, what is said, the types, and the input left as it was."""
    before = json.dumps(body)
    words = said(body)
    for target in DIALECTS:
        conversion = convert_messages(body, to=target, source=source)
        assert unlisted(body, conversion) == [], f"{name} to {target}"
        is_spelled = SPELLING.issuperset(loss.kind for loss in conversion.losses)
        if is_spelled and source is not None:
            assert said(conversion.body) == words, f"{name} to {target}"
        if conversion.source == target:
            assert conversion.losses or not [*differences(body, conversion.body)], name
        elif target != "ai-sdk" and is_typed:
            assert faults(target, conversion.body) == [], f"{name} to {target}"
    assert json.dumps(body) == before, name


@pytest.mark.slow
def test_recorded_requests_obey_the_law(shared_data: Path) -> None:
    """Recorded requests in all dialects: none raises, every difference is listed."""
    converted = 0
    for body, source, name in recorded(shared_data):
        check(body, source, name, is_typed=converted % 4 == 0)
        converted += 1
    assert converted >= LEAST_RECORDS // 3


@pytest.mark.slow
def test_the_ai_sdk_takes_recorded_requests(shared_data: Path) -> None:
    bodies = [
        convert_messages(body, to="ai-sdk", source=source).body
        for body, source, _ in recorded(shared_data)
    ]
    assert ai_sdk_faults(bodies) == []


@pytest.mark.slow
@settings(max_examples=280)
@given(st.integers(0, 2**32))
def test_nasty_conversations_obey_the_law(seed: int) -> None:
    """280 x 16 conversations in 6 dialects: 26,880 pairs."""
    for number in range(BATCH):
        dialect, body = conversation(seed * BATCH + number)
        check(body, dialect, f"seed {seed}, number {number}", is_typed=number % 4 == 0)


@pytest.mark.slow
def test_the_ai_sdk_takes_nasty_conversations() -> None:
    made = (conversation(seed) for seed in range(4_000))
    bodies = [
        convert_messages(body, to="ai-sdk", source=dialect).body  # type: ignore[arg-type]
        for dialect, body in made
        if dialect != "ai-sdk"
    ]
    assert len(bodies) > 2_500
    assert ai_sdk_faults(bodies) == []


@pytest.mark.slow
@settings(max_examples=300)
@given(requests())
def test_any_json_obeys_the_law(body: Any) -> None:
    """Broken requests too: what is neither an object nor a list is refused, nothing else is."""
    if not isinstance(body, dict | list):
        with pytest.raises(RequestError):
            convert_messages(copy.copy(body), to="anthropic")
        return
    for target in DIALECTS:
        conversion = convert_messages(body, to=target)
        if conversion.source != "vscode" and isinstance(body, dict):
            assert unlisted(body, conversion) == []
        if conversion.source != target != "ai-sdk":
            assert faults(target, conversion.body) == []
