"""A server that does not say that the context was too long answers with nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tokenctx import ContextWindow
from tokenctx.context import ContextOverflow, parse_overflow

Json = dict[str, Any]

GUESS = ContextOverflow(None, None, "", is_guessed=True)


def chat(reason: str | None, content: str | None, tokens: tuple[int, int], **more: Any) -> Json:
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    message = {"role": "assistant", "content": content, **more}
    return {"choices": [{"index": 0, "finish_reason": reason, "message": message}], "usage": usage}


def claude(reason: str, content: list[Json], output: int, given: int = 9_000) -> Json:
    usage = {"input_tokens": given, "output_tokens": output}
    return {"type": "message", "content": content, "stop_reason": reason, "usage": usage}


def gemini(reason: str, parts: list[Json], **counts: int) -> Json:
    content = {"role": "model", **({"parts": parts} if parts else {})}
    usage = {"promptTokenCount": 9_000, **counts}
    return {"candidates": [{"content": content, "finishReason": reason}], "usageMetadata": usage}


def ollama(content: str, count: int | None, **more: Any) -> Json:
    found = {"done": True, "done_reason": "length", "prompt_eval_count": 4_095, **more}
    found["message"] = {"role": "assistant", "content": content}
    return found if count is None else {**found, "eval_count": count}


def llama_cpp(*, is_cut: bool, count: int, content: str) -> Json:
    timings = {"prompt_n": 12, "cache_n": 4_000, "predicted_n": count}
    told = {"tokens_evaluated": 4_012, "tokens_predicted": count, "truncated": is_cut}
    return {"content": content, "stop": True, "stop_type": "limit", **told, "timings": timings}


def lm_studio(reason: str, content: str, count: int) -> Json:
    return {**chat("length", content, (8_000, count)), "stats": {"stop_reason": reason}}


def responses(output: list[Json], tokens: int) -> Json:
    details = {"reason": "max_output_tokens"}
    usage = {"input_tokens": 9_000, "output_tokens": tokens}
    told = {"object": "response", "status": "incomplete", "incomplete_details": details}
    return {**told, "output": output, "usage": usage}


TEXT = [{"type": "text", "text": "The"}]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (chat("length", "", (32_767, 1)), GUESS),
        (chat("length", None, (32_767, 0)), GUESS),
        (chat("length", "The", (32_767, 1)), None),
        (chat("length", "", (9_000, 4_000)), None),  # it thought for all it might
        (chat("length", "", (9_000, 1), reasoning_content="So"), None),
        (chat("length", None, (9_000, 1), tool_calls=[{"id": "1"}]), None),
        (chat("stop", "", (9_000, 0)), None),
        (claude("max_tokens", [], 0), GUESS),
        (claude("max_tokens", TEXT, 1), None),
        (
            claude("model_context_window_exceeded", TEXT, 700),
            ContextOverflow(None, None, "anthropic"),
        ),
        (claude("end_turn", [], 0), None),
        (gemini("MAX_TOKENS", []), GUESS),
        (gemini("MAX_TOKENS", [], thoughtsTokenCount=8_191), None),
        (gemini("MAX_TOKENS", [{"text": "The"}], candidatesTokenCount=1), None),
        (ollama("", 1), GUESS),
        (ollama("", None), GUESS),
        (ollama("The", 1), None),
        (llama_cpp(is_cut=True, count=90, content="The"), ContextOverflow(None, None, "llama.cpp")),
        (llama_cpp(is_cut=False, count=0, content=""), GUESS),
        (llama_cpp(is_cut=False, count=90, content="The"), None),
        (lm_studio("contextLengthReached", "The", 90), ContextOverflow(None, None, "lm-studio")),
        (lm_studio("maxPredictedTokensReached", "The", 90), None),
        (lm_studio("maxPredictedTokensReached", "", 0), GUESS),
        (responses([], 0), GUESS),
        (responses([{"type": "reasoning", "id": "rs_1", "summary": []}], 8_000), None),
        (
            {
                "output": {"message": {"role": "assistant", "content": []}},
                "stopReason": "model_context_window_exceeded",
                "usage": {"inputTokens": 9_000, "outputTokens": 0, "totalTokens": 9_000},
            },
            ContextOverflow(None, None, "anthropic"),
        ),
    ],
)
def test_forms_of_servers(answer: Json, expected: ContextOverflow | None) -> None:
    assert parse_overflow(answer) == expected
    assert parse_overflow(json.dumps(answer)) == expected
    assert parse_overflow(json.dumps(answer).encode()) == expected
    assert ContextWindow("gpt-4.1").record_overflow(answer) == expected


def body(**more: Any) -> Json:
    return {"model": "m", "messages": [{"role": "user", "content": "word " * 5_000}], **more}


@pytest.mark.parametrize("reason", ["stop", "length", None])
def test_an_empty_answer_to_a_full_window_is_an_overflow(reason: str | None) -> None:
    full, small = ContextWindow("m", limits=4_096), ContextWindow("m", limits=100_000)
    for count in (0, 1):
        answer = chat(reason, "", (4_096 - count, count))
        assert full.record_overflow(answer) == GUESS
        assert full.record_overflow(chat(reason, "", (2_050, count)), body()) == GUESS
        expected = GUESS if reason == "length" else None
        assert small.record_overflow(answer, body()) == expected
    assert full.record_overflow(chat(reason, "yes", (4_095, 1)), body()) is None


def test_who_asked_for_no_more_got_it() -> None:
    window = ContextWindow("m", limits=100_000)
    for asked in ({"max_tokens": 1}, {"max_tokens": 0}, {"max_completion_tokens": 1}):
        assert window.record_overflow(chat("length", "", (5_000, 1)), body(**asked)) is None
    assert window.record_overflow(chat("length", "", (5_000, 1)), body(max_tokens=9)) == GUESS
