"""`tokenctx serve` as a process of its own, and a plain client of HTTP."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET = "0123456789abcdef0123456789abcdef"  # noqa: S105
READY_SECONDS = 30
STOP_SECONDS = 20


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


class Served:
    """A server on a free port; `text` is all that it has written when it has stopped."""

    def __init__(self, *options: str, **environment: str) -> None:
        command = [sys.executable, "-m", "tokenctx", "serve", "--port", "0", *options]
        self.text = ""
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TOKENCTX_SECRET": SECRET, "PYTHONUNBUFFERED": "1", **environment},
        )
        assert self._process.stdout is not None
        timer = threading.Timer(READY_SECONDS, self._process.kill)
        timer.start()
        for line in self._process.stdout:
            self.text += line
            if line.startswith("tokenctx serve: http"):
                break
        timer.cancel()
        self.url = self.text.rpartition(" ")[2].strip()
        assert self.url.startswith("http"), self.text
        self.port = int(self.url.rpartition(":")[2])

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop()

    def stop(self, sign: int = signal.SIGTERM) -> str:
        """All that it has written, after it was asked to end."""
        self._process.send_signal(sign)
        try:
            rest, _ = self._process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        self.text += rest
        return self.text

    def ask(
        self, path: str, body: object = None, *, method: str | None = None, **headers: str
    ) -> Answer:
        """The answer to a request over a connection of its own; `_` in headers is `-`."""
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READY_SECONDS)
        try:
            fields = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method or ("GET" if body is None else "POST"), path, content, fields)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()
