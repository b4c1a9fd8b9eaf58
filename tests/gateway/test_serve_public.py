"""`tokenctx serve` where anybody reaches it: what comes before the app, and memory, have bounds."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from serve_rig import Served

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("uvicorn")

BODY = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}
MEBI = 1 << 20
MOST_BYTES = 300 * 10**6
"""Of memory, whatever comes."""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--token", "t") as server:
        yield server


def rss_bytes(server: Served) -> int:
    status = Path(f"/proc/{server._process.pid}/status").read_text()
    [line] = [it for it in status.splitlines() if it.startswith("VmRSS")]
    return int(line.split()[1]) << 10


def flood(server: Served, start: bytes, piece: bytes, most: int) -> int:
    """The bytes that a server took before it closed the connection."""
    sent = 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        try:
            connection.sendall(start)
            while sent < most:
                connection.sendall(piece)
                sent += len(piece)
        except OSError:
            return sent
    return sent


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET /healthz HTTP/1.1\r\nhost: h\r\n", b"a: b\r\n" * 4096),
        (b"GET /", b"x" * 32_768),
        (b"GET /healthz HTTP/1.1\r\nhost: h\r\na: ", b"x" * 32_768),
        (
            (
                b"POST /v1/estimate HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n"
                b"authorization: Bearer t\r\n\r\n2\r\n{}\r\n0\r\n"
            ),
            b"a: b\r\n" * 4096,
        ),
        (
            (
                b"POST /v1/estimate HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n"
                b"authorization: Bearer t\r\n\r\n2;a="
            ),
            b"x" * 32_768,
        ),
    ],
)
def test_what_comes_before_the_app_has_a_bound(served: Served, start: bytes, piece: bytes) -> None:
    before = rss_bytes(served)
    assert flood(served, start, piece, 60 * MEBI) < 20 * MEBI
    assert rss_bytes(served) < min(before + 40 * MEBI, MOST_BYTES)
    assert served.ask("/v1/estimate", BODY, authorization="Bearer t").status == 200


def test_large_headers_and_bodies_that_are_none_too_large_pass(served: Served) -> None:
    headers = {f"x_{nth}": "v" * 4000 for nth in range(8)}
    answer = served.ask("/v1/estimate", BODY, authorization="Bearer t", **headers)
    assert answer.status == 200
    large = json.dumps({**BODY, "metadata": "x" * (5 * MEBI)}).encode()
    assert served.ask("/v1/estimate", large, authorization="Bearer t").status == 200


@pytest.mark.slow
def test_large_odd_bodies_at_once(served: Served) -> None:
    ones = [1] * 3_900_000
    parts = [{"functionResponse": {"name": "f", "response": {"a": ones}}}]
    odd = {"model": "gemini-2.5-pro", "contents": [{"role": "user", "parts": parts}]}
    body = json.dumps(odd, separators=(",", ":")).encode()
    found: list[int] = []

    def ask() -> None:
        with contextlib.suppress(OSError):  # it is not patient enough for the last
            found.append(served.ask("/v1/estimate", body, authorization="Bearer t").status)

    threads = [threading.Thread(target=ask) for _ in range(24)]
    peak = 0
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        peak = max(peak, rss_bytes(served))
        threads[0].join(0.02)
        for thread in threads:
            thread.join(0.005)
    assert found.count(200) >= 2  # the others wait, or are told to come again
    assert set(found) <= {200, 408, 503, 504}
    assert peak < MOST_BYTES, peak


def test_a_file_with_brackets_in_its_name_is_merged(tmp_path: Path) -> None:
    known = tmp_path / "k[1].bin"
    for _ in range(2):
        with Served("--known", str(known)) as server:
            record = {"request": BODY, "usage": {"prompt_tokens": 20}}
            server.ask("/v1/record", record)
            found = server.ask("/v1/estimate", BODY).json
    assert found["source"] == "exact"
    assert [path.name for path in tmp_path.iterdir()] == ["k[1].bin"]
