"""What `tokenctx serve` answers per second and core, beside an app that only reads the body.

Both run on the same server, uvicorn with httptools and uvloop. A core is processor time of the
server's process, so the clients, which share the machine, cost nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

CLIENTS = 4
WARM_UP_SECONDS = 0.7
WORDS = "It scatters blue light more than red, since short waves meet small things. "
PATHS = {
    "empty app": "/v1/messages/count_tokens",
    "count_tokens": "/v1/messages/count_tokens",
    "estimate": "/v1/estimate",
    "record": "/v1/record",
}


async def empty_app(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body and answers what a count would be."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    body = b'{"input_tokens": 500}'
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def body_of(byte_count: int, number: int, *, is_record: bool) -> bytes:
    """A request of some messages, all different; with its bill for a record."""
    message_count = max(1, byte_count // 3_000)
    size = byte_count // message_count - 60
    text = (WORDS * (size // len(WORDS) + 1))[:size]
    messages = [{"role": "user", "content": f"{number} {at} {text}"} for at in range(message_count)]
    body = {"model": "claude-sonnet-4-5", "messages": messages}
    return json.dumps({"request": body, "usage": 500} if is_record else body).encode()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def processor_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """Clients that each ask one request after the other."""

    def __init__(self, port: int, path: str, bodies: list[bytes]) -> None:
        head = f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: "
        self._requests = [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies]
        self._port = port
        self._stop = threading.Event()
        self.times: list[list[float]] = [[] for _ in range(CLIENTS)]
        self._threads = [threading.Thread(target=self._ask, args=(it,)) for it in self.times]
        for thread in self._threads:
            thread.start()

    @property
    def count(self) -> int:
        return sum(map(len, self.times))

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, times: list[float]) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as link:
            while not self._stop.is_set():
                began = time.perf_counter()
                link.sendall(self._requests[len(times) % len(self._requests)])
                answer = link.recv(65_536)
                while b"\r\n\r\n" not in answer:
                    answer += link.recv(65_536)
                head, _, content = answer.partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200"), answer
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                while len(content) < length:
                    content += link.recv(65_536)
                times.append(time.perf_counter() - began)


def measured(name: str, byte_count: int, seconds: float) -> tuple[float, float, float]:
    """Requests per second of processor; their median time and that of 99 of 100, in ms."""
    port = free_port()
    module = ["uvicorn", "--app-dir", str(Path(__file__).parent), "serve_load:empty_app"]
    module += ["--no-access-log", "--log-level", "warning"]
    command = module if name == "empty app" else ["tokenctx", "serve"]
    process = subprocess.Popen(
        [sys.executable, "-m", *command, "--port", str(port)], stdout=subprocess.DEVNULL
    )
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        is_record = name == "record"
        bodies = [body_of(byte_count, number, is_record=is_record) for number in range(200)]
        load = Load(port, PATHS[name], bodies)
        time.sleep(WARM_UP_SECONDS)
        processor, count = processor_seconds(process.pid), load.count
        for times in load.times:
            times.append(0.0)  # a mark: what comes behind it counts
        time.sleep(seconds)
        processor, count = processor_seconds(process.pid) - processor, load.count - count - CLIENTS
        load.stop()
    finally:
        process.terminate()
        process.wait()
    kept = sorted(each * 1e3 for times in load.times for each in times[times.index(0.0) + 1 :])
    return count / processor, statistics.median(kept), kept[int(len(kept) * 0.99)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{'body':>8} {'route':>13} {'per s and core':>15} {'p50 ms':>8} {'p99 ms':>8}")
    for title, byte_count in (("2 KB", 2_000), ("300 KB", 300_000)):
        for name in PATHS:
            rounds = [measured(name, byte_count, options.seconds) for _ in range(options.rounds)]
            rate, half, most = (statistics.median(row) for row in zip(*rounds, strict=True))
            print(f"{title:>8} {name:>13} {rate:15,.0f} {half:8.2f} {most:8.2f}", flush=True)


if __name__ == "__main__":
    main()
