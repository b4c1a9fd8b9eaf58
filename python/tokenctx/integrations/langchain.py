"""LangChain: a counter for whatever trims or summarizes, and middleware for agents that records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, convert_to_messages

from tokenctx import HybridTokenEstimator
from tokenctx.integrations._life import Calls
from tokenctx.usage.replies import texts_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from tokenctx import Estimate
    from tokenctx.money.budgets import Budgets

Json = dict[str, Any]

OUTPUT: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


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

    With `budgets` each call is reserved in them and booked; without room it raises BudgetError
    and is not sent. Have the chat model retry nothing then (`max_retries=0`), or what a lost
    attempt was billed is seen by nobody; middleware that retries stands before this one.
    """

    def __init__(
        self,
        estimator: HybridTokenEstimator | None = None,
        *,
        tenant: str | Callable[[Any], str | None] | None = None,
        on_estimate: Callable[[Estimate], None] | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        super().__init__()
        self._calls = Calls(
            "middleware for LangChain", estimator, on_estimate, budgets, always_estimates=True
        )
        self.estimator = self._calls.estimator
        self._tenant = tenant

    @property
    def failures(self) -> int:
        """How often something of ours has failed."""
        return self._calls.failures

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Estimate, call, record."""
        life = self._calls.begin(lambda: self._call(request), *_asked(request))
        try:
            response = handler(request)
        except BaseException as error:
            life.failed(error)
            raise
        answer = answer_of(response)
        life.answered(answer, request.model, **_about(answer))
        return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same in an event loop."""
        life = await self._calls.abegin(lambda: self._call(request), *_asked(request))
        try:
            response = await handler(request)
        except BaseException as error:
            life.failed(error)
            raise
        answer = answer_of(response)
        await life.aanswered(answer, request.model, **_about(answer))
        return response

    def _call(self, request: Any) -> Json:
        tenant = self._tenant(request) if callable(self._tenant) else self._tenant
        return {"body": body_of(request), "model": model_name(request.model), "tenant": tenant}


def _asked(request: Any) -> tuple[int | None, int]:
    """The most output that is asked for, and how many answers."""
    given = request.model_settings or {}
    most = [given.get(it, getattr(request.model, it, None)) for it in OUTPUT]
    count = given.get("n", getattr(request.model, "n", None))
    asked = max((it for it in most if isinstance(it, int)), default=None)
    return asked, count if isinstance(count, int) else 1


def _about(answer: Any) -> Json:
    """Who has answered, and its text."""
    told = getattr(answer, "response_metadata", None) or {}
    name = told.get("model_name") or told.get("model")
    said = [getattr(answer, it, None) for it in ("content", "tool_calls", "additional_kwargs")]
    return {"answerer": name if isinstance(name, str) else None, "texts": texts_of(said)}


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
