"""The table of guarantees names checks that are there, and its page says what it says."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import tomli
from tasks.faults import changed, faults
from tasks.guarantees import PAGE, RUNNER, SEEN, is_step, page, read_report, rows, state
from tasks.mutants import EXPLAINED, ROOMS
from tasks.steps import StepError

ROOT = Path(__file__).parents[2]
ROWS = rows()
CHECKS = sorted({check for row in ROWS for check in row["checks"]})
REPORT = """<testsuites><testsuite>
<testcase name="test_a[1]" time="1">
<properties><property name="figure" value="7 cuts"/></properties></testcase>
<testcase name="test_b" time="1"/><testcase name="test_b[2]" time="1"><failure/></testcase>
<testcase name="test_c" time="1"><skipped/></testcase>
</testsuite></testsuites>"""


@functools.cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def has(check: str) -> bool:
    """Whether a check is a test or a command that is there."""
    if is_step(check):
        target = check.removeprefix(RUNNER).split()[0]
        return bool(re.search(rf"^def {target}\(", text_of_tasks(), re.MULTILINE))
    path, *names = check.split("::")
    is_there = bool(names) and (ROOT / path).exists()
    return is_there and bool(re.search(rf"def {names[-1]}\(", text_of(path)))


@functools.cache
def text_of_tasks() -> str:
    paths = (ROOT / "dev.py", *(ROOT / "tasks").glob("*.py"))
    return "\n".join(path.read_text("utf-8") for path in paths)


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_is_there(check: str) -> None:
    assert has(check)


def test_a_check_that_is_not_there_is_found() -> None:
    assert not has("tests/house/test_guarantees.py::test_that_nobody_wrote")
    assert not has("dev.py nothing")


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text("utf-8") == page(ROWS, json.loads(SEEN.read_text("utf-8"))), (
        "run python3 dev.py guarantees --page"
    )


def test_every_promise_has_a_number_of_its_own_and_a_check_or_a_reason() -> None:
    numbers = [row["id"] for row in ROWS]
    assert len(set(numbers)) == len(numbers)
    assert [row["id"] for row in ROWS if not row["checks"] and not row["missing"]] == []
    assert {f"{letter}1" for letter in "TCSMP"} <= set(numbers)


def test_a_promise_is_held_only_if_nothing_is_missing() -> None:
    assert state({"checks": [], "missing": "all"}) == "not shown"
    assert state({"checks": ["x"], "missing": "some"}) == "held in part"
    assert state({"checks": ["x"], "missing": ""}) == "held"


def test_a_report_tells_outcomes_and_figures(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text(REPORT, "utf-8")
    seen = read_report(path, ["x.py::test_a", "x.py::test_b", "x.py::test_c", "x.py::test_d"])
    found = {check: (it["outcome"], it["figure"]) for check, it in seen.items()}
    assert found["x.py::test_a"] == ("passed", "7 cuts")
    assert found["x.py::test_b"] == ("failed", "failed")
    assert found["x.py::test_c"] == ("skipped", "skipped here")
    assert not found["x.py::test_d"][0]


@pytest.mark.parametrize("row", faults(), ids=lambda row: str(row["fault"]))
def test_every_seeded_fault_can_be_put_in(row: dict[str, Any]) -> None:
    assert has(row["check"]) or (ROOT / row["check"]).exists()
    if row["new"] is None:
        assert (ROOT / row["file"]).exists()
    else:
        assert changed(text_of(row["file"]), row) != text_of(row["file"])


def test_a_fault_that_stands_nowhere_is_named() -> None:
    with pytest.raises(StepError, match=r"'no such line' stands 0 times in dev\.py"):
        changed("text", {"old": "no such line", "file": "dev.py", "new": ""})


def test_rooms_of_mutants_are_there() -> None:
    for room in ROOMS.values():
        for name in (*room.sources, *room.tests):
            assert list(ROOT.glob(name)), name
    assert all(json.loads(EXPLAINED.read_text("utf-8")).values())


def test_no_crate_is_built_in_that_is_banned() -> None:
    lock = tomli.loads(text_of("Cargo.lock"))["package"]
    banned = tomli.loads(text_of("deny.toml"))["bans"]["deny"]
    names = {row["crate"].partition("@")[0] for row in banned if "@" not in row["crate"]}
    assert len(names) > 3
    assert not names & {package["name"] for package in lock}
