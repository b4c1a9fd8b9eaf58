"""The estimator answers as on the day that each case names: what is counted changes knowingly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from answers import KINDS, cases
from tokenctx._estimate.profiles import bundled_profiles

CASES = [
    pytest.param(kind, case, id=f"{kind} {nth}")
    for kind in KINDS
    for nth, case in enumerate(cases(kind))
]


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_the_answer_is_the_recorded_one(kind: str, case: dict[str, Any]) -> None:
    found = json.loads(json.dumps(KINDS[kind](case)))
    assert found == case["answer"], "if it is wanted: python tests/rigs/answers.py, and review it"


def test_every_profile_has_an_answer() -> None:
    """But those that no model resolves to: a method, and what the rows of Grok share."""
    answers = [case["answer"] for case in cases("counts")]
    counted = {it["profile"] for it in answers if isinstance(it, dict)}
    missing = bundled_profiles().keys() - counted - {"universal", "grok-frame"}
    assert not missing, "a case for each in tests/data/answers/counts.json; add_model writes it"
