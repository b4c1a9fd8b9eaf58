"""Input tokens of a chat request, known before it is sent."""

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
from tokenctx._estimator import HybridTokenEstimator
from tokenctx._models import (
    ConversationLookupResult,
    Estimate,
    KnownConversationState,
    RequestCount,
)
from tokenctx._tracker import ConversationStateTracker

__all__ = [
    "ConversationLookupResult",
    "ConversationStateTracker",
    "Encoding",
    "Error",
    "Estimate",
    "HybridTokenEstimator",
    "InternalError",
    "KnownConversationState",
    "RequestCount",
    "RequestError",
    "__version__",
    "count_tokens",
    "count_tokens_batch",
    "encode",
    "encoding_for_model",
    "get_encoding",
    "image_size",
    "image_tokens",
    "list_encodings",
]

for _name in __all__:
    if _name != "__version__":
        globals()[_name].__module__ = "tokenctx"

if _debug_build:
    import warnings

    warnings.warn(
        "tokenctx._core is a debug build, many times slower; build with --release",
        RuntimeWarning,
        stacklevel=2,
    )
