"""Faults at every stage, over loopback: bytes go through, and nothing false is recorded."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import importlib
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from gateway_rig import (
    Upstream,
    WatchedGateway,
    billed,
    chat_answer,
    chunked,
    proxy,
    scripted,
    served,
)
from tokenctx import HybridTokenEstimator
from tokenctx.gateway import TokenctxMiddleware

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
CHAT = "/v1/chat/completions"
ASKED: Json = {
    "model": "gpt-4o",
    "messages": [{"role": "user", "content": "Why is the sky blue?"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}
RAW = json.dumps(ASKED).encode()
EVENTS = chat_answer(ASKED)[1]
HEAD = (
    b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
WHOLE = b"".join(EVENTS)
LIBRARIES = ("httpx", "httpx2")
STAGES: dict[str, tuple[tuple[bytes, ...], bool]] = {
    "before the headers": ((), False),
    "in the headers": ((HEAD[:30],), False),
    "between headers and body": ((HEAD,), False),
    "behind an event": ((HEAD, chunked(EVENTS[0])), False),
    "in the middle of an event": ((HEAD, chunked(EVENTS[0], EVENTS[1][:20])), False),
    "in the middle of the usage": ((HEAD, chunked(*EVENTS[:2], EVENTS[2][:-30])), False),
    "behind the last event": ((HEAD, chunked(*EVENTS)), True),
}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def gateway(**options: Any) -> WatchedGateway:
    return WatchedGateway(HybridTokenEstimator(), **options)


def sync_bytes(library: Any, made: WatchedGateway, url: str) -> tuple[bytes, bool]:
    """What comes before the fault, and whether one came."""
    transports = importlib.import_module(f"tokenctx.gateway.{library.__name__}")
    with transports.client(made) as client:
        return received(library, client, f"{url}{CHAT}")


def received(library: Any, client: Any, url: str) -> tuple[bytes, bool]:
    got = b""
    try:
        with client.stream("POST", url, content=RAW) as response:
            for chunk in response.iter_bytes():
                got += chunk
    except library.TransportError:
        return got, True
    return got, False


async def async_bytes(library: Any, made: WatchedGateway, url: str) -> tuple[bytes, bool]:
    transports = importlib.import_module(f"tokenctx.gateway.{library.__name__}")
    got = b""
    async with transports.async_client(made) as client:
        try:
            async with client.stream("POST", f"{url}{CHAT}", content=RAW) as response:
                async for chunk in response.aiter_bytes():
                    got += chunk
        except library.TransportError:
            return got, True
    return got, False


@pytest.mark.parametrize("resets", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("stage", STAGES)
def test_a_provider_that_breaks_off_is_recorded_only_behind_its_end(
    stage: str, name: str, *, is_async: bool, resets: bool
) -> None:
    library = pytest.importorskip(name)
    parts, is_whole = STAGES[stage]
    made = gateway()
    with scripted(*parts, resets=resets) as url:
        if is_async:
            got, is_broken = asyncio.run(async_bytes(library, made, url))
        else:
            got, is_broken = sync_bytes(library, made, url)
    assert is_broken
    assert WHOLE.startswith(got)
    (call,) = made.calls
    if resets and call.event is None and is_whole:
        return  # the reset has overtaken what was sent before it
    assert (call.event is not None) is is_whole
    assert made.estimator.stats()["recorded"] == int(is_whole)


@contextlib.contextmanager
def in_front_of(url: str, made: WatchedGateway, *, is_middleware: bool) -> Iterator[str]:
    app = proxy(url, None if is_middleware else made)
    if is_middleware:
        app.add_middleware(TokenctxMiddleware, gateway=made)
    with served(app) as address:
        yield address


@pytest.mark.parametrize("is_middleware", [False, True], ids=["handle", "middleware"])
def test_a_gateway_hands_a_broken_stream_on_as_broken(*, is_middleware: bool) -> None:
    httpx2 = pytest.importorskip("httpx2")
    for stage, (parts, is_whole) in STAGES.items():
        if "header" in stage:
            continue
        made = gateway()
        with (
            scripted(*parts) as url,
            in_front_of(url, made, is_middleware=is_middleware) as address,
            httpx2.Client(trust_env=False) as client,
        ):
            got, is_broken = received(httpx2, client, f"{address}{CHAT}")
        assert is_broken, stage
        assert WHOLE.startswith(got), stage
        assert (made.calls[0].event is not None) is is_whole, stage


def status_line(status: int) -> bytes:
    return (
        b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}" % status
    )


@pytest.mark.parametrize("is_middleware", [False, True], ids=["handle", "middleware"])
def test_errors_of_the_provider_arrive_as_they_are(*, is_middleware: bool) -> None:
    httpx2 = pytest.importorskip("httpx2")
    for status in (400, 401, 429, 500, 529):
        made = gateway()
        with (
            scripted(status_line(status)) as url,
            in_front_of(url, made, is_middleware=is_middleware) as address,
            httpx2.Client(trust_env=False) as client,
        ):
            answer = client.post(f"{address}{CHAT}", content=RAW)
        assert (answer.status_code, answer.content) == (status, b"{}")
        assert made.calls[0].reason == "upstream_error"


@pytest.mark.parametrize("name", LIBRARIES)
def test_packed_answers_arrive_as_they_are_and_the_readable_is_asked_for(name: str) -> None:
    library = pytest.importorskip(name)
    transports = importlib.import_module(f"tokenctx.gateway.{name}")
    packed = gzip.compress(WHOLE)
    head = HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
    made, upstream = gateway(), Upstream()
    with scripted(head, chunked(packed), b"0\r\n\r\n") as url, transports.client(made) as client:
        with client.stream("POST", f"{url}{CHAT}", content=RAW) as response:
            assert b"".join(response.iter_raw()) == packed
        assert client.post(f"{url}{CHAT}", content=RAW).content == WHOLE
    assert all(call.event is not None for call in made.calls)
    with served(upstream) as url, transports.client(made) as client:
        client.post(f"{url}{CHAT}", content=RAW)
        client.post(f"{url}{CHAT}", json={**ASKED, "stream_options": None})
        client.post(f"{url}/v1/embeddings", content=RAW)
    asked = [headers["accept-encoding"] for headers in upstream.headers]
    assert asked[:2] == ["gzip", "identity"]
    assert asked[2] == library.Client().headers["accept-encoding"]


def spoken(address: str, request: bytes) -> bytes:
    """All that a server sends to these bytes until it closes."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(request)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer


@pytest.mark.parametrize("is_middleware", [False, True], ids=["handle", "middleware"])
def test_a_client_of_http_1_0_gets_the_stream_to_the_end_of_the_connection(
    *, is_middleware: bool
) -> None:
    made = gateway()
    bare = json.dumps({**ASKED, "stream_options": None}).encode()
    head = b"POST %s HTTP/1.0\r\nhost: h\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(bare))
    with (
        served(Upstream()) as url,
        in_front_of(url, made, is_middleware=is_middleware) as address,
    ):
        body = spoken(address, head + bare).partition(b"\r\n\r\n")[2]
    assert body == b"".join(it for it in EVENTS if b"prompt_tokens" not in it)
    assert made.calls[0].event is not None
    assert made.calls[0].event.billed_tokens == billed(ASKED)


@pytest.mark.parametrize("is_middleware", [False, True], ids=["handle", "middleware"])
def test_clients_that_leave_are_not_recorded(*, is_middleware: bool) -> None:
    endless = chunked(EVENTS[0]) * 200_000
    made = gateway()
    head = b"POST %s HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(RAW))
    with (
        scripted(HEAD, endless) as url,
        in_front_of(url, made, is_middleware=is_middleware) as address,
    ):
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head + RAW)
            assert connection.recv(1000)
    assert (made.calls[0].event, made.calls[0].reason) == (None, "cut")


@pytest.mark.slow
@pytest.mark.parametrize("is_middleware", [False, True], ids=["handle", "middleware"])
def test_empty_and_huge_bodies_arrive_byte_for_byte(*, is_middleware: bool) -> None:
    httpx2 = pytest.importorskip("httpx2")
    made, upstream = gateway(), Upstream()
    filler = b'"' + b"a long text " * (100_000_000 // 12) + b'"'
    message = b'{"model":"gpt-4o","messages":[{"role":"user","content":%s}]}' % filler
    with (
        served(upstream) as url,
        in_front_of(url, made, is_middleware=is_middleware) as address,
        httpx2.Client(trust_env=False, timeout=300) as client,
    ):
        answers = [client.post(f"{address}/v1/files", content=it) for it in (b"", message)]
        assert [len(it.content) for it in answers] == [0, len(message)]
        answer = client.post(f"{address}{CHAT}", content=message)
    assert answer.status_code == (200 if is_middleware else 400)
    seen = [hashlib.sha256(body).digest() for _, body in upstream.seen]
    expected = [b"", message, message][: 2 + is_middleware]
    assert seen == [hashlib.sha256(body).digest() for body in expected]
    if is_middleware:
        assert made.stats()["uncounted_too_large"] == 1
        assert answer.headers["x-tokenctx-uncounted"] == "too_large"
    else:
        assert made.stats()["refused"] == 1
