"""What is released, tried on the Pythons and machines that one Linux machine can have."""

import argparse
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tasks.build import build, copy_sources
from tasks.environment import built_wheel
from tasks.musl import musl_root
from tasks.packages import TEN_LINES, TEST_TOOLS, add_target, inspect, try_out
from tasks.roots import ROOTS, emulated, inside, require, unpacked
from tasks.steps import (
    BIN,
    FAST,
    PYTHON,
    ROOT,
    SAMPLE,
    StepError,
    host_target,
    if_possible,
    listed,
    make_venv,
    pip,
    require_cargo,
    requirements,
    run,
    say,
    test_files,
)

NEWEST = ("sid", "python3.14", "python3.15")  # Debian's suite with the newest Pythons
STABLE = ("bookworm", "python3.11")
ARM = "aarch64-unknown-linux-gnu"
MUSL = "x86_64-unknown-linux-musl"
# The Python tests that need no framework and no server, and are quick under qemu.
TESTS = ("import", "recorded", "usage", "vectors")
BUILT = (ARM, "aarch64-unknown-linux-musl", "x86_64-pc-windows-gnu")  # by --nightly, as released
MAC = "aarch64-apple-darwin"


def wheels(options: argparse.Namespace) -> None:
    """Install the wheel on every Python here and in roots without a compiler; --nightly: others."""
    require_cargo()
    make_venv()
    stages = (on_every_python, in_a_slim_root, on_new_pythons)
    machines = (on_arm, rust_on_arm, exact_on_arm, on_musl, rust_on_musl, every_target, twice)
    for stage in (*stages, *(machines if options.nightly else ())):
        say(f"== {(stage.__doc__ or '').splitlines()[0]}")
        if_possible(stage)


def released(target: str = "") -> Path:
    """The wheel as released for `target`, or for this machine."""
    return built_wheel(FAST, "" if target == host_target() else target)


def sample(target: str) -> Path:
    """A wheel for `target` by a quicker profile, audited."""
    add_target(target)
    wheel = build(ROOT / "target/samples" / target, SAMPLE, target)
    inspect(wheel, target)
    return wheel


def interpreters() -> dict[str, Path]:
    """Every CPython from 3.10 on that is on the PATH or that pyenv has, by its version."""
    places = [Path(place) for place in os.environ["PATH"].split(os.pathsep)]
    home = os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv"
    places += sorted(Path(home).glob("versions/*/bin"))
    found: dict[str, Path] = {}
    for path in (path for place in places for path in sorted(place.glob("python3.[0-9][0-9]"))):
        words = (path, "-I", "-c", "import sys; print(*sys.version_info[:3], sep='.')")
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 0:  # pyenv's shims of Pythons that are not chosen fail
            found.setdefault(done.stdout.strip(), path)
    return found


def on_every_python() -> None:
    """The wheel passes its audits, installs on every Python found here, and runs README's lines."""
    wheel = released()
    inspect(wheel, host_target())
    for version, interpreter in interpreters().items():
        try_out(wheel, interpreter, f" of {version}")


def slim(suite: str, architecture: str, wheel: Path, *packages: str) -> Path:
    """A root without a compiler, with the wheel and pip's own wheel in its folder /work."""
    root = unpacked(suite, architecture, *packages)
    fetch = ("-m", "pip", "download", "--quiet", "--no-deps", "--dest", root / "work", "pip")
    run("fetch pip", PYTHON, *fetch, quiet=True)
    for path in (wheel, TEN_LINES, ROOT / "README.md"):
        shutil.copy2(path, root / "work")
    return root


def install(root: Path, wheel: Path, python: str) -> None:
    """Install the wheel in a root as pip does it there, without an index, and use it."""
    [pip_wheel] = (root / "work").glob("pip-*.whl")
    words = ("install", "--quiet", "--no-index", "--root-user-action", "ignore")
    inside(root, f"pip install by {python}", python, f"{pip_wheel.name}/pip", *words, wheel.name)
    inside(root, f"README's lines by {python}", python, "ten_lines.py", "README.md")


def in_a_slim_root() -> None:
    """In a root without a compiler the wheel of this machine installs and runs README's lines."""
    root = slim(STABLE[0], "amd64", released(), STABLE[1])
    install(root, released(), STABLE[1])


def on_new_pythons() -> None:
    """The same on Pythons that are newer than those here, and tests that need no framework."""
    suite, *pythons = NEWEST
    root = slim(suite, "amd64", released(), *pythons)
    for python in pythons:
        install(root, released(), python)
        test_in(root, python, "x86_64")


def on_arm() -> None:
    """The wheel for aarch64 installs in a root for it without a compiler; its Python tests pass."""
    wheel = sample(ARM)
    with emulated("aarch64"):
        root = slim(STABLE[0], "arm64", wheel, STABLE[1])
        install(root, wheel, STABLE[1])
        test_in(root, STABLE[1], "aarch64")


def test_in(root: Path, python: str, machine: str) -> None:
    """Run tests of the wheel in a root; what they need is unpacked from here, as wheels."""
    for name in ("tests", "benches", "licenses", "src/claude", "python/tokenctx/data"):
        ignored = shutil.ignore_patterns("node_modules", "__pycache__")
        shutil.copytree(ROOT / name, root / "work" / name, ignore=ignored, dirs_exist_ok=True)
    shutil.copy2(ROOT / "pyproject.toml", root / "work")
    for name in ("data", "reference"):  # recorded calls, where they are beside the checkout
        if (recorded := ROOT.parent / "shared" / name).is_dir():
            shutil.copytree(recorded, root / "shared" / name, dirs_exist_ok=True)
    version = python.removeprefix("python")
    place = root / f"usr/local/lib/python{version}/dist-packages"
    platforms = [f"--platform=manylinux{tag}_{machine}" for tag in ("2014", "_2_28", "_2_34")]
    flags = (f"--python-version={version}", "--only-binary=:all:", *platforms, *TEST_TOOLS)
    pip(f"install what tests need on {machine}, {version}", PYTHON, "--target", place, *flags)
    words = (python, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider")
    inside(root, f"tests on {machine}, {version}", *words, *test_files(TESTS))


def zig_cargo(
    title: str,
    target: str,
    *words: str,
    flags: tuple[str, ...] = (),
    variables: dict[str, str] | None = None,
) -> None:
    """Run cargo for `target` and the core alone, linked by zig."""
    add_target(target)
    pip("install zig", PYTHON, *requirements("build-system"), *listed("wheels"))
    core = ("--target", target, "--locked", "--no-default-features", *flags)
    run(title, BIN / "cargo-zigbuild", *words, *core, variables=variables)


def lint_arm() -> None:
    """Clippy reads what is compiled for aarch64 only, and finds what x86-64 alone uses."""
    title, words = "clippy, core alone, aarch64", ("clippy", "--quiet", "--all-targets")
    zig_cargo(title, ARM, *words, flags=("--", "-D", "warnings"))


def exact_on_arm() -> None:
    """Counts of o200k_base on aarch64 are those of tiktoken's own aarch64 wheel."""
    root = ROOTS / f"{STABLE[0]}-arm64"
    size = ("--megabytes", "0.2", "--strings", "1000", "--vocabulary-stride", "500")
    words = ("benches/exactness.py", "--encodings", "o200k_base", "--scalar-stride", "100", *size)
    with emulated("aarch64"):
        inside(root, "exactness on aarch64", "env", "PYTHONPATH=tests", STABLE[1], *words)


def arm_libraries() -> Path:
    """A root for aarch64 with the C library: of an earlier stage, or a new one."""
    root = ROOTS / f"{STABLE[0]}-arm64"
    if (root / "lib/ld-linux-aarch64.so.1").exists():
        return root
    return unpacked(STABLE[0], "arm64", "libc6", "libgcc-s1")


def rust_on_arm() -> None:
    """All Rust tests of the core pass on aarch64."""
    require("qemu-aarch64-static")
    runner = f"qemu-aarch64-static -L {arm_libraries()}"
    variables = {"CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER": runner}
    zig_cargo("Rust tests on aarch64", ARM, "test", "--profile", SAMPLE, variables=variables)


def arm_counter() -> tuple[str | Path, ...]:
    """The command that runs `count_file` for aarch64 and tells the instructions of it."""
    require("qemu-aarch64")
    plugin = ROOT / "target/count_instructions.so"
    flags = ("-shared", "-fPIC", "-O2", "-o", plugin)
    run("the plugin", "cc", *flags, ROOT / "benches/count_instructions.c", quiet=True)
    example = ("--example", "count_file")
    zig_cargo("count_file for aarch64", ARM, "build", "--release", flags=example)
    program = ROOT / "target" / ARM / "release/examples/count_file"
    return ("qemu-aarch64", "-L", arm_libraries(), "-plugin", plugin, program)


def on_musl() -> None:
    """In a root of musl and a Python alone, the wheel for musl installs and runs README's lines."""
    add_target(MUSL)
    wheel = released(MUSL)
    inspect(wheel, MUSL)
    root = musl_root(wheel)
    for path in (TEN_LINES, ROOT / "README.md"):
        shutil.copy2(path, root)
    command = ("/python/bin/python3", "-I", "/ten_lines.py", "/README.md")
    run("README's lines with musl", "chroot", root, *command)


def rust_on_musl() -> None:
    """All Rust tests of the core pass with musl, in static programs."""
    zig_cargo("Rust tests with musl", MUSL, "test", "--profile", SAMPLE)


def same_again(options: argparse.Namespace) -> None:
    """Build the wheel, for --target or here, in another folder too: it has the same bytes."""
    twice(options.target or host_target())


def twice(target: str = "") -> None:
    """The wheel of this machine has the same bytes when it is built in another folder."""
    first = released(target)
    with tempfile.TemporaryDirectory() as folder:
        origin = copy_sources(ROOT, Path(folder, "another/place"))
        second = build(Path(folder, "dist"), FAST, target, origin)
        marks = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (first, second)]
        if marks[0] != marks[1]:
            shutil.copy2(second, ROOT / "target" / f"second-{second.name}")
            raise StepError(
                f"{first.name} has other bytes from another folder: target/second-*.whl"
            )
    say(f"{first.name}: the same bytes from two folders, SHA-256 {marks[0]}")


def for_mac() -> None:
    """What is compiled for macOS is read; its linker needs frameworks that only a Mac has."""
    zig_cargo("check for macOS", MAC, "check", "--quiet", flags=("--features", "python"))


def every_target() -> None:
    """The wheels for other machines are built and audited; they are not run here."""
    for_mac()
    require("x86_64-w64-mingw32-gcc")
    for target in BUILT:
        add_target(target)
        inspect(released(target), target)
