"""The table of guarantees: what is promised, which check holds it, and what was last seen."""

import argparse
import datetime as dt
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from tasks.environment import setup
from tasks.steps import PYTHON, QUICK, ROOT, StepError, run, say

ROWS = ROOT / "tests/data/guarantees.json"
SEEN = ROOT / "tests/data/guarantees_seen.json"
PAGE = ROOT / "docs/guarantees.md"
RUNNER = "dev.py "
HEAD = """# Guarantees

Each row is a promise and the checks that fail when it is broken. `python3 dev.py guarantees` runs
the tests that are named here and writes this page; `--steps` runs the commands, too. A promise is
*held* if its checks cover all of it, *held in part* if something is missing, and *not shown* if
nothing fails when it is broken. A row whose checks were not run has no figure.
"""
UNSAFE = """Each block has its argument beside it; here are those of each file, from the comments in
it. Rust tests run under AddressSanitizer at night, and every SIMD level counts alike.
"""
FIGURES = (  # what a command has to say, by the last line that matches
    re.compile(r"([\d,]+ executions, .*)"),
    re.compile(r"([\d,]+ tokens.*0 .*differ.*)"),
    re.compile(r"(\d+ passed.*) in "),
    re.compile(r"\[dev\] (.*(?:caught|killed|no finding).*)"),
)


_REFERENCES = ("see above.", "the head of this file.")


def rows() -> list[dict[str, Any]]:
    """The rows of the table, in order."""
    return list(json.loads(ROWS.read_text("utf-8")))


def state(row: Mapping[str, Any]) -> str:
    """How far a promise is held by checks."""
    if not row["checks"]:
        return "not shown"
    return "held in part" if row["missing"] else "held"


def is_step(check: str) -> bool:
    """Whether a check is a command of dev.py and no test."""
    return check.startswith(RUNNER)


def page(table: Iterable[Mapping[str, Any]], seen: Mapping[str, Mapping[str, str]]) -> str:
    """The page in Markdown."""
    found = list(table)
    states = [state(row) for row in found]
    names = ("held", "held in part", "not shown")
    sums = ", ".join(f"{states.count(name)} {name}" for name in names)
    lines = [HEAD, f"Of {len(found)} promises: {sums}."]
    area = ""
    for row in found:
        if row["area"] != area:
            area = row["area"]
            head = "| | Promise | State | Checks | Last seen |"
            lines += [f"\n## {area}\n", head, "|" + " --- |" * 5]
        checks = "; ".join(_in_words(row["checks"])) or "none"
        cells = (row["id"], row["promise"], state(row), checks, _last(row, seen))
        lines.append("| " + " | ".join(cells) + " |")
        if row["missing"]:
            lines[-1] = lines[-1].replace(f"| {state(row)} |", f"| {state(row)}: {_word(row)} |")
    lines += ["\n## Unsafe blocks\n", UNSAFE, "| File | Blocks | Arguments |", "|" + " --- |" * 3]
    for name, (count, arguments) in unsafe_blocks().items():
        lines.append(f"| `{name}` | {count} | {' '.join(arguments)} |")
    return "\n".join(lines) + "\n"


def unsafe_blocks() -> dict[str, tuple[int, list[str]]]:
    """For each file of the core that has `unsafe` blocks: how many, and its arguments for them."""
    found = {}
    for path in sorted((ROOT / "src").rglob("*.rs")):
        text = path.read_text("utf-8")
        if count := len(re.findall(r"\bunsafe \{", text)):
            comments = re.findall(r"// SAFETY[^:]*: ((?:.*\n\s*//)*.*)", text)
            plain = [" ".join(re.sub(r"\n\s*//", " ", it).split()) for it in comments]
            name = path.relative_to(ROOT).as_posix()
            found[name] = count, [it for it in dict.fromkeys(plain) if it not in _REFERENCES]
            if _REFERENCES[1] in plain:
                [head] = re.findall(
                    r"//! The argument: ((?:.*\n//! ?)*?.*?\.)\n(?://!\n|[^/])", text
                )
                found[name][1].append(" ".join(head.replace("//!", " ").split()))
    return found


def _in_words(checks: Iterable[str]) -> Iterator[str]:
    """Tests by file, each as the sentence that its name is; commands as they are typed."""
    files: dict[str, list[str]] = {}
    for check in checks:
        if is_step(check):
            files[f"`python3 {check}`"] = []
        else:
            path, *_, name = check.split("::")
            sentence = name.removeprefix("test_").replace("_", " ")
            files.setdefault(f"`{path}`", []).append(sentence)
    for path, sentences in files.items():
        yield f"{path}: {', '.join(sentences)}" if sentences else path


def _word(row: Mapping[str, Any]) -> str:
    return str(row["missing"]).rstrip(".")


def _short(check: str) -> str:
    return check.rpartition("::")[2]


def _last(row: Mapping[str, Any], seen: Mapping[str, Mapping[str, str]]) -> str:
    found = [seen[check] for check in row["checks"] if check in seen]
    figures = [each["figure"] for each in found if each["figure"]]
    if not found:
        return ""
    newest = max(found, key=lambda each: each["day"])
    cases = sum(int(each["cases"]) for each in found)
    ran = [f"{cases} {'case' if cases == 1 else 'cases'}"] if cases else []
    return "; ".join([*figures, *ran, ", ".join(newest[it] for it in ("day", "commit", "machine"))])


def guarantees(options: argparse.Namespace) -> None:
    """Run the checks of docs/guarantees.md and write that page; --steps: its commands, too."""
    setup("cli", "test", profile=QUICK)
    table = rows()
    seen = json.loads(SEEN.read_text("utf-8")) if SEEN.exists() else {}
    checks = sorted({check for row in table for check in row["checks"]})
    if not options.page:
        seen |= _tests([check for check in checks if not is_step(check)])
    if options.steps:
        for check in filter(is_step, checks):
            if not options.only or options.only in check:
                seen[check] = _step(check)
    seen = {check: seen[check] for check in checks if check in seen}
    SEEN.write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n", "utf-8")
    PAGE.write_text(page(table, seen), "utf-8")
    say(f"wrote {PAGE.relative_to(ROOT)}: {len(table)} promises, {len(seen)} checks seen")
    failed = [check for check, each in seen.items() if each["outcome"] == "failed"]
    if failed:
        raise StepError(f"guarantees: {', '.join(map(_short, failed))} failed.")


def _tests(checks: list[str]) -> dict[str, dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        words = (*checks, "-n", "auto", "--dist", "loadfile", f"--junitxml={report}", "-q")
        try:
            run("guarantees", PYTHON, "-m", "pytest", *words)
        except StepError as error:
            say(str(error))
        if not report.exists():
            raise StepError("guarantees: pytest ended without a report; its error is above.")
        found = read_report(report, checks)
    if missing := [check for check, it in found.items() if not it["outcome"]]:
        raise StepError(f"guarantees: {', '.join(missing)} was not run; its error is above.")
    return found


def read_report(report: Path, checks: Iterable[str]) -> dict[str, dict[str, str]]:
    """The outcome and figure of each check of a report of pytest in the form of JUnit."""
    cases: dict[str, list[ET.Element]] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314  # pytest wrote it
        cases.setdefault(case.get("name", "").partition("[")[0], []).append(case)
    seen = {}
    for check in checks:
        found = cases.get(_short(check), [])
        ran = [case for case in found if case.find("skipped") is None]
        bad = [c for c in ran if c.find("failure") is not None or c.find("error") is not None]
        outcome = "failed" if bad else "passed" if ran else "skipped" if found else ""
        properties = (p for case in ran for p in case.iter("property"))
        told = [p.get("value", "") for p in properties if p.get("name") == "figure"]
        figure = told[-1] if told else "" if ran else "skipped here"
        seen[check] = _entry(outcome, figure, len(ran))
    return seen


def _step(check: str) -> dict[str, str]:
    say(f"$ python3 {check}")
    words: tuple[str | Path, ...] = (
        sys.executable,
        ROOT / "dev.py",
        *check.removeprefix(RUNNER).split(),
    )
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    found = [match[-1] for pattern in FIGURES if (match := pattern.findall(output))]
    outcome = "failed" if done.returncode else "passed"
    if done.returncode:
        sys.stderr.write(output[-4_000:])
    return _entry(outcome, found[0].strip() if found else "")


def _entry(outcome: str, figure: str, cases: int = 0) -> dict[str, str]:
    look = ("git", "rev-parse", "--short", "HEAD")
    commit = subprocess.run(look, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return {
        "outcome": outcome,
        "figure": figure if outcome != "failed" else f"failed {figure}".strip(),
        "cases": str(cases),
        "day": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "commit": commit.strip() or "no commit",
        "machine": machine(),
    }


def machine() -> str:
    """The processor, as Linux calls it, and how many there are."""
    try:
        about = Path("/proc/cpuinfo").read_text("utf-8")
        [name, *_] = re.findall(r"^model name\s*: (.+)$", about, re.MULTILINE)
    except (OSError, ValueError):
        name = platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def guarantee_options(target: argparse.ArgumentParser) -> None:
    """The options of `guarantees`."""
    target.add_argument("--steps", action="store_true", help="run the commands of dev.py, too")
    target.add_argument("--only", help="of the commands those that hold this text")
    target.add_argument("--page", action="store_true", help="run no test; write the page anew")
