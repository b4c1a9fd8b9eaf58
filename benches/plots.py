"""Plots as SVG text, for the pages of the site and of the benchmark history.

Colours are variables of CSS with a fallback, so that a page can turn them dark. A plot has no blank
line, so that it can stand in Markdown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COLOURS: Final = ("#0b6e99", "#d9730d", "#6940a5", "#448361", "#9f6b53")
WIDTH: Final = 680
LEFT: Final = 285
RIGHT: Final = 24
ROW: Final = 22
FONT: Final = 'font-family="inherit" font-size="12"'
GRID: Final = 'stroke="currentColor" stroke-opacity="0.18"'


@dataclass(frozen=True)
class Axis:
    """Numbers from `low` to `high`, as places from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    is_logarithmic: bool = False

    def place(self, value: float) -> float:
        """Where `value` is drawn; what is beyond an end is drawn at that end."""
        scale: Callable[[float], float] = math.log10 if self.is_logarithmic else float
        value = min(max(value, self.low), self.high)
        share = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Some five round numbers."""
        if self.is_logarithmic:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        step = 10 ** math.floor(math.log10((self.high - self.low) / 2))
        step = next(step * by for by in (1, 2, 5, 10) if (self.high - self.low) / step / by <= 6)
        return [step * at for at in range(math.ceil(self.low / step), int(self.high / step) + 1)]


def colour(number: int) -> str:
    """The colour of a series."""
    number %= len(COLOURS)
    return f"var(--plot-{number + 1}, {COLOURS[number]})"


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def legend(series: Sequence[str], top: float) -> list[str]:
    """A mark and a name for each series, in one line."""
    made, x = [], 8.0
    for number, name in enumerate(series):
        made.append(f'<circle cx="{x:g}" cy="{top - 4:g}" r="5" fill="{colour(number)}"/>')
        made.append(text(x + 10, top, name))
        x += 32 + 6.6 * len(name)
    return made


def figure(title: str, height: float, parts: list[str]) -> str:
    """The SVG element in a figure with its title."""
    head = f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" fill="currentColor" {FONT}>'
    body = "".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>"])
    return f'<figure class="plot"><figcaption>{escape(title)}</figcaption>{body}</figure>'


def dots(
    title: str,
    series: Sequence[str],
    rows: Sequence[tuple[str, Sequence[float | None]]],
    *,
    low: float = 0,
    high: float = 100,
    is_logarithmic: bool = False,
) -> str:
    """A line for each row, with a dot for each series; None has no dot.

    Of equal numbers the first series is drawn last, and smaller ones ring it.
    """
    top = 34.0 if len(series) > 1 else 10.0
    bottom = top + ROW * len(rows)
    axis = Axis(low, high, LEFT, WIDTH - RIGHT, is_logarithmic)
    parts = legend(series, 16) if len(series) > 1 else []
    for tick in axis.ticks():
        x = axis.place(tick)
        parts.append(f'<path d="M{x:g} {top:g}V{bottom:g}" {GRID}/>')
        parts.append(text(x, bottom + 16, f"{tick:,g}", "middle"))
    for number, (label, values) in enumerate(rows):
        y = top + ROW * (number + 0.5)
        parts.append(text(LEFT - 12, y + 4, label, "end"))
        for place in reversed(range(len(values))):
            value = values[place]
            if value is not None:
                radius = 5.5 if place == 0 else 4.5
                mark = f'cx="{axis.place(value):g}" cy="{y:g}" r="{radius:g}"'
                told = f"<title>{escape(f'{label}, {series[place]}: {value:g}')}</title>"
                parts.append(f'<circle {mark} fill="{colour(place)}">{told}</circle>')
    return figure(title, bottom + 24, parts)


def line(title: str, labels: Sequence[str], values: Sequence[float], *, unit: str = "") -> str:
    """One number over time: a point for each label, the first and the last of which are named."""
    height, left = 150.0, 60.0
    spread = (max(values) - min(values)) or abs(max(values)) or 1.0
    axis = Axis(min(values) - 0.15 * spread, max(values) + 0.15 * spread, height - 28, 10)
    step = (WIDTH - left - RIGHT) / max(1, len(values) - 1)
    points = [(left + step * at, axis.place(value)) for at, value in enumerate(values)]
    parts = []
    for tick in axis.ticks():
        y = axis.place(tick)
        parts.append(f'<path d="M{left:g} {y:g}H{WIDTH - RIGHT}" {GRID}/>')
        parts.append(text(left - 8, y + 4, f"{tick:,g}{unit}", "end"))
    path = "L".join(f"{x:.1f} {y:g}" for x, y in points)
    parts.append(f'<path d="M{path}" fill="none" stroke="{colour(0)}" stroke-width="2"/>')
    for (x, y), label, value in zip(points, labels, values, strict=True):
        told = f"<title>{escape(f'{label}: {value:g}{unit}')}</title>"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:g}" r="3" fill="{colour(0)}">{told}</circle>')
    parts.append(text(left, height - 8, labels[0]))
    if len(labels) > 1:
        parts.append(text(WIDTH - RIGHT, height - 8, labels[-1], "end"))
    return figure(title, height, parts)
