"""pydantic-ai: token counts without the network, and a capability that records what was billed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.usage import RequestUsage

from tokenctx import HybridTokenEstimator
from tokenctx.integrations._provenance import told

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenctx import Estimate

Json = dict[str, Any]

LOG: Final = logging.getLogger("tokenctx")


class CountingModel(WrapperModel):  # type: ignore[misc]  # where pydantic-ai is missing it is Any
    """A model whose `count_tokens` asks nobody, so that `UsageLimits` are checked before sending.

    `UsageLimits(count_tokens_before_request=True, input_tokens_limit=...)` then works with every
    model. With the estimator that a `TokenRecorder` records with, what was billed counts as it was.
    Raises RequestError for a message that cannot be read, since 0 would pass every limit.
    """

    def __init__(
        self,
        wrapped: Any,
        estimator: HybridTokenEstimator | None = None,
        *,
        tenant: str | None = None,
    ) -> None:
        super().__init__(wrapped)
        self.estimator = HybridTokenEstimator() if estimator is None else estimator
        self.tenant = tenant

    async def count_tokens(
        self, messages: Any, model_settings: Any, model_request_parameters: Any
    ) -> RequestUsage:
        """The input tokens of a request, and nothing else of its usage."""
        settings, parameters = self.wrapped.prepare_request(
            model_settings, model_request_parameters
        )
        body = body_of(messages, settings, parameters)
        estimate = await self.estimator.aestimate(body, model=self.model_name, tenant=self.tenant)
        return RequestUsage(input_tokens=estimate.tokens)


class TokenRecorder(AbstractCapability):  # type: ignore[misc]
    """A capability of an agent: estimates each request to the model and records its bill.

    `on_estimate` is called with the estimate before each request; `tenant` is whose requests these
    are, or says so of a run's context. What fails in here is logged once, by its class, counted in
    `failures`, and the agent goes on.
    """

    def __init__(
        self,
        estimator: HybridTokenEstimator | None = None,
        *,
        tenant: str | Callable[[Any], str | None] | None = None,
        on_estimate: Callable[[Estimate], None] | None = None,
    ) -> None:
        self.estimator = HybridTokenEstimator() if estimator is None else estimator
        self.failures = 0
        self._tenant = tenant
        self._on_estimate = on_estimate

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """The request as it is, estimated if somebody wants to know."""
        if self._on_estimate is not None:
            try:
                self._on_estimate(
                    await self.estimator.aestimate(**self._call(ctx, request_context))
                )
            except Exception as error:  # nothing of ours fails a run
                self._failed(error)
        return request_context

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        """The response as it is, recorded."""
        try:
            call = self._call(ctx, request_context)
            usage = told(response.usage, request_context.model, call, self.estimator)
            await self.estimator.arecord(usage=usage or response.usage, reply=response, **call)
        except Exception as error:
            self._failed(error)
        return response

    def _call(self, ctx: Any, request: Any) -> Json:
        model = request.model
        settings, parameters = model.prepare_request(
            request.model_settings, request.model_request_parameters
        )
        body = body_of(request.messages, settings, parameters)
        tenant = self._tenant(ctx) if callable(self._tenant) else self._tenant
        return {"body": body, "model": model.model_name, "tenant": tenant}

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:  # the class alone: what it says may hold text of a request
            LOG.warning("tokenctx's capability of pydantic-ai raised %s", type(error).__name__)


def body_of(messages: Any, settings: Any, parameters: Any) -> Json:
    """The request that messages and parameters will be."""
    tools = [*parameters.function_tools, *parameters.output_tools]
    tools += [{"type": tool.kind} for tool in parameters.native_tools]
    body: Json = {"messages": list(messages), "tools": tools}
    for name in ("max_tokens", "tool_choice", "parallel_tool_calls"):
        if (settings or {}).get(name) is not None:
            body[name] = settings[name]
    if tools and not parameters.allow_text_output:
        body["tool_choice"] = "required"
    output = parameters.output_object
    if parameters.output_mode == "native" and output is not None:
        schema = {"name": output.name or "final_result", "schema": output.json_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body
