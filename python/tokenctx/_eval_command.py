"""The command `eval`: recorded calls scored, as tables or JSON."""

from __future__ import annotations

import json
import zlib
from datetime import datetime, timezone
from pathlib import Path  # noqa: TC003  # typer reads annotations at run time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from tokenctx._core import Encoding, __version__
from tokenctx._errors import Error
from tokenctx._evaluation import Evaluation, Filter, Scores, Tally, evaluate, plain_estimator
from tokenctx._misses import misses
from tokenctx._peers import PEERS, MissingPeerError, Peer
from tokenctx._recordings import RecordingError
from tokenctx._strata import DELTA, Stratum
from tokenctx._tables import complain, console, progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenctx._misses import Miss
    from tokenctx._strata import Promise

Json = dict[str, Any]
Row = Literal["provider", "model", "family", "group", "era"]

LINES_SHOWN = 10
"""Numbers of skipped lines that are shown; all of them are in the JSON."""
MOST_COLUMNS = 1000
"""A table is as wide as it has to be: no cell is cut."""
FIGURES = (
    *("n", "exact", "within_2", "within_5", "within_10"),
    *("mape", "median", "p90", "signed_mean", "coverage"),
)
TITLES = ("N", "exact", "2 %", "5 %", "10 %", "MAPE", "median", "p90", "mean", "in bounds")


def eval_command(
    file: Annotated[Path, typer.Argument(help="Recorded calls, JSON lines; .gz too.")],
    *,
    provider: Annotated[str | None, typer.Option(help="Only this provider's calls.")] = None,
    api: Annotated[str | None, typer.Option(help="Only calls of this API.")] = None,
    model: Annotated[str | None, typer.Option(help="Only models with this in the name.")] = None,
    stratum: Annotated[Stratum | None, typer.Option(help="Only this stratum.")] = None,
    by: Annotated[Row, typer.Option(help="What the calls of a row share.")] = "provider",
    least: Annotated[int, typer.Option(min=1, help="Fewest calls of a row that is shown.")] = 20,
    worst: Annotated[int, typer.Option(min=0, help="List so many of the largest misses.")] = 0,
    compare: Annotated[
        str, typer.Option(help=f"Score others too, slower: {','.join(PEERS)}.", metavar="NAMES")
    ] = "",
    vocabulary: Annotated[
        list[str] | None,
        typer.Option(help="Count text with your tokenizer.json.", metavar="NAME=PATH"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Score recorded calls: each request estimated with nothing known, beside what was billed."""
    estimator = plain_estimator(_vocabularies(vocabulary or []))
    evaluation = Evaluation(by, worst, estimator, _peers(compare))
    try:
        _evaluate(file, Filter(provider, api, model, stratum), evaluation)
    except BrokenPipeError:
        raise
    except (RecordingError, OSError, EOFError, zlib.error) as error:
        complain(str(file), error)
        raise typer.Exit(1) from None
    found = misses(estimator, [(it[2], it[3]) for it in sorted(evaluation.worst, reverse=True)])
    if as_json:
        typer.echo(json.dumps(_as_json(file.name, evaluation, found)))
    else:
        _show(evaluation, found, least)


def _vocabularies(pairs: list[str]) -> dict[str, Encoding]:
    made = {}
    for pair in pairs:
        name, is_pair, path = pair.partition("=")
        if not (name and is_pair):
            raise typer.BadParameter(f"{pair!r} is not NAME=PATH", param_hint="--vocabulary")
        try:
            made[name] = Encoding.from_tokenizer_json(path)
        except (Error, ImportError, OSError, ValueError) as error:
            raise typer.BadParameter(f"{path}: {error}", param_hint="--vocabulary") from None
    return made


def _peers(names: str) -> list[Peer]:
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    unknown = sorted(set(chosen) - set(PEERS))
    try:
        if not unknown:
            return [Peer(name) for name in PEERS if name in chosen]
        reason = f"{unknown[0]!r} is none of {', '.join(PEERS)}"
    except MissingPeerError as error:
        reason = str(error)
    raise typer.BadParameter(reason, param_hint="--compare")


def _evaluate(file: Path, which: Filter, evaluation: Evaluation) -> None:
    with progress(str(file), file.stat().st_size) as advance_to:
        evaluate(file, which, evaluation, advance_to)
    if not evaluation.record_count:
        skipped = "; ".join(_skipped_lines(evaluation))
        reason = skipped or "no line has one that the options ask for"
        raise RecordingError(f"no recorded call to score: {reason}")


def _skipped_lines(evaluation: Evaluation) -> Iterator[str]:
    for reason, lines in evaluation.skipped.items():
        shown = ", ".join(map(str, lines[:LINES_SHOWN]))
        more = ", ..." * (len(lines) > LINES_SHOWN)
        yield f"skipped {len(lines):,} with {reason}: line {shown}{more}"


def _as_json(name: str, evaluation: Evaluation, found: list[Miss]) -> Json:
    return {
        "tokenctx": __version__,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "file": name,
        "records": evaluation.record_count,
        "skipped": evaluation.skipped,
        "seconds": round(evaluation.seconds, 3),
        "by": evaluation.by,
        **_tally_json(evaluation.by, evaluation.own),
        "compared": [
            {"counter": title, "failed": tally.failed_count, **_tally_json(evaluation.by, tally)}
            for title, tally in evaluation.of_peers.items()
        ],
        "worst": [miss.as_json() for miss in found],
    }


def _tally_json(by: str, tally: Tally) -> Json:
    return {
        "rows": [
            {by: row, "stratum": stratum, **scores.as_json()}
            for row, stratum, scores in tally.sorted_rows()
        ],
        "pools": [
            {
                "pool": pool.name,
                **scores.as_json(),
                "must": _promise_json(pool.must),
                "aim": _promise_json(pool.aim),
            }
            for pool, scores in tally.sorted_pools()
        ],
    }


def _promise_json(promise: Promise | None) -> list[int | None] | None:
    return [promise.exact, promise.within_2, promise.within_5] if promise else None


def _show(evaluation: Evaluation, found: list[Miss], least: int) -> None:
    screen = console()
    unlimited = screen.options.update(max_width=MOST_COLUMNS)
    tables = [_row_table(evaluation, least), _pool_table(evaluation.own)]
    if evaluation.of_peers:
        tables.append(_compared_table(evaluation))
    if found:
        tables.append(_miss_table(found))
    for table in tables:
        screen.width = max(screen.width, screen.measure(table, options=unlimited).maximum)
        screen.print(table)
    for line in _notes(evaluation, least):
        screen.print(Text(line), soft_wrap=True)


def _notes(evaluation: Evaluation, least: int) -> Iterator[str]:
    small = sum(len(scores) < least for *_, scores in evaluation.own.sorted_rows())
    if small:
        yield f"not shown: {small:,} rows of fewer than {least} calls"
    rate = evaluation.record_count / evaluation.seconds
    yield f"{evaluation.record_count:,} calls scored, {rate:,.0f} a second"
    for title, tally in evaluation.of_peers.items():
        if tally.failed_count:
            yield f"{title} failed on {tally.failed_count:,} calls, which are not in its figures"
    yield from _skipped_lines(evaluation)


def _table(titles: tuple[str, ...], left: int, caption: str) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1), title=caption,
        title_justify="left",
    )  # fmt: skip
    for place, title in enumerate(titles):
        table.add_column(title, justify="left" if place < left else "right", no_wrap=True)
    return table


def _cells(scores: Scores) -> list[str]:
    figures = scores.as_json()
    shares = ("n", *(name for name in FIGURES if name.startswith(("exact", "within"))), "coverage")
    return [
        "-" if figures[name] is None else f"{figures[name]:,.{0 if name in shares else 1}f}"
        for name in FIGURES
    ]


def _row_table(evaluation: Evaluation, least: int) -> Table:
    table = _table(
        (evaluation.by, "stratum", *TITLES),
        2,
        "Shares in % of calls, errors in % of what was billed",
    )
    for row, stratum, scores in evaluation.own.sorted_rows():
        if len(scores) >= least:
            table.add_row(Text(row), stratum, *_cells(scores))
    return table


def _pool_table(tally: Tally) -> Table:
    table = _table(("pool", *TITLES, "must", "aim"), 1, "Must and aim: exact / 2 % / 5 %")
    for pool, scores in tally.sorted_pools():
        if scores:
            promises = map(_promise_text, (pool.must, pool.aim))
            table.add_row(pool.name, *_cells(scores), *promises)
    return table


def _promise_text(promise: Promise | None) -> str:
    shares = _promise_json(promise)
    return " / ".join("-" if share is None else str(share) for share in shares) if shares else "-"


def _compared_table(evaluation: Evaluation) -> Table:
    tallies = {f"tokenctx {__version__}": evaluation.own, **evaluation.of_peers}
    caption = "Counters beside each other: exact / 2 % / 5 %, median error in %"
    table = _table(("pool", "N", *tallies), 1, caption)
    for pool, scores in evaluation.own.sorted_pools():
        others = [tally.pools[pool.name] for tally in tallies.values()]
        if scores and pool is not DELTA:
            table.add_row(pool.name, f"{len(scores):,}", *map(_summary, others))
    return table


def _summary(scores: Scores) -> str:
    if not scores:
        return "-"
    figures = scores.as_json()
    shares = " / ".join(f"{figures[name]:.0f}" for name in ("exact", "within_2", "within_5"))
    return f"{shares}, {figures['median']:.1f}"


def _miss_table(found: list[Miss]) -> Table:
    parts = tuple(found[0].parts)
    titles = ("id", "model", "stratum", "billed", "estimate", "%", *parts, "suspect")
    table = _table(titles, 3, "Largest misses; parts in tokens of the estimate")
    for miss in found:
        call, tokens = miss.call, miss.estimate.tokens
        percent = 100 * (tokens - call.billed_tokens) / call.billed_tokens
        table.add_row(
            Text(call.id or f"line {call.line}"),
            Text(f"{call.provider} {call.model}"),
            call.stratum,
            f"{call.billed_tokens:,}",
            f"{tokens:,}",
            f"{percent:+,.0f}",
            *(f"{miss.parts[part]:,}" for part in parts),
            miss.suspect,
        )
    return table
