"""What a framework counted for itself, or added up, is marked, so that it is not recorded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator
from tokenctx.integrations._provenance import told

FUNCTION = {"name": "look", "description": "It looks. " * 40, "parameters": {"type": "object"}}
BODY: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Look at the river. " * 50}],
    "tools": [{"type": "function", "function": FUNCTION}],
}


def model_of(module: str) -> object:
    return type("Model", (), {"__module__": module})()


def refused(usage: object, model: object) -> str | None:
    """The reason why the usage is not recorded; None if it is."""
    estimator = HybridTokenEstimator()
    call: dict[str, Any] = {"body": BODY, "model": "gpt-4o"}
    event: Any = estimator.record_event(usage=told(usage, model, call, estimator) or usage, **call)
    return None if event else str(event.reason)


def counted(*, has_tools: bool) -> int:
    body = BODY if has_tools else {"messages": BODY["messages"]}
    return HybridTokenEstimator().count_request(body, model="gpt-4o").tokens


@pytest.mark.parametrize("module", ["pydantic_ai.models.test", "pydantic_ai.models.function"])
def test_a_model_that_no_provider_answers_counts_for_itself(module: str) -> None:
    usage = {"input_tokens": counted(has_tools=True), "output_tokens": 3}
    assert refused(usage, model_of(module)) == "not_of_provider"
    assert refused(usage, SimpleNamespace(wrapped=model_of(module))) == "not_of_provider"
    assert refused(usage, model_of("pydantic_ai.models.openai")) is None


def test_what_litellm_counts_without_tools_is_its_own() -> None:
    model = model_of("strands.models.litellm")
    plain = {"prompt_tokens": counted(has_tools=False), "completion_tokens": 3}
    assert refused(plain, model) == "not_of_provider"
    assert refused({**plain, "prompt_tokens_details": {"cached_tokens": 9}}, model) is None
    assert refused({**plain, "prompt_tokens": counted(has_tools=True)}, model) is None
    assert refused(plain, model_of("strands.models.openai")) is None


def test_calls_that_were_added_up_are_no_bill() -> None:
    numbers = {"input_tokens": counted(has_tools=True), "output_tokens": 3, "total_tokens": None}
    for requests, reason in ((2, "not_of_provider"), (1, None)):
        usage = SimpleNamespace(requests=requests, **numbers)
        assert refused(usage, model_of("agents.models.openai_responses")) == reason


@pytest.mark.parametrize(
    ("kind", "has_tools", "recorded"),
    [("litellm_llm", False, 0), ("litellm_llm", True, 1), ("openai_llm", False, 1)],
)
def test_what_litellm_counts_for_llama_index_is_its_own(
    kind: str, recorded: int, *, has_tools: bool
) -> None:
    pytest.importorskip("llama_index.core", reason="the extra proxy: dev.py clients")
    from llama_index.core.base.llms.types import ChatMessage, ChatResponse
    from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMChatStartEvent

    from tokenctx.integrations.llama_index import TokenRecorder

    recorder = TokenRecorder()
    messages = [ChatMessage(role="user", content=BODY["messages"][0]["content"])]
    told_of = {"class_name": kind, "model": "gpt-4o"}
    more = {"tools": BODY["tools"]}
    recorder.handle(
        LLMChatStartEvent(
            messages=messages, additional_kwargs=more, model_dict=told_of, span_id="1"
        )
    )
    usage = {"prompt_tokens": counted(has_tools=has_tools), "completion_tokens": 3}
    answer = ChatMessage(role="assistant", content="Yes.")
    response = ChatResponse(message=answer, raw={"usage": usage})
    recorder.handle(LLMChatEndEvent(messages=messages, response=response, span_id="1"))
    assert recorder.failures == 0
    assert recorder.estimator.stats()["recorded"] == recorded
