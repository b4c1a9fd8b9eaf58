"""The middleware hands on what it is given, and adds, refuses and records beside it."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import pytest

from gateway_rig import WatchedGateway, billed, chat_answer
from tokenctx import ContextWindowScaler, HybridTokenEstimator, UsageReader
from tokenctx.gateway import Call, Relay, TokenctxMiddleware

Json = dict[str, Any]
CHAT = "/v1/chat/completions"
BODY: Json = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}
STREAM: Json = {**BODY, "stream": True}
ASKED: Json = {**STREAM, "stream_options": {"include_usage": True}}


def message(body: bytes = b"", *, more: bool = False) -> Json:
    return {"type": "http.request", "body": body, "more_body": more}


def part(body: bytes, *, more: bool = True) -> Json:
    return {"type": "http.response.body", "body": body, "more_body": more}


def started(*headers: tuple[bytes, bytes], status: int = 200) -> Json:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


DISCONNECT: Json = {"type": "http.disconnect"}
EVENTS = (b"content-type", b"text/event-stream")
JSON = (b"content-type", b"application/json")


class App:
    """Answers with `answers`, and keeps the scope and all that it received."""

    def __init__(self, *answers: Json, error: BaseException | None = None) -> None:
        self.answers, self.error = answers, error
        self.scope: Any = None
        self.received: list[Json] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = scope
        if scope["type"] != "http":
            return
        is_more = True
        while is_more:
            self.received.append(await receive())
            is_more = self.received[-1].get("more_body", False)
        for answer in self.answers:
            await send(answer)
        if self.error is not None:
            raise self.error

    @property
    def body(self) -> bytes:
        return b"".join(it.get("body", b"") for it in self.received)


def gateway(**options: Any) -> WatchedGateway:
    return WatchedGateway(HybridTokenEstimator(), **options)


def scope_of(path: str = CHAT, body: bytes | None = None, **fields: Any) -> Json:
    headers = [(b"host", b"h")]
    if body is not None:
        headers.append((b"content-length", str(len(body)).encode()))
    about = {"type": "http", "method": "POST", "path": path, "headers": headers}
    return {**about, "raw_path": path.encode(), **fields}


async def serve(app: Any, scope: Json, incoming: list[Json]) -> list[Json]:
    """What an application sends for one connection."""
    sent: list[Json] = []
    waiting = list(incoming)

    async def receive() -> Json:
        return waiting.pop(0) if waiting else DISCONNECT

    async def send(answer: Any) -> None:
        sent.append(dict(answer))

    await app(scope, receive, send)
    return sent


def ran(app: App, body: Json | bytes, made: WatchedGateway, **options: Any) -> list[Json]:
    """What goes to the client for a body that comes in two messages."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    incoming = [message(raw[:20], more=True), message(raw[20:])]
    wrapped = TokenctxMiddleware(app, made, **options)
    return asyncio.run(serve(wrapped, scope_of(body=raw), incoming))


def header(answer: Json, name: str) -> str | None:
    found = [value for key, value in answer["headers"] if key == name.encode()]
    return found[0].decode() if found else None


def whole_of(body: Json) -> bytes:
    return json.dumps(chat_answer(body)[0]).encode()


def test_a_call_is_estimated_recorded_and_told_to_application_and_client() -> None:
    answer = whole_of(BODY)
    length = (b"content-length", str(len(answer)).encode())
    app, made = App(started(JSON, length), part(answer, more=False)), gateway()
    sent = ran(app, BODY, made)
    (call,) = made.calls
    assert app.scope["state"]["tokenctx"] is call
    assert app.body == json.dumps(BODY).encode()
    assert sent[1:] == [part(answer, more=False)]
    assert header(sent[0], "x-tokenctx-tokens") == "13"
    assert header(sent[0], "content-length") == str(len(answer))
    assert call.event is not None
    assert call.event.billed_tokens == billed(BODY)
    assert header(ran(app, BODY, made)[0], "x-tokenctx-source") == "exact"


def test_the_parts_of_a_stream_go_out_as_the_objects_that_came() -> None:
    parts = [part(it) for it in chat_answer(ASKED)[1]]
    app, made = App(started(EVENTS), *parts, part(b"", more=False)), gateway()
    sent = ran(app, ASKED, made)
    assert sent[1:] == [*parts, part(b"", more=False)]
    assert made.calls[0].event is not None


def test_a_changed_request_has_its_length_and_its_answer_none() -> None:
    events = chat_answer(ASKED)[1]
    length = (b"content-length", str(len(b"".join(events))).encode())
    parts = [part(it) for it in events]
    app, made = App(started(EVENTS, length), *parts, part(b"", more=False)), gateway()
    sent = ran(app, STREAM, made)
    assert json.loads(app.body) == ASKED
    lengths = [value for name, value in app.scope["headers"] if name == b"content-length"]
    assert lengths == [str(len(app.body)).encode()]
    assert header(sent[0], "content-length") is None
    received = b"".join(it["body"] for it in sent[1:])
    assert received == b"".join(it for it in events if b"prompt_tokens" not in it)
    assert made.calls[0].event is not None


def test_a_scaled_answer_has_its_own_length() -> None:
    answer = whole_of(BODY)
    length = (b"content-length", str(len(answer)).encode())
    app = App(started(JSON, length), part(answer[:30]), part(answer[30:], more=False))
    made = gateway(assumed_window_tokens=12_800_000)
    sent = ran(app, BODY, made)
    scaled = bytes(ContextWindowScaler(128_000, 12_800_000, exempt_models=()).scale_body(answer))
    assert b"".join(it["body"] for it in sent[1:]) == scaled
    assert header(sent[0], "content-length") == str(len(scaled))
    assert len(scaled) != len(answer)
    assert made.calls[0].event is not None
    assert made.calls[0].event.billed_tokens == billed(BODY)


def test_an_answer_too_long_to_be_scaled_goes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenctx.gateway.relay.MAX_BODY_BYTES", 50)
    answer = whole_of(BODY)
    length = (b"content-length", str(len(answer)).encode())
    pieces = [part(answer[at : at + 20]) for at in range(0, len(answer), 20)]
    app = App(started(JSON, length), *pieces, part(b"", more=False))
    sent = ran(app, BODY, gateway(assumed_window_tokens=12_800_000))
    assert b"".join(it["body"] for it in sent[1:]) == answer
    assert header(sent[0], "content-length") == str(len(answer))


def test_what_is_too_long_is_refused_in_place_of_the_application() -> None:
    app, made = App(started(JSON), part(b"{}", more=False)), gateway(limits={"gpt": 3})
    sent = ran(app, BODY, made)
    assert app.scope is None
    assert sent[0]["status"] == 400
    assert header(sent[0], "content-length") == str(len(sent[1]["body"]))
    assert json.loads(sent[1]["body"])["error"]["code"] == "context_length_exceeded"
    assert header(sent[0], "x-tokenctx-tokens") == "13"
    assert ran(app, BODY, made, refuse=False)[1] == part(b"{}", more=False)
    assert made.calls[-1].refusal is not None


@pytest.mark.parametrize(
    "scope",
    [
        {"type": "lifespan"},
        {"type": "websocket", "path": CHAT, "headers": []},
        scope_of("/v1/models"),
        scope_of("/v1/embeddings"),
        scope_of(CHAT, method="GET"),
    ],
)
def test_all_else_is_handed_on_as_it_is(scope: Json) -> None:
    app, made = App(started(JSON), part(b"{}", more=False)), gateway()
    asyncio.run(serve(TokenctxMiddleware(app, made), scope, [message()]))
    assert app.scope is scope
    assert made.calls == []


def test_a_body_beyond_the_cap_is_not_read_and_says_so() -> None:
    raw = json.dumps(BODY).encode()
    app, made = App(started(JSON), part(b"{}", more=False)), gateway()
    for scope in (scope_of(body=raw), scope_of()):
        wrapped = TokenctxMiddleware(app, made, max_body_bytes=40)
        app.received.clear()
        incoming = [message(bytes([byte]), more=True) for byte in raw]
        sent = asyncio.run(serve(wrapped, scope, [*incoming, message()]))
        assert app.body == raw
        assert header(sent[0], "x-tokenctx-uncounted") == "too_large"
    assert made.stats() == {"uncounted_too_large": 2}


def test_a_later_disconnect_is_seen_and_an_early_one_too() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(await receive())
        seen.append(await receive())
        del scope, send

    raw = json.dumps(BODY).encode()
    wrapped = TokenctxMiddleware(app, made := gateway())
    seen: list[Json] = []
    asyncio.run(serve(wrapped, scope_of(), [message(raw)]))
    assert seen == [message(raw), DISCONNECT]
    seen.clear()
    asyncio.run(serve(wrapped, scope_of(), [message(raw[:9], more=True), DISCONNECT]))
    assert seen == [message(raw[:9], more=True), DISCONNECT]
    assert made.stats()["uncounted_disconnected"] == 1


def test_an_application_that_raises_raises_and_nothing_is_recorded() -> None:
    app = App(started(EVENTS), part(chat_answer(ASKED)[1][0]), error=RuntimeError("mine"))
    made = gateway()
    with pytest.raises(RuntimeError, match="mine"):
        ran(app, ASKED, made)
    assert (made.calls[0].event, made.calls[0].reason) == (None, "cut")


def test_other_messages_of_an_answer_pass() -> None:
    path = {"type": "http.response.pathsend", "path": "/x"}
    sent = ran(App(started(JSON), path), BODY, gateway())
    assert sent[1] == path


def test_an_application_that_reads_the_answer_itself_is_not_read_twice() -> None:
    events = chat_answer(ASKED)[1]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(started(EVENTS))
        for chunk in scope["state"]["tokenctx"].stream(events):
            await send(part(chunk))
        await send(part(b"", more=False))

    made = gateway()
    raw = json.dumps(STREAM).encode()
    sent = asyncio.run(serve(TokenctxMiddleware(app, made), scope_of(), [message(raw)]))
    assert [it["body"] for it in sent[1:-1]] == [it for it in events if b"prompt_tok" not in it]
    assert made.stats() == {"estimated": 1, "recorded": 1}


def test_a_tenant_is_taken_from_the_scope_and_none_is_taken_for_another() -> None:
    answer = whole_of(BODY)
    app, made = App(started(JSON), part(answer, more=False)), gateway()

    def by_state(scope: Any) -> str:
        return str(scope["user"])

    raw = json.dumps(BODY).encode()
    wrapped = TokenctxMiddleware(app, made, tenant=by_state)
    sources = []
    for user in ("a", "b", "a"):
        sent = asyncio.run(serve(wrapped, scope_of(user=user), [message(raw)]))
        sources.append(header(sent[0], "x-tokenctx-source"))
    assert sources == ["estimated", "estimated", "exact"]
    sent = asyncio.run(serve(wrapped, scope_of(), [message(raw)]))  # no user: it raises
    assert header(sent[0], "x-tokenctx-uncounted") == "tenant_failed"
    assert sent[1]["body"] == answer
    assert made.stats()["failed_tenant"] == 1


def descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0


@pytest.mark.slow
def test_ten_thousand_aborted_streams_leave_nothing() -> None:
    events = chat_answer(ASKED)[1]
    made = WatchedGateway(HybridTokenEstimator())
    raw = json.dumps(STREAM).encode()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(started(EVENTS))
        await send(part(events[0]))
        if scope["end"] == "hangs":
            await asyncio.Event().wait()
        raise ConnectionResetError

    async def abort(end: str) -> None:
        wrapped = TokenctxMiddleware(app, made)
        task = asyncio.create_task(serve(wrapped, scope_of(end=end), [message(raw)]))
        if end == "hangs":
            for _ in range(4):
                await asyncio.sleep(0)
            task.cancel()
        with pytest.raises((asyncio.CancelledError, ConnectionResetError)):
            await task

    async def run() -> int:
        for number in range(10_000):
            await abort("hangs" if number % 2 else "resets")
            if number % 100 == 0:
                made.calls.clear()
        return len(asyncio.all_tasks())

    def alive() -> int:
        gc.collect()
        return sum(type(it) in (Call, Relay, UsageReader) for it in gc.get_objects())

    before = (descriptors(), alive())
    assert asyncio.run(run()) == 1
    made.calls.clear()
    open_files, living = before
    # What is left of each stream would be thousands; threads of other tests open and close a few.
    assert abs(descriptors() - open_files) < 100
    assert alive() <= living
    stats = made.stats()
    assert (stats["estimated"], stats["not_recorded_cut"]) == (10_000, 10_000)
    assert "recorded" not in stats
