"""One call through a gateway: estimated, perhaps refused or changed, read and recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tokenctx._estimate.accuracy import NotRecorded
from tokenctx._results.errors import RequestError
from tokenctx.gateway.answerer import is_another
from tokenctx.gateway.booking import LATE_STATUSES, Bill, Booking, may_be_served
from tokenctx.gateway.bounds import choices_of, relayed_tokens, uncounted, unseen_tokens
from tokenctx.gateway.edits import BodyFields, less_output, usage_wanted
from tokenctx.gateway.headers import SCALED, USAGE, estimate_headers
from tokenctx.gateway.refusals import Refusal, refusal_of
from tokenctx.gateway.relay import Relay

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        Awaitable,
        Callable,
        Generator,
        Iterable,
        Iterator,
    )

    from tokenctx._estimate.accuracy import AccuracyEvent
    from tokenctx._results.estimates import Estimate, ModelLimits
    from tokenctx.gateway.settings import Body, Names, Settings
    from tokenctx.money.budgets import BudgetRefusal, Uncounted
    from tokenctx.usage.gateways import Headers

TOKEN_BYTES: Final = 4
BOUNDED: Final = frozenset({"unknown_request", "duplicate_key"})
"""Assumptions of a body that others may read in another way: it is reserved by its length."""
LEAST_BYTES: Final = 4096
"""Bytes of an answer before its tokens are counted: a token of a reserved output has 4."""
JSON: Final = {"content-type": "application/json"}
"""Headers of an answer that has come whole, where none are given."""


class Call:
    """One call: what its body will cost, what to send, and the answer on its way back.

    Made by `Gateway.call` and `acall`. Body, dialect, tenant and model are given there and never
    again. Nothing of it raises for a failure of ours: the bytes go through, and `failure` and
    `reason` say what happened. Of one call one answer is recorded, whoever reads it first.

    Attributes:
        estimate: None if the path is none of a chat, or the estimate failed.
        failure: The stage that failed and the class of what it raised, `estimate: RequestError`;
            or why nothing was counted. None if all went well.
        refusal: What to answer in place of the provider; None if the call should go on.
        fallback: The model that it goes to, as the settings name it, where the one that was asked
            for is too small; `estimate` is that model's, and `upstream_body` names it. None else.
        upstream_body: What to send: the bytes that were given, unless something is to be changed.
        is_changed: Whether it was.
        input_bytes: Of a body that was not kept, what has been passed on.
        event: The recorded call, and the estimate before it; None as long as it is not recorded.
        reason: Why the answer is not recorded, one of `NotRecorded`'s reasons or `upstream_error`,
            `compressed`, `cut`, `failed_here`; None until that is known, or if it is.
    """

    def __init__(self, settings: Settings, body: Body, names: Names, *, is_counted: bool) -> None:
        self._settings = settings
        self._body = body
        self._fields = BodyFields(body)
        self._names = names
        self._limits: ModelLimits | None = None
        self._drops_usage = False
        self._relay: Relay | None = None
        self._is_settled = False
        self._choices = 1
        self._grows_at: int | None = None
        self._upstream_body = body if isinstance(body, bytes) else None
        self._answering: tuple[str, str | None] | None = None
        self.is_counted = is_counted
        self.input_bytes = 0
        self.is_changed = False
        self.estimate: Estimate | None = None
        self.failure: str | None = None
        self.refusal: Refusal | BudgetRefusal | None = None
        self.fallback: str | None = None
        self._booking = Booking(settings.budgets, names.budget_keys, settings.journal)
        self.event: AccuracyEvent | None = None
        self.reason: str | None = None

    def __repr__(self) -> str:
        """The state without text, for a debugger."""
        return f"<Call estimate={self.estimate!r} failure={self.failure!r}>"

    @property
    def upstream_body(self) -> bytes:
        """The body to send to the provider."""
        if self._upstream_body is None:
            self._upstream_body = self._fields.changed({})
        return self._upstream_body

    @property
    def headers(self) -> dict[str, str]:
        """The estimate as headers of the answer, `x-tokenctx-tokens` and so on.

        `x-tokenctx-uncounted` says why, where a chat request has no estimate.
        """
        estimate = self.estimate
        if estimate is None or self._limits is None:
            if not self.is_counted or self.failure is None:
                return {}
            return {"x-tokenctx-uncounted": self.failure.rpartition(" ")[2]}
        headers = estimate_headers(estimate, self._limits.window_tokens)
        if self.fallback is not None:
            headers["x-tokenctx-fallback"] = quote(self.fallback, safe="/:@[]()")
        if self._settings.scaler_of(self._limits) is not None:
            headers[USAGE] = SCALED
        return {**headers, **self._booking.headers}

    @property
    def accept_encoding(self) -> str:
        """The encoding to ask for: `gzip` can be read, and only plain answers be changed."""
        is_scaled = self._limits is not None and self._settings.scaler_of(self._limits) is not None
        return "identity" if self._drops_usage or is_scaled else "gzip"

    @property
    def is_booked(self) -> bool:
        """True if something of this call will be booked in budgets."""
        return self._booking.is_open

    @property
    def is_relayed(self) -> bool:
        """True if somebody reads the answer already."""
        return self._relay is not None

    def estimate_now(self) -> None:
        """Estimate; `Gateway.call` has done it."""
        estimate, arguments = self._settings.estimator.estimate, self._names.as_arguments()
        try:
            self._decide(estimate(self._body, **arguments))
            for name, model in self._larger():
                self._go_to(name, estimate(self._body, **{**arguments, **_named(model)}))
        except Exception as error:
            self._failed("estimate", error)
        self._count()
        self.reserve()

    async def aestimate_now(self) -> None:
        """As `estimate_now`, without holding the loop."""
        estimate, arguments = self._settings.estimator.aestimate, self._names.as_arguments()
        try:
            self._decide(await estimate(self._body, **arguments))
            for name, model in self._larger():
                self._go_to(name, await estimate(self._body, **{**arguments, **_named(model)}))
        except Exception as error:
            self._failed("estimate", error)
        self._count()
        await self.areserve()

    def reserve(self, length: int | None = 0) -> None:
        """Reserve in the budgets what was estimated, or a bound of the body that was not.

        `length` is what is known of the length of a body that was not kept; None: nothing is.
        """
        if self.refusal is None and self._settings.budgets is not None:
            taken, self._choices = self._taken(length), choices_of(self._body)
            self.refusal = self._booking.reserve(taken, self._names.provider, self._choices)

    async def areserve(self, length: int | None = 0) -> None:
        """As `reserve`, without holding the loop."""
        if self.refusal is None and self._settings.budgets is not None:
            taken, self._choices = self._taken(length), choices_of(self._body)
            self.refusal = await self._booking.areserve(taken, self._names.provider, self._choices)

    def answered_by(self, model: str, provider: str | None = None) -> None:
        """Say who answers, where that is another model than was asked for: a fallback.

        What is billed is recorded and booked for that model. Without it the answer tells its model.
        """
        self._answering = model, provider

    def not_counted(self, why: str) -> None:
        """Say why this call has no estimate, and count it."""
        self.failure = why
        self._settings.journal.count(f"uncounted_{why}")

    # ------------------------------------------------------------------------ the answer

    def relay(self, status: int = 200, headers: Headers | None = None) -> Relay:
        """The reader of an answer that is pushed chunk by chunk; `stream` does it for iterables.

        `status` and `headers` are the answer's. After each `push` and after `finish`, `settle`
        records what has come whole.
        """
        scaler, first = None, None
        if self.estimate is not None and self._limits is not None:
            scaler, first = self._settings.scaler_of(self._limits), self.estimate.tokens
        relay = Relay(
            self._settings.journal,
            status,
            headers,
            records=self.estimate is not None,
            reads=self._booking.is_open,
            drops_usage=self._drops_usage,
            scaler=scaler,
            first_input_tokens=first,
        )
        self._relay = relay
        if self.event is None:  # an attempt before this one has failed
            self._is_settled, self.reason = False, None
        self._booking.attempt()
        reserved = self._booking.output_tokens
        self._grows_at = None if reserved is None else max(LEAST_BYTES, reserved * TOKEN_BYTES)
        return relay

    def stream(
        self,
        chunks: Iterable[bytes],
        *,
        status: int = 200,
        headers: Headers | None = None,
        relay: Relay | None = None,
    ) -> Generator[bytes, None, None]:
        """The chunks as they come, read on the way and recorded at the end.

        It is recorded before the chunk that ends it is given, so that the next turn is known
        however quickly it comes. A stream that is cut is not. `chunks` is closed at the end.
        `relay` is one that was made before, with status and headers.
        """
        return self._stream(chunks, relay or self.relay(status, headers))

    def _stream(self, chunks: Iterable[bytes], relay: Relay) -> Generator[bytes, None, None]:
        try:
            for chunk in chunks:
                sent = relay.push(chunk)
                if self.is_due:
                    self.settle()
                if sent:
                    yield sent
            sent = relay.finish()
            self.settle()
            if sent:
                yield sent
        finally:
            self.end()
            if close := getattr(chunks, "close", None):
                close()

    def astream(
        self,
        chunks: AsyncIterable[bytes],
        *,
        status: int = 200,
        headers: Headers | None = None,
        relay: Relay | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """As `stream`, of an async iterable."""
        return self._astream(chunks, relay or self.relay(status, headers))

    async def _astream(
        self, chunks: AsyncIterable[bytes], relay: Relay
    ) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in chunks:
                sent = relay.push(chunk)
                if self.is_due:
                    await self.asettle()
                if sent:
                    yield sent
            sent = relay.finish()
            await self.asettle()
            if sent:
                yield sent
        finally:
            self.end()
            if close := getattr(chunks, "aclose", None):
                await close()

    def response(self, body: bytes, *, status: int = 200, headers: Headers | None = None) -> bytes:
        """The body to send of an answer that has come whole; it is recorded."""
        relay = self.relay(status, JSON if headers is None else headers)
        sent: bytes = relay.push(body) + relay.finish()
        self.settle()
        return sent

    async def aresponse(
        self, body: bytes, *, status: int = 200, headers: Headers | None = None
    ) -> bytes:
        """As `response`, without holding the loop."""
        relay = self.relay(status, JSON if headers is None else headers)
        sent: bytes = relay.push(body) + relay.finish()
        await self.asettle()
        return sent

    @property
    def is_due(self) -> bool:
        """True if `settle` has anything to do."""
        relay = self._relay
        if relay is None or self._is_settled:
            return False
        is_long = self._grows_at is not None and relay.passed_bytes >= self._grows_at
        return is_long or relay.is_over or self._has_come(relay)

    def settle(self) -> None:
        """Record the answer once it has come whole, or say why it is not recorded. Never raises.

        Of a stream that is longer than was reserved, more is reserved.
        """
        if not self.is_due:
            return
        if (more := self._more()) is not None:
            self._booking.grow(more)
            return
        if (relay := self._due()) is not None:
            try:
                record = self._settings.estimator.record_event
                self._recorded(record(self._body, relay.reader, **self._answered(relay)))
            except Exception as error:
                self.reason = self._settings.journal.failed("record", error)
        self._booking.close(self._bill())

    async def asettle(self) -> None:
        """As `settle`, without holding the loop."""
        if not self.is_due:
            return
        if (more := self._more()) is not None:
            await self._booking.agrow(more)
            return
        try:
            if (relay := self._due()) is not None:
                await self._arecord(relay)
            await self._booking.aclose(self._bill())
        except BaseException:  # cancelled in between, as by a client that leaves now
            self._booking.close(self._bill())
            raise

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more will come: an answer that has not ended is cut, and not recorded.

        `error` is what has ended the request. Without an answer what was reserved is given back,
        unless by that error the provider may have answered.
        """
        if self._relay is None:
            is_free = error is None or not may_be_served(error)
            self._booking.close(Bill(is_free=is_free, output_tokens=self._unseen()))
            return
        self._relay.cut()
        self.settle()

    # ------------------------------------------------------------------------ inside

    async def _arecord(self, relay: Relay) -> None:
        try:
            record: Callable[..., Awaitable[AccuracyEvent | NotRecorded]]
            record = self._settings.estimator.arecord_event
            self._recorded(await record(self._body, relay.reader, **self._answered(relay)))
        except Exception as error:
            self.reason = self._settings.journal.failed("record", error)

    @property
    def _asked(self) -> int | None:
        """The most output that was asked for, of all answers; None if that is not known."""
        asked = self.estimate.requested_output_tokens if self.estimate else None
        return asked * self._choices if asked else None

    def _unseen(self) -> int:
        """The output of an answer of which nothing has come: somebody may hold back a stream."""
        return unseen_tokens(self._asked) if self.is_booked else 0

    def _has_come(self, relay: Relay) -> bool:
        """True if all has come though the answer may go on; of several answers one goes on."""
        return self._choices == 1 and relay.is_complete

    def _more(self) -> int | None:
        """The output to reserve of a stream that goes on; None of one that has ended.

        It is looked at when it is half as long again, so all looks take linear time, and no sooner
        than what is reserved can have been used up.
        """
        relay = self._relay
        if relay is None or relay.is_over or self._has_come(relay):
            return None
        try:
            estimate = self.estimate
            seen = relayed_tokens(relay, estimate.model if estimate else "", None)
        except Exception as error:
            self._settings.journal.failed("count_answer", error)
            seen = relay.passed_bytes // TOKEN_BYTES
        more, passed = seen * 3 // 2, relay.passed_bytes
        left = max(more, self._booking.output_tokens or 0) - seen
        self._grows_at = passed + max(passed // 2, left * TOKEN_BYTES)
        return more

    def _due(self) -> Relay | None:
        """The answer that is to be recorded now; never the same twice."""
        relay = self._relay
        if relay is None or not self.is_due:
            return None
        self._is_settled = True
        if self.estimate is None:
            return None
        if relay.missed is not None:
            self._settings.journal.count(f"not_recorded_{relay.missed}")
            self.reason = relay.missed
            return None
        return relay

    def _taken(self, length: int | None) -> Estimate | Uncounted:
        """The most that the call takes of its budgets, before its output."""
        names, estimate = self._names, self.estimate
        if estimate is None:
            return uncounted(self._body, length, names.model, names.dialect)
        if not BOUNDED.isdisjoint(estimate.assumptions) and isinstance(self._body, bytes):
            return replace(estimate, high=max(estimate.high, len(self._body)))
        return estimate

    def _answered(self, relay: Relay) -> dict[str, Any]:
        """The arguments to record by: those of the estimate, or of the model that answered."""
        arguments, estimate = self._names.as_arguments(), self.estimate
        if self._answering is not None:
            model, provider = self._answering
            return {**arguments, "model": model, "provider": provider or arguments["provider"]}
        told = relay.reader.model
        is_alias = told == self._names.alias
        if not told or is_alias or estimate is None or not is_another(estimate.model, told):
            return arguments
        return {**arguments, "model": told, "provider": None}

    def _bill(self) -> Bill:
        """What is known of the use of the answer that has ended now."""
        relay, event, estimate = self._relay, self.event, self.estimate
        if relay is None or not self._booking.is_open:
            return Bill()
        model = self._answered(relay)["model"] or ""
        if self._answering is None and self._booking.is_unpriced:  # as of a deployment
            model = relay.reader.model or model
        if event is not None:
            return Bill(event.usage, model=model)
        told = relay.reader.usage
        if told.origin == "cache":  # of a gateway, which has asked no provider
            return Bill(is_free=True)
        is_failure = not 200 <= relay.status < 300 and relay.status not in LATE_STATUSES
        is_free = is_failure and not told.total_tokens
        if estimate is None and relay.reader.is_complete and told.total_tokens:
            return Bill(told, model=model)
        if is_free:
            return Bill(is_free=True)
        try:
            model = relay.reader.model or (estimate.model if estimate else "")
            output = relayed_tokens(relay, model, self._asked)
        except Exception as error:
            self._settings.journal.failed("count_answer", error)
            output = relay.passed_bytes
        told_input = max(told.input_tokens, self.input_bytes if estimate is None else 0)
        return Bill(output_tokens=max(output, told.output_tokens), input_tokens=told_input)

    def _recorded(self, event: AccuracyEvent | NotRecorded) -> None:
        if isinstance(event, NotRecorded):
            self.reason = event.reason
            self._settings.journal.count(f"not_recorded_{event.reason}")
        else:
            self.event = event
            self._settings.journal.count("recorded")

    def _decide(self, estimate: Estimate) -> None:
        """Decides what to send and what to refuse, now that the estimate is known."""
        self.estimate = estimate
        self._limits = self._settings.limits_of(estimate)
        try:
            self._change(estimate, self._limits)
        except Exception as error:
            self._failed("change_request", error)

    def _change(self, estimate: Estimate, limits: ModelLimits) -> None:
        settings, dialect = self._settings, estimate.dialect
        is_chat = self._names.dialect == "openai-chat"  # a guess would not do: others refuse it
        fields = self._fields
        usage = usage_wanted(fields) if settings.include_usage and is_chat else {}
        less: dict[str, Any] = {}
        if settings.clamp_output and (room := self._room(estimate, limits)) is not None:
            less = less_output(fields, dialect, room)
        if settings.refuse_by is not None:
            self.refusal = refusal_of(
                dialect,
                estimate,
                by=settings.refuse_by,
                output_tokens=0 if less else None,
                limits=limits,
                is_stream=dialect == "openai-responses" and fields.value("stream") is True,
            )
            if self.refusal is not None:
                return
        named = {"model": self.fallback} if self.fallback and fields.value("model") else {}
        if usage or less or named:
            self._upstream_body = fields.changed({**usage, **less, **named})
            self.is_changed, self._drops_usage = True, bool(usage)

    def _larger(self) -> Iterator[tuple[str, str]]:
        """The fallbacks, as long as the call would be refused: names to send, and models."""
        for name, model in self._names.fallbacks:
            if self.refusal is None:
                return
            yield name, model

    def _go_to(self, name: str, estimate: Estimate) -> None:
        """Make it the call of another model, if that has room for it."""
        before = self.estimate, self._limits, self.refusal
        self.fallback = name
        self._decide(estimate)
        if self.refusal is None:
            self._names = replace(self._names, model=estimate.model, provider=None, alias=name)
            self._settings.journal.count("fallbacks")
        else:
            self.estimate, self._limits, self.refusal = before
            self.fallback = None

    def _count(self) -> None:
        if self.estimate is not None:
            self._settings.journal.count("estimated")
            if self.refusal is not None:
                self._settings.journal.refused(self.estimate.dialect)

    def _room(self, estimate: Estimate, limits: ModelLimits) -> int | None:
        """The most output that there is room for; None if no limit is known or no room is left."""
        most = [limits.max_output_tokens] if limits.max_output_tokens else []
        if limits.window_tokens and not estimate.dialect.startswith("gemini"):
            taken = [it for it in (estimate.high, estimate.tokens) if it < limits.window_tokens]
            most += [limits.window_tokens - it for it in taken[:1]]
        return min(most) if most else None

    def _failed(self, stage: str, error: Exception) -> None:
        if isinstance(error, RequestError):  # the client's fault, which its provider will name
            self.failure = f"{stage}: {type(error).__name__}"
            self._settings.journal.count("uncounted_unreadable_body")
        else:
            self.failure = self._settings.journal.failed(stage, error)


def _named(model: str) -> dict[str, str | None]:
    """Arguments of a fallback, which the provider that was asked for may not have."""
    return {"model": model, "provider": None}
