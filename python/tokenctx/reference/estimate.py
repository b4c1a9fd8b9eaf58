"""The engine: body -> request -> digests -> known prefix -> counts -> estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tokenctx._models import Estimate, RequestCount
from tokenctx.reference.bounds import bounds_permille, interval, row_names, stratum_of
from tokenctx.reference.count import Counter, last_user_index
from tokenctx.reference.digest import derive_key, link, message_digest, prefix_digests
from tokenctx.reference.model import Reasoning
from tokenctx.reference.prefix import KnownTotal, PrefixStore
from tokenctx.reference.profile import Profile, characters, plain_model_name, resolve, universal
from tokenctx.reference.request import read_reply, read_request

if TYPE_CHECKING:
    from tokenctx._models import Quality, Source
    from tokenctx.reference.bounds import Scope
    from tokenctx.reference.model import Request

METHODS = ("profile", "universal", "characters")
GUESSES = ("unknown_", "remote_", "unreadable_", "server_")
"""Beginnings of the assumptions that make a count a guess."""


@dataclass(frozen=True)
class Reading:
    """A request, what it is counted with, and its prefix digests."""

    request: Request
    profile: Profile
    is_known_model: bool
    digests: list[bytes]


class Engine:
    """Estimates and records; no clock, no randomness: time and secret come from the caller."""

    def __init__(
        self,
        secret: bytes,
        capacity_bytes: int,
        ttl_seconds: float,
        method: str,
        milli_characters_per_token: int,
        milli_by_provider: dict[str, int],
        factor_permille: int,
    ) -> None:
        if method not in METHODS:
            raise ValueError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
        self._key = derive_key(secret)
        self._store = PrefixStore(capacity_bytes, ttl_seconds)
        self._method = method
        self._milli = milli_characters_per_token
        self._milli_by_provider = milli_by_provider
        self._factor_permille = factor_permille

    def __len__(self) -> int:
        return len(self._store)

    def clear(self) -> None:
        """Forget every known prefix."""
        self._store.clear()

    def estimate(
        self, body: object, model: str | None, dialect: str | None, now_seconds: float
    ) -> Estimate:
        """The estimate for `body` with what is known at `now_seconds`."""
        reading = self._read(body, model, dialect)
        known = self._store.deepest(reading.digests[1:], now_seconds)
        if known is None:
            return self._full(reading)
        index, total = known
        return self._delta(reading, index + 1, total)

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
    ) -> bool:
        """Whether the total of `body`, and that of `body` and `reply`, is known from now on."""
        messages = () if reply is None else read_reply(reply)
        reading = self._read(body, model, dialect)
        if input_tokens <= 0 or not reading.request.messages:
            return False
        prefix = reading.digests[-1]
        self._store.record(prefix, KnownTotal(input_tokens), now_seconds)
        if messages and output_tokens > 0:
            for message in messages:
                prefix = link(self._key, prefix, message_digest(self._key, message))
            parts = [part for message in messages for part in message.parts]
            comes_back = any(isinstance(part, Reasoning) for part in parts)
            output_tokens = max(0, output_tokens - (0 if comes_back else reasoning_tokens))
            derived = max(1, output_tokens + reading.profile.reply_tokens)
            self._store.record(prefix, KnownTotal(input_tokens + derived, derived), now_seconds)
        return True

    def count(self, body: object, model: str | None, dialect: str | None) -> RequestCount:
        """The whole request counted here, without what is known."""
        reading = self._read(body, model, dialect)
        counter = Counter(reading.profile, reading.request)
        context = counter.context(reading.request)
        messages = counter.messages(0)
        return RequestCount(
            tokens=context + sum(messages),
            context_tokens=context,
            message_tokens=tuple(messages),
            dialect=reading.request.dialect,
            model=reading.request.model,
            profile=reading.profile.name,
            encoding=reading.profile.encoding,
            quality=self._quality(reading, counter),
            assumptions=self._assumptions(reading, counter),
        )

    def _read(self, body: object, model: str | None, dialect: str | None) -> Reading:
        request = read_request(body, model=model, dialect=dialect)
        profile, is_known = resolve(request.model, request.dialect)
        if self._method == "universal":
            profile = universal(profile)
        elif self._method == "characters":
            milli = self._milli_by_provider.get(profile.provider, self._milli)
            profile = characters(profile, milli, self._factor_permille)
        reading = Reading(request, profile, is_known, [])
        digests = prefix_digests(self._key, self._family(reading), request)
        return Reading(request, profile, is_known, digests)

    def _family(self, reading: Reading) -> str:
        """What shares known totals: all models of a profile, or one model of unknown profile."""
        if reading.is_known_model and self._method == "profile":
            return reading.profile.name
        return f"{reading.profile.name}/{plain_model_name(reading.request.model)}"

    def _dropped_reasoning(self, reading: Reading, counter: Counter, known: int) -> int:
        """Reasoning that the known total holds and that a new turn of the user drops."""
        messages = reading.request.messages
        then, now = last_user_index(messages, known), last_user_index(messages, len(messages))
        if reading.profile.reasoning != "loop" or now <= then:
            return 0
        return sum(counter.reasoning(messages[index]) for index in range(then + 1, known))

    def _delta(self, reading: Reading, known_count: int, total: KnownTotal) -> Estimate:
        counter = Counter(reading.profile, reading.request)
        new = sum(counter.messages(known_count))
        dropped = self._dropped_reasoning(reading, counter, known_count)
        known = KnownTotal(max(0, total.tokens - dropped), total.derived_tokens)
        count = len(reading.request.messages) - known_count
        source: Source = "exact" if count == 0 and total.is_billed else "delta"
        return self._answer(reading, counter, source, known, new, count)

    def _full(self, reading: Reading) -> Estimate:
        counter = Counter(reading.profile, reading.request)
        tokens = counter.context(reading.request) + sum(counter.messages(0))
        count = len(reading.request.messages)
        return self._answer(reading, counter, "estimated", KnownTotal(0), tokens, count)

    def _answer(
        self,
        reading: Reading,
        counter: Counter,
        source: Source,
        known: KnownTotal,
        counted: int,
        count: int,
    ) -> Estimate:
        quality = "exact" if source == "exact" else self._quality(reading, counter)
        if quality == "exact" and not known.is_billed:
            quality = "calibrated"
        assumptions = self._assumptions(reading, counter)
        tokens = known.tokens + counted
        # What is not billed yet may be as wrong as a count.
        uncertain = counted + min(known.derived_tokens, known.tokens)
        start = len(reading.request.messages) - count
        scope: Scope = "new" if known.is_billed else "reply"
        scope = "whole" if source == "estimated" else scope
        profile, is_known_model = reading.profile, reading.is_known_model
        names = row_names(profile.name, profile.provider, is_known_model=is_known_model)
        stratum = stratum_of(reading.request, start, assumptions)
        permille = bounds_permille(names, scope, stratum)
        low, high = interval(tokens, uncertain, permille)
        if source == "exact":
            low, high, assumptions = tokens, tokens, ()
        return Estimate(
            tokens=tokens,
            source=source,
            known_tokens=known.tokens,
            estimated_tokens=counted,
            new_message_count=count,
            quality=quality,
            low=low,
            high=high,
            assumptions=assumptions,
            dialect=reading.request.dialect,
            model=reading.request.model,
            profile=reading.profile.name,
            context_window_tokens=reading.profile.context_window_tokens,
        )

    def _quality(self, reading: Reading, counter: Counter) -> Quality:
        guesses = self._assumptions(reading, counter)
        if any(name.startswith(GUESSES) for name in guesses):
            return "heuristic"
        if reading.profile.quality == "exact":
            return "exact" if counter.only_text else "calibrated"
        return cast("Quality", reading.profile.quality)

    def _assumptions(self, reading: Reading, counter: Counter) -> tuple[str, ...]:
        unknown = set() if reading.is_known_model else {"unknown_model"}
        return tuple(sorted(reading.request.assumptions | counter.assumptions | unknown))
