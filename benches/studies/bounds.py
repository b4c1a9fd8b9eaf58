"""Makes `bounds.json` from recorded calls, and shows what the bounds cover on others.

    python3 dev.py study bounds calls.jsonl.gz sessions.jsonl.gz           # where not measured
    python3 dev.py study bounds calls.jsonl.gz sessions.jsonl.gz --write   # and the table

A bound is a quantile of errors: (billed - counted) / (counted + slack), for each profile and
stratum. The narrowest interval around the count that holds the wanted share of calls is taken, like
split conformal prediction with its correction for finite numbers. A row of few calls borrows from
its provider's, that one from all: as many calls as `BORROWED_CALLS` weigh.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from reference.bounds import (
    METHODS,
    SLACK_TOKENS,
    STRATA,
    UNMEASURED_PERMILLE,
    Scope,
    interval,
    row_names,
    stratum_of,
)
from request_laws import view
from tokenctx import HybridTokenEstimator
from tokenctx._estimate.estimator import Method
from tokenctx._estimate.profiles import bundled_profiles
from tokenctx._evaluation.evaluation import Scorer, Unusable, numbered_lines, read_call
from tokenctx._evaluation.recordings import read_recording
from tokenctx._evaluation.replay import replay
from tokenctx._evaluation.strata import vendor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from reference.bounds import View
    from tokenctx._evaluation.evaluation import Call
    from tokenctx._models import Estimate

TABLE: Final = Path(__file__).parents[2] / "python/tokenctx/data/bounds.json"
COVERAGE: Final = 0.85
"""What each row is made for, so that all together cover 90 %: rows of a provider whose count is
mostly exact cover what is exact, which is more, and rounding to whole tokens adds to the others."""
BORROWED_CALLS: Final = 20
LEAST_CALLS: Final = 5
"""Fewest calls of a row that is written; the row of the provider stands for less."""
FOLDS: Final = 5
SCOPES: Final = get_args(Scope)

Row = tuple[Scope, str, str]
"""Scope, name of the row, stratum."""
Table = dict[Row, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Point:
    """A counted and a billed number of tokens, and where its bounds stand, the best row first."""

    id: str
    group: str
    title: str
    scope: Scope
    names: tuple[str, ...]
    stratum: str
    counted_tokens: int
    billed_tokens: int
    is_determined: bool

    @property
    def rows(self) -> list[Row]:
        return [(self.scope, name, self.stratum) for name in self.names]

    @property
    def error(self) -> float:
        return (self.billed_tokens - self.counted_tokens) / (self.counted_tokens + SLACK_TOKENS)


def points(path: Path, methods: Sequence[Method] = get_args(Method)[1:]) -> Iterator[Point]:
    """What every recorded call says about bounds: whole, from the turn before, by `methods`."""
    scorer = Scorer()
    others = [Scorer(HybridTokenEstimator(method=name, learning=False)) for name in methods]
    for number, line, _ in numbered_lines(path):
        try:
            call = read_call(number, line)
            estimates = [scorer.estimate(call), *(other.estimate(call) for other in others)]
        except Unusable:
            continue
        if delta := scorer.delta(call):
            estimates.append(delta)
        request = view(call.body, model=call.model or None, dialect=call.dialect)
        yield from (point(call, request, estimate) for estimate in estimates)


def point(call: Call, request: View, estimate: Estimate) -> Point:
    is_new = estimate.source == "delta"
    start = len(request["messages"]) - estimate.new_message_count if is_new else 0
    vendor = vendor_of(call.provider, call.api, call.model)
    is_method = estimate.profile in METHODS
    names = rows_of(estimate)
    return Point(
        call.id,
        call.group,
        f"method {estimate.profile}" if is_method else f"delta {vendor}" if is_new else vendor,
        "new" if is_new else "whole",
        names[:1] if is_method else names,
        stratum_of(request, start, estimate.assumptions),
        estimate.estimated_tokens,
        max(0, call.billed_tokens - estimate.known_tokens),
        call.stratum != "undetermined",
    )


def rows_of(estimate: Estimate) -> tuple[str, ...]:
    provider = (
        "" if estimate.profile in METHODS else bundled_profiles()[estimate.profile]["provider"]
    )
    is_known = "unknown_model" not in estimate.assumptions
    return row_names(estimate.profile, provider, is_known_model=is_known)


def reply_points(path: Path) -> Iterator[Point]:
    """What the turns of recorded sessions say, whose totals start from input and output."""
    for conversation in read_recording(path).conversations:
        known = 0
        turns = list(conversation.turns)
        session = replace(conversation, turns=iter(turns))
        for turn in replay(session):
            estimate = turn.estimate
            derived = estimate.known_tokens - known
            known = turn.billed_tokens
            if estimate.source != "delta" or derived <= 0:
                continue
            request = view(turns[turn.number - 1].body)
            start = len(request["messages"]) - estimate.new_message_count
            counted = estimate.estimated_tokens + derived
            yield Point(
                f"{conversation.name} {turn.number}",
                conversation.name,
                "session",
                "reply",
                rows_of(estimate),
                stratum_of(request, start, estimate.assumptions),
                counted,
                max(0, turn.billed_tokens - (estimate.tokens - counted)),
                is_determined=True,
            )


Weighted = list[tuple[float, float]]
"""Errors with their weights."""


def fit(known: Iterable[Point]) -> Table:
    """The bounds of every row that one of the points has."""
    by_rows: dict[tuple[Row, ...], list[float]] = defaultdict(list)
    for one in known:
        by_rows[tuple(one.rows)].append(one.error)
    own: dict[Row, Weighted] = defaultdict(list)
    parents: dict[Row, Row | None] = {}
    for rows, errors in by_rows.items():
        for row, parent in zip(rows, (*rows[1:], None), strict=True):
            own[row] += [(error, 1.0) for error in errors]
            parents[row] = parent
    found: dict[Row, Weighted] = {}

    def borrowed(row: Row) -> Weighted:
        if row not in found:
            parent = parents[row]
            lent = borrowed(parent) if parent else []
            weight = sum(weight for _, weight in lent)
            share = BORROWED_CALLS / max(weight, BORROWED_CALLS)
            found[row] = own[row] + [(error, weight * share) for error, weight in lent]
        return found[row]

    return {row: permille(narrowest(borrowed(row))) for row in own if len(own[row]) >= LEAST_CALLS}


def narrowest(errors: Weighted) -> tuple[float, float]:
    """The narrowest interval around 0 that holds `COVERAGE` of the weight, corrected."""
    ordered = sorted([*errors, (0.0, 0.0)])
    total = sum(weight for _, weight in ordered)
    needed = min(COVERAGE * (total + 1), total)
    sums = [0.0]
    for _, weight in ordered:
        sums.append(sums[-1] + weight)
    found, end = (ordered[0][0], ordered[-1][0]), 0
    for start, (low, _) in enumerate(ordered):
        if low > 0:
            break
        while end < len(ordered) and (
            sums[end + 1] - sums[start] < needed - 1e-9 or ordered[end][0] < 0
        ):
            end += 1
        if end == len(ordered):
            break
        found = min(found, (low, ordered[end][0]), key=lambda pair: pair[1] - pair[0])
    return found


def permille(bounds: tuple[float, float]) -> tuple[int, int]:
    low, high = bounds
    return max(0, math.floor(1000 * (1 + low) + 1e-9)), math.ceil(1000 * (1 + high) - 1e-9)


@dataclass(frozen=True, slots=True)
class Judged:
    """A point with the bounds that a table gives it."""

    point: Point
    low: int
    high: int

    @property
    def is_covered(self) -> bool:
        return self.low <= self.point.billed_tokens <= self.high

    @property
    def titles(self) -> Iterator[tuple[str, str]]:
        """The lines of the report that it is counted in."""
        one = self.point
        yield one.title, one.stratum
        yield one.title, "all"
        if one.scope == "whole" and not one.title.startswith("method"):
            yield "", "all whole requests"
            yield "", "of them: a range" if self.low < self.high else "of them: one number"


def judged(one: Point, table: Table) -> Judged:
    bounds = next((table[row] for row in one.rows if row in table), UNMEASURED_PERMILLE)
    return Judged(one, *interval(one.counted_tokens, one.counted_tokens, bounds))


def judged_elsewhere(known: Sequence[Point], key: Callable[[Point], str]) -> Iterator[Judged]:
    """Each point with bounds that were made without its fold of `key`."""
    folds = [[one for one in known if fold_of(key(one)) == fold] for fold in range(FOLDS)]
    for fold in folds:
        table = fit(one for other in folds if other is not fold for one in other)
        yield from (judged(one, table) for one in fold)


def fold_of(name: str) -> int:
    return hashlib.sha256(name.encode()).digest()[0] % FOLDS


def show(known: Sequence[Point]) -> None:
    splits: dict[str, Callable[[Point], str]] = {
        "other calls": lambda one: one.id,
        "other projects": lambda one: one.group,
    }
    shares: dict[tuple[str, str], dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for split, key in splits.items():
        for result in judged_elsewhere(known, key):
            if result.point.is_determined:
                for title in result.titles:
                    shares[title][split].append(result.is_covered)
    print(f"{'covered, %':40}{'N':>7}" + "".join(f"{split:>16}" for split in splits))
    for names, by_split in sorted(shares.items()):
        cells = "".join(
            f"{100 * sum(hits) / len(hits):16.1f}" if (hits := by_split[split]) else f"{'-':>16}"
            for split in splits
        )
        print("".join(f"{name:20}" for name in names) + f"{len(by_split['other calls']):7,}{cells}")


def as_json(table: Table, known: Sequence[Point]) -> dict[str, Any]:
    counts: dict[Row, int] = defaultdict(int)
    for one in known:
        for row in one.rows:
            counts[row] += 1
    rows: dict[str, dict[str, dict[str, list[int]]]] = {scope: {} for scope in SCOPES}
    for row in sorted(table, key=lambda row: (row[0], row[1], STRATA.index(row[2]))):
        scope, name, stratum = row
        rows[scope].setdefault(name, {})[stratum] = [*table[row], counts[row]]
    return {
        "about": f"Bounds of a count, low and high, as permille of {SLACK_TOKENS} tokens more than "
        f"the count, for {COVERAGE:.0%} of recorded calls, and how many those were; by what is not "
        "billed yet, by profile, by stratum. Made by benches/studies/bounds.py.",
        "date": datetime.now(timezone.utc).date().isoformat(),
        **rows,
    }


def text_of(table: dict[str, Any]) -> str:
    """`table` as JSON, a line for each row."""
    lines = [f"{json.dumps(name)}: {json.dumps(table[name])}" for name in table]
    for place, name in enumerate(table):
        if isinstance(table[name], dict):
            rows = [f"    {json.dumps(key)}: {json.dumps(row)}" for key, row in table[name].items()]
            lines[place] = f"{json.dumps(name)}: {{\n" + ",\n".join(rows) + "\n  }"
    return "{\n  " + ",\n  ".join(lines) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("calls", type=Path, help="recorded calls, as `tokenctx eval` reads them")
    parser.add_argument("sessions", type=Path, help="recorded sessions, as `tokenctx replay` does")
    parser.add_argument("--write", action="store_true", help="write the table")
    options = parser.parse_args()
    known = [*points(options.calls), *reply_points(options.sessions)]
    show(known)
    if options.write:
        table = as_json(fit(known), known)
        TABLE.write_text(text_of(table), "utf-8")
        print(f"written: {TABLE.name}, {sum(len(table[scope]) for scope in SCOPES)} rows")


if __name__ == "__main__":
    main()
