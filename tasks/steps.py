"""What every target of dev.py is made of: steps, the environment, the package as installed."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
EXE = ".exe" if os.name == "nt" else ""
PYTHON = BIN / f"python{EXE}"
STAMP = VENV / "tokenctx-stamp.json"
# Profiles of Cargo.toml: soon built; what users install; that for machines that are not here.
QUICK, FAST, SAMPLE = "dev", "release", "sample"
PYPROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / "constraints.txt"
LOG_PERIOD_SECONDS = 20
CARGO_TOML = (ROOT / "Cargo.toml").read_text("utf-8")
[VERSION] = re.findall(r'^version = "(.+)"', CARGO_TOML, re.MULTILINE)
[LEAST_RUST] = re.findall(r'^rust-version = "(.+)"', CARGO_TOML, re.MULTILINE)
ADVICE = {  # what to do when a program is missing or fails
    "cargo": f"Install Rust {LEAST_RUST} or later from https://rustup.rs and open a new shell.",
    "clippy": "If clippy or rustfmt is missing: rustup component add clippy rustfmt.",
    "maturin": "A compiler error is above; a C linker is needed too (gcc, Xcode or MSVC tools).",
    "pip": "pip must reach a package index.",
    "venv": "On Debian and Ubuntu: apt install python3-venv.",
}


class StepError(Exception):
    """A step failed; the message says which, why, and the way out."""


NETWORK_SECONDS = 300
"""What is fetched comes sooner, or not at all."""
DEMAND = "TOKENCTX_DEMANDS_ALL"
"""Set where a machine must lack nothing, as on the public host."""


class MissingError(StepError):
    """A step needs what this machine lacks and cannot have."""


def test_files(names: Iterable[str]) -> list[str]:
    """The paths of the test files of these names, each in the room of what it tests."""
    found = [next((ROOT / "tests").glob(f"*/test_{name}.py")) for name in names]
    return [path.relative_to(ROOT).as_posix() for path in found]


def say(text: str) -> None:
    print(f"[dev] {text}", flush=True)


def progress(title: str, start: float, done: threading.Event) -> None:
    """Count the seconds of a quiet step: in place on a terminal, else a line now and then."""
    period, end = (1, "\r") if sys.stdout.isatty() else (LOG_PERIOD_SECONDS, " so far\n")
    while not done.wait(period):
        print(f"[dev] {title}: {time.monotonic() - start:.0f} s", end=end, flush=True)


def run(
    title: str,
    *words: str | Path,
    advice: str = "",
    quiet: bool = False,
    imports: str = "",
    folder: Path = ROOT,
    seconds: float | None = None,
    variables: dict[str, str] | None = None,
) -> None:
    """Run one step and say how long it took; a quiet step shows its output only if it fails.

    Python finds the modules of the folder `imports`, and the package as it is installed.
    """
    start, done = time.monotonic(), threading.Event()
    environment = {**os.environ, "PYO3_PYTHON": str(PYTHON)}
    environment["PATH"] = f"{BIN}{os.pathsep}{environment['PATH']}"  # maturin looks for zig there
    environment.pop("PYTHONPATH", None)  # the installed package is what runs, not the sources
    environment |= variables or {}
    if imports:
        environment["PYTHONPATH"] = imports
    if quiet:
        threading.Thread(target=progress, args=(title, start, done), daemon=True).start()
    else:
        say("$ " + " ".join(str(word).replace(f"{ROOT}{os.sep}", "") for word in words))
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        out, errors = (log, subprocess.STDOUT) if quiet else (None, None)
        try:
            code = subprocess.call(
                words, cwd=folder, env=environment, stdout=out, stderr=errors, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            raise StepError(f"{title}: no end after {seconds:g} s.") from None
        except FileNotFoundError:
            raise StepError(f"{title}: {words[0]} is missing. {ADVICE.get(advice, '')}") from None
        finally:
            done.set()
        if code:
            log.seek(0)
            sys.stderr.write("".join(log.readlines()[-80:]))
            raise StepError(f"{title}: exit code {code}. {ADVICE.get(advice, '')}")
    say(f"{title}: {time.monotonic() - start:.1f} s")


def if_possible(stage: Callable[[], None]) -> None:
    """Run a stage; where this machine lacks something, say so, and fail only if all is demanded."""
    try:
        stage()
    except MissingError as error:
        if os.environ.get(DEMAND):
            raise
        say(f"NOT RUN: {error}")


def python(title: str, *words: str | Path) -> None:
    run(title, PYTHON, *words)


def require_cargo() -> None:
    if not shutil.which("cargo"):
        raise StepError(f"cargo is missing. {ADVICE['cargo']}")


def cargo(title: str, *words: str) -> None:
    require_cargo()
    run(title, "cargo", *words, advice="clippy")


def pip(title: str, python: Path, *words: str | Path) -> None:
    """Install by pip, in the versions of constraints.txt."""
    head = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(title, *head, "--constraint", CONSTRAINTS, *words, advice="pip", quiet=True)


def digest(paths: list[Path]) -> str:
    """SHA-256 over the names and contents of `paths`."""
    whole = hashlib.sha256()
    for path in sorted(paths):
        content = path.read_bytes()
        whole.update(f"{path.relative_to(ROOT).as_posix()} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def requirements(section: str) -> list[str]:
    """The requirements that stand in a section of pyproject.toml; sorted, each once."""
    found = re.search(rf"^\[{section}\]\n(.*?)^\[", PYPROJECT.read_text("utf-8"), re.M | re.S)
    lists = re.findall(r"^[\w-]+ = (\[.*?\])$", found[1] if found else "", re.M | re.S)
    return sorted({text for one in lists for text in re.findall(r'"([^"]+)"', one)})


def all_requirements() -> list[str]:
    """What the build, the extras and the groups require."""
    sections = ("build-system", r"project\.optional-dependencies", "dependency-groups")
    return sorted({text for section in sections for text in requirements(section)})


def listed(name: str) -> list[str]:
    """The requirements of one extra or dependency group."""
    [found] = re.findall(rf"^{name} = (\[.*?\])$", PYPROJECT.read_text("utf-8"), re.M | re.S)
    return re.findall(r'"([^"]+)"', found)


def host_target() -> str:
    """The target that Rust builds for here, `x86_64-unknown-linux-gnu`."""
    return subprocess.check_output(("rustc", "-vV"), text=True).split("host: ")[1].split()[0]


def locked_heading() -> str:
    """The first line of constraints.txt, which changes when a requirement does."""
    mark = hashlib.sha256("\n".join(all_requirements()).encode()).hexdigest()
    return f"# Made by `python3 dev.py lock` from requirements with SHA-256 {mark}\n"


def save(stamp: dict[str, str]) -> dict[str, str]:
    STAMP.write_text(json.dumps(stamp, indent=1), "utf-8")
    return stamp


def make_venv() -> dict[str, str]:
    """The stamp of `.venv`, made anew if it is not of the Python that runs this file."""
    origin = f"{sys.version} in {sys.base_prefix}"
    stamp = json.loads(STAMP.read_text("utf-8")) if STAMP.exists() else {}
    if stamp.get("python") == origin and PYTHON.exists():
        return stamp
    shutil.rmtree(VENV, ignore_errors=True)
    run("make .venv", sys.executable, "-m", "venv", VENV, advice="venv", quiet=True)
    return save({"python": origin})
