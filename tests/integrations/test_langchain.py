"""LangChain's agents and trimmers with our counts; a real chat model asks a local provider."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import upstream
from tokenctx import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from upstream import Upstream

agents = pytest.importorskip("langchain.agents", reason="the extra clients: dev.py clients")
pytest.importorskip("langchain_openai", reason="the extra clients: dev.py clients")

pytestmark = pytest.mark.filterwarnings("ignore")  # LangChain's own

PRIVATE = "What does weather say of a private place?"
TURNS = [
    "What does weather say of Oslo?",
    "Why is the sky blue?",
    "And what does weather say of Bergen, where it rains more often than not?",
]


@pytest.fixture(scope="module")
def provider() -> Iterator[Upstream]:
    with upstream.running() as running:
        yield running


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def chat_model(provider: Upstream, name: str = "gpt-4o") -> Any:
    import openai
    from langchain_openai import ChatOpenAI

    own = openai.DefaultAsyncHttpxClient()  # that of LangChain is one for all loops
    where = {"base_url": f"{provider.url}/v1", "api_key": "none"}
    return ChatOpenAI(model=name, http_async_client=own, **where)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_agent_of_several_turns_is_known_from_its_second_call_on(
    provider: Upstream, *, is_async: bool
) -> None:
    from tokenctx.integrations.langchain import TokenMiddleware

    provider.bodies.clear()
    estimates: list[Any] = []
    middleware = TokenMiddleware(tenant="acme", on_estimate=estimates.append)
    model = chat_model(provider)
    agent = agents.create_agent(
        model,
        tools=[weather],
        system_prompt="You know the weather.",
        middleware=[middleware],
    )

    async def talk() -> list[Any]:
        messages: list[Any] = []
        for turn in TURNS:
            asked = {"messages": [*messages, {"role": "user", "content": turn}]}
            state = await agent.ainvoke(asked) if is_async else agent.invoke(asked)
            messages = state["messages"]
        await model.root_async_client.close()
        return messages

    messages = asyncio.run(talk())
    assert [estimate.source for estimate in estimates] == ["estimated"] + ["delta"] * 4
    first, *later = zip(estimates, provider.bills, provider.bodies, strict=True)
    assert first[0].tokens == first[1] - upstream.hidden_tokens(first[2])
    for estimate, billed, body in later:
        assert "You know the weather." in str(body)
        assert estimate.known_tokens > 200
        assert abs(estimate.tokens - billed) <= 12, "a call is billed flat"
    assert middleware.failures == 0
    last = {"messages": messages[:-1], "model": "gpt-4o"}
    assert middleware.estimator.estimate(last, tenant="other").known_tokens == 0


def test_a_counter_knows_system_prompt_and_tools() -> None:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, trim_messages
    from langchain_core.tools import tool

    from tokenctx.integrations.langchain import token_counter

    messages: list[Any] = [
        SystemMessage("You know the weather."),
        HumanMessage("word " * 50),
        AIMessage("It rains."),
        HumanMessage("And in Bergen?"),
    ]
    alone = token_counter("gpt-4o")
    whole = token_counter("gpt-4o", system="Be brief.", tools=[tool(weather)])
    plain = [
        {"role": "system", "content": "You know the weather."},
        {"role": "user", "content": "word " * 50},
        {"role": "assistant", "content": "It rains."},
        {"role": "user", "content": "And in Bergen?"},
    ]
    counted = HybridTokenEstimator().count_request({"model": "gpt-4o", "messages": plain})
    assert alone(messages) == counted.tokens
    assert whole(messages) > alone(messages) + 30
    assert alone([]) == 0
    assert alone([("user", "hi"), "hi"]) == alone([HumanMessage("hi")] * 2)
    kept = trim_messages(
        messages, max_tokens=30, token_counter=alone, strategy="last", include_system=True
    )
    assert [message.type for message in kept] == ["system", "ai", "human"]
    assert alone(kept) <= 30 < alone(messages)
    assert alone(messages[:2]) <= 70
    first = trim_messages(messages, max_tokens=70, token_counter=alone, strategy="first")
    assert len(first) == 2


def test_middleware_that_summarizes_and_clears_counts_with_ours(provider: Upstream) -> None:
    """Its thresholds are crossed by what was billed, which plain counts do not reach."""
    from langchain.agents import middleware

    from tokenctx.integrations.langchain import TokenMiddleware, token_counter

    estimator = HybridTokenEstimator()
    counter = token_counter("gpt-4o", estimator, system="Be brief.", tools=[weather_tool()])
    clear = middleware.ClearToolUsesEdit(trigger=250, keep=0)
    agent = agents.create_agent(
        chat_model(provider),
        tools=[weather_tool()],
        system_prompt="Be brief.",
        middleware=[
            middleware.SummarizationMiddleware(
                chat_model(provider), trigger=("tokens", 5_000), token_counter=counter
            ),
            middleware.ContextEditingMiddleware(edits=[clear], token_counter=counter),
            TokenMiddleware(estimator),
        ],
    )
    provider.bodies.clear()
    agent.invoke({"messages": [{"role": "user", "content": TURNS[0]}]})
    counted = HybridTokenEstimator().count_request(provider.bodies[-1]).tokens
    assert counted < clear.trigger < counter(provider.bodies[0]["messages"][1:])
    results = [it["content"] for it in provider.bodies[-1]["messages"] if it["role"] == "tool"]
    assert results == ["[cleared]"]


def weather_tool() -> Any:
    from langchain_core.tools import tool

    return tool(weather)


class Broken(HybridTokenEstimator):
    """An estimator whose every answer is an error that quotes the request."""

    def estimate(self, body: object = None, *_: Any, **__: Any) -> Any:
        raise RuntimeError(PRIVATE, body)

    def record_event(self, body: object, usage: object, **_: Any) -> Any:
        raise RuntimeError(PRIVATE, body, usage)


def test_a_fault_of_ours_breaks_no_agent(
    provider: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    from tokenctx.integrations.langchain import TokenMiddleware

    middleware = TokenMiddleware(Broken())
    agent = agents.create_agent(chat_model(provider), tools=[weather], middleware=[middleware])
    state = agent.invoke({"messages": [{"role": "user", "content": PRIVATE}]})
    assert "scatters" in state["messages"][-1].content
    assert middleware.failures == 4
    ours = [record.getMessage() for record in caplog.records if record.name == "tokenctx"]
    assert ours == ["tokenctx's middleware for LangChain raised RuntimeError"]


def test_an_output_schema_of_the_provider_counts(provider: Upstream) -> None:
    from langchain.agents.structured_output import (
        ProviderStrategy,
        StructuredOutputValidationError,
    )
    from pydantic import BaseModel

    from tokenctx.integrations.langchain import TokenMiddleware

    class Weather(BaseModel):
        """What the weather is like."""

        temperature_celsius: float
        description: str

    estimates: list[Any] = []
    for schema in (None, ProviderStrategy(Weather)):
        agent = agents.create_agent(
            chat_model(provider),
            response_format=schema,
            middleware=[TokenMiddleware(on_estimate=estimates.append)],
        )
        with suppress(StructuredOutputValidationError):  # the local provider answers with no JSON
            agent.invoke({"messages": [{"role": "user", "content": "Hello there"}]})
    assert estimates[1].tokens > estimates[0].tokens + 20
