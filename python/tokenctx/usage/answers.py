"""The caller's answer, in whatever form: its usage, its reply, or why there is none."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.estimates import MAX_TOKENS
from tokenctx.usage.compressed import MAGIC, MAX_CONTAINERS, Inflater
from tokenctx.usage.normal import Usage, read_usage
from tokenctx.usage.reader import UsageReader
from tokenctx.usage.reading import member, normal_usage_of

if TYPE_CHECKING:
    from tokenctx._results.estimates import Dialect, Reason, ReplyReason

MAX_ANSWER_BYTES: Final = 16 << 20
"""Longest answer that is read, also after it was inflated."""
_REPLY_NAMES: Final = ("choices", "output", "content", "candidates", "message", "items")
"""One of these stands beside the usage, where an answer has a reply."""
_BYTES: Final = (bytes, bytearray, memoryview)


@dataclass(slots=True)
class Answer:
    """The facts known of an answer.

    Attributes:
        usage: What may be recorded; None if nothing may, for `reason`.
        reply: As the core reads it: JSON text or objects.
        is_reply_given: By the caller, or by a stream; not only the object around the usage.
    """

    usage: Usage | None = None
    reason: Reason = "no_usage"
    reply: object | None = None
    reply_reason: ReplyReason | None = None
    is_reply_given: bool = False


class _UnreadError(Exception):
    """An answer cannot be read."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


def answered(usage: object, reply: object | None, dialect: Dialect | None) -> Answer:
    """The part of an answer that can be recorded: arguments as of `record_event`. Never raises."""
    try:
        answer = _of_usage(usage, dialect)
    except _UnreadError as error:
        return Answer(reason=error.reason)
    billed = answer.usage
    if billed is None:
        return answer
    is_out_of_range = billed.input_tokens >= MAX_TOKENS or billed.output_tokens >= MAX_TOKENS
    is_refused = is_out_of_range or billed.is_scaled or billed.is_contradictory or billed.origin
    if is_refused or billed.is_partial:
        if billed.is_scaled:
            answer.reason = "scaled"
        elif not billed.is_partial:
            answer.reason = "out_of_range" if is_out_of_range else _doubt(billed)
        answer.usage = None
    elif reply is not None:
        _take_reply(answer, reply, dialect)
    return answer


def _doubt(billed: Usage) -> Reason:
    return "not_of_provider" if billed.origin else "inconsistent"


def _of_usage(usage: object, dialect: Dialect | None) -> Answer:
    if type(usage) is dict:
        return _of_object(usage, dialect)
    if isinstance(usage, UsageReader):
        return _of_reader(usage)
    own = normal_usage_of(usage)
    if isinstance(own, Usage):  # scaled, so the true numbers are beside the body
        return Answer(own, "partial", usage if isinstance(usage, (bytes, dict)) else None)
    if isinstance(usage, (*_BYTES, str)):
        text = _plain(usage)
        body = _object(text)
        if body is None:
            return _of_reader(_read(text, dialect))
        answer = _of_object(body, dialect)
        answer.reply = None if answer.reply is None else text
        return answer
    return _of_object(usage, dialect)


def _of_object(obj: object, dialect: Dialect | None) -> Answer:
    usage, place = read_usage(obj, dialect)
    if usage is None:
        return Answer(reason="failed" if member(obj, "error") else "no_usage")
    has_reply = place is not obj and any(member(obj, name) is not None for name in _REPLY_NAMES)
    return Answer(usage, "partial", obj if has_reply else None)


def _of_reader(reader: UsageReader) -> Answer:
    usage, reply = reader.usage, reader.reply
    if (reason := reader.reason) is not None:
        return Answer(reason=reason)
    missing: ReplyReason | None = "reply_missing" if reply is None else None
    return Answer(usage, "partial", reply, missing, is_reply_given=True)


def _take_reply(answer: Answer, reply: object, dialect: Dialect | None) -> None:
    answer.is_reply_given, answer.reply_reason = True, None
    try:
        if isinstance(reply, (*_BYTES, str)):
            text = _plain(reply)
            if text.lstrip()[:1] not in (b"{", b"["):
                reply = _read(text, dialect)
            else:
                reply = reply if isinstance(reply, str) else text
    except _UnreadError:
        answer.reply, answer.reply_reason = None, "reply_unreadable"
        return
    if isinstance(reply, UsageReader):
        is_read, reply = reply.has_read, reply.reply
        if reply is None:
            answer.reply_reason = "reply_missing" if is_read else "reply_unreadable"
    answer.reply = reply


def _read(text: bytes, dialect: Dialect | None) -> UsageReader:
    reader = UsageReader(dialect)
    reader.feed(text)
    reader.finish()
    return reader


def _object(text: bytes) -> dict[str, Any] | None:
    """The body that `text` is; None if it is none."""
    if text.lstrip()[:1] != b"{":
        return None
    if text.count(b"{") + text.count(b"[") > MAX_CONTAINERS:
        raise _UnreadError("too_large")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _plain(data: bytes | bytearray | memoryview | str) -> bytes:
    """The bytes of an answer, inflated if it is gzip; `_UnreadError` if they cannot be had."""
    if len(data) > MAX_ANSWER_BYTES:
        raise _UnreadError("too_large")
    plain = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    if plain.startswith(MAGIC):
        inflater, inflated = Inflater(), bytearray()
        for piece in inflater.push(plain):
            inflated += piece
            if len(inflated) > MAX_ANSWER_BYTES:
                raise _UnreadError("too_large")
        if inflater.is_broken:
            raise _UnreadError("unreadable")
        if inflater.has_lost:
            raise _UnreadError("too_large")
        plain = bytes(inflated)
    return plain.removeprefix(b"\xef\xbb\xbf")
