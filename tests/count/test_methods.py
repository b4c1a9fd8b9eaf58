"""The methods beside the profile: characters and universal, and counts without a model."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import tokenctx
from dialect_calls import assistant, user

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\4\0\0\0\3\0\x08\x06\0\0\0"
TOOL = {
    "name": "get_weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object"},
}


# Methods

HELLO = [user("hello"), assistant("world")]


def characters(**options: Any) -> Any:
    return tokenctx.HybridTokenEstimator(method="characters", **options)


def one_each() -> Any:
    """The mock of the RFC's own tests: one character is one token."""
    options = {"chars_per_token": 1.0, "conservative": False, "provider_overrides": {}}
    return characters(**options)


def test_a_full_count_adds_four_for_each_message() -> None:
    estimate = one_each().estimate_conversation(HELLO, "any")
    assert (estimate.tokens, estimate.source) == (18, "estimated")


def test_known_and_new_add_up() -> None:
    estimator = one_each()
    estimator.record_actual(HELLO, "any", 500)
    estimate = estimator.estimate_conversation([*HELLO, user("new message")], "any")
    assert (estimate.tokens, estimate.known_tokens, estimate.estimated_tokens) == (515, 500, 15)


def test_fewer_billed_than_known_is_believed() -> None:
    # The RFC's system only logs a total below the known one (the host has pruned): the newest
    # total of these very messages is what the next turn starts from.
    estimator = one_each()
    estimator.record_actual(HELLO[:1], "any", 100)
    estimator.record_actual(HELLO, "any", 90)
    assert estimator.estimate_conversation([*HELLO, user("x")], "any").known_tokens == 90


@pytest.mark.parametrize(
    ("model", "chars_per_token"),
    [("gpt-4o", 3.5), ("claude-sonnet-4-5", 4.0), ("gemini-2.5-pro", 4.0), ("nobody-knows", 3.5)],
)
def test_characters_are_divided_by_provider(model: str, chars_per_token: float) -> None:
    text = "x" * 1001
    plain = characters(conservative=False)
    exact = -(-1001 * 1000 // round(chars_per_token * 1000))
    assert plain.estimate_message(user(text), model) == exact + 4
    conservative = -(-1001 * 1100 // round(chars_per_token * 1000))
    assert characters().estimate_message(user(text), model) == conservative + 4


def test_overrides_are_the_callers() -> None:
    options = {"provider_overrides": {"openai": 2.0}, "chars_per_token": 5.0, "conservative": False}
    estimator = characters(**options)
    assert estimator.estimate_message(user("x" * 10), "gpt-4o") == 5 + 4
    assert estimator.estimate_message(user("x" * 10), "claude-sonnet-4-5") == 2 + 4


def test_characters_are_code_points() -> None:
    assert one_each().estimate_message(user("日本👍"), "any") == 3 + 4


def test_confidence_is_that_of_the_rfc() -> None:
    estimator = characters()
    assert estimator.estimate_conversation(HELLO, "gpt-4o").confidence == 0.7
    estimator.record_actual(HELLO, "gpt-4o", 500)
    assert estimator.estimate_conversation(HELLO, "gpt-4o").confidence == 1.0
    hybrid = estimator.estimate_conversation([*HELLO, user("x")], "gpt-4o")
    assert (hybrid.confidence, hybrid.method) == (0.85, "hybrid")


def test_calibration_is_an_average_that_forgets() -> None:
    estimator = one_each()
    assert estimator.calibrate(200, 0, 100) == pytest.approx(0.7 * 1.0 + 0.3 * 2.0)
    assert estimator.calibrate(200, 0, 100) == pytest.approx(0.7 * 1.3 + 0.3 * 2.0)
    assert estimator.estimate_conversation(HELLO, "any").tokens == -(-18 * 151 // 100)
    for actual, estimated in ((0, 100), (-1, 100), (100, 0), (100, -1)):
        assert estimator.calibrate(actual, 0, estimated) == pytest.approx(1.51)
    estimator.reset()
    assert estimator.estimate_conversation(HELLO, "any").tokens == 18
    assert estimator.calibrate(100, 0, 100) == 1.0


def test_a_calibrated_call_is_extended_by_its_length() -> None:
    estimator = one_each()
    estimator.calibrate(500, 2, 500)
    estimate = estimator.estimate_conversation([*HELLO, user("new message")], "any")
    assert (estimate.tokens, estimate.source, estimate.estimated_tokens) == (515, "delta", 15)
    assert estimate.low <= estimate.tokens <= estimate.high
    # Identity beats length: a recorded prefix is used before the last call's length is.
    estimator.record_actual(HELLO, "any", 700)
    assert estimator.estimate_conversation([*HELLO, user("new message")], "any").tokens == 715


@pytest.mark.parametrize("method", ["profile", "universal"])
def test_other_methods_are_not_calibrated(method: Any) -> None:
    with pytest.raises(ValueError, match="record"):
        tokenctx.HybridTokenEstimator(method=method).calibrate(1, 1, 1)


def test_the_universal_method_is_one_vocabulary_for_all() -> None:
    estimator = tokenctx.HybridTokenEstimator(method="universal")
    for model in ("gpt-4", "claude-sonnet-4-5", "gemini-2.5-pro", "nobody-knows"):
        count = estimator.count_request({"messages": [user("hello world")]}, model=model)
        assert (count.tokens, count.message_tokens) == (6, (6,))
        assert (count.encoding, count.profile) == ("o200k_base", "universal")


def test_the_universal_method_counts_attachments_by_their_metadata() -> None:
    estimator = tokenctx.HybridTokenEstimator(method="universal")
    file = {"file_data": "data:application/pdf;base64," + "QUJD" * 9999, "filename": "a.pdf"}
    tokens = estimator.estimate_message(user([{"type": "file", "file": file}]), "gpt-4o")
    count = tokenctx.count_tokens
    assert tokens == 4 + count("a.pdf") + count("application/pdf")


def test_the_universal_method_counts_tools_by_the_formula() -> None:
    estimator = tokenctx.HybridTokenEstimator(method="universal")
    count = tokenctx.count_tokens
    text = count("get_weather") + count("Weather of a city") + count('{"type":"object"}')
    body = {"messages": [], "tools": [TOOL]}
    assert estimator.count_request(body).tokens == -(-(16 + 8 + text) * 11 // 10)
    assert estimator.count_request({"messages": [], "tools": []}).tokens == 0


# What was counted before changes no count


def files(*names: str) -> list[dict[str, Any]]:
    """Messages that differ by the name of a file, which is no part of their identity."""
    data = "data:application/pdf;base64,JVBERi0x"
    made = [{"file_data": data, "filename": name} for name in names]
    return [user([{"type": "file", "file": file}]) for file in made]


def test_counts_by_metadata_are_of_the_message_itself() -> None:
    """A name is no part of the identity, but the method `universal` counts it."""
    names = ("", "a.pdf", "", "a longer name of a file.pdf", "a.pdf")
    shared = tokenctx.HybridTokenEstimator(method="universal")
    alone = [
        tokenctx.HybridTokenEstimator(method="universal").estimate_message(message, "gpt-4o")
        for message in files(*names)
    ]
    assert [shared.estimate_message(message, "gpt-4o") for message in files(*names)] == alone


@pytest.mark.parametrize("method", ["profile", "universal", "characters"])
def test_counts_of_one_message_are_of_each_model(method: Any) -> None:
    """The characters method takes the price of an image from the model."""
    data = "data:image/png;base64," + base64.b64encode(PNG).decode()
    message = user(["look", {"type": "image_url", "image_url": {"url": data}}])
    models = (
        "gpt-4o",
        "gpt-4o-mini",
        "gpt-5",
        "claude-sonnet-4-5",
        "gemini-2.5-pro",
        "x",
        "gpt-4o",
    )
    shared = tokenctx.HybridTokenEstimator(method=method)
    alone = [
        tokenctx.HybridTokenEstimator(method=method).estimate_message(message, model)
        for model in models
    ]
    assert [shared.estimate_message(message, model) for model in models] == alone


def test_a_result_beside_two_calls_is_no_result_of_theirs() -> None:
    """A generated request: the core wrapped a result that stood in the message of the calls."""
    calls = [{"function": {"name": name, "arguments": "{}"}} for name in "fg"]
    for model in ("gpt-4", "gpt-4o", "gpt-5"):

        def tokens(*parts: Any, model: str = model) -> int:
            message = {**assistant([*parts]), "tool_calls": calls}
            count = tokenctx.HybridTokenEstimator().count_request(
                [user("go"), message], model=model
            )
            return count.message_tokens[1]

        assert tokens({"type": "tool_result", "content": "x"}) == tokens(
            {"type": "text", "text": "x"}
        )
