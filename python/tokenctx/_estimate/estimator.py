"""Estimates before sending, records after the answer."""

from __future__ import annotations

import functools
import os
import time
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn, get_args
from weakref import WeakValueDictionary

from tokenctx._core import CallContext, Engine, _count_lines
from tokenctx._estimate.arguments import (
    LARGE_BYTES,
    LARGE_KNOWN_BYTES,
    RFC_006_CHARS_PER_TOKEN,
    is_large,
    milli,
    named_tables,
    other_arguments,
    require_common,
    require_names,
    require_settings,
    require_store,
    tenant_bytes,
)
from tokenctx._estimate.calibration import Calibration
from tokenctx._estimate.late import record_parts
from tokenctx._estimate.learned import LEARNED_VERSION, take_over
from tokenctx._estimate.loops import here, in_thread
from tokenctx._estimate.rfc import RfcNames
from tokenctx._estimate.tracker import DEFAULT_CAPACITY_BYTES, DEFAULT_TTL_SECONDS
from tokenctx._results.estimates import Estimate
from tokenctx._results.front import advised
from tokenctx._results.result import Hinting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Unpack

    from tokenctx._core import CountedLines, PartCounts
    from tokenctx._estimate.accuracy import Accuracy, AccuracyEvent, Drift, NotRecorded
    from tokenctx._estimate.arguments import NoFields
    from tokenctx._estimate.metrics import Metrics
    from tokenctx._estimate.profiles import Profiles
    from tokenctx._results.estimates import Dialect, Reason, RequestCount, TextCounter
    from tokenctx.money.cache.advice import CacheFinding
    from tokenctx.stores.protocol import PrefixStore
    from tokenctx.stores.shared import Question

Method = Literal["profile", "universal", "characters"]
WANTED_PREFIXES: Final = 16
"""Asked of a shared store at once: the borders of the last eight answers."""


class HybridTokenEstimator(RfcNames, Hinting):
    """Input tokens of a request: what the provider has billed before, plus a count of the rest.

    `estimate` before sending, `record` after the answer; both take raw JSON bytes, a dict, a list
    of messages, or an SDK's objects, of any dialect. Safe to share between threads. It keeps
    digests and numbers only, each for `ttl_seconds` after it was last recorded: known prefixes in
    at most `capacity_bytes` (up to 1 TiB; 0 keeps one), and an eighth of that each for recorded
    bodies and for the shapes that edits are compared with.

    `method` says how text is counted:

    - `profile` (default): by the vocabulary, framing, tool and image rules of the model's family;
    - `universal`: o200k_base for all models and 4 tokens per message, tool calls and results as
      JSON, attachments by their metadata;
    - `characters`: characters over `chars_per_token` (by provider in `provider_overrides`), times
      1.1 if `conservative`, and 4 tokens per message: no vocabulary at all (RFC 006).

    With `learning`, which the profile method only has, each recorded call teaches what its model's
    constants are; estimates are corrected once corrected counts have proven nearer to the bills
    than plain ones. `learned` and `learn` carry this to another process.

    `vocabularies` count text in place of the profile's encoding: an `Encoding`, or any object with
    a `name` and `count(text)`, for the models whose plain name begins with the key, else for the
    profiles whose name does, else for the provider of that name; the longest key wins. Its counts
    are not scaled. If one raises, the request is counted as if it were not there, and
    `assumptions` has `failed_vocabulary`. `count` may be called from several threads at once.

    `profiles` are your own: a profile in the shape of `profiles.json`, a list of them, or the path
    of a JSON file with one of these. One that is named as a profile of the package changes it for
    this estimator: what it does not say stays. A new one is `like` another (`unknown` by default)
    and says in `models` which names are counted with it. What is wrong in one raises TypeError or
    ValueError here, a file that cannot be read OSError.

    `on_accuracy` is called with each recorded call and the estimate before it; when it raises,
    that is logged once and counted in `stats`, and `record` goes on.

    `metrics` counts what this estimator does, for Prometheus or OpenTelemetry: `Metrics()`.

    With `caching`, estimates have `cache`: what of the request the provider has probably cached,
    told from the calls that were recorded. It costs another eighth of `capacity_bytes` at most.

    `secret` keys the digests (any bytes; by default random, so that nothing can be guessed from
    outside). `clock` gives seconds for the expiry.

    `shared` is a store that several processes share, such as `RedisPrefixStore(client)`: what one
    of them records, all of them know. It needs the same `secret` in all of them, 16 bytes or more,
    and costs an estimate at most its deadline; a failure of it costs accuracy only. With an
    asynchronous client use `aestimate`; `estimate` then knows what this process knows.
    """

    _core: ClassVar[Any] = Engine

    @advised("one estimator serves all models: HybridTokenEstimator().estimate(body, model)")
    def __init__(
        self,
        *,
        method: Method = "profile",
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        secret: bytes | None = None,
        chars_per_token: float = 3.5,
        conservative: bool = True,
        provider_overrides: Mapping[str, float] = RFC_006_CHARS_PER_TOKEN,
        vocabularies: Mapping[str, TextCounter] | None = None,
        profiles: Profiles | None = None,
        learning: bool = True,
        shared: PrefixStore | None = None,
        on_accuracy: Callable[[AccuracyEvent], None] | None = None,
        metrics: Metrics | None = None,
        caching: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from tokenctx._estimate.accuracy import AccuracyLog

        if shared is not None:
            require_store(shared)
            require_common(secret)
        require_settings(
            secret=secret,
            ttl_seconds=ttl_seconds,
            provider_overrides=provider_overrides,
            vocabularies=vocabularies,
            on_accuracy=on_accuracy,
            metrics=metrics,
            clock=clock,
        )
        if method not in get_args(Method):
            raise ValueError(
                f"method is {method!r}; it must be one of {', '.join(get_args(Method))}"
            )
        named, rows = named_tables(method, vocabularies, profiles)
        self._shared = None
        if shared is not None:
            from tokenctx.stores.shared import SharedPrefixes

            self._shared = SharedPrefixes(shared, ttl_seconds)
        self._method = method
        self._clock = clock
        self._engine = self._core(
            os.urandom(32) if secret is None else secret,
            capacity_bytes,
            ttl_seconds,
            method,
            milli(chars_per_token),
            {provider: milli(number) for provider, number in provider_overrides.items()},
            1100 if conservative else 1000,
            named,
            rows,
            is_learning=learning,
        )
        self._cache = None
        if caching:
            from tokenctx._estimate.cached import CachedPrefixes

            self._cache = CachedPrefixes(self._engine, capacity_bytes // 8, clock)
        self._wants: dict[str, Any] = {
            "wants_cache_points": caching,
            "wants_entries": shared is not None,
        }
        self._anyone = CallContext(**self._wants)
        self.accuracy_log = AccuracyLog(on_accuracy)
        _ALIVE[id(self)] = self
        self._calibration = Calibration()
        self.metrics = metrics
        if metrics is not None:
            metrics.attach(self)

    def __len__(self) -> int:
        """Number of known prefixes."""
        return len(self._engine)

    def __bool__(self) -> bool:
        """True, also while nothing is known."""
        return True

    def __repr__(self) -> str:
        shared = ", shared" if self._shared else ""
        return f"<HybridTokenEstimator {self._method}, {len(self)} known prefixes{shared}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an estimator cannot be pickled: make one in each process, and let them share what "
            "they know by shared=RedisPrefixStore(client) or export_known()"
        )

    def estimate(
        self,
        body: object = None,
        model: str | None = None,
        *,
        dialect: Dialect | None = None,
        provider: str | None = None,
        tenant: str | bytes | None = None,
        **other: Unpack[NoFields],
    ) -> Estimate:
        """The input tokens that `body` is expected to be billed for.

        System prompt and tools count too. `model` and `dialect` override what the body says.
        `provider` is who answers, where the model's name does not say it (`vertex_ai/...`) and it
        makes a difference: `"vertex"`, `"bedrock"`, `"groq"`, ...; litellm's words will do.
        `tenant` is whose request it is, any name: tenants never see what another has recorded.
        Raises RequestError for text that is not JSON or beyond a limit; no content of a JSON value
        raises. Linear in the body; above 2 KiB other threads run meanwhile.
        """
        if other:
            raise other_arguments(other)
        began = 0.0 if self.metrics is None else time.perf_counter()
        estimate = self._estimated(body, self._call(model, dialect, provider, tenant))
        return self._answer(estimate, began)

    async def aestimate(
        self,
        body: object,
        model: str | None = None,
        *,
        dialect: Dialect | None = None,
        provider: str | None = None,
        tenant: str | bytes | None = None,
    ) -> Estimate:
        """As `estimate`, without holding the loop: what is large is counted in a thread.

        A body is large from some 64 KB on that are new; a smaller one takes less than the way to a
        thread and back would be worth. Cancelled, it ends at once, and the thread with its count.
        Under another loop than asyncio's it counts where it is, and asks no shared store.
        """
        call = self._call(model, dialect, provider, tenant)
        run = in_thread if self._is_large(body, call) else here
        began = 0.0 if self.metrics is None else time.perf_counter()
        if self._shared is not None and self._shared.is_asked():
            found = await run(self._estimate_or_question, body, call)
            if isinstance(found, Estimate):
                return self._answer(found, began)
            await self._shared.alookup(found)
        return self._answer(await run(self._local, body, call), began)

    def record(
        self,
        body: object,
        usage: object,
        *,
        reply: object | None = None,
        model: str | None = None,
        dialect: Dialect | None = None,
        provider: str | None = None,
        tenant: str | bytes | None = None,
    ) -> bool:
        """True if the billed tokens of `body` are known from now on; see `record_event`."""
        call = self._call(model, dialect, provider, tenant)
        event, entries = self._recorded(body, usage, reply, call, tenant)
        if entries:
            self._put(entries)
        return bool(event)

    def record_event(
        self,
        body: object,
        usage: object,
        *,
        reply: object | None = None,
        model: str | None = None,
        dialect: Dialect | None = None,
        provider: str | None = None,
        tenant: str | bytes | None = None,
    ) -> AccuracyEvent | NotRecorded:
        """Know the billed tokens of `body` from now on: the bill, and the estimate before it.

        `usage` is the provider's usage object, a response that has one, a `UsageReader`, or the
        number of input tokens with all that was cached; a response also as it came: JSON or
        server-sent events, bytes or text, compressed by gzip or not, of at most 16 MiB. With
        `reply` (likewise the response, or the assistant's message; by default what `usage` has of
        it) the next turn starts from input and output.

        A call without input tokens, such as a failed or cancelled one, is not recorded, nor is
        the partial usage of a stream that was cut, a scaled one, or one of 2 ** 40 tokens: then it
        is a false `NotRecorded` with the reason, and `stats` counts it. Nor is the bill of
        a local server that has cut the prompt in silence, or one whose parts contradict its total.
        Nothing is learned from a bill far outside of a sure count (`bill_reasons`). Raises as
        `estimate`.
        """
        call = self._call(model, dialect, provider, tenant)
        event, entries = self._recorded(body, usage, reply, call, tenant)
        if entries:
            self._put(entries)
        return event

    def _put(self, entries: list[Any]) -> None:
        """Send `entries` on their way to the shared store."""
        if self._shared is not None:
            self._shared.put(entries)

    def _recorded(
        self,
        body: object,
        usage: object,
        reply: object | None,
        call: CallContext,
        tenant: str | bytes | None,
    ) -> tuple[AccuracyEvent | NotRecorded, list[Any]]:
        """The event, which is counted, and the entries to write to a shared store."""
        if self.metrics is None:
            return self._learn_from(body, usage, reply, call, tenant)
        began = time.perf_counter()
        event, entries = self._learn_from(body, usage, reply, call, tenant)
        self.metrics.count_record(event, call.provider, time.perf_counter() - began)
        return event, entries

    def _learn_from(
        self,
        body: object,
        usage: object,
        reply: object | None,
        call: CallContext,
        tenant: str | bytes | None,
    ) -> tuple[AccuracyEvent | NotRecorded, list[Any]]:
        answered, make_event, Drift, NotRecorded = record_parts()  # noqa: N806
        answer = answered(usage, reply, call.dialect)
        billed = answer.usage
        if billed is None:
            return self._refused(NotRecorded(answer.reason)), []
        known = billed.last_call or billed  # what a turn of several calls added up is no prefix
        input_tokens = known.input_tokens
        unix = int(time.time())
        recorded = self._engine.record(body, call, known, answer.reply, self._clock(), unix)
        if recorded is None:
            why: Reason = "no_messages" if input_tokens else "no_input"
            return self._refused(NotRecorded(why)), []
        if recorded.is_refused:
            return self._refused(NotRecorded(recorded.doubt)), []
        estimate, entries, drift = recorded.estimate, recorded.entries, recorded.drift
        if self._cache is not None and (points := recorded.cache_points) is not None:
            estimate = self._cache.forecast(estimate, points)
            if recorded.doubt is None:
                cached = self._cache.record(points, known, estimate.profile)
                if entries:
                    entries += self._cache.sealed(cached, entries[0][0], unix)
        reason = answer.reply_reason or (recorded.reply_fault if answer.is_reply_given else None)
        if reason is not None:
            self._engine.note(reason)
        unknown = "unknown_usage_field" if billed.unknown_fields else None
        bill_reasons = tuple(it for it in (recorded.doubt, unknown) if it is not None)
        for it in bill_reasons:
            self._engine.note(it)
        event: AccuracyEvent = make_event(
            estimate.profile,
            estimate.source,
            estimate.tokens,
            input_tokens,
            estimate,
            billed,
            tenant,
            reason,
            None if drift is None else Drift.of(drift),
            bill_reasons,
        )
        if not self.accuracy_log.add(event):
            self._engine.note("failed_callbacks")
            if self.metrics is not None:
                self.metrics.count_failure("on_accuracy")
        return event, entries

    def _refused(self, event: NotRecorded) -> NotRecorded:
        self._engine.note(f"not_recorded_{event.reason}")
        return event

    async def arecord(
        self,
        body: object,
        usage: object,
        *,
        reply: object | None = None,
        model: str | None = None,
        dialect: Dialect | None = None,
        provider: str | None = None,
        tenant: str | bytes | None = None,
    ) -> bool:
        """As `record`, without holding the loop; see `arecord_event`."""
        names: dict[str, Any] = {"model": model, "dialect": dialect, "provider": provider}
        return bool(await self.arecord_event(body, usage, reply=reply, tenant=tenant, **names))

    async def arecord_event(
        self,
        body: object,
        usage: object,
        *,
        reply: object | None = None,
        model: str | None = None,
        dialect: Dialect | None = None,
        provider: str | None = None,
        tenant: str | bytes | None = None,
    ) -> AccuracyEvent | NotRecorded:
        """As `record_event`, without holding the loop: a thread reads and counts what is large.

        An asynchronous shared store is written to by a task of the loop, which is not waited for.
        `on_accuracy` may then be called in the thread.
        """
        call = self._call(model, dialect, provider, tenant)
        is_long = self._is_large(body, call) or is_large(usage) or is_large(reply)
        run = in_thread if is_long else here
        event, entries = await run(self._recorded, body, usage, reply, call, tenant)
        if entries:
            self._put(entries)
        return event

    def flush(self, timeout_seconds: float = 1.0) -> bool:
        """True if all that was recorded is in the shared store now; waits for it, on shutdown.

        True without one. False if time has run out, and always as long as something waits for an
        asynchronous client: use `aflush`.
        """
        return self._shared is None or self._shared.flush(timeout_seconds)

    async def aflush(self, timeout_seconds: float = 1.0) -> bool:
        """As `flush`, without blocking the loop; then nothing uses the client any more."""
        return self._shared is None or await self._shared.aflush(timeout_seconds)

    def accuracy(self) -> dict[str, Accuracy]:
        """How near estimates were to the recorded bills, by profile; forgotten by `reset`.

        `drifts` of a profile says since when, and by how much, a provider counts otherwise.
        """
        return self.accuracy_log.figures(self.drifts())

    def drifts(self) -> tuple[Drift, ...]:
        """The last change in how it counts of each provider whose bills have shown one.

        It is told once by a warning in the log `tokenctx`, and as `drift` of the event that
        `on_accuracy` is called with. Until 200 more conversations have begun, bounds are wider.
        """
        from tokenctx._estimate.accuracy import Drift

        return tuple(map(Drift.of, self._engine.drifts()))

    def count_request(
        self,
        body: object,
        model: str | None = None,
        *,
        dialect: Dialect | None = None,
        provider: str | None = None,
    ) -> RequestCount:
        """The whole of `body` counted here, message by message, whatever is known of it.

        Raises as `estimate`.
        """
        count: RequestCount = self._engine.count(body, self._call(model, dialect, provider))
        return count

    def count_and_estimate(
        self,
        body: object,
        *,
        model: str | None = None,
        dialect: Dialect | None = None,
        provider: str | None = None,
        tenant: str | bytes | None = None,
    ) -> tuple[RequestCount, Estimate]:
        """The answers of `count_request` and `estimate`; `body` is read once if it can be.

        With a shared store or with `caching` it is read twice. Raises as `estimate`.
        """
        names: dict[str, Any] = {"model": model, "dialect": dialect, "provider": provider}
        if self._shared is not None or self._cache is not None:
            return self.count_request(body, **names), self.estimate(body, tenant=tenant, **names)
        began = 0.0 if self.metrics is None else time.perf_counter()
        call = self._call(tenant=tenant, **names)
        count, estimate = self._engine.count_and_estimate(body, call, self._clock())
        return count, self._answer(estimate, began)

    def _count_parts(
        self,
        body: object,
        *,
        model: str | None,
        dialect: Dialect | None,
        provider: str | None,
        tenant: str | bytes | None,
        **wanted: Any,
    ) -> tuple[RequestCount, Estimate, PartCounts]:
        """The answers of `count_and_estimate`, and the parts of `body` as the core counts them."""
        names: dict[str, Any] = {"model": model, "dialect": dialect, "provider": provider}
        call = self._call(tenant=tenant, **names)
        wanted["wants_estimate"] = self._shared is None and self._cache is None
        began = 0.0 if self.metrics is None else time.perf_counter()
        count, estimate, parts = self._engine.count_parts(body, call, self._clock(), **wanted)
        if estimate is None:
            return count, self.estimate(body, tenant=tenant, **names), parts
        return count, self._answer(estimate, began), parts

    def _estimate_and_fixed(
        self,
        body: object,
        least_tokens: int | None,
        *,
        tenant: str | bytes | None,
        **names: Any,
    ) -> tuple[Estimate, int | None]:
        """The estimate; if it has `least_tokens`, also the tokens around the conversation.

        Those are of the system prompt and all else around the messages; None if they are not told.
        """
        if least_tokens is None or self._shared is not None or self._cache is not None:
            return self.estimate(body, tenant=tenant, **names), None
        began = 0.0 if self.metrics is None else time.perf_counter()
        call = self._call(tenant=tenant, **names)
        least = max(0, least_tokens)
        estimate, fixed = self._engine.estimate_and_fixed(body, call, self._clock(), least)
        return self._answer(estimate, began), fixed

    def _count_lines(
        self,
        content: bytes,
        start: int,
        number: int,
        name: str,
        names: tuple[str | None, Dialect | None, str | None],
    ) -> CountedLines:
        """The counts of some lines of `content` from the byte `start` on, as `tokenctx count` does.

        A line may be left to the caller, who counts it by `count_and_estimate`. `names` are model,
        dialect and provider. For an estimator without a store, without `caching`, with no record.
        """
        call, now_seconds = self._call(*names), self._clock()
        return _count_lines(self._engine, call, content, start, number, name, now_seconds)

    def cache_advice(
        self,
        body: object,
        previous: object | None = None,
        *,
        model: str | None = None,
        dialect: Dialect | None = None,
        provider: str | None = None,
    ) -> tuple[CacheFinding, ...]:
        """Findings: what to do so that more of `body` is read from the provider's cache.

        `previous` is the body of the call before, if you have it: then the first place in which
        they differ is named, with the byte, and no text. Counts the whole of `body`; raises as
        `estimate`.
        """
        from tokenctx.money.cache.advice import findings
        from tokenctx.money.cache.rules import rule_of

        call = CallContext(model, dialect, provider, wants_cache_points=True)
        found: Any = self._engine.estimate(body, call, self._clock())
        estimate, points = found
        whole = dialect or estimate.dialect

        def counted(body: object) -> int:
            count = self.count_request(body, model=model, dialect=whole, provider=provider)
            return count.context_tokens + sum(count.message_tokens)

        rule = rule_of(points.model, points.vendor, points.provider)
        return findings(body, previous, points, rule, counted)

    def stats(self) -> dict[str, int]:
        """Numbers of all questions so far, and of all that is kept.

        `exact`, `delta` and `estimated` are answers by source, `resumed` those among them that read
        only the new part of a body, `recorded` recorded calls. Kept now are `known_prefixes`,
        `known_shapes` (conversations that edits are compared with) and `learned_models`; prefixes
        take `used_bytes` of `capacity_bytes`. `lookup_hits` and `lookup_misses` are searches for a
        known prefix, by `record` too; `superseded`, `evicted` and `expired` are prefixes that went:
        later ones of their conversation made them needless, room was needed, or their time was
        over. `not_recorded_` and `reply_` with a reason count what `record` refused or left out,
        `failed_callbacks` what `on_accuracy` raised; docs/operations.md has all of them.
        """
        return {**dict(self._engine.stats()), **(self._shared.stats() if self._shared else {})}

    def shared_state(self) -> dict[str, tuple[float, str]]:
        """Of the shared store, for `reads` and `writes`: seconds stopped, kind of last failure.

        0 and an empty text while it is used; an empty mapping without a shared store.
        """
        return self._shared.stopped() if self._shared else {}

    def export_known(self) -> bytes:
        """All known prefixes, so that a new process does not start cold; 40 bytes for each.

        `import_known` takes them in an estimator of the same `secret`. They hold keyed digests,
        numbers and the time that is left, and a MAC. What was learned goes by `learned`.
        """
        return bytes(self._engine.export_known(self._clock()))

    def import_known(self, data: bytes) -> int:
        """The number of prefixes that are known from now on and were not before.

        What is known already stays; each expires when it would have, or after `ttl_seconds`.
        Raises ValueError, and takes over nothing, if `data` is not what `export_known` of this
        release gave under the same secret, whole and unchanged.
        """
        return int(self._engine.import_known(data, self._clock()))

    def learned(self) -> dict[str, Any]:
        """The corrections learned from recorded calls, by model: numbers and names, as JSON."""
        return {"version": LEARNED_VERSION, "models": dict(self._engine.learned())}

    def learn(self, learned: Mapping[str, Any]) -> None:
        """Take over what another estimator has `learned`, in place of what is known of its models.

        Raises ValueError for anything else, and then takes over nothing beyond it.
        """
        take_over(learned, self._engine.set_learned)

    def reset(self) -> None:
        """Forget every known prefix, the correction factor and all that was learned."""
        self._engine.clear()
        if self._cache is not None:
            self._cache.knowledge.clear()
        self.accuracy_log.clear()
        self._calibration = Calibration()

    def _call(
        self,
        model: str | None = None,
        dialect: Dialect | None = None,
        provider: str | None = None,
        tenant: str | bytes | None = None,
    ) -> CallContext:
        """Who calls, as one value."""
        # The same value for all who say nothing of themselves: mostly nobody does.
        if model is None and dialect is None and provider is None and tenant is None:
            return self._anyone
        try:
            return CallContext(model, dialect, provider, tenant_bytes(tenant), **self._wants)
        except TypeError:
            require_names(model=model, dialect=dialect, provider=provider, tenant=tenant)
            raise

    def _is_large(self, body: object, call: CallContext) -> bool:
        """True if reading `body` may take longer than a loop should be held."""
        if not isinstance(body, bytes) or not LARGE_BYTES <= len(body) < LARGE_KNOWN_BYTES:
            return is_large(body)
        new_byte_count: int = self._engine.new_byte_count(body, call)
        return new_byte_count >= LARGE_BYTES

    def _answer(self, estimate: Estimate, began: float) -> Estimate:
        """The estimate as it is given away, and counted."""
        estimate = self._calibration.corrected(estimate)
        if self.metrics is not None:
            self.metrics.count_estimate(estimate, time.perf_counter() - began)
        return estimate

    def _estimated(self, body: object, call: CallContext) -> Estimate:
        """The estimate with what is known here or in the shared store."""
        if self._shared is not None and self._shared.is_asked():
            found = self._estimate_or_question(body, call)
            if isinstance(found, Estimate):
                return found
            self._shared.lookup(found)
        return self._local(body, call)

    def _estimate_or_question(self, body: object, call: CallContext) -> Estimate | Question:
        """The estimate; or the question for the shared store, if others may know more than we."""
        found = self._engine.estimate(body, call, self._clock(), WANTED_PREFIXES)
        if isinstance(found, Estimate):
            return found
        if self._cache is not None and isinstance(found, tuple):
            return self._cache.forecast(*found)
        from tokenctx.stores.shared import Question

        insert = functools.partial(self._insert, call)
        cached = (found.points, None if self._cache is None else self._cache.insert)
        learned = (found.learned, self._engine.insert_learned)
        return Question(found.root, found.prefixes, insert, *cached, *learned)

    def _local(self, body: object, call: CallContext) -> Estimate:
        found: Any = self._engine.estimate(body, call, self._clock())
        estimate: Estimate = found if self._cache is None else self._cache.forecast(*found)
        return estimate

    def _insert(self, call: CallContext, digest: bytes, sealed: bytes) -> bool:
        """Takes over a sealed total; True if it is that of `digest`, which is known from now on."""
        return bool(self._engine.insert(digest, sealed, call, self._clock(), int(time.time())))


_ALIVE: Final[WeakValueDictionary[int, HybridTokenEstimator]] = WeakValueDictionary()


def stats() -> dict[str, int]:
    """The sums of `HybridTokenEstimator.stats` over all in this process; empty without one."""
    alive = [estimator for it in _ALIVE.valuerefs() if (estimator := it()) is not None]
    total: dict[str, int] = {}
    for name, count in (item for estimator in alive for item in estimator.stats().items()):
        total[name] = total.get(name, 0) + count
    return total
