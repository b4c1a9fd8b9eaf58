"""The command `eval`: every recorded call is scored, put in its stratum, or named as skipped."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import accuracy
import first_screen
import tokenctx
from tokenctx import HybridTokenEstimator
from tokenctx._cli.commands import app
from tokenctx._cli.evaluation import peers as _peers
from tokenctx._cli.evaluation.chat_form import chat_form
from tokenctx._cli.evaluation.evaluation import Score, Scores, read_call
from tokenctx._cli.evaluation.peers import PACKAGES, Peer, PeerName
from tokenctx._cli.evaluation.recordings import restored
from tokenctx._cli.evaluation.strata import DELTA, POOLS, STRATA, stratum_of, vendor_of

CALLS = Path(__file__).parents[1] / "data" / "recorded-calls.jsonl"
"""Requests that we made up, with made-up bills: they show how a call is scored, not how well."""
RECORDS: list[dict[str, Any]] = [json.loads(line) for line in CALLS.read_text().splitlines()]
PRIVATE = "my-private-words"
LEAST_RECORDS = 12_000


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["eval", *map(str, words)])


def report(*words: object) -> Any:
    result = run("--json", *words)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def saved(folder: Path, *lines: str, name: str = "calls.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(lines), "utf-8")
    return path


def line(**fields: Any) -> str:
    return json.dumps({**RECORDS[0], **fields})


def png_head(width: int, height: int) -> str:
    stand_in = {"width": width, "height": height}
    return str(restored({"data": {"_image": stand_in}})["data"])


# Scores


def test_figures_of_scores_are_shares_and_errors_in_percent() -> None:
    tokens = {100: (100, 100), 102: (95, 110), 95: (90, 97), 50: (10, 200)}
    figures = Scores(Score(100, it, *bounds) for it, bounds in tokens.items()).as_json()
    assert figures == {
        "n": 4,
        "exact": 25,
        "within_2": 50,
        "within_5": 75,
        "within_10": 75,
        "mape": 14.25,
        "median": 2,
        "p90": 50,
        "signed_mean": -13.25,
        "coverage": 75,
    }
    assert Scores().as_json()["mape"] is None


def test_each_call_is_estimated_with_nothing_known() -> None:
    found = report(CALLS, "--worst", len(RECORDS))
    estimator = HybridTokenEstimator()
    for miss in found["worst"]:
        record = RECORDS[miss["line"] - 1]
        estimate = estimator.estimate(restored(record["request"]))
        assert (miss["id"], miss["billed_tokens"]) == (record["id"], record["input_tokens"])
        assert (miss["tokens"], miss["low"], miss["high"]) == (
            estimate.tokens,
            estimate.low,
            estimate.high,
        )
    assert len(found["worst"]) == len(RECORDS) - 1, "what is not determined is no miss"


def test_misses_come_largest_first_and_their_parts_are_the_estimate() -> None:
    worst = report(CALLS, "--worst", 5)["worst"]
    sizes = [abs(miss["error_percent"]) for miss in worst]
    assert sizes == sorted(sizes, reverse=True)
    for miss in worst:
        assert sum(miss["parts"].values()) == miss["tokens"]
        assert miss["suspect"] in miss["parts"]


@pytest.mark.parametrize(
    ("name", "part"), [("tools", "tools"), ("schema", "schema"), ("image", "media")]
)
def test_the_special_part_of_a_call_is_weighed_and_suspected(name: str, part: str) -> None:
    worst = report(CALLS, "--worst", len(RECORDS))["worst"]
    miss = next(miss for miss in worst if miss["id"] == name)
    assert miss["parts"][part] > 0
    assert miss["suspect"] == part


# Strata and pools


def test_each_call_is_in_one_stratum_and_the_strata_keep_their_order() -> None:
    rows = report(CALLS)["rows"]
    assert sum(row["n"] for row in rows) == len(RECORDS)
    strata = [row["stratum"] for row in rows if row["provider"] == "openai openai.chat"]
    assert strata == ["images", "structured output", "tools", "text"]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: str(record["id"]))
def test_a_stratum_is_found_without_recorded_features(record: dict[str, Any]) -> None:
    body = restored(record["request"])
    recorded = stratum_of(record["features"], body, None, None)
    assert stratum_of(None, body, None, None) == recorded


@pytest.mark.parametrize(
    ("features", "stratum"),
    [
        ({}, "text"),
        ({"has_tools": True}, "tools"),
        ({"has_tools": True, "has_structured_output": True}, "structured output"),
        ({"has_structured_output": True, "has_audio_video": True}, "audio/video"),
        ({"has_audio_video": True, "has_files": True}, "files"),
        ({"has_files": True, "has_images": True}, "images"),
        ({"has_images": True, "encrypted_parts": 1}, "reasoning replayed"),
        ({"thinking_history": 1, "not_determined_by_request": ["file_ref"]}, "undetermined"),
    ],
)
def test_the_first_stratum_that_fits_wins(features: Any, stratum: str) -> None:
    assert stratum_of(features, {}, None, None) == stratum


@pytest.mark.parametrize(
    ("provider", "api", "model", "vendor"),
    [
        ("azure", "openai.chat", "gpt-4o", "openai"),
        ("anthropic", "anthropic.messages", "claude-sonnet-4-5", "anthropic"),
        ("bedrock", "bedrock.converse", "us.anthropic.claude-sonnet-4", "anthropic"),
        ("bedrock", "bedrock.converse", "amazon.nova-lite-v1:0", "other"),
        ("openrouter", "openai.chat", "anthropic/claude-sonnet-4", "other"),
        ("vertex", "google.generateContent", "gemini-2.5-flash", "gemini"),
    ],
)
def test_the_vendor_of_a_call(provider: str, api: str, model: str, vendor: str) -> None:
    assert vendor_of(provider, api, model) == vendor


def test_pools_hold_what_is_promised_and_show_it() -> None:
    pools = {pool["pool"]: pool for pool in report(CALLS)["pools"]}
    assert list(pools) == [pool.name for pool in (*POOLS, DELTA)]
    assert pools["countable from the request"]["n"] == len(RECORDS) - 1
    assert pools["OpenAI chat: text"]["n"] == 4
    assert pools["OpenAI chat: text"]["must"] == [97, 98, 99]
    assert pools["Anthropic: text"]["n"] == pools["Gemini: countable"]["n"] == 1
    assert set(STRATA) == {call for row in report(CALLS)["rows"] for call in [row["stratum"]]} | {
        "audio/video"
    }


def test_a_known_turn_makes_the_estimate_a_delta() -> None:
    pool = report(CALLS)["pools"][-1]
    record = RECORDS[-1]
    known = record["prev"]["input_tokens"]
    new = HybridTokenEstimator().count_request(record["request"]).message_tokens[1:]
    error = 100 * abs(known + sum(new) - record["input_tokens"]) / record["input_tokens"]
    assert (pool["n"], pool["median"]) == (1, pytest.approx(error, abs=1e-3))


# Options


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("--provider", "google"), 1),
        (("--api", "openai.responses"), 2),
        (("--model", "claude"), 2),
        (("--stratum", "text", "--provider", "openai"), 4),
    ],
)
def test_options_choose_calls(words: tuple[str, ...], count: int) -> None:
    assert report(CALLS, *words)["records"] == count


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("group", {"ours-1", "ours-2"}),
        ("era", {"2025 Q4", "2026 Q1", "unknown"}),
        ("model", {record["model"] for record in RECORDS}),
    ],
)
def test_rows_are_by_what_is_asked_for(by: str, names: set[str]) -> None:
    assert {row[by] for row in report(CALLS, "--by", by)["rows"]} == names


def test_rows_may_be_by_several_things() -> None:
    rows = report(CALLS, "--by", "era,group")["rows"]
    assert {by for row in rows for by in ("era", "group") if by in row} == {"era", "group"}
    assert sum(row["n"] for row in rows) == 2 * len(RECORDS)


def test_a_document_has_the_tables_with_date_version_and_warning() -> None:
    made = run(CALLS, "--markdown", "--by", "provider,family", "--compare", "chars4").stdout
    assert made.startswith("# Accuracy\n")
    for words in (
        f"tokenctx {tokenctx.__version__}",
        "12 recorded calls",
        "expect less on others",
        "## By family and stratum",
        "## By provider and stratum",
        "| OpenAI chat: text | 4 |",
        "chars4",
    ):
        assert words in made
    assert "Largest" not in made


def test_the_tables_show_rows_pools_and_misses() -> None:
    shown = run(CALLS, "--least", "2", "--worst", "1").stdout
    for words in ("in bounds", "suspect", "12 calls scored", "not shown"):
        assert words in shown
    assert not {"…", "must"} & set(shown.split())


def test_a_table_without_a_row_is_not_shown() -> None:
    shown = run(CALLS, "--least", "1000").stdout
    assert "By provider" not in shown
    assert "--least 1 shows them" in shown


# Others beside it


def test_a_request_of_any_dialect_has_a_chat_form() -> None:
    for record in RECORDS:
        body = restored(record["request"])
        form = chat_form(body, record["model"], None)
        assert form.model == record["model"]
        for message in form.messages:
            assert message["role"] in {"system", "user", "assistant", "tool"}
        assert "data:application" not in json.dumps(form.messages)


def test_a_chat_form_has_tools_calls_results_schema_and_pictures_of_their_size() -> None:
    png = png_head(640, 480)
    body = {
        "system": "Be brief.",
        "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "look"}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": "Seen."},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": png},
                    },
                ],
            },
        ],
    }
    form = chat_form(body, "claude-sonnet-4-5", "anthropic")
    roles = [message["role"] for message in form.messages]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    assert form.messages[2]["tool_calls"][0]["function"]["name"] == "look"
    assert form.messages[-1]["content"][0]["image_url"]["url"] == f"data:image/png;base64,{png}"
    assert form.tools[0]["function"]["parameters"] == {"type": "object"}
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "string"}}}
    chat = {"messages": [{"role": "user", "content": "a"}], "response_format": schema}
    assert "string" in chat_form(chat, "gpt-4o", None).schema


def test_other_counters_are_scored_on_the_same_calls() -> None:
    found = report(CALLS, "--compare", "chars4,tiktoken")
    assert [one["counter"].split()[0] for one in found["compared"]] == ["chars4", "tiktoken"]
    for one in found["compared"]:
        assert [row["n"] for row in one["rows"]] == [row["n"] for row in found["rows"]]
        assert one["failed"] == 0
    shown = run(CALLS, "--compare", "chars4").stdout
    assert "Counters beside each other" in shown


def test_tiktoken_is_itself_with_the_framing_of_the_cookbook() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    peer = Peer("tiktoken")
    form = chat_form(RECORDS[0]["request"], "gpt-4o", None)
    assert tiktoken.__version__ in peer.title
    assert peer.count(form) == RECORDS[0]["input_tokens"]


@pytest.mark.parametrize("name", ["litellm", "langchain"])
def test_incumbents_count_a_plain_chat(name: PeerName) -> None:
    pytest.importorskip(PACKAGES[name].replace("-", "_"))
    assert Peer(name).count(chat_form(RECORDS[0]["request"], "gpt-4o", None)) > 0


def test_a_request_that_another_counter_fails_on_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(_peers._COUNTERS, "chars4", lambda: lambda _: 1 // 0)
    assert report(CALLS, "--compare", "chars4")["compared"][0]["failed"] == len(RECORDS)
    assert "failed on 12 calls" in run(CALLS, "--compare", "chars4").stdout


def test_a_counter_that_is_not_there_is_bad_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    for name, words in (("tiktoken", "pip install tiktoken"), ("gpt", "chars4")):
        result = run(CALLS, "--compare", name)
        assert result.exit_code == 2
        assert words in result.stderr


# The user's vocabularies


def test_text_is_counted_with_the_users_vocabulary(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0}, [])).save(str(path))
    words = ("--provider", "google", "--worst", "1")
    plain, own = report(CALLS, *words), report(CALLS, *words, "--vocabulary", f"gemini={path}")
    assert own["worst"][0]["tokens"] < plain["worst"][0]["tokens"]
    assert own["worst"][0]["parts"]["messages"] < plain["worst"][0]["parts"]["messages"]


@pytest.mark.parametrize("pair", ["gemini", "=path", "gemini=none.json"])
def test_what_is_no_vocabulary_is_bad_usage(pair: str) -> None:
    result = run(CALLS, "--vocabulary", pair)
    assert result.exit_code == 2
    assert "--vocabulary" in result.stderr


# What goes wrong


def test_a_bad_line_is_skipped_counted_and_named_by_number(tmp_path: Path) -> None:
    bad = (
        f'{{"request": "{PRIVATE}',
        f'["{PRIVATE}"]',
        line(request=PRIVATE),
        line(input_tokens=0),
        line(input_tokens="many"),
        line(input_tokens=True),
        line(prev=[PRIVATE]),
        line(prev={"same_context": True}),
        line(created=PRIVATE),
        line(features=[PRIVATE], request={"messages": {PRIVATE: 3}}),
        "[" * 5000,
    )
    path = saved(tmp_path, line(), "", *bad, line(id="another"))
    found = report(path)
    skipped = {number for lines in found["skipped"].values() for number in lines}
    assert skipped == {3, 4, 5, 6, 7, 8, 10, 13}
    assert found["records"] + len(skipped) == len(bad) + 2
    result = run(path)
    assert result.exit_code == 0
    assert "line 3, 13" in result.stdout
    assert PRIVATE not in result.output


@pytest.mark.parametrize("lines", [(), ("hello",), (line(input_tokens=None),)])
def test_a_file_without_a_call_to_score_is_exit_code_1(
    tmp_path: Path, lines: tuple[str, ...]
) -> None:
    result = run(saved(tmp_path, *lines))
    assert result.exit_code == 1
    assert "no recorded call to score" in result.stderr
    assert not result.stdout


def test_options_that_leave_nothing_say_so() -> None:
    result = run(CALLS, "--provider", "nobody")
    assert result.exit_code == 1
    assert "options" in result.stderr


def test_a_file_that_cannot_be_read_is_exit_code_1(tmp_path: Path) -> None:
    torn = tmp_path / "torn.jsonl.gz"
    torn.write_bytes(gzip.compress(CALLS.read_bytes())[:-9])
    for path in (tmp_path / "none.jsonl", torn, tmp_path):
        result = run(path)
        assert result.exit_code == 1
        assert str(path) in result.stderr
        assert not result.stdout


def test_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl.gz"
    path.write_bytes(gzip.compress(CALLS.read_bytes()))
    assert report(path)["rows"] == report(CALLS)["rows"]


@pytest.mark.parametrize("words", [["--by", "moon"], ["--stratum", "poem"], ["--least", "0"], []])
def test_bad_usage_is_exit_code_2(words: list[str]) -> None:
    assert run(*words, *([CALLS] if words else [])).exit_code == 2


# Recorded calls of others


@pytest.mark.slow
def test_every_recorded_call_is_scored(shared_data: Path) -> None:
    found = report(shared_data / "usage" / "dev.jsonl.gz")
    assert found["records"] >= LEAST_RECORDS
    assert not found["skipped"]
    assert sum(row["n"] for row in found["rows"]) == found["records"]


def test_a_line_says_what_a_call_is() -> None:
    call = read_call(7, line().encode())
    assert (call.line, call.id, call.billed_tokens, call.stratum) == (7, "text", 12, "text")


# The documents


def test_the_table_of_the_readme_is_replaced_between_its_marks() -> None:
    before = f"a\n{first_screen.START}old\n{first_screen.END}z\n"
    once = first_screen.with_table(before, "new\n")
    assert once == f"a\n{first_screen.START}\nnew\n\n{first_screen.END}z\n"
    assert first_screen.with_table(once, "new\n") == once


def test_the_page_is_replaced_up_to_its_mark() -> None:
    assert accuracy.with_page("", "# New\n") == f"# New\n\n{accuracy.END}"
    assert accuracy.with_page(f"old\n{accuracy.END}by hand\n", "new\n") == (
        f"new\n\n{accuracy.END}by hand\n"
    )


def test_the_first_screen_of_readme_is_made_of_the_page() -> None:
    """The table and both pictures: `dev.py study first_screen` makes them."""
    page = accuracy.DOCUMENT.read_text("utf-8")
    readme = first_screen.README.read_text("utf-8")
    assert first_screen.with_table(readme, first_screen.table(page)) == readme
    for theme in first_screen.PICTURES:
        assert first_screen.path_of(theme).read_text("utf-8") == first_screen.picture(page, theme)
        assert f"docs/site/first-screen-{theme}.svg" in readme


def test_every_row_of_the_first_screen_is_a_pool() -> None:
    assert set(first_screen.ROWS) <= {pool.name for pool in (*POOLS, DELTA)}


def test_the_document_is_of_this_version() -> None:
    assert f"tokenctx {tokenctx.__version__}" in accuracy.DOCUMENT.read_text("utf-8")
