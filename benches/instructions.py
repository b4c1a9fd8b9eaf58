"""Instructions per byte of the engine, counted by valgrind: the same on an idle and a busy machine.

    python benches/instructions.py [--record] [--required] [--json FILE]

Text is counted, and whole calls are made: estimates and records by the core alone, readers and
conversions by the installed package. Fails when one takes more than 2 % more than is recorded.
valgrind knows no AVX-512: machines that have it take fewer. And it does not see what waits for
memory, which is most of the time of new text: to ask for memory early may cost instructions and be
faster. The texts come from crates that Cargo.lock pins and from seeded generators, so that every
machine has the same ones. Other texts or another compiler ask for `--record`, and what Python makes
is compared with the same build of Python only. Without valgrind nothing is checked, which fails
with `--required` or where CI is true.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
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
from conversations import agent_conversation, encoded, with_new_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
RECORD: Final = Path(__file__).with_name("instructions.toml")
ENCODINGS: Final = ("o200k_base", "cl100k_base", "r50k_base")  # the others share their code
CORPUS_BYTES: Final = 200_000
GROWTH: Final = 1.02
CRATES: Final = ("memchr", "regex-syntax", "pyo3", "serde_json", "blake3")
CARGO: Final = ("cargo", "--quiet")
CORE_CALLS: Final = ("estimate", "next_turn", "record", "scale_stream")
PYTHON_CALLS: Final = ("read_stream", "convert", "convert_parts")
TABLES: Final = (*ENCODINGS, "core", "package")
CALL_PYTHON: Final = Path(__file__).with_name("call_python.py")


def crate_folders() -> list[Path]:
    """Sources of the pinned crates, as cargo has unpacked them."""
    command = ("cargo", "metadata", "--locked", "--format-version=1", "--all-features")
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


def bodies() -> bytes:
    """A request of an agent and, on the second line, that of its next turn."""
    body = agent_conversation(200, 300_000)
    return encoded(body) + b"\n" + encoded(with_new_turn(body))


def stream() -> bytes:
    """A stream of OpenAI: 1,000 different deltas, then usage."""
    random_ = random.Random(17)
    words = (random_.choice(("and", "so on", "in", "a stream")) for _ in range(1_000))
    events: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": it}}], "usage": None} for it in words
    ]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    events.append({"choices": [], "usage": usage})
    told = (encoded({"id": "chatcmpl-1", **event}) for event in events)
    return b"".join(b"data: " + event + b"\n\n" for event in told)


CORPORA: Final[dict[str, Callable[[], str]]] = {
    "english": english,
    "code": code,
    "json": json_text,
    "multilingual": multilingual,
    "hostile": hostile,
}


def clipped(text: str) -> bytes:
    return text.encode()[:CORPUS_BYTES].decode("utf-8", "ignore").encode()


def build(example: str) -> Path:
    """The program of an example, release profile."""
    flags = ("--release", "--locked", "--no-default-features", "--example", example)
    command = (*CARGO, "build", *flags, "--message-format", "json")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"cargo build failed:\n{done.stderr}")
    messages = (json.loads(line) for line in done.stdout.splitlines())
    return Path(next(m["executable"] for m in messages if m.get("executable")))


def instructions(*command: str | Path) -> int:
    """Instructions of a whole process."""
    tool = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        (*tool, *command), capture_output=True, text=True, check=True, env=environment
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if not found:
        raise RuntimeError(f"no count in what valgrind wrote:\n{done.stderr}")
    return int(found[1])


def per_byte(path: Path, *command: str | Path) -> float:
    """Instructions per byte of the file of doing once what `command` does, whose file it is."""
    spent = instructions(*command, path, "1") - instructions(*command, path, "0")
    return round(spent / path.stat().st_size, 2)


def measure() -> dict[str, Any]:
    """What is recorded: compiler, Python, text hashes, instructions per byte by table and row."""
    count_file, call_file = build("count_file"), build("call_file")
    files = {corpus: clipped(write()) for corpus, write in CORPORA.items()}
    files |= {"bodies": bodies(), "stream": stream()}
    made: dict[str, Any] = {"compiler": compiler(), "python": sys.version, "corpora": {}}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder, name) for name in files}
        for name, path in paths.items():
            path.write_bytes(files[name])
            made["corpora"][name] = hashlib.sha256(files[name]).hexdigest()[:16]
        for encoding in ENCODINGS:
            rows = {corpus: per_byte(paths[corpus], count_file, encoding) for corpus in CORPORA}
            made[encoding] = rows
        made["core"] = {it: per_byte(paths[corpus_of(it)], call_file, it) for it in CORE_CALLS}
        program = (Path(sys.executable), CALL_PYTHON)
        calls = {it: per_byte(paths[corpus_of(it)], *program, it) for it in PYTHON_CALLS}
        made["package"] = calls
    return made


def corpus_of(row: str) -> str:
    """The file that a row is measured with."""
    if row in CORPORA:
        return row
    return "stream" if row.endswith("_stream") else "bodies"


def compiler() -> str:
    command = ("rustc", "--version")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def write_record(path: Path, made: dict[str, Any]) -> None:
    head = path.read_text("utf-8").split("compiler =")[0] if path.exists() else ""
    lines = [f"{name} = {json.dumps(made[name])}" for name in ("compiler", "python")]
    for table in ("corpora", *TABLES):
        lines += ["", f"[{table}]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in made[table].items()]
    path.write_text(head + "\n".join(lines) + "\n", "utf-8")


def compare(recorded: dict[str, Any], made: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The table and the faults."""
    table = [f"{'instructions per byte':<28}{'now':>10}{'recorded':>10}{'ratio':>8}"]
    faults = [
        f"{corpus}: the text is not the recorded one; look, then --record"
        for corpus, digest in made["corpora"].items()
        if recorded["corpora"].get(corpus) != digest
    ]
    others = {corpus for corpus in made["corpora"] if any(it.startswith(corpus) for it in faults)}
    for group in TABLES:
        if group == "package" and recorded["python"] != made["python"]:
            table.append("package: recorded with another build of Python, not compared")
            continue
        for row, now in made[group].items():
            if corpus_of(row) in others:
                continue
            name, then = f"{group} {row}", recorded[group][row]
            table.append(f"{name:<28}{now:>10.2f}{then:>10.2f}{now / then:>8.3f}")
            if now > then * GROWTH:
                faults.append(f"{name}: {now:g} instructions per byte, {then:g} are recorded")
    return table, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--record", action="store_true", help="write what is measured")
    parser.add_argument("--required", action="store_true", help="fail without valgrind")
    parser.add_argument("--floors", type=Path, default=RECORD)
    parser.add_argument("--json", type=Path, help="where to write what is measured")
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        print("valgrind is not installed: instructions are not counted")
        return 1 if options.required or os.environ.get("CI") == "true" else 0
    made = measure()
    if options.json:
        options.json.write_text(json.dumps(made, indent=1), "utf-8")
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
