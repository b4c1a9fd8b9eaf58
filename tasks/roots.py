"""Roots of Debian packages without a compiler, in which a wheel is installed as in a slim image."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tasks.steps import NETWORK_SECONDS, ROOT, MissingError, StepError, run, say

ROOTS = ROOT / "target" / "roots"
BINFMT = Path("/proc/sys/fs/binfmt_misc")
CALL = ("/usr/bin/env", "-C", "/work", "PIP_BREAK_SYSTEM_PACKAGES=1", "PYTHONDONTWRITEBYTECODE=1")
TOOLS = {  # what a command is of, in Debian
    "debootstrap": "debootstrap",
    "qemu-aarch64": "qemu-user",  # takes plugins, which the static one does not
    "qemu-aarch64-static": "qemu-user-static",
    "x86_64-w64-mingw32-gcc": "gcc-mingw-w64-x86-64",
}


def require(*programs: str) -> None:
    """Install the programs by apt-get, if they are missing and we may."""
    for name in programs:
        if shutil.which(name):
            continue
        if not shutil.which("apt-get") or os.geteuid() != 0:
            raise MissingError(f"{name} is missing: apt install {TOOLS[name]}")
        words = ("apt-get", "install", "--yes", "--no-install-recommends", TOOLS[name])
        run("apt-get update", "apt-get", "update", quiet=True)
        run(f"install {name}", *words, quiet=True)


def unpacked(suite: str, architecture: str, *packages: str) -> Path:
    """A new root with the packages of a Debian suite unpacked, none of them a compiler."""
    if os.geteuid() != 0:
        raise MissingError("chroot takes root: sudo python3 dev.py ...")
    require("debootstrap")
    folder = ROOTS / f"{suite}-{architecture}"
    shutil.rmtree(folder, ignore_errors=True)
    flags = ("--foreign", "--variant=minbase", f"--arch={architecture}")
    wanted = f"--include={','.join(packages)}"
    # Unpacked is enough, and takes half of the time: nothing is set up, which would run programs.
    words = ("debootstrap", *flags, wanted, suite, folder)
    try:
        run(f"fetch {folder.name}", *words, quiet=True, seconds=NETWORK_SECONDS)
    except StepError as error:
        raise MissingError(f"packages of Debian {suite}: {error}") from None
    for package in sorted((folder / "var/cache/apt/archives").glob("*.deb")):
        subprocess.run(("dpkg", "-x", package, folder), check=True)
    compilers = [name for name in ("cc", "gcc", "rustc") if (folder / "usr/bin" / name).exists()]
    if compilers:
        raise StepError(f"{folder.name} has a compiler: {', '.join(compilers)}")
    (folder / "work").mkdir()
    return folder


@contextlib.contextmanager
def emulated(machine: str) -> Iterator[None]:
    """Programs for `machine` run by qemu, in a root too; the kernel forgets it afterwards."""
    require(f"qemu-{machine}-static")
    entry = BINFMT / f"qemu-{machine}"
    if entry.exists():
        yield
        return
    if not (BINFMT / "register").exists():
        subprocess.run(("mount", "-t", "binfmt_misc", "none", BINFMT), check=False)
    if not (BINFMT / "register").exists():
        raise MissingError("this kernel lets nobody register programs of other machines")
    (BINFMT / "register").write_bytes(Path(f"/usr/lib/binfmt.d/qemu-{machine}.conf").read_bytes())
    say(f"programs for {machine} run by qemu")
    try:
        yield
    finally:
        entry.write_text("-1")


def inside(root: Path, title: str, *words: str) -> None:
    """Run a command in a root, in its folder /work."""
    run(title, "chroot", root, *CALL, *words)
