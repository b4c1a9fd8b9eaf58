"""`tokenctx cost` of logs: the sums of the loop, whatever the file, and after any interruption."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tokenctx._cli.commands import app
from tokenctx._cli.spend import files
from tokenctx.money import Prices
from tokenctx.usage import normalize_usage

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("duckdb", reason="python3 dev.py clients has it")
pa = pytest.importorskip("pyarrow", reason="python3 dev.py clients has it")

MODELS = ("gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "no-such-model-0")
USAGES: list[dict[str, Any]] = [
    {"prompt_tokens": 1201, "completion_tokens": 33, "prompt_tokens_details": {"cached_tokens": 7}},
    {
        "input_tokens": 11,
        "cache_read_input_tokens": 250_001,
        "cache_creation_input_tokens": 93,
        "cache_creation": {"ephemeral_1h_input_tokens": 40, "ephemeral_5m_input_tokens": 53},
        "output_tokens": 7,
    },
    {"promptTokenCount": 17, "candidatesTokenCount": 5, "thoughtsTokenCount": 3},
    {"prompt_tokens": 9, "completion_tokens": 1, "cost": 0.0123},
]


def rows(count: int = 40) -> list[dict[str, Any]]:
    """Recorded calls of several models, days and tenants."""
    return [
        {
            "id": f"call-{nth}",
            "model": MODELS[nth % len(MODELS)],
            "tenant": f"team {nth % 3}",
            "created": 1_764_000_000 + nth * 7_200,
            "conversation_id": f"chat {nth % 5}",
            "request": {"messages": [{"role": "user", "content": "hi " * nth}]},
            "usage": USAGES[nth % 3 if nth % 7 else 3],
            "input_tokens": 1,
        }
        for nth in range(count)
    ]


def loop(calls: list[dict[str, Any]]) -> tuple[int, int, int]:
    """Input tokens, nano-dollars and calls without a price, one call after another."""
    prices, tokens, nano, lacking = Prices(), 0, 0, 0
    for call in calls:
        usage = normalize_usage(call["usage"])
        assert usage is not None
        tokens += usage.input_tokens
        cost = prices.cost(usage, model=call["model"])
        if cost is None or cost.total is None or cost.unpriced:
            lacking += 1
        else:
            nano += int((cost.total * 10**9).quantize(Decimal(1), rounding="ROUND_HALF_UP"))
    return tokens, nano, lacking


def lines(values: list[Any]) -> bytes:
    return b"".join(json.dumps(it).encode() + b"\n" for it in values)


def asked(*words: object, code: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["cost", *map(str, words), "--json"], catch_exceptions=False)
    assert done.exit_code == code, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def sums(told: dict[str, Any]) -> tuple[int, int, int]:
    whole = told["total"]
    return (
        whole["input_tokens"],
        int(Decimal(whole["dollars"]) * 10**9),
        whole["unpriced_calls"],
    )


def saved(path: Path, form: str) -> Path:
    """The rows in a file of this form."""
    content = lines(rows())
    if form == "gzip":
        path.write_bytes(gzip.compress(content))
    elif form == "zstd":
        path.write_bytes(pa.Codec("zstd").compress(content, asbytes=True))
    elif form == "array":
        path.write_text(json.dumps(rows()), "utf-8")
    elif form == "parquet":
        import pyarrow.parquet as pq

        texts = [
            {
                **{name: row[name] for name in ("id", "model", "tenant", "created")},
                **{name: json.dumps(row[name]) for name in ("request", "usage")},
                "input_tokens": 1,
            }
            for row in rows()
        ]
        pq.write_table(pa.Table.from_pylist(texts), path, row_group_size=7)
    else:
        path.write_bytes(content)
    return path


@pytest.mark.parametrize("form", ["lines", "gzip", "zstd", "array", "parquet"])
def test_the_sums_are_those_of_the_loop(form: str, tmp_path: Path) -> None:
    told = asked(saved(tmp_path / f"log.{form}", form))
    assert sums(told) == loop(rows())
    assert told["total"]["calls"] == 40
    assert {it["model"]: it["calls"] for it in told["by"]} == dict.fromkeys(MODELS, 10)


def test_the_kinds_of_money_add_up_to_the_total_of_each_group(tmp_path: Path) -> None:
    told = asked(saved(tmp_path / "log.jsonl", "lines"), "--by", "tenant,day")
    assert len(told["by"]) > 3
    for group in [told["total"], *told["by"]]:
        kinds = [Decimal(it) for name, it in group.items() if name.startswith("dollars_")]
        assert sum(kinds) == Decimal(group["dollars"])
    assert sum(Decimal(it["dollars"]) for it in told["by"]) == Decimal(told["total"]["dollars"])


def test_folders_and_globs_are_read_and_the_same_call_counts_once(tmp_path: Path) -> None:
    saved(tmp_path / "a.jsonl", "lines")
    saved(tmp_path / "b.jsonl.gz", "gzip")
    whole = asked(tmp_path)
    assert sums(whole) == loop(rows())
    assert whole["left_out"] == {"an earlier line of a call that a later one has": 40}
    assert sums(asked(tmp_path / "*.jsonl*")) == loop(rows())


def test_what_has_no_price_is_said_by_reason(tmp_path: Path) -> None:
    told = asked(saved(tmp_path / "log.jsonl", "lines"))
    [reason] = told["unpriced"]
    assert reason["model"] == "no-such-model-0"
    assert reason["calls"] == loop(rows())[2]


def test_damaged_numbers_are_said_and_end_nothing(tmp_path: Path) -> None:
    calls = rows(8)
    for nth, usage in enumerate(
        (
            {"prompt_tokens": 10**18, "completion_tokens": 1},
            {"prompt_tokens": 9, "completion_tokens": 10**30},
            {"prompt_tokens": 9, "completion_tokens": 1, "cost": 1e40},
            {"prompt_tokens": -5, "completion_tokens": "x"},
        )
    ):
        damaged = {**calls[0], "id": f"d{nth}", "usage": usage, "model": "gpt-4o"}
        (tmp_path / f"{nth}.jsonl").write_bytes(lines([damaged]))
    (tmp_path / "log.jsonl").write_bytes(lines(calls))
    told = asked(tmp_path)
    assert told["total"]["calls"] == 12
    assert sums(told)[1] < loop(calls)[1] + 10**15, "no damaged number is in the sum"


BATCHES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "openai": (
        {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {
            "model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}},
        {"custom_id": "a", "response": {"status_code": 200, "body": {
            "model": "gpt-4o-2024-08-06", "usage": {
                "prompt_tokens": 1_000_000, "completion_tokens": 0}}}, "error": None},
        "1.25",
    ),
    "anthropic": (
        {"custom_id": "a", "params": {
            "model": "claude-haiku-4-5", "messages": [{"role": "user", "content": "hello"}]}},
        {"custom_id": "a", "result": {"type": "succeeded", "message": {
            "model": "claude-haiku-4-5", "usage": {
                "input_tokens": 1_000_000, "output_tokens": 0}}}},
        "0.5",
    ),
    "google": (
        {"key": "a", "request": {"contents": [{"parts": [{"text": "hello"}]}]}},
        {"key": "a", "response": {"modelVersion": "gemini-2.5-flash", "usageMetadata": {
            "promptTokenCount": 1_000_000}}},
        "0.15",
    ),
    "bedrock": (
        {"recordId": "a", "modelInput": {"messages": [{"role": "user", "content": "hello"}]}},
        {"recordId": "a", "modelInput": {"messages": [{"role": "user", "content": "hello"}]},
         "modelOutput": {"model": "claude-sonnet-4-5-20250929", "usage": {
             "input_tokens": 1_000_000, "output_tokens": 0}}},
        "1.5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("vendor", BATCHES)
def test_results_of_a_batch_are_at_the_price_of_a_batch(vendor: str, tmp_path: Path) -> None:
    request, result, price = BATCHES[vendor]
    path, answers = tmp_path / "batch.jsonl", tmp_path / "results.jsonl"
    path.write_bytes(lines([request]))
    answers.write_bytes(lines([result]))
    told = asked(answers)
    assert Decimal(told["total"]["dollars"]) == Decimal(price)
    both = asked(path, answers)
    assert both["total"]["calls"] == 1, "what is answered is not estimated, too"
    assert Decimal(both["total"]["dollars"]) == Decimal(price)


@pytest.mark.parametrize("vendor", BATCHES)
def test_a_batch_without_results_is_estimated(vendor: str, tmp_path: Path) -> None:
    request, _, _ = BATCHES[vendor]
    path = tmp_path / "batch.jsonl"
    path.write_bytes(lines([request]))
    whole = asked(path, "--unnamed", "gemini-2.5-flash")["total"]
    assert whole["open_calls"] == whole["calls"] == 1
    assert 0 < whole["input_tokens"] < 20
    assert Decimal(whole["dollars"]) > 0


def test_a_failed_request_of_a_batch_costs_nothing_and_is_said(tmp_path: Path) -> None:
    path = tmp_path / "errors.jsonl"
    failed = {"custom_id": "a", "response": {"status_code": 400, "body": {"error": {}}}}
    path.write_bytes(lines([failed, {"custom_id": "b", "result": {"type": "expired"}}]))
    told = asked(path, "--by", "day")
    assert told["total"]["calls"] == 0
    assert told["left_out"] == {"a call that failed": 2}


def test_another_model_is_priced_with_the_same_tokens(tmp_path: Path) -> None:
    path = saved(tmp_path / "log.jsonl", "lines")
    [there] = asked(path, "--model", "gpt-4o")["elsewhere"]
    calls = [it for it in rows() if it["model"] != MODELS[3] or "cost" in it["usage"]]
    nano = 0
    for call in calls:
        usage = normalize_usage({**call["usage"], "cost": None})
        cost = None if usage is None else Prices().cost(usage, model="gpt-4o")
        assert cost is not None
        assert cost.total is not None
        nano += int((cost.total * 10**9).quantize(Decimal(1), rounding="ROUND_HALF_UP"))
    assert int(Decimal(there["dollars"]) * 10**9) == nano


def test_a_transcript_is_summed_with_its_agent(tmp_path: Path) -> None:
    usage = {"input_tokens": 4, "cache_creation_input_tokens": 100, "output_tokens": 20}
    entries = []
    for nth in range(3):
        about = {"sessionId": "s", "timestamp": f"2026-11-0{nth + 1}T10:00:00Z"}
        entries.append(
            {
                **about,
                "type": "user",
                "uuid": f"u{nth}",
                "message": {"role": "user", "content": "x"},
            }
        )
        message: dict[str, Any] = {"id": f"m{nth}", "role": "assistant", "usage": usage}
        message |= {"model": "claude-sonnet-4-5", "content": [], "stop_reason": "end"}
        entries.append({**about, "type": "assistant", "uuid": f"a{nth}", "message": message})
    (tmp_path / "s.jsonl").write_bytes(lines(entries))
    told = asked(tmp_path, "--by", "tenant,day")
    assert [(it["tenant"], it["day"], it["calls"]) for it in told["by"]] == [
        ("claude-code", f"2026-11-0{nth}", 1) for nth in (1, 2, 3)
    ]
    assert sums(told) == loop([{"usage": usage, "model": "claude-sonnet-4-5"}] * 3)


def test_bad_rows_are_counted_and_the_rest_is_summed(tmp_path: Path) -> None:
    calls = rows()
    content = lines(calls[:20])
    content += b'{"id": "\xff\xfe", "usage": {}}\n' + '{"id": "ü"}\n'.encode("utf-16")
    content += b"not json\n[]\n{}\n" + lines(calls[20:])
    (tmp_path / "log.jsonl").write_bytes(content)
    told = asked(tmp_path / "log.jsonl")
    assert sums(told) == loop(calls)
    assert told["left_out"]["a line that is no JSON object in UTF-8"] >= 4
    assert told["left_out"]["no log that is known here"] == 1


def test_a_line_that_is_too_long_is_left_out_and_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_LINE_BYTES", 4_000)
    calls = rows()
    long = {**calls[0], "id": "long", "request": {"messages": [{"content": "x" * 100_000}]}}
    (tmp_path / "log.jsonl").write_bytes(lines([*calls[:9], long, *calls[9:]]))
    for _ in ("read", "in the ledger"):
        told = asked(tmp_path / "log.jsonl", "--state", tmp_path / "state", code=1)
        assert sums(told) == loop(calls)
        assert told["left_out"] == {files.TOO_LONG: 1}
        assert told["failed_files"] == [str(tmp_path / "log.jsonl")]


def test_a_broken_file_is_named_and_the_others_are_summed(tmp_path: Path) -> None:
    saved(tmp_path / "good.jsonl", "lines")
    broken = saved(tmp_path / "bad.parquet", "parquet")
    broken.write_bytes(broken.read_bytes()[:-300])
    command = ["cost", str(tmp_path), "--json"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 1
    assert "bad.parquet: this Parquet file cannot be read" in done.stderr
    assert sums(json.loads(done.stdout)) == loop(rows())


def test_a_packed_file_that_is_cut_says_so(tmp_path: Path) -> None:
    packed = gzip.compress(lines(rows()), mtime=0)
    (tmp_path / "log.jsonl.gz").write_bytes(packed[: len(packed) - 40])
    for _ in ("read", "in the ledger"):
        told = asked(tmp_path / "log.jsonl.gz", "--state", tmp_path / "state", code=1)
        assert any("ends in the middle" in it for it in told["left_out"])
        assert 30 < told["total"]["calls"] < 40, "what stands before the cut is kept"
        assert told["failed_files"] == [str(tmp_path / "log.jsonl.gz")]


def test_a_table_of_this_command_beside_its_logs_does_not_count_again(tmp_path: Path) -> None:
    saved(tmp_path / "log.jsonl", "lines")
    asked(tmp_path, "--parquet", tmp_path / "calls.parquet")
    told = asked(tmp_path)
    assert sums(told) == loop(rows())
    assert told["total"]["calls"] == told["left_out"][files.OWN] == 40


def test_a_ledger_of_other_prices_is_priced_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = {"model": "own", "usage": {"prompt_tokens": 10**6, "completion_tokens": 0}}
    (tmp_path / "log.jsonl").write_bytes(lines([call]))
    for dollars in ("1", "2"):
        own = {"input": dollars, "output": "0"}
        priced = Prices({"updated": "2026-01-01", "models": {"own": own}})
        monkeypatch.setattr("tokenctx.money.prices._INSTALLED", [priced])
        told = asked(tmp_path / "log.jsonl", "--state", tmp_path / "state")
        assert float(told["total"]["dollars"]) == float(dollars)


def test_empty_lines_before_a_log_are_no_requests(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(b"\n \r\n\n" + lines(rows()))
    assert sums(asked(tmp_path / "log.jsonl")) == loop(rows())


def test_a_log_in_utf_16_says_how_to_read_it(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(lines(rows()).decode().encode("utf-16"))
    done = CliRunner().invoke(app, ["cost", str(tmp_path)])
    assert done.exit_code == 1
    assert "iconv" in " ".join(done.stderr.split())


def test_a_folder_without_logs_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "readme.md").write_text("x", "utf-8")
    done = CliRunner().invoke(app, ["cost", str(tmp_path)])
    assert done.exit_code == 1
    assert "no file of calls is in this folder" in " ".join(done.stderr.split())


def test_a_model_without_a_price_costs_not_nothing(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(lines(rows()))
    done = CliRunner().invoke(app, ["cost", str(tmp_path), "--model", "gtp-4o"])
    assert "gtp-4o: no price is known there for 32 calls" in " ".join(done.stdout.split())


KILLED = """
import os
from tokenctx._cli.spend import files, ledger
files.PART_ROWS = 50
add, calls = ledger.Ledger.add, 0
def killed(self, source, part):
    global calls
    calls += 1
    add(self, source, part)
    if calls == 4:
        os.kill(os.getpid(), 9)
ledger.Ledger.add = killed
from tokenctx._cli.main import main
main()
"""


def command(code: str, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, "cost", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="a signal of POSIX")
@pytest.mark.parametrize("form", ["lines", "gzip"])
def test_a_killed_run_goes_on_where_it_was(form: str, tmp_path: Path) -> None:
    calls = rows(500)
    content = lines(calls)
    path, state = tmp_path / "log.jsonl", tmp_path / "state"
    path.write_bytes(gzip.compress(content) if form == "gzip" else content)
    done = command(KILLED, path, "--state", state)
    assert done.returncode == -signal.SIGKILL
    import duckdb

    with duckdb.connect(str(state / "ledger.duckdb")) as base:
        [(upto, count)] = base.execute("select upto, row_count from files").fetchall()
    assert (0 < upto < len(content), count) == (True, 200)
    told = asked(path, "--state", state)
    assert sums(told) == loop(calls)
    assert told["total"]["calls"] == 500
    assert sums(asked(path, "--state", state)) == loop(calls), "a third run reads nothing again"


FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
from tokenctx._cli.spend import files
files.PART_ROWS = 50
from tokenctx._cli.main import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a limit of POSIX")
def test_a_full_disk_is_said_and_a_next_run_goes_on(tmp_path: Path) -> None:
    calls = rows(2_000)
    path, state = tmp_path / "log.jsonl", tmp_path / "state"
    path.write_bytes(lines(calls))
    done = command(FULL, path, "--state", state)
    assert done.returncode == 1, done.stderr
    assert "the ledger cannot be" in done.stderr
    assert "Traceback" not in done.stderr
    told = asked(path, "--state", state)
    assert sums(told) == loop(calls)


def test_a_file_that_grew_is_read_anew(tmp_path: Path) -> None:
    path, state = tmp_path / "log.jsonl", tmp_path / "state"
    path.write_bytes(lines(rows(10)))
    assert sums(asked(path, "--state", state)) == loop(rows(10))
    path.write_bytes(lines(rows(30)))
    assert sums(asked(path, "--state", state)) == loop(rows(30))


def test_a_ledger_of_other_files_tells_of_those_that_are_named(tmp_path: Path) -> None:
    first, second, state = (tmp_path / it for it in ("a.jsonl", "b.jsonl", "state"))
    first.write_bytes(lines([*rows(10), {}]))
    second.write_bytes(lines(rows(30)))
    assert sums(asked(first, "--state", state)) == loop(rows(10))
    told = asked(second, "--state", state)
    assert (sums(told), told["left_out"]) == (loop(rows(30)), {})
    assert sums(asked(first, second, "--state", state)) == loop(rows(30))


def test_a_row_for_each_call_is_written_as_parquet(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "calls.parquet"
    asked(saved(tmp_path / "log.jsonl", "lines"), "--parquet", out)
    table = pq.read_table(out).to_pydict()
    assert len(table["nano_dollars"]) == 40
    assert sum(filter(None, table["nano_dollars"])) == loop(rows())[1]


def test_names_of_models_give_no_orders_to_the_terminal(tmp_path: Path) -> None:
    hostile = "\x1b]0;PWNED\x07\u202e"
    path = tmp_path / "log.jsonl"
    path.write_bytes(lines([{**rows()[0], "model": hostile, "tenant": hostile}]))
    for by in ("model", "tenant"):
        done = CliRunner().invoke(app, ["cost", str(path), "--by", by], env={"COLUMNS": "44"})
        assert done.exit_code == 0, done.output
        assert not {"\x1b", "\x07", "\u202e"} & set(done.output)
        assert max(map(len, done.output.splitlines())) <= 44


def test_answers_cost_what_they_say_without_their_requests(tmp_path: Path) -> None:
    billed = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    counted = {"promptTokenCount": 1000, "candidatesTokenCount": 100, "totalTokenCount": 1100}
    gemini = {"candidates": [], "modelVersion": "gemini-2.5-flash", "usageMetadata": counted}
    answers = [
        {"id": "c-1", "created": 1_764_000_000, "model": "gpt-4o", "choices": [], "usage": billed},
        {"id": "m-1", "type": "message", "model": "gpt-4o", "content": [], "usage": billed},
        {"time": "2026-11-03T10:00:00Z", "response": gemini},
        gemini,
        {"model": "gpt-4o", "call_type": "completion", "user": "acme", "usage": billed},
    ]
    path = tmp_path / "answers.jsonl"
    path.write_bytes(lines(answers))
    told = asked(path, "--by", "model")
    assert (told["total"]["calls"], told["left_out"]) == (5, {})
    assert {it["model"]: it["dollars"] for it in told["by"]} == {
        "gpt-4o": "0.010500000",
        "gemini-2.5-flash": "0.001100000",
    }
