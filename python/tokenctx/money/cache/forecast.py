"""The tokens that a call is expected to read from the provider's cache and to write to it.

Nothing of a request is kept but keyed digests of its prefixes, numbers of tokens and times. A
prefix is warm when a call that ended there was recorded and its lifetime has not passed; how many
of its tokens are cached is what that call was billed for, not a count.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from tokenctx._results.result import CacheForecast, maker
from tokenctx.money.cache.rules import minimum_tokens, rule_of

if TYPE_CHECKING:
    from tokenctx._core import CachePoints
    from tokenctx._results.estimates import Estimate
    from tokenctx._results.result import CacheLabel, CacheReason
    from tokenctx.money.cache.rules import Rule
    from tokenctx.usage.normal import Usage

CACHED_BYTES: Final = 384
"""Bytes that one known prefix of a provider's cache is charged with, its digest included."""
SLACK_TOKENS: Final = 64
SLACK_PERCENT: Final = 2
"""The lower bound of the tokens that are read leaves this and a few tokens."""
SURE_SHARE: Final = 0.9
"""From this share of hits on, a read is expected and not only possible."""
PRIOR_CALLS: Final = 4
"""Calls that the share of a rule stands for."""
RECENT_CALLS: Final = 100
"""A learned share forgets what is older."""
_forecast: Final[type[CacheForecast]] = maker(CacheForecast)


class Cached(NamedTuple):
    """A prefix that the provider has cached."""

    tokens: int
    tail_tokens: int
    used_seconds: float
    lifetime_seconds: int
    is_beyond_marks: bool = False
    """By the bill, who sends the request on has marked more of it than we see."""


class CacheKnowledge:
    """Knowledge of the providers' caches: warm prefixes, and how often they were read.

    It needs no lock, which a fork could copy locked: each step is one of an `OrderedDict`.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = max(1, capacity_bytes // CACHED_BYTES)
        self._cached: OrderedDict[bytes, Cached] = OrderedDict()
        self._shares: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._cached)

    def clear(self) -> None:
        """Forget all."""
        self._cached.clear()
        self._shares.clear()

    def put(self, digest: bytes, cached: Cached) -> None:
        """Remember a cached prefix; the one that was used longest ago goes first."""
        self._cached[digest] = cached
        try:
            self._cached.move_to_end(digest)
            if len(self._cached) > self._capacity:
                self._cached.popitem(last=False)
        except KeyError:  # another thread was quicker
            pass

    def put_newer(self, digest: bytes, cached: Cached) -> None:
        """As `put`, unless what is known was used later."""
        known = self._cached.get(digest)
        if known is None or known.used_seconds < cached.used_seconds:
            self.put(digest, cached)

    def forecast(self, points: CachePoints, estimate: Estimate, now: float) -> CacheForecast:
        """The forecast for a call of this estimate, seen at `now`."""
        tokens, most = estimate.tokens, max(estimate.tokens, estimate.high)
        rule = rule_of(points.model, points.vendor, points.provider)
        if rule is None:
            return _unread(tokens, "unknown", "no_rule", high=most)
        if points.has_cached_content:
            return _unread(tokens, "unknown", "cached_content", rule=rule, high=most)
        if rule.kind == "automatic":
            return self._automatic(rule, points, (tokens, most), estimate.profile, now)
        return self._marked(rule, points, (tokens, most), now)

    def record(
        self, points: CachePoints, usage: Usage, profile: str, now: float
    ) -> list[tuple[bytes, Cached]]:
        """Learn from a billed call; what is cached since, for other processes."""
        rule = rule_of(points.model, points.vendor, points.provider)
        if rule is None or points.has_cached_content or not points.points:
            return []
        found = self._deepest(rule, points, _limit(rule, points))
        lifetime = _lifetime_seconds(rule, points)
        read, written = usage.cache_read_tokens, usage.cache_write_tokens
        if usage.cache_write_1h_tokens and usage.cache_write_1h_tokens == written:
            lifetime = max(lifetime, 3600)
        if rule.kind == "automatic":
            self._learn(rule, points, found, read, profile, now)
            put = [(points.points[-1][0], usage.input_tokens)]
            if points.reply is not None:
                answer = usage.output_tokens - usage.reasoning_tokens
                put.append((points.reply, usage.input_tokens + max(0, answer)))
            put += points.contexts[-1:]
            entries = [(digest, Cached(tokens, 0, now, lifetime)) for digest, tokens in put]
        elif read + written == 0:
            return []
        else:
            behind = points.tokens_after_mark
            is_beyond = usage.uncached_input_tokens < behind / 2
            tail = max(0, usage.uncached_input_tokens - (0 if is_beyond else behind))
            end = points.points[-1][0] if is_beyond else _end(rule, points)
            entries = [(end, Cached(read + written, tail, now, lifetime, is_beyond))]
            least = minimum_tokens(rule, points.model)
            is_in_context = bool(points.marks) and points.marks[0].message_count == 0
            for digest, tokens in points.contexts if is_in_context else ():
                tokens = min(tokens, read + written)  # noqa: PLW2901
                if tokens >= least and digest != end:
                    entries.append((digest, Cached(tokens, 0, now, lifetime)))
        if found is not None and read > 0:  # being read renews it
            digest, cached = found
            if all(digest != it for it, _ in entries):
                entries.append((digest, cached._replace(used_seconds=now)))
        for digest, cached in entries:
            self.put(digest, cached)
        return entries

    def _marked(
        self, rule: Rule, points: CachePoints, sizes: tuple[int, int], now: float
    ) -> CacheForecast:
        tokens, most = sizes
        limit = _limit(rule, points)
        found = self._deepest(rule, points, limit)
        lifetime = _lifetime_seconds(rule, points)
        if rule.kind == "marked" and not points.marks and found is None:
            return _unread(tokens, "none", "no_marks", rule=rule)
        tail = 0 if found is None else found[1].tail_tokens
        is_beyond = found is not None and found[1].is_beyond_marks
        end = max(0, tokens - (0 if is_beyond else points.tokens_after_mark) - tail)
        if found is not None and points.marks and not is_beyond and found[0] == _end(rule, points):
            end = min(found[1].tokens, tokens)  # billed up to this very mark
        end_at_most = end + most - tokens
        least = minimum_tokens(rule, points.model)
        if end < least:
            high = end_at_most if end_at_most >= least else 0
            return _unread(tokens, "none", "below_minimum", rule=rule, high=high)
        write = end if rule.is_write_billed else 0
        if found is None:
            reason: CacheReason = "nothing_known"
            if self._deepest(rule, points, limit, looks_back=False) is not None:
                reason = "beyond_lookback"
            return _forecast(
                "none", 0, write, tokens - write, 0, end_at_most, lifetime, rule.name, reason
            )
        cached = found[1]
        read = min(cached.tokens, end)
        age = now - cached.used_seconds
        if age > max(cached.lifetime_seconds, rule.longest_seconds):
            return _forecast(
                "none", 0, write, tokens - write, 0, read, lifetime, rule.name, "expired"
            )
        is_sure = age <= cached.lifetime_seconds
        write = end - read if rule.is_write_billed else 0
        low = max(0, read - read * SLACK_PERCENT // 100 - SLACK_TOKENS) if is_sure else 0
        label: CacheLabel = "expected" if is_sure else "possible"
        if not is_sure:
            read, write = 0, end if rule.is_write_billed else 0
        return _forecast(
            label,
            read,
            write,
            tokens - read - write,
            low,
            end_at_most,
            lifetime,
            rule.name,
            "warm" if is_sure else "expired",
        )

    def _automatic(
        self, rule: Rule, points: CachePoints, sizes: tuple[int, int], profile: str, now: float
    ) -> CacheForecast:
        tokens, most = sizes
        least = minimum_tokens(rule, points.model)
        lifetime = _lifetime_seconds(rule, points)
        high = _blocks(rule, most)
        if high < least:
            return _unread(tokens, "none", "below_minimum", rule=rule)
        found = self._deepest(rule, points, None)
        read = 0 if found is None else _blocks(rule, min(found[1].tokens, tokens))
        if found is None or read < least:
            return _unread(tokens, "none", "nothing_known", rule=rule, high=high, lifetime=lifetime)
        age = now - found[1].used_seconds
        if age > max(found[1].lifetime_seconds, rule.longest_seconds):
            return _unread(tokens, "none", "expired", rule=rule, high=high, lifetime=lifetime)
        share = self._share(rule, profile)
        is_sure = share >= SURE_SHARE and age <= found[1].lifetime_seconds
        if age > found[1].lifetime_seconds:
            share /= 2
        low = read // 2 if is_sure else 0
        read = read if share >= 0.5 else 0
        label: CacheLabel = "expected" if is_sure else "possible"
        return _forecast(
            label, read, 0, tokens - read, low, high, lifetime, rule.name, "best_effort"
        )

    def _deepest(
        self, rule: Rule, points: CachePoints, limit: int | None, *, looks_back: bool = True
    ) -> tuple[bytes, Cached] | None:
        """The deepest prefix that may be read and is known to be cached."""
        lookback = rule.lookback_blocks if looks_back else None
        for digest, _, blocks in reversed(points.points):
            cached = self._cached.get(digest)
            if cached is None:
                continue
            if limit is not None and blocks > limit and not cached.is_beyond_marks:
                continue
            if (
                lookback is None
                or cached.is_beyond_marks
                or not points.marks
                or any(0 <= mark.blocks - blocks <= lookback for mark in points.marks)
            ):
                return digest, cached
        return None

    def _share(self, rule: Rule, profile: str) -> float:
        hits, calls = self._shares.get(profile, (0.0, 0.0))
        return (hits + PRIOR_CALLS * rule.share) / (calls + PRIOR_CALLS)

    def _learn(
        self,
        rule: Rule,
        points: CachePoints,
        found: tuple[bytes, Cached] | None,
        read: int,
        profile: str,
        now: float,
    ) -> None:
        """Count whether a warm prefix was read."""
        if found is None or now - found[1].used_seconds > found[1].lifetime_seconds:
            return
        expected = _blocks(rule, found[1].tokens)
        if expected < minimum_tokens(rule, points.model):
            return
        hits, calls = self._shares.get(profile, (0.0, 0.0))
        if calls >= RECENT_CALLS:
            hits, calls = hits * (1 - 1 / RECENT_CALLS), calls * (1 - 1 / RECENT_CALLS)
        self._shares[profile] = hits + (read >= expected / 2), calls + 1


def _lifetime_seconds(rule: Rule, points: CachePoints) -> int:
    """How long a prefix that this call writes is kept after its last use."""
    of_marks = [it.lifetime_seconds for it in points.marks if it.lifetime_seconds]
    return (of_marks[-1] if of_marks else points.retention_seconds) or rule.lifetime_seconds


def _limit(rule: Rule, points: CachePoints) -> int | None:
    """Blocks up to the last mark; None: all of them."""
    if rule.kind != "marked" or not points.marks:
        return None
    return points.marks[-1].blocks


def _end(rule: Rule, points: CachePoints) -> bytes:
    """The prefix up to which the call was cached."""
    limit = _limit(rule, points)
    ends = (it for it in reversed(points.points) if limit is None or it[2] <= limit)
    return next(ends, points.points[-1])[0]


def _blocks(rule: Rule, tokens: int) -> int:
    return tokens - tokens % rule.block_tokens


def _unread(
    tokens: int,
    label: CacheLabel,
    reason: CacheReason,
    *,
    rule: Rule | None = None,
    high: int = 0,
    lifetime: int | None = None,
) -> CacheForecast:
    name = "" if rule is None else rule.name
    return _forecast(label, 0, 0, tokens, 0, high, lifetime, name, reason)
