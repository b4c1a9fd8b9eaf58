"""The history of benchmarks sees a slow loss, and none in noise."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import history
from history_view import Run, markdown, page

ROOT = Path(__file__).parents[2]
START = datetime(2026, 9, 1, 3, tzinfo=timezone.utc)
MACHINE: dict[str, Any] = {
    "processor": "a processor",
    "level": "avx512",
    "cores": 2,
    "python": "3.11.7",
    "system": "Linux",
}


def a_run(day: float, ratio: float, **other: Any) -> Run:
    date = (START + timedelta(days=day)).isoformat()
    return replace(Run(f"{int(day):012x}", date, MACHINE, {"count-text": ratio}), **other)


def daily(days: int, *, a_week: float = 0.0, noise: float = 0.03, seed: int = 0) -> list[Run]:
    """A run a day of a ratio of 40 that changes by a share each week, with noise on it."""
    random_ = random.Random(seed)
    return [
        a_run(day, 40 * (1 + a_week) ** (day / 7) * math.exp(random_.gauss(0, noise)))
        for day in range(days)
    ]


def alarms(runs: list[Run]) -> list[str]:
    """What is said when the last run comes."""
    return [it.alarm for it in history.findings(runs[:-1], runs[-1]) if it.alarm]


@pytest.mark.parametrize("seed", range(20))
def test_two_percent_a_week_are_seen_within_six_weeks(seed: int) -> None:
    runs = daily(42, a_week=-0.02, seed=seed)
    [finding] = history.findings(runs[:-1], runs[-1])
    assert finding.alarm.startswith("drifts: ")
    assert finding.week == pytest.approx(-0.02, abs=0.01)


def test_two_percent_a_week_are_seen_with_one_run_a_week_and_little_noise() -> None:
    runs = daily(7 * 10, a_week=-0.02, noise=0.005)[::7]
    assert alarms(runs)[0].startswith("drifts: ")


def test_noise_gives_no_alarm_in_a_year() -> None:
    runs = daily(365)
    told = [alarms(runs[: count + 1]) for count in range(1, len(runs))]
    assert sum(bool(it) for it in told if "drifts" in str(it)) == 0
    assert sum(map(bool, told)) <= 4  # steps of 10 % are three deviations of this noise


def test_what_gets_faster_gives_no_alarm() -> None:
    assert alarms(daily(56, a_week=0.02)) == []


def test_a_step_is_seen_at_once() -> None:
    runs = [*daily(20), a_run(20, 32)]
    assert "slower than the last runs" in alarms(runs)[0]


def test_another_kind_of_machine_is_not_compared() -> None:
    other = {**MACHINE, "processor": "another"}
    runs = [*daily(30), a_run(30, 20, machine=other)]
    [finding] = history.findings(runs[:-1], runs[-1])
    assert (finding.before, finding.alarm) == (None, "")
    patch = a_run(31, 40, machine={**MACHINE, "python": "3.11.9"})
    assert history.findings(runs, patch)[0].before is not None


@pytest.mark.parametrize(("now", "is_alarm"), [(40.7, False), (40.9, True)])
def test_more_instructions_are_an_alarm_at_once(now: float, *, is_alarm: bool) -> None:
    """40 in the first week, then 0.5 % more: what counts is the fewest, so creeping is seen."""
    counts = [40.0, 40.2, 40.4, 40.6, now]
    runs = [
        a_run(day, 40, instructions={"core estimate": count}, build="rustc 1")
        for day, count in enumerate(counts)
    ]
    found = {it.name: it for it in history.findings(runs[:-1], runs[-1])}
    assert bool(found["instructions: core estimate"].alarm) == is_alarm
    newer = replace(runs[-1], build="rustc 2")
    found = {it.name: it for it in history.findings(runs[:-1], newer)}
    assert found["instructions: core estimate"].before is None


def test_the_table_names_what_stands_out_and_folds_the_rest() -> None:
    runs = daily(42, a_week=-0.02)
    quiet = a_run(42, 35, ratios={"count-text": 35.0, "import-package": 2.0})
    told = history.findings(runs, quiet)
    table = markdown(quiet, told, len(runs))
    head, _, rest = table.partition("<details>")
    assert "| count-text | 35.00 |" in head
    assert "drifts" in head
    assert "import-package" in rest


def test_the_page_has_a_plot_of_each_number_and_loads_nothing() -> None:
    runs = daily(42, a_week=-0.02)
    told = history.findings(runs[:-1], runs[-1])
    made = page(runs, runs[-1], told)
    assert made.count("<svg") == 1
    assert made.count("<circle") == len(runs)
    assert 'class="alarm">drifts' in made
    assert not any(word in made for word in ("http", "<script", "<link", "src="))


def floors_file(name: str) -> str:
    return json.dumps(
        {
            "benchmarks": [
                {"group": "count-text", "params": {"implementation": key}, "stats": {"min": time}}
                for key, time in (("rust", 0.001), ("reference", 0.042))
            ],
            "name": name,
        }
    )


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    program = (sys.executable, ROOT / "benches/history.py", *words)
    return subprocess.run([*map(str, program)], capture_output=True, text=True, check=False)


def test_a_run_is_kept_compared_and_added(tmp_path: Path) -> None:
    measured, counted = tmp_path / "bench-1.json", tmp_path / "instructions.json"
    measured.write_text(floors_file("one"), "utf-8")
    spent = {"compiler": "rustc", "python": "3", "corpora": {"a": "b"}, "core": {"record": 44.83}}
    counted.write_text(json.dumps(spent), "utf-8")
    run, folder = tmp_path / "run.json", tmp_path / "history"
    done = command("keep", measured, "--instructions", counted, "--run", run)
    assert done.returncode == 0, done.stderr
    kept = history.read_run(run)
    assert kept.ratios["count-text"] == pytest.approx(42)
    assert kept.instructions == {"core record": 44.83}
    assert kept.machine.keys() == MACHINE.keys()
    folder.mkdir()
    for day in range(10):
        earlier = replace(kept, date=(START + timedelta(days=day)).isoformat())
        faster = replace(earlier, ratios={"count-text": 60.0})
        history.write_run(faster, folder / history.file_name(earlier))
    words = ("compare", run, "--folder", folder, "--add", "--fail", "--summary", tmp_path / "s.md")
    done = command(*words)
    assert done.returncode == 1, done.stderr
    assert "30% slower than the last runs" in done.stdout
    assert (tmp_path / "s.md").read_text("utf-8").strip() == done.stdout.strip()
    assert len(list(folder.glob("*.json"))) == 11
    assert "<svg" in (folder / "index.html").read_text("utf-8")
    assert command(*words, "--since", "2026-11-01").returncode == 0
