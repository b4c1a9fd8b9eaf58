"""Instructions per byte of the engine, counted by valgrind: the same on an idle and a busy machine.

    python benches/instructions.py [--record] [--floors benches/instructions.toml]

Fails when a corpus takes more than 2 % more than is recorded. valgrind knows no AVX-512: machines
that have it take fewer. And it does not see what waits for memory, which is most of the time of new
text: to ask for memory early may cost instructions and be faster. The texts come from crates that
Cargo.lock pins and from seeded generators, so that every machine has the same ones. Other texts or
another compiler ask for `--record`; without valgrind nothing is checked.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tomli

import adversarial_texts
from conversations import agent_conversation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
RECORD: Final = Path(__file__).with_name("instructions.toml")
ENCODINGS: Final = ("o200k_base", "cl100k_base", "r50k_base")  # the others share their code
CORPUS_BYTES: Final = 200_000
GROWTH: Final = 1.02
CRATES: Final = ("memchr", "regex-syntax", "pyo3", "serde_json", "blake3")
CARGO: Final = ("cargo", "--quiet")


def crate_folders() -> list[Path]:
    """Sources of the pinned crates, as cargo has unpacked them."""
    command = ("cargo", "metadata", "--locked", "--format-version", "1")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    packages = json.loads(done.stdout)["packages"]
    found = {package["name"]: Path(package["manifest_path"]).parent for package in packages}
    return [found[name] for name in CRATES]


def sources() -> Iterator[str]:
    for folder in crate_folders():
        for path in sorted(folder.glob("src/**/*.rs")):
            if "unicode_tables" not in path.parts:
                yield path.read_text("utf-8")


def is_documentation(line: str) -> bool:
    return line.lstrip().startswith(("///", "//!"))


def english() -> str:
    """Documentation comments, without what is fenced as code."""
    lines: list[str] = []
    for text in sources():
        comments = (
            re.sub(r"^\s*//[/!] ?", "", x) for x in text.splitlines() if is_documentation(x)
        )
        prose = re.sub(r"```.*?```", "", "\n".join(comments), flags=re.DOTALL)
        lines += re.findall(r"^[A-Z][^`|]{50,}$", prose, re.MULTILINE)
    return "\n".join(lines)


def code() -> str:
    """Rust without documentation comments, a part of every file."""
    parts: list[str] = []
    for text in sources():
        lines = [line for line in text.splitlines() if not is_documentation(line)]
        parts.append("\n".join(lines)[1_000:6_000])
    return "\n".join(parts)


def json_text() -> str:
    """A request of an agent whose tool results are code."""
    random_ = random.Random(3)
    rows = [
        {
            "id": f"{random_.getrandbits(64):x}",
            "name": name,
            "lines": line,
            "score": random_.random(),
        }
        for line, name in enumerate(dict.fromkeys(re.findall(r"fn (\w+)", code())))
    ]
    body = json.dumps(agent_conversation(60, 60_000))
    return json.dumps(rows, indent=1) + body + json.dumps({"text": english()[:60_000]})


def multilingual() -> str:
    """Made-up words of many scripts, with some that recur."""
    random_ = random.Random(5)
    return adversarial_texts.words_of_scripts(random_, CORPUS_BYTES)


def hostile() -> str:
    """A part of each adversarial generator."""
    part = CORPUS_BYTES // len(adversarial_texts.GENERATORS)
    return "".join(adversarial_texts.make(name, part) for name in adversarial_texts.GENERATORS)


CORPORA: Final[dict[str, Callable[[], str]]] = {
    "english": english,
    "code": code,
    "json": json_text,
    "multilingual": multilingual,
    "hostile": hostile,
}


def clipped(text: str) -> bytes:
    return text.encode()[:CORPUS_BYTES].decode("utf-8", "ignore").encode()


def build() -> Path:
    """The program that counts a file, release profile."""
    flags = ("--release", "--locked", "--no-default-features", "--example", "count_file")
    command = (*CARGO, "build", *flags, "--message-format", "json")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"cargo build failed:\n{done.stderr}")
    messages = (json.loads(line) for line in done.stdout.splitlines())
    return Path(next(m["executable"] for m in messages if m.get("executable")))


def instructions(program: Path, encoding: str, corpus: Path, times: int) -> int:
    """Instructions of a whole process that counts `corpus` so many times."""
    tool = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    command = (*tool, str(program), encoding, str(corpus), str(times))
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if not found:
        raise RuntimeError(f"no count in what valgrind wrote:\n{done.stderr}")
    return int(found[1])


def measure() -> dict[str, Any]:
    """What is recorded: compiler, text hashes, instructions per byte by encoding and corpus."""
    program = build()
    made: dict[str, Any] = {"compiler": compiler(), "corpora": {}}
    with tempfile.TemporaryDirectory() as folder:
        for corpus, write in CORPORA.items():
            content = clipped(write())
            made["corpora"][corpus] = hashlib.sha256(content).hexdigest()[:16]
            path = Path(folder, corpus)
            path.write_bytes(content)
            for encoding in ENCODINGS:
                spent = instructions(program, encoding, path, 1)
                spent -= instructions(program, encoding, path, 0)
                made.setdefault(encoding, {})[corpus] = round(spent / len(content), 2)
    return made


def compiler() -> str:
    command = ("rustc", "--version")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def write_record(path: Path, made: dict[str, Any]) -> None:
    head = path.read_text("utf-8").split("compiler =")[0] if path.exists() else ""
    lines = [f'compiler = "{made["compiler"]}"']
    for table in ("corpora", *ENCODINGS):
        lines += ["", f"[{table}]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in made[table].items()]
    path.write_text(head + "\n".join(lines) + "\n", "utf-8")


def compare(recorded: dict[str, Any], made: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The table and the faults."""
    table = [f"{'instructions per byte':<28}{'now':>10}{'recorded':>10}{'ratio':>8}"]
    faults: list[str] = []
    for corpus in CORPORA:
        if recorded["corpora"].get(corpus) != made["corpora"][corpus]:
            faults.append(f"{corpus}: the text is not the recorded one; look, then --record")
            continue
        for encoding in ENCODINGS:
            now, then = made[encoding][corpus], recorded[encoding][corpus]
            name = f"{encoding} {corpus}"
            table.append(f"{name:<28}{now:>10.2f}{then:>10.2f}{now / then:>8.3f}")
            if now > then * GROWTH:
                faults.append(f"{name}: {now:g} instructions per byte, {then:g} are recorded")
    return table, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--record", action="store_true", help="write what is measured")
    parser.add_argument("--floors", type=Path, default=RECORD)
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        print("valgrind is not installed: instructions are not counted")
        return 0
    made = measure()
    if options.record:
        write_record(options.floors, made)
    recorded = tomli.loads(options.floors.read_text("utf-8"))
    if recorded["compiler"] != made["compiler"]:
        print(f"recorded with {recorded['compiler']}, this is {made['compiler']}: not compared")
        recorded = made
    table, faults = compare(recorded, made)
    print("\n".join([*table, *(f"FAIL {fault}" for fault in faults)]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
