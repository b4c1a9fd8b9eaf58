"""`tokenctx gate`: each break of a prefix is found with its place, a harmless change never."""

from __future__ import annotations

import copy
import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tokenctx._cli.commands import app

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Change = Callable[[dict[str, Any]], None]

LONG = "You are a careful assistant of a bank. " * 40


def tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "day": {}}}
    return {"name": name, "description": f"The {name} of a city.", "input_schema": schema}


def anthropic(turns: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "How warm is it in Rome?"}]
    for nth in range(turns):
        use = {"type": "tool_use", "id": f"t{nth}", "name": "weather", "input": {"city": "Rome"}}
        result = {"type": "tool_result", "tool_use_id": f"t{nth}", "content": f"{20 + nth} degrees"}
        messages += [
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, use]},
            {"role": "user", "content": [result]},
        ]
    system = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
    tools = [tool("weather"), tool("news")]
    body = {"model": "claude-sonnet-4-5", "max_tokens": 500, "system": system, "tools": tools}
    return {**body, "messages": messages}


def openai(turns: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": LONG},
        {"role": "user", "content": "How warm is it in Rome?"},
    ]
    for nth in range(turns):
        function = {"name": "weather", "arguments": '{"city": "Rome", "day": 1}'}
        called = [{"id": f"t{nth}", "type": "function", "function": function}]
        messages += [
            {"role": "assistant", "content": None, "tool_calls": called},
            {"role": "tool", "tool_call_id": f"t{nth}", "content": f"{20 + nth} degrees"},
        ]
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    return {"model": "gpt-4o", "messages": messages, "tools": tools}


def gemini(turns: int) -> dict[str, Any]:
    contents = [{"role": "user", "parts": [{"text": "How warm is it in Rome?"}]}]
    for nth in range(turns):
        contents += [
            {"role": "model", "parts": [{"text": f"{20 + nth} degrees"}]},
            {"role": "user", "parts": [{"text": "And now?"}]},
        ]
    system = {"parts": [{"text": LONG}]}
    return {"model": "gemini-2.5-flash", "systemInstruction": system, "contents": contents}


def written(folder: Path, bodies: list[dict[str, Any]], name: str = "chat.jsonl") -> str:
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(it) + "\n" for it in bodies)
    (folder / name).write_text(text, "utf-8")
    return str(folder)


def judged(tmp_path: Path, old: Any, new: Any, *words: str) -> tuple[int, dict[str, Any]]:
    base, head = written(tmp_path / "base", old), written(tmp_path / "head", new)
    done = CliRunner().invoke(app, ["gate", base, head, "--json", *words], catch_exceptions=False)
    return done.exit_code, json.loads(done.stdout)


def edited(path: str, value: Any) -> Change:
    """A change of the member at `path`, such as `messages.1.content`."""

    def change(body: dict[str, Any]) -> None:
        *way, last = path.split(".")
        place: Any = body
        for step in way:
            place = place[int(step) if step.isdigit() else step]
        place[int(last) if last.isdigit() else last] = value

    return change


def reordered(body: dict[str, Any]) -> None:
    body["tools"].reverse()


def shortened(body: dict[str, Any]) -> None:
    del body["messages"][1:3]


BREAKS: dict[str, tuple[Callable[[int], dict[str, Any]], Change, str, int | None]] = {
    "a clock in the system prompt": (
        anthropic, edited("system.0.text", f"It is 10:31. {LONG}"), "system[0].text", 0),
    "a word late in the system prompt": (
        anthropic, edited("system.0.text", f"{LONG[:-8]}shop. "), "system[0].text", len(LONG) - 8),
    "tools in another order": (anthropic, reordered, "tools[0].name", 0),
    "a tool more": (anthropic, lambda it: it["tools"].append(tool("time")), "tools[2]", None),
    "another description of a tool": (
        anthropic, edited("tools.1.description", "The news."), "tools[1].description", 8),
    "an old message edited": (
        anthropic, edited("messages.0.content", "How cold is it?"), "messages[0].content", 4),
    "an old answer of a tool cut": (
        anthropic, edited("messages.2.content.0.content", "20"),
        "messages[2].content[0].content", 2),
    "no mark any more": (
        anthropic, edited("system.0", {"type": "text", "text": LONG}), "cache_control", None),
    "messages taken out": (anthropic, shortened, "messages[2].content[0].content", 1),
    "another model": (openai, edited("model", "gpt-4o-mini"), "model", 6),
    "a date in the first message": (
        openai, edited("messages.0.content", f"{LONG}Monday"), "messages[0].content", len(LONG)),
    "another argument of an old call": (
        openai, edited("messages.2.tool_calls.0.function.arguments", '{"city": "Oslo", "day": 1}'),
        "messages[2].tool_calls[0].function.arguments.*", 0),
    "another system prompt of Gemini": (
        gemini, edited("systemInstruction.parts.0.text", "You rhyme."),
        "systemInstruction.parts[0].text", 4),
    "thinking switched on": (
        anthropic, edited("thinking", {"type": "adaptive"}), "thinking", None),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_a_break_of_the_prefix_is_found(name: str, tmp_path: Path) -> None:
    made, change, place, byte = BREAKS[name]
    body = made(3)
    other = copy.deepcopy(body)
    change(other)
    code, found = judged(tmp_path, [body], [other], "--max-increase", "1000")
    [request] = found["requests"]
    assert code == 1
    assert (request["place"], request["byte"]) == (place, byte)
    assert 0 < request["cold_tokens"] <= request["base_tokens"]


def test_what_stands_before_the_break_is_not_cold(tmp_path: Path) -> None:
    body = anthropic(3)
    late, early = copy.deepcopy(body), copy.deepcopy(body)
    late["messages"][4]["content"][0]["content"] = "x"
    early["messages"][0]["content"] = "x"
    cold = [judged(tmp_path, [body], [it])[1]["cold_tokens"] for it in (late, early)]
    assert 0 < cold[0] < cold[1] < judged(tmp_path, [body], [body])[1]["base_tokens"] / 2


def sorted_keys(body: dict[str, Any]) -> None:
    kept = json.loads(json.dumps(body, sort_keys=True))
    body.clear()
    body.update(kept)


def reversed_keys(body: dict[str, Any]) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: turned(it) for name, it in reversed(value.items())}
        return [turned(it) for it in value] if isinstance(value, list) else value

    kept = turned(body)
    body.clear()
    body.update(kept)


def last_list(body: dict[str, Any]) -> list[Any]:
    found: list[Any] = body.get("messages") or body["contents"]
    return found


def appended(body: dict[str, Any]) -> None:
    is_gemini = "contents" in body
    text = {"parts": [{"text": "Thanks."}]} if is_gemini else {"content": "Thanks."}
    last_list(body).append({"role": "user", **text})


def other_ids(body: dict[str, Any]) -> None:
    text = json.dumps(body).replace('"t0"', '"call_x"').replace('"t1"', '"call_y"')
    body.update(json.loads(text))


def spaced_arguments(body: dict[str, Any]) -> None:
    for message in last_list(body):
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = '{ "day":1,\n"city":"Rome" }'


def as_blocks(body: dict[str, Any]) -> None:
    for message in last_list(body):
        if isinstance(message.get("content"), str) and message["role"] == "user":
            message["content"] = [{"type": "text", "text": message["content"]}]


def marks_moved(body: dict[str, Any]) -> None:
    if isinstance(body.get("system"), list):
        mark = body["system"][0].pop("cache_control")
        body["tools"][-1]["cache_control"] = mark


HARMLESS: dict[str, Change] = {
    "sorted keys": sorted_keys,
    "keys the other way round": reversed_keys,
    "a message more": appended,
    "ids of calls": other_ids,
    "white space in arguments": spaced_arguments,
    "text as a block": as_blocks,
    "marks moved": marks_moved,
    "temperature": edited("temperature", 0.1),
    "the most output": edited("max_tokens", 600),
    "metadata": edited("metadata", {"user_id": "u"}),
    "a stream": edited("stream", True),  # noqa: FBT003  # of JSON
    "an end": edited("stop", ["END"]),
}


def test_a_harmless_change_is_none(tmp_path: Path) -> None:
    for made in (anthropic, openai, gemini):
        for turns in (0, 2):
            for name, change in HARMLESS.items():
                title = f"{made.__name__}, {turns} turns, {name}.json"
                body = made(turns)
                written(tmp_path / "base", [body], title)
                change(body)
                written(tmp_path / "head", [body], title)
    words = ["gate", str(tmp_path / "base"), str(tmp_path / "head"), "--json"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    requests = json.loads(done.stdout)["requests"]
    assert len(requests) >= 50
    assert [(it["name"], it["place"]) for it in requests if it["cold_tokens"] or it["place"]] == []
    assert done.exit_code == 0


def test_white_space_and_escapes_of_json_are_no_change(tmp_path: Path) -> None:
    body = openai(2)
    written(tmp_path / "base", [body], "a.json")
    (tmp_path / "head").mkdir()
    text = json.dumps(body, indent=4).replace("Rome", "\\u0052ome")
    (tmp_path / "head" / "a.json").write_text(text, "utf-8")
    words = ["gate", str(tmp_path / "base"), str(tmp_path / "head")]
    assert CliRunner().invoke(app, words).exit_code == 0


def test_a_prompt_that_changes_each_turn_is_told_from_one_that_changed_once(tmp_path: Path) -> None:
    old = [anthropic(nth) for nth in range(3)]
    once, each = copy.deepcopy(old), copy.deepcopy(old)
    for nth in range(3):
        once[nth]["system"][0]["text"] = f"New. {LONG}"
        each[nth]["system"][0]["text"] = f"It is 10:0{nth}. {LONG}"
    _, found = judged(tmp_path, old, once)
    assert [it["each_turn"] for it in found["requests"]] == [False, False, False]
    _, found = judged(tmp_path, old, each)
    assert [it["each_turn"] for it in found["requests"]] == [False, True, True]
    assert found["requests"][1]["byte"] == len("It is 10:0")


def test_more_input_than_allowed_fails(tmp_path: Path) -> None:
    body = openai(1)
    other = copy.deepcopy(body)
    other["messages"].append({"role": "user", "content": LONG})
    code, found = judged(tmp_path, [body], [other])
    assert (code, found["cold_tokens"]) == (1, 0)
    assert "input tokens" in found["faults"][0]
    assert judged(tmp_path, [body], [other], "--max-increase", "500")[0] == 0
    assert float(found["dollars"]) > float(found["base_dollars"])


def test_a_change_on_purpose_can_be_let_through(tmp_path: Path) -> None:
    body = anthropic(1)
    other = copy.deepcopy(body)
    other["system"][0]["text"] = "Now short."
    assert judged(tmp_path, [body], [other])[0] == 1
    assert judged(tmp_path, [body], [other], "--max-cold", "100")[0] == 0


def test_names_that_one_version_has_alone_are_said(tmp_path: Path) -> None:
    written(tmp_path / "base", [openai(0)], "old.json")
    written(tmp_path / "head", [openai(0)], "new.json")
    for folder in ("base", "head"):
        written(tmp_path / folder, [openai(0)], "same.json")
    words = ["gate", str(tmp_path / "base"), str(tmp_path / "head")]
    done = CliRunner().invoke(app, words)
    assert "in BASE alone: 1, as old.json" in done.output
    assert "in HEAD alone: 1, as new.json" in done.output


def test_a_table_for_a_pull_request_has_inert_names(tmp_path: Path) -> None:
    name = "a|<img src=x>`@someone`\u202e.json"
    body = openai(1)
    written(tmp_path / "base", [body], name)
    body["messages"][0]["content"] = "x"
    written(tmp_path / "head", [body], name)
    words = ["gate", str(tmp_path / "base"), str(tmp_path / "head"), "--markdown"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    [row] = [it for it in done.output.splitlines() if "json" in it and it.startswith("|")]
    assert row.count("|") == 7
    assert not {"<", "`", "@", "\u202e"} & set(row)
    assert "failed" in done.output


def test_two_commits_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in (("AUTHOR", "a"), ("COMMITTER", "a")):
        monkeypatch.setenv(f"GIT_{name}_NAME", value)
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.com")

    def git(*words: str) -> None:
        subprocess.run(["git", *words], check=True, capture_output=True)  # noqa: S607

    git("init", "-q", "-b", "main")
    body = openai(1)
    for content in (body, {**body, "model": "gpt-4o-mini"}):
        written(tmp_path / "requests", [content], "a.json")
        git("add", ".")
        git("commit", "-q", "-m", "requests")
    words = ["gate", "HEAD~1", "HEAD", "--path", "requests"]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 1, done.output
    assert json.loads(done.stdout)["requests"][0]["place"] == "model"
    assert CliRunner().invoke(app, ["gate", "HEAD", "HEAD", "--path", "requests"]).exit_code == 0
    for bad in (["gate", "HEAD", "HEAD"], ["gate", "none", "HEAD", "--path", "requests"]):
        assert CliRunner().invoke(app, bad).exit_code == 2


def test_the_table_fits_a_narrow_terminal(tmp_path: Path) -> None:
    body = anthropic(2)
    other = copy.deepcopy(body)
    other["system"][0]["text"] = "x"
    base, head = written(tmp_path / "base", [body]), written(tmp_path / "head", [other])
    for columns in ("44", "80"):
        done = CliRunner().invoke(app, ["gate", base, head], env={"COLUMNS": columns})
        assert max(map(len, done.output.splitlines())) <= int(columns)
