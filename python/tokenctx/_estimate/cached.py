"""The prefixes that providers have probably cached, as one estimator knows them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tokenctx.money.cache.forecast import Cached, CacheKnowledge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenctx._core import CachePoints, Engine
    from tokenctx._results.estimates import Estimate
    from tokenctx.usage.normal import Usage


class CachedPrefixes:
    """Forecasts for estimates, learned from bills and taken over from a shared store."""

    def __init__(self, engine: Engine, capacity_bytes: int, clock: Callable[[], float]) -> None:
        self.knowledge = CacheKnowledge(capacity_bytes)
        self._engine = engine
        self._clock = clock

    def forecast(self, estimate: Estimate, points: CachePoints) -> Estimate:
        """The estimate with the tokens that the provider has probably cached of it."""
        cache = self.knowledge.forecast(points, estimate, self._clock())
        object.__setattr__(estimate, "cache", cache)  # which nobody else has yet
        return estimate

    def record(self, points: CachePoints, billed: Usage, profile: str) -> list[tuple[bytes, Any]]:
        """The prefixes that are cached since a call, each with what is known of it."""
        return self.knowledge.record(points, billed, profile, self._clock())

    def sealed(
        self, cached: list[tuple[bytes, Any]], root: bytes, unix: int
    ) -> list[tuple[bytes, bytes, bytes]]:
        """The entries of `cached` for a shared store."""
        seal = self._engine.seal_cached
        return [
            (root, digest, seal(digest, it.tokens, it.tail_tokens, it.lifetime_seconds, unix))
            for digest, it in cached
        ]

    def insert(self, digest: bytes, sealed: bytes) -> bool:
        """True if `sealed` says that a provider has cached the prefix `digest`."""
        found = self._engine.open_cached(digest, sealed)
        if found is None:
            return False
        used_seconds = self._clock() - max(0, int(time.time()) - found.used_seconds)
        lifetime = found.lifetime_seconds
        cached = Cached(found.tokens, found.tail_tokens, used_seconds, lifetime)
        self.knowledge.put_newer(digest, cached)
        return True
