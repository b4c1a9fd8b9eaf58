"""What one project alone has told is found, and taken away when its own calls are scored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import leave_one_out
from tokenctx._core import profile_of_model

if TYPE_CHECKING:
    from pathlib import Path

MOST_FALL_POINTS = 3


def saved(folder: Path, *calls: tuple[str, str]) -> Path:
    def line(group: str, model: str) -> dict[str, Any]:
        body = {"model": model, "messages": [{"role": "user", "content": "What is a token?"}]}
        return {"group": group, "model": model, "request": body, "input_tokens": 12}

    path = folder / "calls.jsonl"
    path.write_text("\n".join(json.dumps(line(*call)) for call in calls), "utf-8")
    return path


def test_what_two_projects_tell_is_kept_without_one(tmp_path: Path) -> None:
    path = saved(tmp_path, ("a", "gpt-3.5-turbo-0301"), ("b", "gpt-3.5-turbo-0301"))
    assert all(call.score == call.without for call in leave_one_out.held(path))


def test_what_one_project_tells_is_gone_without_it(tmp_path: Path) -> None:
    path = saved(tmp_path, ("a", "gpt-3.5-turbo-0301"), ("a", "gpt-4o"), ("b", "gpt-4o"))
    alone, *others = leave_one_out.held(path)
    assert alone.score.tokens == alone.without.tokens + 1, "its messages have one token more"
    assert all(call.score == call.without for call in others)


@pytest.mark.parametrize("profile", sorted(leave_one_out.ROWS))
def test_a_profile_falls_to_one_that_it_is_like(profile: str) -> None:
    model = leave_one_out.model_like(profile)
    resolved, is_known = profile_of_model(model, "openai-chat")
    assert resolved != profile or not leave_one_out.ROWS[profile]["models"]
    assert is_known == (model != leave_one_out.NO_MODEL)


@pytest.mark.slow
def test_no_project_alone_carries_the_accuracy(shared_data: Path) -> None:
    path = shared_data / "usage" / "dev.jsonl.gz"
    calls = leave_one_out.held(path)
    by_group: dict[str, list[leave_one_out.Held]] = {}
    for call in calls:
        by_group.setdefault(call.group, []).append(call)
    falls = [
        leave_one_out.percent(call.is_near for call in own)
        - leave_one_out.percent(call.is_near_without for call in own)
        for own in by_group.values()
    ]
    assert sum(falls) / len(falls) <= MOST_FALL_POINTS
