"""One conversation of an agent while its transcript is read: messages, and calls as steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tokenctx.usage.normal import normalize_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenctx._results.estimates import Dialect

Json = dict[str, Any]

REPEATED: Final = "a count that the transcript repeats"
SUM: Final = "the sum of several calls: more than the total beside it"
NO_USAGE: Final = "an answer without usage"
NO_ANSWER: Final = "a bill whose answer is not in the transcript"
TOO_MANY_BRANCHES: Final = "a conversation with too many branches to be repeated"
MOST_REPEATED: Final = 200_000
"""Messages and places that may be gone through again after cuts, so that no file makes it long."""


@dataclass(slots=True)
class Reading:
    """The state of a transcript that is read: what was counted before, what is left out and why.

    Attributes:
        seen: Names of calls, also of other files: an agent that resumes a session copies it.
    """

    seen: set[object] = field(default_factory=set)
    skipped: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Thread:
    """One conversation: the main one, or that of a sub-agent.

    Attributes:
        messages: Those that the next call would send, without the reply of the last one.
        steps: The calls so far, in the form of recorded steps.
    """

    reading: Reading
    name: str
    agent: str
    dialect: Dialect
    messages: list[Json] = field(default_factory=list)
    steps: list[Json] = field(default_factory=list)
    _told: int = 0
    _is_cut: bool = False
    _repeated: int = 0

    def add(self, *messages: Json) -> None:
        """Messages that the next call sends."""
        self.messages += messages

    def cut(self, messages: list[Json]) -> None:
        """The history is `messages` from here on: it was summarised, or another branch begins."""
        kept = messages if self.may_repeat(len(messages)) else []
        self.messages, self._told, self._is_cut = list(kept), 0, bool(self.steps)

    def may_repeat(self, count: int) -> bool:
        """True if so many more may be gone through again; counted as left out once they may not."""
        had = self._repeated > MOST_REPEATED
        self._repeated += count
        is_over = self._repeated > MOST_REPEATED
        if is_over and not had:
            self.reading.skipped[TOO_MANY_BRANCHES] += 1
        return not is_over

    def call(
        self,
        sent_back: list[Json],
        reply: Json | None,
        usage: object,
        model: object,
        *,
        name: object = None,
        is_final: bool = True,
        at: object = None,
    ) -> None:
        """A call with the messages so far, and its answer as it is `sent_back` with later ones.

        A `name` that was seen is that of a call whose bill was counted before; `at` is its time.
        """
        billed = self._billed(usage, name)
        # An answer whose bill is not believed is a message as any other.
        if billed is not None:
            step: Json = {
                "new_messages": self.messages[self._told :],
                "reply": reply,
                "usage": usage,
                "model": model if isinstance(model, str) else "",
                "input_tokens": billed[0],
                "output_tokens": billed[1],
                "output_final": is_final,
                **({"created": at} if isinstance(at, (str, int, float)) else {}),
            }
            self.steps.append({**step, "compacted": True} if self._is_cut else step)
            self._told, self._is_cut = len(self.messages), False
        self.messages += sent_back

    def _billed(self, usage: object, name: object) -> tuple[int, int] | None:
        found = normalize_usage(usage)
        reason = ""
        if found is None or found.input_tokens <= 0:
            reason = NO_USAGE
        elif name is not None and (self.agent, name) in self.reading.seen:
            reason = REPEATED
        elif (total := found.reported_total_tokens) and found.total_tokens > total + total // 50:
            reason = SUM
        if reason or found is None:
            self.reading.skipped[reason] += 1
            return None
        if name is not None:
            self.reading.seen.add((self.agent, name))
        found = found.last_call or found
        return found.input_tokens, found.output_tokens

    def lines(self) -> Iterator[Json]:
        """The conversation as a line of recorded steps; none without a call."""
        if self.steps:
            yield {
                "id": self.name,
                "kind": self.agent,
                "dialect": self.dialect,
                "system_known": False,
                "steps": self.steps,
            }


def objects(value: object) -> list[Json]:
    """The objects of a list; none of what is no list."""
    return [it for it in value if isinstance(it, dict)] if isinstance(value, list) else []


def member(entry: Json, name: str) -> Json:
    """The object under a name; empty if it is none."""
    found = entry.get(name)
    return found if isinstance(found, dict) else {}


def text_message(text: object) -> Json:
    """A message of the user."""
    return {"role": "user", "content": text if isinstance(text, str) else ""}
