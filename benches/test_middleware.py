"""What the middleware costs a call, beside what gateways write by hand: parse body and events.

Both wrap one ASGI app, called in process without sockets: the next turn of a known conversation and
an answer of 40 events. By hand, nothing is estimated, remembered or asked for.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from gateway_overhead import Client, provider
from tokenctx import HybridTokenEstimator
from tokenctx.gateway import Gateway, TokenctxMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

PATH = "/v1/chat/completions"
TURNS = 8
ROUNDS = 12


class ByHand:
    """Finds model and usage of each call."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.usages: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        assert json.loads(message["body"])["model"]

        async def replayed() -> Any:
            return message

        async def read(part: Any) -> None:
            for event in part.get("body", b"").split(b"\n\n"):
                if event.startswith(b"data: {"):
                    usage = json.loads(event[len("data: ") :]).get("usage")
                    self.usages += [usage] if usage else []
            await send(part)

        await self._app(scope, replayed, read)


async def call(app: Any, body: bytes) -> None:
    headers = [(b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "method": "POST", "path": PATH, "headers": headers}

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    async def send(_: Any) -> None:
        return

    await app(scope, receive, send)


async def with_middleware(bodies: list[bytes]) -> int:
    estimator = HybridTokenEstimator()
    app = TokenctxMiddleware(provider(), Gateway(estimator, refuse_by=None))
    for body in bodies:
        await call(app, body)
    return estimator.stats()["recorded"]


async def by_hand(bodies: list[bytes]) -> int:
    app = ByHand(provider())
    for body in bodies:
        await call(app, body)
    return len(app.usages)


IMPLEMENTATIONS: dict[str, Callable[[list[bytes]], Any]] = {
    "rust": with_middleware,
    "reference": by_hand,
}


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(("group", "byte_count"), [("call-2kb", 2_000), ("call-300kb", 300_000)])
def test_call(
    benchmark: BenchmarkFixture, group: str, byte_count: int, implementation: str
) -> None:
    client = Client(1, byte_count, is_fresh=False)
    bodies = [client.body() for _ in range(TURNS)]
    work = IMPLEMENTATIONS[implementation]
    assert asyncio.run(work(bodies)) == TURNS
    benchmark.group = group
    benchmark.pedantic(lambda: asyncio.run(work(bodies)), rounds=ROUNDS, warmup_rounds=2)  # type: ignore[no-untyped-call]
