"""litellm, SDK and proxy: a callback that estimates, routes, refuses, clamps, books and records.

In the proxy it is named, `callbacks: ["tokenctx.integrations.litellm.handler"]`; in the SDK it is
appended, `litellm.callbacks.append(handler)`.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from litellm.exceptions import ContextWindowExceededError, RateLimitError
from litellm.integrations.custom_logger import CustomLogger

from tokenctx import HybridTokenEstimator
from tokenctx.gateway.journal import Journal
from tokenctx.integrations import _litellm_calls as calls
from tokenctx.integrations._litellm_budgets import release, reserve, settle

if TYPE_CHECKING:
    from tokenctx.gateway.refusals import Refusal
    from tokenctx.integrations._litellm_calls import Json, LitellmCall
    from tokenctx.money.budgets import Budgets

LOG: Final = logging.getLogger("tokenctx")


class TokenctxLogger(CustomLogger):  # type: ignore[misc]  # where litellm is missing it is Any
    """The callback; make one of your own for other settings.

    `estimator` is yours, for a shared store and the like. With `refuse` a call that is too long for
    every deployment raises litellm's ContextWindowExceededError: the router falls back, or the
    proxy answers 400. With `clamp` a most output that would not fit behind the input is lowered.
    Asynchronous calls are reserved in `budgets`; without room they raise litellm's RateLimitError.

    `counts` says how many calls were `refused`, `limited` by a budget, `clamped`, `routed` (a
    deployment was too small) and `recorded`; `unbudgeted` since they were synchronous; not recorded
    since they were `cached` by litellm, `redacted`, `counted_by_litellm` itself and not billed, or
    `not_recorded` by the estimator; and how often a hook of ours `failed`.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in calls.LEAF_HOOKS:
            hook = getattr(cls, name)
            if name not in vars(cls) and hook is not getattr(CustomLogger, name):
                setattr(cls, name, hook)

    def __init__(
        self,
        estimator: HybridTokenEstimator | None = None,
        *,
        refuse: bool = True,
        clamp: bool = False,
        budgets: Budgets | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.estimator = HybridTokenEstimator() if estimator is None else estimator
        self.refuse = refuse
        self.clamp = clamp
        self.budgets = budgets
        self.counts: Counter[str] = Counter()
        self._journal = Journal(self.estimator.metrics)

    def tenant_of(self, metadata: Json) -> str | None:
        """Whose call it is: the hash of its virtual key. Override it where teams are tenants."""
        return metadata.get("user_api_key_hash") or metadata.get("user_api_key")

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: Json, call_type: str
    ) -> None:
        """Estimate, with the model of the first deployment, for what runs before the router."""
        try:
            name = calls.routed_model(str(data.get("model", "")))
            call = await self._estimated(data, call_type, name)
            if call is not None and call.estimate is not None:
                calls.keep(data, call)
                calls.metadata_of(data)["tokenctx_input_tokens"] = call.estimate.tokens
        except Exception as error:  # nothing of ours fails a call
            self._failed(error)

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: Any,
        messages: Any,
        request_kwargs: Json | None = None,
        parent_otel_span: Any = None,
    ) -> Any:
        """The deployments that can hold the call; refused if none can."""
        holding, refusals = [], []
        try:
            arguments = {**(request_kwargs or {}), **({"messages": messages} if messages else {})}
            before = calls.kept(arguments)
            kind = before.call_type if before else "acompletion" if messages else ""
            estimated: dict[str, LitellmCall | None] = {}
            for deployment in healthy_deployments:
                name = calls.deployed_model(deployment)
                if name not in estimated:
                    estimated[name] = await self._estimated(arguments, kind, name, before)
                call = estimated[name]
                info = deployment.get("model_info") or {}
                refusal = call.refusal(info, is_clamped=self.clamp) if call else None
                if refusal is None:
                    holding.append(deployment)
                else:
                    refusals.append(refusal)
        except Exception as error:
            self._failed(error)
            return healthy_deployments
        if refusals and not holding and self.refuse:
            raise self._refused(max(refusals, key=lambda it: it.limit_tokens), model)
        self.counts["routed"] += bool(refusals and holding)
        return holding or healthy_deployments

    async def async_pre_call_deployment_hook(self, kwargs: Json, call_type: Any) -> Json | None:
        """Estimate with the model that it is sent to, and lower the most output if that is asked.

        Where no router came before, this is where a call is refused.
        """
        try:
            kind, before = str(getattr(call_type, "value", call_type)), calls.kept(kwargs)
            if before is not None and before.is_sent and before.call_type != kind:
                return None  # litellm sends it on in another dialect
            info = kwargs.get("model_info") or {}
            model = info.get("base_model") or kwargs.get("base_model") or kwargs.get("model", "")
            call = await self._estimated(kwargs, kind, model, before)
            if call is None:
                return None
            call.is_sent = True
            calls.keep(kwargs, call)
            refusal = call.refusal(info, is_clamped=self.clamp)
            changed = call.clamped(kwargs, info) if self.clamp and not refusal else None
            if not (refusal and self.refuse):
                await reserve(self.budgets, call, kwargs, before, self._journal)
        except RateLimitError:
            self.counts["limited"] += 1
            raise
        except Exception as error:
            self._failed(error)
            return None
        if refusal is not None and self.refuse:
            raise self._refused(refusal, model)
        self.counts["clamped"] += changed is not None
        return changed

    async def async_log_success_event(
        self, kwargs: Json, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Record the bill, of a stream too."""
        try:
            if call := calls.billed(kwargs, self.tenant_of, self._count):
                told = calls.told_usage(kwargs, response_obj, self._count)
                await settle(call, told, response_obj)
                if told is None:
                    return
                names = calls.answered(call, response_obj)
                is_new = await self.estimator.arecord(call.body, told, **names)
                self.counts["recorded" if is_new else "not_recorded"] += 1
        except Exception as error:
            self._failed(error)

    async def async_log_failure_event(self, kwargs: Json, *_: Any, **__: Any) -> None:
        """Give back what was reserved."""
        await release(kwargs)

    def log_success_event(
        self, kwargs: Json, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """The same of a synchronous call of the SDK, which no hook can refuse or reserve."""
        if self.budgets is not None:
            self._count("unbudgeted")
            if self.counts["unbudgeted"] == 1:
                LOG.error(
                    "a synchronous call of litellm went past the budgets: it has no hook that can "
                    "refuse; use acompletion, or a client of tokenctx.gateway.httpx"
                )
        try:
            if call := calls.billed(kwargs, self.tenant_of, self._count):
                told = calls.told_usage(kwargs, response_obj, self._count)
                if told is None:
                    return
                names = calls.answered(call, response_obj)
                is_new = self.estimator.record(call.body, told, **names)
                self.counts["recorded" if is_new else "not_recorded"] += 1
        except Exception as error:
            self._failed(error)

    async def async_post_call_response_headers_hook(
        self,
        data: Json,
        user_api_key_dict: Any,
        response: Any,
        request_headers: Any = None,
        litellm_call_info: Any = None,
    ) -> dict[str, str] | None:
        """The estimate, for the client: `x-tokenctx-input-tokens`, `-source` and others."""
        return call.headers() if (call := calls.kept(data)) is not None else None

    async def _estimated(
        self, arguments: Json, call_type: str, model: str, before: LitellmCall | None = None
    ) -> LitellmCall | None:
        """The call with its estimate, which is that of `before` if nothing has changed."""
        tenant = self.tenant_of(calls.metadata_of(arguments))
        call = calls.read_call(arguments, call_type, model, tenant)
        if call is None:
            return None
        if before is not None and (before.names, before.body) == (call.names, call.body):
            call.estimate = before.estimate
        if call.estimate is None:
            try:
                call.estimate = await self.estimator.aestimate(call.body, **call.names)
            except Exception as error:  # budgets take a bound of it
                self._failed(error)
        return call

    def _count(self, name: str) -> None:
        """One more of `name` that was not recorded, or passed the budgets; in the metrics, too."""
        self.counts[name] += 1
        if self.estimator.metrics is not None:
            self.estimator.metrics.count_call(f"litellm_{name}")

    def _refused(self, refusal: Refusal, model: str) -> ContextWindowExceededError:
        self.counts["refused"] += 1
        if self.estimator.metrics is not None:
            self.estimator.metrics.count_refused("openai-chat")
        return ContextWindowExceededError(refusal.message, model=model, llm_provider="")

    def _failed(self, error: Exception) -> None:
        self.counts["failed"] += 1
        if self.estimator.metrics is not None:
            self.estimator.metrics.count_failure("litellm")
        if self.counts["failed"] == 1:  # the class alone: what it says may hold text of a request
            LOG.warning("a hook of tokenctx for litellm raised %s", type(error).__name__)


handler: Final = TokenctxLogger()
