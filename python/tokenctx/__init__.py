"""Input tokens of a chat request, known before it is sent."""

from typing import TYPE_CHECKING

from tokenctx._core import (
    Encoding,
    __version__,
    _debug_build,
    count_tokens,
    count_tokens_batch,
    encode,
    encoding_for_model,
    get_encoding,
    image_size,
    image_tokens,
    list_encodings,
)
from tokenctx._errors import Error, InternalError, RequestError
from tokenctx._estimator import HybridTokenEstimator, stats
from tokenctx._models import (
    ConversationLookupResult,
    Estimate,
    KnownConversationState,
    RequestCount,
)
from tokenctx._tracker import ConversationStateTracker

if TYPE_CHECKING:
    from tokenctx import mime
    from tokenctx._accuracy import Accuracy, AccuracyEvent
    from tokenctx._agents import agent_hints
    from tokenctx._compaction import Compaction
    from tokenctx._context import ContextWindow, ModelFit
    from tokenctx._context_usage import (
        CalculationBasis,
        ContextCategory,
        ContextCounts,
        ContextItem,
        ContextUsage,
    )
    from tokenctx._limits import ModelLimits, model_limits
    from tokenctx._overflow import ContextOverflow, parse_overflow
    from tokenctx._plans import PrunePlan, RetentionPlan, TrimPlan
    from tokenctx._reader import UsageReader
    from tokenctx._scaling import ContextWindowScaler, ScaledUsage
    from tokenctx._thresholds import Threshold
    from tokenctx._usage import SessionUsage, Usage, normalize_usage
    from tokenctx.convert import (
        Conversion,
        ConversionError,
        ConversionNote,
        ConversionOptions,
        convert_messages,
        convert_response,
    )
    from tokenctx.stores.protocol import PrefixStore
    from tokenctx.stores.redis import RedisPrefixStore

__all__ = [
    "Accuracy",
    "AccuracyEvent",
    "CalculationBasis",
    "Compaction",
    "ContextCategory",
    "ContextCounts",
    "ContextItem",
    "ContextOverflow",
    "ContextUsage",
    "ContextWindow",
    "ContextWindowScaler",
    "ConversationLookupResult",
    "ConversationStateTracker",
    "Conversion",
    "ConversionError",
    "ConversionNote",
    "ConversionOptions",
    "Encoding",
    "Error",
    "Estimate",
    "HybridTokenEstimator",
    "InternalError",
    "KnownConversationState",
    "ModelFit",
    "ModelLimits",
    "PrefixStore",
    "PrunePlan",
    "RedisPrefixStore",
    "RequestCount",
    "RequestError",
    "RetentionPlan",
    "ScaledUsage",
    "SessionUsage",
    "Threshold",
    "TrimPlan",
    "Usage",
    "UsageReader",
    "__version__",
    "agent_hints",
    "convert_messages",
    "convert_response",
    "count_tokens",
    "count_tokens_batch",
    "encode",
    "encoding_for_model",
    "get_encoding",
    "image_size",
    "image_tokens",
    "list_encodings",
    "mime",
    "model_limits",
    "normalize_usage",
    "parse_overflow",
    "stats",
]

_LOADED_WHEN_USED = {
    "Accuracy": "_accuracy",
    "AccuracyEvent": "_accuracy",
    "CalculationBasis": "_context_usage",
    "Compaction": "_compaction",
    "ContextCategory": "_context_usage",
    "ContextCounts": "_context_usage",
    "ContextItem": "_context_usage",
    "ContextOverflow": "_overflow",
    "ContextUsage": "_context_usage",
    "ContextWindow": "_context",
    "ContextWindowScaler": "_scaling",
    "Conversion": "convert",
    "ConversionError": "convert",
    "ConversionNote": "convert",
    "ConversionOptions": "convert",
    "ModelFit": "_context",
    "ModelLimits": "_limits",
    "PrefixStore": "stores.protocol",
    "PrunePlan": "_plans",
    "RedisPrefixStore": "stores.redis",
    "RetentionPlan": "_plans",
    "ScaledUsage": "_scaling",
    "SessionUsage": "_usage",
    "Threshold": "_thresholds",
    "TrimPlan": "_plans",
    "Usage": "_usage",
    "UsageReader": "_reader",
    "agent_hints": "_agents",
    "convert_messages": "convert",
    "convert_response": "convert",
    "mime": "mime",
    "model_limits": "_limits",
    "normalize_usage": "_usage",
    "parse_overflow": "_overflow",
}
"""Names and their modules, which a program that only counts need not pay for."""

for _name in __all__:
    if _name != "__version__" and _name not in _LOADED_WHEN_USED:
        globals()[_name].__module__ = "tokenctx"


def __getattr__(name: str) -> object:
    """The public name, from its module, at its first use."""
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"{__name__}.{_LOADED_WHEN_USED[name]}")
    globals()[name] = value = getattr(module, name, module)
    if value is not module:
        value.__module__ = __name__
    return value


def __dir__() -> list[str]:
    """All public names, loaded or not."""
    return sorted({*globals(), *__all__})


if _debug_build:
    import warnings

    warnings.warn(
        "tokenctx._core is a debug build, many times slower; build with --release",
        RuntimeWarning,
        stacklevel=2,
    )
