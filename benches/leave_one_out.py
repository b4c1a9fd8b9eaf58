"""Scores each source project with what the others alone would have told; and counts the support.

    python3 dev.py leave_one_out calls.jsonl.gz

The rules are no fits, so there is little to fit again. What a project can have told alone is the
numbers of a profile for a stratum that no other project has calls of: without it, those calls are
estimated with the profile that theirs is `like`. Bounds are fitted, and are fitted again.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import bounds
from tokenctx._evaluation.evaluation import Scorer, Unusable, numbered_lines, read_call, score_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tokenctx._evaluation.evaluation import Call, Score
    from tokenctx._models import Estimate

WITHIN_PERCENT: Final = 5
LIMITS: Final = frozenset({"context_window_tokens", "max_output_tokens"})
"""Numbers that count nothing."""
NO_MODEL: Final = "no-model-of-this-name"


@dataclass(frozen=True, slots=True)
class Held:
    """A call of a project: the estimate with all rules, and with those that others support."""

    group: str
    profile: str
    stratum: str
    score: Score
    without: Score

    @property
    def is_near(self) -> bool:
        return abs(self.score.percent) <= WITHIN_PERCENT

    @property
    def is_near_without(self) -> bool:
        return abs(self.without.percent) <= WITHIN_PERCENT


def bundled_profiles() -> dict[str, dict[str, Any]]:
    text = files("tokenctx").joinpath("data").joinpath("profiles.json").read_text("utf-8")
    return {row["name"]: row for row in json.loads(text)["profiles"]}


ROWS: Final = bundled_profiles()


def constant_count(row: dict[str, Any]) -> int:
    """Numbers and switches of a profile that are its own."""
    own = (value for name, value in row.items() if name not in LIMITS)
    return sum(
        constant_count(value) if isinstance(value, dict) else isinstance(value, (int, float))
        for value in own
    )


def model_like(profile: str) -> str:
    """A model of the nearest profile that `profile` is like and that any model has."""
    while parent := ROWS[profile].get("like"):
        if ROWS[parent]["models"]:
            return str(ROWS[parent]["models"][0])
        profile = parent
    return NO_MODEL


def scored(path: Path, scorer: Scorer) -> Iterator[tuple[Call, Estimate]]:
    """Each call that its request determines, estimated."""
    for number, line, _ in numbered_lines(path):
        with suppress(Unusable):
            call = read_call(number, line)
            if call.stratum != "undetermined":
                yield call, scorer.estimate(call)


def held(path: Path) -> list[Held]:
    """Every such call, estimated with and without its project."""
    scorer = Scorer()
    supporters: dict[tuple[str, str], set[str]] = defaultdict(set)
    for call, estimate in scored(path, scorer):
        supporters[estimate.profile, call.stratum].add(call.group)
    results = []
    for call, estimate in scored(path, scorer):
        without = estimate
        if len(supporters[estimate.profile, call.stratum]) == 1:
            names = {**call.names, "model": model_like(estimate.profile)}
            without = scorer.estimator.estimate(call.body, **names)
        scores = score_of(call, estimate), score_of(call, without)
        results.append(Held(call.group, estimate.profile, call.stratum, *scores))
    return results


def covered_without(known: Iterable[bounds.Point]) -> dict[str, list[bool]]:
    """For each project, which of its calls are in the bounds that the others give."""
    points = [one for one in known if one.scope == "whole" and one.is_determined]
    found = {}
    for group in sorted({one.group for one in points}):
        table = bounds.fit(one for one in points if one.group != group)
        own = [one for one in points if one.group == group]
        found[group] = [bounds.judged(one, table).is_covered for one in own]
    return found


def percent(hits: Iterable[bool]) -> float:
    listed = list(hits)
    return 100 * sum(listed) / len(listed)


def show_projects(calls: list[Held], covered: dict[str, list[bool]]) -> None:
    by_group: dict[str, list[Held]] = defaultdict(list)
    for call in calls:
        by_group[call.group].append(call)
    print(
        f"{'project':16}{'calls':>8}{'within 5 %':>12}{'without it':>12}{'in bounds of others':>21}"
    )
    rows = []
    for group, own in sorted(by_group.items(), key=lambda item: -len(item[1])):
        near = percent(call.is_near for call in own)
        near_without = percent(call.is_near_without for call in own)
        inside = percent(covered[group])
        rows.append((near, near_without, inside))
        print(f"{group:16}{len(own):8,}{near:12.1f}{near_without:12.1f}{inside:21.1f}")
    near, near_without, inside = (sum(row) / len(rows) for row in zip(*rows, strict=True))
    print(f"{'mean':16}{len(calls):8,}{near:12.1f}{near_without:12.1f}{inside:21.1f}")
    print(f"the mean falls by {near - near_without:.1f} points")


def show_support(calls: list[Held]) -> None:
    by_profile: dict[str, list[Held]] = defaultdict(list)
    for call in calls:
        by_profile[call.profile].append(call)
    print(
        f"\n{'profile':22}{'constants':>10}{'calls':>8}{'projects':>10}  confidence   one project"
    )
    for name, row in ROWS.items():
        own = by_profile[name]
        groups: dict[str, set[str]] = defaultdict(set)
        for call in own:
            groups[call.stratum].add(call.group)
        projects = {group for found in groups.values() for group in found}
        lone = ", ".join(sorted(stratum for stratum, found in groups.items() if len(found) == 1))
        print(
            f"{name:22}{constant_count(row):10}{len(own):8,}{len(projects):10}  "
            f"{row['confidence']:12} {lone}".rstrip()
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("calls", type=Path, help="recorded calls, as `tokenctx eval` reads them")
    options = parser.parse_args()
    calls = held(options.calls)
    covered = covered_without(bounds.points(options.calls, methods=()))
    show_projects(calls, covered)
    show_support(calls)


if __name__ == "__main__":
    main()
