"""pydantic-ai: token counts without the network, and a capability that records what was billed."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.usage import RequestUsage

from tokenctx import HybridTokenEstimator
from tokenctx.integrations._life import Calls, Life

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tokenctx import Estimate
    from tokenctx.money.budgets import Budgets

Json = dict[str, Any]

PARTS: Final = ("content", "args", "tool_name")
"""The members of a part of an answer that have its text."""


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


class BudgetedModel(CountingModel):
    """A `CountingModel` whose requests are reserved in `budgets`, recorded, and booked.

    Without room a request raises BudgetError and is not sent. Each attempt is one of its own:
    wrap the models inside of a FallbackModel, and have the client of the SDK retry nothing
    (`max_retries=0`), or what a lost attempt was billed is seen by nobody. `on_estimate` is called
    with each estimate. What fails in here is logged once, by its class, and counted in `failures`.
    """

    def __init__(
        self,
        wrapped: Any,
        budgets: Budgets,
        estimator: HybridTokenEstimator | None = None,
        *,
        tenant: str | None = None,
        on_estimate: Callable[[Estimate], None] | None = None,
    ) -> None:
        super().__init__(wrapped, estimator, tenant=tenant)
        self._calls = Calls("model for pydantic-ai", self.estimator, on_estimate, budgets)

    @property
    def failures(self) -> int:
        """How often something of ours has failed."""
        return self._calls.failures

    async def request(
        self, messages: Any, model_settings: Any, model_request_parameters: Any, *more: Any
    ) -> Any:
        """The response of the model inside."""
        asked = messages, model_settings, model_request_parameters
        life = await self._begun(*asked)
        try:
            response = await self.wrapped.request(*asked, *more)
        except BaseException as error:
            life.failed(error)
            raise
        await self._ended(life, response)
        return response

    @asynccontextmanager
    async def request_stream(
        self, messages: Any, model_settings: Any, model_request_parameters: Any, *more: Any
    ) -> AsyncIterator[Any]:
        """The stream of the model inside; of one that is left what had come is booked."""
        asked = messages, model_settings, model_request_parameters
        life = await self._begun(*asked)
        stream = None
        try:
            async with self.wrapped.request_stream(*asked, *more) as stream:
                yield stream
                response = stream.get()
        except BaseException as error:
            life.failed(error, *_seen(stream))
            raise
        if response.state == "complete":
            await self._ended(life, response)
        life.failed(None, *_seen(stream))

    async def _begun(self, messages: Any, settings: Any, parameters: Any) -> Life:
        def read() -> Json:
            prepared = self.wrapped.prepare_request(settings, parameters)
            body = body_of(messages, *prepared)
            return {"body": body, "model": self.model_name, "tenant": self.tenant}

        more = (settings or {}).get("extra_body")
        count = more.get("n") if isinstance(more, dict) else None
        return await self._calls.abegin(read, None, count if isinstance(count, int) else 1)

    async def _ended(self, life: Life, response: Any) -> None:
        about = {"answerer": response.model_name, "texts": _texts(response)}
        await life.aanswered(response.usage, self.wrapped, reply=response, **about)


def _seen(stream: Any) -> tuple[list[str], int]:
    """The texts of a stream as far as they have come, and how many parts they are."""
    response = stream.get() if stream is not None else None
    return _texts(response), len(response.parts) if response is not None else 0


def _texts(response: Any) -> list[str]:
    parts = response.parts if response is not None else []
    return [str(getattr(it, name)) for it in parts for name in PARTS if getattr(it, name, None)]


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
        self._calls = Calls("capability of pydantic-ai", estimator, on_estimate)
        self.estimator = self._calls.estimator
        self._tenant = tenant

    @property
    def failures(self) -> int:
        """How often something of ours has failed."""
        return self._calls.failures

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """The request as it is, estimated if somebody wants to know."""
        if self._calls.on_estimate is not None:
            await self._calls.abegin(lambda: self._call(ctx, request_context))
        return request_context

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        """The response as it is, recorded."""
        life = self._calls.life(lambda: self._call(ctx, request_context))
        answered = {"reply": response, "answerer": response.model_name}
        await life.aanswered(response.usage, request_context.model, **answered)
        return response

    def _call(self, ctx: Any, request: Any) -> Json:
        model = request.model
        settings, parameters = model.prepare_request(
            request.model_settings, request.model_request_parameters
        )
        body = body_of(request.messages, settings, parameters)
        tenant = self._tenant(ctx) if callable(self._tenant) else self._tenant
        return {"body": body, "model": model.model_name, "tenant": tenant}


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
