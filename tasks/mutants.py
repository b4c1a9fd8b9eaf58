"""Mutants of the rules that decide money and totals: each is killed by a test, or explained."""

import argparse
import json
import os
import random
import re
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tasks.environment import setup
from tasks.faults import COPY, build_core, copy_tree, passes, take_back
from tasks.proofs import MUTANTS, tool
from tasks.steps import PYTHON, QUICK, ROOT, StepError, run, say

EXPLAINED = ROOT / "tests/data/mutants_explained.json"
VENV = ROOT / "target/mutants-venv"
SESSION = COPY / "mutants.sqlite"
QUICK_TESTS = ("-m", "not slow", "-p", "no:randomly")
IN_TYPES = "BitOr"
"""Part of the names of operators that change the `|` of annotations, which no test runs."""


@dataclass(frozen=True)
class Room:
    """Sources whose rules are changed, and the tests that must see it."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]


MONEY, USAGE = "python/tokenctx/money", "python/tokenctx/usage"
BUDGET_TESTS = ("tests/money", "tests/gateway/test_gateway_budgets.py")
PRICES = (f"{MONEY}/prices.py", f"{MONEY}/rates.py", f"{MONEY}/cost.py")
ROOMS = {
    "budgets": Room((f"{MONEY}/budgets",), BUDGET_TESTS),
    "prices": Room(PRICES, ("tests/money",)),
    "cache": Room((f"{MONEY}/cache",), ("tests/money",)),
    "usage": Room((f"{USAGE}/reading.py", f"{USAGE}/normal.py"), ("tests/usage",)),
    "batch": Room(("python/tokenctx/batch/costs.py",), ("tests/batch",)),
    "windows": Room(("python/tokenctx/context",), ("tests/context",)),
    "judgement": Room(("src/engine/judgement.rs",), ("tests/engine", "tests/estimate")),
    "count": Room(("src/count/*.rs",), ("tests/layout", "tests/request", "tests/estimate")),
    "points": Room(("src/engine/cache_points.rs",), ("tests/money", "tests/engine")),
}


@dataclass(frozen=True)
class Survivor:
    """A change that no test has seen."""

    file: str
    change: str

    @property
    def key(self) -> str:
        """What an explanation names it by; no number of a line, which moves."""
        return f"{self.file}: {self.change}"


def mutants(options: argparse.Namespace) -> None:
    """Change rules of the rooms named, or of all, for --minutes each; what lives is told."""
    wanted = options.words or list(ROOMS)
    if unknown := set(wanted) - set(ROOMS):
        raise StepError(f"mutants: {', '.join(unknown)} is none of {', '.join(ROOMS)}")
    setup("cli", "test", profile=QUICK)
    copy_tree()
    build_core()
    explained = json.loads(EXPLAINED.read_text("utf-8"))
    alive, tried = [], 0
    for name in wanted:
        room, seconds = ROOMS[name], 60.0 * options.minutes
        judge = _of_rust if room.sources[0].startswith("src/") else _of_python
        found = list(judge(room, seconds, options.seed))
        lived = [each for each in found if isinstance(each, Survivor)]
        tried += len(found)
        new = [each for each in lived if each.key not in explained]
        killed, told = len(found) - len(lived), len(lived) - len(new)
        say(f"{name}: {killed} of {len(found)} killed, {told} explained")
        for each in new:
            print(each.key, flush=True)
        alive += new
    if alive:
        way = f"write a test, or explain them in {EXPLAINED.name}"
        raise StepError(f"mutants: {len(alive)} live; {way}.")
    say(f"{tried} mutants of {len(wanted)} rooms killed or explained")


def _of_python(room: Room, seconds: float, seed: int) -> Iterator[Survivor | None]:
    """One item for each mutant that was judged: None if it was killed."""
    program = _cosmic_ray()
    start = time.monotonic()
    if not passes(*room.tests, *QUICK_TESTS):
        raise StepError(f"mutants: {' '.join(room.tests)} fails without a mutant.")
    least = time.monotonic() - start
    command = " ".join([str(PYTHON), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"])
    tests = f"{command} -p no:randomly -m 'not slow' {' '.join(room.tests)}"
    settings = COPY / "mutants.toml"
    lines = (
        "[cosmic-ray]",
        f"module-path = {json.dumps(room.sources)}",
        f"timeout = {20 + 4 * least:.0f}.0",
        "excluded-modules = []",
        f"test-command = {json.dumps(tests)}",
        "[cosmic-ray.distributor]",
        'name = "local"',
    )
    settings.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    SESSION.unlink(missing_ok=True)
    _cosmic(program, "init", settings, SESSION)
    with sqlite3.connect(SESSION) as session:
        _draw(session, max(5, int(2 * seconds / least)), seed)
    try:
        _cosmic(program, "exec", settings, SESSION, seconds=seconds)
    except subprocess.TimeoutExpired:
        for source in room.sources:
            for path in [ROOT / source, *(ROOT / source).rglob("*.py")]:
                if path.is_file():
                    take_back(path.relative_to(ROOT).as_posix())
    with sqlite3.connect(SESSION) as session:
        look = (
            "select s.module_path, r.test_outcome, r.diff from work_results r "
            "join mutation_specs s using (job_id)"
        )
        for path, outcome, diff in session.execute(look).fetchall():
            yield Survivor(path, _change(diff)) if "SURVIVED" in str(outcome) else None


def _draw(session: sqlite3.Connection, most: int, seed: int) -> None:
    rows = session.execute("select job_id, operator_name from mutation_specs").fetchall()
    jobs = sorted(job for job, operator in rows if IN_TYPES not in operator)
    random.Random(seed).shuffle(jobs)  # noqa: S311  # a draw, no secret
    kept = set(jobs[:most])
    for job, _ in rows:
        if job not in kept:
            session.execute("delete from mutation_specs where job_id = ?", (job,))
            session.execute("delete from work_items where job_id = ?", (job,))


def _change(diff: str) -> str:
    lines = [line for line in diff.splitlines() if re.match(r"[+-](?!\+\+|--)", line)]
    return " ".join(" ".join(line.split()) for line in lines)


def _cosmic_ray() -> Path:
    program = VENV / "bin/cosmic-ray"
    if not program.exists():
        run("make an environment for cosmic-ray", PYTHON, "-m", "venv", VENV, quiet=True)
        install = ("-m", "pip", "install", "--quiet", "cosmic-ray>=8.7")
        run("install cosmic-ray", VENV / "bin/python", *install, quiet=True)
    return program


def _cosmic(*words: str | Path, seconds: float | None = None) -> None:
    paths = os.pathsep.join(str(COPY / each) for each in ("python", "tests/rigs"))
    variables = {**os.environ, "PYTHONPATH": paths}
    quiet = subprocess.DEVNULL
    subprocess.run(words, cwd=COPY, env=variables, check=True, timeout=seconds, stdout=quiet)


def _of_rust(room: Room, seconds: float, seed: int) -> Iterator[Survivor | None]:
    """As `_of_python`; each mutant is built and judged by the tests of Python."""
    words = (tool(*MUTANTS), "mutants", "--list", "--json", "-f", room.sources[0])
    found = json.loads(subprocess.check_output(words, cwd=ROOT, text=True))
    random.Random(seed).shuffle(found)  # noqa: S311  # a draw, no secret
    ends = time.monotonic() + seconds
    for mutant in found:
        if time.monotonic() >= ends:
            return
        path = COPY / mutant["file"]
        path.write_text(_mutated(path.read_text("utf-8"), mutant), "utf-8")
        is_built = build_core(is_quiet=True)
        lives = is_built and passes(*room.tests, *QUICK_TESTS)
        take_back(mutant["file"])
        if is_built:  # what does not compile says nothing
            name = re.sub(r":\d+:\d+", "", mutant["name"]).partition(": ")[2]
            yield Survivor(mutant["file"], name) if lives else None
    build_core()


def _mutated(text: str, mutant: dict[str, object]) -> str:
    """The source with the span of a mutant replaced."""
    span: dict[str, dict[str, int]] = mutant["span"]  # type: ignore[assignment]
    lines = text.splitlines(keepends=True)

    def offset(at: dict[str, int]) -> int:
        return sum(map(len, lines[: at["line"] - 1])) + at["column"] - 1

    return text[: offset(span["start"])] + str(mutant["replacement"]) + text[offset(span["end"]) :]


def mutant_options(target: argparse.ArgumentParser) -> None:
    """The options of `mutants`."""
    target.add_argument("--minutes", type=float, default=10, help="for each room; default: 10")
    target.add_argument("--seed", type=int, default=1, help="of the draw")
