"""Bounds hold what they say: nine of ten calls, also of those that they were not made from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bounds
import tokenctx
from reference.bounds import METHODS, STRATA, UNKNOWN_MODEL, interval, table
from test_eval import CALLS
from tokenctx._estimate.profiles import bundled_profiles

if TYPE_CHECKING:
    from pathlib import Path

    from tokenctx._models import Dialect

TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
LEAST_SHARE, MOST_SHARE = 0.86, 0.94
"""Of other calls in the bounds of an estimate that is no single number; 90 % are aimed at."""


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def rows() -> list[tuple[str, str, str, list[int]]]:
    return [
        (scope, name, stratum, row)
        for scope in bounds.SCOPES
        for name, by_stratum in table()[scope].items()
        for stratum, row in by_stratum.items()
    ]


# The table


def test_every_row_is_around_the_count_and_of_enough_calls() -> None:
    for scope, name, stratum, (low, high, calls) in rows():
        assert 0 <= low <= 1000 <= high, (scope, name, stratum)
        assert calls >= bounds.LEAST_CALLS


def test_every_row_is_of_a_profile_and_a_stratum_that_are_there() -> None:
    providers = {f"provider {row['provider']}" for row in bundled_profiles().values()}
    names = {*bundled_profiles(), *METHODS, *providers, UNKNOWN_MODEL, "all"}
    assert {name for _, name, _, _ in rows()} <= names
    assert {stratum for _, _, stratum, _ in rows()} <= set(STRATA)


def test_what_no_profile_has_a_row_for_has_one_of_all() -> None:
    assert table()["whole"]["all"].keys() == set(STRATA)
    assert table()["new"]["all"].keys() == set(STRATA) - {"structured output"}


# Intervals


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 1000), st.integers(1000, 99999))
def test_an_interval_holds_its_count(known: int, counted: int, low: int, high: int) -> None:
    tokens = known + counted
    least, most = interval(tokens, counted, (low, high))
    assert 0 <= least <= tokens <= most
    assert interval(tokens, counted, (1000, 1000)) == (tokens, tokens)


def test_a_few_tokens_have_room_for_a_few() -> None:
    assert interval(10, 10, (900, 1100)) == (7, 13)
    assert interval(10_000, 10_000, (900, 1100)) == (8998, 11_002)


@pytest.mark.parametrize(
    ("more", "stratum"),
    [
        ({}, "text"),
        ({"tools": [TOOL]}, "tools"),
        (
            {
                "tools": [TOOL],
                "output_format": {"type": "json_schema", "schema": {"type": "object"}},
            },
            "structured output",
        ),
        (
            {
                "messages": [
                    user(
                        {
                            "type": "image",
                            "source": {
                                "type": "base64",
                                "media_type": "image/png",
                                "data": "iVBORw0KGgoAAAANSUhEUgAAAGQAAABkCAYAAAA=",
                            },
                        }
                    )
                ]
            },
            "images",
        ),
    ],
)
def test_what_was_counted_chooses_the_bounds(more: dict[str, Any], stratum: str) -> None:
    dialect: Dialect = "anthropic"
    body = {"model": "claude-sonnet-4-5", "messages": [user(text("Look."))], **more}
    estimate = tokenctx.HybridTokenEstimator().estimate(body, dialect=dialect)
    whole = table()["whole"]
    found = [
        whole[name].get(stratum)
        for name in (estimate.profile, "provider anthropic", "all")
        if name in whole
    ]
    low, high, _ = next(filter(None, found))
    expected = interval(estimate.tokens, estimate.tokens, (low, high))
    assert (estimate.low, estimate.high) == expected


def test_a_delta_has_the_bounds_of_what_is_new() -> None:
    first = {"model": "claude-sonnet-4-5", "messages": [user(text("Look."))], "tools": [TOOL]}
    longer = {**first, "messages": [*first["messages"], user(text("Now."))]}
    estimator = tokenctx.HybridTokenEstimator()
    estimator.record(first, 5000)
    estimate = estimator.estimate(longer)
    low, high, _ = table()["new"][estimate.profile]["text"]
    new = estimate.estimated_tokens
    assert (estimate.low, estimate.high) == interval(5000 + new, new, (low, high))


# How they are made


@given(st.lists(st.floats(-0.9, 9), min_size=1, max_size=200))
def test_the_narrowest_interval_holds_zero_and_the_wanted_share(errors: list[float]) -> None:
    low, high = bounds.narrowest([(error, 1.0) for error in errors])
    assert low <= 0 <= high
    inside = sum(low <= error <= high for error in errors)
    assert inside >= min(len(errors), bounds.COVERAGE * len(errors))


def test_the_narrowest_interval_leaves_the_far_ones_out() -> None:
    errors = [(0.0, 1.0)] * 95 + [(3.0, 1.0)] * 5
    assert bounds.narrowest(errors) == (0, 0)
    errors = [(number / 100, 1.0) for number in range(100)]
    assert bounds.narrowest(errors)[1] == pytest.approx(bounds.COVERAGE, abs=0.02)


def test_a_row_of_few_calls_is_like_its_parent() -> None:
    def made(name: str, error: float) -> bounds.Point:
        billed = round(1000 + error * 1020)
        names = (name, "provider x", "all")
        return bounds.Point("", "", "", "whole", names, "text", 1000, billed, is_determined=True)

    many = [made("many", number / 1000) for number in range(-100, 100)]
    few = [made("few", 0)] * bounds.LEAST_CALLS
    table = bounds.fit([*many, *few, made("one", 0)])
    parent = table["whole", "provider x", "text"]
    own = table["whole", "few", "text"]
    assert ("whole", "one", "text") not in table
    assert own == pytest.approx(parent, abs=20)
    assert own[0] < 1000 < own[1]


def test_the_table_is_written_line_by_line_and_read_back() -> None:
    known = list(bounds.points(CALLS))
    made = bounds.as_json(bounds.fit(known * bounds.LEAST_CALLS), known)
    written = bounds.text_of(made)
    assert json.loads(written) == made
    assert '    "all": {' in written


# Recorded calls of others


@pytest.mark.slow
def test_nine_of_ten_calls_of_other_recordings_are_within_the_bounds(shared_data: Path) -> None:
    known = list(bounds.points(shared_data / "usage" / "dev.jsonl.gz"))
    results = [
        one
        for one in bounds.judged_elsewhere(known, lambda one: one.id)
        if one.point.is_determined and ("", "all whole requests") in one.titles
    ]
    ranges = [one.is_covered for one in results if one.low < one.high]
    assert LEAST_SHARE <= sum(ranges) / len(ranges) <= MOST_SHARE
    assert sum(one.is_covered for one in results) / len(results) >= LEAST_SHARE
