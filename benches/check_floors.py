"""Fail when the core is not as many times faster than the reference as `floors.toml` says.

    python benches/check_floors.py target/bench-1.json ... [--floors benches/floors.toml]
    python benches/check_floors.py target/bench-1.json --missed target/missed.txt

Both implementations ran in one process on one input, so the ratio of their minima cancels the
machine. A loud phase of the machine lasts for seconds and can meet one side only: several files of
the same benchmarks, measured one after the other, are one measurement with the least time of each,
and with `--missed` the tests of the groups below their floors are written down, to be run again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import tomli

FLOORS = Path(__file__).with_name("floors.toml")
Minima = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Floor:
    """The least ratio of one group, and the most that it ever was.

    `peer` is another package that is measured in place of the reference, where it is installed.
    """

    group: str
    ratio: float
    highest: float
    reason: str = ""
    peer: str = ""

    @property
    def pair(self) -> tuple[str, str]:
        """The two implementations whose times are compared."""
        return ("tokenctx", self.peer) if self.peer else ("rust", "reference")

    def faults(self) -> list[str]:
        """What is wrong with the floor itself."""
        if self.ratio > self.highest:
            return [f"{self.group}: floor {self.ratio:g} above highest {self.highest:g}; raise it"]
        if self.ratio < self.highest and not self.reason.strip():
            return [f"{self.group}: floor lowered from {self.highest:g} without a reason"]
        return []


def read_floors(path: Path) -> list[Floor]:
    """The rows of a floor file; `highest` is required, so lowering a floor alone shows."""
    rows = tomli.loads(path.read_text("utf-8"))
    return [Floor(group, **row) for group, row in rows.items()]


def read_minima(paths: list[Path], floors: list[Floor]) -> Minima:
    """Least seconds by group and implementation, from pytest-benchmark's JSON."""
    compared = {"rust", "reference"}.union(*(floor.pair for floor in floors))
    minima: Minima = {}
    measured = (json.loads(path.read_text("utf-8"))["benchmarks"] for path in paths)
    for run in itertools.chain.from_iterable(measured):
        implementation = (run["params"] or {}).get("implementation")
        if implementation in compared:
            group = minima.setdefault(run["group"], {})
            seconds = run["stats"]["min"]
            group[implementation] = min(seconds, group.get(implementation, seconds))
    return minima


def tests_of(groups: set[str], paths: list[Path]) -> list[str]:
    """The tests that measured these groups, each once, in the words of pytest."""
    measured = (json.loads(path.read_text("utf-8"))["benchmarks"] for path in paths)
    runs = itertools.chain.from_iterable(measured)
    return sorted({run["fullname"] for run in runs if run["group"] in groups})


def line(*cells: str) -> str:
    return f"{cells[0]:<44}" + "".join(f"{cell:>14}" for cell in cells[1:])


def compare(floors: list[Floor], minima: Minima) -> tuple[list[str], list[str], set[str]]:
    """The table, the faults, and the groups below their floors."""
    table = [line("group", "rust", "reference or peer", "ratio", "floor")]
    faults = [fault for floor in floors for fault in floor.faults()]
    missed = set()
    for floor in floors:
        seconds = minima.get(floor.group, {})
        if floor.peer and floor.peer not in seconds:
            table.append(f"{floor.group}: not measured, {floor.peer} is not installed")
            continue
        if not seconds.keys() >= set(floor.pair):
            faults.append(f"{floor.group}: not measured for {' and '.join(floor.pair)}")
            continue
        ratio = seconds[floor.pair[1]] / seconds[floor.pair[0]]
        times = (f"{1e6 * seconds[name]:.1f} us" for name in floor.pair)
        table.append(line(floor.group, *times, f"{ratio:.2f}", f"{floor.ratio:g}"))
        if ratio < floor.ratio:
            missed.add(floor.group)
            faults.append(f"{floor.group}: ratio {ratio:.2f} is below its floor {floor.ratio:g}")
    unknown = minima.keys() - {floor.group for floor in floors}
    faults += [f"{group}: measured, but has no floor" for group in sorted(unknown)]
    return table, faults, missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("json", type=Path, nargs="+", help="what pytest --benchmark-json wrote")
    parser.add_argument("--floors", type=Path, default=FLOORS)
    parser.add_argument("--missed", type=Path, help="write the tests of these groups, fail later")
    options = parser.parse_args()
    floors = read_floors(options.floors)
    table, faults, missed = compare(floors, read_minima(options.json, floors))
    if options.missed:
        options.missed.write_text("\n".join(tests_of(missed, options.json)), "utf-8")
        return 0
    print("\n".join([*table, *(f"FAIL {fault}" for fault in faults)]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
