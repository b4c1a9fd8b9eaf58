"""The figures of `eval` as grids, and the grids as tables or Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich import box
from rich.table import Table

from tokenctx._cli.evaluation.held_out import figures
from tokenctx._cli.evaluation.strata import DELTA
from tokenctx._cli.screen import console, paragraph, print_table, text, visible
from tokenctx._core import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tokenctx._cli.evaluation.evaluation import Evaluation, Scores, Tally
    from tokenctx._cli.evaluation.held_out import Held
    from tokenctx._cli.evaluation.misses import Miss
    from tokenctx._cli.evaluation.strata import Promise

LINES_SHOWN: Final = 10
"""Numbers of skipped lines that are shown; all of them are in the JSON."""
SHARES: Final = ("exact", "within_2", "within_5", "within_10")
FIGURES: Final = ("n", *SHARES, "mape", "median", "p90", "signed_mean", "coverage")
WHOLE_NUMBERS: Final = frozenset({"n", *SHARES, "coverage"})
TITLES: Final = ("N", "exact", "2 %", "5 %", "10 %", "MAPE", "median", "p90", "mean", "in bounds")

ABOUT: Final = """\
# Accuracy

Made by `tokenctx eval --markdown` on {date} with tokenctx {version}, from {count:,} recorded calls.
Each request was estimated with nothing known and compared with the input tokens that were billed:
the share of calls in % that is exact and within 2, 5 and 10 %; the error in % of what was billed
(mean, median and 90 % quantile of its size, mean with its sign); the share of bills within `low`
to `high`. *Must* and *aim* are the project's targets for exact / 2 % / 5 %. Rows of fewer than
{least} calls are in the pools only.

**The rules were worked out on these recordings, so expect less on others.** Those are test calls of
public projects: short, and full of unusual requests. They are not part of this repository.
"""


@dataclass(frozen=True, slots=True)
class Grid:
    """Text cells under titles; the first `left` columns are words, the others numbers."""

    caption: str
    titles: tuple[str, ...]
    left: int
    rows: list[tuple[str, ...]]

    def as_table(self) -> Table:
        """The grid for a terminal."""
        table = Table(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 0, 0, 1),
            title=self.caption,
            title_justify="left",
        )
        for place, title in enumerate(self.titles):
            justify = "left" if place < self.left else "right"
            table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        for row in self.rows:
            table.add_row(*map(text, row))
        return table

    def as_markdown(self) -> str:
        """The grid for a document."""
        rules = ["---"] * self.left + ["--:"] * (len(self.titles) - self.left)
        rows = [self.titles, rules, *self.rows]
        return "".join(f"| {' | '.join(map(_markdown, row))} |\n" for row in rows)


def _markdown(cell: str) -> str:
    return visible(cell).replace("|", "\\|")


def show(evaluation: Evaluation, found: Sequence[Miss], least: int) -> None:
    """Everything on the terminal."""
    screen = console()
    for grid in [*_grids(evaluation, least), *([_misses(found)] if found else [])]:
        if not grid.rows:
            continue
        print_table(screen, grid.as_table())
    for line in _notes(evaluation, least):
        paragraph(screen, line)


def document(evaluation: Evaluation, least: int, date: str) -> str:
    """Everything but the misses as Markdown."""
    count = evaluation.record_count
    parts = [ABOUT.format(date=date, version=__version__, count=count, least=least)]
    grids = _grids(evaluation, least, has_promises=True)
    parts += [f"\n## {grid.caption}\n\n{grid.as_markdown()}" for grid in reversed(grids)]
    return "".join(parts)


def _grids(evaluation: Evaluation, least: int, *, has_promises: bool = False) -> list[Grid]:
    grids = [_rows(evaluation.own, by, least) for by in evaluation.by]
    compared = [_compared(evaluation)] if evaluation.of_peers else []
    return [*grids, *compared, pools(evaluation.own, has_promises=has_promises)]


def _notes(evaluation: Evaluation, least: int) -> Iterator[str]:
    small = sum(len(scores) < least for scores in evaluation.own.rows.values())
    if small:
        yield f"not shown: {small:,} rows of fewer than {least} calls; --least 1 shows them"
    rate = evaluation.record_count / evaluation.seconds
    yield f"{evaluation.record_count:,} calls scored, {rate:,.0f} a second"
    for title, tally in evaluation.of_peers.items():
        if tally.failed_count:
            yield f"{title} failed on {tally.failed_count:,} calls, which are not in its figures"
    yield from skipped_lines(evaluation)


def skipped_lines(evaluation: Evaluation) -> Iterator[str]:
    """The lines that were left out, by reason, with their numbers."""
    for reason, lines in evaluation.skipped.items():
        shown = ", ".join(map(str, lines[:LINES_SHOWN]))
        more = ", ..." * (len(lines) > LINES_SHOWN)
        yield f"skipped {len(lines):,} with {reason}: line {shown}{more}"


def _cells(scores: Scores) -> list[str]:
    figures = scores.as_json()
    return [
        "-" if figures[name] is None else f"{figures[name]:,.{0 if name in WHOLE_NUMBERS else 1}f}"
        for name in FIGURES
    ]


def _rows(tally: Tally, by: str, least: int) -> Grid:
    rows = [
        (row, stratum, *_cells(scores))
        for row, stratum, scores in tally.sorted_rows(by)
        if len(scores) >= least
    ]
    return Grid(f"By {by} and stratum", (by, "stratum", *TITLES), 2, rows)


def pools(tally: Tally, *, has_promises: bool = True) -> Grid:
    """Kinds of calls; on request with what the project promises for each: must and aim."""
    rows = [
        (pool.name, *_cells(scores), *(_text(pool.must), _text(pool.aim))[: 2 * has_promises])
        for pool, scores in tally.sorted_pools()
        if scores
    ]
    titles = ("pool", *TITLES, *("must", "aim")[: 2 * has_promises])
    return Grid("Pools, with must and aim" if has_promises else "By kind of call", titles, 1, rows)


LEFT_OUT_TITLES: Final = (
    *("N", "projects", "in-sample", "median", "p90", "in bounds"),
    *("out of project", "median", "p90", "in bounds", "width"),
)


def left_out(title: str, rows: Mapping[str, Sequence[Held]]) -> Grid:
    """Calls in each row scored with all rules, and without those of their own project.

    Shares are exact / within 2 % / within 5 %; the width is the median of high minus low in percent
    of the count.
    """
    lines = [(name, *_left_out_cells(held)) for name, held in rows.items() if held]
    caption = f"By {title}, with and without the project of the call: exact / 2 % / 5 %"
    return Grid(caption, (title, *LEFT_OUT_TITLES), 1, lines)


def _left_out_cells(held: Sequence[Held]) -> tuple[str, ...]:
    found = [figures(held, is_without=is_without) for is_without in (False, True)]
    cells = [
        (
            f"{one.exact:.0f} / {one.within_2:.0f} / {one.within_5:.0f}",
            f"{one.median:.1f}",
            f"{one.p90:.1f}",
            f"{one.coverage:.0f}",
        )
        for one in found
    ]
    width = f"{found[1].width:.1f}"
    return f"{found[0].count:,}", str(found[0].projects), *cells[0], *cells[1], width


def _text(promise: Promise | None) -> str:
    shares = promise.shares if promise else ()
    return " / ".join("-" if share is None else str(share) for share in shares) or "-"


def _compared(evaluation: Evaluation) -> Grid:
    tallies = {f"tokenctx {__version__}": evaluation.own, **evaluation.of_peers}
    rows = []
    for pool, scores in evaluation.own.sorted_pools():
        others = [tally.pools[pool.name] for tally in tallies.values()]
        if scores and pool is not DELTA:
            rows.append((pool.name, f"{len(scores):,}", *map(_summary, others)))
    caption = "Counters beside each other: exact / 2 % / 5 %, median error"
    return Grid(caption, ("pool", "N", *tallies), 1, rows)


def _summary(scores: Scores) -> str:
    if not scores:
        return "-"
    figures = scores.as_json()
    shares = " / ".join(f"{figures[name]:.0f}" for name in SHARES[:3])
    return f"{shares}, {figures['median']:.1f}"


def _misses(found: Sequence[Miss]) -> Grid:
    parts = tuple(found[0].parts)
    titles = ("id", "model", "stratum", "billed", "estimate", "%", *parts, "suspect")
    rows = [
        (
            miss.call.id or f"line {miss.call.line}",
            f"{miss.call.provider} {miss.call.model}",
            miss.call.stratum,
            f"{miss.call.billed_tokens:,}",
            f"{miss.estimate.tokens:,}",
            f"{miss.percent:+,.0f}",
            *(f"{miss.parts[part]:,}" for part in parts),
            miss.suspect,
        )
        for miss in found
    ]
    return Grid("Largest misses; parts in tokens of the estimate", titles, 3, rows)
