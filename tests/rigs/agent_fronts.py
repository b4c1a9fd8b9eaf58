"""Agents of frameworks under a budget, in front of the provider of `way_round`.

A front makes one request of a model, or, with `tool`, as many as the model asks for by calling it;
`leaves` is after how many parts of a stream its reader goes. The clients below retry nothing; each
front says what is raised by its framework, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import HybridTokenEstimator
from tokenctx.money.budgets import BudgetError
from way_round import MANY, PATIENCE, SECONDS, TEXT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from way_round import Books

TENANT = "acme"
PROMPT = TEXT * 20


def look(at: str) -> str:
    """Look at something."""
    return f"{len(at)} letters of {TEXT * 10}"


class Front:
    """One model of a framework, asked again and again; each request has a loop of its own."""

    def __init__(
        self,
        url: str,
        books: Books,
        estimator: Any = None,
        *,
        tries_again: bool = False,
        tool: Any = None,
    ) -> None:
        self.url, self.books, self.estimator = f"{url}/v1", books, estimator
        self.tries_again = tries_again
        self.tool = tool

    def ask(
        self, *, is_stream: bool = False, leaves: int | None = None, choices: int = 1
    ) -> BaseException | None:
        """What a request has raised; None if it came through."""
        asked = self.asked(is_stream=is_stream, leaves=leaves, choices=choices)
        try:
            asyncio.run(asyncio.wait_for(asked, 2 * SECONDS))
        except Exception as error:
            return error
        return None

    async def asked(self, *, is_stream: bool, leaves: int | None, choices: int) -> None:
        """Ask once."""
        raise NotImplementedError

    @contextlib.asynccontextmanager
    async def client(self, leaves: int | None) -> AsyncIterator[Any]:
        """A client of OpenAI that retries nothing."""
        openai = pytest.importorskip("openai")
        late = PATIENCE if leaves == 0 else SECONDS
        made = openai.AsyncOpenAI(base_url=self.url, api_key="none", max_retries=0, timeout=late)
        async with made as client:
            yield client


async def read(events: Any, leaves: int | None) -> None:
    """Read a stream, and leave it after so many events; of none one waits for the first."""
    nth = 0
    async for _ in events:
        nth += 1
        if leaves and nth >= leaves:
            return


class OpenaiAgents(Front):
    """`BudgetedModel` of openai-agents, asked as its runner does."""

    async def asked(self, *, is_stream: bool, leaves: int | None, choices: int) -> None:
        agents = pytest.importorskip("agents", reason="the extra clients: dev.py clients")
        from tokenctx.integrations.openai_agents import BudgetedModel

        agents.set_tracing_disabled(disabled=True)
        async with self.client(leaves) as client:
            inner = agents.OpenAIChatCompletionsModel("gpt-4o", openai_client=client)
            model = BudgetedModel(inner, self.books.budgets, self.estimator, tenant=TENANT)
            more = {"extra_args": {"n": choices}} if choices > 1 else {}
            if self.tries_again:
                again = agents.retry_policies.http_status([429, 500, 503, 504])
                backoff = {"initial_delay": 0.0}
                more["retry"] = agents.ModelRetrySettings(
                    max_retries=3, policy=again, backoff=backoff
                )
            settings = agents.ModelSettings(max_tokens=MANY, include_usage=True, **more)
            tools = [agents.function_tool(self.tool)] if self.tool else []
            agent = agents.Agent(name="A", model=model, model_settings=settings, tools=tools)
            if not is_stream:
                await agents.Runner.run(agent, PROMPT)
                return
            run = agents.Runner.run_streamed(agent, PROMPT)
            try:
                await read(run.stream_events(), leaves + 3 if leaves else None)
            finally:
                run.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await run._run_impl_task


class PydanticAi(Front):
    """`BudgetedModel` of pydantic-ai in an agent."""

    async def asked(self, *, is_stream: bool, leaves: int | None, choices: int) -> None:
        pydantic_ai = pytest.importorskip("pydantic_ai")
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        from tokenctx.integrations.pydantic_ai import BudgetedModel

        async with self.client(leaves) as client:
            inner = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=client))
            model = BudgetedModel(inner, self.books.budgets, self.estimator, tenant=TENANT)
            more = {"extra_body": {"n": choices}} if choices > 1 else {}
            settings = {"max_tokens": MANY, **more}
            if self.tries_again:
                from pydantic_ai.models.fallback import FallbackModel

                model = FallbackModel(model, *[model] * 3)
            tools = [self.tool] if self.tool else []
            agent = pydantic_ai.Agent(model, model_settings=settings, retries=0, tools=tools)
            if not is_stream:
                await agent.run(PROMPT)
                return
            async with agent.run_stream(PROMPT) as run:
                await read(run.stream_text(delta=True, debounce_by=None), leaves)


class LangChain(Front):
    """`TokenMiddleware` of an agent of LangChain."""

    async def asked(self, *, is_stream: bool, leaves: int | None, choices: int) -> None:
        agents = pytest.importorskip("langchain.agents", reason="dev.py clients")
        openai = pytest.importorskip("langchain_openai", reason="dev.py clients")
        from langchain.agents.middleware import ModelRetryMiddleware

        from tokenctx.integrations.langchain import TokenMiddleware

        async with self.client(leaves) as client:
            where = {"async_client": client.chat.completions, "root_async_client": client}
            model = openai.ChatOpenAI(
                model="gpt-4o",
                api_key="none",
                base_url=self.url,
                max_tokens=MANY,
                n=choices if choices > 1 else None,
                stream_usage=True,
                max_retries=0,
                timeout=PATIENCE if leaves == 0 else SECONDS,
                **where,
            )
            own = TokenMiddleware(self.estimator, tenant=TENANT, budgets=self.books.budgets)
            tries: Any = {"retry_on": lambda it: not is_refusal(it), "on_failure": "error"}
            before = [ModelRetryMiddleware(max_retries=3, initial_delay=0.0, **tries)]
            agent = agents.create_agent(
                model,
                tools=[self.tool] if self.tool else [],
                middleware=[*(before if self.tries_again else ()), own],
            )
            asked = {"messages": [{"role": "user", "content": PROMPT}]}
            if not is_stream:
                await agent.ainvoke(asked)
                return
            events = agent.astream(asked, stream_mode="messages")
            try:
                await read(events, leaves)
            finally:
                await events.aclose()


class Strands(Front):
    """`TokenCounts` in a model of strands, whose answers are streams always."""

    async def asked(self, *, is_stream: bool, leaves: int | None, choices: int) -> None:
        strands = pytest.importorskip("strands", reason="the extra clients: dev.py clients")
        from strands.models.openai import OpenAIModel

        from tokenctx.integrations.strands import TokenCounts

        class Counted(TokenCounts, OpenAIModel):  # type: ignore[misc]
            token_budgets, token_tenant = self.books.budgets, TENANT

        late = PATIENCE if leaves == 0 else SECONDS
        where = {"base_url": self.url, "api_key": "none", "max_retries": 0, "timeout": late}
        params = {"max_tokens": MANY, **({"n": choices} if choices > 1 else {})}
        model = Counted(client_args=where, model_id="gpt-4o", params=params, stream=is_stream)
        if self.estimator is not None:
            model.token_estimator = self.estimator
        again = strands.ModelRetryStrategy(max_attempts=4, initial_delay=0.01)
        agent = strands.Agent(
            model=model,
            tools=[strands.tool(self.tool)] if self.tool else [],
            callback_handler=None,
            retry_strategy=again if self.tries_again else None,
        )
        events = agent.stream_async(PROMPT)
        try:
            await read(events, leaves + 6 if leaves else None)
        finally:
            await events.aclose()


class LlamaIndex(Front):
    """A model of llama-index that has a client of ours, which sees each request of its own."""

    async def asked(self, *, is_stream: bool, leaves: int | None, choices: int) -> None:
        openai = pytest.importorskip("llama_index.llms.openai", reason="dev.py clients")
        from llama_index.core.agent.workflow import FunctionAgent
        from llama_index.core.llms import ChatMessage

        from tokenctx.gateway import Gateway
        from tokenctx.gateway.httpx import async_client

        estimator = self.estimator or HybridTokenEstimator()
        gateway = Gateway(estimator, budgets=self.books.budgets)
        more = {"n": choices} if choices > 1 else {}
        async with async_client(gateway, tenant=TENANT, refuse=True) as client:
            model = openai.OpenAI(
                model="gpt-4o",
                api_key="none",
                api_base=self.url,
                max_tokens=MANY,
                max_retries=3 if self.tries_again else 0,
                timeout=PATIENCE if leaves == 0 else SECONDS,
                async_http_client=client,
                additional_kwargs=more,
            )
            if self.tool:
                agent = FunctionAgent(llm=model, tools=[self.tool], streaming=False)
                await agent.run(PROMPT)
                return
            asked = [ChatMessage(role="user", content=PROMPT)]
            if not is_stream:
                await model.achat(asked)
                return
            events = await model.astream_chat(asked)
            try:
                await read(events, leaves)
            finally:
                await events.aclose()


FRONTS: dict[str, type[Front]] = {
    "openai-agents": OpenaiAgents,
    "pydantic-ai": PydanticAi,
    "LangChain": LangChain,
    "strands": Strands,
    "llama-index": LlamaIndex,
}


def is_refusal(error: BaseException | None) -> bool:
    """True if a budget has refused; frameworks wrap what a model raises.

    A client of ours answers as the provider would.
    """
    while error is not None:
        call = getattr(getattr(error, "response", None), "extensions", {}).get("tokenctx")
        if isinstance(error, BudgetError) or (call is not None and call.refusal is not None):
            return True
        error = error.__cause__ or error.__context__
    return False
