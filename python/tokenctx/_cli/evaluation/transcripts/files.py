"""Files and folders of transcripts: which agent wrote them, and the conversations in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tokenctx._cli.evaluation.transcripts import claude_code, codex, gemini_cli, opencode, pi
from tokenctx._cli.evaluation.transcripts.thread import Json, Reading, Thread
from tokenctx._results.tables import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

HEAD_LINES: Final = 64
"""Lines by which a transcript is known: some agents write other things first."""
HEAD_BYTES: Final = 1 << 16
MARKS: Final = (b"sessionI", b"payload", b"record_type", b'"session"', b'"info"', b'"git"')
"""One of these is in the first bytes of every transcript, so that most other files cost nothing."""
LACKS: Final = "system prompt and tools are not in it, so that full counts are less than bills"
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
        entries: Its lines, or the one object that it is.
    """

    name: str
    agent: Agent
    entries: Iterable[Json]

    @property
    def is_piece(self) -> bool:
        """True for one message or part of a store that has a file for each."""
        entries = self.entries
        return isinstance(entries, list) and "sessionID" in entries[0]

    def lines(self, reading: Reading) -> Iterator[Json]:
        """The conversations as lines of recorded steps."""
        for thread in self.agent.conversations(self.entries, self.name, reading):
            yield from thread.lines()


def transcript_in(name: str, content: bytes, reading: Reading) -> Transcript | None:
    """The transcript in the content of a file; None if it is none that is known here."""
    if not has_marks(content[:HEAD_BYTES]):
        return None
    first, fault = read_json(content.split(b"\n", 1)[0])
    if fault or not isinstance(first, dict):
        whole, fault = read_json(content)
        if not fault and isinstance(whole, dict):
            agent = _agent_of([whole])
            return None if agent is None else Transcript(name, agent, [whole])
    agent = _agent_of(_head(content))
    if agent is None:
        return None
    if content.count(b"\n", 0, len(content.rstrip())) == 0 and isinstance(first, dict):
        return Transcript(name, agent, [first])
    return Transcript(name, agent, _entries(content, reading))


def has_marks(head: bytes) -> bool:
    """True if what begins with `head` may be a transcript."""
    return any(mark in head for mark in MARKS)


def is_transcript(content: bytes) -> bool:
    """True for a transcript of an agent that is known here."""
    return transcript_in("", content, Reading()) is not None


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


def _entries(content: bytes, reading: Reading) -> Iterator[Json]:
    """The objects of lines; a damaged one, as that of a crash at the end, is counted."""
    for line in content.split(b"\n"):
        if line.strip():
            value, _fault = read_json(line)
            if isinstance(value, dict):
                yield value
            else:
                reading.skipped[DAMAGED] += 1


def joined(pieces: list[Transcript]) -> Iterator[Transcript]:
    """The pieces of a store as one transcript; none without any."""
    if pieces:
        entries = [entry for it in pieces for entry in it.entries]
        yield Transcript(pieces[0].name, pieces[0].agent, entries)
