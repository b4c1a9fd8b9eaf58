"""LangChain: a counter for whatever trims or summarizes, and middleware for agents that records."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, convert_to_messages

from tokenctx import HybridTokenEstimator
from tokenctx.integrations._provenance import told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from tokenctx import Estimate

Json = dict[str, Any]

LOG: Final = logging.getLogger("tokenctx")


def token_counter(
    model: str,
    estimator: HybridTokenEstimator | None = None,
    *,
    system: str | None = None,
    tools: Iterable[Any] = (),
    tenant: str | None = None,
) -> Callable[[Iterable[Any]], int]:
    """A `token_counter=` for `trim_messages`, SummarizationMiddleware, ContextEditingMiddleware.

    These give it messages alone: `system` and `tools`, where they are given, count too. With the
    estimator that `TokenMiddleware` records with, what was billed counts as it was billed. Raises
    RequestError for a message that cannot be read.
    """
    chosen = HybridTokenEstimator() if estimator is None else estimator
    head = [{"role": "system", "content": system}] if system else []
    given = list(tools)

    def count(messages: Iterable[Any]) -> int:
        body = {"messages": [*head, *convert_to_messages(list(messages))], "tools": given}
        if not body["messages"] and not given:
            return 0
        return chosen.estimate(body, model=model, tenant=tenant).tokens

    return count


class TokenMiddleware(AgentMiddleware):  # type: ignore[misc]  # where LangChain is missing it is Any
    """Middleware of `create_agent`: estimates each call of the model and records its bill.

    It knows what the counters of other middleware are not given: the system prompt and the tools.
    Put it last, so that it sees what is sent. `on_estimate` is called with the estimate before each
    call; `tenant` is whose calls these are, or says so of a request. What fails in here is logged
    once, by its class, counted in `failures`, and the agent goes on.
    """

    def __init__(
        self,
        estimator: HybridTokenEstimator | None = None,
        *,
        tenant: str | Callable[[Any], str | None] | None = None,
        on_estimate: Callable[[Estimate], None] | None = None,
    ) -> None:
        super().__init__()
        self.estimator = HybridTokenEstimator() if estimator is None else estimator
        self.failures = 0
        self._tenant = tenant
        self._on_estimate = on_estimate

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Estimate, call, record."""
        call: Json = {}
        try:
            call = self._call(request)
            self._tell(self.estimator.estimate(**call))
        except Exception as error:  # nothing of ours fails a call
            self._failed(error)
        response = handler(request)
        try:
            if call:
                self.estimator.record(**self._told(request, response, call), **call)
        except Exception as error:
            self._failed(error)
        return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same in an event loop."""
        call: Json = {}
        try:
            call = self._call(request)
            self._tell(await self.estimator.aestimate(**call))
        except Exception as error:
            self._failed(error)
        response = await handler(request)
        try:
            if call:
                await self.estimator.arecord(**self._told(request, response, call), **call)
        except Exception as error:
            self._failed(error)
        return response

    def _call(self, request: Any) -> Json:
        tenant = self._tenant(request) if callable(self._tenant) else self._tenant
        return {"body": body_of(request), "model": model_name(request.model), "tenant": tenant}

    def _told(self, request: Any, response: Any, call: Json) -> Json:
        answer = answer_of(response)
        own = told(answer, request.model, call, self.estimator)
        return {"usage": answer if own is None else own}

    def _tell(self, estimate: Estimate) -> None:
        if self._on_estimate is not None:
            self._on_estimate(estimate)

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:  # the class alone: what it says may hold text of a request
            LOG.warning("tokenctx's middleware for LangChain raised %s", type(error).__name__)


def body_of(request: Any) -> Json:
    """The request that a ModelRequest will be."""
    system = request.system_message
    body: Json = {
        "messages": [*([system] if system is not None else []), *request.messages],
        "tools": list(request.tools or ()),
        **{name: it for name, it in (request.model_settings or {}).items() if name != "model"},
    }
    if request.tool_choice is not None:
        body["tool_choice"] = request.tool_choice
    strategy = request.response_format
    if hasattr(strategy, "to_model_kwargs"):  # the provider's own; a tool of it is among the tools
        body.update(strategy.to_model_kwargs())
    return body


def model_name(model: Any) -> str | None:
    """The name that a chat model has for its model; None if it has none."""
    names = (getattr(model, name, None) for name in ("model_name", "model", "model_id"))
    return next((name for name in names if isinstance(name, str)), None)


def answer_of(response: Any) -> Any:
    """The last answer of the model in what a handler gives back."""
    inner = getattr(response, "model_response", response)
    results = [inner] if isinstance(inner, AIMessage) else list(getattr(inner, "result", ()))
    answers = [it for it in results if isinstance(it, AIMessage)]
    return answers[-1] if answers else None
