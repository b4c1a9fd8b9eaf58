"""pydantic-ai's agents with our counts; its real model of OpenAI asks a local provider."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

import upstream
from tokenctx import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from upstream import Upstream

pydantic_ai = pytest.importorskip("pydantic_ai", reason="the extra clients: dev.py clients")

pytestmark = pytest.mark.filterwarnings("ignore")  # pydantic-ai's own

PRIVATE = "What does weather say of a private place?"
TURNS = [
    "What does weather say of Oslo?",
    "Why is the sky blue?",
    "And what does weather say of Bergen, where it rains more often than not?",
]
INSTRUCTIONS = "You know the weather of every city of the world, and you say it in few words."


@pytest.fixture(scope="module")
def provider() -> Iterator[Upstream]:
    with upstream.running() as running:
        yield running


@pytest.fixture
def model(provider: Upstream) -> Any:
    import openai
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider.bodies.clear()
    client = openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="none")
    service = OpenAIProvider(openai_client=client)
    return OpenAIChatModel("gpt-4o", provider=service)


def run(model: Any, work: Any) -> Any:
    """What `work` gives, in a loop of its own, with the model's connections closed in it."""

    async def closing() -> Any:
        try:
            return await work
        finally:
            await model.client.close()

    return asyncio.run(closing())


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


@pytest.mark.slow
@pytest.mark.parametrize("prompt", ["instructions", "system_prompt"])
@pytest.mark.parametrize("is_stream", [False, True])
def test_an_agent_of_several_turns_is_known_from_its_second_request_on(
    provider: Upstream, model: Any, prompt: str, *, is_stream: bool
) -> None:
    from tokenctx.integrations.pydantic_ai import TokenRecorder

    estimates: list[Any] = []
    recorder = TokenRecorder(tenant="acme", on_estimate=estimates.append)
    options: dict[str, Any] = {prompt: INSTRUCTIONS}
    agent = pydantic_ai.Agent(model, tools=[weather], capabilities=[recorder], **options)

    async def talk() -> None:
        history: list[Any] = []
        for turn in TURNS:
            if is_stream:
                async with agent.run_stream(turn, message_history=history) as run:
                    await run.get_output()
                history = run.all_messages()
            else:
                history = (await agent.run(turn, message_history=history)).all_messages()

    run(model, talk())
    assert recorder.failures == 0
    assert [estimate.source for estimate in estimates] == ["estimated"] + ["delta"] * 4
    first, *later = zip(estimates, provider.bills, provider.bodies, strict=True)
    assert first[0].tokens == first[1] - upstream.hidden_tokens(first[2])
    for estimate, billed, body in later:
        assert str(body).count(INSTRUCTIONS) == 1
        assert estimate.known_tokens > 200
        assert abs(estimate.tokens - billed) <= 12, "a call is billed flat"


def test_limits_are_checked_before_a_request_is_sent(provider: Upstream, model: Any) -> None:
    from pydantic_ai import UsageLimitExceeded, UsageLimits

    from tokenctx.integrations.pydantic_ai import CountingModel, TokenRecorder

    estimator = HybridTokenEstimator()
    agent = pydantic_ai.Agent(
        CountingModel(model, estimator),
        tools=[weather],
        instructions=INSTRUCTIONS,
        capabilities=[TokenRecorder(estimator)],
    )

    async def talk() -> None:
        history = (await agent.run("Why is the sky blue?")).all_messages()
        (sent,) = provider.bodies
        whole = upstream.COUNTER.count_request(sent).tokens
        limits = UsageLimits(count_tokens_before_request=True, input_tokens_limit=whole + 150)
        with pytest.raises(UsageLimitExceeded, match=str(limits.input_tokens_limit)):
            await agent.run("And red?", message_history=history, usage_limits=limits)
        assert len(provider.bodies) == 1, "what was billed is known, and is beyond the limit"
        enough = UsageLimits(count_tokens_before_request=True, input_tokens_limit=5_000)
        await agent.run("And red?", message_history=history, usage_limits=enough)
        assert len(provider.bodies) == 2

    run(model, talk())


def test_a_plain_count_is_of_what_is_sent(provider: Upstream, model: Any) -> None:
    from pydantic import BaseModel
    from pydantic_ai import NativeOutput, UsageLimitExceeded, UsageLimits

    from tokenctx.integrations.pydantic_ai import CountingModel

    class Weather(BaseModel):
        """What the weather is like."""

        temperature_celsius: float
        description: str

    async def counted(output: Any) -> int:
        agent = pydantic_ai.Agent(CountingModel(model), output_type=output)
        limits = UsageLimits(count_tokens_before_request=True, input_tokens_limit=1)
        with pytest.raises(UsageLimitExceeded) as caught:
            await agent.run("Hello there", usage_limits=limits)
        return max(map(int, re.findall(r"tokens=(\d+)", str(caught.value))))

    async def sizes() -> list[int]:
        return [await counted(output) for output in (str, Weather, NativeOutput(Weather))]

    text, tool, schema = run(model, sizes())
    assert text < tool
    assert text < schema
    assert provider.bodies == []


class Broken(HybridTokenEstimator):
    """An estimator whose every answer is an error that quotes the request."""

    async def aestimate(self, body: object, *_: Any, **__: Any) -> Any:
        raise RuntimeError(PRIVATE, body)

    async def arecord_event(self, body: object, usage: object, **_: Any) -> Any:
        raise RuntimeError(PRIVATE, body, usage)


def test_a_fault_of_ours_breaks_no_agent(model: Any, caplog: pytest.LogCaptureFixture) -> None:
    from tokenctx.integrations.pydantic_ai import TokenRecorder

    recorder = TokenRecorder(Broken(), on_estimate=lambda _: None)
    agent = pydantic_ai.Agent(model, tools=[weather], capabilities=[recorder])
    assert "scatters" in run(model, agent.run(PRIVATE)).output
    assert recorder.failures == 4
    ours = [record.getMessage() for record in caplog.records if record.name == "tokenctx"]
    assert ours == ["tokenctx's capability of pydantic-ai raised RuntimeError"]
