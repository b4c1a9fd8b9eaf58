"""The gateway of docs/adapters.md runs: two workers, a real Redis, all formats, metrics."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import redis_rig
from gateway_rig import HOST, START_SECONDS, Upstream, billed, served
from tokenctx import UsageReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenctx.usage import Usage

Json = dict[str, Any]
PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"
QUESTION = {"role": "user", "content": "And red at dusk?"}
FORMATS: tuple[tuple[str, Json, str], ...] = (
    ("/v1/chat/completions", {"model": "gpt-4o"}, "messages"),
    ("/v1/responses", {"model": "gpt-4o"}, "input"),
    ("/v1/messages", {"model": "claude-3-haiku", "max_tokens": 99}, "messages"),
)


def page_block() -> str:
    """The gateway of many workers in docs/adapters.md."""
    pieces = PAGE.read_text("utf-8").split("```python\n")[1:]
    return next(it.partition("\n```")[0] for it in pieces if "RedisPrefixStore" in it)


def work(upstream: str, redis_url: str, port: int) -> None:
    """One worker process."""
    import uvicorn

    source = page_block().replace("https://api.openai.com", upstream)
    names: Json = {}
    exec(compile(source.replace("redis://localhost", redis_url), "adapters.md", "exec"), names)  # noqa: S102
    uvicorn.run(names["app"], host=HOST, port=port, log_level="critical")


@contextlib.contextmanager
def workers(upstream: str, redis_url: str) -> Iterator[list[str]]:
    spawn = multiprocessing.get_context("spawn")
    ports = [redis_rig.free_port() for _ in range(2)]
    started = [spawn.Process(target=work, args=(upstream, redis_url, port)) for port in ports]
    for process in started:
        process.start()
    try:
        for port in ports:
            until = time.monotonic() + START_SECONDS
            while not is_up(port):
                assert time.monotonic() < until, "a worker does not start"
                time.sleep(0.05)
        yield [f"http://{HOST}:{port}" for port in ports]
    finally:
        for process in started:
            process.terminate()
            process.join()


def is_up(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def reply_of(path: str, content: bytes) -> tuple[list[Json], Usage]:
    """What a client appends to its history, and the usage that it is told."""
    reader = UsageReader()
    reader.feed(content)
    usage = reader.finish()
    reply = reader.reply
    return reply if path.endswith("responses") else [reply], usage


@dataclass
class Talk:
    """A conversation whose first turn one worker takes, and the second the other."""

    client: Any
    addresses: list[str]
    upstream: Upstream
    store: redis_rig.Server

    def is_delta(self, path: str, body: Json, name: str, number: int) -> bool:
        """Whether the other worker knows the first turn of a new conversation."""
        question = f"{path}: why is sky number {number} blue?"  # formats know of each other
        messages = [{"role": "user", "content": question}]
        keys = self.store.said(b"DBSIZE\r\n")
        answer = self.client.post(f"{self.addresses[0]}{path}", json={**body, name: messages})
        said, usage = reply_of(path, answer.content)
        bill = billed(json.loads(self.upstream.seen[-1][1]))
        assert usage.input_tokens == bill
        until = time.monotonic() + START_SECONDS
        while self.store.said(b"DBSIZE\r\n") == keys and time.monotonic() < until:
            time.sleep(0.01)
        later = {**body, name: [*messages, *said, QUESTION]}
        second = self.client.post(f"{self.addresses[1]}{path}", json=later)
        other = self.client.post(
            f"{self.addresses[1]}{path}", json=later, headers={"authorization": "Bearer b"}
        )
        sources = [it.headers["x-tokenctx-source"] for it in (answer, other)]
        assert sources == ["estimated", "estimated"]
        known = int(second.headers["x-tokenctx-known"])
        is_delta: bool = second.headers["x-tokenctx-source"] == "delta"
        assert known == 0 or known >= bill
        return is_delta


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_the_second_turn_is_a_delta_on_the_other_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stream: bool
) -> None:
    for module in ("fastapi", "httpx2", "prometheus_client"):
        pytest.importorskip(module)
    import httpx2

    monkeypatch.setenv("NO_PROXY", HOST)
    program = redis_rig.require("redis")
    upstream = Upstream()
    with (
        redis_rig.server(program, tmp_path) as store,
        served(upstream) as url,
        workers(url, f"redis://{HOST}:{store.port}") as addresses,
        httpx2.Client(trust_env=False, headers={"authorization": "Bearer a"}) as client,
    ):
        talk = Talk(client, addresses, upstream, store)
        for path, about, name in FORMATS:
            # A lookup that the machine holds up for longer than its deadline finds nothing.
            usage = {"stream_options": {"include_usage": True}} if "chat" in path else {}
            body = {**about, "stream": True, **usage} if stream else about
            assert any(talk.is_delta(path, body, name, number) for number in range(9)), path
        long = {"model": "gpt-4", "messages": [{"role": "user", "content": "word " * 9_000}]}
        refused = client.post(f"{addresses[0]}/v1/chat/completions", json=long)
        assert refused.json()["error"]["code"] == "context_length_exceeded"
        shown = client.get(f"{addresses[0]}/metrics/").text
        assert 'tokenctx_refused_total{dialect="openai-chat"} 1.0' in shown
