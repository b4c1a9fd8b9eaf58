"""A stranger's first five minutes: the wheel alone, in an empty environment and a real terminal.

Developers have everything installed, one namespace for the blocks of a page, and captured output.
Users have none of this, so what they do first is done here as they do it.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tasks.environment import built_wheel, setup
from tasks.steps import (
    BIN,
    CONSTRAINTS,
    EXE,
    PYTHON,
    QUICK,
    ROOT,
    MissingError,
    StepError,
    if_possible,
    run,
    say,
)
from tasks.terminal import has_terminals, piped, shown

COLUMNS = (80, 44)
SCRIPTS = ROOT / "tasks/first_minutes"
PACKAGES = ("fastapi", "uvicorn", "httpx2", "openai", "anthropic", "google-genai")
"""What README tells its reader to install for the gateway, and the vendors' SDKs."""
FILES = {
    "settings.json": '{"limits": {"our-model": 64000}}\n',
    "prompt.txt": "Why is the sky blue?\n",
    "request.json": '{"model": "gpt-4o", "messages": '
    '[{"role": "user", "content": "Why is the sky blue?"}]}\n',
}
DIFFERENT = ("demo", "replay", "context")
"""Commands that show times, or colours in place of letters: their screen is not that of a pipe."""
GOES_ON = "# goes on from the block above"
"""The first line of a block that does not run alone, and says so."""


def stranger(options: argparse.Namespace) -> None:
    """Do what a newcomer does first with the wheel alone: paste, type, look up, connect."""
    if options.wheel:
        wheel = Path(options.wheel)
    else:
        setup(profile=QUICK)
        wheel = built_wheel(QUICK)
    with tempfile.TemporaryDirectory() as place:
        there = Stranger(Path(place), options.python or sys.executable)
        there.install(wheel)
        for check in (there.looks_up, there.pastes, there.types, there.connects):
            say(f"== {(check.__doc__ or '').splitlines()[0]}")
            if_possible(check)
    if there.wrong:
        raise StepError("stranger: " + "\n  ".join(["", *there.wrong]))


class Stranger:
    """Somebody with a Python, a wheel and a terminal, and what went wrong."""

    def __init__(self, place: Path, interpreter: str) -> None:
        self.place = place
        self.wrong: list[str] = []
        self.python = place / "venv" / BIN.name / PYTHON.name
        venv = (interpreter, "-m", "venv", "--without-pip", place / "venv")
        run("make an empty environment", *venv, advice="venv", quiet=True)

    def install(self, *what: str | Path, network: bool = False) -> None:
        flags = ("--constraint", CONSTRAINTS) if network else ("--no-index",)
        pip = (PYTHON, "-m", "pip", "--python", self.python, "install", "--quiet", *flags)
        names = ", ".join(getattr(one, "name", str(one)) for one in what)
        variables = {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        run(f"install {names}", *pip, *what, advice="pip", quiet=True, variables=variables)

    def runs(self, script: Path, *words: str | Path) -> None:
        """Run a script of ours in the environment; what it prints on standard error is wrong."""
        words = (self.python, "-I", "-W", "ignore:tokenctx._core is a debug", script, *words)
        started = time.monotonic()
        done = subprocess.run(words, cwd=self.place, capture_output=True, text=True, check=False)
        print(done.stdout, end="", flush=True)
        lines = done.stderr.strip().splitlines()
        self.wrong += [f"{script.stem}: {line}" for line in lines if done.returncode]
        say(f"{script.stem}: {time.monotonic() - started:.1f} s")

    def looks_up(self) -> None:
        """The price and window of every maker's bare names, by the package alone."""
        self.runs(SCRIPTS / "bare_names.py")

    def pastes(self) -> None:
        """Each block of README and of the pages in a file of its own; the output is as stated."""
        self.install(*PACKAGES, network=True)
        blocks = self.place / "blocks"
        blocks.mkdir()
        for name, source in python_blocks():
            (blocks / name).write_text(source, "utf-8")
        self.runs(SCRIPTS / "pasted.py", blocks)

    def types(self) -> None:
        """Each command of README and docs/commands.md in terminals of 80 and 44 columns."""
        if not has_terminals():
            raise MissingError("this system has no pseudo-terminals")
        named = self.python.with_name(f"tokenctx{EXE}")
        self.install("rich", "typer", "duckdb", "pyarrow", network=True)
        self.wrong += [wrong for line in commands() for wrong in self.typed(named, line)]

    def typed(self, program: Path, line: str) -> Iterator[str]:
        """What is wrong with the screens that a command leaves."""
        folder = self.place / "typed"
        folder.mkdir(exist_ok=True)
        for name, content in self.files().items():
            (folder / name).write_text(content, "utf-8")
        words = [str(program), *shlex.split(line)[1:]]
        for columns in COLUMNS:
            rows, code = shown(words, folder, columns)
            lines, same_code = piped(words, folder, columns)
            broken = [it for it in lines if len(it) > columns and not it.startswith("{")]
            if code or same_code:
                yield f"{line} ({columns} columns): exit code {code}, {same_code} into a pipe"
            elif broken:
                yield f"{line} ({columns} columns): a line is {len(broken[0])} long: {broken[0]!r}"
            elif any("…" in row for row in rows):
                yield f"{line} ({columns} columns): a cell is cut"
            elif words[1] in DIFFERENT:
                continue
            elif rows != wrapped(lines, columns):
                [differs] = [*first_difference(rows, wrapped(lines, columns))][:1]
                yield f"{line} ({columns} columns): the screen has {differs}"

    def files(self) -> dict[str, str]:
        session = ROOT / "python/tokenctx/data/agent-session.json"
        calls = (ROOT / "tests/data/recorded-calls.jsonl").read_text("utf-8")
        return {**FILES, "session.json": session.read_text("utf-8"), "calls.jsonl": calls}

    def connects(self) -> None:
        """One call of each vendor's SDK through README's gateway, whose usage is the provider's."""
        gateway = self.place / "gateway.py"
        blocks = [it for name, it in python_blocks() if name.startswith("README")]
        [block] = [it for it in blocks if "relay" in it]
        gateway.write_text(block, "utf-8")
        self.runs(SCRIPTS / "connected.py", gateway)


def python_blocks() -> Iterator[tuple[str, str]]:
    """A file name and the source of each Python block of README and of the pages."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        found = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
        before = ""
        title = page.relative_to(ROOT).with_suffix("").as_posix().replace("/", "_")
        for number, block in enumerate(found):
            before = before + block if block.startswith(GOES_ON) else block
            yield f"{title}_{number:02}.py", before


def commands() -> list[str]:
    """The commands of README and docs/commands.md that end by themselves."""
    pages = [(ROOT / name).read_text("utf-8") for name in ("README.md", "docs/commands.md")]
    lines = re.findall(
        r"^(tokenctx (?!serve|tells|gate).*?)(?: +#.*)?$", "\n".join(pages), re.MULTILINE
    )
    return [line for line in dict.fromkeys(lines) if ".gz" not in line]


def wrapped(lines: list[str], columns: int) -> list[str]:
    """Lines as a terminal breaks them."""
    rows = [
        line[start : start + columns].rstrip()
        for line in lines
        for start in range(0, max(len(line), 1), columns)
    ]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def first_difference(rows: list[str], expected: list[str]) -> Iterator[str]:
    longest = max(len(rows), len(expected))
    padded = [[*it, *[""] * (longest - len(it))] for it in (rows, expected)]
    for row, other in zip(*padded, strict=True):
        if row != other:
            yield f"{row!r} where a pipe gets {other!r}"


if os.name == "nt":
    COLUMNS = ()  # type: ignore[assignment]
