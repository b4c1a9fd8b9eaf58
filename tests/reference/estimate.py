"""The engine: body -> request -> digests -> known prefix -> counts -> estimate."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar, cast

from reference.bounds import (
    bounds_permille,
    interval,
    is_guessed,
    row_names,
    stratum_of,
    stratum_of_context,
)
from reference.branch import Shape, Shapes
from reference.count import Counter, FailedVocabularyError, last_user_index
from reference.difference import edit, is_narrower, nearest, seen_messages
from reference.digest import (
    derive_key,
    family_digest,
    first_tools,
    link,
    message_digest,
    options_digest,
    prefix_digests,
    public_name,
    tenant_key,
)
from reference.entry import Sealer
from reference.learn import Features, Learners, Lesson, imported
from reference.model import Reasoning, ToolCall, ToolResult
from reference.prefix import Boundary, KnownTotal, PrefixStore
from reference.profile import (
    LAYOUTS,
    Profile,
    Table,
    bundled,
    characters,
    model_name,
    universal,
)
from reference.request import read_reply, read_request
from reference.rounds import without_rounds
from tokenctx._models import Estimate, RequestCount

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference.bounds import Scope as Unbilled
    from reference.difference import Edit
    from reference.learn import Learner
    from reference.model import Message, Request
    from tokenctx._estimate.vocabularies import TextCounter
    from tokenctx._models import Quality, Source

T = TypeVar("T")
METHODS = ("profile", "universal", "characters")
GUESSES = ("unknown_", "remote_", "unreadable_", "server_")
"""Beginnings of the assumptions that make a count a guess."""
UNTOLD = ("remote_", "unreadable_", "server_")
"""Beginnings of the assumptions about what the request does not hold."""
FAILED_VOCABULARY = "failed_vocabulary"
"""Assumed if the user's vocabulary could not count."""
MAX_HALF_TOKENS = 128
"""The longest half bill that is looked for."""
MAX_MODEL_BYTES = 200
"""Nothing is learned about a model whose name is longer."""


@dataclass(frozen=True)
class Tenant:
    """One tenant, or all who name none: the key of its digests, and a suffix of its models."""

    key: bytes
    suffix: str = ""


@dataclass(frozen=True)
class Reading:
    """A request, what it is counted with, and its prefix digests."""

    request: Request
    profile: Profile
    is_known_model: bool
    tenant: Tenant
    digests: list[bytes]
    """Of the context, and of the first k messages."""
    message_digests: list[bytes]
    family: bytes
    """Identity of what counts depend on."""
    options: bytes


@dataclass(frozen=True)
class Count:
    """What was counted beyond a known prefix."""

    counter: Counter
    known: KnownTotal
    tokens: int
    new_message_count: int
    features: Features
    has_other_options: bool = False
    """Whether the known total was billed with other options; they are counted then."""
    context_tokens: int = 0
    """What stands before the messages, if it was counted."""
    messages: tuple[int, ...] = ()
    """Each message beyond the known prefix."""
    edit: Edit | None = None
    """What differs from the known conversation, if it is not a prefix."""


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
        named_vocabularies: list[tuple[str, TextCounter]],
        profile_rows: str | None = None,
        *,
        is_learning: bool,
    ) -> None:
        if method not in METHODS:
            raise ValueError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
        self._key = derive_key(secret)
        self._sealer = Sealer(secret)
        self._store = PrefixStore(capacity_bytes, ttl_seconds)
        self._shapes = Shapes(capacity_bytes // 8, ttl_seconds)
        self._method = method
        self._milli = milli_characters_per_token
        self._milli_by_provider = milli_by_provider
        self._factor_permille = factor_permille
        self._table = Table(json.loads(profile_rows)) if profile_rows else bundled()
        self._is_learning = is_learning and method == "profile"
        self._learners = Learners()
        self._counts = dict.fromkeys(("exact", "delta", "estimated", "resumed", "recorded"), 0)
        self._vocabularies = dict(sorted(named_vocabularies, key=lambda it: -len(it[0])))

    def __len__(self) -> int:
        return len(self._store)

    def clear(self) -> None:
        """Forget every known prefix and all that was learned."""
        self._store.clear()
        self._shapes.clear()
        self._learners.clear()

    def estimate(
        self,
        body: object,
        model: str | None,
        dialect: str | None,
        provider: str | None,
        tenant: bytes | None,
        now_seconds: float,
        wanted: int = 0,
    ) -> Estimate | list[bytes]:
        """The estimate for `body` with what is known at `now_seconds`.

        Or, if others may know more, at most `wanted` prefixes to ask them for, behind the root.
        """
        reading = self._read(body, model, dialect, provider, tenant)
        prefix = self._store.deepest(reading.digests[1:], now_seconds)
        if digests := _wanted(reading, prefix[0] + 1 if prefix else 0, wanted):
            return [_root(reading), *digests]
        estimate = self._estimate(reading, prefix, now_seconds)
        self._counts[estimate.source] += 1
        return estimate

    def _estimate(
        self, reading: Reading, prefix: tuple[int, KnownTotal] | None, now_seconds: float
    ) -> Estimate:
        learner = self._learners.used(self._model(reading))
        count = self._difference(reading, prefix, learner, now_seconds)
        count = count or self._count(reading, prefix)
        counted = count.tokens
        if learner is not None and FAILED_VOCABULARY not in count.counter.assumptions:
            counted = learner.corrected(count.features, counted)
        source: Source = "estimated" if prefix is None and count.edit is None else "delta"
        is_known = (
            count.edit is None and count.new_message_count == 0 and not count.has_other_options
        )
        if prefix is not None and is_known and count.known.is_billed:
            source = "exact"
        return self._answer(reading, count, source, counted)

    def record(
        self,
        body: object,
        model: str | None,
        dialect: str | None,
        provider: str | None,
        tenant: bytes | None,
        input_tokens: int,
        output_tokens: int,
        reasoning_tokens: int,
        reply: object | None,
        now_seconds: float,
        unix_seconds: int,
    ) -> tuple[int, Source, str, list[tuple[bytes, bytes, bytes]]] | None:
        """Know the total of `body`, and that of `body` and `reply`, from now on.

        Tokens, source and profile of the estimate before, and what others may be told: root,
        prefix and sealed total. None if nothing was recorded.
        """
        messages = () if reply is None else read_reply(reply)
        reading = self._read(body, model, dialect, provider, tenant)
        digests = reading.digests[1:]
        found = self._store.deepest(digests, now_seconds)
        expected = self._estimate(reading, found, now_seconds)
        count = self._count(reading, found)
        self._learn(reading, count, input_tokens)
        if input_tokens <= 0 or not reading.request.messages:
            return None
        options = reading.options, self._options_tokens(reading)
        known = KnownTotal(input_tokens, 0, *options)
        reply_messages: tuple[Message, ...] = ()
        boundaries = [Boundary(len(digests), digests[-1], known)]
        if messages and output_tokens > 0:
            prefix, key = digests[-1], reading.tenant.key
            for message in messages:
                prefix = link(key, prefix, message_digest(key, message))
            parts = [part for message in messages for part in message.parts]
            comes_back = any(
                isinstance(part, Reasoning)
                or (isinstance(part, ToolCall) and part.signature_bytes > 0)
                for part in parts
            )
            output_tokens = max(0, output_tokens - (0 if comes_back else reasoning_tokens))
            derived = max(1, output_tokens + reading.profile.reply_tokens)
            known = KnownTotal(input_tokens + derived, derived, *options)
            boundaries.append(Boundary(len(digests) + len(messages), prefix, known))
            reply_messages = messages
        self._store.record(digests, boundaries, now_seconds)
        if shape := self._shape(reading, count, known, reply_messages):
            self._shapes.record(shape, now_seconds)
        self._counts["recorded"] += 1
        seal = self._sealer.seal
        entries = [
            (_root(reading), it.digest, seal(it.digest, it.total, unix_seconds))
            for it in boundaries
        ]
        return expected.tokens, expected.source, expected.profile, entries

    def insert(
        self,
        digest: bytes,
        sealed: bytes,
        tenant: bytes | None,  # noqa: ARG002  # its share of the store is a matter of the core
        now_seconds: float,
        unix_seconds: int,
    ) -> bool:
        """Take over what another process has sealed for `digest`; False if it has not."""
        opened = self._sealer.open(digest, sealed)
        if opened is None:
            return False
        known, recorded_seconds = opened
        age_seconds = max(0, unix_seconds - recorded_seconds)
        self._store.insert(digest, known, now_seconds - age_seconds)
        return True

    def stats(self) -> list[tuple[str, int]]:
        """Names and numbers; nothing is ever resumed here."""
        kept = {"known_shapes": len(self._shapes), "learned_models": len(self._learners)}
        return [*self._counts.items(), *kept.items(), *self._store.stats().items()]

    def learned(self) -> list[tuple[str, int, list[float]]]:
        """Lead, corrections and covariance by model."""
        return [(model, *learner.export()) for model, learner in self._learners.items()]

    def set_learned(self, model: str, lead: int, numbers: list[float]) -> bool:
        """Set what was learned about a model; False if the numbers cannot be such."""
        learner = imported(lead, numbers)
        if learner is not None:
            self._learners.put(model, learner)
        return learner is not None

    def count(
        self, body: object, model: str | None, dialect: str | None, provider: str | None
    ) -> RequestCount:
        """The whole request counted here, without what is known."""
        reading = self._read(body, model, dialect, provider)
        (context, messages), counter = self._counted(
            reading, lambda counter: (counter.context(reading.request), counter.messages(0))
        )
        return RequestCount(
            tokens=context + sum(messages),
            context_tokens=context,
            message_tokens=tuple(messages),
            dialect=reading.request.dialect,
            model=reading.request.model,
            profile=reading.profile.name,
            encoding=counter.encoding,
            quality=self._quality(reading, counter),
            assumptions=self._assumptions(reading, counter),
        )

    def _read(
        self,
        body: object,
        model: str | None,
        dialect: str | None,
        provider: str | None,
        tenant_name: bytes | None = None,
    ) -> Reading:
        request = read_request(body, model=model, dialect=dialect)
        profile, is_known = self._table.resolve(request.model, request.dialect, provider)
        if self._method == "universal":
            profile = universal(profile)
        elif self._method == "characters":
            milli = self._milli_by_provider.get(profile.provider, self._milli)
            profile = characters(profile, milli, self._factor_permille)
        tenant = self._tenant(tenant_name)
        family = self._family(request, profile, is_known_model=is_known)
        return Reading(
            request,
            profile,
            is_known,
            tenant,
            prefix_digests(tenant.key, family, request),
            [message_digest(tenant.key, message) for message in request.messages],
            family_digest(tenant.key, family),
            options_digest(tenant.key, request, hides_tools=profile.hides_tools(request)),
        )

    def _tenant(self, name: bytes | None) -> Tenant:
        if name is None:
            return Tenant(self._key)
        key = tenant_key(self._key, name)
        return Tenant(key, "@" + public_name(key).hex())

    def _counted(self, reading: Reading, work: Callable[[Counter], T]) -> tuple[T, Counter]:
        """What `work` counts, with the user's vocabulary if there is one that does not fail."""
        own = self._vocabulary(reading)
        if own is not None:
            counter = Counter(reading.profile, reading.request, own)
            try:
                return work(counter), counter
            except FailedVocabularyError:
                pass
        counter = Counter(reading.profile, reading.request)
        if own is not None:
            counter.assumptions.add(FAILED_VOCABULARY)
        return work(counter), counter

    def _vocabulary(self, reading: Reading) -> TextCounter | None:
        """The user's: the longest beginning of the model's name, the profile's, the provider."""
        model, profile = model_name(reading.request.model).own, reading.profile
        for fits in (model.startswith, profile.name.startswith, profile.provider.__eq__):
            for name, vocabulary in self._vocabularies.items():
                if fits(name):
                    return vocabulary
        return None

    def _family(self, request: Request, profile: Profile, *, is_known_model: bool) -> str:
        """What shares known totals: all models of a profile, or one model of unknown profile."""
        own = (
            ""
            if is_known_model and self._method == "profile"
            else f"/{model_name(request.model).own}"
        )
        return profile.name + own + (" raw" if request.is_raw else "")

    def _dropped_reasoning(self, reading: Reading, counter: Counter, known: int) -> list[int]:
        """Reasoning of each of the `known` messages that a new turn of the user drops."""
        messages = reading.request.messages
        then, now = last_user_index(messages, known), last_user_index(messages, len(messages))
        if not reading.profile.drops_reasoning() or now <= then:
            return [0] * known
        return [
            counter.reasoning(message) if index > then else 0
            for index, message in enumerate(messages[:known])
        ]

    def _model(self, reading: Reading) -> str:
        """What shares its constants; empty if nothing is learned."""
        name = model_name(reading.request.model).own
        is_name = len(name.encode(errors="surrogatepass")) <= MAX_MODEL_BYTES
        own = self._vocabulary(reading)
        suffix = reading.tenant.suffix if own is None else f"/{own.name}{reading.tenant.suffix}"
        return f"{reading.profile.name}/{name}{suffix}" if self._is_learning and is_name else ""

    def _count(self, reading: Reading, prefix: tuple[int, KnownTotal] | None) -> Count:
        """What is beyond `prefix`, an index and a total, counted: all, if there is none."""
        request = reading.request
        start, known = (0, KnownTotal(0)) if prefix is None else (prefix[0] + 1, prefix[1])

        rounds = without_rounds(request.messages, start) if prefix is not None else None

        def work(counter: Counter) -> tuple[int, list[int], tuple[int, int, int], int, int]:
            context = counter.context(request) if prefix is None else 0
            messages = counter.messages(start)
            tally = counter.tools_tokens, counter.schema_tokens, counter.media_tokens
            dropped = sum(self._dropped_reasoning(reading, counter, start))
            new_tokens = sum(messages)
            if rounds is not None:
                shorter = replace(request, messages=rounds[0])
                new_tokens = sum(Counter(counter.profile, shorter, counter.own).messages(rounds[1]))
            return context, messages, tally, dropped, new_tokens

        (context, messages, tally, dropped, new_tokens), counter = self._counted(reading, work)
        tokens = context + new_tokens
        new = request.messages[start:]
        tools = len(request.tools) if prefix is None else 0
        features = Features(
            requests=int(prefix is None),
            text_tokens=max(0, tokens - sum(tally)),
            messages=len(new),
            tools_tokens=tally[0],
            tool_sets=int(tools > 0),
            tools=tools,
            calls=sum(isinstance(it, (ToolCall, ToolResult)) for one in new for it in one.parts),
            schema_tokens=tally[1],
            media_tokens=tally[2],
        )
        if prefix is not None and start < len(request.messages):
            unbilled = self._unbilled_tokens(reading, start, known)
            tokens_known, derived = known.tokens + unbilled, known.derived_tokens + unbilled
            known = replace(known, tokens=tokens_known, derived_tokens=derived)
        known = replace(known, tokens=max(0, known.tokens - dropped))
        has_other_options = False
        if prefix is not None:
            known, has_other_options = self._with_options(reading, known)
        counts = context, tuple(messages)
        return Count(counter, known, tokens, len(new), features, has_other_options, *counts)

    def _with_options(self, reading: Reading, known: KnownTotal) -> tuple[KnownTotal, bool]:
        """`known` under the options of what was read, and whether they are others."""
        if known.options == reading.options:
            return known, False
        more = self._options_tokens(reading) - known.options_tokens
        derived = known.derived_tokens + max(1, abs(more))
        return replace(known, tokens=max(0, known.tokens + more), derived_tokens=derived), True

    def _difference(
        self,
        reading: Reading,
        prefix: tuple[int, KnownTotal] | None,
        learner: Learner | None,
        now_seconds: float,
    ) -> Count | None:
        """What changed against the nearest known conversation; None if a count is better."""
        request, start = reading.request, 0 if prefix is None else prefix[0] + 1
        shapes = self._shapes.near(reading.family, reading.message_digests[start:], now_seconds)
        near = nearest(shapes, request, reading.digests[0], reading.message_digests, start)
        if near is None:
            return None
        options_tokens = self._options_tokens(reading)

        def work(counter: Counter) -> tuple[int | None, Edit]:
            is_recounted = near.has_other_context or near.overlap.places[0] != 0
            context = counter.context(request) - options_tokens if is_recounted else None
            is_learned = FAILED_VOCABULARY not in counter.assumptions
            return context, edit(near, counter, context, learner if is_learned else None)

        (context, found), counter = self._counted(reading, work)
        if not is_narrower(
            found,
            near,
            request,
            reading.profile,
            prefix and prefix[1],
            context,
            is_known_model=reading.is_known_model,
        ):
            return None
        known, has_other_options = self._with_options(reading, found.known)
        return Count(
            counter,
            known,
            found.tokens,
            found.came.messages,
            found.features,
            has_other_options,
            edit=found,
        )

    def _shape(
        self, reading: Reading, count: Count, total: KnownTotal, reply: tuple[Message, ...]
    ) -> Shape | None:
        """The shape of a billed call: up to the known prefix that of the call before."""
        request, context = reading.request, reading.digests[0]
        start = len(request.messages) - count.new_message_count
        known, base = reading.message_digests[:start], None
        if start > 0:
            base = self._shapes.beginning(reading.family, context, known)
            if base is None:
                return None
        has_guess = is_guessed(self._assumptions(reading, count.counter))
        dropped = self._dropped_reasoning(reading, count.counter, start)
        messages = seen_messages(
            zip(base.messages if base else (), dropped, strict=False),
            zip(request.messages[start:], count.messages, strict=True),
            reply,
            total.derived_tokens,
            [*reading.message_digests, *(message_digest(reading.tenant.key, it) for it in reply)],
            has_guess=has_guess,
        )
        if messages is None:
            return None
        own = "undetermined" if has_guess else stratum_of_context(request)
        return Shape(
            reading.family,
            context,
            base.context_tokens if base else count.context_tokens - total.options_tokens,
            base.context_stratum if base else own,
            total,
            last_user_index(request.messages, len(request.messages)),
            len(request.messages),
            messages,
        )

    def _options_tokens(self, reading: Reading) -> int:
        """What tool choice, output schema and thinking add to the count of the context."""
        if not reading.options:
            return 0
        without = _without_options(reading.request)
        readings = reading, replace(reading, request=without)
        with_options, plain = (
            self._counted(it, lambda counter: counter.context(counter.request))[0]
            for it in readings
        )
        return with_options - plain

    def _learn(self, reading: Reading, count: Count, billed: int) -> None:
        """Learn from a billed call, unless the request does not tell what was billed."""
        model, guesses = self._model(reading), self._assumptions(reading, count.counter)
        is_untold = any(name.startswith((*UNTOLD, FAILED_VOCABULARY)) for name in guesses)
        if model and count.tokens and billed > count.known.tokens and not is_untold:
            billed, derived = billed - count.known.tokens, count.known.derived_tokens
            handicap = 4 if reading.profile.quality == "exact" else 0
            lesson = Lesson(model, count.features, count.tokens, billed, derived, handicap)
            self._learners.learn(lesson)

    def _unbilled_tokens(self, reading: Reading, count: int, total: KnownTotal) -> int:
        """What a bill for the first `count` messages lacks, if it is exactly half; else 0.

        OpenAI and Azure now and then bill short requests to Responses so.
        """
        request = reading.request
        is_responses = request.dialect == "openai-responses" and reading.profile.layout in LAYOUTS
        billed = max(0, total.tokens - total.derived_tokens)
        if not is_responses or billed > MAX_HALF_TOKENS:
            return 0
        if not total.is_billed:  # behind what was sent stands the answer, which is not billed yet
            while count > 0 and request.messages[count - 1].role == "assistant":
                count -= 1
        plain = replace(_without_options(request), messages=request.messages[:count])
        counted, counter = self._counted(
            replace(reading, request=plain),
            lambda counter: counter.context(plain) + sum(counter.messages(0)),
        )
        whole = max(0, counted + total.options_tokens)
        is_half = billed == whole // 2 and not self._assumptions(reading, counter)
        return whole - billed if is_half else 0

    def _answer(self, reading: Reading, count: Count, source: Source, counted: int) -> Estimate:
        counter, known = count.counter, count.known
        guesses = () if source == "exact" else self._assumptions(reading, counter)
        quality = "exact" if source == "exact" else self._quality(reading, counter)
        if quality == "exact" and not known.is_billed:
            quality = "calibrated"
        low, high = self._bounds(reading, count, source, counted, guesses)
        changed = count.edit
        if counted != count.tokens or (changed is not None and changed.is_learned):
            guesses = (*guesses, "learned_correction")
        if changed is not None and changed.has_other_history:
            guesses = (*guesses, "edited_history")
        if changed is not None and changed.has_other_context:
            guesses = (*guesses, "changed_context")
        if count.has_other_options:
            guesses = (*guesses, "changed_options")
        return Estimate(
            tokens=known.tokens + counted,
            source=source,
            known_tokens=known.tokens,
            estimated_tokens=counted,
            new_message_count=count.new_message_count,
            quality=quality,
            low=low,
            high=high,
            assumptions=tuple(sorted(guesses)),
            dialect=reading.request.dialect,
            model=reading.request.model,
            profile=reading.profile.name,
            context_window_tokens=reading.profile.context_window_tokens,
        )

    def _bounds(
        self,
        reading: Reading,
        count: Count,
        source: Source,
        counted: int,
        guesses: tuple[str, ...],
    ) -> tuple[int, int]:
        known, profile = count.known, reading.profile
        tokens = known.tokens + counted
        if source == "exact":
            return tokens, tokens
        has_reply = not known.is_billed and not count.has_other_options
        scope: Unbilled = "whole" if source == "estimated" else "reply" if has_reply else "new"
        if count.edit is None:
            start = len(reading.request.messages) - count.new_message_count
            stratum = stratum_of(reading.request, start, guesses)
        else:
            scope, stratum = count.edit.scope, count.edit.stratum
        is_known_model = reading.is_known_model
        names = row_names(profile.name, profile.provider, is_known_model=is_known_model)
        # What is not billed yet may be as wrong as a count.
        uncertain = counted + min(known.derived_tokens, known.tokens)
        low, high = interval(tokens, uncertain, bounds_permille(names, scope, stratum))
        if count.edit is None:
            return low, high
        # Replies are among what left, and the least is known of what they are billed for.
        reply = interval(tokens, uncertain, bounds_permille(names, "reply", stratum))
        return min(low, reply[0]), max(high, reply[1])

    def _quality(self, reading: Reading, counter: Counter) -> Quality:
        guesses = self._assumptions(reading, counter)
        if any(name.startswith(GUESSES) for name in guesses):
            return "heuristic"
        if reading.profile.quality == "exact":
            is_exact = counter.only_text and counter.own is None
            return "exact" if is_exact else "calibrated"
        return cast("Quality", reading.profile.quality)

    def _assumptions(self, reading: Reading, counter: Counter) -> tuple[str, ...]:
        more = set() if reading.is_known_model else {"unknown_model"}
        if reading.profile.runs_tools:
            more.add("server_tools")
        return tuple(sorted(reading.request.assumptions | counter.assumptions | more))


def _without_options(request: Request) -> Request:
    """What stands around the messages, without options; the first message is left."""
    return replace(
        request,
        messages=request.messages[:1],
        tools=first_tools(request),
        added_tools=(),
        tool_choice="",
        response_schema="",
        schema_name="",
        schema_description="",
        thinking=False,
        serial=False,
        pro=False,
    )


def _wanted(reading: Reading, known: int, limit: int) -> list[bytes]:
    """The last prefixes with which another process may have recorded more than `known` messages."""
    is_answer = [message.role == "assistant" for message in reading.request.messages]
    count = len(is_answer)
    if limit == 0 or not any(is_answer[known:]):
        return []
    borders = (end for end in range(1, count) if is_answer[end] != is_answer[end - 1])
    ends = [end for end in (*borders, count) if end > known]
    return [reading.digests[end] for end in ends[-limit:]]


def _root(reading: Reading) -> bytes:
    """What all requests of a conversation share: the prefix with the user's first message."""
    roles = [message.role for message in reading.request.messages]
    end = roles.index("user") + 1 if "user" in roles else min(1, len(roles))
    return reading.digests[end]
