"""A mark of the cache ends a prefix where it stands, inside of a message too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import HybridTokenEstimator

if TYPE_CHECKING:
    from tokenctx.money import CacheForecast

MARK = {"cache_control": {"type": "ephemeral"}}
LONG = "test " * 5_000
OTHER = "word " * 20_000
TEXT: dict[str, Any] = {"type": "text", "text": LONG}
DOCUMENT: dict[str, Any] = {
    "type": "document",
    "title": "Rivers",
    "source": {"type": "text", "media_type": "text/plain", "data": LONG},
}


def question(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def body(*blocks: dict[str, Any], system: Any = None) -> dict[str, Any]:
    made: dict[str, Any] = {"model": "claude-sonnet-4-5", "max_tokens": 5}
    if system is not None:
        made["system"] = system
    return {**made, "messages": [{"role": "user", "content": list(blocks)}]}


def forecast(estimator: HybridTokenEstimator, request: dict[str, Any]) -> CacheForecast:
    cache = estimator.estimate(request).cache
    assert cache is not None
    return cache


@pytest.mark.parametrize("marked", [TEXT, DOCUMENT])
def test_what_stands_behind_a_mark_is_not_written(marked: dict[str, Any]) -> None:
    estimator = HybridTokenEstimator(caching=True)
    first = forecast(estimator, body({**marked, **MARK}, question(OTHER)))
    assert abs(first.write_tokens - 5_004) < 60
    assert abs(first.uncached_tokens - 20_004) < 60
    assert first.read_tokens == 0


@pytest.mark.parametrize("marked", [TEXT, DOCUMENT])
def test_another_question_reads_what_stands_before_the_mark(marked: dict[str, Any]) -> None:
    estimator = HybridTokenEstimator(caching=True)
    usage = {"input_tokens": 24, "cache_creation_input_tokens": 5_004, "output_tokens": 5}
    estimator.record(body({**marked, **MARK}, question("word " * 20)), usage)
    again = forecast(estimator, body({**marked, **MARK}, question("Why? " * 30)))
    assert (again.label, again.reason) == ("expected", "warm")
    assert again.read_tokens == 5_004
    other = {**marked, "title": "Lakes"} if "title" in marked else question("other " * 5_000)
    unread = forecast(estimator, body({**other, **MARK}, question("Why? " * 30)))
    assert unread.read_tokens == 0


def test_a_part_of_a_longer_message_is_no_prefix_of_its_text() -> None:
    """The text before the mark is joined with the text behind it, and is still told apart."""
    estimator = HybridTokenEstimator(caching=True)
    usage = {"input_tokens": 24, "cache_creation_input_tokens": 5_004, "output_tokens": 5}
    estimator.record(body({**TEXT, **MARK}, question("and so on")), usage)
    longer = {"type": "text", "text": LONG + "and so on", **MARK}
    assert forecast(estimator, body(longer, question("Why?"))).read_tokens == 0


def test_a_message_that_ends_where_another_was_marked_reads_it() -> None:
    estimator = HybridTokenEstimator(caching=True)
    usage = {"input_tokens": 24, "cache_creation_input_tokens": 5_004, "output_tokens": 5}
    estimator.record(body({**TEXT, **MARK}, question("word " * 20)), usage)
    assert forecast(estimator, body({**TEXT, **MARK})).read_tokens >= 5_000


def test_a_system_prompt_whose_end_changes_is_read_up_to_its_mark() -> None:
    estimator = HybridTokenEstimator(caching=True)

    def request(day: str) -> dict[str, Any]:
        return body(question("Hello"), system=[{**TEXT, **MARK}, question(f"Today is {day}.")])

    first = forecast(estimator, request("Monday"))
    assert abs(first.write_tokens - 5_003) < 20
    usage = {"input_tokens": 16, "cache_creation_input_tokens": 5_003, "output_tokens": 5}
    estimator.record(request("Monday"), usage)
    again = forecast(estimator, request("Tuesday, the third"))
    assert again.label == "expected"
    assert abs(again.read_tokens - 5_003) < 10


def test_each_mark_of_a_message_can_be_read() -> None:
    estimator = HybridTokenEstimator(caching=True)
    second = {"type": "text", "text": "more " * 3_000}
    usage = {"input_tokens": 9, "cache_creation_input_tokens": 5_004, "output_tokens": 5}
    estimator.record(body({**TEXT, **MARK}, question("Why?")), usage)
    both = forecast(estimator, body({**TEXT, **MARK}, {**second, **MARK}, question("Why?")))
    assert both.read_tokens == 5_004
    assert abs(both.write_tokens - 3_000) < 20


def test_bytes_and_dicts_have_the_same_points() -> None:
    estimator = HybridTokenEstimator(caching=True)
    request = body({**DOCUMENT, **MARK}, question("Why?"))
    usage = {"input_tokens": 9, "cache_creation_input_tokens": 5_014, "output_tokens": 5}
    estimator.record(json.dumps(request).encode(), usage)
    other = body({**DOCUMENT, **MARK}, question("How?"))
    assert forecast(estimator, other).read_tokens == 5_014
    assert estimator.estimate(json.dumps(other).encode()).cache == forecast(estimator, other)


def test_a_mark_that_has_moved_on_is_found_where_it_stood() -> None:
    """A reminder stays behind the block that was marked, and the next turn marks its own end."""
    estimator = HybridTokenEstimator(caching=True)
    usage = {"input_tokens": 24, "cache_creation_input_tokens": 5_004, "output_tokens": 5}
    estimator.record(body({**TEXT, **MARK}, question("A reminder.")), usage)
    following = body(TEXT, question("A reminder."))
    following["messages"].append({"role": "assistant", "content": "Yes."})
    last = {"role": "user", "content": [{**question("More? " * 50), **MARK}]}
    following["messages"].append(last)
    assert forecast(estimator, following).read_tokens == 5_004
