"""Profiles of the user's own: what they change, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tokenctx
from tokenctx._estimate.profiles import bundled_profiles, profile_rows, profile_table

PACKAGE = Path(tokenctx.__file__).parent / "data" / "profiles.json"
HELLO = [{"role": "user", "content": "hello world"}]
HOUSE = {"name": "house", "like": "gpt-4o", "models": ["House-"], "message_tokens": 40}


def test_a_profile_counts_the_models_that_it_names() -> None:
    estimator = tokenctx.HybridTokenEstimator(profiles=HOUSE)
    estimate = estimator.estimate(HELLO, model="house-1")
    assert (estimate.profile, estimate.tokens, estimate.assumptions) == ("house", 3 + 40 + 2, ())
    assert estimator.estimate(HELLO, model="gpt-4o").tokens == 3 + 3 + 2 + 1


def test_a_profile_of_the_package_is_changed_for_one_estimator() -> None:
    own = tokenctx.HybridTokenEstimator(profiles={"name": "gpt-4o", "message_tokens": 40})
    other = tokenctx.HybridTokenEstimator()
    changed, plain = (each.estimate(HELLO, model="gpt-4o").tokens for each in (own, other))
    assert changed - plain == 40 - bundled_profiles()["gpt-4o"]["message_tokens"]
    assert own.estimate(HELLO, model="chatgpt-4o").profile == "gpt-4o"
    assert own.estimate(HELLO, model="gpt-4.1").tokens == plain


def test_a_changed_profile_may_be_like_another() -> None:
    own = tokenctx.HybridTokenEstimator(profiles={"name": "gpt-4o", "like": "universal"})
    assert own.count_request(HELLO, model="gpt-4o").tokens == 4 + 2


def test_a_profile_for_one_provider_wins_there_only() -> None:
    row = {"name": "there", "like": "gpt-4o", "models": ["gpt-4o"], "providers": ["vertex"]}
    estimator = tokenctx.HybridTokenEstimator(profiles=[row])
    names = {
        "gpt-4o": "gpt-4o",
        "vertex_ai/gpt-4o": "there",
        "gpt-4o-2024-08-06": "gpt-4o",
        "openrouter/openai/gpt-4o": "gpt-4o",
    }
    for model, profile in names.items():
        assert estimator.estimate(HELLO, model=model).profile == profile
    assert estimator.estimate(HELLO, model="gpt-4o", provider="Vertex-AI").profile == "there"
    assert estimator.estimate(HELLO, model="vertex_ai/gpt-4o", provider="x").profile == "gpt-4o"


def test_a_profile_for_one_dialect_wins_there_only() -> None:
    row = {"name": "there", "like": "gpt-4o", "models": ["gpt-4o"], "dialects": ["anthropic"]}
    estimator = tokenctx.HybridTokenEstimator(profiles=row)
    there = estimator.estimate({"messages": HELLO}, model="gpt-4o", dialect="anthropic")
    here = estimator.estimate({"messages": HELLO}, model="gpt-4o", dialect="openai-chat")
    assert (there.profile, here.profile) == ("there", "gpt-4o")
    like = {"name": "like", "like": "grok-responses", "models": ["house-"]}
    estimator = tokenctx.HybridTokenEstimator(profiles=like)
    assert estimator.estimate(HELLO, model="house-1").profile == "like"


def test_totals_of_two_profiles_do_not_mix() -> None:
    row = {"name": "there", "like": "gpt-4o", "models": ["gpt-4o"], "providers": ["vertex"]}
    estimator = tokenctx.HybridTokenEstimator(profiles=[row])
    estimator.record(HELLO, 500, model="gpt-4o")
    assert estimator.estimate(HELLO, model="gpt-4o").source == "exact"
    assert estimator.estimate(HELLO, model="gpt-4o", provider="vertex").source == "estimated"


def test_profiles_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "profiles.json"
    for content in (HOUSE, [HOUSE], {"profiles": [HOUSE]}):
        file.write_text(json.dumps(content), "utf-8")
        for path in (file, str(file)):
            estimator = tokenctx.HybridTokenEstimator(profiles=path)
            assert estimator.estimate(HELLO, model="house-1").profile == "house"


def test_a_profile_may_stand_before_the_one_that_it_is_like() -> None:
    rows: Any = [{"name": "b", "like": "a"}, {"name": "a", "message_tokens": 40}]
    assert profile_table(profile_rows(rows))["b"]["message_tokens"] == 40


def test_the_profiles_of_the_package_are_profiles() -> None:
    own, bundled = profile_table(profile_rows(PACKAGE)), bundled_profiles()
    assert {row["quality"] for row in own.values()} == {"calibrated", "heuristic"}  # never exact
    assert {name: {**row, "quality": ""} for name, row in own.items()} == {
        name: {**row, "quality": ""} for name, row in bundled.items()
    }


REFUSED: list[tuple[Any, str]] = [
    (5, r"profiles is a int; it must be a list"),
    ([5], r"profile 1 is 5; it must be an object"),
    ({"like": "gpt-4o"}, r"profile 1: name must be a text that is not empty"),
    ({"name": "a", "tokens": 5}, r"profile 'a': tokens is no field of a profile; .* tool_tokens"),
    ({"name": "a", "message_tokens": -1}, r"message_tokens is -1; it must be 0 to 1000000000"),
    ({"name": "a", "message_tokens": 10**10}, r"it must be 0 to 1000000000"),
    ({"name": "a", "tool_tokens": -(10**10)}, r"it must be -1000000000 to"),
    ({"name": "a", "message_tokens": 1.5}, r"message_tokens is 1.5; it must be a whole number"),
    ({"name": "a", "message_tokens": True}, r"message_tokens is true; it must be a whole number"),
    ({"name": "a", "text_denominator": 0}, r"text_denominator is 0; it must be 1 to"),
    ({"name": "a", "encoding": "llama"}, r"encoding is 'llama'; it must be one of o200k_base"),
    ({"name": "a", "image_rule": "x"}, r"image_rule is 'x'; it must be one of"),
    ({"name": "a", "layout": "x"}, r"layout is 'x'; it must be one of linear"),
    ({"name": "a", "models": "x"}, r"models is 'x'; it must be a list of texts"),
    ({"name": "a", "models": [1]}, r"models is 1; it must be a text"),
    ({"name": "a", "dialects": ["x"]}, r"dialects is 'x'; it must be one of openai-chat"),
    ({"name": "a", "has_think_tags": 1}, r"has_think_tags is 1; it must be true or false"),
    ({"name": "gpt-4o", "chat": 1}, r"chat is 1; it must be an object"),
    ({"name": "gpt-4o", "chat": {"x": 1}}, r"chat.x is no field; the fields are is_rerouted"),
    (
        {"name": "gpt-4o", "chat": {"call_tokens": "1"}},
        r"chat.call_tokens is '1'; it must be a whole",
    ),
    ({"name": "gpt-4o", "chat": {"joins_system": 1}}, r"chat.joins_system is 1; it must be true"),
    ({"name": "a", "like": "b"}, r"profile 'a': like is 'b'; it must be the name of a profile"),
    ({"name": "a", "like": "a"}, r"in a circle: a"),
    ([{"name": "a", "like": "b"}, {"name": "b", "like": "a"}], r"in a circle: a, b"),
    ([{"name": "a"}, {"name": "a"}], r"profile 'a' is there twice"),
    (
        {"name": "a", "turns": {"opening_tokens": 1}},
        r"turns is a field of the layout anthropic, and the layout is linear",
    ),
    (
        {"name": "gpt-4o", "tool_tokens": 1},
        r"tool_tokens is a field of the layout linear or anthropic, and the layout is openai",
    ),
]


@pytest.mark.parametrize(("rows", "message"), REFUSED, ids=lambda case: str(case)[:40])
def test_what_is_no_profile_is_refused(rows: Any, message: str) -> None:
    if rows == 5:
        rows = {"profiles": 5}
    with pytest.raises((TypeError, ValueError), match=message):
        tokenctx.HybridTokenEstimator(profiles=rows)


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "profiles.json"
    file.write_text("{", "utf-8")
    with pytest.raises(ValueError, match=r"profiles\.json is no JSON file"):
        tokenctx.HybridTokenEstimator(profiles=file)
    with pytest.raises(OSError, match="missing"):
        tokenctx.HybridTokenEstimator(profiles=tmp_path / "missing.json")


TOOL = {"function": {"name": "f", "description": "Does it.", "parameters": {"type": "object"}}}


def test_a_template_may_hide_tools_behind_a_result() -> None:
    row = {"name": "house", "like": "llama", "models": ["house"], "tools_after_result_tokens": 7}
    estimator = tokenctx.HybridTokenEstimator(profiles=row, learning=False)

    def tool_tokens(*messages: Any) -> int:
        body = {"messages": [*HELLO, *messages]}
        with_tools = {**body, "tools": [TOOL]}
        counts = (estimator.count_request(it, model="house").tokens for it in (with_tools, body))
        return int(next(counts) - next(counts))

    result = {"role": "tool", "content": "ok"}
    assert tool_tokens(result) == 7
    assert tool_tokens(result, *HELLO) == tool_tokens() > 50


def test_a_prompt_of_a_completions_api_stands_in_no_template() -> None:
    estimator = tokenctx.HybridTokenEstimator(learning=False)

    def tokens(body: dict[str, Any]) -> int:
        return int(estimator.estimate(body, model="llama-3.1-8b").tokens)

    assert tokens({"prompt": "hello world"}) == 2
    chat = tokens({"messages": HELLO})
    assert tokens({"prompt": "hello world", "options": {"temperature": 0}}) == chat > 20
    assert estimator.record({"prompt": "hello world"}, 2, model="llama-3.1-8b") is not None
    assert tokens({"messages": HELLO}) == chat


@pytest.mark.parametrize(
    ("provider", "is_ignored"),
    [("nonsense", True), ("azure", False), ("vertex_ai", False), (" OpenRouter ", False)],
)
def test_a_provider_of_whom_nothing_is_known_is_named(provider: str, *, is_ignored: bool) -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello world"}]}
    plain = tokenctx.HybridTokenEstimator().estimate(body)
    asked = tokenctx.HybridTokenEstimator().estimate(body, provider=provider)
    assert (asked.assumptions == ("ignored_provider",)) == is_ignored
    if is_ignored:
        assert (asked.tokens, asked.quality) == (plain.tokens, plain.quality)
