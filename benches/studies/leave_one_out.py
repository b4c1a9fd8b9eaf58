"""Scores each source project with what the others tell, and fits constants to all of them.

    python3 dev.py study leave_one_out calls.jsonl.gz more.jsonl.gz           # tables
    python3 dev.py study leave_one_out calls.jsonl.gz more.jsonl.gz --write   # and profiles.json

The rules are those of `tokenctx._cli.evaluation.held_out`. A project that sent the same to more
than 200 models weighs each of them as one call.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from contextlib import contextmanager
from multiprocessing import Pool
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.eval_tables import Grid, left_out
from tokenctx._cli.evaluation.fit import fitted
from tokenctx._cli.evaluation.held_out import bundled_rows, by_pool, held_out
from tokenctx._cli.screen import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tokenctx._cli.evaluation.fit import Rows, Sample
    from tokenctx._cli.evaluation.held_out import Held

TABLE: Final = Path(__file__).parents[2] / "python/tokenctx/data/profiles.json"
PROCESSES: Final = 2
LEAST_CALLS: Final = 10
"""Fewest calls of a row that is shown."""
LEAST_PROJECTS: Final = 3
"""Fewest projects that a row which is `fitted` rests on."""
EXACT_SHARE: Final = 0.75
"""Of a project's calls without media that are exact, where a row is exact on that project."""


@contextmanager
def mapped(title: str) -> Iterator[Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]]:
    """`map` in two processes that tells how far it is."""
    with Pool(PROCESSES) as pool:

        def apply(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
            listed = list(items)
            with progress(f"{title}: {work.__name__}", len(listed)) as advance_to:
                for number, result in enumerate(pool.imap(work, listed), 1):
                    advance_to(number)
                    yield result

        yield apply


def support(rows: Rows, held: list[Held]) -> Grid:
    """What rests on how many projects: for each profile, on how many it is exact."""
    by_profile: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for one in held:
        if one.stratum in {"text", "tools", "structured output"}:
            by_profile[one.profile][one.project].append(one.score.percent == 0)
    lines: list[tuple[str, ...]] = []
    for name, row in rows.rows.items():
        projects = by_profile[name].values()
        exact = sum(sum(hits) >= EXACT_SHARE * len(hits) for hits in projects)
        calls = sum(map(len, projects))
        cells = (row["confidence"], f"{calls:,}", str(len(projects)), str(exact))
        lines.append((name, *cells))
    titles = ("profile", "confidence", "calls", "projects", "exact on")
    return Grid("What a profile rests on: calls without media", titles, 2, lines)


def unsupported(rows: Rows, held: list[Held]) -> list[str]:
    """The rows that are `fitted`, though fewer than `LEAST_PROJECTS` projects have called them."""
    projects: dict[str, set[str]] = defaultdict(set)
    for one in held:
        projects[one.profile].add(one.project)
    is_fitted = {name for name, row in rows.rows.items() if row["confidence"] == "fitted"}
    return sorted(name for name in is_fitted if len(projects[name]) < LEAST_PROJECTS)


def changes(rows: Rows, samples: list[Sample]) -> Grid:
    """What a fit to all calls would change."""
    lines: list[tuple[str, ...]] = []
    for name, constants in fitted(rows, samples).items():
        for constant, value in constants.items():
            own = [
                sample
                for sample in samples
                if constant in sample.counts and rows.owner(sample.profile, constant) == name
            ]
            now, projects = rows.rows[name][constant], len({sample.project for sample in own})
            lines.append((name, constant, str(now), str(value), str(projects), f"{len(own):,}"))
    titles = ("profile", "constant", "now", "fitted", "projects", "calls")
    return Grid("Constants, fitted to all calls", titles, 2, lines)


def with_constants(text: str, constants: Mapping[str, Mapping[str, int]]) -> str:
    """The text of `profiles.json` with other constants, everything else as it is."""
    lines, name = [], ""
    for line in text.split("\n"):
        if found := re.match(r' *"name": (".*"),', line):
            name = json.loads(found[1])
        found = re.match(r' *"(\w+)": (-?\d+)(,?)$', line)
        own = constants.get(name, {})
        if found and found[1] in own:
            line = line[: found.start(2)] + str(own[found[1]]) + found[3]  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("calls", type=Path, nargs="+", help="recorded calls, as `eval` reads them")
    parser.add_argument("--write", action="store_true", help="write the fitted constants")
    options = parser.parse_args()
    rows = bundled_rows()
    with mapped("calls") as apply:
        held = held_out(options.calls, apply)
    by_profile: dict[str, list[Held]] = defaultdict(list)
    for one in held:
        by_profile[one.profile].append(one)
    shown = {name: by_profile[name] for name in rows.rows if len(by_profile[name]) >= LEAST_CALLS}
    samples = [one.sample for one in held if one.sample]
    for table in (
        support(rows, held),
        changes(rows, samples),
        left_out("profile", shown),
        left_out("pool", by_pool(held)),
    ):
        print(f"\n{table.caption}\n\n{table.as_markdown()}")
    if options.write:
        text = TABLE.read_text("utf-8")
        TABLE.write_text(with_constants(text, fitted(rows, samples)), "utf-8")
        print(f"written: {TABLE.name}")
    if names := unsupported(rows, held):
        sys.exit(f"fitted, but called by fewer than {LEAST_PROJECTS} projects: {', '.join(names)}")


if __name__ == "__main__":
    main()
