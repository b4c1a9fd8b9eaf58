"""The Rust core of tokenctx. The public names are those of the package, not of this module."""

from collections.abc import Sequence
from typing import Final, final

from tokenctx._models import (
    ClaudeFamily,
    ConversationLookupResult,
    Encoding,
    Estimate,
    KnownConversationState,
    RequestCount,
)

__all__ = [
    "Engine",
    "Rewriter",
    "Scale",
    "Tracker",
    "__version__",
    "_debug_build",
    "_json_anomalies",
    "_json_canonical",
    "_json_compact",
    "_panic",
    "_reply_view",
    "_request_view",
    "count_tokens",
    "encode",
    "image_size",
    "image_tokens",
    "rank_file",
]

__version__: Final[str]
"""Version of the crate, which is the version of the package."""

_debug_build: Final[bool]
"""Whether the core was compiled without optimisation."""

@final
class Engine:
    """What `HybridTokenEstimator` works with; the caller brings the secret and the time."""

    def __new__(
        cls,
        secret: bytes,
        capacity_bytes: int,
        ttl_seconds: float,
        method: str,
        milli_characters_per_token: int,
        milli_by_provider: dict[str, int],
        factor_permille: int,
    ) -> Engine: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...
    def estimate(
        self, body: object, model: str | None, dialect: str | None, now_seconds: float
    ) -> Estimate: ...
    def record(
        self,
        body: object,
        model: str | None,
        dialect: str | None,
        input_tokens: int,
        output_tokens: int,
        reasoning_tokens: int,
        reply: object | None,
        now_seconds: float,
    ) -> bool: ...
    def count(self, body: object, model: str | None, dialect: str | None) -> RequestCount: ...

@final
class Tracker:
    """What `ConversationStateTracker` works with; the caller brings the secret and the time."""

    def __new__(cls, secret: bytes, capacity_bytes: int, ttl_seconds: float) -> Tracker: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...
    def record_actual(
        self,
        messages: object,
        model_family: str,
        actual_tokens: int,
        timestamp: float,
        now_seconds: float,
    ) -> KnownConversationState | None: ...
    def lookup(
        self, messages: object, model_family: str, now_seconds: float
    ) -> ConversationLookupResult: ...

@final
class Scale:
    """What `ContextWindowScaler` works with: a line through points (real, scaled) from (0, 0) on.

    Numbers changed are (path in the usage object, real, scaled).
    """

    def __new__(cls, points: Sequence[tuple[int, int]], rounding: str) -> Scale: ...
    @property
    def is_linear(self) -> bool: ...
    def tokens(self, tokens: int) -> int: ...
    def body(self, body: bytes, *, is_count: bool) -> tuple[bytes, list[tuple[str, int, int]]]: ...
    def stream(self, first_input_tokens: int | None = None) -> Rewriter: ...

@final
class Rewriter:
    """Rewrites one stream of server-sent events; made by `Scale.stream`."""

    def push(self, chunk: bytes) -> bytes: ...
    def finish(self) -> bytes: ...
    def numbers(self) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]: ...
    @property
    def long_event_count(self) -> int: ...

def count_tokens(text: str | bytes, *, encoding: Encoding | ClaudeFamily = "o200k_base") -> int:
    """Number of tokens of `text`; special-token spellings count as plain text.

    Bytes are read as UTF-8. What is no UTF-8, and each lone surrogate of a str, counts as U+FFFD.
    Linear in the text; above 2 KiB other threads run meanwhile. Raises ValueError for an unknown
    encoding, TypeError for anything but text. Equal to tiktoken's `encode_ordinary` on every input.

    A `claude_` name is a family of Claude's count model, a reconstruction that counts tokens but
    knows none: what `text` adds to the frame of a message, `ctok.token_count` less the frame of 7
    (claude_v3), 11 (claude_v4_7) or 6 tokens (claude_v4_8).
    """

def encode(text: str | bytes, *, encoding: Encoding = "o200k_base") -> list[int]:
    """Tokens of `text`, for looking at; see `count_tokens`, which is faster."""

def image_tokens(rule: str, width_px: int, height_px: int, detail: str = "auto") -> int:
    """Input tokens of an image of `width_px` by `height_px` under the rule of this name.

    The rules and their sources are in `image_rules.json`. Raises ValueError for an unknown rule or
    detail and for a side outside of 1 to 4,294,967,295 px.
    """

def image_size(head: bytes) -> tuple[int, int, str] | None:
    """Width and height in px and the format that the header states; None if it is no image.

    `head` is the beginning of the file; at most 64 KiB are looked at, no pixel is decoded.
    """

def rank_file(encoding: Encoding) -> bytes:
    """The vocabulary as a `.tiktoken` file: base64 of a token, a space, its rank, line by line."""

def _json_anomalies(body: object) -> list[str]: ...
def _json_canonical(body: object) -> str: ...
def _json_compact(body: object) -> str: ...
def _panic() -> None: ...
def _reply_view(body: object) -> str: ...
def _request_view(body: object, *, model: str | None = None, dialect: str | None = None) -> str: ...
