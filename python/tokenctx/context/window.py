"""The context window of one conversation: how full it is, with what, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tokenctx._estimate.accuracy import NotRecorded
from tokenctx._estimate.estimator import HybridTokenEstimator
from tokenctx._results.estimates import ModelLimits
from tokenctx._results.result import Hinting, Result
from tokenctx.context.compaction import Compaction, is_stalled
from tokenctx.context.last_call import LastCall
from tokenctx.context.limits import UNKNOWN_LIMITS, model_limits
from tokenctx.context.overflow import ContextOverflow, parse_overflow
from tokenctx.context.parts import Names, all_categories, brief_categories
from tokenctx.context.placeholders import PLACEHOLDER
from tokenctx.context.plans import Measured, prune_plan, retention_plan, trim_plan
from tokenctx.context.silent import ending
from tokenctx.context.thresholds import (
    check_threshold,
    depends_on_tools,
    preset,
    preset_limits,
    preset_retention,
    threshold_of,
)
from tokenctx.context.usage import ContextCategory, ContextCounts, ContextUsage, balanced
from tokenctx.convert.source import fields_of
from tokenctx.usage.answers import answered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tokenctx._results.estimates import Dialect
    from tokenctx.context.limits import Overrides
    from tokenctx.context.plans import PrunePlan, RetentionPlan, TrimPlan
    from tokenctx.context.thresholds import PresetName, Threshold

DEFAULT_RESERVE: Final = 16_000
"""Kept free for the answer, of a model that may write so much and has four times the window."""
WARMS_CACHE: Final = ("max_tokens", 0)
"""In a request of Claude that asks for no answer, but for its prefix in the cache."""


@dataclass(frozen=True, slots=True)
class ModelFit(Result):
    """The fit of a request in another model.

    Attributes:
        tokens: The input as that model counts it.
        missing_tokens: What is too much; 0 if it fits.
        fits: None if the window of the model is unknown.
    """

    model: str
    tokens: int
    limits: ModelLimits
    missing_tokens: int
    fits: bool | None


class ContextWindow(Hinting):
    """How full the context window of one conversation is, and what follows from that.

    `usage` says what the next request takes, part by part; decisions come from the same numbers.
    `record` takes what was billed, so that the next total is the last input, the last output and a
    count of what is new. `retain`, `prune` and `trim` make plans and change nothing.

    `model` is who answers, for its limits and its way of counting; without it each request says it
    itself. `limits` are yours: `ModelLimits`, a window in tokens, or overrides by name as in
    `model_limits`. `threshold` says when to compact: tokens (int), or a fraction of the window
    (float); `preset` is how a public agent does it, see `presets.json`; by default 0.9 of what is
    usable. `output_reserve` tokens are kept free for the answer: by default what the model may
    write, up to 16,000 and a quarter of the window; nothing with a preset, which has its own rule.
    `dialect`, `provider` and `tenant` are as of the estimator. `server_of` gives the server of a
    tool by its name; names as MCP has them are understood.

    One for each conversation; the `estimator` may be shared by all of them and by all threads. It
    keeps numbers only. Wrong arguments raise TypeError or ValueError here.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        limits: ModelLimits | int | Overrides | None = None,
        threshold: float | None = None,
        preset: PresetName | None = None,
        output_reserve: int | None = None,
        estimator: HybridTokenEstimator | None = None,
        dialect: Dialect | None = None,
        provider: str | None = None,
        tenant: str | bytes | None = None,
        server_of: Callable[[str], str | None] | None = None,
    ) -> None:
        check_threshold(threshold)
        _check_preset(preset)
        if output_reserve is not None and output_reserve < 0:
            raise ValueError(f"output_reserve is {output_reserve} tokens; it must be 0 or more")
        self.estimator = HybridTokenEstimator() if estimator is None else estimator
        self._model, self._dialect, self._provider = model, dialect, provider
        self._own_limits = _checked_limits(limits)
        self._threshold, self._preset, self._reserve = threshold, preset, output_reserve
        self._server_of, self._tenant = server_of, tenant
        self._seen_window: int | None = None
        self._compactions: list[Compaction] = []
        self._last = LastCall()
        self.limits()

    @property
    def compactions(self) -> tuple[Compaction, ...]:
        """The compactions so far."""
        return tuple(self._compactions)

    def limits(self, model: str | None = None) -> ModelLimits:
        """The limits of `model`, by default of this window's own, as corrected by an error."""
        if model is None or model == self._model:
            return self._limits_as(self._model or "")
        return self._found_limits(model)

    def _limits_as(self, name: str) -> ModelLimits:
        """The limits of this window, whose model the request calls `name`."""
        own = self._own_limits
        found = own if isinstance(own, ModelLimits) else self._found_limits(name)
        if self._seen_window is None:
            return found
        return replace(found, window_tokens=self._seen_window, source="error")

    def _found_limits(self, name: str) -> ModelLimits:
        """The limits of any model: by the caller's overrides, the preset, or the table."""
        overrides = None if isinstance(self._own_limits, ModelLimits) else self._own_limits
        if self._preset and overrides is None:
            of_preset = preset_limits(self._preset, name)
            if of_preset is not None:
                return of_preset
        return model_limits(name, overrides) if name else UNKNOWN_LIMITS

    def usage(
        self, body: object, *, marked: Mapping[str, Mapping[str, str]] | None = None
    ) -> ContextUsage:
        """How full the window is with `body` as the next request, and with what.

        `marked` names texts of the system prompt that are `memory` or `skills`:
        `{"memory": {"notes.md": text}}`. Linear in the body. Raises RequestError for text that is
        not JSON; no content of a JSON value raises.
        """
        usage = self._measured(body, marked).usage
        self._last.threshold = usage.threshold
        return usage

    def usage_of(self, counts: ContextCounts, *, model: str | None = None) -> ContextUsage:
        """The same for a caller that counts by itself."""
        usage = self._usage(counts, model or self._model or "")
        self._last.pending_tokens = usage.total_tokens
        return usage

    def should_compact(self, body: object) -> bool:
        """True if it is time to compact, before `body` is sent: `usage(body).should_compact`.

        Below the threshold it costs one estimate, since no part needs to be known for that; above
        it the parts around the messages are counted, too.
        """
        if self._preset and depends_on_tools(self._preset):
            return self.usage(body).should_compact
        least = self._threshold_of(self._model).tokens if self._model else None
        names = self._known_names()
        estimate, fixed = self.estimator._estimate_and_fixed(body, least, **names)  # noqa: SLF001
        model = self._model or estimate.model
        self._last.threshold = threshold = self._threshold_of(model)
        if not threshold.is_reached(estimate.tokens):
            return False
        if fixed is None:
            return self._measured(body, is_brief=True).usage.should_compact
        counts = ContextCounts(
            (ContextCategory("system", fixed),), estimated_tokens=estimate.tokens
        )
        return self._usage(self._last.known(counts, estimate), model).should_compact

    def clamp_max_tokens(self, body: object, wanted: int) -> int:
        """The most output to ask for: `usage(body).clamp_max_tokens(wanted)`."""
        return self.usage(body).clamp_max_tokens(wanted)

    def fits(self, body: object, model: str | None = None, *, output_tokens: int = 0) -> bool:
        """True if `body` and `output_tokens` fit into `model`; True if its window is unknown."""
        fit = self.fit(body, model or self._name(body), output_tokens=output_tokens)
        return fit.fits is not False

    def fit(self, body: object, model: str, *, output_tokens: int = 0) -> ModelFit:
        """How `body` and `output_tokens` fit into `model`, counted as that model does."""
        tokens = self.estimator.estimate(body, **self._known_names(model)).tokens
        is_own = model == self._name(body)
        limits = self._limits_as(model) if is_own else self._found_limits(model)
        missing = limits.missing_tokens(tokens, output_tokens)
        does_fit = None if missing is None else missing == 0
        return ModelFit(model, tokens, limits, missing or 0, does_fit)

    def fallbacks(
        self, body: object, models: Iterable[str], *, output_tokens: int = 0
    ) -> tuple[ModelFit, ...]:
        """How `body` fits into each of `models`, in their order: ask before a fallback is tried."""
        return tuple(self.fit(body, model, output_tokens=output_tokens) for model in models)

    def record(self, body: object, usage: object, *, reply: object | None = None) -> bool:
        """True if the last call's numbers are known from now on; arguments as of the estimator.

        Call it after every successful step of a turn. A failed, cancelled or cut call has no final
        usage: it changes nothing, and what came of its answer counts as new.
        """
        names = self._known_names()
        event = self.estimator.record_event(body, usage, reply=reply, **names)
        if isinstance(event, NotRecorded):
            return False
        threshold = self._last.threshold
        if threshold is not None:
            self.estimator.accuracy_log.note_compaction(
                event.profile,
                was_said=threshold.is_reached(event.estimated_tokens),
                was_due=threshold.is_reached(event.billed_tokens),
            )
        if event.usage is not None:
            self._last.update(event.usage, event.estimated_tokens)
        return True

    def record_usage(self, usage: object) -> bool:
        """As `record`, for a caller that counts by itself: the numbers alone."""
        billed = answered(usage, None, None).usage
        if billed is None or not billed.input_tokens:
            return False
        self._last.update(billed, self._last.pending_tokens)
        return True

    def last_counts(self, counts: ContextCounts, new_tokens: int | None) -> ContextCounts:
        """`counts` with the numbers of the last recorded call and `new_tokens` since then."""
        return self._last.counts(counts, new_tokens)

    def record_overflow(self, error: object, body: object | None = None) -> ContextOverflow | None:
        """The facts in a provider's error about a context that was too long; None if it is another.

        The limit in it is the window of this model from now on; the actual tokens, if it says
        them, are known of `body`. Takes an exception, a response body or its text.

        An answer with nothing in it counts as one, too, if its input fills the window or `body`
        does; not if `body` asked for no more than that.
        """
        found = self._guessed(error, body, parse_overflow(error))
        if found is None:
            return None
        if found.limit_tokens:
            self._seen_window = found.limit_tokens
        if found.actual_tokens and body is not None:
            self.estimator.record(body, found.actual_tokens, **self._known_names())
        return found

    def _guessed(
        self, error: object, body: object | None, found: ContextOverflow | None
    ) -> ContextOverflow | None:
        """`found`, or what an answer with nothing in it tells beside the window and `body`."""
        is_known = found is not None and not found.is_guessed
        end = None if is_known else ending(error)
        if end is None or not end.is_empty:
            return found
        window, tokens = self._limits_as(self._model or "").window_tokens, 0
        if body is not None:
            estimate = self.estimator.estimate(body, **self._known_names())
            asked = estimate.requested_output_tokens
            if asked in {0, 1} or WARMS_CACHE in fields_of(body).items():
                return None
            window = self._limits_as(self._name(body)).window_tokens
            tokens = estimate.tokens
        is_full = window is not None and max(end.input_tokens + end.output_tokens, tokens) >= window
        return ContextOverflow(None, None, "", is_guessed=True) if is_full else found

    def compacted(self, before: ContextUsage | int, after: ContextUsage | int) -> Compaction:
        """The effect of a compaction; from now on the last call's numbers are unknown.

        One that saved less than 5 % is a stall: `decision` is `stalled` until the conversation has
        become that much shorter.
        """
        done = Compaction(_tokens(before), _tokens(after))
        self._compactions.append(done)
        self._last = LastCall()
        return done

    def switch_model(self, model: str, *, limits: ModelLimits | int | None = None) -> None:
        """Go on with another model: its limits, and nothing known of the last call.

        `limits` of the model before it are not those of this one; overrides by name stay.
        """
        self._model = model
        if limits is not None or isinstance(self._own_limits, ModelLimits):
            self._own_limits = _checked_limits(limits)
        self._seen_window = None
        self._last = LastCall()

    def reset(self) -> None:
        """Forget the last call and all compactions, as after clearing a conversation.

        A changed system prompt or tool set needs none: it is another prefix to the estimator.
        """
        self._compactions.clear()
        self._last = LastCall()

    def retention_tokens(self, model: str | None = None) -> int:
        """The newest tokens to keep: what the preset says, else a tenth of the window."""
        name = model or self._model or ""
        kept = preset_retention(self._preset, name) if self._preset else None
        return kept or (self._limits_as(name).window_tokens or 0) // 10

    def retain(self, body: object, budget: int | None = None) -> RetentionPlan:
        """The plan of what stays word for word when the rest is summarised: the newest turns.

        `budget` is tokens of messages, by default `retention_tokens`.
        """
        measured = self._measured(body, is_brief=True)
        if budget is None:
            budget = self.retention_tokens(measured.usage.model)
        return retention_plan(measured, budget)

    def prune(
        self,
        body: object,
        *,
        protect_tokens: int = 40_000,
        minimum_tokens: int = 20_000,
        protect_turns: int = 0,
        protect_tools: Iterable[str] = (),
    ) -> PrunePlan:
        """Which old tool results to clear.

        The newest `protect_tokens` of results stay, and so do those of the last `protect_turns`
        turns and of `protect_tools`. Nothing is done unless more than `minimum_tokens` are freed.
        """
        measured = self._measured(body, is_brief=True, with_results=True)
        protected = (protect_tokens, minimum_tokens, protect_turns, set(protect_tools))
        return prune_plan(measured, *protected)

    def trim(self, body: object, budget: int | None = None) -> TrimPlan:
        """Which oldest messages to drop, so that the request takes at most `budget` tokens in all.

        By default what is usable of the window. System prompts stay, a call stays with its result.
        """
        measured = self._measured(body, is_brief=True)
        if budget is None:
            budget = measured.usage.usable_tokens
        return trim_plan(measured, measured.usage.total_tokens if budget is None else budget)

    def _measured(
        self,
        body: object,
        marked: Mapping[str, Mapping[str, str]] | None = None,
        *,
        is_brief: bool = False,
        with_results: bool = False,
    ) -> Measured:
        """The usage with `body` as the next request, and the tokens of its messages.

        `is_brief` leaves out what only a display needs; results of tools are there if wanted.
        """
        count, estimate, parts = self.estimator._count_parts(  # noqa: SLF001
            body,
            wants_categories=not is_brief,
            placeholder=PLACEHOLDER if with_results else None,
            **self._known_names(),
        )
        if is_brief:
            found = brief_categories(count, parts)
        else:
            found = all_categories(count, parts, marked=marked, server_of=self._server_of)
        counts = ContextCounts(
            found.fixed, found.messages, found.deferred, estimated_tokens=estimate.tokens
        )
        model = self._model or estimate.model
        usage = self._usage(self._last.known(counts, estimate), model)
        return Measured(usage, parts, sum(part.tokens for part in found.messages))

    def _usage(self, counts: ContextCounts, model: str) -> ContextUsage:
        limits = self._limits_as(model)
        parts, warnings = balanced(counts)
        tools = sum(part.tokens for part in counts.fixed if part.name == "tools")
        total = counts.next_input_tokens
        return ContextUsage(
            total,
            parts,
            self._last.basis(counts),
            limits,
            self._threshold_of(model, tools),
            self._reserve_of(limits),
            is_stalled(self._compactions, total),
            warnings,
            model,
        )

    def _threshold_of(self, model: str, tools_tokens: int = 0) -> Threshold:
        limits = self._limits_as(model)
        return threshold_of(
            limits,
            self._threshold,
            self._preset,
            model=model,
            reserve_tokens=self._reserve_of(limits),
            tools_tokens=tools_tokens,
        )

    def _reserve_of(self, limits: ModelLimits) -> int:
        if self._reserve is not None:
            return self._reserve
        if self._preset is not None or not limits.window_tokens:
            return 0
        most = limits.max_output_tokens or DEFAULT_RESERVE
        return min(most, DEFAULT_RESERVE, limits.window_tokens // 4)

    def _names(self, model: str | None = None) -> Names:
        return Names(model or self._model, self._dialect, self._provider)

    def _known_names(self, model: str | None = None) -> dict[str, Any]:
        """The arguments of what looks up known conversations."""
        return {**self._names(model).as_arguments(), "tenant": self._tenant}

    def _name(self, body: object) -> str:
        """The model of this window, or the one that the request names."""
        if self._model is not None:
            return self._model
        fields = fields_of(body)
        named = fields.get("model") or fields.get("modelId")
        return named if isinstance(named, str) else ""


def _checked_limits(limits: Any) -> ModelLimits | Overrides | None:
    if isinstance(limits, int):
        return ModelLimits(limits)
    if limits is None or isinstance(limits, ModelLimits | Mapping | str | os.PathLike):
        return limits
    raise TypeError(
        f"limits is a {type(limits).__name__}; it must be ModelLimits, a window in tokens, a "
        "mapping of model names, or the path of one"
    )


def _check_preset(name: str | None) -> None:
    if name is not None:
        preset(name)


def _tokens(usage: ContextUsage | int) -> int:
    return usage if isinstance(usage, int) else usage.total_tokens
