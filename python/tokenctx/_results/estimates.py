"""Results: small, frozen, comparable, picklable; none holds text of a message."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, Protocol

from tokenctx._results.pricing import default_prices
from tokenctx._results.result import CacheForecast, Result, looked_up

if TYPE_CHECKING:
    from tokenctx._results.cost import Cost

MAX_TOKENS: Final = 2**40
"""Larger numbers are cut to this one: no call has as many tokens, and sums stay in 64 bits."""

Reason = Literal[
    "no_usage",
    "no_input",
    "no_messages",
    "out_of_range",
    "partial",
    "scaled",
    "failed",
    "unreadable",
    "too_large",
    "truncated_by_server",
    "inconsistent",
    "not_of_provider",
]
"""Why a call is not recorded; docs/usage.md says what to do about each."""
ReplyReason = Literal[
    "reply_missing", "reply_unreadable", "reply_not_understood", "reply_without_output"
]
"""Why a call is recorded without its reply."""
BillReason = Literal["far_from_count", "unknown_usage_field"]
"""Why a recorded bill is not believed in full, or was not read in full."""
Source = Literal["exact", "delta", "estimated"]
Quality = Literal["exact", "calibrated", "heuristic"]
Dialect = Literal[
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "bedrock-converse",
    "vscode",
    "gemini-interactions",
]
EncodingName = Literal[
    "o200k_base",
    "o200k_harmony",
    "cl100k_base",
    "p50k_base",
    "p50k_edit",
    "r50k_base",
    "gpt2",
    "deepseek_v3",
    "mistral_v3",
    "qwen2",
]
CountOnlyName = Literal["claude_v3", "claude_v4_7", "claude_v4_8", "gemma"]

_METHODS: Final[dict[Source, Literal["actual", "hybrid", "estimated"]]] = {
    "exact": "actual",
    "delta": "hybrid",
    "estimated": "estimated",
}
_CHARACTERS_CONFIDENCE: Final[dict[Source, float]] = {"exact": 1.0, "delta": 0.85, "estimated": 0.7}
"""Of the characters method: RFC 006."""


@dataclass(frozen=True, slots=True)
class ModelLimits(Result):
    """The limits of a model, in tokens. None is unknown, and so is a window of 0.

    Attributes:
        window_tokens: Input and output together.
        max_input_tokens: The most input, where it is less than the window.
        max_output_tokens: The most output.
        source: Where the numbers are from: `caller`, `error` (the provider has refused more), a
            profile, or the packages and documents that the table was made from.
        is_doubtful: Whether the sources contradict each other about the window.
    """

    window_tokens: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    source: str = "caller"
    is_doubtful: bool = False

    def __post_init__(self) -> None:
        for name in ("window_tokens", "max_input_tokens", "max_output_tokens"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise TypeError(f"{name} is {value!r}; it must be a number of tokens or None")
            if value is not None and value < 0:
                raise ValueError(f"{name} is {value}; it must be 0 or more, or None for unknown")

    def missing_tokens(self, input_tokens: int, output_tokens: int = 0) -> int | None:
        """How many tokens too many are input and output together; None if no window is known."""
        if not self.window_tokens:
            return None
        missing = input_tokens + max(0, output_tokens) - self.window_tokens
        if self.max_input_tokens:
            missing = max(missing, input_tokens - self.max_input_tokens)
        return max(0, missing)


limits_of: Final = lru_cache(maxsize=1024)(ModelLimits)
"""`ModelLimits` for the core, which has few different ones."""


@dataclass(frozen=True, slots=True)
class Estimate(Result):
    """Input tokens that a request is expected to be billed for, and how that is known.

    Attributes:
        tokens: The answer: known and estimated tokens together.
        source: `exact` if the provider has billed this very request before, `delta` if a known
            prefix of it or a conversation that it is an edit of (`edited_history` and
            `changed_context` among the assumptions say so), `estimated` if nothing of it is known.
        known_tokens: Tokens that the provider has billed for the known prefix, or for the known
            conversation minus the counted tokens of removed messages.
        estimated_tokens: Tokens counted here.
        new_message_count: Messages counted here.
        quality: How the counted part was counted: `exact` (the provider's own vocabulary and
            framing), `calibrated` (fitted to recorded calls), `heuristic` (a guess is in it).
        low: Lower bound, from the errors on recorded calls.
        high: Upper bound, likewise.
        assumptions: Names of what had to be guessed, sorted: `unknown_model`, `remote_image`, ...
        dialect: The request format it was read as.
        model: The model as the request or the caller names it; empty if neither does.
        profile: What it was counted with.
        limits: What the model takes and gives, as `model_limits` tells it; a window or a most
            output that a profile of yours says comes first.
        requested_output_tokens: The most output that the body asks for, by whatever name; None if
            it does not say.
        cache: What of it the provider has probably cached, of an estimator with `caching`; None
            otherwise.
        price_words: What the body says that changes its price, or is billed by the use, such as
            `service_tier=flex` and `web_search`.
    """

    tokens: int
    source: Source
    known_tokens: int
    estimated_tokens: int
    new_message_count: int
    quality: Quality
    low: int
    high: int
    assumptions: tuple[str, ...]
    dialect: Dialect
    model: str
    profile: str
    limits: ModelLimits
    requested_output_tokens: int | None
    cache: CacheForecast | None = None
    price_words: tuple[str, ...] = ()

    @property
    def window_tokens(self) -> int | None:
        """Context window of the model; None if unknown."""
        return self.limits.window_tokens or None

    def fits(
        self, output_tokens: int | None = None, *, by: Literal["tokens", "high"] = "tokens"
    ) -> bool | None:
        """True if input and wanted output fit the window, and the input the most input.

        None if no window is known: unknown, not yes. `output_tokens` is what you want; by default
        what the body asks for, and nothing if it does not say. The input is `tokens`; `by="high"`
        takes the upper bound, for those who would rather refuse a request that fits than send one
        that does not. Raises ValueError for another `by`.
        """
        if by not in ("tokens", "high"):
            raise ValueError(f"by is {by!r}; it must be 'tokens' or 'high'")
        wanted = self.requested_output_tokens if output_tokens is None else output_tokens
        missing = self.limits.missing_tokens(getattr(self, by), wanted or 0)
        return None if missing is None else missing == 0

    @property
    @looked_up
    def cost(self) -> Cost | None:
        """The cost of the call by the prices that are installed; None if they lack the model.

        The output is the most that the request asks for; `Prices.cost` takes another, other prices,
        or who answers, where the model's name does not say it.
        """
        if not self.model:
            return None
        return default_prices().cost(self)

    @property
    def method(self) -> Literal["actual", "hybrid", "estimated"]:
        """The source in the words of RFC 006."""
        return _METHODS[self.source]

    @property
    def confidence(self) -> float:
        """Quality as a number from 0 to 1: the lower over the upper bound.

        With the characters method, the constants of RFC 006: 1, 0.85 or 0.7 by source.
        """
        if self.profile == "characters":
            return _CHARACTERS_CONFIDENCE[self.source]
        return self.low / self.high if self.high else 1.0


@dataclass(frozen=True, slots=True)
class RequestCount(Result):
    """Input tokens of a request, all counted here, part by part.

    Attributes:
        tokens: All of them.
        context_tokens: System prompt outside of the messages, tools, options, request framing.
        message_tokens: Tokens of each message with its framing.
        dialect: The request format it was read as.
        model: The model as the request or the caller names it; empty if neither does.
        profile: What it was counted with.
        encoding: The vocabulary, or `characters`.
        quality: How it was counted; see `Estimate`.
        assumptions: Names of what had to be guessed, sorted.
    """

    tokens: int
    context_tokens: int
    message_tokens: tuple[int, ...]
    dialect: Dialect
    model: str
    profile: str
    encoding: str
    quality: Quality
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnownConversationState(Result):
    """A conversation whose input tokens are known (RFC 029).

    Attributes:
        message_hashes: Digest of each message in order, 32 hex digits.
        actual_tokens: Input tokens that the provider billed.
        model_family: The family it was measured for.
        timestamp: When it was recorded, in seconds since the epoch.
    """

    message_hashes: tuple[str, ...]
    actual_tokens: int
    model_family: str
    timestamp: float


@dataclass(frozen=True, slots=True)
class ConversationLookupResult(Result):
    """The known part of a conversation (RFC 029).

    Attributes:
        type: `exact` if all of it is known, `prefix` if its first messages are, `none`.
        known_tokens: Billed input tokens of the known messages; None for `none`.
        new_message_indices: Indices of the messages after the known ones.
    """

    type: Literal["exact", "prefix", "none"]
    known_tokens: int | None = None
    new_message_indices: tuple[int, ...] = ()

    @property
    def new_message_count(self) -> int:
        """Number of messages after the known ones."""
        return len(self.new_message_indices)


class TextCounter(Protocol):
    """Anything that counts the tokens of text, such as an `Encoding`."""

    @property
    def name(self) -> str:
        """The name that results have for it."""
        ...

    def count(self, text: str, /) -> int:
        """Number of tokens of `text`."""
        ...
