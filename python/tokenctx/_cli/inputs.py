"""The inputs of `tokenctx count`: text, a request, or lines of requests, and their counts."""

from __future__ import annotations

import codecs
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from tokenctx._cli.evaluation.transcripts.marks import HEAD_BYTES, LACKS, MARKS
from tokenctx._cli.files import content_of, unpacked
from tokenctx._core import _WRAPPERS, count_tokens
from tokenctx._estimate.estimator import HybridTokenEstimator
from tokenctx._results.errors import Error, RequestError
from tokenctx._results.tables import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenctx._cli.evaluation.transcripts.files import Transcript
    from tokenctx._estimate.estimator import Method
    from tokenctx._results.cost import Cost
    from tokenctx._results.estimates import Dialect, EncodingName, Estimate, Quality
    from tokenctx._results.result import CacheForecast

Kind = Literal["text", "request", "jsonl"]

JSON_SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
REQUEST_FIELDS: Final = {"messages", "contents", "input", "prompt", "system", "tools"}
NO_REQUEST: Final = (
    "JSON, but no request: it has none of messages, contents, input, prompt, system and tools; "
    "to count it as text: --as text"
)
STANDARD_INPUT: Final = "-"
NO_MESSAGES: Final = "unknown_request"


@dataclass(frozen=True, slots=True)
class Options:
    """How to count; None is what the input says itself."""

    kind: Kind | None = None
    encoding: EncodingName | None = None
    model: str | None = None
    dialect: Dialect | None = None
    method: Method | None = None
    provider: str | None = None
    with_cost: bool = False

    def estimator(self) -> HybridTokenEstimator:
        """Counts so."""
        return HybridTokenEstimator(method=self.method or "profile", caching=self.with_cost)

    def kind_of(self, name: str, content: bytes) -> tuple[Kind, str]:
        """The kind that was asked for, else that of the input; a vocabulary alone asks for text."""
        kind = self.kind or ("text" if self.encoding else None)
        return (kind, "") if kind else kind_of(name, content)


@dataclass(frozen=True, slots=True)
class Count:
    """Tokens of one input. What a text does not have is None.

    Attributes:
        name: The file, and the line in it.
        kind: What it was read as.
        counted_with: The vocabulary, or the method that needs none.
        context_tokens: System prompt, tools and framing.
        message_tokens: Tokens of each message.
        note: What should be known of the way it was read; empty if nothing.
        cost: What the call costs, if that is asked; None if its prices are unknown.
        cache: What of it is cached, if that is asked.
    """

    name: str
    kind: Kind
    tokens: int
    low: int
    high: int
    quality: Quality
    counted_with: str
    profile: str | None = None
    dialect: str | None = None
    model: str | None = None
    context_tokens: int | None = None
    message_tokens: tuple[int, ...] | None = None
    window_tokens: int | None = None
    assumptions: tuple[str, ...] = ()
    note: str = ""
    cost: Cost | None = None
    cache: CacheForecast | None = None

    @property
    def window_share(self) -> float | None:
        """Tokens by context window; None if that is unknown."""
        window = self.window_tokens
        return self.tokens / window if window else None

    def as_json(self) -> dict[str, Any]:
        """All fields as JSON values, and the share of the context window."""
        share = self.window_share
        values = {name: getattr(self, name) for name in _FIELDS}
        values["window_share"] = None if share is None else round(share, 6)
        for name, money in (("cost", self.cost), ("cache", self.cache)):
            del values[name]
            if self.cache is not None:
                values[name] = None if money is None else money.as_dict()
        return values


_FIELDS: Final = tuple(field.name for field in fields(Count))


class InputError(Error):
    """A file that is not what it should be; the message says what to do."""


def read_input(name: str) -> bytes:
    """The content of a file, unpacked, of Parquet as lines of JSON; `-` is standard input.

    Raises OSError, EOFError, zlib.error or FileError, InputError for a closed standard input.
    """
    if name == STANDARD_INPUT:
        if sys.stdin is None:
            raise InputError("standard input is closed; give a file, or pipe something in")
        return unpacked(sys.stdin.buffer.read())
    return content_of(Path(name))


def kind_of(name: str, content: bytes) -> tuple[Kind, str]:
    """The kind of a file, by its name and content, and a note if one is due.

    Raises InputError where one kind was meant and the content is another: JSON that is cut or no
    request, a text that is no UTF-8.
    """
    is_named_json = name.removesuffix(".gz").removesuffix(".zst").endswith(JSON_SUFFIXES)
    begin = content.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    if not (is_named_json or begin in {b"{", b"["}):
        return "text", "" if content else "the file is empty"
    first, _, rest = content.strip().partition(b"\n")
    value, fault = read_json(first)
    if isinstance(value, dict) and rest:
        return "jsonl", ""
    if fault:
        value, fault = read_json(content)
    if fault and (is_named_json or begin == b"{"):
        raise InputError(f"{fault}; to count it as text: --as text")
    if fault:
        return "text", f"read as text: {fault}"
    if not _is_request(value):
        raise InputError(NO_REQUEST)
    return "request", ""


def transcript_of(name: str, content: bytes) -> Transcript | None:
    """The transcript of an agent in a file; None for all else, of which most costs no import."""
    if not any(mark in content[:HEAD_BYTES] for mark in MARKS):
        return None
    from tokenctx._cli.evaluation.transcripts.files import transcript_in

    return transcript_in(Path(name).name, content)


def is_request(content: bytes) -> bool:
    """True if `content` is a request, or a list of messages."""
    return _is_request(read_json(content)[0])


def _is_request(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, dict) and "role" in item for item in value)
    return isinstance(value, dict) and bool(REQUEST_FIELDS & value.keys())


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of requests that could not be counted, and why."""

    name: str
    error: Error


def counts(
    name: str, content: bytes, options: Options, *, as_json: bool = False
) -> Iterator[tuple[Count | BadLine | str, int]]:
    """The count of each input in `content`, with the bytes of it that are done.

    With `as_json` counts of lines may be a text, of lines that are JSON as `Count.as_json` has it.

    Raises RequestError for a request that cannot be read, InputError for a file that is not what
    it seems to be.
    """
    transcript = None if options.kind or options.encoding else transcript_of(name, content)
    if transcript is not None:
        yield from _last_calls(name, transcript, len(content), options)
        return
    kind, note = options.kind_of(name, content)
    if kind == "text":
        yield count_text(name, content, options, note), len(content)
    elif kind == "request":
        yield count_request(name, "request", content, options), len(content)
    elif as_json and not options.with_cost:
        yield from _written_lines(name, content, options)
    else:
        yield from _lines(name, content, options)


def _written_lines(
    name: str, content: bytes, options: Options
) -> Iterator[tuple[Count | BadLine | str, int]]:
    """As `_lines`; the core counts some at a time, but for those that wrap requests or are long."""
    estimator = options.estimator()
    names = (options.model, options.dialect, options.provider)
    done, number = 0, 1
    while done < len(content):
        counted = estimator._count_lines(  # noqa: SLF001  # of this command
            content, done, number, name, names
        )
        done, number = counted.start, counted.number
        if counted.text:
            yield counted.text, done
        for bad_number, error in counted.faults:
            yield BadLine(f"{name}:{bad_number}", error), done
        if counted.is_left:
            end = content.find(b"\n", done)
            line = content[done : end if end >= 0 else len(content)]
            done += len(line) + 1
            yield _line_count(f"{name}:{number}", line, options, estimator), done
            number += 1


def _lines(name: str, content: bytes, options: Options) -> Iterator[tuple[Count | BadLine, int]]:
    estimator = options.estimator()
    done = 0
    for number, line in enumerate(content.split(b"\n"), 1):
        done += len(line) + 1
        if line.strip():
            yield _line_count(f"{name}:{number}", line, options, estimator), done


def _line_count(
    title: str, line: bytes, options: Options, estimator: HybridTokenEstimator
) -> Count | BadLine:
    """The count of a line; a line that is no request is a bad one, unless it is said to be one."""
    try:
        found = count_request(title, "jsonl", _wrapped(line), options, estimator)
    except RequestError as error:
        return BadLine(title, error)
    if NO_MESSAGES not in found.assumptions or options.kind:
        return found
    value, _ = read_json(line)
    wrapped = _in_wrapper(value)
    if wrapped is not None:
        return count_request(title, "jsonl", wrapped, options, estimator)
    return found if _is_request(value) else BadLine(title, InputError(NO_REQUEST))


def _wrapped(line: bytes) -> object:
    """The request in a line that wraps one, as recordings do; else the line."""
    if b'"request"' not in line:
        return line
    value, _ = read_json(line)
    is_wrapped = isinstance(value, dict) and isinstance(value.get("request"), dict)
    return value["request"] if is_wrapped and isinstance(value, dict) else line


def _in_wrapper(value: object) -> object:
    """The request inside of a line of a batch; None if there is none."""
    inner = (value.get(name) for name in _WRAPPERS) if isinstance(value, dict) else ()
    return next((it for it in inner if isinstance(it, dict) and _is_request(it)), None)


def _last_calls(
    name: str, transcript: Transcript, byte_count: int, options: Options
) -> Iterator[tuple[Count | BadLine, int]]:
    """The count of the last request of each conversation of a transcript.

    Raises InputError for one without a billed call.
    """
    from tokenctx._cli.evaluation.recordings import RecordingError, transcript_recording

    about = f"a transcript of {transcript.agent.name}, its last request: {LACKS}"
    try:
        recording = transcript_recording(transcript)
    except RecordingError as error:
        raise InputError(str(error)) from None
    for conversation in recording.conversations:
        *_, last = conversation.turns
        chosen = replace(options, model=options.model or last.model, dialect=last.dialect)
        title = name if recording.conversation_count == 1 else f"{name}:{conversation.name}"
        yield replace(count_request(title, "request", last.body, chosen), note=about), byte_count


def count_text(name: str, content: bytes, options: Options, note: str = "") -> Count:
    """Tokens of a text alone, without framing.

    With a model or a method they are counted as in a message to it; else by `encoding` exactly.
    Raises InputError for what is no UTF-8, unless `options` call it a text.
    """
    text, note = _text_of(content, note, is_text=options.kind == "text")
    if options.with_cost and options.model:
        note = note or "priced as one message of the user"
        return replace(_message(text, options), name=name, note=note)
    if options.encoding or not (options.model or options.method):
        encoding = options.encoding or "o200k_base"
        tokens = count_tokens(text, encoding=encoding)
        return Count(name, "text", tokens, tokens, tokens, "exact", encoding, note=note)
    full, empty = (_message(part, options) for part in (text, ""))
    return Count(
        name,
        "text",
        full.tokens - empty.tokens,
        max(0, full.low - empty.low),
        full.high - empty.high,
        full.quality,
        full.counted_with,
        full.profile,
        model=full.model,
        window_tokens=full.window_tokens,
        assumptions=full.assumptions,
        note=note,
    )


def _text_of(content: bytes, note: str, *, is_text: bool) -> tuple[str, str]:
    try:
        return content.decode(), note
    except UnicodeDecodeError as error:
        if not is_text:
            raise InputError(
                f"neither JSON nor text: not UTF-8 at byte {error.start}; "
                "to count what is not UTF-8 as U+FFFD: --as text"
            ) from None
        return content.decode("utf-8", "replace"), "what is not UTF-8 is counted as U+FFFD"


def _message(text: str, options: Options) -> Count:
    body = {"messages": [{"role": "user", "content": text}]}
    return count_request("", "text", body, options)


def priced(estimate: Estimate, provider: str | None) -> Cost | None:
    """The cost of a call; None if its prices are unknown."""
    if not estimate.model:
        return None
    from tokenctx.money.prices import default_prices  # which a count alone does not need

    return default_prices().cost(estimate, provider=provider)


def count_request(
    name: str,
    kind: Kind,
    body: object,
    options: Options,
    estimator: HybridTokenEstimator | None = None,
) -> Count:
    """Tokens of a request, with nothing known of it."""
    estimator = estimator or options.estimator()
    names: dict[str, Any] = {
        "model": options.model,
        "dialect": options.dialect,
        "provider": options.provider,
    }
    count, estimate = estimator.count_and_estimate(body, **names)
    return Count(
        name,
        kind,
        estimate.tokens,
        estimate.low,
        estimate.high,
        estimate.quality,
        count.encoding,
        estimate.profile,
        estimate.dialect,
        estimate.model,
        count.context_tokens,
        count.message_tokens,
        estimate.window_tokens,
        estimate.assumptions,
        cost=priced(estimate, options.provider) if options.with_cost else None,
        cache=estimate.cache,
    )
