"""A gateway's own logs make a profile where they say something else, and none where they do not."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from learned_constants import biller, conversation
from tokenctx import HybridTokenEstimator
from tokenctx._cli.evaluation.own_profile import Finding, read_logs

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]

CHANGES = {"request_tokens": 250, "tools_tokens": 90, "call_tokens": 3}


def log(path: Path, changes: Json, count: int = 80, model: str = "kimi-k2") -> Path:
    """Calls of a host that adds a prompt of its own and shows tools otherwise, as a log."""
    random_ = random.Random(model)
    profile = HybridTokenEstimator().count_request(conversation(random_, model)).profile
    host = HybridTokenEstimator(profiles={"name": profile, **changes}, learning=False)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(count):
            body = conversation(random_, model)
            billed = host.count_request(body).tokens + random_.choice((0, 0, 0, 1))
            usage = {"prompt_tokens": billed, "completion_tokens": 5}
            file.write(json.dumps({"request": body, "response": {"usage": usage}}) + "\n")
    return path


def finding(path: Path) -> Finding:
    [found] = read_logs([path]).findings()
    return found


@pytest.mark.slow
def test_a_host_that_counts_otherwise_has_a_profile_that_is_right(tmp_path: Path) -> None:
    found = finding(log(tmp_path / "log.jsonl", CHANGES, count=160))
    assert found.is_better
    now, own = found.now.as_json(), found.own.as_json()
    assert now["exact"] < 10
    assert own["within_2"] > 80, "with what 80 calls tell of the 80 others"
    row = found.row()
    estimator = HybridTokenEstimator(profiles=row)
    body = conversation(random.Random(99), "kimi-k2")
    host = HybridTokenEstimator(profiles={"name": row["name"], **CHANGES})
    assert estimator.estimate(body).tokens == pytest.approx(host.estimate(body).tokens, abs=8)


@pytest.mark.slow
def test_a_host_that_counts_as_the_package_does_changes_nothing(tmp_path: Path) -> None:
    assert not finding(log(tmp_path / "log.jsonl", {})).is_better


def test_few_calls_change_nothing(tmp_path: Path) -> None:
    found = finding(log(tmp_path / "log.jsonl", CHANGES, count=10))
    assert (found.changes, found.is_better) == ({}, False)


@pytest.mark.slow
def test_what_is_learned_serves_the_profiles_that_are_not_fitted(tmp_path: Path) -> None:
    model = "gpt-4o"
    bill = biller(model, random.Random(5))
    path, random_ = tmp_path / "log.jsonl", random.Random(6)
    bodies = [conversation(random_, model) for _ in range(60)]
    rows = ({"request": it, "usage": {"prompt_tokens": bill(it) + 40}} for it in bodies)
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    logged = read_logs([path])
    [found] = logged.findings()
    assert not found.is_better, "the layout of OpenAI is not fitted"
    estimator = HybridTokenEstimator()
    estimator.learn(logged.learned([]))
    body = conversation(random.Random(7), model)
    plain = HybridTokenEstimator().estimate(body).tokens
    billed = bill(body) + 40
    assert abs(estimator.estimate(body).tokens - billed) < abs(plain - billed) / 2
