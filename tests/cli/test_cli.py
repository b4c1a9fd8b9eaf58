"""The command: what it prints, where, and with which exit code."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import tokenctx
from tokenctx._cli.commands import app
from tokenctx._cli.inputs import BadLine, Count, Options, counts, kind_of
from tokenctx._cli.main import INSTALL
from tokenctx._cli.screen import visible
from tokenctx._cli.tables import WORDS
from tokenctx._core import _json_compact
from tokenctx._results.tables import table_path

ROOT = Path(__file__).parents[2]
DEMONSTRATION = str(table_path("agent-session"))
COMMAND = str(Path(sys.executable).with_name("tokenctx"))
REQUEST = {"model": "gpt-4o", "messages": [{"role": "user", "content": "What is a token?"}]}
PRIVATE = "the secret word"


def tokenctx_command(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, words, input=text)


def file(folder: Path, content: str, name: str = "file") -> str:
    path = folder / name
    path.write_text(content, "utf-8")
    return str(path)


def counted(*words: str, text: str | None = None) -> list[dict[str, Any]]:
    result = tokenctx_command("count", "--json", *words, text=text)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


# Count


@pytest.mark.parametrize(
    ("content", "kind", "note"),
    [
        ("", "text", "empty"),
        ("hello", "text", ""),
        ("[a link](x) and more", "text", "not JSON at byte 1"),
        (json.dumps(REQUEST), "request", ""),
        ("\ufeff" + json.dumps(REQUEST), "request", ""),
        (json.dumps(REQUEST, indent=1), "request", ""),
        (json.dumps(REQUEST["messages"]), "request", ""),
        ('{"contents": []}', "request", ""),
        (f"{json.dumps(REQUEST)}\n{json.dumps(REQUEST)}\n", "jsonl", ""),
        (f"\n{json.dumps(REQUEST)}\n", "request", ""),
    ],
)
def test_the_kind_of_a_file_is_what_it_looks_like(content: str, kind: str, note: str) -> None:
    found, said = kind_of("file", content.encode())
    assert found == kind
    assert note in said
    assert bool(note) == bool(said)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("file", b'{"model": "gpt-4o", "messages": [', "not JSON at byte 33"),
        ("file", b'{"name": "package", "version": 1}', "JSON, but no request"),
        ("file", b"[1, 2]", "JSON, but no request"),
        ("file.json", b"[]", "JSON, but no request"),
        ("file.json", b"", "not JSON at byte 0"),
        ("file.json", b"hello", "not JSON at byte 0"),
        ("file.jsonl", b"hello\nworld", "not JSON at byte 0"),
        ("file", '{"é": é}'.encode(), "not JSON at byte 7"),
        ("file", b"hello \xff", "not UTF-8 at byte 6"),
    ],
)
def test_what_is_broken_is_refused_with_the_byte_and_the_way_out(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    result = tokenctx_command("count", "--json", str(path))
    assert result.exit_code == 1
    assert not result.stdout
    assert reason in result.stderr
    assert "--as text" in result.stderr
    assert counted("--as", "text", str(path))[0]["kind"] == "text"


def test_a_broken_line_is_named_and_the_others_are_counted(tmp_path: Path) -> None:
    path = file(tmp_path, f'{json.dumps(REQUEST)}\n{{"messages": [\n{json.dumps(REQUEST)}\n')
    result = tokenctx_command("count", path)
    assert result.exit_code == 1
    assert "2 requests" in result.stdout
    assert f"{path}:2" in result.stderr


def test_lines_that_the_core_counts_and_those_it_leaves_are_printed_alike(tmp_path: Path) -> None:
    strange = {"model": "a\u202eb\x7f", "messages": [{"role": "user", "content": "é"}]}
    long = {"model": "gpt-4o", "messages": [{"role": "user", "content": "a word " * 9000}]}
    kinds = [REQUEST, strange, long, {"request": REQUEST}, {"model": "gpt-4o", "input": "hi"}]
    lines = [*map(json.dumps, kinds), " \x0b", '{"messages": [', "", "\ufeff" + json.dumps(REQUEST)]
    content = "\n".join([json.dumps(REQUEST), *lines * 20])
    path = file(tmp_path, content, "a\u202e.jsonl")
    made = counts(path, content.encode(), Options())
    results = [result for result, _ in made]
    printed = [visible(_json_compact(it.as_json())) for it in results if isinstance(it, Count)]
    result = tokenctx_command("count", "--json", path)
    assert len(printed) == 121
    assert result.stdout.splitlines() == printed
    named = [visible(line.name) for line in results if isinstance(line, BadLine)]
    assert [
        line.partition(": ")[2].partition(": ")[0] for line in result.stderr.splitlines()
    ] == named


def test_a_share_of_the_window_is_rounded_as_python_does(tmp_path: Path) -> None:
    texts = [{"role": "user", "content": "a " * words} for words in range(983, 1003)]
    lines = [json.dumps({"model": "gpt-4o", "messages": [text]}) for text in texts]
    made = counted(file(tmp_path, "\n".join(lines)))
    assert any(count["tokens"] == 1000 for count in made), "1000 of 128,000 lies between two"
    for count in made:
        assert count["window_share"] == round(count["tokens"] / count["window_tokens"], 6)


def test_a_vocabulary_counts_a_request_as_the_text_it_is(tmp_path: Path) -> None:
    text = json.dumps(REQUEST)
    count = counted("--encoding", "cl100k_base", file(tmp_path, text))[0]
    tokens = tokenctx.count_tokens(text, encoding="cl100k_base")
    assert (count["kind"], count["tokens"]) == ("text", tokens)


def test_a_text_is_counted_by_its_vocabulary(tmp_path: Path) -> None:
    path = file(tmp_path, "hello world")
    default, other = counted(path)[0], counted("--encoding", "r50k_base", path)[0]
    assert (default["tokens"], default["low"], default["high"]) == (2, 2, 2)
    assert (default["quality"], default["counted_with"]) == ("exact", "o200k_base")
    assert other["counted_with"] == "r50k_base"


def test_a_text_for_a_model_is_counted_as_in_a_message_to_it(tmp_path: Path) -> None:
    path = file(tmp_path, "hello world " * 50)
    openai, claude = counted("--model", "gpt-4o", path), counted("--model", "claude-opus-4-5", path)
    assert openai[0]["tokens"] == tokenctx.count_tokens("hello world " * 50)
    assert openai[0]["quality"] == "exact"
    assert claude[0]["profile"].startswith("claude")
    assert claude[0]["low"] <= claude[0]["tokens"] <= claude[0]["high"]
    assert counted("--method", "characters", path)[0]["tokens"] > 0


def test_standard_input_and_several_files_are_counted_in_their_order(tmp_path: Path) -> None:
    path = file(tmp_path, json.dumps(REQUEST))
    names = [count["name"] for count in counted("-", path, "-", text="hello")]
    assert names == ["-", path]


def test_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"hello world"))
    assert counted(str(path))[0]["tokens"] == 2


def test_a_request_is_counted_with_its_breakdown(tmp_path: Path) -> None:
    path = file(tmp_path, json.dumps(REQUEST))
    count = counted(path)[0]
    whole = tokenctx.HybridTokenEstimator().estimate(REQUEST)
    assert count["tokens"] == whole.tokens == count["context_tokens"] + sum(count["message_tokens"])
    assert count["window_share"] == pytest.approx(whole.tokens / 128_000, abs=1e-6)
    shown = tokenctx_command("count", "--messages", path).stdout
    for words in ("tokens", "quality", "exact", "gpt-4o", "context", "message 1", "window"):
        assert words in shown


def test_assumptions_are_shown_in_words(tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
    body = {"model": "mystery", "messages": [{"role": "user", "content": [image]}]}
    shown = tokenctx_command("count", file(tmp_path, json.dumps(body))).stdout
    assert WORDS["remote_image"] in shown
    assert WORDS["unknown_model"] in shown
    assert ".." in shown


def test_model_dialect_and_kind_can_be_overridden(tmp_path: Path) -> None:
    path = file(tmp_path, json.dumps(REQUEST))
    words = ("--model", "claude-opus-4-5", "--dialect", "anthropic")
    count = counted(*words, path)[0]
    assert (count["model"], count["dialect"]) == ("claude-opus-4-5", "anthropic")
    assert counted("--as", "text", path)[0]["kind"] == "text"


def test_lines_of_requests_are_one_block_or_one_row_each(tmp_path: Path) -> None:
    wrapped = {"request": REQUEST, "usage": {}}
    path = file(tmp_path, f"{json.dumps(REQUEST)}\n\n{json.dumps(wrapped)}\n")
    tokens = tokenctx.HybridTokenEstimator().estimate(REQUEST).tokens
    assert [count["tokens"] for count in counted(path)] == [tokens, tokens]
    assert "2 requests" in tokenctx_command("count", path).stdout
    assert f"{path}:3" in tokenctx_command("count", "--messages", path).stdout


# What goes wrong


def test_a_file_that_fails_is_named_and_the_others_are_counted(tmp_path: Path) -> None:
    good, bad = file(tmp_path, "hello"), file(tmp_path, '{"messages": [', "bad")
    result = tokenctx_command("count", "--as", "request", bad, str(tmp_path / "none"))
    assert result.exit_code == 1
    named = [line.split(": ")[1] for line in result.stderr.splitlines()]
    assert named[:2] == [bad, str(tmp_path / "none")]
    assert 'tokenctx count --text "..."' in result.stderr
    assert tokenctx_command("count", good, str(tmp_path / "none")).stdout.count("tokens") == 1


def test_no_message_holds_text_of_the_input(tmp_path: Path) -> None:
    path = file(tmp_path, f'{{"messages": [{{"content": "{PRIVATE}" {PRIVATE}')
    result = tokenctx_command("count", "--as", "request", path)
    assert result.exit_code == 1
    assert PRIVATE not in result.stderr


def test_a_torn_packed_file_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"hello world")[:-9])
    assert tokenctx_command("count", str(path)).exit_code == 1
    path.write_bytes(b"no gzip")
    assert tokenctx_command("replay", str(path)).exit_code == 1


@pytest.mark.parametrize(
    "words",
    [
        ["count"],
        ["count", "--encoding", "latin", "-"],
        ["count", "--encoding", "o200k_base", "--model", "gpt-4o", "-"],
        ["count", "--encoding", "o200k_base", "--as", "request", "-"],
        ["count", "--as", "poem", "-"],
        ["replay"],
        ["sing"],
    ],
)
def test_bad_usage_is_exit_code_2(words: list[str]) -> None:
    result = tokenctx_command(*words, text="hello")
    assert result.exit_code == 2
    assert not result.stdout


def test_what_is_no_recording_is_exit_code_1_with_the_reason(tmp_path: Path) -> None:
    result = tokenctx_command("replay", file(tmp_path, "hello"))
    assert result.exit_code == 1
    assert "no recording" in result.stderr
    torn = file(
        tmp_path,
        json.dumps({"request": {}, "conversation_id": 1, "input_tokens": 1, "prev": {"a": 1}}),
    )
    result = tokenctx_command("replay", torn)
    assert result.exit_code == 1
    assert "same_context" in result.stderr


@pytest.mark.parametrize(
    "fields",
    [
        {
            "request": {
                "messages": [{"content": [{"image": {"_image": {"width": -1, "height": 9}}}]}]
            }
        },
        {"request": {"messages": {"_image": {"width": 10**30, "height": 1}}}},
        {
            "request": {"input": "text"},
            "prev": {"same_context": True, "n_items": 2, "input_tokens": 3},
        },
        {"request": []},
        {"input_tokens": "many"},
        {"usage": ["none"]},
        {"prev": [1]},
        {"turn": {}},
    ],
)
def test_wrong_values_in_a_recording_are_no_traceback(tmp_path: Path, fields: Any) -> None:
    call = {"conversation_id": "c", "request": REQUEST, "input_tokens": 12, **fields}
    result = tokenctx_command("replay", file(tmp_path, json.dumps(call)))
    assert result.exit_code in {0, 1}
    assert result.exception is None or isinstance(result.exception, SystemExit)


# Replay


def test_the_demonstration_is_shown_turn_by_turn_with_a_total() -> None:
    result = tokenctx_command("replay", DEMONSTRATION)
    assert result.exit_code == 0
    for words in (
        "made up",
        "estimated",
        "delta",
        "billed",
        "µs",
        "total: 1 conversation, 9 turns",
    ):
        assert words in result.stdout
    assert "MISSED" not in result.stdout


def test_the_demonstration_comes_with_the_package() -> None:
    shown = tokenctx_command("demo")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("A demonstration made for tokenctx. No provider was asked")
    assert "total: 1 conversation, 9 turns: 0 exact, 8 delta, 1 estimated." in shown.stdout


def test_the_replay_is_one_json_object_on_request() -> None:
    whole = json.loads(tokenctx_command("replay", "--json", "--verbose", DEMONSTRATION).stdout)
    assert whole["total"]["turns"] == len(whole["turns"]) == 9
    assert whole["total"]["missed"] == 0
    assert whole["providers"][0]["delta"] == whole["conversations"][0]["delta"] == 8


def test_many_conversations_are_shown_by_provider(tmp_path: Path) -> None:
    calls = [
        {
            "conversation_id": f"c{provider}",
            "provider": provider,
            "api": "openai.chat",
            "request": REQUEST,
            "input_tokens": 12,
        }
        for provider in ("one", "two")
    ]
    path = file(tmp_path, "\n".join(map(json.dumps, calls)))
    shown = tokenctx_command("replay", path, "--verbose").stdout
    assert "cone" in shown
    assert "2 conversations" in shown
    alone = tokenctx_command("replay", path, "--provider", "two").stdout
    assert "1 conversation," in alone
    assert tokenctx_command("replay", path, "--provider", "three").exit_code == 1


# The process


def test_the_installed_command_counts_standard_input() -> None:
    done = subprocess.run(
        [COMMAND, "count", "--json", "-"], check=False, input=b"hello world", capture_output=True
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["tokens"] == 2
    version = subprocess.run([COMMAND, "--version"], check=False, capture_output=True, text=True)
    assert version.stdout.strip() == f"tokenctx {tokenctx.__version__}"


def test_a_broken_pipe_is_quiet(tmp_path: Path) -> None:
    path = file(tmp_path, f"{json.dumps(REQUEST)}\n" * 20_000)
    with subprocess.Popen(
        [COMMAND, "count", "--json", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


@pytest.mark.parametrize("command", [["count"], ["context"]])
def test_a_closed_standard_input_is_one_line(command: list[str]) -> None:
    shell = f"{sys.executable} -m tokenctx {' '.join(command)} - <&-"
    done = subprocess.run(["/bin/sh", "-c", shell], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "tokenctx: -: standard input is closed; give a file, or pipe something in\n"
    )


def test_without_the_extra_one_line_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['typer'] = None; from tokenctx._cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [INSTALL]


def test_importing_the_package_imports_neither_typer_nor_rich() -> None:
    code = "import tokenctx, sys; print([m for m in ('typer', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


# Profiles


def test_profiles_shows_what_a_model_is_counted_with() -> None:
    result = tokenctx_command("profiles", "us.anthropic.claude-sonnet-4-5-20250929-v1:0")
    assert result.exit_code == 0
    assert "is counted with claude-4.5 (known by its name)" in result.stdout
    assert all(word in result.stdout for word in ("tools_tokens", "confidence", "verified"))


def test_profiles_says_that_a_model_is_not_known() -> None:
    result = tokenctx_command("profiles", "acme-9", "--provider", "xai", "--json")
    assert json.loads(result.stdout)["name"] == "grok"
    assert "not known" in tokenctx_command("profiles", "acme-9").stdout


def test_profiles_lists_all(tmp_path: Path) -> None:
    own = file(tmp_path, '{"name": "house", "models": ["house-"], "source": "we"}')
    result = tokenctx_command("profiles", "--json", "--profiles", own)
    profiles = json.loads(result.stdout)
    assert (profiles["house"]["source"], profiles["house"]["models"]) == ("we", ["house-"])
    assert "gpt-4o" in tokenctx_command("profiles").stdout
    assert "profile house" in tokenctx_command("profiles", "house", "--profiles", own).stdout


def test_profiles_names_the_file_that_is_missing(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.json")
    result = tokenctx_command("profiles", "gpt-4o", "--profiles", missing)
    assert result.exit_code == 1
    assert result.stderr == f"tokenctx: {missing}: No such file or directory\n"


def test_profiles_refuses_a_file_that_has_none(tmp_path: Path) -> None:
    result = tokenctx_command("profiles", "--profiles", file(tmp_path, '{"name": "a", "x": 1}'))
    assert result.exit_code == 1
    assert "x is no field of a profile" in result.stderr
