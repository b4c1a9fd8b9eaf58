"""The command `eval`: recorded calls scored, as tables, Markdown or JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timezone
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from tokenctx._cli.eval_tables import document, left_out, show, skipped_lines
from tokenctx._cli.evaluation.evaluation import (
    ROWS,
    Evaluation,
    Filter,
    Tally,
    evaluate,
    plain_estimator,
)
from tokenctx._cli.evaluation.forecasts import forecasts
from tokenctx._cli.evaluation.held_out import by_pool, figures, held_out
from tokenctx._cli.evaluation.misses import misses
from tokenctx._cli.evaluation.peers import PEERS, MissingPeerError, Peer
from tokenctx._cli.evaluation.recordings import RecordingError, read_recording, recorded_in
from tokenctx._cli.evaluation.strata import Stratum  # noqa: TC001  # typer reads annotations at run time
from tokenctx._cli.files import UNREADABLE, FileError
from tokenctx._cli.help_texts import RECORDINGS
from tokenctx._cli.money import forecast_grid
from tokenctx._cli.screen import (
    complain,
    console,
    print_document,
    print_line,
    print_table,
    progress,
    remark,
    say_faults,
)
from tokenctx._core import Encoding, __version__
from tokenctx._results.errors import Error

if TYPE_CHECKING:
    from pathlib import Path

    from tokenctx._cli.evaluation.misses import Miss
    from tokenctx._cli.evaluation.strata import Promise

NO_LINE: Final = "no line has one that the options ask for"
Json = dict[str, Any]
Name = TypeVar("Name", bound=str)


def eval_command(
    words: Annotated[list[str], typer.Argument(metavar="FILES...", help=RECORDINGS)],
    *,
    provider: Annotated[str | None, typer.Option(help="Only this provider's calls.")] = None,
    api: Annotated[str | None, typer.Option(help="Only calls of this API.")] = None,
    model: Annotated[str | None, typer.Option(help="Only models with this in the name.")] = None,
    stratum: Annotated[Stratum | None, typer.Option(help="Only this stratum.")] = None,
    by: Annotated[
        str, typer.Option(help=f"What the calls of a row share: {','.join(ROWS)}.", metavar="NAMES")
    ] = "provider",
    least: Annotated[int, typer.Option(min=1, help="Fewest calls of a row that is shown.")] = 20,
    worst: Annotated[int, typer.Option(min=0, help="List so many of the largest misses.")] = 0,
    compare: Annotated[
        str, typer.Option(help=f"Score others too, slower: {','.join(PEERS)}.", metavar="NAMES")
    ] = "",
    vocabulary: Annotated[
        list[str] | None,
        typer.Option(help="Count text with your tokenizer.json.", metavar="NAME=PATH"),
    ] = None,
    cache: Annotated[
        bool, typer.Option("--cache", help="Score forecasts of caches and prices instead.")
    ] = False,
    leave_one_out: Annotated[
        bool,
        typer.Option("--leave-one-out", help="Score each `group` with what the others tell too."),
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="A document.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Score first estimates against recorded bills."""
    files, faults = recorded_in(words)
    failed = say_faults(faults)
    if cache:
        _forecasts(files, provider, least, is_markdown=markdown, as_json=as_json)
    elif leave_one_out:
        _left_out(files, is_markdown=markdown, as_json=as_json)
    if cache or leave_one_out:
        if failed:
            raise typer.Exit(1)
        return
    estimator = plain_estimator(_vocabularies(vocabulary or []))
    evaluation = Evaluation(_chosen(by, tuple(ROWS), "--by"), worst, estimator, _peers(compare))
    which = Filter(provider, api, model, stratum)
    for file in files:
        try:
            _evaluate(file, which, evaluation, is_only=len(files) == 1)
        except BrokenPipeError:  # noqa: PERF203  # of one file
            raise
        except (RecordingError, FileError, *UNREADABLE) as error:
            complain(str(file), error)
            failed.append(str(file))
    if not evaluation.record_count:
        if not failed:
            remark(f"no recorded call to score: {NO_LINE}")
        raise typer.Exit(1)
    found = misses(estimator, [(it[2], it[3]) for it in sorted(evaluation.worst, reverse=True)])
    if as_json:
        told = _as_json(_names(files), evaluation, found)
        print_line(json.dumps({**told, "failed_files": failed} if failed else told))
    elif markdown:
        print_document(document(evaluation, least, _today()))
    else:
        show(evaluation, found, least)
    if failed:
        raise typer.Exit(1)


def _forecasts(
    files: list[Path], provider: str | None, least: int, *, is_markdown: bool, as_json: bool
) -> None:
    """Replay the conversations of files, and show how far forecasts were from the bills."""
    try:
        recordings = [read_recording(file) for file in files]
        whole = sum(it.conversation_count for it in recordings)
        conversations = chain.from_iterable(it.conversations for it in recordings)
        with progress("conversations", whole) as advance_to:
            chosen = (
                conversation
                for number, conversation in enumerate(conversations, 1)
                if provider in {None, conversation.provider} and advance_to(number) is None
            )
            found = forecasts(chosen)
    except BrokenPipeError:
        raise
    except (RecordingError, FileError, *UNREADABLE) as error:
        complain(", ".join(map(str, files)), error)
        raise typer.Exit(1) from None
    grid = forecast_grid(found, least)
    if as_json:
        rows = [
            {"provider": host, "is_continued": is_continued, **figures.as_json()}
            for (host, is_continued), figures in sorted(found.items())
        ]
        print_line(json.dumps({"file": _names(files), "forecasts": rows}))
    elif is_markdown:
        print_document(grid.as_markdown())
    else:
        print_table(console(), grid.as_table())


def _left_out(files: list[Path], *, is_markdown: bool, as_json: bool) -> None:
    """Score the calls of each project with all rules, and with those that the others support."""
    try:
        pools = by_pool(held_out(files))
    except (FileError, *UNREADABLE) as error:
        complain(", ".join(map(str, files)), error)
        raise typer.Exit(1) from None
    grid = left_out("pool", pools)
    if as_json:
        rows = [
            {
                "pool": pool,
                "in_sample": asdict(figures(held, is_without=False)),
                "out_of_project": asdict(figures(held, is_without=True)),
            }
            for pool, held in pools.items()
        ]
        print_line(json.dumps({"file": _names(files), "pools": rows}))
    elif is_markdown:
        print_document(grid.as_markdown())
    else:
        print_table(console(), grid.as_table())


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


def _chosen(names: str, known: tuple[Name, ...], option: str) -> tuple[Name, ...]:
    """Those of the known names that a list with commas has, in its order."""
    found = [name.strip() for name in names.split(",") if name.strip()]
    for name in found:
        if name not in known:
            reason = f"{name!r} is none of {', '.join(known)}"
            raise typer.BadParameter(reason, param_hint=option)
    return tuple(name for one in found for name in known if name == one)


def _peers(names: str) -> list[Peer]:
    try:
        return [Peer(name) for name in _chosen(names, PEERS, "--compare")]
    except MissingPeerError as error:
        raise typer.BadParameter(str(error), param_hint="--compare") from None


def _evaluate(file: Path, which: Filter, evaluation: Evaluation, *, is_only: bool) -> None:
    before, others = evaluation.record_count, evaluation.skipped
    evaluation.skipped = {}
    try:
        with progress(str(file), file.stat().st_size) as advance_to:
            evaluate(file, which, evaluation, advance_to)
    finally:  # of several files each says where its lines are
        own = evaluation.skipped
        evaluation.skipped = others | (
            own if is_only else {f"{reason} ({file})": it for reason, it in own.items()}
        )
    if evaluation.record_count == before and (is_only or which == Filter()):
        skipped = "; ".join(skipped_lines(evaluation))
        reason = skipped or NO_LINE
        raise RecordingError(f"no recorded call to score: {reason}")


def _names(files: list[Path]) -> str:
    return ", ".join(it.name for it in files)


def _today() -> str:
    return datetime.now(timezone.utc).date().isoformat()


def _as_json(name: str, evaluation: Evaluation, found: list[Miss]) -> Json:
    return {
        "tokenctx": __version__,
        "date": _today(),
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


def _tally_json(names: tuple[str, ...], tally: Tally) -> Json:
    return {
        "rows": [
            {by: row, "stratum": stratum, **scores.as_json()}
            for by in names
            for row, stratum, scores in tally.sorted_rows(by)
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
    return list(promise.shares) if promise else None
