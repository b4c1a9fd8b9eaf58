"""Whatever way a call takes under a budget: reserved, refused, or booked by an upper bound.

A provider of its own counts what it has served; what it served and nobody booked or refused is 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator
from tokenctx.gateway import Gateway, TokenctxMiddleware, header_tenant
from tokenctx.money.budgets import Budget, Budgets, MemoryBudgetStore

CHAT = "/v1/chat/completions"
TEXT = "How long is a day? "
LIMIT = 10**12
JSON = [(b"content-type", b"application/json")]


def body(words: int = 200, **more: Any) -> bytes:
    message = {"role": "user", "content": TEXT * words}
    return json.dumps({"model": "gpt-4o", "messages": [message], "max_tokens": 50, **more}).encode()


class Provider:
    """An application that answers every chat at any path, and counts what it has served."""

    def __init__(self, output: int = 20, *, usage: bool = False, ends: str = "well") -> None:
        self.served = self.calls = 0
        self.output, self.usage, self.ends = output, usage, ends
        self.input = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        data = b""
        while True:
            message = await receive()
            data += message.get("body", b"")
            if message["type"] != "http.request" or not message.get("more_body"):
                break
        self.calls += 1
        if any(key == b"content-encoding" and value == b"gzip" for key, value in scope["headers"]):
            data = gzip.decompress(data)
        self.input = len(data) // 12
        self.served += self.input
        if self.ends == "raises":
            raise TimeoutError
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(self.output):
            self.served += 1
            event = {"choices": [{"index": 0, "delta": {"content": "a"}}]}
            part = f"data: {json.dumps(event)}\n\n".encode()
            await send({"type": "http.response.body", "body": part, "more_body": True})
        if self.ends == "cut":
            raise ConnectionError
        if self.usage:
            usage = {"prompt_tokens": self.input, "completion_tokens": self.output}
            last: dict[str, Any] = {"choices": [], "usage": usage}
            part = f"data: {json.dumps(last)}\n\n".encode()
            await send({"type": "http.response.body", "body": part, "more_body": True})
        done = b"data: [DONE]\n\n"
        await send({"type": "http.response.body", "body": done, "more_body": False})


def booked(budgets: Budgets) -> int:
    store: Any = budgets._store
    assert not any(ledger.held for ledger in store._ledgers.values())
    return sum(ledger.used for ledger in store._ledgers.values())


def gateway(limit: int = LIMIT, **options: Any) -> tuple[Gateway, Budgets]:
    store = MemoryBudgetStore(clock=lambda: 1e9)
    budgets = Budgets([Budget("b", tokens=limit, by="tenant")], store=store, **options)
    return Gateway(HybridTokenEstimator(), budgets=budgets, refuse_by=None), budgets


def ask(
    app: Any, content: bytes, path: str = CHAT, *, raw: bytes | None = None, headers: Any = JSON
) -> list[Any]:
    """The messages that came back, of a request in parts."""
    sent: list[Any] = []
    parts = [content[at : at + (8 << 20)] for at in range(0, len(content), 8 << 20)] or [b""]

    async def receive() -> Any:
        if not parts:
            return {"type": "http.disconnect"}
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    if raw is not None:
        scope["raw_path"] = raw
    with contextlib.suppress(ConnectionError, TimeoutError):
        asyncio.run(app(scope, receive, send))
    return sent


PATHS = [
    ("/v1/chat/completions", b"/v1/chat/%63ompletions"),
    ("/v1/chat/completions", b"/v1%2Fchat%2Fcompletions"),
    ("/v1/chat/%63ompletions", b"/v1/chat/%2563ompletions"),
    ("/threads/../v1/chat/completions", None),
    ("/threads/%2e%2e/v1/chat/completions", b"/threads/%252e%252e/v1/chat/completions"),
    ("/v1/chat/x/../completions", None),
    ("/v1/chat/./completions", None),
    ("/v1/chat/completions/.", None),
    ("/v1/chat/completions/", b"/v1/chat/completions%2F"),
    ("//v1//chat//completions", None),
    ("/v1/chat/completions;a=1", None),
    ("/V1/Chat/Completions", None),
    ("/v1/chat/completions?x", b"/v1/chat/completions%3Fx"),
    ("/v1/chat/completions#x", b"/v1/chat/completions%23x"),
    ("/v1/chat/completions ", b"/v1/chat/completions%20"),
    ("\\v1\\chat\\completions", None),
    ("/v1/talk", None),
    ("/", None),
    ("/v1/completions", None),
]


@pytest.mark.parametrize(("path", "raw"), PATHS)
def test_no_spelling_of_a_path_passes_a_budget(path: str, raw: bytes | None) -> None:
    front, budgets = gateway()
    provider = Provider()
    ask(TokenctxMiddleware(provider, front), body(), path, raw=raw)
    assert provider.calls == 1
    assert booked(budgets) >= provider.served
    front, _ = gateway(1)
    refused = Provider()
    ask(TokenctxMiddleware(refused, front), body(), path, raw=raw)
    assert refused.calls == 0


BODIES: dict[str, tuple[bytes, list[tuple[bytes, bytes]]]] = {
    "padded": (body() + b" " * (33 << 20), JSON),
    "padded in front": (b" " * (33 << 20) + body(), JSON),
    "deep": (body(ignored=0).replace(b": 0", b": " + b"[" * 1100 + b"]" * 1100), JSON),
    "trailing": (body() + b"{}", JSON),
    "gzip": (gzip.compress(body(60_000)), [*JSON, (b"content-encoding", b"gzip")]),
    "UTF-16": (body().decode().encode("utf-16"), JSON),
    "many tools": (body(tools=[{"type": "function"}] * 10_001), JSON),
    "no JSON": (TEXT.encode() * 50, JSON),
}


@pytest.mark.parametrize("name", BODIES)
def test_no_body_passes_a_budget(name: str) -> None:
    content, headers = BODIES[name]
    front, budgets = gateway()
    provider = Provider()
    ask(TokenctxMiddleware(provider, front), content, headers=headers)
    assert provider.calls == 1
    assert booked(budgets) >= provider.served
    for options in ({"limit": 1}, {"refuses_uncounted": name != "many tools"}):
        front, _ = gateway(**options)
        refused = Provider()
        messages = ask(TokenctxMiddleware(refused, front), content, headers=headers)
        if "limit" in options or options["refuses_uncounted"]:
            assert refused.calls == 0
            assert messages[0]["status"] == 429


@pytest.mark.parametrize("encoding", [b"br", b"zstd"])
def test_what_has_no_bound_is_refused(encoding: bytes) -> None:
    front, _ = gateway()
    provider = Provider()
    headers = [*JSON, (b"content-encoding", encoding)]
    ask(TokenctxMiddleware(provider, front), b"\x28\xb5\x2f\xfd\x00", headers=headers)
    assert provider.calls == 0


@pytest.mark.parametrize("ends", ["well", "cut", "raises"])
@pytest.mark.parametrize("output", [1, 15_000])
def test_what_was_served_without_a_bill_is_booked(ends: str, output: int) -> None:
    front, budgets = gateway()
    taught = Provider(1, usage=True)
    for _ in range(10):
        ask(TokenctxMiddleware(taught, front), body(1, max_tokens=16_000))
    before = booked(budgets)
    provider = Provider(output, ends=ends)
    for _ in range(5):
        ask(TokenctxMiddleware(provider, front), body(1, max_tokens=16_000))
    assert booked(budgets) - before >= provider.served > 0


def test_after_answers_without_bills_a_share_of_what_is_asked_for_is_reserved() -> None:
    front, _ = gateway()
    provider = Provider(1, ends="cut")
    for _ in range(10):
        ask(TokenctxMiddleware(provider, front), body(1, max_tokens=16_000))
    call = front.call(body(1, max_tokens=16_000), path=CHAT)
    reservation = call._booking.reservation
    assert reservation is not None
    assert reservation.output_tokens >= 8_000


def test_each_attempt_of_a_call_is_booked() -> None:
    front, budgets = gateway()
    call = front.call(body(), path=CHAT)
    event = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
    headers = {"content-type": "text/event-stream"}
    first = call.stream(iter([event] * 1000), headers=headers)
    for _ in range(900):
        next(first)
    first.close()
    one = booked(budgets)
    assert one >= 900
    usage = {"prompt_tokens": 1200, "completion_tokens": 50}
    message = {"role": "assistant", "content": "a"}
    call.response(json.dumps({"choices": [{"message": message}], "usage": usage}).encode())
    assert booked(budgets) == one + 1250


def test_a_tenant_that_cannot_be_told_is_nobody_and_has_a_budget() -> None:
    front, budgets = gateway()

    def tenant(scope: Any) -> str:
        return str(dict(scope["headers"])[b"authorization"])

    provider = Provider()
    ask(TokenctxMiddleware(provider, front, tenant=tenant), body())
    assert booked(budgets) >= provider.served > 0
    assert front.stats()["failed_tenant"] == 1
    front, _ = gateway(1)
    refused = Provider()
    ask(TokenctxMiddleware(refused, front, tenant=tenant), body())
    assert refused.calls == 0


def test_an_upload_is_not_read() -> None:
    front, _ = gateway(1)
    provider = Provider()
    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    upload = b'--x\r\n\r\n{"messages": []}\r\n--x--'
    ask(TokenctxMiddleware(provider, front), upload, "/v1/anything", headers=headers)
    assert provider.calls == 1


def test_of_two_headers_of_one_name_none_is_a_tenant() -> None:
    tenant = header_tenant("Authorization")
    one = (b"authorization", b"Bearer real")
    assert tenant({"type": "http", "headers": [one]}) == b"Bearer real"
    front, _ = gateway(600)
    provider = Provider()
    for nth in range(6):
        headers = [*JSON, one, (b"Authorization", b"Bearer x%d" % nth)]
        ask(TokenctxMiddleware(provider, front, tenant=tenant), body(1), headers=headers)
    assert provider.calls < 6
    with pytest.raises(LookupError, match="missing"):
        tenant({"type": "http", "headers": []})
    signed = b"AWS4-HMAC-SHA256 Credential=AK/20261126/us-east-1/bedrock/aws4_request, Signature=1"
    with pytest.raises(ValueError, match="new with each request"):
        tenant({"type": "http", "headers": [(b"authorization", signed)]})


def test_a_budget_by_model_is_one_for_all_spellings() -> None:
    budgets = Budgets([Budget("b", tokens=100, by="model")])
    front = Gateway(HybridTokenEstimator(), budgets=budgets, refuse_by=None)
    names = ("gpt-4o", "GPT-4o", "gpt-4o-2024-08-06", "openai/gpt-4o", "gpt-4o ")
    calls = [front.call(body(1, model=name), path=CHAT) for name in names]
    assert [call.refusal is None for call in calls] == [True, False, False, False, False]


def test_budgets_by_other_keys_get_them_from_the_middleware() -> None:
    budgets = Budgets([Budget("b", tokens=100, by="team")])
    front = Gateway(HybridTokenEstimator(), budgets=budgets, refuse_by=None)
    provider = Provider()
    for team in "ab":
        app = TokenctxMiddleware(provider, front, keys=lambda _, team=team: {"team": team})  # type: ignore[misc]
        ask(app, body(1))
        ask(app, body(1))
    assert provider.calls == 2


def test_the_bill_of_a_fallback_is_that_of_the_model_that_answered() -> None:
    store = MemoryBudgetStore()
    budgets = Budgets([Budget("b", money=10)], store=store)
    front = Gateway(HybridTokenEstimator(), budgets=budgets)
    content = body(200, model="gpt-4.1")
    before = front.call(content, path=CHAT)
    before.end()
    call = front.call(content, path=CHAT)
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0}
    answer: dict[str, Any] = {"model": "claude-sonnet-4-5", "usage": usage}
    answer["choices"] = [{"message": {"role": "assistant", "content": "a"}}]
    call.response(json.dumps(answer).encode())
    again = front.call(content, path=CHAT)
    assert again.estimate is not None
    assert before.estimate is not None
    assert (again.estimate.source, again.estimate.tokens) == ("estimated", before.estimate.tokens)
    again.end()
    [ledger] = store._ledgers.values()
    assert ledger.used >= 3 * 10**9, "dollars of Sonnet, in billionths"
    named = front.call(body(200, model="fast"), path=CHAT)
    named.answered_by("gpt-4o-mini")
    small = {**answer, "model": "fast", "usage": {"prompt_tokens": 1000, "completion_tokens": 0}}
    named.response(json.dumps(small).encode())
    assert ledger.used - 3 * 10**9 > 10**5


@pytest.mark.parametrize("told", ["gpt-4o-2024-08-06", "gpt-4o", "openai/gpt-4o", "mine", ""])
def test_another_spelling_is_no_fallback(told: str) -> None:
    front, _ = gateway()
    call = front.call(body(), path=CHAT)
    usage = {"prompt_tokens": 1_100, "completion_tokens": 1}
    answer: dict[str, Any] = {"model": told, "usage": usage}
    answer["choices"] = [{"message": {"role": "assistant", "content": "a"}}]
    call.response(json.dumps(answer).encode())
    again = front.call(body(), path=CHAT).estimate
    assert again is not None
    assert (again.source, again.tokens) == ("exact", 1_100)
