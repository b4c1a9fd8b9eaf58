"""Names of the operator's own for models of others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator
from tokenctx.gateway import Gateway
from tokenctx.money.budgets import Budget, Budgets

PATH = "/v1/chat/completions"
BODY = {"model": "fast", "messages": [{"role": "user", "content": "How long is a day?"}]}


def _answer(model: str) -> bytes:
    message = {"role": "assistant", "content": "24 hours."}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    usage = {"prompt_tokens": 13, "completion_tokens": 7}
    return json.dumps({"model": model, "choices": choices, "usage": usage}).encode()


@pytest.mark.parametrize("as_bytes", [True, False])
@pytest.mark.parametrize("answers", ["fast", "gpt-4o-mini-2024-07-18"])
def test_an_alias_is_the_model_that_it_stands_for(answers: str, *, as_bytes: bool) -> None:
    budgets = Budgets(
        [Budget("day", money=1, per="day"), Budget("each", tokens=99_999, by="model")],
        refuses_unpriced=True,
    )
    front = Gateway(HybridTokenEstimator(), aliases={"fast": "gpt-4o-mini"}, budgets=budgets)
    body: Any = json.dumps(BODY).encode() if as_bytes else BODY
    call = front.call(body, path=PATH)
    assert call.refusal is None
    assert call.estimate is not None
    assert call.estimate.model == "gpt-4o-mini"
    assert json.loads(call.upstream_body)["model"] == "fast"
    call.response(_answer(answers))
    assert call.event is not None
    assert budgets.balance("each", {"model": "gpt-4o-mini"}).taken == 20
    assert 0 < budgets.balance("day").taken < 0.001
    again = front.call(body, path=PATH)
    assert again.estimate is not None
    assert again.estimate.source == "exact"


def test_what_is_no_alias_is_asked_for_as_it_is() -> None:
    front = Gateway(HybridTokenEstimator(), aliases={"fast": "gpt-4o-mini"})
    for model in ("gpt-4o", ["fast"], None):
        call = front.call(json.dumps({**BODY, "model": model}).encode(), path=PATH)
        assert call.estimate is not None
        assert call.estimate.model != "gpt-4o-mini"
    assert front.call(b"{", path=PATH).failure is not None


@pytest.mark.parametrize("aliases", [{"": "a"}, {"a": ""}, {"a": 1}])
def test_what_are_no_aliases(aliases: Any) -> None:
    with pytest.raises(ValueError, match="aliases has"):
        Gateway(HybridTokenEstimator(), aliases=aliases)
