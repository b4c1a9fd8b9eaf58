"""Results: small, frozen, comparable, picklable; none holds text of a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

MAX_TOKENS: Final = 2**40
"""What a larger number is cut to: no call has so many tokens, and sums of it stay in 64 bits."""

Source = Literal["exact", "delta", "estimated"]
Quality = Literal["exact", "calibrated", "heuristic"]
Dialect = Literal[
    "openai-chat", "openai-responses", "anthropic", "gemini", "bedrock-converse", "vscode"
]
EncodingName = Literal["o200k_base", "o200k_harmony", "cl100k_base", "p50k_base", "r50k_base"]
ClaudeFamilyName = Literal["claude_v3", "claude_v4_7", "claude_v4_8"]

_METHODS: Final[dict[Source, Literal["actual", "hybrid", "estimated"]]] = {
    "exact": "actual",
    "delta": "hybrid",
    "estimated": "estimated",
}
_CHARACTERS_CONFIDENCE: Final[dict[Source, float]] = {"exact": 1.0, "delta": 0.85, "estimated": 0.7}
"""Of the characters method: RFC 006."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Input tokens that a request is expected to be billed for, and how that is known.

    Attributes:
        tokens: The answer: known and estimated tokens together.
        source: `exact` if the provider has billed this very request before, `delta` if a known
            prefix of it or a conversation that it is an edit of (`edited_history` and
            `changed_context` among the assumptions say so), `estimated` if nothing of it is known.
        known_tokens: Tokens that the provider has billed for the known prefix, or for the known
            conversation less the count of what left.
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
        context_window_tokens: Context window of the model; None if unknown.
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
    context_window_tokens: int | None

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
class RequestCount:
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
class KnownConversationState:
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
class ConversationLookupResult:
    """What is known of a conversation (RFC 029).

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
        """What results name it by."""
        ...

    def count(self, text: str, /) -> int:
        """Number of tokens of `text`."""
        ...
