"""opencode: an export of a session, or messages and parts in files of their own.

An answer has a `step-finish` for each call, with its tokens. A summary cuts the history. Sub-agents
are sessions of their own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tokenctx._cli.evaluation.transcripts.thread import Json, Reading, Thread, member, objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAME: Final = "opencode"
SUMMARY: Final = "a call that makes a summary: its request is not in the transcript"


def is_entry(entry: Json) -> bool:
    """True for an export, or for a message or part of the store."""
    is_export = isinstance(entry.get("info"), dict) and isinstance(entry.get("messages"), list)
    return is_export or ("sessionID" in entry and ("role" in entry or "messageID" in entry))


def conversations(entries: Iterable[Json], name: str, reading: Reading) -> Iterator[Thread]:
    """The conversations of an export, or of messages and parts by their session."""
    sessions: dict[str, dict[str, Json]] = {}
    parts: dict[str, list[Json]] = {}
    for entry in entries:
        if isinstance(entry.get("messages"), list):
            own = str(member(entry, "info").get("id") or name)
            for message in objects(entry["messages"]):
                info = member(message, "info")
                key = str(info.get("id") or len(sessions.get(own, ())))
                sessions.setdefault(own, {})[key] = info
                parts.setdefault(key, []).extend(objects(message.get("parts")))
        elif "messageID" in entry:
            parts.setdefault(str(entry["messageID"]), []).append(entry)
        elif "role" in entry:
            sessions.setdefault(str(entry.get("sessionID")), {})[str(entry.get("id"))] = entry
    for own, messages in sessions.items():
        thread = Thread(reading, own, NAME, "anthropic")
        # Ids are made so that they are in the order of time.
        for key in sorted(messages):
            _message(thread, messages[key], parts.get(key, []))
        yield thread


def _message(thread: Thread, info: Json, parts: list[Json]) -> None:
    parts = sorted(parts, key=lambda it: str(it.get("id") or ""))
    if info.get("role") != "assistant":
        texts = [_text(it) for it in parts if it.get("type") == "text" and not it.get("ignored")]
        if texts:
            thread.add({"role": "user", "content": texts})
        return
    if info.get("summary") is True:
        thread.reading.skipped[SUMMARY] += 1
        texts = [_text(it) for it in parts if it.get("type") == "text"]
        thread.cut([{"role": "user", "content": texts}])
        return
    model = info.get("modelID")
    blocks: list[Json] = []
    results: list[Json] = []
    has_steps = any(it.get("type") == "step-finish" for it in parts)
    for part in [*parts, *([] if has_steps else [{**info, "type": "step-finish"}])]:
        kind = part.get("type")
        if kind == "tool":
            call, result = _tool(part)
            blocks.append(call)
            results.append(result)
        elif kind == "reasoning":
            blocks.append({"type": "thinking", "thinking": part.get("text") or "", "signature": ""})
        elif kind == "text":
            blocks.append(_text(part))
        elif kind == "step-finish":
            reply = {"role": "assistant", "content": blocks}
            at = member(info, "time").get("created")
            thread.call([reply], reply, part.get("tokens"), model, name=part.get("id"), at=at)
            if results:
                thread.add({"role": "user", "content": results})
            blocks, results = [], []


def _text(part: Json) -> Json:
    return {"type": "text", "text": part.get("text") or ""}


def _tool(part: Json) -> tuple[Json, Json]:
    state, own = member(part, "state"), part.get("callID")
    output = state.get("output", state.get("error"))
    text = output if isinstance(output, str) else json.dumps(output)
    call = {"type": "tool_use", "id": own, "name": part.get("tool"), "input": state.get("input")}
    return call, {"type": "tool_result", "tool_use_id": own, "content": text}
