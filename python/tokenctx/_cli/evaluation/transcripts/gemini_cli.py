"""gemini-cli: one JSON object with `messages`, or lines that are folded into one.

A line with an id that was there replaces its message, `$rewindTo` takes a message and what is
behind it away, and `$set` may replace all of them, as a compression does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.transcripts.thread import Json, Reading, Thread, member, objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAME: Final = "gemini-cli"


def is_entry(entry: Json) -> bool:
    """True for a session, or for the head of its lines."""
    is_head = "sessionId" in entry and "type" not in entry
    return is_head and bool({"projectHash", "startTime"} & entry.keys())


def conversations(entries: Iterable[Json], name: str, reading: Reading) -> Iterator[Thread]:
    """The conversation of a file."""
    thread = Thread(reading, name, NAME, "gemini")
    records: dict[str, Json] = {}
    told: set[str] = set()
    for entry in entries:
        patch = member(entry, "$set") or (entry if "sessionId" in entry else {})
        if isinstance(patch.get("messages"), list):
            if records:
                thread.may_repeat(len(records))
                _tell(thread, records, told)
                thread.cut([])
            records = {_id(it, n): it for n, it in enumerate(objects(patch["messages"]))}
        elif isinstance(entry.get("$rewindTo"), str):
            _tell(thread, records, told)
            ids = list(records) if thread.may_repeat(2 * len(records)) else []
            kept = ids[: ids.index(entry["$rewindTo"])] if entry["$rewindTo"] in ids else []
            records = {it: records[it] for it in kept}
            thread.cut([])
        elif "type" in entry:
            records[_id(entry, len(records))] = entry
    _tell(thread, records, told)
    yield thread


def _id(record: Json, number: int) -> str:
    return str(record.get("id") or f"#{number}")


def _tell(thread: Thread, records: dict[str, Json], told: set[str]) -> None:
    """The messages in their order; those of which the calls were `told` before are history."""
    for own, record in records.items():
        parts = _parts(record.get("content"))
        if record.get("type") == "user":
            thread.add({"role": "user", "parts": parts})
        if record.get("type") != "gemini":
            continue
        calls = objects(record.get("toolCalls"))
        used = [
            {"functionCall": {"name": it.get("name"), "args": it.get("args") or {}}} for it in calls
        ]
        reply = {"role": "model", "parts": [*parts, *used]}
        if own in told:
            thread.add(reply)
        else:
            tokens, model = record.get("tokens"), record.get("model")
            at = record.get("timestamp")
            thread.call([reply], reply, tokens, model, name=(thread.name, own), at=at)
            told.add(own)
        results = [part for it in calls for part in _parts(it.get("result"))]
        if results:
            thread.add({"role": "user", "parts": results})


def _parts(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"text": content}] if content else []
    given = content if isinstance(content, list) else [content]
    return [it if isinstance(it, dict) else {"text": str(it)} for it in given if it]
