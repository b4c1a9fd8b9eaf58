"""Known conversations by model family, as in RFC 029."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, ClassVar

from tokenctx._core import Tracker
from tokenctx._results.estimates import MAX_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenctx._results.estimates import ConversationLookupResult, KnownConversationState

DEFAULT_CAPACITY_BYTES = 64 * 1024 * 1024
"""About 1,400,000 known prefixes."""
DEFAULT_TTL_SECONDS = 24 * 60 * 60.0


class ConversationStateTracker:
    """Remembers the billed input tokens of conversations and finds them again by content.

    Many conversations of one family live side by side, in any thread. Only digests and numbers
    are kept: beyond `capacity_bytes` (48 bytes each) what was not used goes first, and each
    expires `ttl_seconds` after it was last recorded. Trackers of equal `secret` (any bytes; by
    default random) make equal digests.
    """

    _core: ClassVar[Any] = Tracker

    def __init__(
        self,
        *,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        secret: bytes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        secret = os.urandom(32) if secret is None else secret
        self._tracker = self._core(secret, capacity_bytes, ttl_seconds)
        self._clock = clock

    def __len__(self) -> int:
        """Number of known conversations."""
        return len(self._tracker)

    def record_actual(
        self, messages: object, model_family: str, actual_tokens: int
    ) -> KnownConversationState | None:
        """The state that is now known, or None if there was nothing to record.

        `messages` is a list of messages of any dialect, or its JSON text. An `actual_tokens` of 0
        or less (a failed or cancelled call) and an empty list are not recorded. Raises
        RequestError if `messages` is text that is not JSON.
        """
        tokens = min(max(0, actual_tokens), MAX_TOKENS)
        state: KnownConversationState | None = self._tracker.record_actual(
            messages, model_family, tokens, time.time(), self._clock()
        )
        return state

    def lookup(self, messages: object, model_family: str) -> ConversationLookupResult:
        """The known part of `messages` within `model_family`: all, a prefix, or nothing.

        The deepest known prefix counts. A repeated message is a new message; a changed first
        message makes another conversation. Raises RequestError if `messages` is text that is not
        JSON.
        """
        found: ConversationLookupResult = self._tracker.lookup(
            messages, model_family, self._clock()
        )
        return found

    def clear(self) -> None:
        """Forget every conversation."""
        self._tracker.clear()
