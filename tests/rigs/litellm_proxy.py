"""A proxy of litellm that runs: a process of its own, configured by files, on a free port."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 120
AUTH = """
from litellm.proxy._types import UserAPIKeyAuth


async def user_api_key_auth(request, api_key):
    return UserAPIKeyAuth(api_key=api_key)
"""
"""Every key is a virtual key of its own, without a database."""


def program() -> str:
    """The proxy's command, or a skip that says what is missing."""
    found = shutil.which("litellm", path=str(Path(sys.executable).parent))
    if found is None or find_spec("litellm_proxy_extras") is None:
        pytest.skip("litellm[proxy] is not installed; dev.py clients has it")
    return found


@contextmanager
def proxy(folder: Path, config: dict[str, Any], **files: str) -> Iterator[str]:
    """The address of a proxy with this configuration and modules beside it."""
    config["general_settings"] = {"custom_auth": "auth.user_api_key_auth"}
    (folder / "config.yaml").write_text(json.dumps(config), "utf-8")  # JSON is YAML
    for name, source in {"auth": AUTH, **files}.items():
        (folder / f"{name}.py").write_text(source, "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MASTER_KEY": f"sk-{secrets.token_hex(24)}",
        "NO_PROXY": "127.0.0.1",
    }
    log = folder / "proxy.log"
    command = [program(), "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as out:
        running = subprocess.Popen(
            [*command, "--telemetry", "False"],
            cwd=folder,
            env={**os.environ, **settings},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + START_SECONDS
        while not is_alive(address):
            is_over = running.poll() is not None or time.monotonic() > until
            assert not is_over, log.read_text("utf-8", "replace")[-4000:]
            time.sleep(0.1)
        yield address
    finally:
        running.terminate()
        running.wait(30)


def is_alive(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health/liveliness", timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
