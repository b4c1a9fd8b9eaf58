"""Faults that are put in, each to be caught by the check that should."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tasks.environment import setup
from tasks.guarantees import RUNNER
from tasks.steps import PYTHON, QUICK, ROOT, StepError, say

FAULTS = ROOT / "tests/data/seeded_faults.json"
COPY = ROOT / "target/faults"
BUILD = ROOT / "target/faults-build"
CORE = Path("python/tokenctx/_core.abi3.so")


def faults() -> list[dict[str, Any]]:
    """The rows of the table, in order."""
    return list(json.loads(FAULTS.read_text("utf-8")))


def seeded_faults(options: argparse.Namespace) -> None:
    """Put each fault of tests/data/seeded_faults.json into a copy; its check must fail."""
    setup("cli", "test", profile=QUICK)
    wanted = [row for row in faults() if not options.only or options.only in row["fault"]]
    copy_tree()
    build_core()
    missed = []
    for row in wanted:
        say(f"{row['fault']}: {row['check']}")
        if not passes(row["check"]):
            raise StepError(f"seeded_faults: {row['check']} fails without a fault.")
        start = time.monotonic()
        _put(row)
        is_core = row["file"].startswith("src/")
        is_caught = (is_core and not build_core()) or not passes(row["check"])
        seconds = time.monotonic() - start
        say(f"{row['fault']}: {'caught' if is_caught else 'NOT CAUGHT'} after {seconds:.0f} s")
        if not is_caught:
            missed.append(row["fault"])
        take_back(row["file"])
        if is_core:
            build_core()
    if missed:
        raise StepError(f"seeded_faults: not caught: {'; '.join(missed)}.")
    say(f"{len(wanted)} of {len(wanted)} seeded faults caught")


def changed(text: str, row: dict[str, Any]) -> str:
    """The text of a file with the fault in it.

    Raises:
        StepError: The table names what does not stand there once.
    """
    count = text.count(row["old"])
    if count != 1:
        raise StepError(
            f"seeded_faults: {row['old']!r} stands {count} times in {row['file']}; it must stand "
            "once. Mend tests/data/seeded_faults.json."
        )
    return text.replace(row["old"], row["new"])


def copy_tree() -> None:
    """Copy what git knows, as it is in the working tree; what is there already stays."""
    names = subprocess.check_output(("git", "ls-files", "-z"), cwd=ROOT, text=True).split("\0")
    for name in filter(None, names):
        source, target = ROOT / name, COPY / name
        target.parent.mkdir(parents=True, exist_ok=True)
        is_same = target.exists() and target.read_bytes() == source.read_bytes()
        if source.exists() and not is_same:
            shutil.copyfile(source, target)


def _put(row: dict[str, Any]) -> None:
    path = COPY / row["file"]
    if row["new"] is None:
        path.unlink()
    else:
        path.write_text(changed(path.read_text("utf-8"), row), "utf-8")


def take_back(name: str) -> None:
    """Copy one file of the tree anew."""
    shutil.copyfile(ROOT / name, COPY / name)


def build_core(*, is_quiet: bool = False) -> bool:
    """Build the core of the copy; true if it compiles."""
    words = ("cargo", "build", "--quiet", "--locked", "--lib", "--features", "python")
    variables = {**os.environ, "CARGO_TARGET_DIR": str(BUILD), "PYO3_PYTHON": str(PYTHON)}
    errors = subprocess.DEVNULL if is_quiet else None
    done = subprocess.run(words, cwd=COPY, env=variables, stderr=errors, check=False)
    if done.returncode:
        return False
    found = (BUILD / "debug").glob("libtokenctx.*")
    [library] = (it for it in found if it.suffix in {".so", ".dylib"})
    shutil.copyfile(library, COPY / CORE)
    return True


def passes(*checks: str) -> bool:
    """True if a command of dev.py, or these tests with words for pytest, pass in the copy."""
    if checks[0].startswith(RUNNER):
        words = (sys.executable, "dev.py", *checks[0].removeprefix(RUNNER).split())
    else:
        words = (str(PYTHON), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *checks)
    paths = os.pathsep.join(str(COPY / each) for each in ("python", "tests/rigs"))
    variables = {"PYTHONPATH": paths, "CARGO_TARGET_DIR": str(BUILD)}
    done = subprocess.run(
        words, cwd=COPY, env={**os.environ, **variables}, capture_output=True, check=False
    )
    return done.returncode == 0


def fault_options(target: argparse.ArgumentParser) -> None:
    """The options of `seeded_faults`."""
    target.add_argument("--only", default="", help="faults that hold this text")
