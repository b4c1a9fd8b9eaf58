"""Checks that run at night: schedules of threads, sanitizers, mutants, what is built in."""

import argparse
import os
import shutil
import subprocess
from pathlib import Path

from tasks.environment import setup
from tasks.steps import (
    CONSTRAINTS,
    PYTHON,
    QUICK,
    ROOT,
    MissingError,
    StepError,
    host_target,
    if_possible,
    pip,
    require_cargo,
    run,
)

TOOLS = ROOT / "target/tools"
DENY, MUTANTS = ("cargo-deny", "0.20.2"), ("cargo-mutants", "27.1.0")
ADVISORIES = "TOKENCTX_ADVISORIES"
"""Set where RustSec's database lies in ~/.cargo/advisory-dbs and cannot be fetched."""
OF_STD = frozenset({"thread", "memory"})
"""Sanitizers that must see into the standard library, which is then built, too."""
ALONE = ("--lib", "--locked", "--no-default-features")


def threads(_: argparse.Namespace) -> None:
    """Try the store of known totals under drawn schedules of threads, by shuttle."""
    require_cargo()
    words = ("cargo", "test", *ALONE, "--target-dir", ROOT / "target/shuttle", "known::threads")
    run("threads", *words, variables={"RUSTFLAGS": "--cfg shuttle"})


def sanitizers(options: argparse.Namespace) -> None:
    """Run the Rust tests of the core under AddressSanitizer and, where it can be had, others."""
    require_cargo()
    for name in options.words or ("address",):
        if_possible(lambda name=name: _sanitized(name))  # type: ignore[misc]


def _sanitized(name: str) -> None:
    if "nightly" not in subprocess.check_output(("rustup", "toolchain", "list"), text=True):
        raise MissingError(f"sanitizers, {name}: rustup toolchain install nightly")
    home = subprocess.check_output(("rustc", "+nightly", "--print", "sysroot"), text=True).strip()
    own_std = ("-Zbuild-std",) if name in OF_STD else ()
    if own_std and not Path(home, "lib/rustlib/src/rust/library/std").exists():
        raise MissingError(f"sanitizers, {name}: rustup component add rust-src --toolchain nightly")
    words = ("cargo", "+nightly", "test", *own_std, *ALONE, "--target", host_target())
    where = ("--target-dir", ROOT / f"target/sanitized-{name}")
    # The tables of a process live as long as it does: `Box::leak`. What grows is for `study soak`.
    variables = {"RUSTFLAGS": f"-Zsanitizer={name}", "ASAN_OPTIONS": "detect_leaks=0"}
    run(f"sanitizers, {name}", *words, *where, variables=variables)


def supply_chain(_: argparse.Namespace) -> None:
    """Check licences, sources, bans and advisories of crates and of Python packages."""
    deny = tool(*DENY)
    words = ("--all-features", "check", "--hide-inclusion-graph")
    run("crates", deny, *words, "licenses", "bans", "sources")
    other = ("--manifest-path", ROOT / "fuzz/Cargo.toml")
    run("crates of the fuzz targets", deny, *other, *words, "bans", "sources")
    if_possible(_advisories)
    if_possible(_python_advisories)


def _advisories() -> None:
    is_there = bool(os.environ.get(ADVISORIES))
    known = ("--disable-fetch",) if is_there else ()
    try:
        words = (tool(*DENY), "check", "advisories", *known)
        run("advisories of crates", *words, quiet=True, seconds=300)
    except StepError as error:
        raise MissingError(
            "advisories of crates: no database can be fetched, or it is older than 30 days, or one "
            f"holds (the lines above say which). {ADVISORIES}=1 reads the one that is there."
        ) from error


def _python_advisories() -> None:
    setup("test", profile=QUICK)
    pip("install pip-audit", PYTHON, "pip-audit>=2.10")
    words = ("-m", "pip_audit", "--disable-pip", "--no-deps", "--strict", "-r", CONSTRAINTS)
    try:
        run("advisories of Python packages", PYTHON, *words, quiet=True, seconds=300)
    except StepError as error:
        raise MissingError(
            "advisories of Python packages: one holds, or the service of PyPI cannot be reached "
            "from here (the lines above say which)."
        ) from error


def tool(name: str, version: str) -> Path:
    """The path of a program of crates.io, which is built at first; minutes."""
    path = TOOLS / "bin" / name
    found = shutil.which(name)
    if found and version in subprocess.check_output((found, "--version"), text=True):
        return Path(found)
    if not path.exists():
        require_cargo()
        words = ("cargo", "install", "--locked", "--root", TOOLS, f"{name}@{version}")
        run(f"install {name}", *words, quiet=True)
    return path
