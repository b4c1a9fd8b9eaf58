"""openai-agents, strands, llama-index and haystack with our counts; a local provider answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import upstream
from tokenctx import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from upstream import Upstream

pytestmark = pytest.mark.filterwarnings("ignore")  # the frameworks' own

PRIVATE = "What does weather say of a private place?"
TURNS = [
    "What does weather say of Oslo?",
    "Why is the sky blue?",
    "And what does weather say of Bergen, where it rains more often than not?",
]
PROMPT = "You know the weather of every city of the world, and you say it in few words."


@pytest.fixture(scope="module")
def provider() -> Iterator[Upstream]:
    with upstream.running() as running:
        yield running


@pytest.fixture(autouse=True)
def _fresh(provider: Upstream) -> None:
    provider.bodies.clear()


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


class Broken(HybridTokenEstimator):
    """An estimator whose every answer is an error that quotes the request."""

    def estimate(self, body: object = None, *_: Any, **__: Any) -> Any:
        raise RuntimeError(PRIVATE, body)

    def record_event(self, body: object, usage: object, **_: Any) -> Any:
        raise RuntimeError(PRIVATE, body, usage)

    def record(self, body: object, usage: object, **_: Any) -> Any:
        raise RuntimeError(PRIVATE, body, usage)

    async def aestimate(self, body: object, *_: Any, **__: Any) -> Any:
        raise RuntimeError(PRIVATE, body)

    async def arecord_event(self, body: object, usage: object, **_: Any) -> Any:
        raise RuntimeError(PRIVATE, body, usage)


def assert_deltas(estimates: list[Any], provider: Upstream, slack: int = 0) -> None:
    """The first is a plain count, and each later one begins with what was billed."""
    assert [estimate.source for estimate in estimates] == ["estimated"] + ["delta"] * 4
    first, *later = zip(estimates, provider.bills, provider.bodies, strict=True)
    plain = first[1] - upstream.hidden_tokens(first[2])
    assert abs(first[0].tokens - plain) <= slack
    for estimate, billed, body in later:
        assert PROMPT in str(body)
        assert estimate.known_tokens > 200
        # A call is billed flat here, and counted where its bill is near: two calls are some 30 off.
        assert abs(estimate.tokens - billed) <= 40


# ------------------------------------------------------------------ openai-agents


@pytest.fixture
def agent_of(provider: Upstream) -> Any:
    agents = pytest.importorskip("agents", reason="the extra clients: dev.py clients")
    import openai

    agents.set_tracing_disabled(disabled=True)

    def made(client: Any, api: str, **options: Any) -> Any:
        model = agents.OpenAIResponsesModel if api == "responses" else None
        kind = model or agents.OpenAIChatCompletionsModel
        tools = [agents.function_tool(weather)]
        answers = kind("gpt-4o", openai_client=client)
        given = {"name": "Weather", "instructions": PROMPT, "tools": tools, "model": answers}
        return agents.Agent(**{**given, **options})

    def run(api: str, work: Any, **options: Any) -> Any:
        async def closing() -> Any:
            address = f"{provider.url}/v1"
            async with openai.AsyncOpenAI(base_url=address, api_key="none") as client:
                return await work(made(client, api, **options))

        return asyncio.run(closing())

    return run


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_run_of_several_turns_is_known_from_its_second_call_on(
    provider: Upstream, agent_of: Any, api: str, *, is_stream: bool
) -> None:
    import agents

    from tokenctx.integrations.openai_agents import TokenHooks

    estimates: list[Any] = []
    hooks = TokenHooks(tenant=lambda context: context.context, on_estimate=estimates.append)

    async def talk(agent: Any) -> None:
        items: list[Any] = []
        for turn in TURNS:
            asked = [*items, {"role": "user", "content": turn}]
            if is_stream:
                run: Any = agents.Runner.run_streamed(agent, asked, hooks=hooks, context="acme")
                async for _ in run.stream_events():
                    pass
            else:
                run = await agents.Runner.run(agent, asked, hooks=hooks, context="acme")
            items = run.to_input_list()

    settings = agents.ModelSettings(include_usage=True)  # else streams of chat have none
    agent_of(api, talk, model_settings=settings)
    assert hooks.failures == 0
    # Tools are read as Responses has them: in chat they are a token or two longer.
    assert_deltas(estimates, provider, slack=2 if api == "chat" else 0)
    seen = hooks.estimator.estimate({**provider.bodies[-1]}, model="gpt-4o", tenant="other")
    assert seen.known_tokens == 0


def test_input_is_trimmed_to_a_budget_without_parting_a_call(
    provider: Upstream, agent_of: Any
) -> None:
    import agents

    from tokenctx.integrations.openai_agents import trim_filter

    budget = 260
    old = {"role": "user", "content": "word " * 300}
    reply = {"role": "assistant", "content": "It rains."}
    config = agents.RunConfig(call_model_input_filter=trim_filter(budget=budget))

    async def talk(agent: Any) -> None:
        asked: list[Any] = [old, reply, {"role": "user", "content": TURNS[0]}]
        await agents.Runner.run(agent, asked, run_config=config)

    agent_of("responses", talk)
    assert len(provider.bodies) == 2
    for body in provider.bodies:
        assert "word word" not in str(body["input"])
        assert TURNS[0] in str(body["input"])
        assert upstream.COUNTER.count_request(body).tokens <= budget
    kinds = [item.get("type") for item in provider.bodies[1]["input"]]
    assert kinds[-2:] == ["function_call", "function_call_output"]


def test_an_output_schema_and_handoffs_count(provider: Upstream, agent_of: Any) -> None:
    import agents
    from pydantic import BaseModel

    from tokenctx.integrations.openai_agents import TokenHooks

    class Weather(BaseModel):
        """What the weather is like."""

        temperature_celsius: float
        description: str

    estimates: list[Any] = []
    hooks = TokenHooks(on_estimate=estimates.append)

    async def ask(agent: Any) -> None:
        await agents.Runner.run(agent, "Hello there", hooks=hooks)

    other = agents.Agent(name="Other", handoff_description="Knows what others do not.")
    agent_of("responses", ask, handoffs=[other])
    assert estimates[-1].tokens == upstream.COUNTER.count_request(provider.bodies[-1]).tokens
    with pytest.raises(agents.ModelBehaviorError):  # the local provider answers with no JSON
        agent_of("responses", ask, output_type=Weather)
    assert estimates[-1].tokens == upstream.COUNTER.count_request(provider.bodies[-1]).tokens
    assert hooks.failures == 0


def test_a_fault_of_ours_breaks_no_run(agent_of: Any, caplog: pytest.LogCaptureFixture) -> None:
    import agents

    from tokenctx.integrations.openai_agents import TokenHooks, trim_filter

    hooks = TokenHooks(Broken(), on_estimate=lambda _: None)
    config = agents.RunConfig(call_model_input_filter=trim_filter(Broken(), model=""))

    async def talk(agent: Any) -> Any:
        return await agents.Runner.run(agent, PRIVATE, hooks=hooks, run_config=config)

    assert "scatters" in agent_of("responses", talk).final_output
    assert hooks.failures == 4
    ours = [record.getMessage() for record in caplog.records if record.name == "tokenctx"]
    assert ours.count("tokenctx's hooks of openai-agents raised RuntimeError") == 1
    assert PRIVATE not in " ".join(ours)


# ------------------------------------------------------------------ strands


def test_an_agent_of_strands_is_known_from_its_second_call_on(provider: Upstream) -> None:
    strands = pytest.importorskip("strands", reason="the extra clients: dev.py clients")
    from strands.models.openai import OpenAIModel

    from tokenctx.integrations.strands import TokenCounts

    counts: list[tuple[int, int]] = []

    class Counted(TokenCounts, OpenAIModel):  # type: ignore[misc]
        async def stream(self, messages: Any, *given: Any, **options: Any) -> Any:
            tools, system = given
            counted = await self.count_tokens(messages, tools, system)
            async for event in super().stream(messages, *given, **options):
                yield event
            counts.append((counted, provider.bills[-1]))

    where = {"base_url": f"{provider.url}/v1", "api_key": "none"}
    model = Counted(client_args=where, model_id="gpt-4o")
    tool = strands.tool(weather)
    agent = strands.Agent(model=model, tools=[tool], system_prompt=PROMPT, callback_handler=None)
    for turn in TURNS:
        agent(turn)
    first, *later = counts
    assert first[0] == first[1] - upstream.hidden_tokens(provider.bodies[0])
    assert len(later) == 4
    assert all(abs(counted - billed) <= 14 for counted, billed in later), later
    assert model.token_estimator.stats()["recorded"] == 5


def test_strands_counts_where_ours_cannot() -> None:
    pytest.importorskip("strands", reason="the extra clients: dev.py clients")
    from strands.models.openai import OpenAIModel

    from tokenctx.integrations.strands import TokenCounts

    class Counted(TokenCounts, OpenAIModel):  # type: ignore[misc]
        token_estimator = Broken()

    messages = [{"role": "user", "content": [{"text": "word " * 40}]}]
    own, ours = OpenAIModel(model_id="gpt-4o"), Counted(model_id="gpt-4o")
    assert asyncio.run(ours.count_tokens(messages)) == asyncio.run(own.count_tokens(messages)) > 0


# ------------------------------------------------------------------ haystack


def test_a_counter_of_haystack_is_of_its_protocol() -> None:
    pytest.importorskip("haystack.token_counters", reason="the extra clients: dev.py clients")
    from haystack.dataclasses import ChatMessage
    from haystack.tools import Tool, Toolset

    from tokenctx.integrations.haystack import TokenctxCounter

    estimator = HybridTokenEstimator()
    counter = TokenctxCounter("claude-sonnet-4-5", estimator)
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tool = Tool("weather", "The weather of a city.", schema, weather)
    messages = [ChatMessage.from_system(PROMPT), ChatMessage.from_user(TURNS[0])]
    plain = [{"role": "system", "content": PROMPT}, {"role": "user", "content": TURNS[0]}]
    body = {"model": "claude-sonnet-4-5", "messages": plain}
    assert counter.count(messages) == estimator.estimate(body).tokens
    with_tools = counter.count(messages, [tool])
    assert counter.count(messages, Toolset([tool])) == with_tools > counter.count(messages)
    assert counter.count([]) == 0
    assert estimator.record(body, 777)
    assert counter.count(messages) == 777
    made = TokenctxCounter.from_dict(counter.to_dict())
    assert made.model == "claude-sonnet-4-5"
    assert made.count(messages, [tool]) == with_tools


def test_haystack_takes_the_counter_in_a_pipeline() -> None:
    pytest.importorskip("haystack.token_counters", reason="the extra clients: dev.py clients")
    from haystack.core.serialization import component_from_dict, component_to_dict

    from tokenctx.integrations.haystack import TokenctxCounter

    counter = TokenctxCounter("gpt-4o")
    data = component_to_dict(counter, "counter")
    made = component_from_dict(TokenctxCounter, data, "counter")
    assert data["type"] == "tokenctx.integrations.haystack.TokenctxCounter"
    assert made.to_dict() == counter.to_dict()


# ------------------------------------------------------------------ llama-index


def llama(provider: Upstream) -> Any:
    pytest.importorskip("llama_index.llms.openai", reason="the extra proxy: dev.py clients")
    from llama_index.llms.openai import OpenAI

    return OpenAI(model="gpt-4o", api_base=f"{provider.url}/v1", api_key="none")


def test_a_chat_of_llama_index_is_known_from_its_second_turn_on(provider: Upstream) -> None:
    model = llama(provider)
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool

    from tokenctx.integrations.llama_index import TokenRecorder

    estimates: list[Any] = []
    recorder = TokenRecorder(on_estimate=estimates.append)
    dispatcher = get_dispatcher()
    dispatcher.add_event_handler(recorder)
    tool = FunctionTool.from_defaults(weather)
    try:
        messages = [ChatMessage(role="system", content=PROMPT)]
        for turn in TURNS:
            messages.append(ChatMessage(role="user", content=turn))
            answer = model.chat_with_tools([tool], chat_history=messages)
            messages.append(answer.message)
            for call in model.get_tool_calls_from_response(answer, error_on_no_tool_call=False):
                given = {"tool_call_id": call.tool_id, "name": call.tool_name}
                result = weather(**call.tool_kwargs)
                messages.append(ChatMessage(role="tool", content=result, additional_kwargs=given))
                messages.append(model.chat_with_tools([tool], chat_history=messages).message)
    finally:
        dispatcher.event_handlers.remove(recorder)
    assert recorder.failures == 0
    assert_deltas(estimates, provider)


def test_a_tokenizer_of_llama_index_counts_as_the_model_does(provider: Upstream) -> None:
    llama(provider)
    from llama_index.core.node_parser import TokenTextSplitter
    from llama_index.core.utilities.token_counting import TokenCounter

    from tokenctx import encoding_for_model
    from tokenctx.integrations.llama_index import tokenizer

    text = "It rains in Bergen. " * 100
    counter = TokenCounter(tokenizer=tokenizer("claude-sonnet-4-5"))
    assert counter.get_string_tokens(text) == encoding_for_model("claude-sonnet-4-5").count(text)
    splitter = TokenTextSplitter(chunk_size=60, chunk_overlap=0, tokenizer=tokenizer("gpt-4o"))
    parts = splitter.split_text(text)
    assert len(parts) > 5
    assert max(len(tokenizer("gpt-4o")(part)) for part in parts) <= 60


def test_a_fault_of_ours_breaks_no_chat(
    provider: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    model = llama(provider)
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.llms import ChatMessage

    from tokenctx.integrations.llama_index import TokenRecorder

    recorder = TokenRecorder(Broken(), on_estimate=lambda _: None)
    dispatcher = get_dispatcher()
    dispatcher.add_event_handler(recorder)
    try:
        answer = model.chat([ChatMessage(role="user", content=PRIVATE)])
    finally:
        dispatcher.event_handlers.remove(recorder)
    assert "scatters" in str(answer.message.content)
    assert recorder.failures == 2
    ours = [record.getMessage() for record in caplog.records if record.name == "tokenctx"]
    assert ours == ["tokenctx's handler of llama-index raised RuntimeError"]
