"""The server's own routes: an estimate with all of its fields, and the record of a call.

With them a gateway in any language has deltas: it records what was billed, and asks before the
next turn.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tokenctx.gateway.server.call import Members, ServedRequest, estimate_headers
from tokenctx.gateway.server.refused import Refused

if TYPE_CHECKING:
    from tokenctx._estimate.accuracy import AccuracyEvent, NotRecorded
    from tokenctx.gateway.server.vendors import Answer

REQUEST_BYTES = "x-tokenctx-request-bytes"
NAMES = ("model", "dialect", "provider", "tenant")


async def estimate(call: ServedRequest) -> Answer:
    """`POST /v1/estimate`: `{"request": ..., "model": ...}`, or the request itself and headers.

    A body is an envelope if it is an object with a member `request`, which no vendor's request has.
    """
    request, given = call.body, dict[str, str | None]()
    if b'"request"' in call.body:
        members = await call.members()
        request = members.raw("request") or request
        given = _given(members) if request is not call.body else {}
    found = await call.estimate(request, **given)
    return {**found.as_dict(), "fits": found.fits()}, estimate_headers(found)


async def record(call: ServedRequest) -> Answer:
    """`POST /v1/record`: an envelope; or a request and its answer one behind the other.

    The envelope has `request`, `usage` (an object, a number, or an answer as text) and perhaps
    `reply`. In the other form a header says how many bytes the request has, and the rest of the
    body is the answer as it came: JSON or a stream of events, compressed or not.
    """
    length = call.header(REQUEST_BYTES)
    if length is not None:
        if not (length.isdecimal() and int(length) <= len(call.body)):
            most = len(call.body)
            raise Refused(400, f"{REQUEST_BYTES} must be a number of bytes from 0 to {most}")
        request, usage = call.body[: int(length)], call.body[int(length) :]
        return await _recorded(call, request, usage, None, {})
    members = await call.members()
    request_member = members.raw("request")
    if request_member is None:
        raise Refused(400, "request is missing", param="request")
    usage_member, reply = members.raw("usage"), members.raw("reply")
    answer = await call.work(call.body, _read, usage_member)
    return await _recorded(call, request_member, answer, reply, _given(members))


async def _recorded(
    call: ServedRequest,
    request: bytes,
    usage: object,
    reply: bytes | None,
    given: dict[str, str | None],
) -> Answer:
    names = call.names(**given)
    event = await call.estimator.arecord_event(request, usage, reply=reply, **names)
    return _told(event), {}


def _told(event: AccuracyEvent | NotRecorded) -> dict[str, Any]:
    if not event:
        return {"recorded": False, "reason": event.reason}  # type: ignore[union-attr]
    told = event.as_dict()
    names = ("estimated_tokens", "billed_tokens", "error_tokens", "source", "profile")
    return {"recorded": True, **{name: told[name] for name in (*names, "reply_reason")}}


def _given(members: Members) -> dict[str, str | None]:
    return {name: members.text(name) for name in NAMES}


def _read(usage: bytes | None) -> Any:
    """Usage as `record` takes it: an object in bytes stays as it is."""
    if usage is None or usage.lstrip()[:1] == b"{":
        return usage
    try:
        return json.loads(usage)
    except (ValueError, RecursionError):
        raise Refused(400, "usage is no JSON", param="usage") from None
