"""The context window in a terminal: a bar, its parts, where the total comes from, what to do."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group

from tokenctx._cli.context_picture import (
    MARKS,
    SHADES,
    TERMINAL,
    Plans,
    Segment,
    basis_lines,
    cells,
    headline,
    item_title,
    plan_lines,
    segments,
)
from tokenctx._cli.screen import share_of, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType
    from rich.text import Text

    from tokenctx.context.usage import ContextUsage

LEAST_COLUMNS: Final = 32
MOST_COLUMNS: Final = 100
PIPE_COLUMNS: Final = 80
MOST_ITEMS: Final = 8
"""Tools shown by name; the rest in one line."""
BLOCK: Final = "█"


def screen() -> Console:
    """The terminal as wide as it is; a pipe as `COLUMNS` says, else 80."""
    has_width = sys.stdout.isatty() or "FORCE_COLOR" in os.environ or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if has_width else PIPE_COLUMNS)


def view(
    usage: ContextUsage, plans: Plans, console: Console, money: Sequence[str] = ()
) -> RenderableType:
    """Everything there is to see, as wide as `console` allows."""
    width = max(LEAST_COLUMNS, min(console.width, MOST_COLUMNS))
    has_colours = console.color_system is not None and not console.no_color
    lines = [_wrapped(f"  {line}", width) for line in money]
    head: list[RenderableType] = [text("Next call", style="bold")] if lines else []
    return Group(*_lines(usage, plans, width, has_colours=has_colours), *head, *lines)


def _lines(
    usage: ContextUsage, plans: Plans, width: int, *, has_colours: bool
) -> Iterator[RenderableType]:
    parts = segments(usage)
    name = f"  {usage.model}" if usage.model else ""
    yield text(("Context window", "bold"), name)
    yield text(headline(usage), (f"  {usage.basis.method}", "dim"))
    yield _bar(parts, width, has_colours=has_colours)
    whole = usage.window_tokens or usage.total_tokens or 1
    for part in parts:
        yield _row(part, whole, width, has_colours=has_colours)
        yield from _items(usage, part, width)
    for category in usage.categories:
        if category.is_deferred:
            title = f"  {category.title}, deferred (in no sum)"
            yield _line(title, f"{category.tokens:,}", width, "dim")
    yield text("Basis", style="bold")
    for title, value in basis_lines(usage):
        yield _wrapped(f"  {title}: {value}", width)
    yield text("Plan", style="bold")
    for line in plan_lines(usage, plans):
        yield _wrapped(f"  {line}", width)


def _bar(parts: list[Segment], width: int, *, has_colours: bool) -> Text:
    bar = text(no_wrap=True)
    for part, count in zip(parts, cells(parts, width), strict=False):
        mark, style = _mark(part.name, has_colours=has_colours)
        bar.append(mark * count, style=style)
    return bar


def _mark(name: str, *, has_colours: bool) -> tuple[str, str]:
    return (SHADES.get(name, BLOCK), TERMINAL[name]) if has_colours else (MARKS[name], "")


def _row(part: Segment, whole: int, width: int, *, has_colours: bool) -> Text:
    numbers = f"{part.tokens:,} {share_of(part.tokens, whole):>6}"
    title = f"{part.title} ({part.note})" if part.note else part.title
    mark = _mark(part.name, has_colours=has_colours)
    return text(mark, " ", _line(title, numbers, width - 2))


def _items(usage: ContextUsage, part: Segment, width: int) -> Iterator[Text]:
    """The largest items of a category, by server where they have one."""
    found = next(
        (it for it in usage.categories if it.name == part.name and not it.is_deferred), None
    )
    items = sorted(found.items if found else (), key=lambda item: -item.tokens)
    for item in items[:MOST_ITEMS]:
        yield _line(f"    {item_title(item)}", f"{item.tokens:,}", width - 7, "dim")
    rest = items[MOST_ITEMS:]
    if rest:
        tokens = sum(item.tokens for item in rest)
        yield _line(f"    and {len(rest):,} more", f"{tokens:,}", width - 7, "dim")


def _line(title: str, value: str, width: int, style: str = "") -> Text:
    """A title to the left, a value to the right; a title that is too long is cut."""
    left = text(title, no_wrap=True)
    left.truncate(max(1, width - len(value) - 1), overflow="ellipsis", pad=True)
    return text(left, " ", value, style=style, no_wrap=True)


def _wrapped(line: str, width: int) -> Group:
    """A line that is broken between words, its rest indented."""
    words, lines = line.split(" "), [""]
    for word in words:
        if len(lines[-1]) + len(word) > width and lines[-1].strip():
            lines.append("   ")
        lines[-1] += f"{word} "
    return Group(*(text(line.rstrip()) for line in lines))
