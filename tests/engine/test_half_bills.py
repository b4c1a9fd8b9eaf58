"""Bills for Responses that lack half of the input, as a few recorded ones do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tokenctx
from tokenctx._cli.evaluation.recordings import read_recording
from tokenctx._cli.evaluation.replay import replay

if TYPE_CHECKING:
    from pathlib import Path

LONGEST_HALF = 128
QUESTION = {"role": "user", "content": "Which city has the most bridges?"}
TOOL = {"type": "function", "name": "search", "parameters": {"type": "object", "properties": {}}}
BODY = {"model": "gpt-4.1", "input": [QUESTION], "tools": [TOOL]}
NEXT = {**BODY, "input": [QUESTION, {"role": "assistant", "content": "Hamburg."}, QUESTION]}


def test_the_next_turn_starts_from_the_whole(estimator: Any) -> None:
    whole = estimator.count_request(BODY).tokens
    estimator.record(BODY, whole // 2)
    estimate = estimator.estimate(NEXT)
    assert (estimate.source, estimate.known_tokens) == ("delta", whole)
    assert estimate.tokens == estimator.count_request(NEXT).tokens


def test_a_recorded_reply_changes_nothing(estimator: Any) -> None:
    whole = estimator.count_request(BODY).tokens
    usage = {"input_tokens": whole // 2, "output_tokens": 9}
    estimator.record(BODY, usage, reply=NEXT["input"][1])
    estimate = estimator.estimate(NEXT)
    assert estimate.new_message_count == 1
    assert abs(estimate.known_tokens - whole - 9) < 9


def test_the_same_request_has_the_bill_that_it_had(estimator: Any) -> None:
    billed = estimator.count_request(BODY).tokens // 2
    estimator.record(BODY, billed)
    estimate = estimator.estimate(BODY)
    assert (estimate.source, estimate.tokens) == ("exact", billed)


@pytest.mark.parametrize("half", [127, LONGEST_HALF, LONGEST_HALF + 1, 200])
@pytest.mark.parametrize("model", ["gpt-4.1", "grok-4.3"])
def test_half_of_a_short_count_is_whole_and_nothing_else_is(model: str, half: int) -> None:
    estimator = tokenctx.HybridTokenEstimator(learning=False)

    def asked(words: int) -> dict[str, Any]:
        question = {"role": "user", "content": "word" + " word" * words}
        return {**BODY, "model": model, "input": [question]}

    known = asked(2 * half - estimator.count_request(asked(0)).tokens)
    longer = {**known, "input": [*known["input"], *NEXT["input"][1:]]}
    whole = estimator.count_request(known).tokens
    assert whole // 2 == half
    is_looked_for = model == "gpt-4.1" and half <= LONGEST_HALF
    for tokens in {*range(1, 140, 6), half - 1, half, half + 1, whole}:
        estimator.record(known, tokens)
        is_half = tokens == half and is_looked_for
        assert estimator.estimate(longer).known_tokens == (whole if is_half else tokens)


@pytest.mark.parametrize("off", [-1, 1, 3])
def test_any_other_bill_is_believed(estimator: Any, off: int) -> None:
    billed = estimator.count_request(BODY).tokens // 2 + off
    estimator.record(BODY, billed)
    assert estimator.estimate(NEXT).known_tokens == billed
    assert estimator.estimate(BODY).source == "exact"


@pytest.mark.parametrize(
    "change",
    [{"model": "grok-4.3"}, {"tools": [{"type": "web_search"}]}, {"dialect": "openai-chat"}],
)
def test_only_what_is_counted_surely_is_a_half(estimator: Any, change: dict[str, Any]) -> None:
    """Not another vendor, nor with a tool that it runs, nor another API."""
    dialect = change.get("dialect")
    billed = estimator.count_request({**BODY, **change}, dialect=dialect).tokens // 2
    estimator.record({**BODY, **change}, billed, dialect=dialect)
    assert estimator.estimate({**NEXT, **change}, dialect=dialect).known_tokens == billed


@pytest.mark.slow
def test_recorded_turns_behind_a_half_bill_are_whole(shared_data: Path) -> None:
    """Most steps behind one are billed what a count of the whole prefix leads to."""
    behind = []
    for conversation in read_recording(shared_data / "usage/dev.jsonl.gz").conversations:
        if (conversation.provider, conversation.api) in RESPONSES:
            before = 0
            for turn in replay(conversation):
                known = turn.estimate.known_tokens
                if turn.estimate.source == "delta" and known // 2 in (before, before - 1):
                    behind.append(turn)
                before = turn.billed_tokens
    near = [turn for turn in behind if abs(turn.error_percent) < 1]
    assert len(behind) >= 8
    assert len(near) >= 0.8 * len(behind)


RESPONSES = {("openai", "openai.responses"), ("azure", "openai.responses")}
