"""Codex: items of the Responses API, and counts of tokens beside them.

A file of today has `token_usage_record`s, one a response; those before have `token_count` events,
which are repeated and have the sum of the session beside the last call. The oldest files have the
items alone, without usage. A sub-agent has a file of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tokenctx._cli.evaluation.transcripts.thread import (
    NO_ANSWER,
    REPEATED,
    Json,
    Reading,
    Thread,
    member,
    objects,
)
from tokenctx.usage.reading import number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAME: Final = "codex"
WRAPPED: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context"})
ANSWERS: Final = frozenset(
    {"reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call"}
)
"""Types of items that the model writes; a message is one too, if it is the assistant's."""
ITEMS: Final = ANSWERS | {"message", "function_call_output", "custom_tool_call_output"}
WORDS: Final = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")


def is_entry(entry: Json) -> bool:
    """True for a line of this agent, in either form."""
    if isinstance(entry.get("payload"), dict):
        return entry.get("type") in WRAPPED
    is_head = "timestamp" in entry and "id" in entry and {"instructions", "git"} & entry.keys()
    return bool(is_head and "type" not in entry) or entry.get("record_type") == "state"


class _Session:
    def __init__(self, name: str, reading: Reading, *, has_records: bool) -> None:
        self.thread = Thread(reading, name, NAME, "openai-responses")
        self.reading = reading
        self.items: list[Json] = []
        self.model: object = ""
        self.sums: Json = {}
        self.has_records = has_records
        self.at: object = None

    def entry(self, entry: Json) -> None:
        kind, payload = entry.get("type"), member(entry, "payload")
        self.at = entry.get("timestamp")
        if kind == "turn_context":
            self.model = payload.get("model") or self.model
        elif kind == "token_usage_record":
            self.called(payload.get("usage"), payload.get("response_id"))
        elif kind == "compacted":
            self.compacted(payload)
        elif kind == "event_msg":
            self.event(entry, payload)
        else:
            item = payload if kind == "response_item" else entry
            if item.get("type") in ITEMS:
                self.items.append(item)

    def event(self, entry: Json, payload: Json) -> None:
        info = member(payload, "info")
        if payload.get("type") == "thread_rolled_back":
            self.rolled_back(number_of(payload.get("num_turns")) or 0)
        if payload.get("type") != "token_count" or not info:
            return
        sums, last = member(info, "total_token_usage"), member(info, "last_token_usage")
        if self.has_records:
            return
        if sums and sums == self.sums:
            self.reading.skipped[REPEATED] += 1
            return
        before, self.sums = self.sums, sums
        if not last:
            numbers = {it: number_of(sums.get(it)) or 0 for it in WORDS}
            last = {it: max(0, n - (number_of(before.get(it)) or 0)) for it, n in numbers.items()}
        self.called(last, (entry.get("timestamp"), str(sums)))

    def called(self, usage: object, name: object) -> None:
        """The items since the last call, up to the answer, are a call."""
        are_answers = [_is_answer(it) for it in self.items]
        if True not in are_answers:
            self.reading.skipped[NO_ANSWER] += 1
            self.thread.add(*self.items)
            self.items = []
            return
        first = are_answers.index(True)
        answer = [it for it, is_answer in zip(self.items, are_answers, strict=True) if is_answer]
        later = [it for it in self.items[first:] if not _is_answer(it)]
        self.thread.add(*self.items[:first])
        name = name if isinstance(name, (str, tuple)) else None
        self.thread.call(answer, {"output": answer}, usage, self.model, name=name, at=self.at)
        self.items = later

    def compacted(self, payload: Json) -> None:
        """The history is what replaces it, or its summary."""
        kept = objects(payload.get("replacement_history"))
        summary = payload.get("message")
        if not kept and isinstance(summary, str) and summary:
            kept = [{"type": "message", "role": "user", "content": summary}]
        self.items = []
        self.thread.cut(kept)

    def rolled_back(self, turns: int) -> None:
        """The last turns of the user are undone."""
        self.thread.add(*self.items)
        messages, self.items = self.thread.messages, []
        places = [n for n, it in enumerate(messages) if it.get("role") == "user"]
        if turns and places:
            self.thread.cut(messages[: places[-min(turns, len(places))]])


def _is_answer(item: Json) -> bool:
    kind = item.get("type")
    return kind in ANSWERS or (kind == "message" and item.get("role") == "assistant")


def conversations(entries: Iterable[Json], name: str, reading: Reading) -> Iterator[Thread]:
    """The conversation of a file."""
    lines = list(entries)
    has_records = any(it.get("type") == "token_usage_record" for it in lines)
    session = _Session(name, reading, has_records=has_records)
    for entry in lines:
        session.entry(entry)
    yield session.thread
