"""Published and recorded counts are met; each that is not has its reason beside it.

The bodies of the recorded ones stand in the reference beside the checkout, never in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Iterator

ESTIMATOR = HybridTokenEstimator(learning=False)
DATA = Path(__file__).parents[1] / "data"
VECTORS = json.loads((DATA / "vectors.json").read_text("utf-8"))["vectors"]
DOCUMENTED = json.loads((DATA / "anthropic" / "documented.json").read_text("utf-8"))["cases"]
DIALECTS: dict[str, Any] = {
    "chat.completions": "openai-chat",
    "responses": "openai-responses",
    "responses/input_tokens": "openai-responses",
    "messages": "anthropic",
    "count_tokens": "anthropic",
}


@pytest.fixture(scope="module")
def bodies(shared_data: Path) -> dict[str, dict[str, Any]]:
    """The vectors of the reference that are requests to one API, by id."""

    def lines() -> Iterator[dict[str, Any]]:
        path = shared_data.parent / "reference" / "provider-token-rules.md"
        for line in path.read_text("utf-8").splitlines():
            if line.startswith('{"id"') and "api" in (vector := json.loads(line)):
                yield vector

    return {vector["id"]: vector for vector in lines()}


@pytest.mark.parametrize("case", DOCUMENTED, ids=lambda case: case["name"])
def test_documented_counts_are_met(case: dict[str, Any]) -> None:
    assert ESTIMATOR.count_request(case["body"]).tokens == case["tokens"]


def test_no_recorded_vector_is_left_out(bodies: dict[str, Any]) -> None:
    assert {key: vector["input_tokens"] for key, vector in bodies.items()} == {
        fact["id"]: fact["tokens"] for fact in VECTORS
    }


@pytest.mark.parametrize("fact", VECTORS, ids=lambda fact: fact["id"])
def test_recorded_counts_are_met_or_have_a_reason(
    bodies: dict[str, Any], fact: dict[str, Any]
) -> None:
    vector = bodies[fact["id"]]
    count = ESTIMATOR.count_request(
        vector["request"], model=fact["model"], dialect=DIALECTS[vector["api"]]
    )
    tokens = count.tokens
    assert tokens == fact.get("counted", fact["tokens"])
    assert ("reason" in fact) == (tokens != fact["tokens"])
