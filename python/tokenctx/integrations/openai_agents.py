"""openai-agents: hooks that record what was billed, and a filter that trims the input to fit."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from agents import Agent, AgentOutputSchema, AgentOutputSchemaBase, RunHooks, handoff
from agents.models.default_models import get_default_model
from agents.models.openai_responses import Converter
from agents.run import ModelInputData

from tokenctx import ContextWindow, HybridTokenEstimator
from tokenctx.integrations._provenance import told

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenctx import Estimate

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
        self.estimator = HybridTokenEstimator() if estimator is None else estimator
        self.failures = 0
        self._model = model
        self._tenant = tenant
        self._on_estimate = on_estimate
        self._open: OrderedDict[tuple[int, int], Json] = OrderedDict()

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: list[Any]
    ) -> None:
        """Estimate the call, and keep it until it ends."""
        try:
            body = body_of(agent, system_prompt, input_items)
            tenant = self._tenant(context) if callable(self._tenant) else self._tenant
            call: Json = {"body": body, "model": self._model or model_name(agent), "tenant": tenant}
            self._open[id(context), id(agent)] = call
            while len(self._open) > MAX_OPEN_CALLS:
                self._open.popitem(last=False)
            if self._on_estimate is not None:
                self._on_estimate(await self.estimator.aestimate(**call))
        except Exception as error:  # nothing of ours fails a run
            self._failed(error)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Record the call."""
        try:
            call = self._open.pop((id(context), id(agent)), None)
            if call is not None:
                output = [item.model_dump(exclude_none=True) for item in response.output]
                reply = {"object": "response", "output": output}
                last = last_entry(response.usage)
                usage = told(last, agent.model, call, self.estimator) or last
                await self.estimator.arecord(usage=usage, reply=reply, **call)
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:  # the class alone: what it says may hold text of a request
            LOG.warning("tokenctx's hooks of openai-agents raised %s", type(error).__name__)


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
    body: Json = {
        "input": list(items),
        "tools": list(Converter.convert_tools(agent.tools, handoffs).tools),
    }
    if instructions:
        body["instructions"] = instructions
    output = agent.output_type
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
