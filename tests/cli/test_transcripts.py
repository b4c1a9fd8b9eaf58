"""Transcripts of agents are recorded conversations: each call once, with its last bill."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tokenctx._cli.commands import app
from tokenctx._cli.evaluation.recordings import RecordingError, read_recording
from tokenctx._cli.evaluation.transcripts.thread import NO_USAGE, REPEATED
from tokenctx._core import _WRAPPERS
from transcripts import CLAUDE, CODEX, CODEX_OLD, FORMS, OPENCODE, PROMPT, Turns, asked

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]


def saved(path: Path, form: object) -> Path:
    rows = form if isinstance(form, list) else [form]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def read(path: Path) -> tuple[Turns, Json]:
    recording = read_recording(path)
    assert "system prompt and tools are not in it" in recording.about
    found = []
    for conversation in recording.conversations:
        assert not conversation.has_context
        turns = []
        for turn in conversation.turns:
            body = json.loads(turn.body)
            messages = next(body[it] for it in ("messages", "input", "contents") if it in body)
            turns.append((turn.billed.input_tokens, str(turn.relation), len(messages)))
        found.append(turns)
    return found, {reason: count for reason, count in recording.skipped.items() if count}


@pytest.mark.parametrize("name", FORMS)
def test_each_call_of_a_transcript_is_a_turn(name: str, tmp_path: Path) -> None:
    form, turns, skipped = FORMS[name]
    assert read(saved(tmp_path / "a.jsonl", form)) == (turns, skipped)


@pytest.mark.parametrize("name", FORMS)
def test_a_replay_knows_what_a_transcript_extends(name: str, tmp_path: Path) -> None:
    form, turns, _ = FORMS[name]
    path = saved(tmp_path / "a.jsonl", form)
    found = CliRunner().invoke(app, ["replay", "--json", str(path)])
    assert found.exit_code == 0, found.stderr
    total = json.loads(found.stdout)["total"]
    assert total["turns"] == sum(map(len, turns))
    assert total["missed"] == 0, "each call that extends one is known"


def test_the_last_bill_of_an_answer_counts(tmp_path: Path) -> None:
    [main, _] = read_recording(saved(tmp_path / "a.jsonl", CLAUDE)).conversations
    first = next(main.turns)
    assert first.billed.output_tokens == 30
    assert first.reply is not None
    assert [it["type"] for it in first.reply["content"]] == ["text", "tool_use", "tool_use"]


def test_a_transcript_without_bills_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="a transcript of codex without a billed call"):
        read_recording(saved(tmp_path / "a.jsonl", CODEX_OLD))
    answers = [row for row in CLAUDE if row.get("type") == "user"]
    with pytest.raises(RecordingError, match="a transcript of claude-code without a billed call"):
        read_recording(saved(tmp_path / "a.jsonl", answers))


def test_a_folder_is_all_its_transcripts_and_a_copied_call_counts_once(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    saved(tmp_path / "a.jsonl", CLAUDE)
    saved(tmp_path / "b.jsonl", CLAUDE[:10])  # a session that was resumed from the first
    saved(tmp_path / "deep" / "c.jsonl", CODEX)
    saved(tmp_path / "notes.json", {"a": 1})
    for message in OPENCODE["messages"]:
        saved(tmp_path / "deep" / f"{message['info']['id']}.json", message["info"])
        for part in message["parts"]:
            saved(tmp_path / "deep" / f"{part['id']}.json", part)
    turns, skipped = read(tmp_path)
    assert [[it[0] for it in one] for one in turns] == [
        [1000, 1500, 1700, 1550, 400],
        [300],
        [1000, 1500, 400],
        [1000, 1500, 400],
    ]
    assert skipped["a file that is no transcript"] == 1
    assert skipped[REPEATED] == 3 + 2


def test_a_damaged_line_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jsonl", CLAUDE)
    path.write_text(path.read_text("utf-8") + '{"type": "assistant", "mess', "utf-8")
    turns, skipped = read(path)
    assert turns == FORMS["Claude Code"][1]
    assert skipped["a line of a transcript that is no JSON object"] == 1


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("wrong", [None, 7, "x", [], {}, [7], {"a": [None]}])
def test_wrong_values_raise_nothing_but_what_is_documented(
    name: str, wrong: object, tmp_path: Path
) -> None:
    form = FORMS[name][0]

    def worse(value: object, depth: int = 0) -> object:
        if isinstance(value, list):
            return [worse(it, depth + 1) for it in value]
        if not isinstance(value, dict):
            return value
        names = ("type", "role", "sessionId", "sessionID", "payload", "projectHash", "info", "id")
        return {
            key: it
            if key in names and depth < 3 and not isinstance(it, dict)
            else (worse(it, depth + 1) if key in names else wrong)
            for key, it in value.items()
        }

    path = saved(tmp_path / "a.jsonl", worse(form))
    with contextlib.suppress(RecordingError):
        read_recording(path)


def test_an_answer_without_usage_is_a_message(tmp_path: Path) -> None:
    rows = json.loads(json.dumps(CLAUDE))
    del rows[9]["message"]["usage"]
    turns, skipped = read(saved(tmp_path / "a.jsonl", rows))
    assert turns[0][:2] == [(1000, "first", 1), (1700, "extends", 6)]
    assert skipped[NO_USAGE] == 1


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("command", ["recordings", "eval", "context"])
def test_each_command_takes_a_transcript(name: str, command: str, tmp_path: Path) -> None:
    form, turns, _ = FORMS[name]
    path, steps = saved(tmp_path / "a.jsonl", form), tmp_path / "steps.jsonl"
    if command == "recordings":
        found = CliRunner().invoke(app, ["recordings", str(path), "--output", str(steps)])
        assert "system prompt and tools are not in it" in " ".join(found.stderr.split())
        again = read_recording(steps)
        assert [
            [turn.billed.input_tokens for turn in one.turns] for one in again.conversations
        ] == [[it[0] for it in one] for one in turns]
    else:
        found = CliRunner().invoke(app, [command, "--json", str(path)])
    assert found.exit_code == 0, found.stderr
    if command == "eval":
        pools = {it["pool"]: it["n"] for it in json.loads(found.stdout)["pools"]}
        known = sum(relation == "extends" for one in turns for _, relation, _ in one)
        assert pools["delta, 1,000 tokens or more known"] >= known
    if command == "context":
        assert 0 < json.loads(found.stdout)["total_tokens"] <= 1.2 * turns[0][-1][0]


def test_logs_and_transcripts_are_two_forms(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jsonl", CODEX)
    log = saved(tmp_path / "b.jsonl", {"request": {"messages": [asked("a")]}, "input_tokens": 9})
    found = CliRunner().invoke(app, ["recordings", str(path), str(log)])
    assert found.exit_code == 1
    assert "b.jsonl is no transcript" in " ".join(found.stderr.split())


@pytest.mark.parametrize("name", FORMS)
def test_a_count_is_of_the_last_requests_and_says_what_is_missing(
    name: str, tmp_path: Path
) -> None:
    form, turns, _ = FORMS[name]
    path = str(saved(tmp_path / "a.jsonl", form))
    found = CliRunner().invoke(app, ["count", "--json", path])
    assert found.exit_code == 0, found.stderr
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(rows) == len(turns)
    for row in rows:
        assert "its last request: system prompt and tools are not in it" in row["note"]
        assert 0 < row["tokens"] <= row["high"]


@pytest.mark.parametrize("options", [[], ["--json"], ["--messages"], ["--cost"]])
@pytest.mark.parametrize(
    "rows",
    [
        [{"type": "user", "text": "a"}] * 3,
        [{"kind": "x"}, {"kind": "y"}],
        [{"a": 1}],
        [{"id": "m", "role": "assistant", "time": {}}],
        CODEX_OLD,
    ],
)
def test_what_is_no_request_has_no_count(
    rows: list[Json], options: list[str], tmp_path: Path
) -> None:
    path = saved(tmp_path / "a.jsonl", rows)
    found = CliRunner().invoke(app, ["count", *options, str(path)])
    assert found.exit_code == 1
    assert not found.stdout
    assert str(path) in found.stderr.replace("\n", "")


@pytest.mark.parametrize("wrapper", _WRAPPERS)
def test_lines_of_batches_are_counted(wrapper: str, tmp_path: Path) -> None:
    body = {"model": "gpt-4o", "messages": [asked(PROMPT)]}
    path = saved(tmp_path / "a.jsonl", [{"custom_id": "a", wrapper: body}] * 2)
    found = CliRunner().invoke(app, ["count", "--json", str(path)])
    alone = CliRunner().invoke(app, ["count", "--json", str(saved(tmp_path / "b.json", body))])
    assert found.exit_code == alone.exit_code == 0
    expected = json.loads(alone.stdout)["tokens"]
    assert [json.loads(line)["tokens"] for line in found.stdout.splitlines()] == [expected] * 2
    plain = CliRunner().invoke(app, ["count", str(path)])
    assert "2 requests" in plain.stdout


CODEX_HEAD = {"type": "session_meta", "payload": {"id": "x", "originator": "codex_cli_rs"}}


@pytest.mark.parametrize("command", ["count", "recordings", "replay", "eval", "context"])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        (json.dumps(CODEX_HEAD), "billed call"),
        (json.dumps(CODEX_HEAD) + '\n{"timestamp": "20', "1 "),
    ],
)
def test_a_file_without_a_call_says_why_in_a_whole_sentence(
    command: str, content: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "rollout.jsonl"
    path.write_text(content, "utf-8")
    done = CliRunner().invoke(app, [command, str(path)])
    assert done.exit_code == 1
    said = " ".join(done.stderr.split())
    if reason != "empty" or command == "recordings":  # the others say it in other words
        assert reason in said
    assert not said.endswith(":")
    assert ": ;" not in said


@pytest.mark.parametrize("command", ["recordings", "replay", "eval"])
def test_a_folder_without_a_call_says_what_it_has(command: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello", "utf-8")
    done = CliRunner().invoke(app, [command, str(tmp_path)])
    assert done.exit_code == 1
    assert "a file that is no transcript" in " ".join(done.stderr.split())
