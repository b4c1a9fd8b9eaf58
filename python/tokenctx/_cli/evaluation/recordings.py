"""Recorded conversations: read from a file, turn by turn, whatever shape the recording has.

Three shapes are read, and transcripts of agents; a name that ends in `.gz` is unpacked.

**Session**, our own: one JSON object.

    {"about": "...", "provider": "...", "dialect": "anthropic", "model": "...",
     "context": {"system": [...], "tools": [...]},
     "turns": [{"new_messages": [...], "usage": {...}, "reply": {...}},
               {"request": {...}, "usage": {...}, "reply": null}]}

A turn has either `request`, the whole body, or `new_messages`: the body is then `context` with the
messages of the turn before, its reply, and the new ones. `usage` is the provider's object; `reply`
is the assistant's message, or null.

**Calls**: JSON lines, one recorded call each: `request`, `usage`, `input_tokens`, `model`,
`provider`, `api`, `conversation_id`, `turn`, and `prev`: the billed tokens of the first `n_items`
messages, and whether system prompt and tools were the same. Media that were too large to keep are
stand-ins (`{"_image": {...}}`); they become bytes of the same identity and picture size.

**Steps**: JSON lines, one conversation each: `steps` of `new_messages`, `reply`, `usage`.

Transcripts that agents keep are read as steps (`transcripts/`), one file or a folder of them.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from tokenctx._cli.evaluation.transcripts.files import (
    Transcript,
    has_marks,
    is_transcript,
    joined,
    transcript_in,
)
from tokenctx._cli.evaluation.transcripts.marks import HEAD_BYTES, LACKS
from tokenctx._cli.evaluation.transcripts.thread import Reading
from tokenctx._cli.files import (
    NO_FILES,
    UNREADABLE,
    FileError,
    content_of,
    is_folder,
    is_parquet,
    named,
    opened,
)
from tokenctx._results.parts import ID_FIELDS
from tokenctx._results.tables import read_json
from tokenctx.usage.normal import Usage, normalize_usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tokenctx._cli.files import Fault
    from tokenctx._results.estimates import Dialect

Relation = Literal["extends", "first", "context", "messages", "model", "compacted"]
"""The relation of a turn to the recorded calls before it: it extends one, or a reason why not."""

Json = dict[str, Any]

MESSAGE_FIELDS: Final = ("messages", "contents", "input")
API_DIALECTS: Final[dict[str, Dialect]] = {
    "openai.chat": "openai-chat",
    "openai.responses": "openai-responses",
    "anthropic.messages": "anthropic",
    "google.generateContent": "gemini",
    "bedrock.converse": "bedrock-converse",
}
STEP_FIELDS: Final = {"openai-responses": "input", "gemini": "contents"}
"""The field of a body that has its messages, where it is another than `messages`."""
DOUBLE: Final = "a line that stands in the file before"
UNBILLED_FIELDS: Final = frozenset({"cache_control", "tool_call_id", *ID_FIELDS})
STAND_INS: Final = ("_image", "_file", "_media")
BASE64_FIELDS: Final = frozenset({"data", "bytes"})
PNG_HEAD: Final = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
PNG_TAIL: Final = b"\x08\x06\0\0\0"
MP3_HEAD: Final = b"\xff\xfb\x90\x00"
"""MPEG 1, layer III, 128 kbit/s: the commonest, where a recording does not tell."""
WAV_HEAD: Final = (
    b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\1\0\1\0\xc0\x5d\0\0rate\2\0\x10\0data\xff\xff\xff\xff"
)
WAV_RATE: Final = (48_000).to_bytes(4, "little")
"""Bytes per second of speech, where a recording does not tell or a stream left it open."""
LONGEST_SECONDS: Final = 24 * 3600
MAX_RESTORED_BYTES: Final = 1 << 18


class RecordingError(Exception):
    """A file that is no recording; the message says what is missing and where."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One recorded call.

    Attributes:
        body: The request as it was sent, JSON.
        billed: What the provider billed for it.
        relation: What it is to the calls before it.
        reply: The assistant's message, if it is known and its output count is final.
        provider: Who answered; empty if the recording does not say.
        known: A body to record first, with its billed input tokens: the call that this one extends,
            when the recording has its numbers only.
    """

    body: bytes
    model: str | None
    dialect: Dialect | None
    billed: Usage
    relation: Relation
    reply: Json | None = None
    provider: str = ""
    known: tuple[bytes, int] | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Recorded calls in their order.

    Attributes:
        has_context: Whether system prompt and tools are in the recording; without them a full
            count cannot be compared with what was billed.
        turns: Made as they are read, once.
    """

    name: str
    provider: str
    api: str
    has_context: bool
    turns: Iterator[Turn]


@dataclass(slots=True)
class Recording:
    """The content of a file: `conversations`, read once, and what was left out and why."""

    conversations: Iterator[Conversation]
    conversation_count: int
    skipped: dict[str, int]
    about: str = ""


def read_recording(path: Path) -> Recording:
    """The conversations in the file at `path`.

    A folder is all transcripts of agents in it. Raises OSError if it cannot be read and
    RecordingError if it has none of these shapes.
    """
    if path.is_dir():
        return _folder_recording(path)
    return recording_in(path.name, content_of(path))


def recording_in(name: str, content: bytes) -> Recording:
    """The conversations in `content`, the file of this `name`; raises as `read_recording`."""
    if (transcript := transcript_in(name, content)) is not None:
        return transcript_recording(transcript)
    head, fault = read_json(content.split(b"\n", 1)[0])
    if fault:
        head, fault = read_json(content)
    if fault:
        raise RecordingError(f"this is no recording: {fault}")
    if isinstance(head, dict) and isinstance(head.get("turns"), list):
        return _session(name, head)
    if not (isinstance(head, dict) and {"steps", "request"} & head.keys()):
        raise RecordingError(
            "this is no recording: neither a JSON object with `turns`, nor JSON lines with "
            "`request` and `usage` or with `steps`, nor a transcript of an agent that is known"
        )
    numbered = enumerate(content.split(b"\n"), 1)
    doubles, lines, count = Doubles(), [], 0
    for number, line in numbered:
        if line.strip():
            record = _line(number, line)
            if doubles.hold(record.get("id") or record.get("created"), line):
                count += 1
            else:
                lines.append(record)
    found = _steps_recording(lines) if "steps" in head else _calls_recording(lines)
    found.skipped |= {DOUBLE: count} if count else {}
    return found


class Doubles:
    """The lines of a file that tell who or when they are, by which those there again are known.

    Two equal lines with neither id nor time may be two calls.
    """

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def hold(self, own: object, line: bytes) -> bool:
        """True if a line with an id or a time stood before; it is kept in mind."""
        if not own:
            return False
        name = hashlib.blake2b(line.strip(), digest_size=8).digest()
        is_double = name in self._seen
        self._seen.add(name)
        return is_double


def transcript_recording(transcript: Transcript) -> Recording:
    """The conversations in a transcript. Raises RecordingError for one without a billed call."""
    reading = Reading()
    lines = list(transcript.lines(reading))
    if not lines:
        raise RecordingError(
            f"a transcript of {transcript.agent.name} without a billed call{_left_out(reading)}"
        )
    found = _steps_recording(lines)
    found.skipped, found.about = (
        reading.skipped,
        f"A transcript of {transcript.agent.name}: {LACKS}.",
    )
    return found


def _left_out(reading: Reading) -> str:
    """The end of a sentence, with the reasons of all that was left out; empty if nothing was."""
    left = "; ".join(f"{count:,} x {why}" for why, count in reading.skipped.items())
    return f"; left out: {left}" if left else ""


def is_transcript_at(path: Path) -> bool:
    """True for a transcript of an agent, or a folder. Raises OSError if it cannot be read."""
    if path.is_dir():
        return True
    if is_parquet(path):
        return False
    with opened(path) as (file, _):
        head = file.read(HEAD_BYTES)
    return has_marks(head) and is_transcript(content_of(path))


def recorded_in(words: Iterable[str]) -> tuple[list[Path], list[Fault]]:
    """The recordings that `words` name, each once, and what is wrong with some: see `named`.

    A folder with transcripts is one, since some agents have a file for each message; of all others
    the files are meant.
    """
    found: dict[Path, None] = {}
    faults: list[Fault] = []
    for word in words:
        paths, wrong = named([word])
        folder = Path(word)
        if is_folder(folder) and (
            wrong == [(word, NO_FILES)] or any(map(_may_be_transcript, paths))
        ):
            paths = [folder]  # which says itself what there is in it
        faults += [it for it in wrong if it[1] != NO_FILES]
        found.update(dict.fromkeys(paths))
    return list(found), faults


def _may_be_transcript(path: Path) -> bool:
    try:
        return is_transcript_at(path)
    except (FileError, *UNREADABLE):  # who reads it says so
        return False


def transcripts_at(path: Path, reading: Reading) -> Iterator[Json] | None:
    """The conversations of a transcript or of a folder, as lines of recorded steps.

    None for a file that is no transcript. Raises OSError if it cannot be read.
    """
    if path.is_dir():
        return transcripts_in(path, reading)
    transcript = transcript_in(path.name, content_of(path))
    return None if transcript is None else transcript.lines(reading)


def transcripts_in(folder: Path, reading: Reading) -> Iterator[Json]:
    """The conversations in all transcripts of a folder, as lines of recorded steps."""
    pieces = []
    for path in named([str(folder)], skipped=())[0]:
        transcript = transcript_in(path.name, content_of(path))
        if transcript is None:
            reading.skipped["a file that is no transcript"] += 1
        elif transcript.is_piece:
            pieces.append(transcript)
        else:
            yield from transcript.lines(reading)
    for whole in joined(pieces):
        yield from whole.lines(reading)


def _folder_recording(folder: Path) -> Recording:
    reading = Reading()
    lines = list(transcripts_in(folder, reading))
    if not lines:
        raise RecordingError(
            f"no transcript of an agent with a billed call is in this folder{_left_out(reading)}"
        )
    found = _steps_recording(lines)
    found.skipped, found.about = reading.skipped, f"Transcripts of agents: {LACKS}."
    return found


def _line(number: int, text: bytes) -> Json:
    value, fault = read_json(text)
    if not isinstance(value, dict):
        raise RecordingError(f"line {number} is no JSON object{f': {fault}' if fault else ''}")
    return value


def _dump(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


# Sessions


def _session(name: str, session: Json) -> Recording:
    provider, api = str(session.get("provider", "")), str(session.get("dialect", ""))
    turns = _session_turns(session)
    conversation = Conversation(name, provider, api, has_context=True, turns=turns)
    return Recording(iter([conversation]), 1, {}, str(session.get("about", "")))


def _session_turns(session: Json) -> Iterator[Turn]:
    before: Json | None = None
    messages: list[Json] = []
    for number, turn in enumerate(session["turns"], 1):
        if isinstance(turn.get("request"), dict):
            body = turn["request"]
        elif isinstance(turn.get("new_messages"), list):
            body = {**session.get("context", {}), "messages": [*messages, *turn["new_messages"]]}
            body = {"model": session.get("model", ""), **body}
        else:
            raise RecordingError(f"turn {number} has neither `request` nor `new_messages`")
        reply = turn.get("reply")
        messages = [*message_list(body), *([reply] if reply else [])]
        yield Turn(
            _dump(body),
            session.get("model"),
            session.get("dialect"),
            normalize_usage(turn.get("usage")) or Usage(),
            "first" if before is None else relation(before, body),
            reply,
            str(session.get("provider", "")),
        )
        before = body


def relation(before: Json, body: Json) -> Relation:
    """`extends` if `body` goes on from `before`, else what differs; unbilled fields may differ."""
    old, new = message_list(before), message_list(body)
    if billed_part(old) != billed_part(new[: len(old)]):
        return "messages"
    rest = [{**body, field: None} for field in MESSAGE_FIELDS if field in body]
    rest_before = [{**before, field: None} for field in MESSAGE_FIELDS if field in before]
    return "extends" if billed_part(rest) == billed_part(rest_before) else "context"


def message_list(body: Mapping[str, Any]) -> list[Json]:
    """The messages of a request body of any dialect; empty if it has no list of them."""
    lists = (body[field] for field in MESSAGE_FIELDS if isinstance(body.get(field), list))
    return next(lists, [])


def billed_part(value: object) -> object:
    if isinstance(value, dict):
        kept = ((name, part) for name, part in value.items() if name not in UNBILLED_FIELDS)
        return {name: billed_part(part) for name, part in kept}
    return [billed_part(part) for part in value] if isinstance(value, list) else value


# Calls


def _calls_recording(calls: list[Json]) -> Recording:
    skipped: dict[str, int] = {}
    groups: dict[str, list[Json]] = {}
    for call in calls:
        if _billed(call).input_tokens == 0:
            skipped["no input tokens"] = skipped.get("no input tokens", 0) + 1
        elif not call.get("conversation_id"):
            skipped["single calls"] = skipped.get("single calls", 0) + 1
        else:
            groups.setdefault(str(call["conversation_id"]), []).append(call)
    return Recording(
        (_calls_conversation(name, group) for name, group in groups.items()), len(groups), skipped
    )


def _calls_conversation(name: str, calls: list[Json]) -> Conversation:
    calls.sort(key=lambda call: int(call.get("turn") or 0))
    provider, api = str(calls[0].get("provider", "")), str(calls[0].get("api", ""))
    return Conversation(name, provider, api, has_context=True, turns=_call_turns(calls))


def _call_turns(calls: list[Json]) -> Iterator[Turn]:
    for index, call in enumerate(calls):
        state, known = _predecessor(call, calls[:index])
        yield Turn(
            _dump(restored(call["request"])),
            call.get("request_model") or call.get("model"),
            API_DIALECTS.get(str(call.get("api"))),
            _billed(call),
            state,
            provider=str(call.get("provider", "")),
            known=known,
        )


def _predecessor(call: Json, before: list[Json]) -> tuple[Relation, tuple[bytes, int] | None]:
    """The relation of `call` to the calls before it, and what of its predecessor is recorded first.

    The predecessor is a call before it with as many messages and billed tokens as `prev` says. If
    none is in the file, it was the first messages of this very request.
    """
    previous = call.get("prev")
    if not previous:
        return "first", None
    if not previous["same_context"]:
        return "context", None
    count, tokens = previous["n_items"], previous["input_tokens"]
    messages = message_list(call["request"])[:count]
    same = [
        message_list(one["request"])
        for one in before
        if one["input_tokens"] == tokens and len(message_list(one["request"])) == count
    ]
    if not same:
        return "extends", (_dump(restored(truncated(call["request"], messages))), tokens)
    is_equal = any(billed_part(one) == billed_part(messages) for one in same)
    return ("extends" if is_equal else "messages"), None


def truncated(body: Json, messages: list[Json]) -> Json:
    """`body` with `messages` in place of its own."""
    lists = (name for name in MESSAGE_FIELDS if isinstance(body.get(name), list))
    field = next(lists, MESSAGE_FIELDS[0])
    return {**body, field: messages}


def _billed(call: Json) -> Usage:
    """The billed tokens: of the raw usage, or the recorder's own total without one."""
    billed = normalize_usage(call.get("usage")) or Usage()
    total = call.get("input_tokens")
    if not isinstance(total, int) or total == billed.input_tokens:
        return billed
    return Usage(
        uncached_input_tokens=max(0, total),
        output_tokens=billed.output_tokens,
        reasoning_tokens=billed.reasoning_tokens,
    )


def restored(value: Any, field: str = "") -> Any:
    """`value` with each stand-in as media again; `field` is its name in what holds it."""
    if isinstance(value, list):
        return [restored(part, field) for part in value]
    if not isinstance(value, dict):
        return value
    for name in STAND_INS:
        if isinstance(value.get(name), dict):
            return _media(value[name], is_bare=field in BASE64_FIELDS)
    return {name: restored(part, name) for name, part in value.items()}


def _media(about: Json, *, is_bare: bool) -> str:
    """Base64, or a data URL, of bytes with the length and identity that `about` states."""
    mime, digest = str(about.get("mime", "")), str(about.get("sha256", ""))
    byte_count = min(_number(about, "bytes"), MAX_RESTORED_BYTES)
    text = _filled(_head(about, mime, byte_count) + digest.encode(), byte_count)
    return text if is_bare else f"data:{mime};base64,{text}"


@functools.lru_cache(maxsize=256)
def _filled(head: bytes, byte_count: int) -> str:
    """Base64 of `head` and of bytes that stay the same and that no encoding shortens."""
    noise = hashlib.shake_128(head).digest(max(0, byte_count - len(head)))
    return base64.b64encode(head + noise).decode()


def _head(about: Json, mime: str, byte_count: int) -> bytes:
    """The header of a file that is as large or long as `about` states; empty if it does not."""
    width, height = (_number(about, name) for name in ("width", "height"))
    if 0 < width < 1 << 32 and 0 < height < 1 << 32:
        return PNG_HEAD + width.to_bytes(4, "big") + height.to_bytes(4, "big") + PNG_TAIL
    if pages := min(_number(about, "pages"), 10_000):
        text = b"a" * min(_number(about, "text_chars"), MAX_RESTORED_BYTES)
        page = b"<< /Type /Page >>\n"
        return b"%PDF-1.4\n" + pages * page + b"<<>> stream\nBT (" + text + b") Tj ET\nendstream\n"
    if mime == "audio/mpeg":
        return MP3_HEAD
    seconds = about.get("seconds")
    if mime == "audio/wav" and isinstance(seconds, (int, float)) and 0 < seconds < LONGEST_SECONDS:
        rate = max(1, round(byte_count / seconds)).to_bytes(4, "little")
        return WAV_HEAD.replace(b"rate", rate)
    return WAV_HEAD.replace(b"rate", WAV_RATE) if mime == "audio/wav" else b""


def _number(about: Json, name: str) -> int:
    number = about.get(name)
    return max(0, number) if isinstance(number, int) else 0


# Steps


def _steps_recording(lines: list[Json]) -> Recording:
    return Recording((_steps_conversation(line) for line in lines), len(lines), {})


def _steps_conversation(line: Json) -> Conversation:
    kind = str(line.get("kind", ""))
    return Conversation(
        str(line.get("id", "")),
        kind,
        str(line.get("dialect", "")),
        has_context=bool(line.get("system_known", True)),
        turns=_step_turns(line),
    )


def billed_of_step(step: Json) -> Usage:
    """The usage of a step if it tells the input that was logged, else what was logged alone."""
    numbers = {name: step.get(name) for name in ("input_tokens", "output_tokens")}
    logged = normalize_usage(numbers) or Usage()
    told = normalize_usage(step.get("usage"))
    if told is None or told.input_tokens != logged.input_tokens:
        return logged
    return replace(told, output_tokens=logged.output_tokens)


def _step_turns(line: Json) -> Iterator[Turn]:
    dialect = cast("Dialect | None", line.get("dialect"))
    messages: list[Json] = []
    models: set[str] = set()
    for step in line["steps"]:
        is_cut = bool(step.get("compacted"))
        messages = [*([] if is_cut else messages), *step["new_messages"]]
        model = str(step.get("model", ""))
        state: Relation = "extends" if model in models else "model"
        state = "compacted" if is_cut else state if models else "first"
        models = {model} if is_cut else models | {model}
        reply = step.get("reply") if step.get("output_final", True) else None
        tokens = billed_of_step(step)
        body = {"model": model, STEP_FIELDS.get(str(dialect), "messages"): messages}
        yield Turn(_dump(body), model, dialect, tokens, state, reply)
