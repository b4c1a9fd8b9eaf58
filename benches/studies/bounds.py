"""Makes `bounds.json` from recorded calls, and shows what the bounds cover on other projects.

    python3 dev.py study bounds --calls a.jsonl.gz b.jsonl.gz --sessions c.jsonl.gz

shows them; `--write` makes the table, and writes what is shown into docs/accuracy.md. A request is
bounded part by part: text, tools, output schema, files, images, reasoning. What the text may be off
by is learned from calls of nothing but text; what tools may be off by from calls of text and tools,
beyond what their text may explain; and so on. A row holds a share of these errors in the narrowest
interval around the count. The unit is the project where constants are fitted: a row borrows from
its provider's, that one from all (`Trust`).

Which share, and how much wider than the errors, is chosen for each part, kind of turn and vendor:
the narrowest that holds what is aimed at of the calls of projects that the rows were made without
(`Aim`, `Fit`). What is shown as covered is so by rows that were made without the project.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from bound_points import METHOD, SESSION, Point, all_points
from reference.bounds import METHODS, STRATA, UNKNOWN_MODEL, UNMEASURED, Scope, interval
from tokenctx._cli.eval_tables import Grid
from tokenctx._cli.evaluation.held_out import quantile
from tokenctx._cli.evaluation.strata import POOLS
from tokenctx._estimate.profiles import bundled_profiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = ROOT / "python/tokenctx/data/bounds.json"
DOCUMENT: Final = ROOT / "docs/accuracy.md"
START, END = "<!-- bounds -->\n", "<!-- end of bounds -->\n"


@dataclass(frozen=True, slots=True)
class Aim:
    """What is to be held of the calls of other projects; 90 % are said.

    Attributes:
        by_call: The share of all calls.
        by_project: The share where a project weighs more evenly: small ones are odder.
        half_calls: A project of so many calls weighs half of one with very many then.
    """

    by_call: float
    by_project: float
    half_calls: float


USUAL_AIM: Final = Aim(0.905, 0.86, 20)
FITTED_AIM: Final = Aim(0.90, 0.85, 20)
"""Where constants are fitted, and of images: the next project is another."""
UNKNOWN_AIM: Final = Aim(0.88, 0.8, 20)
"""Of unknown models: few calls, and who is told to expect forty times as much is told nothing."""
REPLY_AIM: Final = Aim(0.97, 0.88, 4)
"""Of turns after a recorded reply, of which two long sessions have nearly all."""
SHARES: Final = (0.75, 0.85, 0.905, 0.935, 0.95, 0.965, 0.98, 0.99)
FACTORS: Final = (1, 1.35, 1.8, 2.5, 4)
LEVELS: Final = tuple((share, factor) for share in SHARES for factor in FACTORS)
"""Shares of the errors that a row may hold, and how much wider it may be made."""
USUAL: Final = LEVELS.index((0.95, 1))
"""Where too few calls tell which level holds."""
TELLING_CALLS: Final = 25
SLACKS: Final = (20, 100, 500, 2000)
"""Tokens that a row may add to those of its part; a hidden prompt is no share of a few tokens."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How far the calls of some projects speak for those of others.

    Attributes:
        half_calls: A project of so many calls weighs half of one with very many.
        borrowed: So many projects are borrowed from the row above.
    """

    half_calls: float
    borrowed: float


FITTED: Final = Trust(4, 2)
"""Where constants are fitted has its own, and media; the project is the unit."""
EXACT: Final = Trust(800, 0.06)
"""Where a rule is exact it is so for all, and the call is the unit."""
ROUGH_STRATA: Final = frozenset({"files", "flat files", "images"})
"""Of these there are rows of providers only: a profile has too few calls."""
POOLED_STRATA: Final = frozenset({"files", "flat files"})
"""Of these the vendors together have just enough calls to choose a level."""
EXACT_PROVIDERS: Final = frozenset({"openai", "anthropic", "google"})
MOST_PERMILLE: Final = 100_000
"""A bill may be a thousand times what was counted; who is told so knows no more than with this."""
LEAST_CALLS: Final = 3
"""Fewest calls of a row that is written; the row of the provider stands for less."""
MOST_ERRORS: Final = 150
"""Different errors of a row that are kept for a row below."""
SCOPES: Final = get_args(Scope)

Row = tuple[Scope, str, str]
"""Scope, name of the row, stratum."""
Bounds = tuple[int, int, int]
"""Lower and upper permille, and slack."""
Table = dict[Row, Bounds]
Kind = tuple[Scope, str]
"""What a level is chosen for, in one stratum: scope and vendor."""
Weighted = list[tuple[float, float]]
"""Errors with their weights, in order."""


def names_of(one: Point) -> tuple[str, ...]:
    """The rows that the last part of `one` tells something about, the best first.

    What is exact tells nothing about the vendors that have only the row of all.
    """
    if one.stratum in ROUGH_STRATA:
        return one.names[-2:]
    is_exact = vendor_of(named(one)) in EXACT_PROVIDERS
    return one.names[:-1] if is_exact and one.scope == "whole" else one.names


def named(one: Point) -> str:
    """The name that tells the vendor of `one`: of its provider, or what stands for a provider."""
    is_own = len(one.names) == 1 or one.names[0] == UNKNOWN_MODEL
    return one.names[0 if is_own else -2]


def vendor_of(name: str) -> str:
    """The exact provider of a row of this name, or a name that is a kind; else `other`."""
    if name in {*METHODS, UNKNOWN_MODEL}:
        return name
    profile = bundled_profiles().get(name)
    provider = profile["provider"] if profile else name.removeprefix("provider ")
    return provider if provider in EXACT_PROVIDERS else "other"


@cache
def kind_of(scope: Scope, name: str, stratum: str) -> Kind:
    is_pooled = stratum in POOLED_STRATA and name not in METHODS
    return scope, "" if is_pooled else vendor_of(name)


@cache
def trust(scope: Scope, name: str, stratum: str) -> Trust:
    """How far the calls of a row speak for others."""
    profile = bundled_profiles().get(name)
    is_exact = profile["layout"] != "linear" if profile else name[9:] in EXACT_PROVIDERS
    is_rough = stratum in ROUGH_STRATA or scope == "reply"
    return EXACT if is_exact and not is_rough else FITTED


def found(table: Mapping[Row, Bounds], one: Point, stratum: str) -> Bounds:
    rows = ((one.scope, name, stratum) for name in one.names)
    return next((table[row] for row in rows if row in table), UNMEASURED)


# The errors of one part


@dataclass(frozen=True, slots=True)
class Excess:
    """What a call says about the last of its parts.

    Attributes:
        tokens: By how much the bill is off, beyond what the parts before may be off by.
        part_tokens: What was counted of the part.
    """

    tokens: float
    part_tokens: int
    weight: float


def allowed(table: Mapping[Row, Bounds], one: Point) -> tuple[int, int]:
    """By how many thousandths of a token all parts but the last may be off, down and up."""
    below = above = 0
    for stratum, tokens in one.parts[:-1]:
        low, high, slack = found(table, one, stratum)
        below += (tokens + slack) * (1000 - low)
        above += (tokens + slack) * (high - 1000)
    return below, above


def excess(table: Mapping[Row, Bounds], one: Point) -> Excess:
    below, above = allowed(table, one) if one.error else (0, 0)
    over = max(0.0, one.error - above / 1000) + min(0.0, one.error + below / 1000)
    return Excess(over, one.parts[-1][1], one.weight)


class Errors:
    """The errors of one part by row and project, and the row that each row borrows from."""

    def __init__(self, known: Iterable[Point], table: Mapping[Row, Bounds], without: str) -> None:
        self.by_row: dict[Row, dict[str, list[Excess]]] = defaultdict(lambda: defaultdict(list))
        self.parents: dict[Row, Row | None] = {}
        self._lent: dict[tuple[Row, int], Weighted] = {}
        for one in known:
            if one.group != without:
                own = excess(table, one)
                rows: list[Row] = [(one.scope, name, one.stratum) for name in names_of(one)]
                for row, parent in zip(rows, (*rows[1:], None), strict=True):
                    self.by_row[row][one.group].append(own)
                    self.parents[row] = parent

    def bounds(self, needed: Iterable[Row]) -> dict[Row, list[Bounds]]:
        """The bounds of those of `needed` that have enough calls, for each of `LEVELS`."""
        rows = (row for row in needed if row in self.by_row)
        return {row: self._levels(row) for row in rows if self._calls(row) >= LEAST_CALLS}

    def _calls(self, row: Row) -> float:
        return sum(one.weight for calls in self.by_row[row].values() for one in calls)

    def _levels(self, row: Row) -> list[Bounds]:
        """For each level the slack with the narrowest bounds."""
        made: list[list[tuple[float, Bounds]]] = [[] for _ in LEVELS]
        for slack in SLACKS:
            size = self._usual_tokens(row, slack)
            for place, bounds in enumerate(at_levels(self._errors(row, slack))):
                low, high = permille(bounds)
                made[place].append(((high - low) * size, (low, high, slack)))
        return [min(all_slacks)[1] for all_slacks in made]

    def _usual_tokens(self, row: Row, slack: int) -> float:
        """The geometric mean of the part with the slack; each project has about the same weight."""
        weights = logs = 0.0
        for calls in self.by_row[row].values():
            scale = 1 / (sum(one.weight for one in calls) + FITTED.half_calls)
            for one in calls:
                weights += one.weight * scale
                logs += one.weight * scale * math.log(one.part_tokens + slack)
        return math.exp(logs / weights)

    def _errors(self, row: Row, slack: int) -> Weighted:
        """The errors of a row, and those that it borrows, as shares of the part with the slack."""
        if (row, slack) not in self._lent:
            own = weighed(self.by_row[row].values(), slack, trust(*row).half_calls)
            parent = self.parents[row]
            above = self._errors(parent, slack) if parent else []
            borrowed = trust(*row).borrowed
            share = borrowed / max(sum(weight for _, weight in above), borrowed)
            every = own + [(error, weight * share) for error, weight in above]
            self._lent[row, slack] = thinned([*every, (0.0, 0.0)])
        return self._lent[row, slack]


def weighed(projects: Iterable[list[Excess]], slack: int, half_calls: float) -> Weighted:
    """Errors of a row by project, none of which weighs more than 1."""
    found: dict[float, float] = defaultdict(float)
    for calls in projects:
        total = sum(one.weight for one in calls) + half_calls
        for one in calls:
            error = round(one.tokens / (one.part_tokens + slack), 4)
            found[error] += one.weight / total
    return list(found.items())


def thinned(errors: Weighted) -> Weighted:
    """`errors` in order; of many, neighbours of little weight are taken as the farther one."""
    ordered = sorted(errors)
    least = sum(weight for _, weight in ordered) / MOST_ERRORS
    kept: Weighted = []
    for error, weight in ordered:
        last, heap = kept[-1] if kept else (0.0, 0.0)
        is_near = error * last > 0 and heap + weight <= least and len(ordered) > MOST_ERRORS
        if kept and (is_near or error == last):
            kept[-1] = (max(last, error) if error > 0 else last, heap + weight)
        else:
            kept.append((error, weight))
    return kept


def at_levels(errors: Weighted) -> list[tuple[float, float]]:
    """The narrowest interval around 0 for each of `LEVELS`."""
    made = []
    for share in SHARES:
        low, high = narrowest(errors, share)
        made += [(max(-1.0, low * factor), high * factor) for factor in FACTORS]
    return made


def narrowest(errors: Weighted, share: float) -> tuple[float, float]:
    """The narrowest interval around 0 that holds `share` of the weight; errors are in order."""
    sums = [0.0]
    for _, weight in errors:
        sums.append(sums[-1] + weight)
    needed = share * sums[-1]
    found, end = (errors[0][0], errors[-1][0]), 0
    for start, (low, _) in enumerate(errors):
        if low > 0:
            break
        while end < len(errors) and (
            sums[end + 1] - sums[start] < needed - 1e-9 or errors[end][0] < 0
        ):
            end += 1
        if end == len(errors):
            break
        found = min(found, (low, errors[end][0]), key=lambda pair: pair[1] - pair[0])
    return min(0.0, found[0]), max(0.0, found[1])


def permille(bounds: tuple[float, float]) -> tuple[int, int]:
    low, high = bounds
    most = math.ceil(1000 * (1 + high) - 1e-9)
    return max(0, math.floor(1000 * (1 + low) + 1e-9)), min(most, MOST_PERMILLE)


# All parts


@dataclass(frozen=True, slots=True)
class Trial:
    """A call under each of `LEVELS`: whether its bill is in the bounds, and how wide they are."""

    group: str
    weight: float
    hits: list[bool]
    widths: list[float]


class Fit:
    """The bounds that recorded calls make, part by part, with all projects and without each.

    Attributes:
        tables: By the project that it was made without; `""` for none.
        levels: The level of each kind of each stratum, a place in `LEVELS`.
    """

    def __init__(self, known: Sequence[Point]) -> None:
        self._known = known
        groups = sorted({one.group for one in known})
        self.tables: dict[str, Table] = {group: {} for group in ("", *groups)}
        self.levels: dict[tuple[str, Kind], int] = {}
        by_stratum: dict[str, list[Point]] = defaultdict(list)
        for one in known:
            by_stratum[one.stratum].append(one)
        for stratum in STRATA:
            self._add(stratum, by_stratum[stratum])

    def _needed(self, stratum: str, group: str) -> list[Row]:
        """The rows of a stratum that bound a call of `group`, or a part of a call of others.

        Every row, where `group` is none.
        """
        found = {
            (one.scope, name, stratum): None
            for one in self._known
            if group in {"", one.group} or one.stratum != stratum
            for name in one.names
            if any(own == stratum for own, _ in one.parts)
        }
        return list(found)

    def _add(self, stratum: str, known: Sequence[Point]) -> None:
        """Adds the rows of a stratum; those of the strata before are there."""
        rows = {
            group: Errors(known, table, group).bounds(self._needed(stratum, group))
            for group, table in self.tables.items()
        }
        trials: dict[Kind, list[Trial]] = defaultdict(list)
        for one in known:
            trials[kind_of(one.scope, named(one), stratum)].append(
                tried(self.tables[one.group], rows[one.group], one)
            )
        levels = {
            kind: level_of(of_kind, aim_of(stratum, kind)) for kind, of_kind in trials.items()
        }
        for group, table in self.tables.items():
            for row, bounds in rows[group].items():
                table[row] = bounds[levels.get(kind_of(*row), USUAL)]
        self.levels |= {(stratum, kind): level for kind, level in levels.items()}


def tried(table: Table, rows: Mapping[Row, list[Bounds]], one: Point) -> Trial:
    """`one` with the bounds of the parts before, and its last part at each level."""
    below, above = allowed(table, one)
    own = ((one.scope, name, one.stratum) for name in one.names)
    levels = next((rows[row] for row in own if row in rows), [UNMEASURED] * len(LEVELS))
    total = one.counted_tokens + one.known_tokens + 1
    hits, widths = [], []
    for low, high, slack in levels:
        scale = one.parts[-1][1] + slack
        down = min((below + scale * (1000 - low)) // 1000, one.counted_tokens)
        up = (above + scale * (high - 1000)) // 1000
        hits.append(-down <= one.error <= up)
        widths.append(math.log1p(100 * (down + up) / total))
    return Trial(one.group, one.weight, hits, widths)


def aim_of(stratum: str, kind: Kind) -> Aim:
    """What the level of a kind has to hold."""
    scope, vendor = kind
    if scope == "reply":
        return REPLY_AIM
    if vendor == UNKNOWN_MODEL:
        return UNKNOWN_AIM
    return FITTED_AIM if vendor == "other" or stratum == "images" else USUAL_AIM


def level_of(trials: Sequence[Trial], aim: Aim) -> int:
    """The level with the narrowest bounds that hold enough, by call and by project."""
    if len(trials) < TELLING_CALLS:
        return USUAL
    calls: dict[str, float] = defaultdict(float)
    for one in trials:
        calls[one.group] += one.weight
    weights = [one.weight for one in trials]
    even = [one.weight / (calls[one.group] + aim.half_calls) for one in trials]

    def covered(weights: list[float], level: int) -> float:
        hits = sum(w for w, one in zip(weights, trials, strict=True) if one.hits[level])
        return hits / sum(weights)

    def width(level: int) -> float:
        return sum(w * one.widths[level] for w, one in zip(weights, trials, strict=True))

    for level in sorted(range(len(LEVELS)), key=width):
        is_held = covered(weights, level) >= aim.by_call
        if is_held and covered(even, level) >= aim.by_project:
            return level
    return len(LEVELS) - 1


# What the bounds cover


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
        if one.title == SESSION:
            has_reply = one.scope == "reply"
            yield f"long sessions: reply {'recorded' if has_reply else 'not recorded'}"
            yield f"long session {one.group[:12]}"
        elif one.title.startswith(METHOD):
            yield one.title
        elif not one.is_determined:
            yield "not determined by the request"
        elif one.scope != "whole":
            yield one.title
        elif one.stratum == "reasoning replayed":
            yield one.stratum


def judged(one: Point, table: Table) -> Judged:
    parts = [(tokens, found(table, one, stratum)) for stratum, tokens in one.parts]
    return Judged(one, *interval(one.counted_tokens, parts))


def judged_elsewhere(known: Iterable[Point], fit: Fit) -> Iterator[Judged]:
    """Each point with bounds that were made without its project."""
    for one in known:
        yield judged(one, fit.tables[one.group])


def report(results: Iterable[Judged]) -> Grid:
    """Coverage, median width and error by line, each with bounds of other projects."""
    lines: dict[str, list[Judged]] = {pool.name: [] for pool in POOLS}
    for result in results:
        for title in result.titles:
            lines.setdefault(title, []).append(result)
    pools = [pool.name for pool in POOLS if lines[pool.name]]
    others = sorted(title for title in lines if title not in {pool.name for pool in POOLS})
    titles = ("pool", "N", "projects", "in bounds", "width", "error p90")
    rows = [line(title, lines[title]) for title in [*pools, *others]]
    return Grid("Bounds on other projects", titles, 1, rows)


def line(title: str, results: Sequence[Judged]) -> tuple[str, ...]:
    weights = [one.point.weight for one in results]
    hits = sum(weight for one, weight in zip(results, weights, strict=True) if one.is_covered)
    figures = (
        100 * hits / sum(weights),
        quantile([one.width_percent for one in results], weights, 0.5),
        quantile([one.error_percent for one in results], weights, 0.9),
    )
    projects = len({one.point.group for one in results})
    return title, f"{len(results):,}", str(projects), *(f"{number:,.1f}" for number in figures)


# The table


def as_json(table: Table, known: Sequence[Point]) -> dict[str, Any]:
    counts: dict[Row, int] = defaultdict(int)
    for one in known:
        for name in names_of(one):
            counts[one.scope, name, one.stratum] += 1
    rows: dict[str, dict[str, dict[str, list[int]]]] = {scope: {} for scope in SCOPES}
    for row in sorted(table, key=lambda row: (row[0], row[1], STRATA.index(row[2]))):
        scope, name, stratum = row
        rows[scope].setdefault(name, {})[stratum] = [*table[row], counts[row]]
    return {
        "about": "Bounds of a count: how far each part of it may be off, added up. Low and high as "
        "permille of the part and of some tokens more, these, and how many recorded calls the row "
        "is of; by what is not billed yet, by profile, by stratum. Nine of ten bills of other "
        "projects are within. Made by benches/studies/bounds.py.",
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


def with_report(document: str, grid: Grid) -> str:
    """`document` with the lines of `grid` that a reader asks for between its two marks."""
    before, rest = document.split(START)
    _, after = rest.split(END)
    rows = [row for row in grid.rows if not row[0].startswith("long session ")]
    shown = Grid(grid.caption, grid.titles, grid.left, rows)
    return f"{before}{START}\n{shown.as_markdown()}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=Path, nargs="+", required=True, help="as `eval` reads them")
    parser.add_argument("--sessions", type=Path, nargs="+", default=[], help="as `replay` does")
    parser.add_argument("--write", action="store_true", help="write the table and the report")
    options = parser.parse_args()
    known = all_points(options.calls, options.sessions)
    fit = Fit(known)
    grid = report(judged_elsewhere(known, fit))
    print(grid.as_markdown())
    if options.write:
        table = as_json(fit.tables[""], known)
        TABLE.write_text(text_of(table), "utf-8")
        DOCUMENT.write_text(with_report(DOCUMENT.read_text("utf-8"), grid), "utf-8")
        print(f"written: {TABLE.name}, {len(fit.tables[''])} rows, and {DOCUMENT.name}")


if __name__ == "__main__":
    main()
