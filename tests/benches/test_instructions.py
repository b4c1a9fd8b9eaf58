"""The gate of instruction counts fails when it should."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli

import instructions

ROOT = Path(__file__).parents[2]
RECORDED: dict[str, Any] = tomli.loads((ROOT / "benches/instructions.toml").read_text("utf-8"))


def test_what_is_recorded_passes() -> None:
    table, faults = instructions.compare(RECORDED, RECORDED)
    assert faults == []
    assert len(table) == 1 + 3 * 5 + 4 + 3


@pytest.mark.parametrize(
    ("group", "row"),
    [("o200k_base", "code"), ("core", "estimate"), ("core", "record"), ("package", "read_stream")],
)
@pytest.mark.parametrize(("factor", "fault_count"), [(1.03, 1), (1.01, 0), (0.5, 0)])
def test_two_percent_more_fails(group: str, row: str, factor: float, fault_count: int) -> None:
    made = copy.deepcopy(RECORDED)
    made[group][row] *= factor
    faults = instructions.compare(RECORDED, made)[1]
    assert [fault.partition(":")[0] for fault in faults] == [f"{group} {row}"] * fault_count


def test_another_build_of_python_is_compared_in_the_core_alone() -> None:
    made = {**copy.deepcopy(RECORDED), "python": "another"}
    made["package"]["convert"] *= 2
    made["core"]["estimate"] *= 2
    faults = instructions.compare(RECORDED, made)[1]
    assert [fault.partition(":")[0] for fault in faults] == ["core estimate"]


def test_another_text_is_a_fault_and_hides_no_other() -> None:
    made = copy.deepcopy(RECORDED)
    made["corpora"]["bodies"] = "another"
    made["o200k_base"]["json"] *= 2
    faults = instructions.compare(RECORDED, made)[1]
    assert [fault.partition(":")[0] for fault in faults] == ["bodies", "o200k_base json"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "ci", "code"), [((), "", 0), ((), "true", 1), (("--required",), "", 1)]
)
def test_a_missing_valgrind_fails_where_it_must(
    words: tuple[str, ...], ci: str, code: int, tmp_path: Path
) -> None:
    command = (sys.executable, str(ROOT / "benches/instructions.py"), *words)
    environment = {**os.environ, "PATH": str(tmp_path), "CI": ci}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, "valgrind is not installed" in done.stdout) == (code, True)
