"""Input tokens of a chat request, known before it is sent."""

import os as _os
from typing import TYPE_CHECKING

from tokenctx._core import (
    Encoding,
    __version__,
    _choose_vector_level,
    _debug_build,
    count_tokens,
    count_tokens_batch,
    encode,
    encoding_for_model,
    encoding_name_for_model,
    get_encoding,
    image_size,
    image_tokens,
    list_encodings,
    vector_level,
    vector_levels,
)
from tokenctx._results.errors import Error, InternalError, RequestError
from tokenctx._estimate.estimator import HybridTokenEstimator, stats
from tokenctx._estimate.tracker import ConversationStateTracker
from tokenctx._results.estimates import (
    ConversationLookupResult,
    Dialect,
    Estimate,
    KnownConversationState,
    ModelLimits,
    RequestCount,
)
from tokenctx._results.result import CacheForecast, Cost

if TYPE_CHECKING:
    from tokenctx.convert import mime
    from tokenctx.context.compaction import Compaction
    from tokenctx.context.limits import model_limits
    from tokenctx.context.overflow import ContextOverflow, parse_overflow
    from tokenctx.context.plans import PrunePlan, RetentionPlan, TrimPlan
    from tokenctx.context.thresholds import Threshold
    from tokenctx.context.usage import (
        CalculationBasis,
        ContextCategory,
        ContextCounts,
        ContextItem,
        ContextUsage,
    )
    from tokenctx.context.window import ContextWindow, ModelFit
    from tokenctx.money.prices import Prices
    from tokenctx._estimate.accuracy import Accuracy, AccuracyEvent, Drift, NotRecorded
    from tokenctx._estimate.data import load_data
    from tokenctx._estimate.metrics import Metrics
    from tokenctx.usage.agents import agent_hints
    from tokenctx.usage.normal import SessionUsage, Usage, normalize_usage
    from tokenctx.usage.reader import UsageReader
    from tokenctx.usage.scaled import ScaledUsage
    from tokenctx.usage.scaler import ContextWindowScaler
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
    "CacheForecast",
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
    "Cost",
    "Dialect",
    "Drift",
    "Encoding",
    "Error",
    "Estimate",
    "HybridTokenEstimator",
    "InternalError",
    "KnownConversationState",
    "Metrics",
    "ModelFit",
    "ModelLimits",
    "NotRecorded",
    "PrefixStore",
    "Prices",
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
    "encoding_name_for_model",
    "get_encoding",
    "image_size",
    "image_tokens",
    "list_encodings",
    "load_data",
    "convert.mime",
    "model_limits",
    "normalize_usage",
    "parse_overflow",
    "stats",
    "vector_level",
    "vector_levels",
]

_LOADED_WHEN_USED = {
    "Accuracy": "_estimate.accuracy",
    "AccuracyEvent": "_estimate.accuracy",
    "CalculationBasis": "context.usage",
    "Compaction": "context.compaction",
    "ContextCategory": "context.usage",
    "ContextCounts": "context.usage",
    "ContextItem": "context.usage",
    "ContextOverflow": "context.overflow",
    "ContextUsage": "context.usage",
    "ContextWindow": "context.window",
    "ContextWindowScaler": "usage.scaler",
    "Conversion": "convert",
    "ConversionError": "convert",
    "ConversionNote": "convert",
    "ConversionOptions": "convert",
    "Drift": "_estimate.accuracy",
    "Metrics": "_estimate.metrics",
    "ModelFit": "context.window",
    "NotRecorded": "_estimate.accuracy",
    "PrefixStore": "stores.protocol",
    "Prices": "money.prices",
    "PrunePlan": "context.plans",
    "RedisPrefixStore": "stores.redis",
    "RetentionPlan": "context.plans",
    "ScaledUsage": "usage.scaled",
    "SessionUsage": "usage.normal",
    "Threshold": "context.thresholds",
    "TrimPlan": "context.plans",
    "Usage": "usage.normal",
    "UsageReader": "usage.reader",
    "agent_hints": "usage.agents",
    "convert_messages": "convert",
    "convert_response": "convert",
    "load_data": "_estimate.data",
    "convert.mime": "convert.mime",
    "model_limits": "context.limits",
    "normalize_usage": "usage.normal",
    "parse_overflow": "context.overflow",
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

if _level := _os.environ.get("TOKENCTX_LEVEL"):
    _choose_vector_level(_level)
