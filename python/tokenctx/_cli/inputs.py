"""What `tokenctx count` is given: text, a request, or lines of requests, and their counts."""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from tokenctx._core import count_tokens
from tokenctx._estimate.estimator import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenctx._estimate.estimator import Method
    from tokenctx._models import Dialect, EncodingName, Quality

Kind = Literal["text", "request", "jsonl"]

REQUEST_FIELDS: Final = {"messages", "contents", "input", "prompt", "system", "tools"}
STANDARD_INPUT: Final = "-"


@dataclass(frozen=True, slots=True)
class Options:
    """How to count; None is what the input says itself."""

    kind: Kind | None = None
    encoding: EncodingName | None = None
    model: str | None = None
    dialect: Dialect | None = None
    method: Method | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """Tokens of one input. What a text does not have is None.

    Attributes:
        name: The file, and the line in it.
        kind: What it was read as.
        counted_with: The vocabulary, or the method that needs none.
        context_tokens: System prompt, tools and framing.
        message_tokens: Tokens of each message.
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
    context_window_tokens: int | None = None
    assumptions: tuple[str, ...] = ()

    @property
    def window_share(self) -> float | None:
        """Tokens by context window; None if that is unknown."""
        window = self.context_window_tokens
        return self.tokens / window if window else None

    def as_json(self) -> dict[str, Any]:
        """All fields as JSON values, and the share of the context window."""
        share = self.window_share
        return {**asdict(self), "window_share": None if share is None else round(share, 6)}


def read_input(name: str) -> bytes:
    """The content of a file, unpacked if it ends in `.gz`; `-` is standard input."""
    if name == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    with gzip.open(name) if name.endswith(".gz") else Path(name).open("rb") as file:
        return file.read()


def kind_of(content: bytes) -> Kind:
    """What `content` looks like: a request, lines of JSON objects, or else text."""
    if content.lstrip()[:1] not in {b"{", b"["}:
        return "text"
    first, _, rest = content.strip().partition(b"\n")
    value = _parse(first)
    if isinstance(value, dict) and rest:
        return "jsonl"
    value = _parse(content) if value is None else value
    if isinstance(value, list):
        is_request = all(isinstance(item, dict) and "role" in item for item in value)
    else:
        is_request = isinstance(value, dict) and bool(REQUEST_FIELDS & value.keys())
    return "request" if is_request and value else "text"


def _parse(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def counts(name: str, content: bytes, options: Options) -> Iterator[tuple[Count, int]]:
    """The count of each input in `content`, with the bytes of it that are done.

    Raises RequestError for a request that cannot be read.
    """
    kind = options.kind or kind_of(content)
    if kind == "text":
        yield count_text(name, content, options), len(content)
    elif kind == "request":
        yield count_request(name, "request", content, options), len(content)
    else:
        yield from _lines(name, content, options)


def _lines(name: str, content: bytes, options: Options) -> Iterator[tuple[Count, int]]:
    estimator = HybridTokenEstimator(method=options.method or "profile")
    done = 0
    for number, line in enumerate(content.split(b"\n"), 1):
        done += len(line) + 1
        if line.strip():
            title = f"{name}:{number}"
            yield count_request(title, "jsonl", _wrapped(line), options, estimator), done


def _wrapped(line: bytes) -> object:
    """The request in a line that wraps one, as recordings do; else the line."""
    if b'"request"' not in line:
        return line
    value = _parse(line)
    is_wrapped = isinstance(value, dict) and isinstance(value.get("request"), dict)
    return value["request"] if is_wrapped and isinstance(value, dict) else line


def count_text(name: str, content: bytes, options: Options) -> Count:
    """Tokens of a text alone, without framing.

    With a model or a method they are counted as in a message to it; else by `encoding` exactly.
    """
    if options.encoding or not (options.model or options.method):
        encoding = options.encoding or "o200k_base"
        tokens = count_tokens(content, encoding=encoding)
        return Count(name, "text", tokens, tokens, tokens, "exact", encoding)
    text = content.decode("utf-8", "replace")
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
        context_window_tokens=full.context_window_tokens,
        assumptions=full.assumptions,
    )


def _message(text: str, options: Options) -> Count:
    body = {"messages": [{"role": "user", "content": text}]}
    return count_request("", "text", body, options)


def count_request(
    name: str,
    kind: Kind,
    body: object,
    options: Options,
    estimator: HybridTokenEstimator | None = None,
) -> Count:
    """Tokens of a request, with nothing known of it."""
    estimator = estimator or HybridTokenEstimator(method=options.method or "profile")
    names: dict[str, Any] = {
        "model": options.model,
        "dialect": options.dialect,
        "provider": options.provider,
    }
    estimate = estimator.estimate(body, **names)
    count = estimator.count_request(body, **names)
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
        estimate.context_window_tokens,
        estimate.assumptions,
    )
