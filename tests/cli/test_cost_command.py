"""`tokenctx cost` of a request is its price before the call; of logs it needs an engine."""

from __future__ import annotations

import gzip
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tokenctx._cli.commands import app

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}
CALL = {"request": REQUEST, "usage": {"prompt_tokens": 9}, "input_tokens": 9, "model": "gpt-4o"}


@pytest.fixture
def without_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("duckdb", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("without_engine")
@pytest.mark.parametrize("indent", [None, 2])
def test_a_request_is_priced_before_the_call(indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(REQUEST, indent=indent), "utf-8")
    done = CliRunner().invoke(app, ["cost", str(path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "USD input, output unknown" in done.output


@pytest.mark.usefixtures("without_engine")
def test_lines_of_requests_and_a_text_need_no_engine(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(f"{json.dumps(REQUEST)}\n" * 3, "utf-8")
    done = CliRunner().invoke(app, ["cost", str(path), "--json"], catch_exceptions=False)
    assert [json.loads(it)["cost"]["model"] for it in done.stdout.splitlines()] == ["gpt-4o"] * 3
    assert CliRunner().invoke(app, ["cost", "Why?", "--model", "gpt-4o"]).exit_code == 0


@pytest.mark.usefixtures("without_engine")
@pytest.mark.parametrize("count", [1, 3])
def test_requests_on_the_standard_input_are_priced(count: int) -> None:
    given = f"{json.dumps(REQUEST)}\n" * count
    done = CliRunner().invoke(app, ["cost", "-", "--json"], input=given, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert [json.loads(it)["tokens"] for it in done.stdout.splitlines()] == [8] * count


@pytest.mark.usefixtures("without_engine")
def test_a_log_on_the_standard_input_is_no_request() -> None:
    given = f"{json.dumps(CALL)}\n" * 3
    done = CliRunner().invoke(app, ["cost", "-"], input=given, catch_exceptions=False)
    assert done.exit_code == 1
    assert "pip install 'tokenctx[batch]'" in done.stderr
    done = CliRunner().invoke(app, ["cost", "-", "--state", "there"], input=given)
    assert done.exit_code == 2


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_log_on_the_standard_input_is_summed(pack: Any, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="python3 dev.py clients has it")
    path = tmp_path / "log.jsonl"
    path.write_bytes(f"{json.dumps(CALL)}\n{json.dumps({**CALL, 'id': 'b'})}\n".encode())
    given = pack(path.read_bytes())
    told = [
        CliRunner().invoke(app, ["cost", word, "--json"], input=given, catch_exceptions=False)
        for word in ("-", str(path))
    ]
    totals = [json.loads(it.stdout)["total"] for it in told]
    assert totals[0] == totals[1]
    assert totals[0]["input_tokens"] == 18


@pytest.mark.usefixtures("without_engine")
def test_a_log_without_the_engine_says_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f"{json.dumps(CALL)}\n", "utf-8")
    done = CliRunner().invoke(app, ["cost", str(path)], catch_exceptions=False)
    assert done.exit_code == 1
    assert "pip install 'tokenctx[batch]'" in done.stderr


def test_nothing_to_sum_by_is_refused_with_what_there_is(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["cost", str(tmp_path), "--by", "moon"])
    assert done.exit_code == 2
    assert "conversation" in done.output


@pytest.mark.parametrize(
    "word", ["missing.jsonl", "logs/*.gz", "march-*", "no/such", "log.parquet"]
)
def test_a_file_that_is_not_there_is_named_and_no_text(word: str, tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(REQUEST), "utf-8")
    for words in ([word], [str(path), word]):
        done = CliRunner().invoke(app, ["cost", *words, "--model", "gpt-4o"])
        assert done.exit_code == 1
        assert f"{word}: No such file" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "words", [["Why?"], ["read/write or *all*"], ["x" * 5000], ["two", "words"]]
)
def test_a_text_is_priced_as_a_text(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["cost", *words, "--model", "gpt-4o"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "USD input" in done.output


def test_lines_of_requests_have_the_sum_of_their_prices(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    unknown = {**REQUEST, "model": "no-such-model"}
    path.write_text("".join(f"{json.dumps(it)}\n" for it in [REQUEST] * 100 + [unknown]), "utf-8")
    done = CliRunner().invoke(app, ["cost", str(path)], catch_exceptions=False)
    told = " ".join(done.output.split())
    assert "0.002 USD input, output unknown; no price is known for 1 of them" in told
