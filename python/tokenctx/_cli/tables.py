"""The tables of the command: counts, turns, figures by provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich import box
from rich.table import Table

from tokenctx._cli.evaluation.replay import REASONS, quantile
from tokenctx._cli.evaluation.steps import WAYS
from tokenctx._cli.money import cache_line, cost_lines, lines_cost
from tokenctx._cli.screen import count_of, paragraph, share_of, text
from tokenctx._core import list_encodings
from tokenctx._results.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

    from tokenctx._cli.evaluation.replay import Figures, ReplayedTurn
    from tokenctx._cli.evaluation.steps import Steps
    from tokenctx._cli.inputs import Count

SOURCE_STYLES: Final = {"exact": "green", "delta": "cyan", "estimated": "yellow"}
ENCODINGS: Final = frozenset(list_encodings())
LEAST_TURNS: Final = 20
"""Fewer tell no quantile of the error of their new part, which is of a few tokens."""
TURN_COLUMNS: Final = (
    "turn", "source", "new msgs", "known", "+ new", "= estimate", "billed", "error", "%", "µs",
)  # fmt: skip
FIGURE_COLUMNS: Final = (
    "turns", "exact", "delta", "estimated",
    "delta\nmed %", "\np90 %", "recount\nmed %", "\np90 %", "delta\nµs", "recount\nµs",
)  # fmt: skip
WORDS: Final[dict[str, str]] = {
    row["name"]: row["brief"]
    for section in read_table("assumptions")["sections"]
    for row in section["rows"]
}
"""Assumptions, in words."""


def words(assumption: str) -> str:
    """An assumption as a sentence; its name where the table lacks it."""
    return WORDS.get(assumption, assumption.replace("_", " "))


# Counts


def show_count(screen: Console, count: Count, *, with_messages: bool) -> None:
    """One input: tokens, bounds, how it was counted, and what had to be guessed."""
    screen.print(text((count.name, "bold"), f"  {count.kind}"))
    rows = list(_count_rows(count))
    if with_messages:
        rows += [
            (f"message {number}", f"{tokens:,}")
            for number, tokens in enumerate(count.message_tokens or (), 1)
        ]
    rows += [("assumed", words(assumption)) for assumption in count.assumptions]
    rows += [("note", count.note)] * bool(count.note)
    _show_rows(screen, rows)


def _show_rows(screen: Console, rows: Iterable[tuple[str, str]]) -> None:
    for name, value in rows:
        paragraph(screen, f"  {name:<13} {value}", after=" " * 16)


def _count_rows(count: Count) -> Iterable[tuple[str, str]]:
    is_certain = count.low == count.high
    bounds = "" if is_certain else f"   {count.low:,} .. {count.high:,}"
    yield "tokens", f"{count.tokens:,}{bounds}"
    yield "quality", count.quality
    about = (
        ("vocabulary" if count.counted_with in ENCODINGS else "method", count.counted_with),
        *(("profile", count.profile), ("dialect", count.dialect), ("model", count.model)),
    )
    yield "counted with", ", ".join(f"{name} {value}" for name, value in about if value)
    if count.message_tokens is not None and count.context_tokens is not None:
        yield "context", f"{count.context_tokens:,}   system prompt, tools, framing"
        yield "messages", f"{sum(count.message_tokens):,}   in {len(count.message_tokens):,}"
    if count.window_share is not None:
        yield "window", f"{share_of(count.window_share, 1)} of {count.window_tokens:,}"
    if count.cache is not None:
        yield "cache", cache_line(count.cache)
        yield from (("cost", line) for line in cost_lines(count.cost))


def show_lines(screen: Console, name: str, counts: Sequence[Count]) -> None:
    """A file of many requests in one block."""
    tokens = [count.tokens for count in counts]
    screen.print(text((name, "bold"), f"  jsonl, {count_of(len(counts), 'request')}"))
    rows = [("tokens", f"{sum(tokens):,}")]
    if tokens:
        median = quantile(tokens, 0.5)
        rows.append(("each", f"{min(tokens):,} .. {max(tokens):,}, median {median:,}"))
    if any(count.cache is not None for count in counts):
        rows.append(("cost", lines_cost([count.cost for count in counts])))
    for assumption in sorted({name for count in counts for name in count.assumptions}):
        number = sum(assumption in count.assumptions for count in counts)
        rows.append(("assumed", f"in {number:,}: {words(assumption)}"))
    _show_rows(screen, rows)


# Replays


def turn_table() -> Table:
    """An empty table of turns."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for name in TURN_COLUMNS:
        table.add_column(name, justify="left" if name == "source" else "right", no_wrap=True)
    return table


def add_turn(table: Table, turn: ReplayedTurn) -> None:
    """The row of one turn."""
    estimate = turn.estimate
    table.add_row(
        str(turn.number),
        text(estimate.source, style=SOURCE_STYLES[estimate.source]),
        str(estimate.new_message_count),
        f"{estimate.known_tokens:,}",
        f"{estimate.estimated_tokens:,}",
        f"{estimate.tokens:,}",
        f"{turn.billed_tokens:,}",
        f"{turn.error_tokens:+,}",
        f"{turn.error_percent:+.2f}",
        f"{turn.estimate_us:,.0f}",
    )


def figure_table(*titles: str) -> Table:
    """An empty table of figures with `titles` before them."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for title in titles:
        table.add_column(title, no_wrap=True)
    for name in FIGURE_COLUMNS:
        table.add_column(name, justify="right")
    return table


def add_figures(table: Table, titles: Sequence[str], figures: Figures) -> None:
    """The row of one provider, or of all."""
    sources = [f"{figures.sources[source]:,}" for source in ("exact", "delta", "estimated")]
    errors = [
        _number(quantile(numbers, share), 2)
        for numbers in (figures.delta_errors, figures.recount_errors)
        for share in (0.5, 0.9)
    ]
    times = [
        _number(quantile(numbers, 0.5), 0) for numbers in (figures.delta_us, figures.recount_us)
    ]
    table.add_row(*map(text, titles), f"{figures.turns:,}", *sources, *errors, *times)


def step_table(by_provider: Mapping[str, Steps]) -> Table:
    """Errors of the next total by three ways, in percent of what was billed, by provider."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("provider", no_wrap=True)
    names = ("steps", "billed", "formula %", "median", "recount %", "median", "chars/4 %", "median")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for provider, steps in sorted(by_provider.items(), key=lambda pair: -pair[1].count):
        if not steps.count:
            continue
        pairs = ((steps.error_percent(way), steps.median_percent(way)) for way in WAYS)
        errors = [_number(number, 2) for pair in pairs for number in pair]
        table.add_row(text(provider), f"{steps.count:,}", f"{steps.billed_tokens:,}", *errors)
    return table


def total_line(figures: Figures) -> str:
    """All figures in one sentence."""
    sources = ", ".join(
        f"{figures.sources[source]:,} {source}" for source in ("exact", "delta", "estimated")
    )
    delta, recount = figures.delta_errors, figures.recount_errors
    conversations = f"{figures.conversations:,} conversation{'s'[: figures.conversations != 1]}"
    return (
        f"total: {conversations}, {figures.turns:,} turns: {sources}. "
        f"Error median / p90: delta {_pair(delta)}, full recount {_pair(recount)}. "
        f"Time median: delta {_number(quantile(figures.delta_us, 0.5), 0)} µs, "
        f"full recount {_number(quantile(figures.recount_us, 0.5), 0)} µs."
    )


def reply_line(figures: Figures) -> str:
    """How good it is from one turn to the next where the reply is known."""
    whole, new = (
        " / ".join(f"{_number(quantile(errors, share), 2)} %" for share in (0.5, 0.9, 0.99))
        for errors in (figures.reply_errors, figures.new_errors)
    )
    line = f"from input and output of the turn before, median / p90 / p99: {whole}"
    return line if len(figures.new_errors) < LEAST_TURNS else f"{line}; new part: {new}"


def reason_lines(figures: Figures) -> list[str]:
    """The turns that were recognised of those that had to be, and why the others were not."""
    extending, differing = figures.relations["extends"], figures.relations["messages"]
    lines = [reply_line(figures)] if figures.reply_errors else []
    lines += [f"extends a recorded call: {figures.known('extends'):,} of {extending:,} known"]
    if differing:
        known = figures.known("messages")
        lines.append(f"should extend one, but messages differ: {known:,} of {differing:,} known")
    return lines + [
        f"estimated: {count:,} x {REASONS[reason]}"
        for reason, count in figures.reasons.most_common()
    ]


def _pair(numbers: Sequence[float]) -> str:
    if not numbers:
        return "not comparable"
    middle, high = quantile(numbers, 0.5), quantile(numbers, 0.9)
    return f"{_number(middle, 2)} % / {_number(high, 2)} %"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
