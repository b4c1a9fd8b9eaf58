"""The month on one page: what was paid again and why, the bill beside it, nothing foreign alive."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tokenctx._cli.commands import app

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("duckdb", reason="python3 dev.py clients has it")
pytest.importorskip("pyarrow", reason="python3 dev.py clients has it")

START = 1_764_000_000
HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b[2J'\""
TEXT = "nobody may read this"


def call(nth: int, at: float, tokens: int, read: int, **more: Any) -> dict[str, Any]:
    """A call of a conversation that grows by two messages a turn."""
    messages = [
        {"role": ("user", "assistant")[it % 2], "content": f"{TEXT} {it}"}
        for it in range(2 * nth + 1)
    ]
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": tokens - read - 10,
        "output_tokens": 50,
    }
    return {
        "id": f"{more.get('conversation_id', 'a')}-{nth}",
        "model": "claude-sonnet-4-5",
        "conversation_id": "a",
        "created": START + at,
        "request": {"system": "You help.", "messages": messages},
        "usage": usage,
        "input_tokens": tokens,
        **more,
    }


def told(path: Path, calls: list[dict[str, Any]], *words: str) -> dict[str, Any]:
    path.write_text("".join(json.dumps(it) + "\n" for it in calls), "utf-8")
    done = CliRunner().invoke(app, ["cost", str(path), "--json", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def changed(body: dict[str, Any], place: int) -> dict[str, Any]:
    messages = [*body["messages"]]
    messages[place] = {**messages[place], "content": "another"}
    return {**body, "messages": messages}


def without_text(it: dict[str, Any]) -> dict[str, Any]:
    return {**it, "request": {}}


def usage_without_cache(it: dict[str, Any]) -> dict[str, Any]:
    return {**it, "usage": {"input_tokens": it["input_tokens"], "output_tokens": 50}}


FIRST = call(0, 0, 20_000, 0)
COLD = call(1, 100, 21_000, 0)
CAUSES: dict[str, tuple[list[dict[str, Any]], dict[str, int]]] = {
    "nothing, as all of it was read": ([FIRST, call(1, 100, 21_000, 20_000)], {}),
    "idle": ([FIRST, call(1, 400, 21_000, 0)], {"idle": 20_000}),
    "evicted": ([FIRST, COLD], {"evicted": 20_000}),
    "model": ([FIRST, {**COLD, "model": "claude-opus-4-5"}], {"model": 20_000}),
    "context": (
        [FIRST, {**COLD, "request": {**COLD["request"], "system": "Now it is noon."}}],
        {"context": 20_000},
    ),
    "message": (
        [
            *(FIRST, call(1, 9, 21_000, 20_000)),
            {**call(2, 20, 22_000, 0), "request": changed(call(2, 0, 0, 0)["request"], 1)},
        ],
        {"message": 21_000},
    ),
    "gone, as there are no times": (
        [{**FIRST, "created": None}, {**COLD, "created": None}],
        {"gone": 20_000},
    ),
    "off": ([usage_without_cache(it) for it in (FIRST, COLD)], {"off": 20_000}),
    "tail": ([FIRST, call(1, 100, 21_000, 19_500)], {"tail": 500}),
    "unknown": ([without_text(it) for it in (FIRST, COLD)], {"unknown": 20_000}),
    "another thread of the session": (
        [FIRST, {**COLD, "request": {"system": "A", "messages": [{"role": "user"}]}}],
        {},
    ),
    "another conversation": ([FIRST, {**COLD, "conversation_id": "b"}], {}),
}


@pytest.mark.parametrize("name", CAUSES)
def test_what_was_paid_again_has_its_cause(name: str, tmp_path: Path) -> None:
    calls, causes = CAUSES[name]
    found = told(tmp_path / "log.jsonl", calls)
    assert {it["cause"]: it["tokens"] for it in found["paid_again"]} == causes
    sums = found["total"]
    assert sum(it["nano_dollars"] for it in found["paid_again"]) <= Decimal(sums["dollars"]) * 10**9


def test_a_table_without_text_has_no_cause_but_its_times(tmp_path: Path) -> None:
    flat = [
        {"model": "claude-sonnet-4-5", "session_id": "a", "created": it["created"], **it["usage"]}
        for it in (FIRST, COLD, call(2, 4000, 22_000, 0))
    ]
    found = told(tmp_path / "log.jsonl", flat)
    assert {it["cause"]: it["tokens"] for it in found["paid_again"]} == {
        "idle": 21_000,
        "unknown": 20_000,
    }


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in {"meta", "rect"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "rect":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(tmp_path: Path, calls: list[dict[str, Any]], *words: str) -> Page:
    told(tmp_path / "log.jsonl", calls, "--html", str(tmp_path / "page.html"), *words)
    content = (tmp_path / "page.html").read_text("utf-8")
    assert TEXT not in content
    return Page(content)


def test_names_are_inert_and_nothing_comes_from_elsewhere(tmp_path: Path) -> None:
    names = {"model": f"m{HOSTILE}", "tenant": HOSTILE, "conversation_id": HOSTILE}
    bodies = {"tool_calls": [{"id": "t", "function": {"name": HOSTILE}}], "role": "assistant"}
    results = {"role": "tool", "tool_call_id": "t", "content": TEXT}
    request = {"messages": [*FIRST["request"]["messages"], bodies, results]}
    bill = tmp_path / "bill.csv"
    bill.write_text(f'date,model,cost\n2025-11-24,"{HOSTILE[:-2]}",1.5\n', "utf-8")
    made = page(
        tmp_path,
        [FIRST, {**FIRST, **names}, {**COLD, **names, "id": "x", "request": request}],
        "--bill",
        str(bill),
        "--model",
        HOSTILE,
    )
    assert made.open == []
    assert {"script", "img", "link", "iframe", "object", "style"} & set(made.tags) == {"style"}
    assert not [it for it in made.attributes if it[0].startswith("on") or it[0] in {"src", "href"}]
    assert "alert(1)" in made.text, "the names are there, as text"
    assert not {"\u202e", "\x1b"} & set(made.text)


def test_the_sums_of_the_page_are_those_of_the_ledger(tmp_path: Path) -> None:
    calls = [call(nth, 400 * nth, 20_000 + 1_000 * nth, 0) for nth in range(5)]
    made = page(tmp_path, calls)
    whole = Decimal(told(tmp_path / "log.jsonl", calls)["total"]["dollars"])
    assert f"${whole:.2f}" in made.text
    keys = re.findall(r"(?:cache|one|again|input|output|fees) \$([\d.]+) \d+ %", made.text)
    assert len(keys) == 6
    assert abs(sum(map(Decimal, keys)) - whole) <= Decimal("0.03"), "each is rounded to a cent"
    assert "idle for longer than the cache lives" in made.text


def test_an_hour_would_have_kept_what_went_cold(tmp_path: Path) -> None:
    calls = [call(nth, 900 * nth, 100_000, 0) for nth in range(4)]
    path = tmp_path / "page.html"
    found = told(tmp_path / "log.jsonl", calls, "--html", str(path))["elsewhere"]
    hour = next(it for it in found if it["name"] == "caches of an hour")
    # Four times written at 3.75; then once at 6 and three times read at 0.3, each a million.
    fresh = 4 * 10 * Decimal(3) + 4 * 50 * Decimal(15)
    written = Decimal(4 * 99_990)
    assert Decimal(hour["dollars_here"]) == (written * Decimal("3.75") + fresh) / 10**6
    first, kept = Decimal(99_990), Decimal(3 * 99_990)
    expected = (first * 6 + kept * Decimal("0.3") + fresh) / 10**6
    assert Decimal(hour["dollars"]) == expected


def test_the_bill_is_compared_and_rows_explain_it(tmp_path: Path) -> None:
    calls = [
        {**FIRST, "created": "2026-11-01T10:00:00Z"},
        {**COLD, "created": "2026-11-02T10:00:00Z", "conversation_id": "b"},
        {**FIRST, "id": "o", "model": "no-such-model", "created": "2026-11-02T10:00:00Z"},
    ]
    ours = Decimal(told(tmp_path / "log.jsonl", calls[:1])["total"]["dollars"])
    bill = tmp_path / "bill.csv"
    bill.write_text(
        "usage_date_utc,model,token_type,cost_usd\n"
        f"2026-11-01,claude-sonnet-4-5-20250929,input,{ours / 2}\n"
        f"2026-11-01,claude-sonnet-4-5-20250929,output,{ours / 2}\n"
        "2026-11-02,claude-sonnet-4-5,input,9.5\n"
        "2026-11-02,no-such-model,input,1\n"
        "2026-11-03,claude-sonnet-4-5,input,2\n",
        "utf-8",
    )
    found = told(tmp_path / "log.jsonl", calls, "--bill", str(bill))["bill"]
    why = {(it["day"], it["model"]): it["why"] for it in found}
    assert why["2026-11-01", "claude-sonnet-4-5"] == ""
    assert "missing in the files" in why["2026-11-02", "claude-sonnet-4-5"]
    assert "no price" in why["2026-11-02", "no-such-model"]
    assert "no call" in why["2026-11-03", "claude-sonnet-4-5"]
    assert next(iter(why)) == ("2026-11-02", "claude-sonnet-4-5"), "the largest comes first"


def test_a_file_that_is_no_bill_is_refused(tmp_path: Path) -> None:
    bill = tmp_path / "bill.csv"
    bill.write_text("a,b\n1,2\n", "utf-8")
    (tmp_path / "log.jsonl").write_text(json.dumps(FIRST) + "\n", "utf-8")
    words = ["cost", str(tmp_path / "log.jsonl"), "--bill", str(bill)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "no cost export" in done.stderr


def test_a_page_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(json.dumps(FIRST) + "\n", "utf-8")
    words = ["cost", str(tmp_path / "log.jsonl"), "--html", str(tmp_path / "none" / "page.html")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "cannot be written" in done.stderr
