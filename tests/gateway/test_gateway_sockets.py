"""WebSockets and batches through the middleware: no body bounds what is called there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway_rig import served
from tokenctx import HybridTokenEstimator
from tokenctx.gateway import Gateway, TokenctxMiddleware
from tokenctx.money.budgets import Budget, Budgets


async def _echo(scope: Any, receive: Any, send: Any) -> None:
    """An application that accepts every socket and sends back what comes."""
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message.get("text")})


def _middleware(budgets: Budgets | None, **options: Any) -> TokenctxMiddleware:
    return TokenctxMiddleware(_echo, Gateway(HybridTokenEstimator(), budgets=budgets), **options)


def _budgets(**options: Any) -> Budgets:
    return Budgets([Budget("day", tokens=10**6, per="day")], **options)


def _said(address: str, path: str) -> str:
    """The echo of a word over a real socket, or the status that has refused it."""
    client = pytest.importorskip("websockets.asyncio.client")
    exceptions = pytest.importorskip("websockets.exceptions")

    async def talk() -> str:
        try:
            async with client.connect(address.replace("http", "ws") + path) as socket:
                await socket.send("word")
                return str(await socket.recv())
        except exceptions.InvalidStatus as error:
            return str(error.response.status_code)

    return asyncio.run(talk())


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/realtime?model=gpt-realtime", "429"),
        ("/v1/responses", "429"),
        ("/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent", "429"),
        ("/v1/%72ealtime", "429"),
        ("/chat-of-people", "word"),
    ],
)
def test_under_budgets_no_model_is_called_over_a_socket(path: str, said: str) -> None:
    pytest.importorskip("uvicorn")
    with served(_middleware(_budgets())) as address:
        assert _said(address, path) == said


@pytest.mark.parametrize("budgets", [None, _budgets(observe_only=True)])
def test_without_a_refusal_sockets_pass(budgets: Budgets | None) -> None:
    pytest.importorskip("uvicorn")
    with served(_middleware(budgets)) as address:
        assert _said(address, "/v1/realtime") == "word"
    with served(_middleware(_budgets(), refuse=False)) as address:
        assert _said(address, "/v1/realtime") == "word"
    if budgets is not None:
        assert budgets.stats()["would_refuse"] == 1


def test_a_server_without_answers_to_sockets_closes_them() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/v1/realtime", "headers": [], "extensions": {}}
    asyncio.run(_middleware(_budgets())(scope, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008, "reason": "over budget"}]


def test_batches_pass_without_budgets_and_say_why_with_them() -> None:
    plain = Gateway(HybridTokenEstimator())
    call = plain.call(b'{"requests": []}', path="/v1/messages/batches")
    assert (call.refusal, call.headers, plain.stats()) == (None, {}, {"other_paths": 1})
    front = Gateway(HybridTokenEstimator(), budgets=_budgets())
    call = front.call(b'{"requests": []}', path="/v1/messages/batches", tenant="a")
    assert call.refusal is not None
    assert call.refusal.status == 429
    assert call.failure == "unbounded"
    assert front.stats()["uncounted_unbounded"] == 1
    assert front.call(b"", path="/v1/batches/b_1/cancel").refusal is None
