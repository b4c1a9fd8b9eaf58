"""Bounds of a call that nobody could count: of its input by length, of its output by what came."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tokenctx._core import count_tokens, encoding_name_for_model
from tokenctx.gateway.edits import BodyFields
from tokenctx.gateway.paths import GZIP, ZLIB, unescaped
from tokenctx.money.budgets.outputs import DEFAULT_TOKENS
from tokenctx.money.budgets.uncounted import Uncounted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenctx._results.estimates import Dialect
    from tokenctx.gateway.relay import Relay

MAX_INFLATED_BYTES: Final = 256 << 20
"""A body that is longer without its compression has no bound."""
_TEXT_BEGINS: Final = re.compile(rb"(\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\x00\s]*[{\[]")
_OUTPUT: Final = re.compile(rb'"max[A-Za-z_]*(?:tokens|Tokens)"\s*:\s*(\d{1,12})')
CHOICES: Final = ("n", "best_of", "candidateCount", "candidate_count")
"""Where a body says how many answers it wants."""
_CHOICES: Final = re.compile(rb'"(?:%s)"\s*:\s*(\d{1,9})' % "|".join(CHOICES).encode())
_CHOICE_WORDS: Final = tuple(f'"{it}"'.encode() for it in CHOICES)
MAX_CHOICES: Final = 1024
"""No vendor gives so many answers to one request; OpenAI gives 128 (API reference, 2026-11)."""
_MODEL: Final = re.compile(rb'"model"\s*:\s*"([^"\\]{1,200})"')


def uncounted(
    body: bytes | Mapping[str, Any], length: int | None, model: str | None, dialect: Dialect | None
) -> Uncounted:
    """The bound of a body that is not read: a token is a byte at least.

    `length` is what is known of its length beside: what has come of a longer one.
    """
    if not isinstance(body, bytes):
        return Uncounted(_text_bytes(body), model or _said(body.get("model")), dialect)
    high = _bytes(body) if body else length
    found = _MODEL.search(body)
    name = model or (found[1].decode("utf-8", "replace") if found else "")
    asked = max((int(it) for it in _OUTPUT.findall(body)), default=None)
    return Uncounted(None if high is None else max(high, length or 0), name, dialect, asked)


def choices_of(body: bytes | Mapping[str, Any]) -> int:
    """How many answers a body asks for side by side, 1 at least.

    In one that cannot be read the largest number counts that stands anywhere by such a name.
    """
    found = [1]
    if isinstance(body, bytes):
        plain = unescaped(body)
        if plain is None and not any(it in body for it in _CHOICE_WORDS):
            return 1
        body = body if plain is None else plain
    fields = BodyFields(body)
    if isinstance(body, bytes) and not fields.is_read:
        found += [int(it) for it in _CHOICES.findall(body)]
    configs = [fields.value(it) for it in ("generationConfig", "generation_config")]
    values = [config.get(it) for config in configs if isinstance(config, dict) for it in CHOICES]
    values += [fields.value(it) for it in CHOICES]
    found += [it for it in values if isinstance(it, int)]
    return min(max(found), MAX_CHOICES)


def _bytes(body: bytes) -> int | None:
    """The length of a body without its compression; None where that is not known."""
    if _TEXT_BEGINS.match(body):
        return len(body)
    if not body.startswith((GZIP, ZLIB)):
        return None if max(body[:64], default=0) > 0x7F else len(body)
    inflater, total = zlib.decompressobj(wbits=47), 0
    try:
        data = body
        while data and total <= MAX_INFLATED_BYTES:
            total += len(inflater.decompress(data, 1 << 20))
            data = inflater.unconsumed_tail
            if inflater.eof and inflater.unused_data:
                data, inflater = inflater.unused_data, zlib.decompressobj(wbits=47)
    except zlib.error:
        return None
    return total if total <= MAX_INFLATED_BYTES else None


def _text_bytes(value: Any) -> int | None:
    """A bound of the bytes that a value has as JSON; None for what has none."""
    total, waiting, seen = 0, [value], 0
    opened: set[int] = set()
    while waiting:
        one = waiting.pop()
        seen += 1
        if seen > 1 << 22:
            return None
        if isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple)):
            waiting += one
        elif isinstance(one, (str, bytes)):
            total += 4 * len(one)
        else:  # an object of a framework is what it holds, once
            total += 32
            if id(one) not in opened and not isinstance(one, _PLAIN) and not callable(one):
                opened.add(id(one))
                waiting += _held(one)
        total += 4
    return total


_PLAIN: Final = (int, float, complex, type(None))


def _held(value: object) -> list[Any]:
    """The attributes of an object, those without a dictionary too."""
    slots = [it for kind in type(value).__mro__ for it in getattr(kind, "__slots__", ())]
    own = [getattr(value, it, None) for it in slots if it not in ("__dict__", "__weakref__")]
    return own + list(getattr(value, "__dict__", {}).values())


def _said(value: Any) -> str:
    return value if isinstance(value, str) else ""


def relayed_tokens(relay: Relay, model: str, most: int | None) -> int:
    """The output that was passed on, in tokens: as its text counts, and one an event at least.

    Where there is no text to be counted, the bytes of a stream, or `most` if that is less; of a
    body that has not come, `unseen_tokens`.
    """
    texts = relay.reader.texts
    if texts is None and relay.is_stream:
        return relay.passed_bytes if most is None else min(relay.passed_bytes, most)
    if texts is None:
        return unseen_tokens(most, relay.passed_bytes)
    return max(relay.passed_events, text_tokens(texts, model, relay.reader.dialect))


def text_tokens(texts: Iterable[str], model: str, dialect: str | None = None) -> int:
    """The tokens of the text of an answer, as `model` counts; of one nobody knows as GPT-4 does."""
    return count_tokens(" ".join(texts), encoding=_encoding(model, dialect))


def unseen_tokens(most: int | None, passed_bytes: int = 0) -> int:
    """The output of an answer that nobody could read: the most that was asked for.

    Without that its bytes, and as much as is reserved where nothing is known, at least.
    """
    return max(passed_bytes, DEFAULT_TOKENS) if most is None else most


def _encoding(model: str, dialect: str | None) -> Any:
    if dialect == "anthropic" or "claude" in model:
        return "claude_v4_8"
    if dialect in ("gemini", "gemini-interactions"):
        return "gemma"
    try:
        return encoding_name_for_model(model)
    except (KeyError, ValueError):
        return "cl100k_base"
