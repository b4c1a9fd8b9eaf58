"""Every way around a budget that we know of, in front of a provider that counts what it serves.

The provider is a real server. It reads bodies as leniently as any, counts input and output with a
tokenizer of its own accord, and ends its answers in every way. A front is a client behind a budget:
it sends one request and reads as much of the answer as the way says.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import threading
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from gateway_rig import HOST, proxy, served
from tokenctx import HybridTokenEstimator, encoding_for_model
from tokenctx.gateway import Gateway, TokenctxMiddleware, tenant_of
from tokenctx.money.budgets import Budget, Budgets, MemoryBudgetStore

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
CHAT = "/v1/chat/completions"
TEXT = "How long is a day? "
KIND = ("content-type", "application/json")
ENCODING = encoding_for_model("gpt-4o")
LIMIT = 10**12
SECONDS = 20.0
PATIENCE = 0.3
"""Seconds after which a client leaves to whom nothing has come."""
WORDS = (" day", " sun")
"""A token each, in turns: what repeats what came before may be read once."""
MANY = 400


def body(words: int = 200, **more: Any) -> bytes:
    message = {"role": "user", "content": TEXT * words}
    return json.dumps({"model": "gpt-4o", "messages": [message], "max_tokens": 50, **more}).encode()


# ------------------------------------------------------------------------------ the provider


@dataclass(frozen=True)
class Answer:
    """How the provider answers.

    Attributes:
        output: Tokens of each choice.
        usage: Whether it tells them: at the end, after each event, as zeros, or not.
        ends: `well`; `cut`, the connection breaks; `waits` for the client to leave; `late`, it has
            worked, and somebody on the way was not that patient; or a status.
        at_once: Tokens of one event.
        place: The member of a delta that has the text.
        choices: Answers side by side.
        is_stream: Events, or one body.
        dialect: Whose form it has.
        model: Who says that it has answered.
    """

    output: int = 20
    usage: str = "end"
    ends: str = "well"
    at_once: int = 1
    place: str = "content"
    choices: int = 1
    is_stream: bool = True
    dialect: str = "chat"
    model: str = "gpt-4o"


@dataclass
class Provider:
    """An ASGI application that counts what it has served; `answers` are those of the next calls."""

    answers: list[Answer] = field(default_factory=list)
    answer: Answer = field(default_factory=Answer)
    served: int = 0
    calls: int = 0

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        data, is_more = b"", True
        while is_more:
            message = await receive()
            data += message.get("body", b"")
            is_more = message["type"] == "http.request" and message.get("more_body", False)
        self.calls += 1
        answer = self.answers.pop(0) if self.answers else self.answer
        if answer.ends in ("500", "503", "429"):  # it has served nothing
            return await _whole(send, int(answer.ends), b'{"error": {"message": "busy"}}')
        prompt = tokens_of(data)
        self.served += prompt
        if answer.ends == "late":
            self.served += answer.output * answer.choices
            with contextlib.suppress(asyncio.TimeoutError):
                return await asyncio.wait_for(_left(receive), 2 * PATIENCE)
            return await _whole(send, 504, b"{}")
        if not answer.is_stream:
            self.served += answer.output * answer.choices
            return await _whole(send, 200, json.dumps(answer_of(answer, prompt)).encode())
        return await self._stream(answer, prompt, receive, send)

    async def _stream(self, answer: Answer, prompt: int, receive: Any, send: Any) -> None:
        start = {"type": "http.response.start", "status": 200}
        headers = [(b"content-type", b"text/event-stream")]
        await send({**start, "headers": headers})
        seen = sent = 0
        for done in range(answer.at_once, answer.output + 1, answer.at_once):
            seen = done
            for index in range(answer.choices):
                self.served += answer.at_once
                sent += answer.at_once
                usage = (prompt, sent) if answer.usage == "each" else None
                is_first = index == 0 and done == answer.at_once
                is_last = answer.ends == "well" and done + answer.at_once > answer.output
                ends = (answer.usage == "each" and is_first) or is_last
                text = WORDS[sent // answer.at_once % 2] * answer.at_once
                parts = _event(answer, index, text, usage, ends=ends)
                await send({"type": "http.response.body", "body": parts, "more_body": True})
        if answer.ends == "waits":
            await _left(receive)
            return
        if answer.ends == "cut":
            raise ConnectionError
        if answer.usage == "end":
            told = _usage(prompt, seen * answer.choices)
            last = event({"choices": [], "usage": told})
            await send({"type": "http.response.body", "body": last, "more_body": True})
        elif answer.usage == "zeros":
            last = event({"choices": [], "usage": _usage(0, 0)})
            await send({"type": "http.response.body", "body": last, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


async def _whole(send: Any, status: int, content: bytes) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def _left(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def event(data: Any) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def _usage(prompt: int, output: int) -> Json:
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


def _event(
    answer: Answer, index: int, text: str, usage: tuple[int, int] | None, *, ends: bool
) -> bytes:
    """An event with a text of one choice."""
    told = {} if usage is None else {"usage": _usage(*usage)}
    head = {"id": "same", "object": "chat.completion.chunk", "created": 1, "model": answer.model}
    if answer.dialect == "responses":
        kind = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0}
        return event({**kind, "item_id": "same", "delta": text})
    if answer.place == "text":
        return event({**head, "choices": [{"index": index, "text": text}], **told})
    delta: Json = {answer.place: text}
    if answer.place == "arguments":
        call = {"index": 0, "id": "c", "type": "function"}
        delta = {"tool_calls": [{**call, "function": {"name": "f", "arguments": text}}]}
    choice = {"index": index, "delta": delta, "finish_reason": "stop" if ends else None}
    return event({**head, "choices": [choice], **told})


def answer_of(answer: Answer, prompt: int) -> Json:
    text = WORDS[0] * answer.output
    message: Json = {"role": "assistant", "content": text}
    ends = "stop"
    if answer.place == "arguments":
        function = {"name": "look", "arguments": json.dumps({"at": text})}
        call = {"id": f"call_{prompt}", "type": "function", "function": function}
        message, ends = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    choices = [
        {"index": nth, "message": message, "finish_reason": ends} for nth in range(answer.choices)
    ]
    whole: Json = {"id": "same", "object": "chat.completion", "created": 1, "model": answer.model}
    told = {} if answer.usage == "none" else {"usage": _usage(0, 0)}
    if answer.usage == "end":
        told = {"usage": _usage(prompt, answer.output * answer.choices)}
    return {**whole, "choices": choices, **told}


def tokens_of(data: bytes) -> int:
    """The input of a body, read as leniently as anybody does; of equal keys the longest counts."""
    if data[:1] in (b"\x1f", b"\x78"):
        data = zlib.decompress(data, wbits=47)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        data = data.decode("utf-16").encode()
    text = data.decode("utf-8", "replace").strip()
    texts: list[str] = []

    def longest(pairs: list[tuple[str, Any]]) -> Json:
        found: Json = {}
        for name, value in pairs:
            if len(json.dumps(value)) >= len(json.dumps(found.get(name))):
                found[name] = value
        return found

    try:
        value, _ = json.JSONDecoder(object_pairs_hook=longest).raw_decode(text)
    except (ValueError, RecursionError):
        return len(ENCODING.encode(text)) if TEXT in text else 0
    waiting = [value.get(name) for name in ("messages", "input", "prompt")]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            texts.append(one)
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return sum(ENCODING.count(it) for it in texts)


# ------------------------------------------------------------------------------ the fronts


class Clock:
    """Seconds since 1970, as a test wants them."""

    now = 1e9

    def __call__(self) -> float:
        return self.now


@dataclass
class Books:
    """One budget by tenant, and what is booked in it."""

    clock: Clock = field(default_factory=Clock)
    lease_seconds: float = 600.0
    per: Any = None

    def __post_init__(self) -> None:
        self.store = MemoryBudgetStore(clock=self.clock)
        self.budgets = self.made()

    def made(self, limit: int = LIMIT) -> Budgets:
        """Budgets of one more process: they share the store alone."""
        rows = [Budget("b", tokens=limit, by="tenant", per=self.per)]
        return Budgets(rows, store=self.store, lease_seconds=self.lease_seconds)

    def teach(self, tenant: str, output: int) -> None:
        """Have a tenant whose answers were all of this length, so that no more is reserved."""
        for name in (tenant, f"Bearer {tenant}"):
            for _ in range(16):
                self.budgets._outputs.add(name, "gpt-4o", output)

    def gateway(self) -> Gateway:
        return Gateway(HybridTokenEstimator(), budgets=self.budgets, refuse_by=None)

    @staticmethod
    def tenant(request: Any) -> str | None:
        """Whose a request of httpx is."""
        found: str | None = request.headers.get("authorization")
        return found

    @property
    def held(self) -> int:
        return sum(len(it.held) for it in self.store._ledgers.values())

    @property
    def booked(self) -> int:
        """What is booked; nothing is held any longer."""
        until = 400
        while self.held and until:
            threading.Event().wait(0.01)
            until -= 1
        assert not self.held, "a call has not ended"
        return sum(it.used for it in self.store._ledgers.values())


Headers = list[tuple[str, str]]
Ask = "Callable[..., int]"


def over_http(
    address: str, target: str, content: bytes, headers: Headers, leaves: int | None
) -> int:
    """The status of a POST whose target is sent as it stands; the client leaves after an event."""
    port = int(address.rpartition(":")[2])
    lines = [f"POST {target} HTTP/1.1", f"host: {HOST}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers]
    head = "\r\n".join([*lines, f"content-length: {len(content)}", "", ""])
    with socket.create_connection((HOST, port), timeout=SECONDS) as link:
        with contextlib.suppress(ConnectionError):  # a refusal may come before the end of a body
            link.sendall(head.encode("latin-1") + content)
        received = b""
        while True:
            if leaves == 0:
                threading.Event().wait(PATIENCE)
                break
            if leaves is not None and received.count(b"data:") >= leaves:
                break
            try:
                part = link.recv(1 << 16)
            except OSError:
                break
            if not part:
                break
            received += part
        return int(received[9:12] or 0)


@contextlib.contextmanager
def middleware(url: str, books: Books) -> Iterator[Any]:
    """A relay under `TokenctxMiddleware`."""
    with served(TokenctxMiddleware(proxy(url), books.gateway(), tenant=tenant_of)) as address:

        def ask(
            content: bytes, target: str = CHAT, headers: Any = (KIND,), leaves: int | None = None
        ) -> int:
            return over_http(address, target, content, list(headers), leaves)

        yield ask


@contextlib.contextmanager
def handle(url: str, books: Books) -> Iterator[Any]:
    """A relay that holds the call itself."""
    with served(proxy(url, books.gateway())) as address:

        def ask(
            content: bytes, target: str = CHAT, headers: Any = (KIND,), leaves: int | None = None
        ) -> int:
            return over_http(address, target, content, list(headers), leaves)

        yield ask


@contextlib.contextmanager
def sync_transport(url: str, books: Books) -> Iterator[Any]:
    """A client of httpx with the synchronous transport."""
    httpx = pytest.importorskip("httpx")
    from tokenctx.gateway.httpx import Transport

    with httpx.Client(
        transport=Transport(books.gateway(), refuse=True, tenant=books.tenant)
    ) as client:

        def ask(
            content: bytes, target: str = CHAT, headers: Any = (KIND,), leaves: int | None = None
        ) -> int:
            place = httpx.URL(url).copy_with(raw_path=target.encode("latin-1"))
            late = PATIENCE if leaves == 0 else SECONDS
            asked = client.stream(
                "POST", place, content=content, headers=dict(headers), timeout=late
            )
            try:
                with asked as got:
                    for nth, _ in enumerate(got.iter_raw(), 1):
                        if leaves is not None and nth >= leaves:
                            break
                    return int(got.status_code)
            except httpx.HTTPError:
                return 0

        yield ask


@contextlib.contextmanager
def async_transport(url: str, books: Books) -> Iterator[Any]:
    """A client of httpx with the asynchronous transport."""
    httpx = pytest.importorskip("httpx")
    from tokenctx.gateway.httpx import AsyncTransport

    front = books.gateway()

    async def run(content: bytes, target: str, headers: Any, leaves: int | None) -> int:
        place = httpx.URL(url).copy_with(raw_path=target.encode("latin-1"))
        transport = AsyncTransport(front, refuse=True, tenant=books.tenant)
        late = PATIENCE if leaves == 0 else SECONDS
        async with httpx.AsyncClient(transport=transport, timeout=late) as client:
            asked = client.stream("POST", place, content=content, headers=dict(headers))
            try:
                async with asked as got:
                    nth = 0
                    async for _ in got.aiter_raw():
                        nth += 1
                        if leaves is not None and nth >= leaves:
                            break
                    return int(got.status_code)
            except httpx.HTTPError:
                return 0

    def ask(
        content: bytes, target: str = CHAT, headers: Any = (KIND,), leaves: int | None = None
    ) -> int:
        return asyncio.run(run(content, target, headers, leaves))

    yield ask


FRONTS = {
    "middleware": middleware,
    "handle": handle,
    "transport": sync_transport,
    "async transport": async_transport,
}

# ------------------------------------------------------------------------------ the ways

PATHS = (
    CHAT,
    "/v1/chat/%63ompletions",
    "/v1%2Fchat%2Fcompletions",
    "/v1/chat/%2563ompletions",
    "/threads/../v1/chat/completions",
    "/v1/chat/x/../completions",
    "/v1/chat/./completions",
    "/v1/chat/completions/.",
    "/v1/chat/completions%2F",
    "//v1//chat//completions",
    "/v1/chat/completions;a=1",
    "/V1/Chat/Completions",
    "/v1/chat/completions%3Fx",
    "/v1/chat/completions%23x",
    "/v1/chat/completions%20",
    "/v1/embeddings/..%2Fchat/completions",
    "/v1/talk",
    "/",
    "/v1/completions",
)

UNBOUNDED = (
    "/v1/batches",
    "/v1/messages/batches",
    "/v1/messages/%62atches",
    "/v1beta/models/gemini-2.5-flash:batchGenerateContent",
    "/v1/threads/runs",
    "/v1/threads/t_1/runs",
    "/v1/threads/t_1/runs/r_1/submit_tool_outputs",
)
"""Where a small body asks for any number of calls."""

ODD = {
    "padded": (body() + b" " * (33 << 20), ()),
    "deep": (body(ignored=0).replace(b": 0", b": " + b"[" * 1100 + b"]" * 1100), ()),
    "trailing": (body() + b"{}", ()),
    "gzip": (gzip.compress(body(20_000)), (("content-encoding", "gzip"),)),
    "UTF-16": (body().decode().encode("utf-16"), ()),
    "many tools": (body(tools=[{"type": "function"}] * 10_001), ()),
    "no JSON": (TEXT.encode() * 50, ()),
    "a key twice": (
        body(2000)[:-1] + b', "messages": [{"role": "user", "content": "a"}]}',
        (),
    ),
    "an escaped key": (body().replace(b'"messages"', b'"mess\\u0061ges"'), ()),
}

KINDS = ("application/json", "text/plain", "image/png", "application/octet-stream", "")

ENDS: dict[str, tuple[Answer, int | None]] = {
    "whole": (Answer(is_stream=False), None),
    "whole, no usage": (Answer(is_stream=False, usage="none", output=50), None),
    "whole, zeros": (Answer(is_stream=False, usage="zeros", output=50), None),
    "whole, four, no usage": (
        Answer(is_stream=False, usage="none", output=50, choices=4),
        None,
    ),
    "stream": (Answer(), None),
    "stream, no usage": (Answer(MANY, "none"), None),
    "stream, zeros": (Answer(MANY, "zeros"), None),
    "cut": (Answer(MANY, ends="cut"), None),
    "cut, four at once": (Answer(MANY, "none", "cut", choices=4), None),
    "cut, in one event": (Answer(MANY, "none", "cut", at_once=MANY), None),
    "cut, reasoning": (Answer(MANY, "none", "cut", 20, "reasoning_content"), None),
    "cut, arguments": (Answer(MANY, "none", "cut", 20, "arguments"), None),
    "cut, refusal": (Answer(MANY, "none", "cut", 20, "refusal"), None),
    "cut, a completion": (Answer(MANY, "none", "cut", 20, "text"), None),
    "cut, an unknown member": (Answer(MANY, "none", "cut", 20, "monologue"), None),
    "cut, Responses": (Answer(MANY, "none", "cut", 20, dialect="responses"), None),
    "usage in each event": (Answer(MANY, "each", choices=2), None),
    "the client leaves": (Answer(40, "none", "waits", at_once=40), 1),
    "nothing comes": (Answer(50, ends="late"), 0),
    "an error": (Answer(ends="500"), None),
    "busy": (Answer(ends="503"), None),
}
