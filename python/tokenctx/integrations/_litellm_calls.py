"""The arguments of litellm's hooks for one call, as a body, a model and a tenant."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenctx import normalize_usage
from tokenctx._results.estimates import ModelLimits
from tokenctx.gateway.answerer import is_another
from tokenctx.gateway.bounds import uncounted
from tokenctx.gateway.refusals import Refusal, refusal_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenctx._results.estimates import Dialect, Estimate
    from tokenctx.money.budgets import Reservation, Uncounted

Json = dict[str, Any]

KEY: Final = "tokenctx"
"""Where a call is kept among the details that litellm keeps of it, for as long as it does."""
DIALECTS: Final[dict[str, Dialect]] = {
    "completion": "openai-chat",
    "acompletion": "openai-chat",
    "responses": "openai-responses",
    "aresponses": "openai-responses",
    "anthropic_messages": "anthropic",
}
"""The dialect of a call of each type; those of other types, such as embeddings, are left alone."""
FIELDS: Final = tuple(
    "messages input instructions system tools tool_choice functions function_call response_format "
    "text thinking reasoning reasoning_effort parallel_tool_calls previous_response_id "
    "context_management truncation output_config output_format max_tokens max_completion_tokens "
    "max_output_tokens".split()
)
"""The arguments of a call that are its body."""
OUTPUT_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
LEAF_HOOKS: Final = (
    "async_pre_call_hook",
    "async_post_call_streaming_iterator_hook",
    "async_post_call_response_headers_hook",
)
"""Hooks that litellm looks for in the class of a callback itself, and not in its bases."""
METADATA: Final = ("litellm_metadata", "metadata")
PROVIDER_DETAILS: Final = (
    "prompt_tokens_details",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
"""Members of a usage that litellm has from a provider alone."""
REDACTED: Final = "redacted-by-litellm"


@dataclass(slots=True, repr=False)
class LitellmCall:
    """One call: its body as the client sent it, and who asks which model. It shows no text.

    Attributes:
        names: Model, dialect and tenant, as the estimator takes them.
        is_sent: Whether the model is that of the deployment it is sent to.
        group: The router's name for its deployments, by which the proxy has them answer.
    """

    body: Json
    names: Json
    call_type: str
    estimate: Estimate | None = None
    is_sent: bool = False
    reservation: Reservation | None = None
    group: str = ""

    @property
    def dialect(self) -> Dialect:
        """The dialect of the body."""
        return DIALECTS[self.call_type]

    def bound(self) -> Uncounted:
        """What budgets take for the call where it could not be estimated."""
        return uncounted(self.body, 0, str(self.names["model"]), self.dialect)

    def refusal(self, model_info: Json, *, is_clamped: bool) -> Refusal | None:
        """Why the deployment cannot hold it; None if it can, or where its window is doubtful."""
        if self.estimate is None:
            return None
        limits = self.limits(model_info)
        if limits.is_doubtful:
            return None
        output = 0 if is_clamped else None
        return refusal_of(self.dialect, self.estimate, limits=limits, output_tokens=output)

    def limits(self, model_info: Json) -> ModelLimits:
        """Those that the configuration of the deployment says, else those of the model."""
        known = self.estimate.limits if self.estimate is not None else ModelLimits()
        most_input = model_info.get("max_input_tokens")
        if not most_input:
            return known
        most_output = model_info.get("max_output_tokens") or known.max_output_tokens
        window = max(int(most_input), known.window_tokens or 0)
        return ModelLimits(window, int(most_input), int(most_output) if most_output else None)

    def clamped(self, arguments: Json, model_info: Json) -> Json | None:
        """`arguments` with a most output that fits behind the input; None if it does already."""
        limits = self.limits(model_info)
        if self.estimate is None or not limits.window_tokens:
            return None
        room = limits.window_tokens - self.estimate.high
        room = min(room, limits.max_output_tokens or room)
        asked = {name: arguments.get(name) for name in OUTPUT_LIMITS}
        lower = {name: room for name, it in asked.items() if isinstance(it, int) and it > room}
        return {**arguments, **lower} if lower and room > 0 else None

    def headers(self) -> dict[str, str] | None:
        """The headers with the estimate, for the client."""
        if self.estimate is None:
            return None
        return {
            "x-tokenctx-input-tokens": str(self.estimate.tokens),
            "x-tokenctx-known-tokens": str(self.estimate.known_tokens),
            "x-tokenctx-low": str(self.estimate.low),
            "x-tokenctx-high": str(self.estimate.high),
            "x-tokenctx-source": self.estimate.source,
            "x-tokenctx-quality": self.estimate.quality,
        }


def read_call(
    arguments: Json, call_type: str, model: str, tenant: str | None
) -> LitellmCall | None:
    """The call that a hook is asked about; None for what is no chat."""
    dialect = DIALECTS.get(call_type)
    body = {name: arguments[name] for name in FIELDS if arguments.get(name) is not None}
    if dialect is None or not ("messages" in body or "input" in body):
        return None
    for name in ("messages", "input"):  # litellm takes the system prompt out of its own list
        if isinstance(body.get(name), list):
            body[name] = list(body[name])
    return LitellmCall(body, {"model": model, "dialect": dialect, "tenant": tenant}, call_type)


def logged_call(details: Json, tenant: str | None) -> LitellmCall | None:
    """The call of a success event, where no hook came before: those of the synchronous SDK."""
    arguments = {**(details.get("optional_params") or {}), "messages": details.get("messages")}
    call_type = str(details.get("call_type"))
    if "responses" in call_type:
        arguments = {**arguments, "messages": None, "input": details.get("input")}
    model = f"{details.get('custom_llm_provider') or ''}/{details.get('model', '')}".strip("/")
    return read_call(arguments, call_type, model, tenant)


def told_usage(details: Json, response: object, count: Callable[[str], None]) -> Any:
    """The usage that a provider sent, of an answer of litellm's; None, and counted, without any.

    litellm counts for itself, without tools, when a client hangs up or a stream has no usage, and
    says so nowhere. What only a provider knows, such as cached tokens, tells that it has sent the
    input; a stream without that is believed unless its input is the number that litellm would
    count. Of a client that hung up the input alone is known: where it came at the beginning.
    """
    usage = getattr(response, "usage", None)
    if usage is None:
        return response
    has_details = any(getattr(usage, name, None) is not None for name in PROVIDER_DETAILS)
    if _is_hung_up(details):
        told = normalize_usage(usage) if has_details else None
        if told is None:
            count("counted_by_litellm")
        return None if told is None else told.input_tokens
    if details.get("stream") is True and not has_details and _is_own_count(details, usage):
        count("counted_by_litellm")
        return None
    return response


def _is_hung_up(details: Json) -> bool:
    places = (details, details.get("litellm_params") or {})
    metadata = (where.get(name) or {} for where in places for name in METADATA)
    return any(isinstance(it, dict) and it.get("client_disconnected") for it in metadata)


def _is_own_count(details: Json, usage: Any) -> bool:
    """True if litellm would count as many input tokens as it says were billed."""
    import litellm

    messages = details.get("messages")
    if not isinstance(messages, list):
        return False
    counted = litellm.token_counter(model=str(details.get("model") or ""), messages=messages)
    return bool(counted == getattr(usage, "prompt_tokens", None))


def billed(
    details: Json, tenant_of: Callable[[Json], str | None], count: Callable[[str], None]
) -> LitellmCall | None:
    """The call of a success event; None, and counted, if it is not to be recorded."""
    if details.get("cache_hit") is True or is_redacted(details):
        count("cached" if details.get("cache_hit") is True else "redacted")
        return None
    known = details.get(KEY)
    is_known = isinstance(known, LitellmCall)
    call = known if is_known else logged_call(details, tenant_of(metadata_of(details)))
    if isinstance(call, LitellmCall):
        call.group = _group(details)
        return call
    return None


def _group(details: Json) -> str:
    for where in (details, details.get("litellm_params") or {}):
        for name in METADATA:
            found = where.get(name)
            if isinstance(found, dict) and isinstance(group := found.get("model_group"), str):
                return group
    return ""


def answered(call: LitellmCall, response: object) -> Json:
    """The names of a call, with the model that has answered where that is surely another one."""
    told = getattr(response, "model", None)
    if not isinstance(told, str) or told in ("", call.group) or call.estimate is None:
        return call.names
    return {**call.names, "model": told} if is_another(call.estimate.model, told) else call.names


def keep(arguments: Json, call: LitellmCall) -> None:
    """Keep the call among what litellm knows of it."""
    known = getattr(arguments.get("litellm_logging_obj"), "model_call_details", None)
    if isinstance(known, dict):
        known[KEY] = call


def kept(arguments: Json) -> LitellmCall | None:
    """The call that was kept, by an earlier hook."""
    known = getattr(arguments.get("litellm_logging_obj"), "model_call_details", None)
    found = known.get(KEY) if isinstance(known, dict) else None
    return found if isinstance(found, LitellmCall) else None


def metadata_of(arguments: Json) -> Json:
    """The metadata that the proxy has of a call; its name depends on the endpoint."""
    for where in (arguments, arguments.get("litellm_params") or {}):
        for name in METADATA:
            found = where.get(name)
            if isinstance(found, dict) and "user_api_key" in found:
                return found
    return {}


def is_redacted(details: Json) -> bool:
    """True if the messages of a success event were replaced."""
    messages = details.get("messages")
    return isinstance(messages, list) and any(
        isinstance(it, dict) and it.get("content") == REDACTED for it in messages[:1]
    )


def routed_model(name: str) -> str:
    """The model of the proxy's first deployment of this name; the name itself elsewhere."""
    proxy = sys.modules.get("litellm.proxy.proxy_server")
    router = getattr(proxy, "llm_router", None)
    deployments = (router.get_model_list(model_name=name) or []) if router is not None else []
    return deployed_model(deployments[0]) if deployments else name


def deployed_model(deployment: Json) -> str:
    """The model of a deployment: its base model, where its name is one of the cloud's own."""
    settings, info = deployment.get("litellm_params") or {}, deployment.get("model_info") or {}
    return str(info.get("base_model") or settings.get("base_model") or settings.get("model") or "")
