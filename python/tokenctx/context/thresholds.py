"""From how many tokens on a conversation is compacted: by presets, in tokens, or as a fraction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, Final, Literal

from tokenctx._results.estimates import ModelLimits
from tokenctx._results.result import Result
from tokenctx._results.tables import read_table
from tokenctx.context.limits import plain_name

PresetName = Literal[
    "dexto", "opencode", "codex", "gemini-cli", "claude-code", "electron-starter", "copilot"
]
Comparison = Literal[">", ">="]

DEFAULT_FRACTION: Final = 0.9
"""Of what is usable, where neither a threshold nor a preset is given."""
PERMILLE: Final = 1000


@dataclass(frozen=True, slots=True)
class Threshold(Result):
    """Tokens from which on something happens; None: never, since the window is unknown.

    Attributes:
        tokens: Compact now.
        background_tokens: A compaction beside the work should begin; None if there is none.
        is_over: How the used tokens are compared with both.
    """

    tokens: int | None
    background_tokens: int | None = None
    is_over: Comparison = ">"

    def is_reached(self, used_tokens: int) -> bool:
        """True if `used_tokens` say that it is time to compact."""
        return self._over(used_tokens, self.tokens)

    def is_background_reached(self, used_tokens: int) -> bool:
        """True if `used_tokens` say that it is time to begin beside the work."""
        return self._over(used_tokens, self.background_tokens)

    def _over(self, used_tokens: int, limit: int | None) -> bool:
        if limit is None:
            return False
        return used_tokens > limit if self.is_over == ">" else used_tokens >= limit


def preset(name: str) -> dict[str, Any]:
    """The row of a preset with its source and date; ValueError, which lists them, for no preset."""
    rows = _presets()
    if name not in rows:
        raise ValueError(f"preset is {name!r}; it must be one of {', '.join(rows)}")
    return rows[name]


def depends_on_tools(name: str) -> bool:
    """True if a preset compacts the later, the more its tools take."""
    rule: dict[str, Any] = preset(name)["window"]
    return bool(rule.get("minus_tools"))


def preset_limits(name: str, model: str) -> ModelLimits | None:
    """The limits that a preset itself has for `model`; None if it has no table of models."""
    row = _model_row(preset(name), model)
    if row is None:
        return None
    source = f"preset {name}"
    return ModelLimits(row["window_tokens"], None, row.get("max_output_tokens"), source)


def preset_retention(name: str, model: str) -> int | None:
    """The newest tokens that a preset keeps when it compacts; None if it does not say."""
    row = preset(name)
    found: int | None = (_model_row(row, model) or row).get("retention_tokens")
    return found


def threshold_of(
    limits: ModelLimits,
    wanted: float | None,
    name: str | None,
    *,
    model: str = "",
    reserve_tokens: int = 0,
    tools_tokens: int = 0,
) -> Threshold:
    """The threshold for a model of `limits`.

    `wanted` is a number of tokens (int) or a fraction of the window above 0 and up to 1 (float). It
    comes before what the preset `name` says, unless that takes the smaller of both. Nothing goes
    beyond what is left of the window after `reserve_tokens` for the output.
    """
    usable = usable_tokens(limits, reserve_tokens)
    if usable is None:
        return Threshold(None)
    found = Threshold(_part(usable, DEFAULT_FRACTION))
    if name is not None:
        found = _of_preset(preset(name), limits, model, tools_tokens)
    if wanted is not None:
        own = _wanted(wanted, limits)
        is_smaller = name is not None and preset(name).get("configured") == "at_most"
        tokens = min(own, found.tokens or 0) if is_smaller else own
        found = replace(found, tokens=tokens)
    return replace(found, tokens=min(found.tokens or 0, usable))


def usable_tokens(limits: ModelLimits, reserve_tokens: int) -> int | None:
    """The most input: the window less the reserve, or the model's own limit; None if unknown."""
    if not limits.window_tokens:
        return None
    usable = max(0, limits.window_tokens - reserve_tokens)
    most_input = limits.max_input_tokens
    return usable if not most_input else min(usable, most_input)


def check_threshold(wanted: float | None) -> None:
    """Raise TypeError or ValueError if `wanted` is neither tokens nor a fraction."""
    if wanted is None:
        return
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        raise TypeError(f"threshold is {wanted!r}; it must be tokens (int) or a fraction (float)")
    if isinstance(wanted, float) and not 0 < wanted <= 1:
        raise ValueError(f"threshold is {wanted}; a fraction must be above 0 and at most 1")
    if wanted < 1 and isinstance(wanted, int):
        raise ValueError(f"threshold is {wanted} tokens; it must be at least 1")


def _wanted(wanted: float, limits: ModelLimits) -> int:
    if isinstance(wanted, int):
        return wanted
    return _part(limits.window_tokens or 0, wanted)


def _of_preset(
    row: dict[str, Any], limits: ModelLimits, model: str, tools_tokens: int
) -> Threshold:
    rule, base = row["window"], limits.window_tokens or 0
    if limits.max_input_tokens and "input" in row:
        rule, base = row["input"], limits.max_input_tokens
    if "minus_output_at_most" in rule:
        base -= min(
            limits.max_output_tokens or rule["minus_output_at_most"], rule["minus_output_at_most"]
        )
    base -= rule.get("minus_tokens", 0)
    base -= tools_tokens if rule.get("minus_tools") else 0
    base = max(0, base) * rule.get("share_permille", PERMILLE) // PERMILLE
    permille = (_model_row(row, model) or row)["permille"]
    background = row.get("background_permille")
    return Threshold(
        base * permille // PERMILLE,
        None if background is None else base * background // PERMILLE,
        row["is_over"],
    )


def _model_row(row: dict[str, Any], model: str) -> dict[str, Any] | None:
    own = plain_name(model)
    for found in row.get("models", ()):
        if any(own.startswith(plain_name(beginning)) for beginning in found["beginnings"]):
            return dict(found)
    return None


def _part(tokens: int, fraction: float) -> int:
    """The whole tokens of a fraction, as it is written: 0.95 of 20 is 19, not 18.99..."""
    return int(tokens * Fraction(repr(float(fraction))))


@cache
def _presets() -> dict[str, dict[str, Any]]:
    table = read_table("presets")
    return {row["name"]: row for row in table["presets"]}
