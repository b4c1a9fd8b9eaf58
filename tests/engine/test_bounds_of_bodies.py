"""What a request may have at most, and what any body may cost."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import AccuracyEvent, ConversationStateTracker, HybridTokenEstimator, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_MESSAGES, MAX_PARTS, MAX_TOOLS = 100_000, 200_000, 10_000
BYTES_A_BYTE = 8
BYTES_BESIDE = 32 << 20
ADDRESS_SPACE = 2 << 30
CLEAR_PEAK = "5"


def body(before: str, element: str, count: int, after: str) -> bytes:
    return (before + ",".join([element]) + f",{element}" * (count - 1) + after).encode()


ONE = '{"messages":[{"role":"user","content":'
CALLS = '{"messages":[{"role":"assistant","tool_calls":['
RESULT = '{"messages":[{"role":"user","content":[{"type":"tool_result","content":['
TOOLS = '{"messages":[],"tools":['
ADDED = '{"input":[{"type":"additional_tools","tools":['

TOO_MANY = [
    ("messages", MAX_MESSAGES, '{"messages":[', "1", "]}"),
    ("messages", MAX_MESSAGES, '{"contents":[', "{}", "]}"),
    ("messages", MAX_MESSAGES, '{"input":[', '""', "]}"),
    ("messages", MAX_MESSAGES, '{"prompt":[', "1", "]}"),
    ("messages", MAX_MESSAGES, "[", "[]", "]"),
    ("messages", MAX_MESSAGES, '{"message":"a","chat_history":[', "{}", "]}"),
    ("messages", MAX_MESSAGES, '{"messages":[', '{"role":"user","content":"a"}', "]}"),
    ("parts", MAX_PARTS, ONE + "[", "1", "]}]}"),
    ("parts", MAX_PARTS, CALLS, "{}", "]}]}"),
    ("parts", MAX_PARTS - 1, RESULT, "1", "]}]}]}"),
    ("parts", MAX_PARTS, '{"messages":[],"system":[', "1", "]}"),
    ("parts", MAX_PARTS, ONE + '"","images":[', "1", "]}]}"),
    ("tools", MAX_TOOLS, TOOLS, '{"name":"f"}', "]}"),
    ("tools", MAX_TOOLS - 1, TOOLS + '{"functionDeclarations":[', "{}", "]}]}"),
    ("tools", MAX_TOOLS, ADDED, "{}", "]}]}"),
]


@pytest.mark.parametrize(("what", "limit", "before", "element", "after"), TOO_MANY)
def test_a_request_has_so_many_items_at_most(
    what: str, limit: int, before: str, element: str, after: str
) -> None:
    estimator = HybridTokenEstimator()
    assert estimator.estimate(body(before, element, limit, after)).tokens >= 0
    refused = body(before, element, limit + 1, after)
    for call in (
        estimator.estimate,
        estimator.count_request,
        lambda it: estimator.record(it, 5),
        lambda it: estimator.estimate(json.loads(it)),
    ):
        with pytest.raises(RequestError, match=f"more than {round(limit, -4)} {what}") as caught:
            call(refused)
        assert (caught.value.code, caught.value.offset) == (f"too_many_{what}", None)
        assert caught.value.limit == round(limit, -4)


def test_parts_are_counted_over_all_messages() -> None:
    message = json.dumps({"role": "user", "content": [1] * 20})
    with pytest.raises(RequestError, match="parts") as caught:
        HybridTokenEstimator().estimate(body('{"messages":[', message, MAX_PARTS // 20 + 1, "]}"))
    assert caught.value.code == "too_many_parts"


def test_a_reply_and_a_tracked_conversation_have_the_same_limits() -> None:
    request = {"model": "gpt-4o", "messages": [{"role": "user", "content": "a"}]}
    reply = {"role": "assistant", "content": [1] * (MAX_PARTS + 1)}
    estimator = HybridTokenEstimator()
    event = estimator.record_event(request, 5, reply=reply)
    assert isinstance(event, AccuracyEvent)
    assert event.reply_reason == "reply_unreadable"
    assert len(estimator) == 1, "the request alone"
    with pytest.raises(RequestError, match="messages"):
        ConversationStateTracker().lookup([1] * (MAX_MESSAGES + 1), "gpt")


# Memory


def numbered(count: int) -> bytes:
    return ("{" + ",".join([f'"{number:x}":1' for number in range(count)]) + "}").encode()


SMALL_BODIES: dict[str, Callable[[int], bytes]] = {
    "messages of one value": lambda size: body('{"messages":[', "1", size // 2, "]}"),
    "messages of one list": lambda size: body('{"messages":[', "[]", size // 3, "]}"),
    "empty messages": lambda size: body('{"messages":[', "{}", size // 3, "]}"),
    "texts as messages": lambda size: body('{"messages":[', '""', size // 3, "]}"),
    "no messages": lambda size: body('{"messages":[', "null", size // 5, "]}"),
    "short messages": lambda size: body(
        '{"messages":[', '{"role":"user","content":"a"}', size // 30, "]}"
    ),
    "short blocks": lambda size: body(ONE + "[", '{"type":"text","text":"a"}', size // 27, "]}]}"),
    "short texts": lambda size: body(ONE + "[", '"a"', size // 4, "]}]}"),
    "parts": lambda size: body(ONE + "[", "1", size // 2, "]}]}"),
    "empty parts": lambda size: body(ONE + "[", "{}", size // 3, "]}]}"),
    "calls": lambda size: body(CALLS, "{}", size // 3, "]}]}"),
    "results": lambda size: body(RESULT, "1", size // 2, "]}]}]}"),
    "tools": lambda size: body(TOOLS, "{}", size // 3, "]}"),
    "enumerated values": lambda size: body(
        TOOLS + '{"name":"f","input_schema":{"enum":[', "1", size // 2, "]}}]}"
    ),
    "escapes": lambda size: body(ONE + '"', "\\n", size // 3, '"}]}'),
    "members": lambda size: numbered(size // 9),
    "equal members": lambda size: body("{", '"":1', size // 5, "}"),
    "bytes that are no UTF-8": lambda size: b'{"messages":["' + b"\xff" * size + b'"]}',
}


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def peak_of(made: bytes, *, is_record: bool) -> int:
    """Bytes beyond what the process had that a call took at its peak, in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        with os.fdopen(reader, "rb") as told:
            answer = told.read()
        _, status = os.waitpid(child, 0)
        assert status == 0, f"the process ended with status {status}"
        return int(answer)
    try:
        limit = ADDRESS_SPACE + address_space()  # what the tests have mapped is theirs
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        estimator = HybridTokenEstimator()
        estimator.record(b'{"messages":[{"role":"user","content":"a"}]}', 5)
        Path("/proc/self/clear_refs").write_text(CLEAR_PEAK)
        before = peak_bytes()
        call: Any = (lambda: estimator.record(made, 5)) if is_record else None
        with contextlib.suppress(RequestError):
            (call or (lambda: estimator.estimate(made)))()
        os.write(writer, str(peak_bytes() - before).encode())
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    "size", [1 << 20, pytest.param(32_000_000, marks=pytest.mark.slow)], ids=["1 MB", "32 MB"]
)
@pytest.mark.parametrize("kind", SMALL_BODIES)
def test_memory_is_bounded_by_the_body(kind: str, size: int) -> None:
    made = SMALL_BODIES[kind](size)
    for is_record in (False, True):
        most = BYTES_A_BYTE * len(made) + BYTES_BESIDE
        assert peak_of(made, is_record=is_record) <= most


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (-1, ValueError),
        ((1 << 40) + 1, ValueError),
        (2**63, ValueError),
        (2**64, ValueError),
        (10**30, ValueError),
        (1.5, TypeError),
        ("1", TypeError),
        (None, TypeError),
    ],
)
def test_a_capacity_is_checked(value: Any, kind: type[Exception]) -> None:
    for made in (HybridTokenEstimator, ConversationStateTracker):
        with pytest.raises(
            kind, match=r"capacity_bytes is .*; .* from 0 to 1099511627776 \(1 TiB\)"
        ):
            made(capacity_bytes=value)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits its memory")
@pytest.mark.parametrize("capacity_bytes", [0, 1, 1 << 30, 1 << 40])
def test_memory_is_taken_when_it_is_used(capacity_bytes: int) -> None:
    before = peak_bytes()
    estimator = HybridTokenEstimator(capacity_bytes=capacity_bytes)
    for text in "ab":
        request = {"model": "gpt-4o", "messages": [{"role": "user", "content": text * 20_000}]}
        assert estimator.record(json.dumps(request), 5)
        assert estimator.estimate(json.dumps(request)).source == "exact"
    assert len(estimator) == (1 if capacity_bytes < 2 else 2)
    assert peak_bytes() - before < 32 << 20
