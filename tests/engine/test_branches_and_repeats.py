"""Branches of one prefix, and what is said twice, are resumed with the answers of the whole."""

from __future__ import annotations

from typing import Any

import pytest

from agent_turns import TOOLS, encoded, long_body
from tokenctx import HybridTokenEstimator


def test_what_branches_are_made_of_is_kept() -> None:
    """Of 64 branches, each recorded and gone on with, every estimate reads the new part only."""
    body = long_body()
    one, other = (HybridTokenEstimator(secret=b"s" * 16) for _ in range(2))
    one.record(encoded(body, is_last=True), 27_000)
    other.record(body, 27_000)
    for branch in range(64):
        new = [{"role": "user", "content": f"try {branch}"}]
        grown = {**body, "messages": [*body["messages"], *new]}
        text = encoded(grown, is_last=True)
        assert one.estimate(text) == other.estimate(grown)
        assert one.record_event(text, 27_010) == other.record_event(grown, 27_010)
        assert one._engine.new_byte_count(text, one._anyone) < 200
    assert one.stats()["resumed"] == 64


@pytest.mark.parametrize("answer", ["done", None])
def test_what_is_said_again_is_read_alone(answer: str | None) -> None:
    """The same at each turn, while a field before the messages changes and the marker moves."""
    body = {"max_tokens": 9, "system": "Be brief.", **long_body(), "tools": TOOLS}
    messages = body["messages"] = list(body["messages"])
    one, other = (HybridTokenEstimator(secret=b"s" * 16) for _ in range(2))
    for turn in range(8):
        content = [{"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}]
        given = {"user": f"{turn}", **body, "messages": [*messages, said_as("user", content)]}
        text = encoded(given, is_last=True)
        assert one.estimate(text) == other.estimate(given)
        assert one.record_event(text, 27_000) == other.record_event(given, 27_000)
        messages += [said_as("user", "go on"), said_as("assistant", answer or f"step {turn}")]
    assert one.stats()["resumed"] >= 6


def said_as(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}
