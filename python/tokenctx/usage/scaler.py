"""Usage in the measure of another context window, for agents that cannot be told the real one."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, overload

from tokenctx._core import Scale
from tokenctx._results.estimates import MAX_TOKENS
from tokenctx.usage.callbacks import Callback
from tokenctx.usage.normal import Usage, normalize_usage
from tokenctx.usage.scaled import ScaledUsage, Status
from tokenctx.usage.streams import AsyncScaledStream, ScaledStream, usage_of_numbers

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Mapping

    from tokenctx._core import Rewriter
    from tokenctx._results.estimates import Estimate

Rounding = Literal["floor", "nearest", "ceil"]
Strategy = Literal["fixed", "piecewise"]

DEFAULT_ASSUMED_WINDOW: Final = 200_000
DEFAULT_EXEMPT_MODELS: Final = ("gpt-4o-mini",)
"""Of the adapter that this comes from: its agent shall see the small window as it is."""
UNSCALED: Final = [(1, 1)]


class _ScaledBody:
    """The mark of a scaled body; the true numbers are in `usage`."""

    usage: ScaledUsage

    @property
    def normal_usage(self) -> Usage:
        """The real usage."""
        return self.usage.real


class ScaledBytes(_ScaledBody, bytes):
    """A body with scaled usage as JSON; the true numbers are in `usage`."""


class ScaledDict(_ScaledBody, dict[str, Any]):
    """A body with scaled usage as a dict; the true numbers are in `usage`."""


class ContextWindowScaler:
    """Tells an agent that assumes one context window how full another one is.

    An agent made for `assumed_window` tokens compacts its history when that window fills up. On a
    model with `real_window` tokens every number of usage is multiplied by assumed over real, so
    that the agent sees the same share of its window. Whole numbers only; parts add up to their
    totals; what is scaled is marked and never scaled again. Windows larger than the assumed one are
    left alone; so are `exempt_models`, and windows that are 0 or None.

    `factors` has multipliers by model that replace the ratio of windows; names are compared as they
    are and without the path before them. `strategy`:

    - `fixed`: one factor;
    - `piecewise`: true numbers up to half of the smaller window, then scaled, so that a full real
      window is a full assumed one.

    `on_usage` is called with each `ScaledUsage`, of a stream at its end; when it
    raises, that is logged once, and `failed_callbacks` counts it.
    """

    _core: ClassVar[Any] = Scale

    def __init__(
        self,
        real_window: int | None,
        assumed_window: int = DEFAULT_ASSUMED_WINDOW,
        rounding: Rounding = "floor",
        *,
        exempt_models: Iterable[str] = DEFAULT_EXEMPT_MODELS,
        factors: Mapping[str, Fraction | float] | None = None,
        strategy: Strategy = "fixed",
        on_usage: Callable[[ScaledUsage], object] | None = None,
    ) -> None:
        _require_window("assumed window", assumed_window, is_needed=True)
        _require_window("real window", real_window)
        if strategy not in ("fixed", "piecewise"):
            raise ValueError(f"strategy is {strategy!r}; it must be one of fixed, piecewise")
        self._real_window = real_window
        self._assumed_window = assumed_window
        self._rounding = rounding
        self._exempt_models = {name: name for name in exempt_models}
        self._factors = {name: _fraction(factor) for name, factor in (factors or {}).items()}
        self._is_piecewise = strategy == "piecewise"
        self._on_usage = Callback("on_usage", on_usage)
        self.failed_callbacks = 0
        self._unscaled = self._core(UNSCALED, rounding)

    def __repr__(self) -> str:
        return f"<ContextWindowScaler {self._real_window} as {self._assumed_window}>"

    @staticmethod
    def learned_factor(calls: Iterable[tuple[int, int]]) -> Fraction:
        """The factor that recorded calls suggest, for `factors`.

        Each call is the tokens that the agent's own count or model gives, and those billed.
        Raises ValueError if nothing was billed.
        """
        pairs = list(calls)
        assumed, real = (sum(pair[side] for pair in pairs) for side in (0, 1))
        if real <= 0 or assumed <= 0:
            raise ValueError(f"{len(pairs)} calls with {assumed} and {real} tokens give no factor")
        return Fraction(assumed, real)

    def scale(self, usage: object, *, model: str = "") -> ScaledUsage:
        """The true and the scaled usage; zeros if there is none.

        Takes what `normalize_usage` takes. What is scaled already comes back as it is.
        """
        if isinstance(usage, (ScaledUsage, _ScaledBody)):
            return usage if isinstance(usage, ScaledUsage) else usage.usage
        return self._reported(self._scaled(normalize_usage(usage) or Usage(), model))

    @overload
    def scale_body(self, body: bytes, *, model: str = "") -> ScaledBytes: ...
    @overload
    def scale_body(self, body: dict[str, Any], *, model: str = "") -> ScaledDict: ...
    def scale_body(self, body: Any, *, model: str = "") -> Any:
        """A response with scaled usage, as JSON bytes or as a dict; only digits of usage change.

        The true numbers are in its attribute `usage`. Bytes that are not JSON stay as they are.
        """
        return self._body(body, model, is_count=False)

    @overload
    def scale_count_response(self, body: bytes, *, model: str = "") -> ScaledBytes: ...
    @overload
    def scale_count_response(self, body: dict[str, Any], *, model: str = "") -> ScaledDict: ...
    def scale_count_response(self, body: Any, *, model: str = "") -> Any:
        """The answer of an endpoint that counts tokens, scaled; see `scale_body`."""
        return self._body(body, model, is_count=True)

    @overload
    def scale_stream(
        self,
        chunks: AsyncIterable[bytes],
        *,
        model: str = "",
        first_input_tokens: Estimate | int | None = None,
    ) -> AsyncScaledStream: ...
    @overload
    def scale_stream(
        self,
        chunks: Iterable[bytes],
        *,
        model: str = "",
        first_input_tokens: Estimate | int | None = None,
    ) -> ScaledStream: ...
    def scale_stream(
        self,
        chunks: Any,
        *,
        model: str = "",
        first_input_tokens: Estimate | int | None = None,
    ) -> Any:
        """Server-sent events with scaled usage, chunk by chunk as they come.

        Of an async iterable an async iterator. Only digits of usage change, wherever the chunks are
        cut; an event is held back until its end has come. With `first_input_tokens`, a number or an
        estimate, a `message_start` that says 0 input tokens gets them, scaled. An event above 1 MiB
        passes as it is; `long_event_count` has the number of those.
        """
        if isinstance(chunks, (ScaledStream, AsyncScaledStream)):
            return chunks
        first = getattr(first_input_tokens, "tokens", first_input_tokens)
        rewriter = self._rule(model)[1].stream(first)
        made = AsyncScaledStream if hasattr(chunks, "__aiter__") else ScaledStream
        return made(chunks, rewriter, lambda real: self._scaled(real, model), self._reported)

    def rewriter(
        self, first_input_tokens: int | None = None, *, model: str = ""
    ) -> Rewriter | None:
        """The rewriter of a stream that is pushed; None if nothing of it would change.

        `push` gives what can be sent, `finish` what is left. For those who have no iterator.
        """
        status, scale = self._rule(model)
        return scale.stream(first_input_tokens) if status == "scaled" else None

    def _rule(self, model: str) -> tuple[Status, Any]:
        """How the usage of `model` is scaled, and with what."""
        real, assumed = self._real_window or 0, self._assumed_window
        factor = _of_model(self._factors, model, None)
        if _of_model(self._exempt_models, model, None):
            return "exempt", self._unscaled
        if factor is None and real <= 0:
            return "unknown_window", self._unscaled
        if factor is None:
            factor = Fraction(assumed, real)
        if factor == 1:
            return "equal_window", self._unscaled
        if factor < 1:
            return "larger_window", self._unscaled
        knee = min(real, assumed) // 2 if self._is_piecewise else 0
        points = [(factor.denominator, factor.numerator)]
        if knee > 0 and real * factor > knee:
            points = [(knee, knee), (real, int(real * factor))]
        return "scaled", self._core(points, self._rounding)

    def _scaled(self, real: Usage, model: str) -> ScaledUsage:
        status, scale = self._rule(model)
        adjusted = replace(real, is_scaled=True)
        if not real.is_scaled:
            adjusted = scaled_usage(real, scale)
        window = self._real_window or None
        return ScaledUsage(real, adjusted, status, model, window, self._assumed_window)

    def _reported(self, usage: ScaledUsage) -> ScaledUsage:
        self.failed_callbacks += not self._on_usage(usage)
        return usage

    def _body(self, body: Any, model: str, *, is_count: bool) -> Any:
        if isinstance(body, _ScaledBody):
            return body
        text = json.dumps(body).encode() if isinstance(body, dict) else body
        scaled, numbers = self._rule(model)[1].body(text, is_count=is_count)
        real = usage_of_numbers(numbers, [])
        if is_count and not real.input_tokens:
            real = Usage(uncached_input_tokens=real.reported_total_tokens or 0)
        made: ScaledBytes | ScaledDict = (
            ScaledDict(json.loads(scaled)) if isinstance(body, dict) else ScaledBytes(scaled)
        )
        made.usage = self._reported(self._scaled(real, model))
        return made


def scaled_usage(real: Usage, scale: Any) -> Usage:
    """`real` by `scale`: wholes as what fills the window, parts as differences of scaled sums."""

    def after(before: int, tokens: int) -> int:
        return int(scale.tokens(before + tokens) - scale.tokens(before))

    is_linear = scale.is_linear
    read, write, tool = real.cache_read_tokens, real.cache_write_tokens, real.tool_use_prompt_tokens
    tool_start = 0 if is_linear else real.input_tokens
    output_start = 0 if is_linear else real.input_tokens + tool
    visible = 0 if real.is_reasoning_inside else real.output_tokens - real.reasoning_tokens
    adjusted = Usage(
        uncached_input_tokens=after(read + write, real.uncached_input_tokens),
        cache_read_tokens=after(0, read),
        cache_write_tokens=after(read, write),
        cache_write_5m_tokens=after(read, real.cache_write_5m_tokens),
        cache_write_1h_tokens=after(read + real.cache_write_5m_tokens, real.cache_write_1h_tokens),
        cache_write_30m_tokens=after(read, real.cache_write_30m_tokens),
        cache_write_12h_tokens=after(
            read + real.cache_write_30m_tokens, real.cache_write_12h_tokens
        ),
        tool_use_prompt_tokens=after(tool_start, tool),
        output_tokens=after(output_start, real.output_tokens),
        reasoning_tokens=after(output_start + visible, real.reasoning_tokens),
        is_reasoning_inside=real.is_reasoning_inside,
        input_audio_tokens=after(0, real.input_audio_tokens),
        input_image_tokens=after(0, real.input_image_tokens),
        output_audio_tokens=after(output_start, real.output_audio_tokens),
        output_image_tokens=after(output_start, real.output_image_tokens),
        input_video_tokens=after(0, real.input_video_tokens),
        output_video_tokens=after(output_start, real.output_video_tokens),
        cache_read_audio_tokens=after(0, real.cache_read_audio_tokens),
        cache_read_image_tokens=after(0, real.cache_read_image_tokens),
        passes=tuple(replace(it, usage=scaled_usage(it.usage, scale)) for it in real.passes),
        last_call=None if real.last_call is None else scaled_usage(real.last_call, scale),
        web_search_requests=real.web_search_requests,
        file_search_requests=real.file_search_requests,
        service_tier=real.service_tier,
        speed=real.speed,
        inference_geo=real.inference_geo,
        search_size=real.search_size,
        reported_cost=real.reported_cost,
        cost_source=real.cost_source,
        unread=real.unread,
        is_contradictory=real.is_contradictory,
        origin=real.origin,
        is_partial=real.is_partial,
        is_scaled=True,
    )
    if real.reported_total_tokens is None:
        return adjusted
    rest = real.reported_total_tokens - real.total_tokens
    total = (
        adjusted.total_tokens + after(0, rest) if rest >= 0 else after(0, rest + real.total_tokens)
    )
    return replace(adjusted, reported_total_tokens=total)


def _fraction(factor: Fraction | float) -> Fraction:
    exact = factor if isinstance(factor, Fraction) else Fraction(str(factor))
    if not 0 < exact < 2**32 or exact.denominator >= 2**64:
        raise ValueError(f"factor is {factor}; it must be above 0 and below 2 ** 32")
    return exact


def _of_model(table: Mapping[str, Any], model: str, default: Any) -> Any:
    name = model if model in table else model.rpartition("/")[2]
    return table.get(name, default)


def _require_window(name: str, window: object, *, is_needed: bool = False) -> None:
    """Raise TypeError or ValueError unless `window` is a number of tokens, or None for unknown."""
    if window is None and not is_needed:
        return
    if isinstance(window, bool) or not isinstance(window, int):
        raise TypeError(
            f"{name} is of type {type(window).__name__}; it must be a whole number of tokens"
        )
    least = int(is_needed)
    if window < least:
        raise ValueError(f"{name} is {window} tokens; it must be at least {least}")
    if window > MAX_TOKENS:
        raise ValueError(f"{name} is {window} tokens; it must be at most {MAX_TOKENS}")
