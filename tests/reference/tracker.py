"""Known conversations by model family: the lookup of RFC 029, on prefix digests."""

from __future__ import annotations

from reference.digest import derive_key, message_digest, prefix_digests
from reference.prefix import Boundary, KnownTotal, PrefixStore
from reference.request import read_request
from tokenctx._models import ConversationLookupResult, KnownConversationState


class Tracker:
    """Remembers the billed total of conversations; time and secret come from the caller."""

    def __init__(self, secret: bytes, capacity_bytes: int, ttl_seconds: float) -> None:
        self._key = derive_key(secret)
        self._store = PrefixStore(capacity_bytes, ttl_seconds)

    def __len__(self) -> int:
        return len(self._store)

    def clear(self) -> None:
        """Forget every conversation."""
        self._store.clear()

    def record_actual(
        self,
        messages: object,
        model_family: str,
        actual_tokens: int,
        timestamp: float,
        now_seconds: float,
    ) -> KnownConversationState | None:
        """The state that is now known; None without messages or tokens."""
        request = read_request(messages, model="")
        if not request.messages or actual_tokens <= 0:
            return None
        digests = prefix_digests(self._key, model_family, request)[1:]
        boundary = Boundary(len(digests), digests[-1], KnownTotal(actual_tokens))
        self._store.record(digests, [boundary], now_seconds)
        hashes = tuple(message_digest(self._key, message).hex() for message in request.messages)
        return KnownConversationState(hashes, actual_tokens, model_family, timestamp)

    def lookup(
        self, messages: object, model_family: str, now_seconds: float
    ) -> ConversationLookupResult:
        """The deepest known prefix of `messages`."""
        request = read_request(messages, model="")
        digests = prefix_digests(self._key, model_family, request)
        known = self._store.deepest(digests[1:], now_seconds)
        if known is None:
            return ConversationLookupResult("none")
        new = tuple(range(known[0] + 1, len(request.messages)))
        return ConversationLookupResult("prefix" if new else "exact", known[1].tokens, new)
