"""Budgets in the handle of a call: refused, settled, given back, booked as reserved."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

import redis_rig as rig
from tokenctx import HybridTokenEstimator
from tokenctx._estimate.metrics import Metrics
from tokenctx.gateway import Gateway, TokenctxMiddleware
from tokenctx.money.budgets import Budget, Budgets, MemoryBudgetStore, RedisBudgetStore

if TYPE_CHECKING:
    from pathlib import Path

PATH = "/v1/chat/completions"
BODY = json.dumps(
    {
        "model": "gpt-4o",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "How long is a day?"}],
    }
).encode()
ANSWER = json.dumps(
    {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "24 hours."}}],
        "usage": {"prompt_tokens": 13, "completion_tokens": 7},
    }
).encode()
EVENTS = [
    b'data: {"choices":[{"index":0,"delta":{"content":"24 hours."}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":13,"completion_tokens":7}}\n\n',
    b"data: [DONE]\n\n",
]


def taken(budgets: Budgets) -> int:
    """What is used and reserved of the only budget."""
    store: Any = budgets._store
    [ledger] = store._ledgers.values()
    found: int = ledger.taken
    return found


def gateway(limit: int = 10_000) -> tuple[Gateway, Budgets]:
    budgets = Budgets([Budget("day", tokens=limit, per="day", by="tenant")])
    return Gateway(HybridTokenEstimator(), budgets=budgets), budgets


def test_a_whole_answer_settles() -> None:
    front, budgets = gateway()
    call = front.call(BODY, path=PATH, tenant="acme")
    assert call.refusal is None
    assert taken(budgets) == 113
    assert call.headers["x-ratelimit-remaining-tokens"] == "9887"
    call.response(ANSWER)
    assert taken(budgets) == 20
    assert budgets.stats() == {"granted": 1, "settled": 1}


def test_a_stream_settles_once() -> None:
    front, budgets = gateway()
    call = front.call(BODY, path=PATH, tenant="acme")
    headers = {"content-type": "text/event-stream"}
    assert b"".join(call.stream(iter(EVENTS), headers=headers))
    assert taken(budgets) == 20
    assert budgets.stats() == {"granted": 1, "settled": 1}


def test_a_cut_stream_is_booked_as_reserved() -> None:
    front, budgets = gateway()
    call = front.call(BODY, path=PATH, tenant="acme")
    stream = call.stream(iter(EVENTS), headers={"content-type": "text/event-stream"})
    next(stream)
    stream.close()
    assert call.reason == "cut"
    assert taken(budgets) == 113
    assert budgets.stats() == {"granted": 1, "kept": 1}


def test_a_failure_gives_back_and_the_next_attempt_is_booked() -> None:
    front, budgets = gateway()
    call = front.call(BODY, path=PATH, tenant="acme")
    call.response(b'{"error": {"message": "busy"}}', status=500)
    assert taken(budgets) == 0
    call.response(ANSWER)
    assert taken(budgets) == 20
    assert budgets.stats() == {"granted": 1, "released": 1, "settled": 1}
    never_sent = front.call(BODY, path=PATH, tenant="acme")
    never_sent.end()
    assert taken(budgets) == 20


def test_what_has_no_room_is_refused() -> None:
    front, _ = gateway(200)
    assert front.call(BODY, path=PATH, tenant="acme").refusal is None
    refusal = front.call(BODY, path=PATH, tenant="acme").refusal
    assert refusal is not None
    assert refusal.status == 429
    assert front.call(BODY, path=PATH, tenant="other").refusal is None
    assert front.stats()["budget_refused_day"] == 1


def test_keys_beside_the_tenant() -> None:
    budgets = Budgets([Budget("each", tokens=200, by=("tenant", "user"))])
    front = Gateway(HybridTokenEstimator(), budgets=budgets)
    assert front.call(BODY, path=PATH, keys={"user": "a"}).refusal is None
    assert front.call(BODY, path=PATH, keys={"user": "b"}).refusal is None
    assert front.call(BODY, path=PATH, keys={"user": "a"}).refusal is not None


def test_a_budget_that_raises_breaks_no_call() -> None:
    class Broken(MemoryBudgetStore):
        def apply(self, step: Any) -> Any:
            raise OSError(step.kind)

    budgets = Budgets([Budget("day", tokens=1)], store=Broken())
    call = Gateway(HybridTokenEstimator(), budgets=budgets).call(BODY, path=PATH)
    assert call.refusal is None
    call.response(ANSWER)
    assert call.event is not None
    assert budgets.stats()["failed_reserve"] == 1


@pytest.mark.parametrize("ends", ["well", "cut", "never", "refused"])
def test_the_middleware_with_an_asynchronous_store(ends: str, tmp_path: Path) -> None:
    redis = pytest.importorskip("redis")

    async def application(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if ends == "never":
            raise ConnectionError
        if ends == "refused":
            raise ConnectionRefusedError
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for event in EVENTS if ends == "well" else EVENTS[:1]:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        if ends == "cut":
            raise ConnectionError
        await send({"type": "http.response.body", "body": b""})

    async def run(port: int) -> dict[str, int]:
        client = redis.asyncio.Redis(port=port)
        budgets = Budgets([Budget("day", tokens=10_000, per="day")], store=RedisBudgetStore(client))
        front = Gateway(HybridTokenEstimator(), budgets=budgets)
        scope = {
            "type": "http",
            "method": "POST",
            "path": PATH,
            "headers": [(b"content-length", str(len(BODY)).encode())],
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": BODY, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        try:
            await TokenctxMiddleware(application, front)(scope, receive, send)
        except ConnectionError:
            assert ends != "well"
        await asyncio.sleep(0.1)  # a cut is booked by a task
        [key] = [it async for it in client.scan_iter() if not it.endswith(b":l")]
        taken = await client.hget(key, "t")
        held = [name async for name, it in client.hscan_iter(key, match="a:*") if it != b"s"]
        await client.aclose()
        return {"taken": int(taken), "held": len(held)}

    with rig.server(rig.require("redis"), tmp_path) as server:
        expected = {"well": 20, "cut": 113, "never": 113, "refused": 0}[ends]
        assert asyncio.run(run(server.port)) == {"taken": expected, "held": 0}


def _words(count: int, bill: int | None = None) -> list[bytes]:
    """A stream of so many tokens, ten an event."""
    event = {"choices": [{"index": 0, "delta": {"content": " day" * 10}}]}
    events = [b"data: " + json.dumps(event).encode() + b"\n\n"] * (count // 10)
    if bill is not None:
        events.append(EVENTS[1])
        usage = {"prompt_tokens": 13, "completion_tokens": bill}
        events.append(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
        events.append(b"data: [DONE]\n\n")
    return events


OPEN_BODY = json.dumps({k: v for k, v in json.loads(BODY).items() if k != "max_tokens"}).encode()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_reservation_grows_with_its_stream(*, is_async: bool) -> None:
    front, budgets = gateway(10**6)
    call = front.call(OPEN_BODY, path=PATH, tenant="acme")
    before = taken(budgets)
    assert before < 1_200
    held: list[int] = []
    if is_async:

        async def chunks() -> Any:
            for chunk in _words(50_000, 50_000):
                yield chunk

        async def run() -> None:
            stream = call.astream(chunks(), headers={"content-type": "text/event-stream"})
            held.extend([taken(budgets) async for _ in stream])

        asyncio.run(run())
    else:
        headers = {"content-type": "text/event-stream"}
        stream = call.stream(iter(_words(50_000, 50_000)), headers=headers)
        held.extend(taken(budgets) for _ in stream)
    short = [10 * nth - it for nth, it in enumerate(held[:5_000], 1)]
    assert max(short) <= 0, "what has passed is held at any time"
    assert max(held) <= 1.6 * 50_000
    assert taken(budgets) == 50_013
    assert budgets.stats()["grown"] < 20


def test_what_has_grown_and_was_cut_is_booked_as_seen() -> None:
    front, budgets = gateway(10**6)
    call = front.call(OPEN_BODY, path=PATH, tenant="acme")
    stream = call.stream(iter(_words(30_000)), headers={"content-type": "text/event-stream"})
    for _ in range(2_000):
        next(stream)
    assert taken(budgets) > 20_000
    stream.close()
    assert 20_000 <= taken(budgets) <= 20_100


def test_a_grown_reservation_ends_once_and_none_grows_after_its_end() -> None:
    front, budgets = gateway(10**6)
    call = front.call(OPEN_BODY, path=PATH, tenant="acme")
    reservation = call._booking.reservation
    assert reservation is not None
    reservation.grow(9_000)
    reservation.grow(10)
    assert taken(budgets) == 9_013
    reservation.release()
    reservation.grow(20_000)
    assert taken(budgets) == 0


def test_what_was_not_recorded_or_counted_is_in_the_metrics() -> None:
    metrics = Metrics()
    front = Gateway(HybridTokenEstimator(metrics=metrics))
    stream = front.call(BODY, path=PATH).stream(iter(EVENTS))
    next(stream)
    stream.close()
    front.call(b"no JSON", path=PATH)
    front.call(BODY, path="/v1/embeddings")
    front.call(BODY, path="/v1/talk")
    names = ("not_recorded_cut", "uncounted_unreadable_body", "other_paths", "unrecognised_paths")
    assert {name: front.stats()[name] for name in names} == dict.fromkeys(names, 1)
    assert metrics.snapshot()["tokenctx.calls.missed"] == {(name,): 1 for name in names}
