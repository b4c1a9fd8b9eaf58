"""Bounds hold what they say: nine of ten calls, also of those that they were not made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bounds
import tokenctx
from bound_points import Point, all_points
from reference.bounds import (
    LONG_TOKENS,
    METHODS,
    STRATA,
    UNKNOWN_MODEL,
    interval,
    row_names,
    row_of,
    scope_after,
    table,
)
from request_laws import uncertain
from tokenctx._estimate.profiles import bundled_profiles

if TYPE_CHECKING:
    from tokenctx._results.estimates import Dialect

CALLS = Path(__file__).parents[1] / "data" / "recorded-calls.jsonl"
TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
LEAST_SHARE = 0.86
"""Of the calls of other projects in the bounds, in each pool of many calls; 90 % are aimed at."""
MANY_CALLS = 100
EXACT: bounds.Bounds = (1000, 1000, 20)


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
    for scope, name, stratum, (low, high, slack, calls) in rows():
        assert 0 <= low <= 1000 <= high, (scope, name, stratum)
        assert slack in bounds.SLACKS
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


@given(
    st.integers(0, 10**9),
    st.lists(
        st.tuples(
            st.integers(0, 10**9),
            st.tuples(
                st.integers(0, 1000), st.integers(1000, 99999), st.sampled_from(bounds.SLACKS)
            ),
        )
    ),
)
def test_an_interval_holds_its_count_and_grows_with_each_part(
    known: int, parts: list[tuple[int, bounds.Bounds]]
) -> None:
    tokens = known + sum(part for part, _ in parts)
    least, most = interval(tokens, parts)
    assert 0 <= least <= tokens <= most
    assert interval(tokens, [(part, EXACT) for part, _ in parts]) == (tokens, tokens)
    for place in range(len(parts)):
        fewer = interval(tokens, parts[:place] + parts[place + 1 :])
        assert least <= fewer[0] <= fewer[1] <= most


def test_a_few_tokens_have_room_for_a_few() -> None:
    assert interval(10, [(10, (900, 1100, 20))]) == (7, 13)
    assert interval(10, [(10, (999, 1030, 20))]) == (10, 10), "no whole token is within the share"
    assert interval(10_000, [(10_000, (900, 1100, 20))]) == (8998, 11_002)


def test_a_large_unsure_part_widens_the_whole_and_a_small_one_does_not() -> None:
    text, image = (1000, EXACT), (500, 2000, 20)
    assert interval(11_000, [text, (10_000, image)]) == (5990, 21_020)
    assert interval(1010, [text, (10, image)]) == (995, 1040)


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
    scope, parts = uncertain(tokenctx.HybridTokenEstimator(), body, None, dialect)
    names = row_names(estimate.profile, "anthropic", is_known_model=True)
    rows = [(tokens, row_of(names, scope, name)) for name, tokens in parts]
    assert (scope, parts[-1][0]) == ("whole", stratum)
    assert sum(tokens for _, tokens in parts) == estimate.tokens
    assert (estimate.low, estimate.high) == interval(estimate.tokens, rows)


def test_a_delta_has_the_bounds_of_what_is_new() -> None:
    first = {"model": "claude-sonnet-4-5", "messages": [user(text("Look."))], "tools": [TOOL]}
    longer = {**first, "messages": [*first["messages"], user(text("Now."))]}
    estimator = tokenctx.HybridTokenEstimator()
    estimator.record(first, 600)
    estimate = estimator.estimate(longer)
    new, row = estimate.estimated_tokens, row_of([estimate.profile], "new", "text")
    assert (estimate.low, estimate.high) == interval(600 + new, [(new, row)])


def test_results_of_tools_are_a_part_of_their_own() -> None:
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {"at": "it"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "seen " * 50}
    first = {"model": "claude-sonnet-4-5", "messages": [user(text("Look."))], "tools": [TOOL]}
    answer = {"role": "assistant", "content": [text("Yes."), call]}
    longer = {**first, "messages": [*first["messages"], answer, user(result)]}
    estimator = tokenctx.HybridTokenEstimator()
    estimator.record(first, 600)
    scope, parts = uncertain(estimator, longer)
    estimate = estimator.estimate(longer)
    assert (scope, parts) == ("new", (("text", 0), ("tools", estimate.estimated_tokens)))


def test_a_file_that_is_counted_by_a_flat_price_is_a_part_of_its_own() -> None:
    file = {"type": "document", "source": {"type": "base64", "media_type": "a/b", "data": "AAAA"}}
    plain = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "A"},
    }
    estimator = tokenctx.HybridTokenEstimator()
    for content, stratum in ((file, "flat files"), (plain, "files")):
        body = {"model": "claude-sonnet-4-5", "messages": [user(text("Read."), content)]}
        _, parts = uncertain(estimator, body)
        assert [name for name, _ in parts] == ["text", stratum]


def test_reasoning_that_a_turn_drops_is_unsure() -> None:
    thought = {"type": "thinking", "thinking": "Hm. " * 100, "signature": "c2ln" * 40}
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "It."}
    answer = {"role": "assistant", "content": [thought, call]}
    first = {
        "model": "claude-sonnet-4-5",
        "messages": [user(text("Look.")), answer, user(result)],
        "tools": [TOOL],
    }
    longer = {**first, "messages": [*first["messages"], user(text("And now?"))]}
    estimator = tokenctx.HybridTokenEstimator()
    estimator.record(first, 1000)
    estimate = estimator.estimate(longer)
    parts = dict(uncertain(estimator, longer)[1])
    assert estimate.known_tokens < 1000
    assert parts["reasoning replayed"] == 1000 - estimate.known_tokens


# How they are made


@given(st.lists(st.floats(-0.9, 9), min_size=1, max_size=200))
def test_the_narrowest_interval_holds_zero_and_the_wanted_share(errors: list[float]) -> None:
    low, high = bounds.narrowest(sorted((error, 1.0) for error in errors), 0.9)
    assert low <= 0 <= high
    inside = sum(low <= error <= high for error in errors)
    assert inside >= 0.9 * len(errors)


def test_the_narrowest_interval_leaves_the_far_ones_out() -> None:
    errors = [(0.0, 1.0)] * 95 + [(3.0, 1.0)] * 5
    assert bounds.narrowest(errors, 0.9) == (0, 0)
    errors = [(number / 100, 1.0) for number in range(100)]
    assert bounds.narrowest(errors, 0.9)[1] == pytest.approx(0.9, abs=0.02)


@given(st.lists(st.tuples(st.floats(-0.9, 9), st.floats(0.1, 9)), min_size=1, max_size=600))
def test_thinned_errors_weigh_the_same_and_are_no_nearer(errors: bounds.Weighted) -> None:
    thin = bounds.thinned(errors)
    assert len(thin) <= len(errors)
    assert sum(weight for _, weight in thin) == pytest.approx(sum(weight for _, weight in errors))
    assert thin == sorted(thin)
    far = sum(weight for error, weight in errors if error > 1)
    assert sum(weight for error, weight in thin if error > 1) >= far - 1e-6


def made(
    group: str, error: float, name: str = "kimi", parts: tuple[tuple[str, int], ...] = ()
) -> Point:
    """A call of a project, off by this share of its last part."""
    parts = parts or (("text", 1000),)
    counted = sum(tokens for _, tokens in parts)
    billed = round(counted + error * (parts[-1][1] + bounds.SLACKS[0]))
    names = (name, "provider moonshot", "all")
    return Point("", group, "other", "whole", names, parts, counted, billed, is_determined=True)


def fitted(known: list[Point]) -> bounds.Table:
    return bounds.Fit(known).tables[""]


def width(row: bounds.Bounds) -> int:
    low, high, slack = row
    return (high - low) * (1000 + slack)


def test_a_project_of_many_calls_weighs_hardly_more_than_one_of_some() -> None:
    calls = [made(group, 0.2) for group in "abcdefgh" for _ in range(20)]
    large = [made("z", 0) for _ in range(1000)]
    low, high, slack = fitted([*calls, *large])["whole", "kimi", "text"]
    assert low == 1000
    assert (high - 1000) * (1000 + slack) > 190_000


def test_a_row_of_few_calls_borrows_from_its_parent() -> None:
    others = [made(group, 0.3, "kimi-k2.5") for group in "abcdefgh" for _ in range(20)]
    few = [made("z", 0)] * bounds.LEAST_CALLS
    table = fitted([*others, *few])
    assert width(table["whole", "kimi", "text"]) > 290_000
    assert ("whole", "kimi", "text") not in fitted([*others, *few[1:]])


def test_what_the_text_explains_is_not_asked_of_the_tools() -> None:
    text = [made(group, 0.1) for group in "abcdefgh" for _ in range(20)]
    parts = (("text", 1000), ("tools", 100))
    tools = [made(group, 0.5, parts=parts) for group in "abcdefgh" for _ in range(20)]
    table = fitted([*text, *tools])
    assert width(table["whole", "kimi", "text"]) == pytest.approx(102_000, rel=0.02)
    assert table["whole", "kimi", "tools"][:2] == (1000, 1000)


def test_a_project_is_judged_by_bounds_of_the_others() -> None:
    points = [made(group, 0) for group in "abcdefgh" for _ in range(20)]
    odd = [made("z", 0.5)] * 10
    known = [*points, *odd]
    results = list(bounds.judged_elsewhere(known, bounds.Fit(known)))
    assert not any(one.is_covered for one in results if one.point.group == "z")
    assert all(one.is_covered for one in results if one.point.group != "z")


def test_the_level_is_the_narrowest_that_holds_enough() -> None:
    errors = [number / 1000 for number in range(-100, 100)]
    known = [made(group, error) for group in "abcdefghijkl" for error in errors]
    fit = bounds.Fit(known)
    results = list(bounds.judged_elsewhere(known, fit))
    covered = sum(one.is_covered for one in results) / len(results)
    assert bounds.FITTED_AIM.by_call <= covered < bounds.FITTED_AIM.by_call + 0.05


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
        names = row_names(estimate.profile, "anthropic", is_known_model=True)
        row = row_of(names, scope_after(billed, [answer]), "text")
        expected = interval(estimate.tokens, [(estimate.estimated_tokens, row)])
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
    assert (partial.known_tokens, final.known_tokens) == (9000, 9704)
    assert partial.estimated_tokens > 600


@pytest.mark.parametrize("reasoning_tokens", [None, 0, 640])
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5", "claude-sonnet-4-5", "claude-opus-4-8"])
def test_what_is_known_of_a_reply_never_widens_the_bounds(
    model: str, reasoning_tokens: int | None
) -> None:
    words = "The Loire, the Seine, the Rhone, and the Garonne. " * 20
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    answers: list[dict[str, Any]] = [
        {"role": "assistant", "content": words},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    first = {"model": model, "messages": [{"role": "user", "content": "Which rivers are there?"}]}
    tool = {"role": "tool", "tool_call_id": "c", "content": "Rain."}
    more = {"role": "user", "content": "And in Italy?"}
    for answer, behind in zip(answers, ([more], [tool]), strict=True):
        longer = {**first, "messages": [*first["messages"], answer, *behind]}
        estimator = tokenctx.HybridTokenEstimator()
        before = estimator.estimate(first).tokens
        whole = estimator.estimate(longer)
        with_answer = {**first, "messages": [*first["messages"], answer]}
        said = estimator.estimate(with_answer).tokens - before
        usage: dict[str, Any] = {"prompt_tokens": before, "completion_tokens": said}
        if reasoning_tokens is not None:
            usage["completion_tokens"] += reasoning_tokens
            usage["completion_tokens_details"] = {"reasoning_tokens": reasoning_tokens}
        assert estimator.record(first, usage, reply=answer)
        delta = estimator.estimate(longer)
        assert (delta.source, delta.tokens) == ("delta", whole.tokens)
        assert delta.high - delta.low <= whole.high - whole.low + 8
        assert delta.quality == whole.quality or delta.low < delta.high
        assert delta.low <= whole.tokens <= delta.high


def test_the_table_is_written_line_by_line_and_read_back() -> None:
    known = all_points([CALLS], [])
    made = bounds.as_json(bounds.Fit(known * bounds.LEAST_CALLS).tables[""], known)
    written = bounds.text_of(made)
    assert json.loads(written) == made
    assert '    "all": {' in written


def test_the_report_stands_between_its_marks() -> None:
    known = [made(group, 0) for group in "abcdefgh" for _ in range(20)]
    grid = bounds.report(bounds.judged_elsewhere(known, bounds.Fit(known)))
    page = f"before\n{bounds.START}old{bounds.END}after"
    written = bounds.with_report(page, grid)
    assert written.startswith("before\n")
    assert written.endswith("after")
    assert "old" not in written


# Recorded calls of others


@pytest.mark.slow
def test_nine_of_ten_calls_of_other_projects_are_within_the_bounds(shared_data: Path) -> None:
    known = all_points([shared_data / "usage" / "dev.jsonl.gz"], [])
    known = [one for one in known if len(one.names) > 1]
    covered: dict[str, list[bool]] = {}
    for one in bounds.judged_elsewhere(known, bounds.Fit(known)):
        for pool in one.point.pools:
            covered.setdefault(pool, []).append(one.is_covered)
    shares = {pool: sum(hits) / len(hits) for pool, hits in covered.items()}
    many = {pool: share for pool, share in shares.items() if len(covered[pool]) >= MANY_CALLS}
    assert all(share >= LEAST_SHARE for share in many.values()), many
