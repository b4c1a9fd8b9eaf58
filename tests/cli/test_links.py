"""Logs of requests and answers that name no conversation: what was paid again, and why, is told."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from cli.test_causes import BREAKS, conversation
from cli.test_month import START, TEXT, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest.importorskip("duckdb", reason="python3 dev.py clients has it")

Json = dict[str, Any]
SYSTEM = "You are an agent."
TURNS = 12


def plain(it: Json, name: str) -> Json:
    """A call as a request with its answer, without an id, and with texts of its own."""
    request = json.loads(json.dumps(it["request"]).replace(TEXT, f"{TEXT} {name}"))
    model = it["model"]
    answer = {"model": model, "usage": it["usage"], "content": [{"type": "text", "text": "yes"}]}
    return {"request": {**request, "model": model}, "response": answer, "created": it["created"]}


def turn(name: str, messages: list[str], at: float, tokens: int, read: int, **more: Any) -> Json:
    """A call with these messages; what was not read is written."""
    roles = ("user", "assistant")
    usage = {"input_tokens": 10, "cache_read_input_tokens": read, "output_tokens": 50}
    usage["cache_creation_input_tokens"] = tokens - read - 10
    body = {
        "system": more.pop("system", SYSTEM),
        "messages": [
            {"role": roles[nth % 2], "content": f"{it} of {name}"}
            for nth, it in enumerate(messages)
        ],
    }
    call = {"model": "claude-sonnet-4-5", "request": body, "usage": usage, "created": START + at}
    return plain({**call, **more}, name)


def told_causes(path: Path, calls: list[Json]) -> dict[str, int]:
    return {it["cause"]: it["tokens"] for it in told(path, calls)["paid_again"]}


def test_calls_without_a_conversation_have_the_causes_of_their_breaks(tmp_path: Path) -> None:
    drawn = random.Random(45)
    seeded: Counter[str] = Counter()
    calls: list[Json] = []
    for name in BREAKS:
        for nth in range(12):
            made, lost = conversation(name, nth, drawn)
            calls += [plain(it, f"{name} {nth}") for it in made]
            seeded[BREAKS[name][0]] += lost
    drawn.shuffle(calls)
    found = told_causes(tmp_path / "log.jsonl", calls)
    right = sum(min(found.get(cause, 0), tokens) for cause, tokens in seeded.items())
    assert right >= 0.95 * max(seeded.total(), sum(found.values())), (found, seeded)


def summary(_: list[str]) -> list[str]:
    return ["a summary"]


def task_and_summary(before: list[str]) -> list[str]:
    return [before[0], "a summary", "go on"]


def summary_and_last(before: list[str]) -> list[str]:
    return ["a summary", *before[-4:]]


def last_half(before: list[str]) -> list[str]:
    return before[len(before) // 2 :]


CUTS: dict[str, Callable[[list[str]], list[str]]] = {
    it.__name__: it for it in (summary, task_and_summary, summary_and_last, last_half)
}


def cut_conversation(name: str, cut: str, start: float, drawn: random.Random) -> list[Json]:
    """A conversation that grows by two messages a call, and is cut behind its first half."""
    calls: list[Json] = []
    at, tokens, read, messages = start, 5_000, 0, ["the task"]
    for nth in range(TURNS):
        if nth == TURNS // 2:
            messages, tokens, read = CUTS[cut](messages), 12_000, 2_000
        calls.append(turn(name, messages, at, tokens, read))
        read, tokens = tokens, tokens + drawn.randrange(4_000, 9_000)
        messages = [*messages, f"answer {nth}", f"question {nth}"]
        at += drawn.uniform(5, 200)
    return calls


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("apart", [9_000, 11], ids=["one by one", "at once"])
def test_a_history_that_was_cut_is_told(cut: str, apart: int, tmp_path: Path) -> None:
    """A summary alone, in the midst of other conversations, is not told from a new one."""
    drawn = random.Random(7)
    calls = []
    for nth in range(6):
        calls += cut_conversation(f"c{nth}", cut, nth * apart, drawn)
    drawn.shuffle(calls)
    wanted = {} if apart == 11 and cut == "summary" else {"cut": 6 * 10_000}
    assert told_causes(tmp_path / "log.jsonl", calls) == wanted


@pytest.mark.parametrize("cut", CUTS)
def test_a_history_that_was_cut_is_told_of_conversations_with_a_name(
    cut: str, tmp_path: Path
) -> None:
    drawn = random.Random(8)
    calls = []
    for nth in range(6):
        made = cut_conversation(f"c{nth}", cut, nth * 11, drawn)
        calls += [{**it, "conversation_id": f"c{nth}"} for it in made]
    drawn.shuffle(calls)
    assert told_causes(tmp_path / "log.jsonl", calls) == {"cut": 6 * 10_000}


def test_an_agent_of_an_agent_cuts_nothing(tmp_path: Path) -> None:
    """A shorter thread in a session, behind which the long one goes on, is another thread."""
    calls = cut_conversation("c", "summary", 0, random.Random(9))[: TURNS // 2]
    messages = [it["content"].removesuffix(" of c") for it in calls[-1]["request"]["messages"]]
    tokens = sum(calls[-1]["response"]["usage"].values()) - 50
    inner = turn("inner", ["a task"], 2_000, 12_000, 0)
    more = turn("c", [*messages, "answer", "question"], 2_010, tokens + 900, tokens)
    named = [{**it, "conversation_id": "c"} for it in (*calls, inner, more)]
    assert told_causes(tmp_path / "log.jsonl", named) == {}


EXAMPLES = ["example 1", "its answer", "example 2", "its answer too", "example 3", "yes"]


def with_examples() -> list[Json]:
    """Questions behind the same examples, and some that are gone on with."""
    calls = []
    for nth in range(9):
        messages = [*EXAMPLES, f"question {nth}"]
        calls.append(turn("x", messages, nth * 60, 9_000, 8_000))
        if nth % 3 == 0:
            more = [*messages, f"answer {nth}", "and then?"]
            calls.append(turn("x", more, nth * 60 + 20, 9_900, 9_000))
    return calls


def by_several_models() -> list[Json]:
    """The same questions to several models, each by itself; one goes on, its start elsewhere."""
    models = ("claude-sonnet-4-5", "claude-opus-4-5", "claude-haiku-4-5")
    calls = [
        turn("x", [f"question {nth}"], 1_000 * place + nth, 5_000, 0, model=model)
        for place, model in enumerate(models)
        for nth in range(5)
    ]
    more = ["question 0", "an answer", "and then?"]
    return [*calls, turn("x", more, 4_000, 6_000, 0, model="claude-opus-4-1")]


def of_other_systems() -> list[Json]:
    """The same greeting behind other system prompts."""
    return [
        turn("x", ["hello"], it, 4_000, 0, system=app)
        for it, app in enumerate(("one", "two", "three"))
    ]


def short_and_long() -> list[Json]:
    """Conversations of several users under one system prompt, long ones before short ones."""
    calls = []
    for nth in range(4):
        messages = ["a question"]
        for it in range(5):
            tokens = 3_000 + it * 3_000
            read = tokens - 3_000 if it else 2_000
            calls.append(turn(f"u{nth}", messages, 50 * it + nth * 10, tokens, read))
            messages = [*messages, f"answer {it}", f"question {it}"]
        calls.append(turn(f"v{nth}", ["a text"], 300 + nth, 6_000, 2_000))
    return calls


def forked() -> list[Json]:
    """A last question that was asked in other words: all before it was read."""
    stem = ["the task", "an answer"]
    first = turn("x", stem[:1], 0, 9_000, 0)
    return [first, *(turn("x", [*stem, f"{it}?"], it, 9_990, 9_000) for it in range(1, 5))]


@pytest.mark.parametrize(
    "made", [with_examples, by_several_models, of_other_systems, short_and_long, forked]
)
def test_what_is_no_conversation_has_no_cause(made: Any, tmp_path: Path) -> None:
    calls = made()
    random.Random(3).shuffle(calls)
    assert told_causes(tmp_path / "log.jsonl", calls) == {}


def test_the_system_message_of_a_chat_is_its_context(tmp_path: Path) -> None:
    """A new system message is no earlier message that changed."""

    def asked(nth: int, system: str, read: int) -> Json:
        messages = [{"role": "system", "content": system}]
        for it in range(nth + 1):
            messages.append({"role": "user", "content": f"question {it}"})
            messages.append({"role": "assistant", "content": f"answer {it}"})
        usage = {"prompt_tokens": 9_000 + nth * 2_000, "completion_tokens": 9}
        usage["prompt_tokens_details"] = {"cached_tokens": read}  # type: ignore[assignment]
        body = {"model": "gpt-4o", "messages": messages[:-1]}
        return {"request": body, "response": {"usage": usage}, "timestamp": START + nth * 30}

    calls = [asked(0, "It is 9.", 0), asked(1, "It is 9.", 9_000), asked(2, "It is 10.", 0)]
    assert told_causes(tmp_path / "log.jsonl", calls) == {"context": 11_000}


def test_one_request_again_and_again_is_paid_again(tmp_path: Path) -> None:
    """Retries of a long request that was in no cache, each with a time of its own."""
    calls = [turn("x", ["a", "b", "c"], 400 * it, 9_000, 0) for it in range(3)]
    assert told_causes(tmp_path / "log.jsonl", calls) == {"idle": 2 * 9_000}


def test_a_text_that_moves_into_a_part_with_a_mark_is_the_same(tmp_path: Path) -> None:
    """The mark of the cache goes from message to message, and the text with it."""
    calls = [turn("x", ["a", "b", "c"][: 2 * it + 1], 400 * it, 9_000, 0) for it in range(2)]
    first = calls[0]["request"]["messages"][0]
    mark = {"cache_control": {"type": "ephemeral"}}
    first["content"] = [{"type": "text", "text": first["content"], **mark}]
    assert told_causes(tmp_path / "log.jsonl", calls) == {"idle": 9_000}
