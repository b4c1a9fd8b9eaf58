"""Bounds hold what they say: nine of ten calls, also of those that they were not made from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bounds
import tokenctx
from reference.bounds import (
    LONG_TOKENS,
    METHODS,
    STRATA,
    UNKNOWN_MODEL,
    bounds_permille,
    interval,
    scope_after,
    table,
)
from test_eval import CALLS
from tokenctx._estimate.profiles import bundled_profiles

if TYPE_CHECKING:
    from pathlib import Path

    from tokenctx._models import Dialect

TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
LEAST_SHARE = 0.84
"""Of the calls of other projects in the bounds, in each pool of many calls; 90 % are aimed at."""
MANY_CALLS = 100


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
    assert interval(10, 10, (999, 1030)) == (10, 10), "no whole token is within the share"
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
    low, high = bounds.narrowest([(error, 1.0) for error in errors], 0)
    assert low <= 0 <= high
    inside = sum(low <= error <= high for error in errors)
    assert inside >= bounds.COVERAGE * len(errors)


def test_the_narrowest_interval_leaves_the_far_ones_out() -> None:
    errors = [(0.0, 1.0)] * 95 + [(3.0, 1.0)] * 5
    assert bounds.narrowest(errors, 0) == (0, 0)
    errors = [(number / 100, 1.0) for number in range(100)]
    assert bounds.narrowest(errors, 0)[1] == pytest.approx(bounds.COVERAGE, abs=0.02)


def made(group: str, error: float, name: str = "kimi") -> bounds.Point:
    billed = round(1000 + error * 1020)
    names = (name, "provider moonshot", "all")
    return bounds.Point("", group, "", "whole", names, "text", 1000, billed, is_determined=True)


def test_fewer_projects_have_wider_bounds() -> None:
    errors = [number / 1000 for number in range(-100, 100)]
    one = bounds.fit(made("a", error) for error in errors)
    many = bounds.fit(made(group, error) for group in "abcdefghijkl" for error in errors)
    row: bounds.Row = ("whole", "kimi", "text")
    assert many[row][1] - many[row][0] < one[row][1] - one[row][0]


def test_a_project_of_many_calls_weighs_hardly_more_than_one_of_some() -> None:
    calls = [made(group, 0.2) for group in "abcdefgh" for _ in range(20)]
    large = [made("z", 0) for _ in range(10_000)]
    assert bounds.fit([*calls, *large])["whole", "kimi", "text"][1] > 1190


def test_a_row_of_few_calls_borrows_from_its_parent() -> None:
    others = [made(group, 0.3, "kimi-k2.5") for group in "abcdefgh" for _ in range(20)]
    few = [made("z", 0)] * bounds.LEAST_CALLS
    table = bounds.fit([*others, *few])
    assert table["whole", "kimi", "text"][1] > 1290
    assert ("whole", "kimi", "text") not in bounds.fit([*others, *few[1:]])


def test_a_project_is_judged_by_bounds_of_the_others() -> None:
    points = [made(group, 0) for group in "abcdefgh" for _ in range(20)]
    odd = [made("z", 0.5)] * 100
    results = list(bounds.judged_elsewhere([*points, *odd]))
    assert not any(one.is_covered for one in results if one.point.group == "z")
    assert all(one.is_covered for one in results if one.point.group != "z")


def test_a_reply_of_a_long_conversation_has_bounds_of_its_own() -> None:
    answer = {"role": "assistant", "content": [text("Done.")]}
    estimator = tokenctx.HybridTokenEstimator()
    widths = []
    for billed in (LONG_TOKENS - 1, LONG_TOKENS):
        first = {"model": "claude-sonnet-4-5", "messages": [user(text(f"Look {billed}."))]}
        estimator.record(first, billed)
        longer = {**first, "messages": [*first["messages"], answer, user(text("Now."))]}
        estimate = estimator.estimate(longer)
        widths.append(estimate.high - estimate.low)
        low, high = bounds_permille(
            [estimate.profile, "provider anthropic", "all"],
            scope_after(billed, [answer]),
            "text",
        )
        expected = interval(estimate.tokens, estimate.estimated_tokens, (low, high))
        assert (estimate.low, estimate.high) == expected
    assert widths[0] < widths[1]


def test_an_output_count_from_the_middle_of_an_answer_is_not_believed() -> None:
    words = "It is a piece of text. " * 100
    answer = {"role": "assistant", "content": [text(words)]}
    first = {"model": "claude-sonnet-4-5", "messages": [user(text("What is a token?"))]}
    longer = {**first, "messages": [*first["messages"], answer, user(text("Now."))]}
    estimates = []
    for output_tokens in (3, 700):
        estimator = tokenctx.HybridTokenEstimator()
        usage = {"input_tokens": 9000, "output_tokens": output_tokens}
        estimator.record(first, usage, reply=answer)
        estimates.append(estimator.estimate(longer))
    partial, final = estimates
    assert (partial.known_tokens, final.known_tokens) == (9000, 9700)
    assert partial.estimated_tokens > 600


def test_the_table_is_written_line_by_line_and_read_back() -> None:
    known = bounds.all_points([CALLS], [])
    made = bounds.as_json(bounds.fit(known * bounds.LEAST_CALLS), known)
    written = bounds.text_of(made)
    assert json.loads(written) == made
    assert '    "all": {' in written


# Recorded calls of others


@pytest.mark.slow
def test_nine_of_ten_calls_of_other_projects_are_within_the_bounds(shared_data: Path) -> None:
    known = bounds.all_points([shared_data / "usage" / "dev.jsonl.gz"], [])
    covered: dict[str, list[bool]] = {}
    for one in bounds.judged_elsewhere(known):
        for pool in one.point.pools:
            covered.setdefault(pool, []).append(one.is_covered)
    shares = {pool: sum(hits) / len(hits) for pool, hits in covered.items()}
    many = {pool: share for pool, share in shares.items() if len(covered[pool]) >= MANY_CALLS}
    assert all(share >= LEAST_SHARE for share in many.values()), many
