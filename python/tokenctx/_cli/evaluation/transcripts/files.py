"""Files and folders of transcripts: which agent wrote them, and the conversations in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tokenctx._cli.evaluation.transcripts import claude_code, codex, gemini_cli, opencode, pi
from tokenctx._cli.evaluation.transcripts.marks import HEAD_BYTES, MARKS
from tokenctx._results.tables import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tokenctx._cli.evaluation.transcripts.thread import Json, Reading, Thread

HEAD_LINES: Final = 64
"""Lines by which a transcript is known: some agents write other things first."""
DAMAGED: Final = "a line of a transcript that is no JSON object"


class Agent(NamedTuple):
    """The form of an agent's transcripts."""

    name: str
    is_entry: Callable[[Json], bool]
    conversations: Callable[[Iterable[Json], str, Reading], Iterator[Thread]]


AGENTS: Final = tuple(
    Agent(it.NAME, it.is_entry, it.conversations)
    for it in (gemini_cli, pi, codex, opencode, claude_code)
)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A file of an agent.

    Attributes:
        objects: The objects of the file, where they are read already, before those in `content`.
    """

    name: str
    agent: Agent
    objects: list[Json]
    content: bytes = b""

    @property
    def is_piece(self) -> bool:
        """True for one message or part of a store that has a file for each."""
        return bool(self.objects) and "sessionID" in self.objects[0]

    def lines(self, reading: Reading) -> Iterator[Json]:
        """The conversations as lines of recorded steps."""
        for thread in self.agent.conversations(self._entries(reading), self.name, reading):
            yield from thread.lines()

    def _entries(self, reading: Reading) -> Iterator[Json]:
        """The objects; a damaged line, as that of a crash at the end, is counted."""
        yield from self.objects
        for line in self.content.split(b"\n"):
            if line.strip():
                value, _fault = read_json(line)
                if isinstance(value, dict):
                    yield value
                else:
                    reading.skipped[DAMAGED] += 1


def transcript_in(name: str, content: bytes) -> Transcript | None:
    """The transcript in the content of a file; None if it is none that is known here."""
    if not has_marks(content[:HEAD_BYTES]):
        return None
    first, rest = content.strip().partition(b"\n")[::2]
    whole, fault = read_json(content if rest and not _is_object(first) else first)
    if isinstance(whole, dict) and not fault and (not rest or not _is_object(first)):
        agent = _agent_of([whole])
        return None if agent is None else Transcript(name, agent, [whole])
    agent = _agent_of(_head(content))
    return None if agent is None else Transcript(name, agent, [], content)


def _is_object(text: bytes) -> bool:
    value, _fault = read_json(text)
    return isinstance(value, dict)


def has_marks(head: bytes) -> bool:
    """True if what begins with `head` may be a transcript."""
    return any(mark in head for mark in MARKS)


def is_transcript(content: bytes) -> bool:
    """True for a transcript of an agent that is known here."""
    return transcript_in("", content) is not None


def _agent_of(entries: Iterable[Json]) -> Agent | None:
    for entry in entries:
        for agent in AGENTS:
            if agent.is_entry(entry):
                return agent
    return None


def _head(content: bytes) -> Iterator[Json]:
    start = 0
    for _ in range(HEAD_LINES):
        end = content.find(b"\n", start)
        value, _fault = read_json(content[start : end if end >= 0 else len(content)])
        if isinstance(value, dict):
            yield value
        if end < 0:
            return
        start = end + 1


def joined(pieces: list[Transcript]) -> Iterator[Transcript]:
    """The pieces of a store as one transcript; none without any."""
    if pieces:
        objects = [entry for it in pieces for entry in it.objects]
        yield Transcript(pieces[0].name, pieces[0].agent, objects)
