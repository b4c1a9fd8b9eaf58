"""A Python with musl, built from Debian sources, alone in a root with a wheel, as in Alpine."""

import os
import shutil
import subprocess
from pathlib import Path

from tasks.steps import PYTHON, ROOT, MissingError, run

FOLDER = ROOT / "target" / "musl"
SOURCE_PACKAGES = ("python3.11", "zlib")  # of the Debian release that the nightly run has
LOADER = Path("/lib/ld-musl-x86_64.so.1")
# The compiler of musl-tools, by its own headers and libraries only, and as what it compiles for.
COMPILER = """#!/bin/sh
[ "$1" = --print-multiarch ] && { echo x86_64-linux-musl; exit; }
for word; do
  shift
  case "$word" in -I/usr/*|-L/usr/*) ;; *) set -- "$@" "$word" ;; esac
done
exec musl-gcc "$@"
"""


def musl_root(wheel: Path) -> Path:
    """A root that holds musl's loader, a Python, the wheel unpacked by pip, and nothing else."""
    prefix = musl_python()
    root = FOLDER / "root"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(prefix, root / "python", symlinks=True)
    (root / "lib").mkdir()
    shutil.copy2(LOADER.resolve(), root / "lib" / LOADER.name)
    [packages] = (root / "python/lib").glob("python3.*/site-packages")
    version = packages.parent.name.removeprefix("python")
    tags = ("--platform=musllinux_1_2_x86_64", f"--python-version={version}")
    words = ("--no-index", "--only-binary=:all:", *tags, "--target", packages, wheel)
    run("pip install for musl", PYTHON, "-m", "pip", "install", "--quiet", *words, quiet=True)
    return root


def musl_python() -> Path:
    """The folder of a CPython that was built with musl, made on first use."""
    prefix = FOLDER / "python"
    if (prefix / "bin/python3").exists():
        return prefix
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise MissingError("a Python with musl is built from Debian's sources, as root")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    words = ("apt-get", "install", "--yes", "--no-install-recommends", "musl-tools", "make")
    run("install musl-tools", *words, quiet=True)
    compiler = FOLDER / "cc"
    compiler.write_text(COMPILER, "utf-8")
    compiler.chmod(0o755)
    python, zlib = (sources(name) for name in SOURCE_PACKAGES)
    flags = {"CC": str(compiler), "CFLAGS": "-fPIC -O1"}
    run("configure zlib", "sh", "./configure", "--static", folder=zlib, variables=flags, quiet=True)
    run("make zlib", "make", "libz.a", folder=zlib, quiet=True)
    found = (f"CPPFLAGS=-I{zlib}", f"LDFLAGS=-L{zlib}", f"CC={compiler}", "CFLAGS=-O1")
    options = (f"--prefix={prefix}", "--without-ensurepip", "--disable-test-modules", *found)
    run("configure Python", "./configure", *options, folder=python, quiet=True)
    run("make Python", "make", f"-j{os.cpu_count()}", folder=python, quiet=True)
    run("install Python", "make", "install", folder=python, quiet=True)
    return prefix


def sources(package: str) -> Path:
    """The unpacked sources of a Debian package, without Debian's changes."""
    parts = FOLDER / "parts"
    if not parts.exists():
        parts.mkdir()
        for path in Path("/etc/apt/sources.list.d").glob("*.sources"):
            text = path.read_text("utf-8").replace("Types: deb\n", "Types: deb-src\n")
            (parts / path.name).write_text(text, "utf-8")
        (FOLDER / "lists").mkdir()
    places = ("Dir::Etc::SourceList=/dev/null", f"Dir::Etc::SourceParts={parts}")
    options = [f"-o{place}" for place in (*places, f"Dir::State::Lists={FOLDER / 'lists'}")]
    folder = FOLDER / package
    folder.mkdir()
    run("apt-get update, sources", "apt-get", *options, "update", quiet=True)
    fetch = ("apt-get", *options, "source", "--tar-only", package)
    run(f"fetch {package}", *fetch, folder=folder, quiet=True)
    [archive] = folder.glob("*.orig.tar.*")
    subprocess.run(("tar", "xf", archive), cwd=folder, check=True)
    return next(path for path in folder.iterdir() if path.is_dir())
