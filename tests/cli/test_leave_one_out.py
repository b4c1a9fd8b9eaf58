"""What one project alone has told is found, and taken away when its own calls are scored."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

import leave_one_out
from tokenctx._cli.evaluation import held_out
from tokenctx._cli.evaluation.fit import CONSTANTS, Sample, fitted
from tokenctx._core import profile_of_model

if TYPE_CHECKING:
    from pathlib import Path

ROWS = held_out.bundled_rows()
FALLBACKS = json.loads(leave_one_out.TABLE.read_text("utf-8"))["fallbacks"]
PUBLIC = re.compile(
    r"\b(docs|guide|cookbook|model pages|table|templates?|encoding of|mistral-common|harmony|SDK"
    r"|strategy)\b"
)
"""Words of a source that anyone can read."""
TOLD = re.compile(r"\b(\d+) projects?\b")
"""How many projects a source tells of."""
LEAST_PROJECTS = leave_one_out.LEAST_PROJECTS
MOST_CONSTANTS = 2
"""That a row of one project has of its own, if it is no vendor's fallback."""
WELL_KNOWN = (75, 88, 92)
"""Least shares of the calls to OpenAI, Claude and Gemini that are exact / within 2 % / 5 %."""


def saved(folder: Path, *calls: tuple[str, str, int], content: str = "What is a token?") -> Path:
    def line(group: str, model: str, billed: int) -> dict[str, Any]:
        body = {"model": model, "messages": [{"role": "user", "content": content}]}
        return {"group": group, "model": model, "request": body, "input_tokens": billed}

    path = folder / "calls.jsonl"
    path.write_text("\n".join(json.dumps(line(*call)) for call in calls), "utf-8")
    return path


# Layouts that are no fit


def test_what_two_projects_tell_is_kept_without_one(tmp_path: Path) -> None:
    path = saved(tmp_path, ("a", "gpt-3.5-turbo-0301", 12), ("b", "gpt-3.5-turbo-0301", 12))
    for call in held_out.held_out([path]):
        assert call.score.tokens == call.without.tokens
        assert call.score.low >= call.without.low  # of a profile of one's own, which is never sure


def test_what_one_project_tells_is_gone_without_it(tmp_path: Path) -> None:
    path = saved(
        tmp_path, ("a", "gpt-3.5-turbo-0301", 12), ("a", "gpt-4o", 12), ("b", "gpt-4o", 12)
    )
    alone, *others = held_out.held_out([path])
    assert alone.score.tokens == alone.without.tokens + 1, "its messages have one token more"
    assert all(call.score == call.without for call in others)


@pytest.mark.parametrize("profile", sorted(ROWS.rows))
def test_a_profile_falls_to_one_that_it_is_like(profile: str) -> None:
    model = held_out.model_like(profile)
    resolved, is_known = profile_of_model(model, "openai-chat")
    assert resolved != profile or not ROWS.rows[profile]["models"]
    assert is_known == (model != held_out.NO_MODEL)


# Few projects


@pytest.mark.parametrize("row", ROWS.rows.values(), ids=lambda row: str(row["name"]))
def test_what_few_projects_tell_is_no_more_than_guessed(row: dict[str, Any]) -> None:
    if row["confidence"] == "fitted":
        told = [int(number) for number in TOLD.findall(row["source"])]
        assert max(told, default=0) >= LEAST_PROJECTS, row["source"]


@pytest.mark.parametrize("row", ROWS.rows.values(), ids=lambda row: str(row["name"]))
def test_what_one_project_tells_is_little(row: dict[str, Any]) -> None:
    if TOLD.findall(row["source"]) == ["1"] and row["name"] not in FALLBACKS.values():
        assert row["confidence"] == "guessed"
        assert len(ROWS.own(row["name"])) <= MOST_CONSTANTS, "what makes it another in kind"


def test_a_fitted_row_that_few_projects_call_fails_the_study(tmp_path: Path) -> None:
    calls = [("a", "nova", 12), ("b", "nova", 12), *((name, "kimi-k2.5", 12) for name in "abc")]
    held = held_out.held_out([saved(tmp_path, *calls)])
    names = leave_one_out.unsupported(ROWS, held)
    assert "nova" in names
    assert "kimi-k2.5" not in names
    assert "gpt-4o" not in names, "it is verified"


# Fits


def sample(project: str, billed: int, profile: str = "nova", **counts: int) -> Sample:
    return Sample(project, "host model", profile, billed, 100, counts)


def test_a_fit_finds_the_constants_that_bills_were_made_with() -> None:
    samples = [
        sample(
            project, 100 + 7 + 3 * n + 40 * t, request_tokens=1, message_tokens=n, tools_tokens=t
        )
        for project in "abc"
        for n in (1, 2, 5)
        for t in (0, 1)
    ]
    found = fitted(ROWS, samples, {"nova"})["nova"]
    assert (found["request_tokens"], found["message_tokens"], found["tools_tokens"]) == (7, 3, 40)


def test_one_odd_project_changes_no_constant() -> None:
    samples = [sample(project, 107, request_tokens=1) for project in "aaaabbbbcccc"]
    odd = [sample("d", 190, request_tokens=1) for _ in range(1000)]
    assert fitted(ROWS, [*samples, *odd], {"nova"})["nova"]["request_tokens"] == 7


def test_what_no_call_speaks_of_is_as_with_the_parent() -> None:
    parent = ROWS.full[ROWS.rows["nova"]["like"]]
    found = fitted(ROWS, [], {"nova"})["nova"]
    assert found == {name: parent[name] for name in ROWS.own("nova")}


def test_what_is_verified_is_not_fitted() -> None:
    assert not any(ROWS.is_fitted(name) for name in ("gpt-4o", "claude-4.5", "completions"))
    assert ROWS.is_fitted("nova")


def test_a_count_is_linear_in_its_constants(tmp_path: Path) -> None:
    path = saved(tmp_path, ("a", "kimi-k2", 12), ("b", "grok-3", 12))
    for call in held_out.held_out([path]):
        own, row = call.sample, ROWS.full[call.profile]
        assert own
        known = sum(count * row[name] for name, count in own.counts.items())
        assert own.fixed_tokens + known == call.score.tokens
        assert own.counts["message_tokens"] == own.counts["request_tokens"] == 1


def test_a_fitted_row_of_one_project_is_what_it_is_like_without_it() -> None:
    samples = [sample("a", 107, request_tokens=1)]
    assert held_out.lone_rows(ROWS, samples, "a") == {"nova"}
    without = ROWS.without({"nova"})
    assert without.own("nova") == []
    assert without.full["nova"]["encoding"] == ROWS.full["unknown"]["encoding"]
    assert not held_out.lone_rows(ROWS, [*samples, sample("b", 107)], "a")


@pytest.mark.slow
def test_a_project_of_very_many_models_weighs_by_model(tmp_path: Path) -> None:
    calls = [("a", f"m-{number}", 12) for number in range(held_out.MANY_MODELS + 1)]
    held = held_out.held_out([saved(tmp_path, *calls, ("a", "m-0", 12), ("b", "m-0", 12))])
    weights = {(one.project, one.model): one.weight for one in held}
    assert weights["a", " m-0"] == 0.5
    assert weights["b", " m-0"] == weights["a", " m-1"] == 1


def test_constants_are_written_and_all_else_stays() -> None:
    text = leave_one_out.TABLE.read_text("utf-8")
    written = leave_one_out.with_constants(text, {"nova": {"request_tokens": 77}})
    assert [line for line in written.split("\n") if line not in text] == [
        '      "request_tokens": 77,'
    ]
    assert json.loads(written)["profiles"]
    assert leave_one_out.with_constants(text, {}) == text


def test_every_constant_is_a_field_of_the_layout() -> None:
    assert set(CONSTANTS) <= set(ROWS.full["unknown"])


# Recorded calls


@pytest.mark.slow
def test_other_projects_support_the_rules(shared_data: Path) -> None:
    held = held_out.held_out([shared_data / "usage" / "dev.jsonl.gz"])
    exact: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for one in held:
        if one.stratum in {"text", "tools", "structured output"}:
            exact[one.profile][one.project].append(one.score.percent == 0)
    for name, row in ROWS.rows.items():
        share = leave_one_out.EXACT_SHARE
        projects = sum(sum(hits) >= share * len(hits) for hits in exact[name].values())
        is_public = PUBLIC.search(row["source"]) is not None
        is_called = bool(row["models"])  # a row of no models is held by those that are like it
        has_support = is_public or projects >= LEAST_PROJECTS or not is_called
        assert row["confidence"] != "verified" or has_support, name
    found = held_out.figures([one for one in held if one.vendor != "other"], is_without=True)
    assert all(
        map(float.__ge__, (found.exact, found.within_2, found.within_5), map(float, WELL_KNOWN))
    )
