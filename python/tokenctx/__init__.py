"""Input tokens of a chat request, known before it is sent."""

import os as _os
from typing import TYPE_CHECKING

from tokenctx._core import (
    Encoding,
    __version__,
    _choose_simd_level,
    _debug_build,
    _read_files_by,
    count_tokens,
    count_tokens_batch,
    encode,
    encoding_for_model,
    encoding_name_for_model,
    get_encoding,
    image_size,
    image_tokens,
    list_encodings,
    preload_encodings,
    simd_level,
    simd_levels,
)
from tokenctx._errors import Error, InternalError, RequestError
from tokenctx._estimate.estimator import HybridTokenEstimator, stats
from tokenctx._estimate.tracker import ConversationStateTracker
from tokenctx._models import (
    ConversationLookupResult,
    Dialect,
    Estimate,
    KnownConversationState,
    ModelLimits,
    RequestCount,
)
from tokenctx._results import CacheForecast, Cost

if TYPE_CHECKING:
    from types import ModuleType as _ModuleType

    from tokenctx import mime
    from tokenctx._context.compaction import Compaction
    from tokenctx._context.limits import model_limits
    from tokenctx._context.overflow import ContextOverflow, parse_overflow
    from tokenctx._context.plans import PrunePlan, RetentionPlan, TrimPlan
    from tokenctx._context.thresholds import Threshold
    from tokenctx._context.usage import (
        CalculationBasis,
        ContextCategory,
        ContextCounts,
        ContextItem,
        ContextUsage,
    )
    from tokenctx._context.window import ContextWindow, ModelFit
    from tokenctx._cost.prices import Prices
    from tokenctx._estimate.accuracy import Accuracy, AccuracyEvent, Drift, NotRecorded
    from tokenctx._estimate.data import load_data
    from tokenctx._estimate.metrics import Metrics
    from tokenctx._usage.agents import agent_hints
    from tokenctx._usage.normal import SessionUsage, Usage, normalize_usage
    from tokenctx._usage.reader import UsageReader
    from tokenctx._usage.scaled import ScaledUsage
    from tokenctx._usage.scaler import ContextWindowScaler
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
    "mime",
    "model_limits",
    "normalize_usage",
    "parse_overflow",
    "preload_encodings",
    "simd_level",
    "simd_levels",
    "stats",
]

_LOADED_WHEN_USED = {
    "Accuracy": "_estimate.accuracy",
    "AccuracyEvent": "_estimate.accuracy",
    "CalculationBasis": "_context.usage",
    "Compaction": "_context.compaction",
    "ContextCategory": "_context.usage",
    "ContextCounts": "_context.usage",
    "ContextItem": "_context.usage",
    "ContextOverflow": "_context.overflow",
    "ContextUsage": "_context.usage",
    "ContextWindow": "_context.window",
    "ContextWindowScaler": "_usage.scaler",
    "Conversion": "convert",
    "ConversionError": "convert",
    "ConversionNote": "convert",
    "ConversionOptions": "convert",
    "Drift": "_estimate.accuracy",
    "Metrics": "_estimate.metrics",
    "ModelFit": "_context.window",
    "NotRecorded": "_estimate.accuracy",
    "PrefixStore": "stores.protocol",
    "Prices": "_cost.prices",
    "PrunePlan": "_context.plans",
    "RedisPrefixStore": "stores.redis",
    "RetentionPlan": "_context.plans",
    "ScaledUsage": "_usage.scaled",
    "SessionUsage": "_usage.normal",
    "Threshold": "_context.thresholds",
    "TrimPlan": "_context.plans",
    "Usage": "_usage.normal",
    "UsageReader": "_usage.reader",
    "agent_hints": "_usage.agents",
    "convert_messages": "convert",
    "convert_response": "convert",
    "load_data": "_estimate.data",
    "mime": "mime",
    "model_limits": "_context.limits",
    "normalize_usage": "_usage.normal",
    "parse_overflow": "_context.overflow",
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


def _vocabulary_files() -> "_ModuleType":
    """The module that reads vocabulary files, which a program without any need not load."""
    from tokenctx._estimate import vocabularies

    return vocabularies


_read_files_by(_vocabulary_files)

if _debug_build:
    import warnings

    warnings.warn(
        "tokenctx._core is a debug build, many times slower; build with --release",
        RuntimeWarning,
        stacklevel=2,
    )

if _level := _os.environ.get("TOKENCTX_LEVEL"):
    _choose_simd_level(_level)
