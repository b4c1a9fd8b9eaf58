"""The gate of the benchmarks fails when it should."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomli

SCRIPT = Path(__file__).parents[2] / "benches" / "check_floors.py"
FLOOR = "[digest-chat]\nratio = 4.0\nhighest = 4.0\n"
LOWERED = "[digest-chat]\nratio = 4.0\nhighest = 6.0\n"


def benchmark(group: str, implementation: str, seconds: float) -> dict[str, object]:
    params = {"implementation": implementation}
    return {"group": group, "params": params, "stats": {"min": seconds}}


def check(
    folder: Path,
    floors: str,
    reference_seconds: float,
    *,
    rust_seconds: tuple[float, ...] = (0.001,),
) -> subprocess.CompletedProcess[str]:
    """Run the checker on one group, measured once for each of `rust_seconds`."""
    measured = []
    for number, seconds_of_rust in enumerate(rust_seconds):
        times = {"rust": seconds_of_rust, "reference": reference_seconds, "empty": 1e-9}
        runs = [benchmark("digest-chat", name, seconds) for name, seconds in times.items()]
        measured.append(folder / f"bench-{number}.json")
        measured[-1].write_text(json.dumps({"benchmarks": runs}), "utf-8")
    limits = folder / "floors.toml"
    limits.write_text(floors, "utf-8")
    command = [sys.executable, str(SCRIPT), *map(str, measured), "--floors", str(limits)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_ratio_at_its_floor_passes_and_is_printed(tmp_path: Path) -> None:
    done = check(tmp_path, FLOOR, 0.004)
    assert done.returncode == 0, done.stdout
    row = done.stdout.splitlines()[1].split()
    assert row == ["digest-chat", "1000.0", "us", "4000.0", "us", "4.00", "4"]


@pytest.mark.parametrize(
    ("floors", "reference_seconds", "fault"),
    [
        (FLOOR, 0.0039, "digest-chat: ratio 3.90 is below its floor 4"),
        (FLOOR.replace("digest", "lookup"), 0.004, "lookup-chat: not measured"),
        ("", 0.004, "digest-chat: measured, but has no floor"),
        (LOWERED, 0.004, "digest-chat: floor lowered from 6 without a reason"),
        (FLOOR.replace("ratio = 4.0", "ratio = 5.0"), 0.006, "floor 5 above highest 4"),
    ],
    ids=["below", "missing", "unknown", "lowered", "raised"],
)
def test_a_fault_fails_and_is_named(
    tmp_path: Path, floors: str, reference_seconds: float, fault: str
) -> None:
    done = check(tmp_path, floors, reference_seconds)
    assert done.returncode == 1
    assert f"FAIL {fault}" in done.stdout or fault in done.stdout


def test_one_quiet_measurement_of_several_is_enough(tmp_path: Path) -> None:
    loud = check(tmp_path, FLOOR, 0.004, rust_seconds=(0.002, 0.0011))
    assert loud.returncode == 1
    assert "FAIL digest-chat: ratio 3.64 is below its floor 4" in loud.stdout
    quiet = check(tmp_path, FLOOR, 0.004, rust_seconds=(0.002, 0.001, 0.003))
    assert quiet.returncode == 0, quiet.stdout


def test_a_lowered_floor_with_a_reason_passes(tmp_path: Path) -> None:
    done = check(tmp_path, LOWERED + 'reason = "the reference got faster"\n', 0.004)
    assert done.returncode == 0, done.stdout


def test_the_floor_file_of_the_repository_can_be_read(tmp_path: Path) -> None:
    done = check(tmp_path, (SCRIPT.parent / "floors.toml").read_text("utf-8"), 0.004)
    assert "FAIL" in done.stdout  # its groups are not in this measurement
    assert not done.stderr


GATEWAY_ROWS = re.search(
    r"^## What gateways feel$.*?^\| ---.*?\n(.*?)\n\n",
    (SCRIPT.parent / "README.md").read_text("utf-8"),
    re.MULTILINE | re.DOTALL,
)[1].splitlines()  # type: ignore[index]  # without the table there is nothing to test


@pytest.mark.parametrize("row", GATEWAY_ROWS, ids=lambda row: row.split("|")[1].strip())
def test_every_row_of_what_gateways_feel_has_a_floor(row: str) -> None:
    *_, cell, _ = row.split("|")
    floors = tomli.loads((SCRIPT.parent / "floors.toml").read_text("utf-8"))
    groups = re.findall(r"`([\w-]+)`", cell)
    assert groups, "the row names no floor"
    assert set(groups) <= floors.keys()


def test_the_tests_of_a_missed_group_are_written_down_to_be_run_again(tmp_path: Path) -> None:
    runs = [
        {**benchmark(group, name, seconds), "fullname": f"benches/test_x.py::test[{group}-{name}]"}
        for group, ours in (("digest-chat", 0.002), ("lookup-chat", 0.001))
        for name, seconds in (("rust", ours), ("reference", 0.004))
    ]
    measured, limits, missed = (tmp_path / name for name in ("1.json", "floors.toml", "missed"))
    measured.write_text(json.dumps({"benchmarks": runs}), "utf-8")
    limits.write_text(FLOOR + FLOOR.replace("digest", "lookup"), "utf-8")
    command = (sys.executable, SCRIPT, measured, "--floors", limits, "--missed", missed)
    subprocess.run(command, check=True)
    tests = missed.read_text("utf-8").split("\n")
    names = ("reference", "rust")
    assert tests == [f"benches/test_x.py::test[digest-chat-{name}]" for name in names]
