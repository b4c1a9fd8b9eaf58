"""A slot of a concurrency limit, and a request of a rate limit, however a call ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator
from tokenctx.gateway import Gateway, TokenctxMiddleware
from tokenctx.money.budgets import Budget, Budgets

PATH = "/v1/chat/completions"
BODY = json.dumps(
    {"model": "gpt-4o", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
).encode()
EVENTS = {"content-type": "text/event-stream"}
CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"24 hours."}}]}\n\n'
SCOPE = {
    "type": "http",
    "method": "POST",
    "path": PATH,
    "headers": [(b"content-length", str(len(BODY)).encode())],
}


def gateway(slots: int = 1) -> tuple[Gateway, Budgets]:
    budgets = Budgets(
        [Budget("slots", concurrency=slots), Budget("rpm", requests=100, per="day", by="tenant")]
    )
    return Gateway(HybridTokenEstimator(), budgets=budgets), budgets


def of(budgets: Budgets) -> tuple[Any, Any]:
    return budgets.balance("slots").taken, budgets.balance("rpm").taken


@pytest.mark.parametrize("end", ["whole", "closed", "raises", "no answer", "timeout", "500"])
def test_of_the_handle(end: str) -> None:
    front, budgets = gateway()
    call = front.call(BODY, path=PATH)
    assert of(budgets) == (1, 1)
    refused = front.call(BODY, path=PATH)
    assert refused.refusal is not None
    assert refused.refusal.headers["retry-after"] == "1"
    assert refused.headers["x-ratelimit-remaining-requests"] == "99"
    refused.end()
    assert of(budgets) == (1, 1), "who was refused gives no slot of another back"
    if end == "whole":
        call.response(b'{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}')
    elif end == "500":
        call.response(b"{}", status=500)
    elif end in ("closed", "raises"):

        def chunks() -> Any:
            yield CHUNK
            if end == "raises":
                raise ConnectionError
            yield CHUNK

        stream = call.stream(chunks(), headers=EVENTS)
        next(stream)
        if end == "closed":
            stream.close()
        else:
            with pytest.raises(ConnectionError):
                next(stream)
    elif end == "timeout":
        call.end(TimeoutError())
    call.end()
    call.end()
    assert of(budgets) == (0, 1)
    assert front.call(BODY, path=PATH).refusal is None


@pytest.mark.parametrize("end", ["well", "raises", "cancelled", "no answer", "hang-up"])
def test_of_the_middleware(end: str) -> None:
    front, budgets = gateway()
    started = asyncio.Event()

    async def app(_: Any, receive: Any, send: Any) -> None:
        await receive()
        if end == "no answer":
            return
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
        started.set()
        if end == "cancelled":
            await asyncio.sleep(60)
        if end == "raises":
            raise RuntimeError
        await send({"type": "http.response.body", "body": CHUNK, "more_body": False})

    async def receive() -> Any:
        return {"type": "http.request", "body": BODY, "more_body": False}

    async def send(message: Any) -> None:
        if end == "hang-up" and message["type"] == "http.response.body":
            raise OSError

    async def run() -> None:
        task = asyncio.create_task(TokenctxMiddleware(app, front)(SCOPE, receive, send))
        if end == "cancelled":
            await started.wait()
            assert of(budgets) == (1, 1)
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()

    asyncio.run(run())
    assert of(budgets) == (0, 1)


def test_many_at_once_never_have_more_than_the_slots() -> None:
    front, budgets = gateway(slots=3)
    running = most = refused = 0

    async def one(nth: int) -> None:
        nonlocal running, most, refused
        call = await front.acall(BODY, path=PATH)
        if call.refusal is not None:
            refused += 1
            return
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001 * (nth % 3))
        running -= 1
        call.end(asyncio.CancelledError() if nth % 2 else None)

    async def run() -> None:
        for _ in range(10):
            await asyncio.gather(*(one(nth) for nth in range(12)))

    asyncio.run(run())
    assert most == 3
    assert refused > 0
    assert of(budgets) == (0, 120 - refused)
