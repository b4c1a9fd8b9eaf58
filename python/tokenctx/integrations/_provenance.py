"""Who has counted the usage that a framework tells: the provider, the framework, or a sum."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tokenctx import normalize_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenctx.usage.normal import Origin, Usage

COUNTING: Final = (
    *("pydantic_ai.models.test", "pydantic_ai.models.function", "pydantic_ai.models.outlines"),
)
"""Modules of models that no provider answers, so that they count for themselves."""
TOOLS: Final = ("tools", "toolConfig", "tool_choice")
LEAST_TOOLS: Final = 32
"""Tokens of tools by which a count without them can be told from a bill."""
DETAILS: Final = (
    *("cache_read_tokens", "cache_write_tokens", "reasoning_tokens"),
    *("input_audio_tokens", "service_tier"),
)
"""What only a provider knows: where it stands, it has sent the usage."""


def told(
    usage: object, model: object, call: dict[str, Any], estimator: Any, kind: str = ""
) -> Usage | None:
    """`usage` marked as what no provider has sent, which `record` refuses; None if it is a bill.

    `model` is the framework's object that answered; one that it wraps is looked into. `kind` is its
    name, where there is no such object. `call` has the body and the model's name, as for `record`.
    Where litellm answers, a usage without anything
    that only a provider knows is its own count if it is that of the request without its tools.
    """
    normal = normalize_usage(usage)
    if normal is None:
        return None
    origin = _origin(usage, normal, (*_modules(model), kind), call, estimator)
    return replace(normal, origin=origin) if origin else None


def _origin(
    usage: object, normal: Usage, modules: tuple[str, ...], call: Any, estimator: Any
) -> Origin:
    calls = getattr(usage, "requests", 1)
    if isinstance(calls, int) and calls > 1:  # retries, or the calls of a run, added up
        return "sum"
    if any(module.startswith(COUNTING) for module in modules):
        return "framework"
    is_untold = not any(getattr(normal, it) for it in DETAILS)
    is_untold &= normal.reported_cost is None or bool(normal.cost_source)
    if is_untold and any("litellm" in module for module in modules):
        return "framework" if _lacks_tools(normal, call, estimator) else ""
    return ""


def _lacks_tools(normal: Usage, call: Any, estimator: Any) -> bool:
    """True if the input is that of the request without its tools."""
    body, model = call["body"], call["model"]
    plain = {name: it for name, it in body.items() if name not in TOOLS}
    if len(plain) == len(body):
        return False
    whole, without = (estimator.count_request(it, model=model).tokens for it in (body, plain))
    is_without = abs(normal.input_tokens - without) <= LEAST_TOOLS // 4 + without // 50
    return bool(whole - without >= LEAST_TOOLS and is_without)


def _modules(model: object) -> Iterator[str]:
    """Of the classes of `model`, their bases, and the models that it wraps."""
    for _ in range(8):
        yield from (str(getattr(it, "__module__", "")) for it in type(model).__mro__)
        model = _wrapped(model)
        if model is None:
            return


def _wrapped(model: object) -> Any:
    own = getattr(model, "__dict__", {})
    names = ("wrapped", "bound", "_model", "model")
    found = (own.get(name) for name in names)
    return next((it for it in found if it is not None and not isinstance(it, str)), None)
