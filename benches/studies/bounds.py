"""Makes `bounds.json` from recorded calls, and shows what the bounds cover on other projects.

    python3 dev.py study bounds --calls a.jsonl.gz b.jsonl.gz --sessions c.jsonl.gz

shows them, and makes the table too with `--write`. A bound is a quantile of errors, (billed -
counted) / (counted + slack), for each profile and stratum; counted by what the projects tell that
did not send the call (`held_out.py`). The narrowest interval around the count that holds the wanted
share is taken. Where constants are fitted the unit is the project, not the call: a row of few
projects borrows from its provider's, that one from all (`Trust`), and the wanted share is corrected
for so few, as in split conformal prediction. What is shown as covered is so by bounds that were
made without the project.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from leave_one_out import mapped
from reference.bounds import (
    METHODS,
    SLACK_TOKENS,
    STRATA,
    UNMEASURED_PERMILLE,
    Scope,
    interval,
    row_names,
    scope_after,
    stratum_in,
    stratum_of,
)
from request_laws import view
from tokenctx import HybridTokenEstimator
from tokenctx._estimate.estimator import Method
from tokenctx._estimate.profiles import bundled_profiles
from tokenctx._evaluation.evaluation import Scorer, Unusable, read_call
from tokenctx._evaluation.fit import Rows
from tokenctx._evaluation.held_out import (
    bundled_rows,
    chunks,
    fold,
    model_like,
    quantile,
    scored,
    tasks,
)
from tokenctx._evaluation.held_out import weighed as weighed_by_model
from tokenctx._evaluation.recordings import read_recording
from tokenctx._evaluation.replay import replay
from tokenctx._evaluation.strata import POOLS, vendor_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tokenctx._evaluation.evaluation import Call
    from tokenctx._evaluation.held_out import Chunk, Task
    from tokenctx._models import Estimate

TABLE: Final = Path(__file__).parents[2] / "python/tokenctx/data/bounds.json"
COVERAGE, MOST_COVERAGE = 0.91, 0.98
"""What each row is made for, of many projects and of very few: more than the 90 % that are said,
since calls of projects that are not here are further off."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How far the calls of some projects speak for those of others.

    Attributes:
        half_calls: A project of so many calls weighs half of one with very many.
        borrowed: So many projects are borrowed from the row above.
        correction: So many projects are added for the correction.
    """

    half_calls: float
    borrowed: float
    correction: float


FITTED: Final = Trust(4, 2, 0.2)
"""Where constants are fitted has its own: the project is the unit."""
ROUGH: Final = Trust(6, 2.8, 0.3)
"""For media, whose rules are the roughest."""
EXACT: Final = Trust(800, 0.06, 0)
"""Where a rule is exact it is so for all, and the call is the unit."""
ROUGH_STRATA: Final = frozenset({"files", "images"})
EXACT_PROVIDERS: Final = frozenset({"openai", "anthropic", "google"})
MOST_PERMILLE: Final = 100_000
"""A bill may be a thousand times what was counted; who is told so knows no more than with this."""
LEAST_CALLS: Final = 3
"""Fewest calls of a row that is written; the row of the provider stands for less."""
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
    weight: float = 1.0
    known_tokens: int = 0
    pools: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Row]:
        return [(self.scope, name, self.stratum) for name in self.names]

    @property
    def error(self) -> float:
        return (self.billed_tokens - self.counted_tokens) / (self.counted_tokens + SLACK_TOKENS)


def chunk_points(chunk: Chunk) -> list[Point]:
    """What calls say about bounds that no fit is for: undetermined ones, and all by `METHODS`."""
    found = []
    for number, line in chunk:
        with suppress(Unusable):
            call = read_call(number, line)
            if call.stratum == "undetermined":
                found += call_points(call, scorer_of("profile"))
            for name in get_args(Method)[1:]:
                found.append(point(call, scorer_of(name).estimate(call)))
    return found


@cache
def scorer_of(method: Method) -> Scorer:
    return Scorer(HybridTokenEstimator(method=method, learning=False))


def call_points(call: Call, scorer: Scorer, names: tuple[str, ...] | None = None) -> list[Point]:
    """What a call says, whole and from the turn before."""
    estimates = [scorer.estimate(call), scorer.delta(call)]
    return [point(call, estimate, names) for estimate in estimates if estimate]


def project_points(task: Task) -> list[Point]:
    """What the calls of a project say, counted with what the others tell."""
    samples, supported, calls = task
    its_fold = fold(bundled_rows(), samples, supported, calls[0].project)
    scorer = Scorer(Rows(json.loads(its_fold.rows)).estimator())
    found = []
    for one in calls:
        call = read_call(*one.line)
        if not its_fold.has_support(one):
            call = replace(call, model=model_like(one.profile))
        with suppress(Unusable):
            points = call_points(call, scorer, row_names_of(one.profile, one.is_known_model))
            found += [replace(it, weight=one.weight) for it in points]
    return found


def point(call: Call, estimate: Estimate, names: tuple[str, ...] | None = None) -> Point:
    request = view(call.body, model=call.model or None, dialect=call.dialect)
    is_new = estimate.source == "delta"
    start = len(request["messages"]) - estimate.new_message_count if is_new else 0
    vendor = vendor_of(call.provider, call.api, call.model)
    is_method = estimate.profile in METHODS
    names = names or rows_of(estimate)
    pools = [pool.name for pool in POOLS if pool.holds(vendor, call.api, call.stratum)]
    is_whole = not is_method and not is_new
    scope = scope_after(estimate.known_tokens, request["messages"][start:]) if is_new else "whole"
    return Point(
        f"{call.group} {call.id}",
        call.group,
        f"method {estimate.profile}" if is_method else f"delta {vendor}" if is_new else vendor,
        scope,
        names[:1] if is_method else names,
        stratum_in(scope, stratum_of(request, start, estimate.assumptions)),
        estimate.estimated_tokens,
        max(0, call.billed_tokens - estimate.known_tokens),
        call.stratum != "undetermined",
        known_tokens=estimate.known_tokens,
        pools=tuple(pools) if is_whole else (),
    )


def rows_of(estimate: Estimate) -> tuple[str, ...]:
    return row_names_of(estimate.profile, "unknown_model" not in estimate.assumptions)


def row_names_of(profile: str, is_known_model: bool) -> tuple[str, ...]:  # noqa: FBT001
    provider = "" if profile in METHODS else bundled_profiles()[profile]["provider"]
    return row_names(profile, provider, is_known_model=is_known_model)


def session_points(path: Path) -> Iterator[Point]:
    """What the turns of recorded sessions say, whose totals start from input and output."""
    for conversation in read_recording(path).conversations:
        known = 0
        turns = list(conversation.turns)
        for turn in replay(replace(conversation, turns=iter(turns))):
            estimate = turn.estimate
            derived, known = estimate.known_tokens - known, turn.billed_tokens
            if estimate.source != "delta" or derived < 0:
                continue
            request = view(turns[turn.number - 1].body)
            start = len(request["messages"]) - estimate.new_message_count
            counted = estimate.estimated_tokens + derived
            after = scope_after(estimate.known_tokens, request["messages"][start:])
            scope: Scope = "reply" if derived else after
            yield Point(
                f"{conversation.name} {turn.number}",
                conversation.name,
                "session",
                scope,
                rows_of(estimate),
                stratum_in(scope, stratum_of(request, start, estimate.assumptions)),
                counted,
                max(0, turn.billed_tokens - (estimate.tokens - counted)),
                is_determined=True,
                known_tokens=estimate.tokens - counted,
            )


Weighted = list[tuple[float, float]]
"""Errors with their weights."""


class Errors:
    """Errors by row and project, and the row that each borrows from."""

    def __init__(self, known: Iterable[Point]) -> None:
        self.by_row: dict[Row, dict[str, Counter[float]]] = defaultdict(
            lambda: defaultdict(Counter)
        )
        self.parents: dict[Row, Row | None] = {}
        for one in known:
            for row, parent in zip(one.rows, (*one.rows[1:], None), strict=True):
                self.by_row[row][one.group][round(one.error, 4)] += one.weight  # type: ignore[assignment]
                self.parents[row] = parent

    def bounds(self, without: str, rows: Iterable[Row]) -> Table:
        """The bounds of those of `rows` that have enough calls without a project."""
        lent: dict[Row, Weighted] = {}
        found = {}
        for row in rows:
            projects = [it for name, it in self.by_row[row].items() if name != without]
            if sum(map(Counter.total, projects)) >= LEAST_CALLS:
                found[row] = permille(
                    narrowest(self._with_lent(row, without, lent), trust(row).correction)
                )
        return found

    def _with_lent(self, row: Row, without: str, lent: dict[Row, Weighted]) -> Weighted:
        """The errors of a row, and those that it borrows."""
        if row not in lent:
            others = (it for name, it in self.by_row[row].items() if name != without)
            own = weighed(others, trust(row).half_calls)
            parent = self.parents[row]
            above = self._with_lent(parent, without, lent) if parent else []
            borrowed = trust(row).borrowed
            share = borrowed / max(sum(weight for _, weight in above), borrowed)
            lent[row] = own + [(error, weight * share) for error, weight in above]
        return lent[row]


def fit(known: Iterable[Point]) -> Table:
    """The bounds of every row that enough of the points have."""
    errors = Errors(known)
    return errors.bounds("", errors.by_row)


def trust(row: Row) -> Trust:
    """How far the calls of a row speak for others."""
    scope, name, stratum = row
    if stratum in ROUGH_STRATA:
        return ROUGH
    if scope == "reply":
        return FITTED
    profile = bundled_profiles().get(name)
    is_exact = profile["layout"] != "linear" if profile else name[9:] in EXACT_PROVIDERS
    return EXACT if is_exact else FITTED


def weighed(projects: Iterable[Counter[float]], half_calls: float) -> Weighted:
    """Errors of a row by project, none of which weighs more than 1."""
    found: Counter[float] = Counter()
    for errors in projects:
        calls = errors.total()
        for error, count in errors.items():
            found[error] += count / (calls + half_calls)  # type: ignore[assignment]
    return list(found.items())


def narrowest(errors: Weighted, correction: float) -> tuple[float, float]:
    """The narrowest interval around 0 that holds `COVERAGE` of the weight, corrected."""
    ordered = sorted([*errors, (0.0, 0.0)])
    total = sum(weight for _, weight in ordered)
    needed = min(COVERAGE * (total + correction), MOST_COVERAGE * total)
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
    most = math.ceil(1000 * (1 + high) - 1e-9)
    return max(0, math.floor(1000 * (1 + low) + 1e-9)), min(most, MOST_PERMILLE)


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
    def width_percent(self) -> float:
        """How far apart the bounds are, in percent of the whole count."""
        return 100 * (self.high - self.low) / max(1, self._tokens)

    @property
    def error_percent(self) -> float:
        billed = self.point.known_tokens + self.point.billed_tokens
        return 100 * abs(self._tokens - billed) / max(1, billed)

    @property
    def _tokens(self) -> int:
        return self.point.known_tokens + self.point.counted_tokens

    @property
    def titles(self) -> Iterator[str]:
        """The lines of the report that it is counted in."""
        one = self.point
        yield from one.pools
        if one.title == "session":
            yield f"session {one.group[:12]}"
        if one.is_determined and one.scope != "whole":
            yield f"{one.title}, {one.scope}"
        if one.is_determined and one.stratum == "reasoning replayed" and one.pools:
            yield one.stratum
        if one.title.startswith("method"):
            yield one.title


def judged(one: Point, table: Table) -> Judged:
    bounds = next((table[row] for row in one.rows if row in table), UNMEASURED_PERMILLE)
    return Judged(one, *interval(one.counted_tokens, one.counted_tokens, bounds))


def judged_elsewhere(known: Sequence[Point]) -> Iterator[Judged]:
    """Each point with bounds that were made without its project."""
    errors = Errors(known)
    by_group: dict[str, list[Point]] = defaultdict(list)
    for one in known:
        by_group[one.group].append(one)
    for group, own in by_group.items():
        table = errors.bounds(group, {row for one in own for row in one.rows})
        yield from (judged(one, table) for one in own)


def show(known: Sequence[Point]) -> None:
    """Coverage, width and error, each with bounds of other projects."""
    lines: dict[str, list[Judged]] = defaultdict(list)
    for result in judged_elsewhere(known):
        for title in result.titles:
            lines[title].append(result)
    print(
        f"{'':46}{'N':>7}{'covered':>9}{'width':>9}{'error p90':>11}   (median width, % of count)"
    )
    for title, results in sorted(lines.items()):
        weights = [one.point.weight for one in results]
        hits = sum(weight for one, weight in zip(results, weights, strict=True) if one.is_covered)
        width = quantile([one.width_percent for one in results], weights, 0.5)
        error = quantile([one.error_percent for one in results], weights, 0.9)
        share = 100 * hits / sum(weights)
        print(f"{title:46}{len(results):7,}{share:9.1f}{width:9.1f}{error:11.1f}")


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


def all_points(calls: Sequence[Path], sessions: Sequence[Path]) -> list[Point]:
    """What all recordings say."""
    with mapped("bounds") as apply:
        found = [one for points in apply(chunk_points, chunks(calls)) for one in points]
        held = weighed_by_model([one for part in apply(scored, chunks(calls)) for one in part])
        found += [one for points in apply(project_points, tasks(held)) for one in points]
    return found + [one for path in sessions for one in session_points(path)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=Path, nargs="+", required=True, help="as `eval` reads them")
    parser.add_argument("--sessions", type=Path, nargs="+", default=[], help="as `replay` does")
    parser.add_argument("--write", action="store_true", help="write the table")
    options = parser.parse_args()
    known = all_points(options.calls, options.sessions)
    show(known)
    if options.write:
        table = as_json(fit(known), known)
        TABLE.write_text(text_of(table), "utf-8")
        print(f"written: {TABLE.name}, {sum(len(table[scope]) for scope in SCOPES)} rows")


if __name__ == "__main__":
    main()
