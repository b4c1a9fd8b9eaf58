"""A provider of ours on loopback, gateways in front of it, and servers for both."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from frames import event_frame
from tokenctx.gateway import Gateway, tenant_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.requests import Request

    from tokenctx.gateway import Call

Json = dict[str, Any]
HOST = "127.0.0.1"
START_SECONDS = 20
PROMPTS = ("messages", "input", "contents", "system", "instructions", "systemInstruction", "tools")
FRAMES = "application/vnd.amazon.eventstream"
REPLY = "The sky scatters blue light."
CALL = {"city": "Oslo"}


def words(value: Any) -> int:
    """Words of all text in a value, keys left out."""
    if isinstance(value, str):
        return len(value.split())
    if isinstance(value, Mapping):
        return sum(map(words, value.values()))
    return sum(map(words, value)) if isinstance(value, list) else 0


def billed(body: Json) -> int:
    """Input tokens as this provider bills them: nothing that a vocabulary would give."""
    return 1000 + 3 * sum(words(body.get(name)) for name in PROMPTS)


def event(data: Any, name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


# ------------------------------------------------------------------------------ answers by dialect

OUTPUT = 7


def has_tools(body: Json) -> bool:
    """Whether a tool is to be called: there is one, and it has not been yet."""
    said = json.dumps(body)
    ends = ('"tool_result"', '"role": "tool"', "call_output", "functionResponse", "toolResult")
    has_some = body.get("tools") or body.get("toolConfig")
    return bool(has_some) and not any(word in said for word in ends)


def chat_answer(body: Json) -> tuple[Json, list[bytes]]:
    arguments = json.dumps(CALL)
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    message: Json = {"role": "assistant", "content": REPLY}
    if has_tools(body):
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reason = "tool_calls" if has_tools(body) else "stop"
    usage = {"prompt_tokens": billed(body), "completion_tokens": OUTPUT}
    usage["total_tokens"] = sum(usage.values())
    about = {"id": "x", "created": 0, "model": body["model"]}
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    whole = {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
    delta: Json = {**message, "tool_calls": [{**call, "index": 0}]} if has_tools(body) else message
    steps: list[tuple[Json, str | None]] = [(delta, None), (Json(), reason)]
    about["object"] = "chat.completion.chunk"
    is_asked = (body.get("stream_options") or {}).get("include_usage")
    null: Json = {"usage": None} if is_asked else {}
    events = [
        event({**about, "choices": [{"index": 0, "delta": d, "finish_reason": r}], **null})
        for d, r in steps
    ]
    last = [event({**about, "choices": [], "usage": usage})] if is_asked else []
    return whole, [*events, *last, b"data: [DONE]\n\n"]


def responses_answer(body: Json) -> tuple[Json, list[bytes]]:
    text = {"type": "output_text", "text": REPLY, "annotations": []}
    item: Json = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
    item["content"] = [text]
    if has_tools(body):
        item = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "weather"}
        item |= {"arguments": json.dumps(CALL), "status": "completed"}
    usage = {"input_tokens": billed(body), "output_tokens": OUTPUT}
    usage["total_tokens"] = sum(usage.values())
    details = {
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    whole = {
        "id": "r1",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": body["model"],
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {**usage, **details},
    }
    started = {**whole, "status": "in_progress", "output": [], "usage": None}
    place = {"output_index": 0, "item_id": item["id"]}
    steps: list[Json] = [
        {"type": "response.created", "response": started},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
    ]
    if not has_tools(body):
        place["content_index"] = 0
        empty = {**text, "text": ""}
        steps += [
            {"type": "response.content_part.added", "part": empty, **place},
            {"type": "response.output_text.delta", "delta": REPLY, "logprobs": [], **place},
        ]
    steps += [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return whole, [event({**it, "sequence_number": n}, it["type"]) for n, it in enumerate(steps)]


def anthropic_answer(body: Json) -> tuple[Json, list[bytes]]:
    block: Json = {"type": "text", "text": REPLY}
    if has_tools(body):
        block = {"type": "tool_use", "id": "t1", "name": "weather", "input": CALL}
    reason = "tool_use" if has_tools(body) else "end_turn"
    usage = {"input_tokens": billed(body), "output_tokens": OUTPUT}
    whole = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [block],
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage,
    }
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    empty: Json = {"type": "text", "text": ""}
    delta: Json = {"type": "text_delta", "text": REPLY}
    if has_tools(body):
        empty, delta = {**block, "input": {}}, {"type": "input_json_delta"}
        delta["partial_json"] = json.dumps(CALL)
    steps: list[Json] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": OUTPUT},
        },
        {"type": "message_stop"},
    ]
    return whole, [event(it, it["type"]) for it in steps]


def gemini_answer(body: Json) -> tuple[Json, list[bytes]]:
    part: Json = {"text": REPLY}
    if has_tools(body):
        part = {"functionCall": {"name": "weather", "args": CALL}}
    usage = {"promptTokenCount": billed(body), "candidatesTokenCount": OUTPUT}
    usage["totalTokenCount"] = sum(usage.values())
    content = {"role": "model", "parts": [part]}
    last = {"content": content, "finishReason": "STOP", "index": 0}
    whole = {"candidates": [last], "usageMetadata": usage, "modelVersion": "gemini-2.5-pro"}
    return whole, [event(whole)]


def converse_answer(body: Json) -> tuple[Json, list[bytes]]:
    usage = {"inputTokens": billed(body), "outputTokens": OUTPUT}
    usage["totalTokens"] = sum(usage.values())
    block: Json = {"text": REPLY}
    delta: Json = {"text": REPLY}
    begun: Json = {}
    if has_tools(body):
        block = {"toolUse": {"toolUseId": "t1", "name": "weather", "input": CALL}}
        begun = {"start": {"toolUse": {"toolUseId": "t1", "name": "weather"}}}
        delta = {"toolUse": {"input": json.dumps(CALL)}}
    reason = "tool_use" if has_tools(body) else "end_turn"
    steps: list[Json] = [
        {"messageStart": {"role": "assistant"}},
        *([{"contentBlockStart": {"contentBlockIndex": 0, **begun}}] if begun else []),
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": delta}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": reason}},
        {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}},
    ]
    message = {"role": "assistant", "content": [block]}
    whole = {"output": {"message": message}, "stopReason": reason, "usage": usage}
    return {**whole, "metrics": {"latencyMs": 1}}, [event_frame(it) for it in steps]


ANSWERS = {
    "/chat/completions": chat_answer,
    "/responses": responses_answer,
    "/messages": anthropic_answer,
    ":generateContent": gemini_answer,
    ":streamGenerateContent": gemini_answer,
    "/converse": converse_answer,
    "/converse-stream": converse_answer,
}


@dataclass
class Upstream:
    """An ASGI application that answers as the vendors do, and keeps what it was sent."""

    seen: list[tuple[str, bytes]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        pieces, is_more = [], True
        while is_more:
            message = await receive()
            pieces.append(message.get("body", b""))
            is_more = message.get("more_body", False)
        body = b"".join(pieces)
        path = scope["path"]
        self.seen.append((path, body))
        self.headers.append({k.decode(): v.decode() for k, v in scope["headers"]})
        answer = next((it for end, it in ANSWERS.items() if path.endswith(end)), None)
        if answer is None:
            await respond(send, 200, "application/octet-stream", [body])
            return
        request = json.loads(body)
        whole, events = answer(request)
        if path.endswith("/converse-stream"):
            await respond(send, 200, FRAMES, events, is_stream=True)
        elif request.get("stream") or "streamGenerate" in path:
            await respond(send, 200, "text/event-stream; charset=utf-8", events, is_stream=True)
        else:
            await respond(send, 200, "application/json", [json.dumps(whole).encode()])


async def respond(
    send: Any, status: int, kind: str, parts: list[bytes], *, is_stream: bool = False
) -> None:
    headers = [(b"content-type", kind.encode())]
    if not is_stream:
        headers.append((b"content-length", str(sum(map(len, parts))).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


# ------------------------------------------------------------------------------ servers


@contextlib.contextmanager
def served(app: Any) -> Iterator[str]:
    """The address of `app`, which a thread serves."""
    uvicorn = pytest.importorskip("uvicorn")
    listening = socket.socket()
    listening.bind((HOST, 0))
    lifespan = "on" if hasattr(app, "router") else "off"
    config = uvicorn.Config(
        app, log_level="critical", lifespan=lifespan, timeout_graceful_shutdown=1
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    until = time.monotonic() + START_SECONDS
    while not running.started and time.monotonic() < until:
        time.sleep(0.01)
    try:
        yield f"http://{HOST}:{listening.getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join()
        listening.close()


@contextlib.contextmanager
def scripted(*parts: bytes, resets: bool = False) -> Iterator[str]:
    """The address of a server that answers with these bytes and closes, or resets, at once."""
    listening = socket.create_server((HOST, 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):  # a client may leave
                read_request(connection)
                for part in parts:
                    connection.sendall(part)
                if resets:
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://{HOST}:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def read_request(connection: socket.socket) -> bytes:
    """A request with a content-length, to its end."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    length = int(lengths[0].partition(b":")[2]) if lengths else 0
    while len(body) < length:
        body += connection.recv(65536)
    return body


def chunked(*parts: bytes) -> bytes:
    """Parts in the chunked encoding of HTTP, without its end."""
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


class WatchedGateway(Gateway):
    """A gateway that keeps its calls for a test to look at."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.calls: list[Call] = []

    def call(self, *arguments: Any, **options: Any) -> Call:
        call = super().call(*arguments, **options)
        self.calls.append(call)
        return call

    async def acall(self, *arguments: Any, **options: Any) -> Call:
        call = await super().acall(*arguments, **options)
        self.calls.append(call)
        return call


def proxy(upstream: str, gateway: Gateway | None = None) -> Any:
    """A Starlette application that sends POSTs on; with a gateway it holds the call itself."""
    applications = pytest.importorskip("starlette.applications")
    from starlette.background import BackgroundTask
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    httpx2 = pytest.importorskip("httpx2")
    client = httpx2.AsyncClient(base_url=upstream, timeout=30)

    async def send_on(request: Request) -> Response:
        raw, path = await request.body(), request.url.path
        call = None
        if gateway is not None:
            call = await gateway.acall(raw, path=path, tenant=tenant_of(request.scope))
            if call.refusal is not None:
                return Response(call.refusal.body, call.refusal.status, call.refusal.headers)
            raw = call.upstream_body
        encoding = call.accept_encoding if call is not None else "identity"
        headers = {"content-type": "application/json", "accept-encoding": encoding}
        target = f"{path}?{request.url.query}" if request.url.query else path
        sent = client.build_request("POST", target, content=raw, headers=headers)
        answer = await client.send(sent, stream=True)
        kept = {
            name: value for name, value in answer.headers.items() if name != "transfer-encoding"
        }
        chunks = answer.aiter_raw()
        if call is not None:
            relay = call.relay(answer.status_code, answer.headers)
            chunks = call.astream(chunks, relay=relay)
            kept |= call.headers
            if relay.is_rewritten:
                kept.pop("content-length", None)
        closing = BackgroundTask(answer.aclose)
        return StreamingResponse(chunks, answer.status_code, kept, background=closing)

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with client:
            yield

    routes = [Route("/{path:path}", send_on, methods=["POST"])]
    return applications.Starlette(routes=routes, lifespan=lifespan)
