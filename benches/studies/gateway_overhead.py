"""What the middleware costs a gateway: requests per second, processor time, lag; with and without.

The gateway relays to a local provider by httpx2, in a process of its own; the provider streams an
answer of 40 events with usage. 20 clients each go on with a conversation of their own, so that
most of a body was recorded before; with `--fresh` each body is new. Gateways with and without
take turns, so that what else the machine does meets both.

At full speed the events come as fast as they can, and the gateway is the bottleneck: requests per
second tell what a call costs in full. Paced, 100 clients get an event each 20 ms, as of a model:
the provider is the bottleneck, and the lag tells what the others of a loop notice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

CLIENTS = 20
PACED_CLIENTS = 100
PACE_SECONDS = 0.02
EVENTS = 40
TURNS = 30
LAG_PERIOD_SECONDS = 0.005
LINES = (
    ("2 KB", 2_000, False),
    ("300 KB", 300_000, False),
    ("2 KB, paced", 2_000, True),
    ("300 KB, paced", 300_000, True),
)
WORDS = "It scatters blue light more than red, since short waves meet small things. "


def provider() -> Any:
    """An ASGI app that answers every request with a stream, and usage at its end."""
    delta = {"choices": [{"index": 0, "delta": {"content": "word "}}]}
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    event = b"data: " + json.dumps(delta).encode() + b"\n\n"
    usage = {"prompt_tokens": 1000, "completion_tokens": EVENTS}
    tail = b"".join(
        b"data: " + json.dumps(it).encode() + b"\n\n"
        for it in (last, {"choices": [], "usage": usage})
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(EVENTS):
            if scope["path"].startswith("/paced"):
                await asyncio.sleep(PACE_SECONDS)
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": tail + b"data: [DONE]\n\n"})

    return app


def gateway() -> Any:
    """The relay; with the middleware if the environment says so. `/lag` tells and forgets."""
    import httpx2
    from starlette.applications import Starlette
    from starlette.background import BackgroundTask
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.routing import Route

    from tokenctx import HybridTokenEstimator
    from tokenctx.gateway import Gateway, TokenctxMiddleware

    client = httpx2.AsyncClient(base_url=os.environ["PROVIDER"], timeout=60)
    lags: list[float] = []

    async def watch() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(LAG_PERIOD_SECONDS)
            lags.append(time.perf_counter() - began - LAG_PERIOD_SECONDS)

    async def lag(_: Any) -> JSONResponse:
        if not lags:
            app.state.watch = asyncio.create_task(watch())
        kept = sorted(lags) or [0.0]
        lags.clear()
        return JSONResponse([kept[int(len(kept) * 0.99)], time.process_time()])

    async def relay(request: Any) -> StreamingResponse:
        sent = client.build_request("POST", request.url.path, content=await request.body())
        answer = await client.send(sent, stream=True)
        kind, end = answer.headers.get("content-type"), BackgroundTask(answer.aclose)
        return StreamingResponse(
            answer.aiter_bytes(), answer.status_code, media_type=kind, background=end
        )

    routes = [Route("/lag", lag), Route("/{path:path}", relay, methods=["POST"])]
    app = Starlette(routes=routes)
    if os.environ["WITH"] == "1":
        app.add_middleware(
            TokenctxMiddleware, gateway=Gateway(HybridTokenEstimator(), refuse_by=None)
        )
    return app


class Client:
    """Asks one request after the other, each with two more messages than the one before."""

    def __init__(self, number: int, byte_count: int, *, is_fresh: bool) -> None:
        self._number, self._is_fresh, self._turn = number, is_fresh, 0
        self._byte_count = byte_count
        self._messages = self._begun()

    def _begun(self) -> list[Any]:
        count = max(1, self._byte_count // 1_500) | 1
        text = (WORDS * 100)[: self._byte_count // count]
        return [
            {
                "role": ("user", "assistant")[at % 2],
                "content": f"{self._number} {self._turn} {at} {text}",
            }
            for at in range(count)
        ]

    def body(self) -> bytes:
        """The next request."""
        self._turn += 1
        if self._is_fresh or self._turn % TURNS == 0:
            self._messages = self._begun()
        else:
            said = {"role": "assistant", "content": "word " * EVENTS}
            self._messages += [said, {"role": "user", "content": f"go on {self._turn}"}]
        return json.dumps({"model": "gpt-4o", "stream": True, "messages": self._messages}).encode()

    def ask(self, link: HTTPConnection, path: str) -> None:
        link.request("POST", path, self.body())
        answer = link.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()


def served(name: str, port: int, **environment: str) -> subprocess.Popen[bytes]:
    folder = str(Path(__file__).parent)
    command = [sys.executable, "-m", "uvicorn", "--factory", "--app-dir", folder]
    command += [f"gateway_overhead:{name}", "--port", str(port), "--log-level", "warning"]
    process = subprocess.Popen(
        [*command, "--no-access-log"], env={**os.environ, **environment}, stdout=subprocess.DEVNULL
    )
    with socket.socket() as probe:
        while probe.connect_ex(("127.0.0.1", port)):  # until it listens
            time.sleep(0.05)
    return process


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measured(
    port: int, clients: list[Client], seconds: float, path: str
) -> tuple[float, float, float]:
    """Requests per second, the 99th percentile of the lag and processor time a call in seconds."""

    def told() -> tuple[float, float]:
        link = HTTPConnection("127.0.0.1", port)
        link.request("GET", "/lag")
        lag, used = json.loads(link.getresponse().read())
        return lag, used

    used_before = told()[1]
    counts, end = [0] * len(clients), time.perf_counter() + seconds

    def work(number: int) -> None:
        link = HTTPConnection("127.0.0.1", port)
        while time.perf_counter() < end:
            clients[number].ask(link, path)
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lag, used = told()
    return sum(counts) / seconds, lag, (used - used_before) / sum(counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fresh", action="store_true", help="every body is new")
    options = parser.parse_args()
    port = free_port()
    running = [served("provider", port)]
    ports = {}
    try:
        for name in ("0", "1"):
            ports[name] = free_port()
            url = f"http://127.0.0.1:{port}"
            running.append(served("gateway", ports[name], PROVIDER=url, WITH=name))
        print(f"{'body':>15} {'without /s':>11} {'with /s':>8} {'ratio':>6}", end=" ")
        print(f"{'lag p99 ratio':>14} {'ms a call':>15}")
        for title, byte_count, is_paced in LINES:
            path = "/paced/v1/chat/completions" if is_paced else "/v1/chat/completions"
            rounds = []
            for number in range(options.rounds + 1):
                row = {}
                for name in sorted(ports, reverse=bool(number % 2)):
                    clients = [
                        Client(it, byte_count, is_fresh=options.fresh)
                        for it in range(PACED_CLIENTS if is_paced else CLIENTS)
                    ]
                    row[name] = measured(ports[name], clients, options.seconds, path)
                if number:  # the first warms up
                    rounds.append(row)
            without, within = (statistics.median(it[name][0] for it in rounds) for name in "01")
            ratio = statistics.median(it["1"][0] / it["0"][0] for it in rounds)
            lag = statistics.median(it["1"][1] / max(it["0"][1], 1e-6) for it in rounds)
            used = [1000 * statistics.median(it[name][2] for it in rounds) for name in "01"]
            print(f"{title:>15} {without:11.1f} {within:8.1f} {ratio:6.2f}", end=" ")
            print(f"{lag:14.2f} {used[0]:7.2f} {used[1]:7.2f}", flush=True)
    finally:
        for process in running:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
