"""What comes out holds no text: results, their repr, and errors."""

from __future__ import annotations

import dataclasses
import pickle
from typing import TYPE_CHECKING, Any

import pytest

import tokenctx
from dialect_calls import chat, user

if TYPE_CHECKING:
    from collections.abc import Callable

CANARY = "canary-7f3a"


# Results


def results() -> list[Any]:
    estimator = tokenctx.HybridTokenEstimator(secret=b"s")
    tracker = tokenctx.ConversationStateTracker(secret=b"s")
    body = chat(user(CANARY), {"role": "system", "content": CANARY}, name=CANARY)
    return [
        estimator.estimate(body),
        estimator.count_request(body),
        tracker.record_actual([user(CANARY)], "family", 5),
        tracker.lookup([user(CANARY), user(CANARY)], "family"),
    ]


def test_results_can_be_pickled_compared_and_hashed() -> None:
    for result, again in zip(results()[:2], results()[:2], strict=True):
        assert result == again
        assert result is not again
        assert len({result, again}) == 1
    for result in results():
        assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            result.tokens = 1


def test_no_repr_holds_text_of_a_message() -> None:
    estimator = tokenctx.HybridTokenEstimator(secret=CANARY.encode())
    estimator.record(chat(user(CANARY)), 5)
    for shown in [*results(), estimator, estimator._engine]:
        assert CANARY not in repr(shown) + str(shown)


# Errors

BROKEN = [
    b"",
    b"   ",
    f'{{"messages": [{{"role": "user", "content": "{CANARY}'.encode(),
    f'{{"messages": ["{CANARY}",]}}'.encode(),
    f'{{"messages": ["{CANARY}"]}} {CANARY}'.encode(),
    f"{CANARY}".encode(),
    f'{{"{CANARY}" "x"}}'.encode(),
    f"{{'messages': '{CANARY}'}}".encode(),
    f'{{"messages": "{CANARY}" // {CANARY}\n}}'.encode(),
    f'{{"a": "{CANARY}"}}'.encode("utf-16"),
    b"\0" + CANARY.encode(),
    (b"[" * 2000) + CANARY.encode(),
    f'{{"messages": "{CANARY}\\x"}}'.encode(),
    f'{{"{CANARY}": 01}}'.encode(),
]


@pytest.mark.parametrize("body", BROKEN, ids=range(len(BROKEN)))
def test_errors_are_typed_and_hold_no_payload(body: bytes) -> None:
    estimator, tracker = tokenctx.HybridTokenEstimator(), tokenctx.ConversationStateTracker()
    attempts: list[Callable[[], object]] = [
        lambda: estimator.estimate(body),
        lambda: estimator.count_request(body),
        lambda: estimator.record(body, 5),
        lambda: tracker.lookup(body, "family"),
    ]
    for attempt in attempts:
        with pytest.raises(tokenctx.RequestError) as caught:
            attempt()
        shown = str(caught.value) + repr(caught.value.args) + repr(caught.value.__context__)
        assert CANARY not in shown
        assert caught.value.code
        assert isinstance(caught.value, tokenctx.Error)
        assert isinstance(caught.value, ValueError)
    assert len(estimator) == 0


def test_a_reply_that_cannot_be_read_costs_the_reply_alone(estimator: Any) -> None:
    for reply in (b"{", b"\xff", CANARY, f'{{"a": "{CANARY}'):
        event = estimator.record_event(chat(user("hi")), {"input_tokens": 5}, reply=reply)
        assert (event.billed_tokens, event.reply_reason) == (5, "reply_unreadable")
    assert estimator.stats()["reply_unreadable"] == 4
    assert len(estimator) == 1


def test_an_unknown_dialect_is_refused_by_name(estimator: Any) -> None:
    with pytest.raises(ValueError, match="openai-chat"):
        estimator.estimate(chat(user(CANARY)), dialect="smalltalk")
    with pytest.raises(ValueError, match="openai-chat"):
        estimator.record(chat(user(CANARY)), 5, dialect="smalltalk")


@pytest.mark.parametrize(
    "options",
    [
        {"method": "guess"},
        {"chars_per_token": 0},
        {"chars_per_token": float("nan")},
        {"chars_per_token": 1e9},
        {"provider_overrides": {"openai": -1.0}},
    ],
    ids=str,
)
def test_senseless_options_are_refused(options: Any) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        tokenctx.HybridTokenEstimator(**options)
