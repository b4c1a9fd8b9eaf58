"""openai-agents: hooks that record what was billed, and a filter that trims the input to fit."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from agents import Agent, AgentOutputSchema, AgentOutputSchemaBase, RunHooks, handoff
from agents.models.default_models import get_default_model
from agents.models.interface import Model
from agents.models.openai_responses import Converter
from agents.run import ModelInputData

from tokenctx import ContextWindow, HybridTokenEstimator, UsageReader
from tokenctx.integrations._life import Calls, Life
from tokenctx.usage.replies import texts_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tokenctx import Estimate
    from tokenctx.money.budgets import Budgets

Json = dict[str, Any]

LOG: Final = logging.getLogger("tokenctx")
MAX_OPEN_CALLS: Final = 1024
"""Calls that have begun and not ended; failed ones never end, so the oldest go."""


class TokenHooks(RunHooks):  # type: ignore[misc]  # where openai-agents is missing it is Any
    """Hooks of a run, `Runner.run(..., hooks=TokenHooks())`: each call is estimated and recorded.

    `model` is who answers, where the run's configuration says so in place of the agent. Tools of
    MCP servers are not asked for; what they take is known with the first bill. `on_estimate` is
    called with the estimate before each call; `tenant` is whose calls these are, or says so of a
    run's context. What fails in here is logged once, by its class, counted in `failures`, and the
    run goes on.
    """

    def __init__(
        self,
        estimator: HybridTokenEstimator | None = None,
        *,
        model: str | None = None,
        tenant: str | Callable[[Any], str | None] | None = None,
        on_estimate: Callable[[Estimate], None] | None = None,
    ) -> None:
        self._calls = Calls("hooks of openai-agents", estimator, on_estimate)
        self.estimator = self._calls.estimator
        self._model = model
        self._tenant = tenant
        self._open: OrderedDict[tuple[int, int], Life] = OrderedDict()

    @property
    def failures(self) -> int:
        """How often something of ours has failed."""
        return self._calls.failures

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: list[Any]
    ) -> None:
        """Estimate the call, and keep it until it ends."""

        def read() -> Json:
            body = body_of(agent, system_prompt, input_items)
            tenant = self._tenant(context) if callable(self._tenant) else self._tenant
            return {"body": body, "model": self._model or model_name(agent), "tenant": tenant}

        self._open[id(context), id(agent)] = await self._calls.abegin(read)
        while len(self._open) > MAX_OPEN_CALLS:
            self._open.popitem(last=False)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Record the call."""
        life = self._open.pop((id(context), id(agent)), None)
        if life is not None:
            await _ended(self._calls, life, response, agent.model)


class BudgetedModel(Model):  # type: ignore[misc]
    """A model of agents whose calls are reserved in `budgets`, recorded, and booked.

    Without room a call raises BudgetError and is not sent. `Agent(model=BudgetedModel(...))`:
    each attempt of the runner is one of its own; have the client of OpenAI retry nothing
    (`max_retries=0`), or what a lost attempt was billed is seen by nobody. `model` is the name of
    who answers, where the model inside does not say it; `on_estimate` is called with each
    estimate. What fails in here is logged once, by its class, and counted in `failures`.
    """

    def __init__(
        self,
        wrapped: Any,
        budgets: Budgets,
        estimator: HybridTokenEstimator | None = None,
        *,
        model: str | None = None,
        tenant: str | None = None,
        on_estimate: Callable[[Estimate], None] | None = None,
    ) -> None:
        self.wrapped = wrapped
        self.model = model or getattr(wrapped, "model", None) or get_default_model()
        self.tenant = tenant
        self._calls = Calls("model for openai-agents", estimator, on_estimate, budgets)
        self.estimator = self._calls.estimator

    @property
    def failures(self) -> int:
        """How often something of ours has failed."""
        return self._calls.failures

    async def get_response(self, *asked: Any, **options: Any) -> Any:
        """The response of the model inside."""
        life = await self._begun(*asked, **options)
        try:
            response = await self.wrapped.get_response(*asked, **options)
        except BaseException as error:
            life.failed(error)
            raise
        await _ended(self._calls, life, response, self.wrapped)
        return response

    async def stream_response(self, *asked: Any, **options: Any) -> AsyncIterator[Any]:
        """The events of the model inside; of a stream that is left what had come is booked."""
        life = await self._begun(*asked, **options)
        reader, events = UsageReader("openai-responses"), 0
        stream = self.wrapped.stream_response(*asked, **options)
        try:
            async for event in stream:
                reader.feed(event)
                events += 1
                if reader.is_complete:
                    model = reader.model or None
                    await life.aanswered(reader, self.wrapped, answerer=model, texts=reader.texts)
                yield event
        except BaseException as error:
            life.failed(error, reader.texts, events)
            raise
        finally:
            life.failed(None, reader.texts, events)
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()

    async def close(self) -> None:
        """Close the model inside."""
        await self.wrapped.close()

    def get_retry_advice(self, request: Any) -> Any:
        """The advice of the model inside; a refusal is not tried again."""
        return self.wrapped.get_retry_advice(request)

    async def _begun(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002
        model_settings: Any,
        tools: Any,
        output_schema: Any,
        handoffs: Any,
        *_: Any,
        **__: Any,
    ) -> Life:
        def read() -> Json:
            text = [{"role": "user", "content": input}]
            items = text if isinstance(input, str) else input
            body = request_of(system_instructions, items, tools, output_schema, handoffs)
            return {"body": body, "model": self.model, "tenant": self.tenant}

        more = getattr(model_settings, "extra_args", None) or {}
        count = more.get("n", 1)
        choices = count if isinstance(count, int) else 1
        return await self._calls.abegin(read, model_settings.max_tokens, choices)


async def _ended(calls: Calls, life: Life, response: Any, model: Any) -> None:
    """End a call by the answer of a model."""
    try:
        output = [item.model_dump(exclude_none=True) for item in response.output]
    except Exception as error:
        calls.failed(error)
        output = []
    reply = {"object": "response", "output": output}
    await life.aanswered(last_entry(response.usage), model, reply=reply, texts=texts_of(output))


def trim_filter(
    estimator: HybridTokenEstimator | None = None,
    *,
    model: str | None = None,
    budget: int | None = None,
    tenant: str | None = None,
) -> Callable[[Any], ModelInputData]:
    """A `call_model_input_filter` of RunConfig: the oldest items go until the rest fits.

    `budget` is the most input tokens, with instructions and tools; by default what is usable of
    the model's window. A call stays with its result, and the newest message of the user stays.
    Input that cannot be read is sent as it is.
    """
    chosen = HybridTokenEstimator() if estimator is None else estimator

    def trimmed(data: Any) -> ModelInputData:
        sent: ModelInputData = data.model_data
        try:
            body = body_of(data.agent, sent.instructions, sent.input)
            window = ContextWindow(model or model_name(data.agent), estimator=chosen, tenant=tenant)
            plan = window.trim(body, budget)
            kept = plan.applied(sent.input) if plan.dropped else sent.input
        except Exception as error:
            LOG.warning("tokenctx's filter of openai-agents raised %s", type(error).__name__)
            return sent
        return ModelInputData(input=kept, instructions=sent.instructions)

    return trimmed


def last_entry(usage: Any) -> Any:
    """The usage of the last request, where several were added up and each is told, too."""
    entries = getattr(usage, "request_usage_entries", None) or []
    return entries[-1] if getattr(usage, "requests", 1) > 1 and entries else usage


def body_of(agent: Any, instructions: str | None, items: list[Any]) -> Json:
    """The request of Responses that a call of the agent will be."""
    handoffs = [handoff(it) if isinstance(it, Agent) else it for it in agent.handoffs]
    return request_of(instructions, items, agent.tools, agent.output_type, handoffs)


def request_of(
    instructions: str | None, items: list[Any], tools: Any, output: Any, handoffs: list[Any]
) -> Json:
    """The request of Responses of what the runner gives a model."""
    body: Json = {
        "input": list(items),
        "tools": list(Converter.convert_tools(list(tools), handoffs).tools),
    }
    if instructions:
        body["instructions"] = instructions
    if output is not None and output is not str:
        is_schema = isinstance(output, AgentOutputSchemaBase)
        schema = output if is_schema else AgentOutputSchema(output)
        if not schema.is_plain_text():
            made = {"name": "final_output", "schema": schema.json_schema()}
            strict = schema.is_strict_json_schema()
            body["text"] = {"format": {"type": "json_schema", "strict": strict, **made}}
    return body


def model_name(agent: Any) -> str:
    """The name of the agent's model; the default of openai-agents if it says none."""
    model = getattr(agent.model, "model", agent.model)
    return model if isinstance(model, str) else get_default_model()
