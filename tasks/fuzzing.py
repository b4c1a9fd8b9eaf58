"""The core fuzzed by libFuzzer, guided by coverage: a target for each reader of foreign bytes."""

import argparse
import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tasks.steps import ROOT, MissingError, StepError, host_target, require_cargo, run, say

FUZZ = ROOT / "fuzz"
CORPUS, KEPT = FUZZ / "corpus", FUZZ / "seeds"
DATA = ROOT / "tests/data"
MOST_BYTES = 20_000
READERS = ("json", "media", "usage", "bpe/table", "batch", "engine", "known", "request")
"""Rooms of the core whose coverage is told."""


def _read(name: str) -> Any:
    return json.loads((DATA / name).read_text("utf-8"))


def _requests() -> Iterator[bytes]:
    for path in sorted((DATA / "requests").glob("*.json")):
        for case in json.loads(path.read_text("utf-8")):
            yield json.dumps(case["body"]).encode()


def _json() -> Iterator[bytes]:
    for name in ("json/accepted.json", "json/refused.json"):
        for case in _read(name):
            yield bytes.fromhex(case["hex"]) if "hex" in case else case["body"].encode()


def _media() -> Iterator[bytes]:
    for case in _read("images/data_urls.json")["cases"]:
        yield case["url"].encode()
    for case in _read("images/base64.json")["cases"]:
        yield case["text"].encode()


def _streams() -> Iterator[bytes]:
    for case in _read("usage/streams.json")["streams"]:
        yield b"\x40" + "".join(f"{line}\n" for line in case["lines"]).encode()


def _ranks() -> Iterator[bytes]:
    ranks = [bytes([it]) for it in range(256)] + [b"he", b"ll", b"hell", b"o w", b"\xe2\x82"]
    lines = [f"{base64.b64encode(it).decode()} {rank}\n" for rank, it in enumerate(ranks)]
    yield b"hello world, 12 \xe2\x82\xac\0" + "".join(lines).encode()
    yield b"hello\0" + "".join(lines[256:]).encode()
    vocabulary = {"h": 0, "e": 1, "l": 2, "o": 3, "he": 4}
    model = {"type": "BPE", "vocab": vocabulary, "merges": ["h e"], "byte_fallback": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    file: dict[str, Any] = {
        "model": model,
        "pre_tokenizer": level,
        "normalizer": None,
        "added_tokens": [],
    }
    yield b"hello\0" + json.dumps(file).encode()


def _batch() -> Iterator[bytes]:
    lines = (DATA / "recorded-calls.jsonl").read_bytes().splitlines()
    yield from (b"\n".join(lines[at : at + 2]) for at in range(0, len(lines), 2))
    yield from (b"\n".join(pair) for pair in zip(_requests(), _requests(), strict=False))


SEEDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "batch": _batch,
    "engine": _requests,
    "json": _json,
    "media": _media,
    "ranks": _ranks,
    "streams": _streams,
}
"""For each target what it begins with, beside the inputs that are kept in fuzz/seeds."""


def _begun(target: str) -> Path:
    """The corpus of a target, with its seeds."""
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[target]()):
        if len(seed) <= MOST_BYTES:
            (folder / f"seed-{number}").write_bytes(seed)
    return folder


def _kept(target: str) -> list[Path]:
    folder = KEPT / target
    return [folder] if folder.is_dir() else []


def fuzz_core(options: argparse.Namespace) -> None:
    """Feed the readers of the core, or those named, guided by coverage, for --seconds each."""
    targets = options.words or sorted(SEEDS)
    if unknown := set(targets) - set(SEEDS):
        raise StepError(f"fuzz_core: {', '.join(unknown)} is none of {', '.join(sorted(SEEDS))}")
    require_cargo()
    if options.coverage:
        _coverage(targets)
        return
    flags = ("--release", "--locked", "--target", host_target())
    run("build the fuzz targets", "cargo", "build", *flags, folder=FUZZ, quiet=True)
    programs = FUZZ / "target" / host_target() / "release"
    limits = (f"-max_total_time={options.seconds}", f"-seed={options.seed or 0}")  # 0: at random
    always = (
        f"-max_len={MOST_BYTES}",
        "-verbosity=0",
        "-print_final_stats=1",
        "-rss_limit_mb=4096",
    )
    executions = 0
    for target in targets:
        folders = (_begun(target), *_kept(target))
        executions += _fuzzed(target, programs / target, *folders, *limits, *always)
        if options.keep:
            KEPT.joinpath(target).mkdir(parents=True, exist_ok=True)
            merge = ("-merge=1", f"-max_len={MOST_BYTES // 10}", KEPT / target, CORPUS / target)
            run(f"keep what {target} needs", programs / target, *merge, folder=FUZZ, quiet=True)

    say(f"{executions:,} executions of {len(targets)} targets, no finding")


def _fuzzed(target: str, *words: str | Path) -> int:
    """Executions of one run."""
    done = subprocess.run(words, cwd=FUZZ, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr[-8_000:])
        raise StepError(f"fuzz {target}: exit code {done.returncode}; the input is in fuzz/.")
    count = int(re.findall(r"number_of_executed_units: +(\d+)", done.stderr)[-1])
    say(f"fuzz {target}: {count:,} executions")
    return count


def _coverage(targets: list[str]) -> None:
    """Lines of each room that the corpora reach; the tools come with a nightly compiler."""
    home = subprocess.check_output(("rustc", "+nightly", "--print", "sysroot"), text=True).strip()
    tools = Path(home, "lib/rustlib", host_target(), "bin")
    if not (tools / "llvm-cov").exists():
        raise MissingError("coverage: rustup component add llvm-tools --toolchain nightly")
    folder = FUZZ / "target/coverage"
    flags = ("--release", "--locked", "--target", host_target(), "--target-dir", folder)
    rust = "-Cinstrument-coverage --cfg=fuzzing"
    build = ("cargo", "+nightly", "build", *flags)
    run("build for coverage", *build, folder=FUZZ, quiet=True, variables={"RUSTFLAGS": rust})
    programs = folder / host_target() / "release"
    for target in targets:
        where = {"LLVM_PROFILE_FILE": str(folder / f"{target}.profraw")}
        inputs = (_begun(target), *_kept(target))
        run(f"replay {target}", programs / target, *inputs, "-runs=0", quiet=True, variables=where)
    merged = folder / "all.profdata"
    raw = [folder / f"{target}.profraw" for target in targets]
    run("merge", tools / "llvm-profdata", "merge", "-sparse", *raw, "-o", merged, quiet=True)
    objects = [word for it in targets[1:] for word in ("-object", str(programs / it))]
    words = [str(tools / "llvm-cov"), "export", "-summary-only", str(programs / targets[0])]
    found = subprocess.check_output([*words, *objects, f"-instr-profile={merged}"], text=True)
    for room, (covered, all_lines) in _by_room(json.loads(found)["data"][0]["files"]).items():
        say(f"{room}: {covered} of {all_lines} lines covered, {covered / all_lines:.0%}")


def _by_room(files: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for file in files:
        name = os.path.relpath(file["filename"], ROOT / "src").replace(os.sep, "/")
        room = next((it for it in READERS if re.match(rf"{it}/", name)), None)
        if room is not None:
            lines, (covered, count) = file["summary"]["lines"], sums.get(room, (0, 0))
            sums[room] = covered + lines["covered"], count + lines["count"]
    return sums


def fuzz_options(target: argparse.ArgumentParser) -> None:
    """The options of `fuzz` and of `fuzz_core`."""
    target.add_argument("--seconds", type=int, default=60)
    target.add_argument("--seed", type=int, help="of the inputs; default: a new one")


def fuzz_core_options(target: argparse.ArgumentParser) -> None:
    """The options of `fuzz_core`."""
    fuzz_options(target)
    target.add_argument("--keep", action="store_true", help="in fuzz/seeds what reaches new code")
    target.add_argument("--coverage", action="store_true", help="tell what the corpora reach")
