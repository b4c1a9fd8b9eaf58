"""What is released: wheels, the sdist, the notes."""

import argparse
import re
import shutil
import tempfile
from pathlib import Path

from tasks.steps import (
    BIN,
    CARGO_TOML,
    PYTHON,
    ROOT,
    StepError,
    host_target,
    listed,
    make_venv,
    pip,
    require_cargo,
    requirements,
    run,
    say,
)

SMOKE = "import tokenctx; print(tokenctx.count_tokens('hello world', encoding='o200k_base'))"


def wheel(options: argparse.Namespace) -> None:
    """Build dist/*.whl as released, for --target or this machine, and count with it if it can."""
    require_cargo()
    make_venv()
    pip("install maturin, zig", PYTHON, *requirements("build-system"), *listed("wheels"))
    target, host = options.target or host_target(), host_target()
    flags: tuple[str | Path, ...]
    flags = ("--release", "--locked", "--interpreter", PYTHON, "--target", target)
    linux = ("--zig", "--compatibility", "manylinux2014" if "gnu" in target else "musllinux_1_2")
    flags += linux if "linux" in target else ()
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    words = (PYTHON, "-m", "maturin", "build", *flags, "--out", ROOT / "dist")
    run(f"build the wheel for {target}", *words, advice="maturin", quiet=True)
    [built] = (ROOT / "dist").glob("*.whl")
    if target == host:
        try_out(built)
    else:
        say(f"{built.name} is for another machine: it was not tried")


def sdist(_: argparse.Namespace) -> None:
    """Build dist/*.tar.gz, make a wheel of it in a throw-away environment and count with that."""
    require_cargo()
    make_venv()
    pip("install maturin", PYTHON, *requirements("build-system"))
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run("build the sdist", PYTHON, "-m", "maturin", "sdist", "--out", ROOT / "dist", quiet=True)
    [built] = (ROOT / "dist").glob("*.tar.gz")
    try_out(built)


def try_out(built: Path) -> None:
    """Install `built` in a throw-away environment and count with it."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder, BIN.name, PYTHON.name)
        run("make a fresh environment", PYTHON, "-m", "venv", folder, advice="venv", quiet=True)
        pip(f"install {built.name}", fresh, built)
        run("count with it", fresh, "-I", "-W", "error", "-c", SMOKE)


def release(options: argparse.Namespace) -> None:
    """Check that --tag is the version of Cargo.toml and CHANGELOG.md; write dist/notes.md."""
    [version] = re.findall(r'^version = "(.+)"', CARGO_TOML, re.MULTILINE)
    if options.tag != f"v{version}":
        raise StepError(f"release: the tag is {options.tag!r}, and Cargo.toml says v{version}")
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    found = re.search(rf"^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)", changes, re.M | re.S)
    if found is None:
        raise StepError(f"release: CHANGELOG.md has no heading '## {version}'")
    notes = ROOT / "dist/notes.md"
    notes.parent.mkdir(exist_ok=True)
    notes.write_text(found[1].strip() + "\n", "utf-8")
    say(f"release: {options.tag}, notes of {len(found[1]):,} characters in dist/notes.md")
