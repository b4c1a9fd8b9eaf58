"""pi: messages in a tree of entries, each with the usage of its call.

Where a session's usage is the sum of a turn, its parts are more than its total, and it is no bill.
A compaction keeps what is behind `firstKeptEntryId`; an entry whose parent is not the one before
it begins another branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.transcripts.thread import (
    Json,
    Reading,
    Thread,
    member,
    objects,
    text_message,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAME: Final = "pi"
FAILED: Final = "a call that failed or was stopped"
SHOWN: Final = frozenset({"message", "custom_message", "branch_summary", "compaction"})


def is_entry(entry: Json) -> bool:
    """True for the head of a session."""
    return entry.get("type") == "session" and "cwd" in entry and "id" in entry


def conversations(entries: Iterable[Json], name: str, reading: Reading) -> Iterator[Thread]:
    """The conversation of a file."""
    thread = Thread(reading, name, NAME, "anthropic")
    places: dict[str, int] = {}
    last: object = None
    for entry in entries:
        own, parent = entry.get("id"), entry.get("parentId")
        if entry.get("type") == "session" or not isinstance(own, str):
            continue
        place = places.get(parent) if isinstance(parent, str) else None
        if parent != last and place is not None and thread.may_repeat(len(places)):
            thread.cut(thread.messages[:place])
            places = {it: n for it, n in places.items() if n <= place}
        before = len(thread.messages)
        if entry.get("type") == "compaction":
            first = places.get(f"before {entry.get('firstKeptEntryId')}", before)
            thread.cut([text_message(entry.get("summary")), *thread.messages[first:]])
            places = {}
        elif entry.get("type") in SHOWN:
            _message(thread, entry, reading)
        places[own] = len(thread.messages)
        places[f"before {own}"] = before
        last = own
    yield thread


def _message(thread: Thread, entry: Json, reading: Reading) -> None:
    message = member(entry, "message")
    role, content = message.get("role"), message.get("content", entry.get("content"))
    if entry.get("type") == "branch_summary":
        thread.add(text_message(entry.get("summary")))
    elif role == "assistant":
        if message.get("stopReason") in {"error", "aborted"}:
            reading.skipped[FAILED] += 1
            return
        reply = {"role": "assistant", "content": blocks(content)}
        model, usage = message.get("model"), message.get("usage")
        thread.call([reply], reply, usage, model, name=entry.get("id"), at=entry.get("timestamp"))
    elif role == "toolResult":
        result = {"type": "tool_result", "tool_use_id": message.get("toolCallId")}
        thread.add({"role": "user", "content": [{**result, "content": blocks(content)}]})
    elif role == "bashExecution":
        thread.add(text_message(f"{message.get('command')}\n{message.get('output')}"))
    else:
        thread.add({"role": "user", "content": blocks(content)})


def blocks(content: object) -> list[Json]:
    """The blocks of a message as those of Claude's API."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_block(it) for it in objects(content)]


def _block(block: Json) -> Json:
    kind: Any = block.get("type")
    if kind == "toolCall":
        given = block.get("arguments")
        used = {"id": block.get("id"), "name": block.get("name"), "input": given or {}}
        return {"type": "tool_use", **used}
    if kind == "thinking":
        signed = {"signature": block.get("thinkingSignature") or ""}
        return {"type": "thinking", "thinking": block.get("thinking") or "", **signed}
    if kind == "image" and "data" in block:
        source = {"media_type": block.get("mimeType"), "data": block["data"]}
        return {"type": "image", "source": {"type": "base64", **source}}
    return {"type": "text", "text": block.get("text") or ""} if kind == "text" else block
