"""What is released: wheels, the sdist, the notes."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tasks.build import OLDEST_DATE, build, copy_sources, links
from tasks.steps import (
    BIN,
    FAST,
    NETWORK_SECONDS,
    PYTHON,
    ROOT,
    VERSION,
    MissingError,
    StepError,
    host_target,
    listed,
    make_venv,
    pip,
    python,
    require_cargo,
    requirements,
    run,
    say,
    test_files,
)

TEN_LINES = ROOT / "tasks/ten_lines.py"
DIST = ROOT / "dist"
ADDRESSES = ("Repository", "Documentation")
# What tests that need no framework and no server need, and those that an unpacked sdist runs.
TEST_TOOLS = (
    *("blake3", "httpx", "httpx2", "hypothesis", "pytest", "pytest-benchmark", "pytest-randomly"),
    *("regex", "tiktoken"),
)
SDIST_TESTS = ("import", "packaging", "vectors", "usage")
NEEDED = """
import sys
from elftools.elf.elffile import ELFFile
with open(sys.argv[1], "rb") as file:
    dynamic = ELFFile(file).get_section_by_name(".dynamic")
    print(*(tag.needed for tag in dynamic.iter_tags("DT_NEEDED")))
"""
TRAILS = re.compile(rb"/(?:root|home|Users|tmp|github)/[\w./-]+|registry/src")


def wheel(options: argparse.Namespace) -> None:
    """Build dist/*.whl as released, for --target or this machine, check it and count with it."""
    require_cargo()
    make_venv()
    target, host = options.target or host_target(), host_target()
    add_target(target)
    built = build(DIST, FAST, target)
    inspect(built, target)
    if target == host:
        try_out(built)
    else:
        say(f"{built.name} is for another machine: it was not tried")


def add_target(target: str) -> None:
    """Install the standard library of Rust for `target`, if it is not there."""
    there = ("rustup", "target", "list", "--installed")
    if target == host_target() or target in subprocess.check_output(there, text=True).split():
        return
    try:
        words = ("rustup", "target", "add", target)
        run(f"rustup target add {target}", *words, quiet=True, seconds=NETWORK_SECONDS)
    except StepError as error:
        raise MissingError(f"the standard library of Rust for {target}: {error}") from None


def inspect(built: Path, target: str) -> None:
    """The wheel renders on an index, keeps to the stable ABI, and runs where its name says."""
    pip("install what wheels lists", PYTHON, *listed("wheels"))
    python("twine", "-m", "twine", "check", "--strict", built)
    python("abi3audit", "-m", "abi3audit", "--strict", built)
    if "linux" in target:
        audit_tag(built)
    no_trails(built)
    is_small(built)


def is_small(built: Path) -> None:
    """The wheel and what it unpacks to are within their limits."""
    with zipfile.ZipFile(built) as wheel:
        unpacked = sum(member.file_size for member in wheel.infolist())
    for what, size, limit in (("is", built.stat().st_size, 16), ("unpacks to", unpacked, 26)):
        megabytes = f"{built.name} {what} {size / 1e6:.1f} MB"
        if size > limit * 1_000_000:
            raise StepError(f"{megabytes}, and {limit} are its limit")
        say(megabytes)


def audit_tag(built: Path) -> None:
    """The wheel needs nothing of the system that its platform tag does not promise."""
    if "musllinux" in built.name:  # auditwheel would look for musl's own library on this machine
        with zipfile.ZipFile(built) as wheel, tempfile.TemporaryDirectory() as folder:
            [name] = [name for name in wheel.namelist() if name.endswith(".so")]
            look = (PYTHON, "-c", NEEDED, wheel.extract(name, folder))
            needed = subprocess.check_output(look, text=True).split()
        if needed != ["libc.so"]:
            raise StepError(f"{built.name} needs {needed}, and musl has libc.so alone")
        say(f"{built.name} needs libc.so alone")
        return
    words = (PYTHON, "-m", "auditwheel", "show", built)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    tag = built.stem.split("-")[-1].split(".")[-1]
    if f'following platform tag: "{tag}"' not in " ".join(done.stdout.split()):
        raise StepError(f"auditwheel does not find {tag}: {done.stdout}{done.stderr}")
    say(f"auditwheel: {tag}")


def no_trails(built: Path) -> None:
    """Nothing in the wheel names a folder of the machine that has built it."""
    with zipfile.ZipFile(built) as wheel:
        found = [(name, TRAILS.search(wheel.read(name))) for name in wheel.namelist()]
    named = [f"{name}: {hit[0].decode()}" for name, hit in found if hit]
    if named:
        raise StepError(f"{built.name} names folders of this machine: {'; '.join(named)}")
    say(f"{built.name} names no folder of this machine")


def try_out(built: Path, interpreter: str | Path = PYTHON, about: str = "") -> None:
    """Install `built` in a throw-away environment of an interpreter, and run README's ten lines."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder, BIN.name, PYTHON.name)
        words = (interpreter, "-m", "venv", "--without-pip", folder)
        run(f"make a fresh environment{about}", *words, advice="venv", quiet=True)
        install = (PYTHON, "-m", "pip", "--python", fresh, "install", "--quiet", "--no-index")
        run(f"install {built.name}", *install, built, quiet=True)
        run("README's lines", fresh, "-I", "-W", "error", TEN_LINES, ROOT / "README.md")


def sdist(options: argparse.Namespace) -> None:
    """Build dist/*.tar.gz; unpacked, without network, it is built, installed and tested."""
    require_cargo()
    make_venv()
    pip("install maturin", PYTHON, *requirements("build-system"))
    shutil.rmtree(DIST, ignore_errors=True)
    command = (PYTHON, "-m", "maturin", "sdist", "--out", DIST)
    variables = {"SOURCE_DATE_EPOCH": OLDEST_DATE}
    source = copy_sources(ROOT)
    run("build the sdist", *command, folder=source, variables=variables, quiet=True)
    [built] = DIST.glob("*.tar.gz")
    has_all_that_is_tracked(built)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(built) as archive:
            archive.extractall(folder, filter="data")
        [tree] = folder.glob("tokenctx-*")
        fresh = folder / "venv" / BIN.name / PYTHON.name
        run("make a fresh environment", PYTHON, "-m", "venv", folder / "venv", quiet=True)
        pip("install what tests need", fresh, *requirements("build-system"), *TEST_TOOLS)
        run("fetch crates", "cargo", "fetch", "--locked", folder=tree, quiet=True)
        profile = f"build-args=--profile {options.profile}"
        offline: tuple[str | Path, ...] = (*without_network(), fresh, "-m")
        install: tuple[str | Path, ...] = (
            "pip",
            "install",
            "--no-index",
            "--no-build-isolation",
            "-C",
            profile,
            tree,
        )
        variables = {"CARGO_NET_OFFLINE": "true"}
        run("install it offline", *offline, *install, variables=variables, quiet=True)
        run("test it offline", *offline, "pytest", "-q", *test_files(SDIST_TESTS), folder=tree)
    say(f"{built.name} was built, installed and tested without network")


def has_all_that_is_tracked(built: Path) -> None:
    """The sdist has every file that git tracks, but for the workflows, and no other."""
    if not (ROOT / ".git").exists():
        return
    words = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
    tracked = set(subprocess.check_output(words, cwd=ROOT, text=True).splitlines())
    tracked = {name for name in tracked if (ROOT / name).exists() and not name.startswith(".")}
    with tarfile.open(built) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()} - {"PKG-INFO"}
    if tracked != packed:
        lacks, other = sorted(tracked - packed), sorted(packed - tracked)
        raise StepError(f"{built.name} lacks {lacks[:5]} and has besides {other[:5]}")
    say(f"{built.name} has the {len(packed)} files that git tracks")


def crate(_: argparse.Namespace) -> None:
    """Package the crate, build it from the package alone, and its pages; a warning fails."""
    require_cargo()
    source = copy_sources(ROOT)
    target = ("--target-dir", str(ROOT / "target"))
    run("cargo package", "cargo", "package", "--locked", *target, folder=source, quiet=True)
    denied = {"RUSTDOCFLAGS": "-D warnings -A rustdoc::private_intra_doc_links"}
    words = ("cargo", "doc", "--locked", "--no-deps", *target)
    run("cargo doc", *words, folder=source, variables=denied, quiet=True)
    say("the crate was built from its package, and its pages without a warning")


def without_network() -> tuple[str, ...]:
    """Words before a command that run it where no network is, if we may."""
    if sys.platform == "linux" and os.geteuid() == 0:
        return ("unshare", "--net")
    say("the network cannot be taken away here, which takes Linux and root")
    return ()


def release(options: argparse.Namespace) -> None:
    """Check --tag against Cargo.toml and CHANGELOG.md, and the addresses; write dist/notes.md."""
    if options.tag != f"v{VERSION}":
        raise StepError(f"release: the tag is {options.tag!r}, and Cargo.toml says v{VERSION}")
    missing = [name for name in ADDRESSES if name not in links()]
    if missing:
        raise StepError(f"release: [project.urls] of pyproject.toml lacks {', '.join(missing)}")
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    found = re.search(rf"^## {re.escape(VERSION)}\b.*?\n(.*?)(?=^## |\Z)", changes, re.M | re.S)
    if found is None:
        raise StepError(f"release: CHANGELOG.md has no heading '## {VERSION}'")
    notes = DIST / "notes.md"
    notes.parent.mkdir(exist_ok=True)
    notes.write_text(found[1].strip() + "\n", "utf-8")
    say(f"release: {options.tag}, notes of {len(found[1]):,} characters in dist/notes.md")
