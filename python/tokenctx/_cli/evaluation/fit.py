"""Constants of the layout `linear`, fitted to recorded calls.

A count of this layout is linear in its constants, so a call is one equation: what was billed is
what no constant explains, plus so many tokens for each constant. How many is asked of the core: a
constant is raised by a step, and the call is estimated again. Choices (layout, encoding, how a
tool is shown) are rules, and are not fitted; nor is what is `verified`.

A row of few projects stays near the row that it is `like`: each constant costs the length of what
it says beyond that row, beside which the errors of a few calls are little.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.evaluation import Scorer
from tokenctx._estimate.estimator import HybridTokenEstimator
from tokenctx._estimate.profiles import profile_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from tokenctx._cli.evaluation.evaluation import RecordedCall
    from tokenctx._results.estimates import Estimate

Row = dict[str, Any]

UNSIGNED: Final = (
    "request_tokens",
    "message_tokens",
    "system_tokens",
    "tools_tokens",
    "tools_after_result_tokens",
    "call_tokens",
    "calls_tokens",
    "argument_tokens",
    "result_tokens",
    "required_choice_tokens",
    "forced_choice_tokens",
    "thinking_tokens",
    "reasoning_tokens",
)
SIGNED: Final = (
    "assistant_tokens",
    "name_tokens",
    "no_system_tokens",
    "tools_without_system_tokens",
    "tool_tokens",
    "schema_tokens",
)
CONSTANTS: Final = (*UNSIGNED, *SIGNED)
"""Fields that are fitted where a row has them."""
PAIRS: Final = (
    ("message_tokens", "request_tokens"),
    ("assistant_tokens", "message_tokens"),
    ("no_system_tokens", "request_tokens"),
    ("tool_tokens", "tools_tokens"),
    ("tools_without_system_tokens", "tools_tokens"),
    ("result_tokens", "call_tokens"),
    ("call_tokens", "message_tokens"),
)
"""Constants that stand in for each other: the first is moved, and the second follows."""
STEP: Final = 1000
PRIOR: Final = 0.02
"""The cost of each binary digit of the distance from the parent's constant; a project weighs 1."""
HALF_CALLS: Final = 4
"""A project of this many calls weighs half of one with very many."""
SHARE: Final = 0.005
"""An error of this share of a bill costs like half a token; ten times that, little more."""
MOST_TOKENS: Final = 10**9
MOST_CANDIDATES, FEW_CANDIDATES = 12, 3
SWEEPS: Final = 6
WHO: Final = frozenset(
    {
        *("name", "like", "models", "provider", "providers", "dialects"),
        *("source", "date", "confidence", "window_tokens", "max_output_tokens"),
    }
)
"""Fields that say which models a row is for, and how long their contexts are."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A recorded call as an equation: `billed_tokens` = `fixed_tokens` + constants x `counts`.

    Attributes:
        project: Who recorded it.
        model: Whom it was sent to, host and model.
        profile: The row that its model resolves to.
        counts: How often each constant is counted; those that are not are missing.
    """

    project: str
    model: str
    profile: str
    billed_tokens: int
    fixed_tokens: int
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Rows:
    """Rows of `profiles.json`, with what each has from the one that it is like."""

    rows: Mapping[str, Row]

    @cached_property
    def full(self) -> dict[str, Row]:
        """Each row with all fields of its layout."""
        return profile_table(json.dumps([row for row in self.rows.values() if "like" in row]))

    def is_fitted(self, name: str) -> bool:
        """True if the constants of this row come from recordings, in the layout `linear`."""
        row = self.rows[name]
        is_own = "like" in row and name != "unknown" and row["confidence"] != "verified"
        return is_own and self.full[name]["layout"] == "linear"

    def own(self, name: str) -> list[str]:
        """The constants that the row has itself."""
        return [constant for constant in CONSTANTS if constant in self.rows[name]]

    def parent(self, name: str) -> str | None:
        """The row that it is like."""
        return self.rows[name].get("like")

    def chain(self, name: str) -> Iterator[str]:
        """The row, the one that it is like, and so on."""
        at: str | None = name
        while at is not None:
            yield at
            at = self.parent(at)

    def owner(self, name: str, constant: str) -> str | None:
        """The row of the chain that says this constant; None where none does."""
        return next((row for row in self.chain(name) if constant in self.rows[row]), None)

    def ordered(self, names: Iterable[str]) -> list[str]:
        """`names`, each behind those that it is like."""
        return sorted(names, key=lambda name: len(list(self.chain(name))))

    def without(self, names: Collection[str]) -> Rows:
        """These rows, those of `names` being what they are like."""
        return Rows(
            {
                name: {key: it for key, it in row.items() if key in WHO} if name in names else row
                for name, row in self.rows.items()
            }
        )

    def with_constants(self, constants: Mapping[str, Mapping[str, int]]) -> Rows:
        """These rows with other constants."""
        return Rows({name: {**row, **constants.get(name, {})} for name, row in self.rows.items()})

    def estimator(self) -> HybridTokenEstimator:
        """An estimator that counts with these rows and learns nothing."""
        rows = [row for row in self.rows.values() if "like" in row]
        return HybridTokenEstimator(profiles=rows, learning=False)


class Reader:
    """Makes equations of recorded calls. Costs as many estimates as there are constants."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.linear = {name for name, row in rows.full.items() if row["layout"] == "linear"}
        self.raised = {name: Scorer(self._raised(name).estimator()) for name in CONSTANTS}

    def _raised(self, constant: str) -> Rows:
        changed = {}
        for name in self.linear & self.rows.rows.keys():
            value = self.rows.full[name].get(constant)
            if value is not None and "like" in self.rows.rows[name]:
                changed[name] = {constant: value + STEP}
        return self.rows.with_constants(changed)

    def sample(self, call: RecordedCall, estimate: Estimate) -> Sample | None:
        """The equation of `call`, estimated with the rows; None if its layout is another."""
        if estimate.profile not in self.linear:
            return None
        counts = {}
        for constant, scorer in self.raised.items():
            more = scorer.estimate(call).tokens - estimate.tokens
            if count := round(more / STEP):
                counts[constant] = count
        full = self.rows.full[estimate.profile]
        known = sum(count * full[constant] for constant, count in counts.items())
        return Sample(
            call.group,
            f"{call.provider} {call.model}",
            estimate.profile,
            call.billed_tokens,
            estimate.tokens - known,
            counts,
        )


def weights(samples: Sequence[Sample]) -> list[float]:
    """The weight of each sample: a project at most 1, shared by its models, then by their calls."""
    calls = Counter(sample.project for sample in samples)
    models = Counter((sample.project, sample.model) for sample in samples)
    model_counts = Counter(project for project, _ in models)
    return [
        calls[it.project]
        / (calls[it.project] + HALF_CALLS)
        / model_counts[it.project]
        / models[it.project, it.model]
        for it in samples
    ]


class _Equations:
    """The data that one row is fitted to: its constants, the calls' counts of them, and the rest.

    `counts[i][k]` is how often call i counts constant k, `rests[i]` what its bill leaves for them.
    Calls that say the same are one.
    """

    def __init__(self, names: list[str], parents: list[int]) -> None:
        self.names = names
        self.parents = parents
        self.leasts = [0 if name in UNSIGNED else -MOST_TOKENS for name in names]
        self.weighed: dict[tuple[tuple[int, ...], int, int], float] = defaultdict(float)

    def close(self) -> None:
        """Makes lists of what was added."""
        keys = list(self.weighed)
        self.counts = [counts for counts, _, _ in keys]
        self.rests = [rest for _, rest, _ in keys]
        self.bills = [bill for _, _, bill in keys]
        self.weights = list(self.weighed.values())
        places = range(len(self.names))
        self.columns = [
            [(at, counts[place]) for at, counts in enumerate(self.counts) if counts[place]]
            for place in places
        ]

    def loss(self, values: Sequence[int]) -> float:
        """The cost of these values."""
        costs = sum(map(_cost, self.errors(values), self.bills, self.weights))
        return costs + sum(map(_distance, values, self.parents))

    def errors(self, values: Sequence[int]) -> list[int]:
        """How much was billed beyond what these values explain, by call."""
        return [
            rest - sum(map(int.__mul__, counts, values))
            for counts, rest in zip(self.counts, self.rests, strict=True)
        ]


def _cost(error: int, bill: int, weight: float) -> float:
    return weight * math.log1p(abs(error) / (0.5 + SHARE * bill)) if error else 0.0


def _distance(value: int, parent: int) -> float:
    return PRIOR * math.log2(1 + abs(value - parent))


def fitted(
    rows: Rows,
    samples: Iterable[Sample],
    names: Collection[str] | None = None,
) -> dict[str, dict[str, int]]:
    """The constants of the fitted rows, or of those of `names`, by row and constant.

    Rows that no sample speaks of keep their parents' constants.
    """
    chosen = [name for name in rows.rows if rows.is_fitted(name)]
    chosen = rows.ordered(name for name in chosen if names is None or name in names)
    by_owner: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        owners = {rows.owner(sample.profile, constant) for constant in sample.counts}
        for owner in owners - {None}:
            by_owner[str(owner)].append(sample)
    known = {name: {it: row[it] for it in rows.own(name)} for name, row in rows.rows.items()}
    for name in chosen:
        known[name] = {it: _parents(rows, known, name, it) for it in rows.own(name)}
    for _ in range(2):
        for name in chosen:
            known[name] |= _fitted_row(rows, known, name, by_owner[name])
    return {name: known[name] for name in chosen}


Known = dict[str, dict[str, int]]


def _value(rows: Rows, known: Known, name: str, constant: str) -> int:
    owner = rows.owner(name, constant)
    return known[owner][constant] if owner and known[owner][constant] is not None else 0


def _parents(rows: Rows, known: Known, name: str, constant: str) -> int:
    parent = rows.parent(name)
    value = _value(rows, known, parent, constant) if parent else 0
    return max(value, 0) if constant in UNSIGNED else value


def _fitted_row(rows: Rows, known: Known, name: str, samples: list[Sample]) -> dict[str, int]:
    own = set(rows.own(name))
    counted = {it for one in samples for it in one.counts}
    names = [
        it
        for it in rows.own(name)
        if it in counted and any(rows.owner(one.profile, it) == name for one in samples)
    ]
    if not names:
        return {}
    parents = [_parents(rows, known, name, it) for it in names]
    equations = _Equations(names, parents)
    for sample, weight in zip(samples, weights(samples), strict=True):
        mine = {it for it in own if rows.owner(sample.profile, it) == name}
        counts = tuple(sample.counts.get(it, 0) if it in mine else 0 for it in names)
        others = sum(
            count * _value(rows, known, sample.profile, it)
            for it, count in sample.counts.items()
            if it not in mine or it not in names
        )
        rest = sample.billed_tokens - sample.fixed_tokens - others
        equations.weighed[counts, rest, sample.billed_tokens] += weight
    equations.close()
    starts = [parents, [rows.rows[name][it] for it in names]]
    found = min((_descent(equations, start) for start in starts), key=equations.loss)
    return dict(zip(names, found, strict=True))


def _descent(equations: _Equations, start: list[int]) -> list[int]:
    """Values that no other value of one constant, or of a pair, improves."""
    values = list(start)
    best = equations.loss(values)
    for _ in range(SWEEPS):
        before = best
        for place in range(len(values)):
            value, loss = _best_value(equations, values, place)
            if loss < best - 1e-9:
                values[place], best = value, loss
        for one, other in PAIRS:
            if one in equations.names and other in equations.names:
                moved, loss = _best_pair(
                    equations, values, equations.names.index(one), equations.names.index(other)
                )
                if loss < best - 1e-9:
                    values, best = moved, loss
        if best == before:
            break
    return values


def _best_value(
    equations: _Equations, values: Sequence[int], place: int, most: int = MOST_CANDIDATES
) -> tuple[int, float]:
    """The value of one constant that costs least, among those that make calls exact."""
    errors, weights, bills = equations.errors(values), equations.weights, equations.bills
    column, value = equations.columns[place], values[place]
    found: dict[int, float] = defaultdict(float)
    for at, count in column:
        found[value + round(errors[at] / count)] += weights[at]
    found = {it: weight for it, weight in found.items() if it >= equations.leasts[place]}
    tried = {*sorted(found, key=lambda it: -found[it])[:most], *_quantiles(found, most)}

    def loss(other: int) -> float:
        move, parent = other - value, equations.parents[place]
        costs = (_cost(errors[at] - count * move, bills[at], weights[at]) for at, count in column)
        return sum(costs) + _distance(other, parent)

    now = loss(value)
    cost, best = min((loss(it), it) for it in {*tried, equations.parents[place]})
    return best, equations.loss(values) - now + cost


def _quantiles(weights: Mapping[int, float], count: int) -> Iterator[int]:
    """Numbers that cut the weights into about equal parts."""
    step, passed = sum(weights.values()) / count, 0.0
    for number in sorted(weights):
        passed += weights[number]
        if passed >= step:
            yield number
            passed = 0.0


def _best_pair(
    equations: _Equations, values: Sequence[int], one: int, other: int
) -> tuple[list[int], float]:
    """The values that cost least after a small move of `one`, which `other` follows."""
    found = []
    for move in (-3, -2, -1, 1, 2, 3):
        moved = list(values)
        moved[one] += move
        if moved[one] >= equations.leasts[one]:
            moved[other], loss = _best_value(equations, moved, other, FEW_CANDIDATES)
            found.append((loss, moved))
    loss, moved = min(found)
    return moved, loss
