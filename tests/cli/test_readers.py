"""Each command reads the same files: packed, in folders, by globs; what cannot be read is named."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tokenctx._cli.commands import app
from tokenctx._cli.files import named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer.testing import Result

COMMANDS = ("cost", "count", "eval", "replay")
NOBODY = 65_534
on_unix = pytest.mark.skipif(os.name == "nt", reason="it has no such files and rights")


def rows(name: str, count: int = 3) -> list[dict[str, Any]]:
    """Recorded calls of a conversation, which each command takes."""
    found = []
    for nth in range(count):
        messages = [{"role": ("user", "assistant")[it % 2], "content": "Why?"} for it in range(3)]
        request = {"model": "gpt-4o", "messages": [*messages, {"role": "user", "content": name}]}
        usage = {"prompt_tokens": 30 + nth, "completion_tokens": 5}
        call = {"id": f"{name}-{nth}", "request": request, "usage": usage, "model": "gpt-4o"}
        about = {"provider": "openai", "api": "openai.chat", "conversation_id": name, "turn": nth}
        found.append({**call, **about, "input_tokens": 30 + nth})
    return found


def text(name: str) -> str:
    return "".join(json.dumps(it) + "\n" for it in rows(name))


def called(command: str, *words: object) -> Result:
    if command == "cost":
        pytest.importorskip("duckdb", reason="python3 dev.py clients has it")
    return CliRunner().invoke(app, [command, *map(str, words), "--json"], catch_exceptions=False)


def calls_in(command: str, done: Result) -> int:
    """How many calls a command has told."""
    lines = [json.loads(it) for it in done.stdout.splitlines()]
    if command == "count":
        return len(lines)
    [told] = lines
    if command == "eval":
        return int(told["records"])
    return int(told["total"]["calls" if command == "cost" else "turns"])


def zstd(content: bytes) -> bytes:
    pyarrow = pytest.importorskip("pyarrow", reason="python3 dev.py clients has it")
    stream = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(stream, "zstd") as file:
        file.write(content)
    return bytes(stream.getvalue())


def parquet(content: bytes) -> bytes:
    pyarrow = pytest.importorskip("pyarrow", reason="python3 dev.py clients has it")
    import pyarrow.parquet as pq

    stream = pyarrow.BufferOutputStream()
    pq.write_table(pyarrow.table({"json": content.decode().splitlines()}), stream)
    return bytes(stream.getvalue())


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd, parquet])
@pytest.mark.parametrize("name", ["log.jsonl", "log"])
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_reads_each_packing(
    command: str, name: str, pack: Any, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(pack(text("a").encode()))
    done = called(command, path)
    assert done.exit_code == 0, done.output
    assert calls_in(command, done) == 3


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_mark_of_utf_8_is_passed_over(command: str, pack: Any, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(pack(text("a").encode("utf-8-sig")))
    assert calls_in(command, called(command, path)) == 3


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("command", COMMANDS)
def test_another_encoding_is_refused_with_the_way_out(
    command: str, encoding: str, pack: Any, tmp_path: Path
) -> None:
    path, good = tmp_path / "log.jsonl", tmp_path / "good.jsonl"
    path.write_bytes(pack(text("a").encode(encoding)))
    good.write_text(text("b"), "utf-8")
    done = called(command, path, good)
    assert done.exit_code == 1
    said = " ".join(done.stderr.split())
    assert f"log.jsonl: this is {encoding[:6].upper()}" in said
    assert "iconv" in said
    assert calls_in(command, done) == 3


@pytest.mark.parametrize("command", COMMANDS)
def test_folders_and_globs_are_read_once(command: str, tmp_path: Path) -> None:
    inner = tmp_path / "logs" / "inner"
    inner.mkdir(parents=True)
    (inner / "a.jsonl").write_text(text("a"), "utf-8")
    (inner / "b.jsonl.gz").write_bytes(gzip.compress(text("b").encode()))
    (tmp_path / "logs" / "c.jsonl").write_text(text("c"), "utf-8")
    (tmp_path / "logs" / "again.jsonl").symlink_to(tmp_path / "logs" / "c.jsonl")
    (tmp_path / "logs" / "round").symlink_to(tmp_path / "logs")
    logs = tmp_path / "logs"
    for words in ([logs], [logs, inner], [f"{logs}/**/*.jsonl*"], [*inner.iterdir(), logs]):
        done = called(command, *words)
        assert done.exit_code == 0, done.output
        assert calls_in(command, done) == 9


@on_unix
@pytest.mark.parametrize("command", COMMANDS)
def test_what_cannot_be_read_is_named_and_the_rest_is_told(command: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(text("a"), "utf-8")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere.jsonl")
    (tmp_path / "self.jsonl").symlink_to(tmp_path / "self.jsonl")
    os.mkfifo(tmp_path / "pipe")
    done = called(command, tmp_path, tmp_path / "none-*.jsonl")
    assert done.exit_code == 1
    assert calls_in(command, done) == 3
    said = " ".join(done.stderr.split()).replace(" ", "")
    for name, reason in {
        "gone.jsonl": "a link to nothing",
        "self.jsonl": "a link that leads to itself",
        "pipe": "neither a file nor a folder",
        "none-*.jsonl": "No such file",
    }.items():
        assert f"{name}: {reason}".replace(" ", "") in said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_not_there_ends_with_1_and_the_others_are_told(
    command: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text("a"), "utf-8")
    done = called(command, tmp_path / "gone.jsonl", path)
    assert done.exit_code == 1
    assert "No such file" in " ".join(done.stderr.split())
    assert calls_in(command, done) == 3


def test_lines_that_are_left_out_are_those_of_their_file(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "log.jsonl", tmp_path / "b" / "log.jsonl"]
    for path in paths:
        path.parent.mkdir()
        path.write_text("{}\n" * (path is paths[1]) + text(path.parent.name) + "{}\n", "utf-8")
    skipped = json.loads(called("eval", *paths).stdout)["skipped"]
    reason = "no JSON object with a `request`"
    assert skipped == {f"{reason} ({paths[0]})": [4], f"{reason} ({paths[1]})": [1, 5]}


@contextmanager
def as_nobody() -> Iterator[None]:
    """As a user who may not read all; who runs the tests as one is that already."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if own == 0:
            os.seteuid(own)


@on_unix
def test_a_folder_that_may_not_be_read_is_named() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "a.jsonl").write_text(text("a"), "utf-8")
        (folder / "closed").mkdir()
        (folder / "closed" / "b.jsonl").write_text(text("b"), "utf-8")
        (folder / "closed").chmod(0)
        with as_nobody():
            found, faults = named([name])
            alone = named([str(folder / "closed" / "b.jsonl")])[0]
        (folder / "closed").chmod(0o755)
        assert [it.name for it in found] == ["a.jsonl"]
        assert faults == [(str(folder / "closed"), "Permission denied")]
        assert [it.name for it in alone] == ["b.jsonl"]  # which whoever opens it is told


def test_the_paths_that_failed_are_counted(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="python3 dev.py clients has it")
    (tmp_path / "a.jsonl").write_text(text("a"), "utf-8")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere.jsonl")
    done = called("cost", tmp_path)
    assert json.loads(done.stdout)["failed_files"] == [str(tmp_path / "gone.jsonl")]
    done = CliRunner().invoke(app, ["cost", str(tmp_path)], catch_exceptions=False)
    assert "not read, or not to the end: 1 path" in " ".join(done.stdout.split())
