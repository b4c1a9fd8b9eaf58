"""Many rows by one call give what a loop gives, null by null, on any number of threads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator, RequestError, batch, count_tokens, normalize_usage
from tokenctx._cli import inputs
from tokenctx._core import _WRAPPERS

DATA = Path(__file__).parents[1] / "data"
HI: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi there"}]}
LINE = json.dumps(HI).encode()


def recorded_requests() -> list[dict[str, Any]]:
    """The requests of all recorded calls, and of each dialect's cases."""
    lines = (DATA / "recorded-calls.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line)["request"] for line in lines]
    for path in sorted((DATA / "requests").glob("*.json")):
        cases = json.loads(path.read_text("utf-8"))
        found += requests_in(cases)
    return found


def requests_in(value: Any) -> list[dict[str, Any]]:
    """Whatever in `value` looks like a request, at any depth."""
    if isinstance(value, list):
        return [found for item in value for found in requests_in(item)]
    if not isinstance(value, dict):
        return []
    if {"messages", "contents", "input"} & value.keys():
        return [value]
    return [found for item in value.values() for found in requests_in(item)]


def looped(bodies: list[Any]) -> list[dict[str, Any]]:
    estimator = HybridTokenEstimator()
    rows: list[dict[str, Any]] = []
    for body in bodies:
        try:
            one = estimator.estimate(body)
        except RequestError as error:
            rows.append({"reason": error.code})
            continue
        rows.append(
            {
                "tokens": one.tokens,
                "low": one.low,
                "high": one.high,
                "requested_output_tokens": one.requested_output_tokens,
                "quality": one.quality,
                "dialect": one.dialect,
                "model": one.model,
                "profile": one.profile,
                "assumptions": ",".join(one.assumptions),
                "reason": None,
            }
        )
    return rows


def test_a_batch_is_the_loop_to_the_token() -> None:
    """Objects, bytes, text and JSON lines of all recorded requests."""
    bodies = recorded_requests()
    assert len(bodies) > 100
    expected = looped(bodies)
    texts = [json.dumps(body) for body in bodies]
    for rows in (bodies, texts, [it.encode() for it in texts], "\n\n".join(texts)):
        found = batch.estimate(rows).tolist()
        for one, other in zip(expected, found, strict=True):
            assert other == dict.fromkeys(other) | one


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_nothing(threads: int) -> None:
    bodies = [json.dumps(body).encode() for body in recorded_requests() * 5]
    assert batch.estimate(bodies, threads=threads) == batch.estimate(bodies)
    assert batch.unique(bodies, threads=threads) == batch.unique(bodies)
    assert batch.count(bodies, threads=threads) == batch.count(bodies)


def test_a_bad_row_is_null_with_its_reason_and_no_other() -> None:
    rows: list[Any]
    deep = "[" * 2000 + "]" * 2000
    rows = [LINE, None, b"{", "", 7, float("nan"), LINE.decode(), b"\x00", deep, HI]
    found = batch.estimate(rows)
    reasons = ["null", "truncated", "empty_body", "type", "null", "nul_byte", "too_deep"]
    assert [it for it in found.reason.tolist() if it] == reasons
    assert [row for row, it in enumerate(found.tokens) if it is not None] == [0, 6, 9]
    assert found.tokens.sum() == 27
    assert found.tokens.null_count == 7
    counted = batch.count(["hello world", None, b"hello \xff", HI, float("nan")])
    assert counted.tokens.tolist() == [2, None, count_tokens(b"hello \xff"), None, None]
    assert counted.reason.tolist() == [None, "null", None, "type", "null"]


def test_a_row_that_raises_is_a_fault_but_what_makes_rows_may_raise() -> None:
    class Raises:
        @property
        def messages(self) -> Any:
            raise ValueError("no")

    assert len(batch.estimate([Raises(), LINE])) == 2

    def rows() -> Any:
        yield LINE
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="gone"):
        batch.estimate(rows())


@pytest.mark.parametrize("call", [batch.estimate, batch.count, batch.unique, batch.usage])
def test_what_has_no_rows_is_refused_by_name(call: Any) -> None:
    for value in (7, HI, object()):
        with pytest.raises(TypeError, match=type(value).__name__ + "|is one"):
            call(value)
    with pytest.raises(TypeError, match="is one text"):
        batch.count("hello")
    with pytest.raises(ValueError, match="threads is 0"):
        batch.count([], threads=0)


def test_no_rows_are_no_rows() -> None:
    rows: Any
    for rows in ([], b"", "\n \n", iter(())):
        assert batch.estimate(rows).tolist() == []
    assert batch.count([]).tokens.sum() == 0


def test_lines_of_vendors_batch_files_are_counted_by_what_they_wrap() -> None:
    """A line of OpenAI, Anthropic, Google, Bedrock has the tokens of its request."""
    body = {"messages": [{"role": "user", "content": "hi there"}], "max_tokens": 9}
    gemini = {"contents": [{"role": "user", "parts": [{"text": "hi there"}]}]}
    lines = [
        {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": HI},
        {"custom_id": "a", "params": {"model": "claude-opus-4-5", **body}},
        {"key": "a", "request": gemini},
        {"recordId": "a", "modelInput": {"anthropic_version": "bedrock-2023-05-31", **body}},
    ]
    plain = [HI, {"model": "claude-opus-4-5", **body}, gemini, lines[3]["modelInput"]]
    texts = [json.dumps(line) for line in lines]
    for rows in (texts, lines, "\n".join(texts)):
        assert batch.estimate(rows) == batch.estimate(plain)
        assert batch.unique(rows) == batch.unique(plain)
    assert "unknown_request" in batch.estimate([{"body": 7, "id": 1}]).assumptions[0]


def turns(count: int, system: str = "You are kind.") -> list[dict[str, Any]]:
    """A conversation, turn by turn."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
    found = []
    for number in range(count):
        messages = [*messages, {"role": "user", "content": f"question {number} " * 20}]
        found.append({"model": "gpt-4o", "messages": messages})
        messages = [*messages, {"role": "assistant", "content": f"answer {number} " * 30}]
    return found


def test_what_was_sent_before_is_no_new_text() -> None:
    """Each message of a conversation counts once, whatever the number of its turns."""
    conversation = turns(6)
    totals = batch.estimate(conversation).tokens.tolist()
    found = batch.unique(conversation).tokens.tolist()
    assert found[0] == totals[0]
    assert sum(found) == totals[-1]
    assert all(found)
    assert batch.unique(conversation + conversation).tokens.tolist() == found + [0] * 6
    other = turns(6, system="You are not.")
    first = batch.unique(conversation + other).tokens[6]
    assert first == batch.estimate(other).tokens[0] - 3  # the frame of an empty request is known
    branch = {**conversation[5], "messages": [*conversation[5]["messages"][:5], HI["messages"][0]]}
    assert 0 < batch.unique([*conversation, branch]).tokens[6] < 10
    assert batch.unique([None, b"{", HI]).reason.tolist() == ["null", "truncated", None]


def test_usage_and_cost_are_those_of_one_call() -> None:
    usages: list[Any] = [
        {"prompt_tokens": 1000, "completion_tokens": 10},
        {"usage": {"input_tokens": 5, "cache_read_input_tokens": 900, "output_tokens": 7}},
        json.dumps({"usageMetadata": {"promptTokenCount": 77, "candidatesTokenCount": 3}}),
        None,
        "{",
        {},
    ]
    found = batch.usage(usages)
    assert found.reason.tolist() == [None, None, None, "null", "syntax", "no_usage"]
    values = [*usages[:2], json.loads(usages[2])]
    normal = [normalize_usage(it) for it in values]
    assert found.input_tokens.tolist()[:3] == [it.input_tokens for it in normal if it]
    assert found.cache_read_tokens.sum() == 900
    models = ["gpt-4o", "claude-opus-4-5", "nobody-knows-it", "gpt-4o", "gpt-4o", "gpt-4o"]
    costs = batch.cost(found, models)
    assert costs.reason.tolist() == [None, None, "no_price", "null", "syntax", "no_usage"]
    for one, model, nano in zip(normal[:2], models, costs.nano_dollars, strict=False):
        assert one is not None
        known = one.cost(model)
        assert known is not None
        assert known.total is not None
        assert nano == round(known.total * 10**9)
    assert batch.cost(usages, "gpt-4o").nano_dollars[0] == costs.nano_dollars[0]
    assert batch.cost(found).reason[0] == "no_model"
    with pytest.raises(ValueError, match="model has 1 rows and the usage 6"):
        batch.cost(found, ["gpt-4o"])


def test_estimates_are_priced_by_their_own_models_and_at_a_batch_tier() -> None:
    found = batch.estimate([HI, None, {"messages": HI["messages"]}])
    full = batch.cost(found)
    assert full.reason.tolist() == [None, "null", "no_model"]
    half = batch.cost(found, service_tier="batch")
    assert full.nano_dollars[0] == 9 * 2500 == 2 * half.nano_dollars[0]


def test_columns_are_sequences_and_go_in_again() -> None:
    """A column is read by Arrow's own interface: no package is needed for that."""
    words = batch.Column("str", ["hello world", None, ""])
    assert (len(words), words[-1], words.tolist()) == (3, "", ["hello world", None, ""])
    assert batch.count(words).tolist() == batch.count(["hello world", None, ""]).tolist()
    bodies = batch.Column("str", [LINE.decode(), None])
    assert batch.estimate(bodies) == batch.estimate([LINE, None])
    assert batch.usage(batch.Column("str", ['{"prompt_tokens": 3}'])).input_tokens[0] == 3
    with pytest.raises(IndexError, match="row 3"):
        words[3]
    with pytest.raises(TypeError, match="has no sum"):
        words.sum()
    with pytest.raises(TypeError, match="column of Int64"):
        batch.count(batch.Column("int", [1]))
    with pytest.raises(TypeError, match=r"Counts is a table .* tokens, reason; pass one column"):
        batch.count(batch.count(["a"]))
    with pytest.raises(ValueError, match="int or str"):
        batch.Column("float", [])  # type: ignore[arg-type]


def test_a_table_shows_its_rows_and_no_text() -> None:
    found = batch.estimate([HI])
    assert found[0]["tokens"] == next(iter(found))["tokens"] == found.tolist()[0]["tokens"]
    assert list(found.columns)[:3] == ["tokens", "low", "high"]
    assert "hi there" not in repr(found)


def test_names_of_batch_files_stand_in_the_core_alone() -> None:
    """The command and the batch call cannot differ in what a line of a batch wraps."""
    source = Path(inputs.__file__).read_text("utf-8")
    assert "_WRAPPERS" in source
    assert [name for name in ("modelInput", '"params"') if name in source] == []
    assert sorted(_WRAPPERS) == ["body", "modelInput", "params", "request"]
