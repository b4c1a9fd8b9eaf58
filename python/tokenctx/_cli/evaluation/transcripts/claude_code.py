"""Claude Code: a line for each block of an answer and for each message, in a tree of `uuid`s.

An answer is joined by `message.id`, and its last usage counts: earlier lines have that of its
beginning. Sub-agents are told apart by `agentId`, or where their first line begins a tree of its
own. A summary (`isCompactSummary`) cuts the history; a prompt whose parent is older than the last
answer goes back to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tokenctx._cli.evaluation.transcripts.thread import Json, Reading, Thread, member, objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAME: Final = "claude-code"
SYNTHETIC: Final = "an answer that the agent has made up itself"


def is_entry(entry: Json) -> bool:
    """True for a line with a message of this agent."""
    is_message = entry.get("type") in {"user", "assistant"} and isinstance(
        entry.get("message"), dict
    )
    return is_message and bool({"uuid", "parentUuid", "sessionId"} & entry.keys())


@dataclass(slots=True)
class _Chat:
    """One conversation, and the answer whose lines are being read with what came between them."""

    thread: Thread
    answer: Json = field(default_factory=dict)
    blocks: list[Json] = field(default_factory=list)
    results: list[Json] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    """The messages there were behind each line, since the last cut."""
    at: object = None
    """The time of the last line of the answer."""
    answered: int = 0
    """The messages there were behind the last answer."""

    def flush(self) -> None:
        """End the answer that is read, as a call."""
        answer, self.answer = self.answer, {}
        if answer:
            reply = {"role": "assistant", "content": self.blocks}
            name, is_final = answer.get("id"), answer.get("stop_reason") is not None
            self.thread.call(
                [reply],
                reply,
                answer.get("usage"),
                answer.get("model"),
                name=name if isinstance(name, str) else None,
                is_final=is_final,
                at=self.at,
            )
            self.answered = len(self.thread.messages)
        self.thread.add(*self.results)
        self.places |= dict.fromkeys(self.waiting, len(self.thread.messages))
        self.blocks, self.results, self.waiting = [], [], []

    def assistant(self, message: Json) -> None:
        """A line of an answer, the next or that of before."""
        if self.answer and message.get("id") != self.answer.get("id"):
            self.flush()
        content = message.get("content")
        is_text = isinstance(content, str)
        self.blocks += [{"type": "text", "text": content}] if is_text else objects(content)
        self.answer = message

    def user(self, entry: Json, message: Json) -> None:
        """A message of the user, or results of tools, which may come between lines of an answer."""
        content = message.get("content")
        given = {"role": "user", "content": content if isinstance(content, (str, list)) else ""}
        if any(it.get("type") == "tool_result" for it in objects(content)):
            self.results.append(given)
            return
        self.flush()
        place = self.places.get(str(entry.get("parentUuid")))
        if entry.get("isCompactSummary") is True:
            self.cut([])
        elif place is not None and place < self.answered:
            self.cut(self.thread.messages[:place])
        self.thread.add(given)

    def cut(self, messages: list[Json]) -> None:
        """The history is `messages` from here on."""
        if not self.thread.may_repeat(len(self.places)):
            messages, self.places = [], {}
        self.thread.cut(messages)
        self.places = {name: it for name, it in self.places.items() if it <= len(messages)}
        self.answered = 0


def conversations(entries: Iterable[Json], name: str, reading: Reading) -> Iterator[Thread]:
    """The conversations of a transcript: the main one first."""
    chats: dict[str, _Chat] = {}
    keys: dict[str, str] = {}
    for entry in entries:
        message = member(entry, "message")
        uuid, parent = str(entry.get("uuid")), str(entry.get("parentUuid"))
        key = str(entry.get("sessionId") or "")
        if entry.get("isSidechain") is True or entry.get("agentId"):
            key = keys.get(parent) or f"{key}/{entry.get('agentId') or uuid}"
        keys[uuid] = key if "/" in key else ""
        chat = chats.get(key)
        if chat is None:
            title = f"{name}/{key.rpartition('/')[2]}" if "/" in key else name
            chat = chats[key] = _Chat(Thread(reading, title, NAME, "anthropic"))
        if entry.get("type") == "assistant" and message:
            if entry.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
                reading.skipped[SYNTHETIC] += 1
                continue
            chat.assistant(message)
            chat.at = entry.get("timestamp")
        elif entry.get("type") == "user" and message:
            chat.user(entry, message)
        chat.waiting.append(uuid)
    for chat in chats.values():
        chat.flush()
        yield chat.thread
