"""The history of benchmark runs: keeps each run, compares it with earlier ones, sees drift.

    python benches/history.py keep target/bench-1.json ... --run target/bench-run.json
    python benches/history.py compare target/bench-run.json --folder history [--add]

A run is a JSON file with commit, date, machine, the ratio of each group of benchmarks (reference or
peer over ours, in one process) and the instructions per byte that valgrind has counted. Runs are
compared with those of the same kind of machine only. Three things are told of a number: the change
from the median of the last runs, its trend in % a week, and whether that is a loss for certain.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import subprocess
import sys
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from itertools import combinations
from pathlib import Path
from statistics import NormalDist, median
from typing import TYPE_CHECKING, Any, Final

from history_view import Finding, Run, markdown, page

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
LAST_RUNS: Final = 10
"""What the newest run is compared with: the median of so many."""
WINDOW: Final = timedelta(weeks=8)
FEWEST_RUNS: Final = 8
CHANCE: Final = 0.0005
"""How seldom noise alone may look like a loss: with 25 numbers, once in some years."""
LEAST_LOSS: Final = 0.02
"""A loss over the window that is worth a word, if it is certain."""
STEP: Final = 0.10
"""A change from the last runs that is worth a look at once."""
EXACT_GROWTH: Final = 0.02
"""More instructions than the fewest of the window by this: an alarm, since they repeat exactly."""


AVX512: Final = {
    *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vbmi", "avx512_vbmi2"),
}
"""What the core asks for, in the words of /proc/cpuinfo."""


def level(flags: set[str]) -> str:
    """The vector instructions that the core would use."""
    if flags >= AVX512:
        return "avx512"
    return "avx2" if "avx2" in flags else "none"


def machine() -> dict[str, Any]:
    """What this machine is."""
    path = Path("/proc/cpuinfo")
    about = path.read_text("utf-8", "replace") if path.exists() else ""
    name = re.search(r"^model name\s*: (.+)$", about, re.MULTILINE)
    flags = re.search(r"^flags\s*: (.+)$", about, re.MULTILINE)
    return {
        "processor": name[1] if name else platform.processor() or platform.machine(),
        "level": level(set(flags[1].split())) if flags else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.system(),
    }


def commit() -> str:
    """The commit of the tree, with a mark if files differ from it; empty outside of a checkout."""
    command = ("git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def run_of(measured: list[Path], counted: Path | None) -> Run:
    """The run that pytest-benchmark, and `instructions.py`, have written."""
    # With tomli, which a comparison does without.
    from check_floors import FLOORS, read_floors, read_minima

    floors = read_floors(FLOORS)
    minima = read_minima(measured, floors)
    pairs = {floor.group: floor.pair for floor in floors if minima.get(floor.group)}
    ratios = {
        group: minima[group][other] / minima[group][ours]
        for group, (ours, other) in pairs.items()
        if {ours, other} <= minima[group].keys()
    }
    made = json.loads(counted.read_text("utf-8")) if counted and counted.exists() else {}
    spent = {
        f"{table} {row}": value
        for table, rows in made.items()
        if isinstance(rows, dict) and table != "corpora"
        for row, value in rows.items()
    }
    build = f"{made['compiler']}; {made['python']}" if made else ""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Run(commit(), now, machine(), ratios, minima, spent, build)


def read_run(path: Path) -> Run:
    """A run from its file."""
    return Run(**json.loads(path.read_text("utf-8")))


def write_run(run: Run, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(run), indent=1, sort_keys=True) + "\n", "utf-8")


def file_name(run: Run) -> str:
    """`20261123T150000Z-0123456789ab.json`"""
    stamp = run.at.astimezone(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    return f"{stamp}-{run.commit or 'unknown'}.json"


def read_history(folder: Path) -> list[Run]:
    """All runs of a folder, the oldest first."""
    return sorted((read_run(path) for path in folder.glob("*.json")), key=lambda run: run.at)


def trend(weeks: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Share by which values change a week, and the chance that noise alone falls as clearly.

    The slope is the median of those of all pairs, on logarithms (Theil and Sen), and the chance is
    that of the test of Mann and Kendall: neither minds a few runs that are far off.
    """
    logs = [math.log(value) for value in values]
    pairs = [(logs[j] - logs[i], weeks[j] - weeks[i]) for i, j in combinations(range(len(logs)), 2)]
    slopes = [rise / time for rise, time in pairs if time > 0]
    if not slopes:
        return 0.0, 1.0
    signs = sum((rise > 0) - (rise < 0) for rise, _ in pairs)
    count = len(logs)
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    chance = NormalDist().cdf((signs + 1) / deviation) if signs < 0 else 1.0
    return math.expm1(median(slopes)), chance


def finding_of_ratio(name: str, runs: list[tuple[datetime, float]]) -> Finding:
    """What is told of a ratio, from all its runs; the last one is the newest."""
    newest, now = runs[-1]
    earlier = [value for _, value in runs[:-1]][-LAST_RUNS:]
    if not earlier:
        return Finding(name, now)
    before = median(earlier)
    change = now / before - 1
    alarm = f"{-change:.0%} slower than the last runs" if change < -STEP else ""
    window = [(at, value) for at, value in runs if newest - at <= WINDOW]
    if len(window) < FEWEST_RUNS:
        return Finding(name, now, before, change, None, alarm)
    weeks = [(at - window[0][0]) / timedelta(weeks=1) for at, _ in window]
    week, chance = trend(weeks, [value for _, value in window])
    loss = -math.expm1(weeks[-1] * math.log1p(week))
    if chance < CHANCE and loss >= LEAST_LOSS:
        alarm = f"drifts: {loss:.0%} lost in {weeks[-1]:.0f} weeks"
    return Finding(name, now, before, change, week, alarm)


def finding_of_instructions(name: str, runs: list[tuple[datetime, float]]) -> Finding:
    """What is told of instructions per byte; the change is below 0 where there are more."""
    newest, now = runs[-1]
    earlier = [value for at, value in runs[:-1] if newest - at <= WINDOW]
    if not earlier:
        return Finding(name, now)
    before = median(earlier[-LAST_RUNS:])
    growth = now / min(earlier) - 1
    alarm = f"{growth:.1%} more than the fewest" if growth > EXACT_GROWTH else ""
    return Finding(name, now, before, before / now - 1, None, alarm)


def findings(history: list[Run], newest: Run) -> list[Finding]:
    """What is told of each number of the newest run, from those of the same kind of machine."""
    runs = [run for run in history if run.kind == newest.kind and run.at < newest.at]
    told = []
    for group in sorted(newest.ratios):
        values = [(run.at, run.ratios[group]) for run in (*runs, newest) if group in run.ratios]
        told.append(finding_of_ratio(group, values))
    same = [run for run in history if run.build == newest.build and run.at < newest.at]
    for row in newest.instructions:
        values = [
            (run.at, run.instructions[row]) for run in (*same, newest) if row in run.instructions
        ]
        told.append(finding_of_instructions(f"instructions: {row}", values))
    return told


def compare(options: argparse.Namespace) -> int:
    """Print the table, write the page; 1 if something stands out and that is asked for."""
    newest = read_run(options.run)
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    history = [run for run in read_history(folder) if run.date != newest.date]
    if options.since:
        since = datetime.fromisoformat(options.since).replace(tzinfo=timezone.utc)
        history = [run for run in history if run.at >= since]
    told = findings(history, newest)
    earlier = [run for run in history if run.kind == newest.kind and run.at < newest.at]
    table = markdown(newest, told, len(earlier))
    print(table)
    if options.summary:
        with options.summary.open("a", encoding="utf-8") as summary:
            summary.write(table)
    if options.add:
        write_run(newest, folder / file_name(newest))
        (folder / "index.html").write_text(page([*history, newest], newest, told), "utf-8")
    return 1 if options.fail and any(it.alarm for it in told) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    kept = commands.add_parser("keep", help="make one run of what was measured")
    kept.add_argument("measured", type=Path, nargs="+", help="what pytest --benchmark-json wrote")
    kept.add_argument("--instructions", type=Path, help="what instructions.py --json wrote")
    kept.add_argument("--run", type=Path, required=True, help="where to write the run")
    told = commands.add_parser("compare", help="compare a run with a folder of earlier ones")
    told.add_argument("run", type=Path)
    told.add_argument("--folder", type=Path, required=True, help="earlier runs, a file each")
    told.add_argument("--add", action="store_true", help="keep it there, and write index.html")
    told.add_argument("--since", help="leave out runs before this date, after a loss that is meant")
    told.add_argument("--summary", type=Path, help="add the table to this file")
    told.add_argument("--fail", action="store_true", help="exit with 1 if something stands out")
    options = parser.parse_args()
    if options.command == "compare":
        return compare(options)
    write_run(run_of(options.measured, options.instructions), options.run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
