"""`tokenctx serve` as a process: who may ask, how much, for how long, and what it leaves behind."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from redis_rig import Server as RedisServer
from redis_rig import require
from redis_rig import server as redis_server
from serve_rig import SECRET, Served

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "serve.md"
CANARY = "canary-of-a-client"
QUESTION = {"role": "user", "content": "Why is the sky blue?"}
BODY: dict[str, Any] = {"model": "gpt-4o", "messages": [QUESTION]}
REPLY = {"role": "assistant", "content": "Dust."}
LATER = {**BODY, "messages": [QUESTION, REPLY, {"role": "user", "content": "And red at dusk?"}]}
USAGE = {"prompt_tokens": 20, "completion_tokens": 4}
COUNT = "/v1/messages/count_tokens"
WORD = "token-of-the-test"
SECONDS = 30

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served() as server:
        yield server


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """A server that is not expected to start."""
    command = [sys.executable, "-m", "tokenctx", "serve", "--port", "0", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_an_estimate_has_all_fields_as_json_and_as_headers(served: Served) -> None:
    answer = served.ask("/v1/estimate", {"request": BODY, "tenant": "fields"})
    found = answer.json
    assert (found["tokens"], found["source"], found["quality"]) == (13, "estimated", "exact")
    assert (found["fits"], found["limits"]["window_tokens"]) == (True, 128_000)
    assert answer.headers["x-tokenctx-low"] == str(found["low"])
    assert answer.headers["x-tokenctx-source"] == "estimated"
    raw = served.ask("/v1/estimate", BODY, x_tokenctx_tenant="fields", x_tokenctx_model="mystery")
    assert raw.json["assumptions"] == ["unknown_model"]
    assert raw.headers["x-tokenctx-assumptions"] == "unknown_model"


def test_what_is_above_the_window_is_counted_and_not_refused(served: Served) -> None:
    body = {"model": "gpt-3.5-turbo", "messages": [{"role": "user", "content": "word " * 30_000}]}
    found = served.ask("/v1/estimate", {"request": body}).json
    assert found["fits"] is False
    assert found["tokens"] > found["limits"]["window_tokens"]
    assert served.ask(COUNT, {**body, "model": "claude-3-haiku"}).status == 200


@pytest.mark.parametrize("form", ["usage", "number", "answer", "events", "compressed"])
def test_a_recorded_call_is_known_in_every_form(served: Served, form: str) -> None:
    request = json.dumps(BODY)
    choice = {"index": 0, "message": REPLY, "finish_reason": "stop"}
    answer = {"object": "chat.completion", "choices": [choice], "usage": USAGE}
    envelope: Any = {"request": BODY, "tenant": form}
    headers = {"x_tokenctx_tenant": form, "x_tokenctx_request_bytes": str(len(request))}
    if form == "usage":
        done = served.ask("/v1/record", {**envelope, "usage": USAGE, "reply": REPLY})
    elif form == "number":
        done = served.ask("/v1/record", {**envelope, "usage": 20})
    elif form == "answer":
        done = served.ask("/v1/record", {**envelope, "usage": answer})
    elif form == "events":
        delta = {"choices": [{"index": 0, "delta": REPLY, "finish_reason": "stop"}]}
        last = {"choices": [], "usage": USAGE}
        text = "".join(f"data: {json.dumps(it)}\n\n" for it in (delta, last)) + "data: [DONE]\n\n"
        done = served.ask("/v1/record", (request + text).encode(), **headers)
    else:
        content = request.encode() + gzip.compress(json.dumps(answer).encode())
        done = served.ask("/v1/record", content, **headers)
    assert (done.json["recorded"], done.json["billed_tokens"]) == (True, 20), done.json
    known = served.ask("/v1/estimate", BODY, x_tokenctx_tenant=form).json
    assert (known["tokens"], known["source"]) == (20, "exact")
    later = served.ask("/v1/estimate", LATER, x_tokenctx_tenant=form).json
    assert later["source"] == "delta"
    stranger = served.ask("/v1/estimate", BODY, x_tokenctx_tenant=f"not-{form}").json
    assert stranger["source"] == "estimated"


def test_a_call_without_a_bill_is_not_recorded_and_says_why(served: Served) -> None:
    done = served.ask("/v1/record", {"request": BODY, "usage": {"prompt_tokens": None}})
    assert (done.status, done.json) == (200, {"recorded": False, "reason": "no_usage"})


def test_a_folder_that_cannot_be_written_to_is_named_at_the_start(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    done = run("--known", str(tmp_path / "none/known.bin"), "--secret-file", str(secret))
    assert done.returncode == 2
    assert "no folder that can be written to" in " ".join(done.stderr.replace("│", " ").split())


def test_vllm_gets_ids_where_the_vocabulary_is_exact_and_else_the_reason(served: Served) -> None:
    exact = served.ask("/tokenize", {"model": "gpt-4o", "prompt": "hello world"}).json
    assert exact == {"count": 2, "max_model_len": 128_000, "tokens": [24912, 2375]} | {
        "token_strs": None
    }
    other = served.ask("/tokenize", {"model": "claude-sonnet-4-5", "prompt": "hello world"})
    assert (other.json["tokens"], other.headers["x-tokenctx-no-ids"]) == ([], "vocabulary")
    chat = served.ask("/tokenize", {"model": "gpt-4o", "messages": [QUESTION]})
    assert (chat.json["count"], chat.headers["x-tokenctx-no-ids"]) == (13, "template")


def test_litellm_is_answered_in_its_form(served: Served) -> None:
    path = "/utils/token_counter?call_endpoint=false"
    chat = served.ask(path, BODY).json
    assert (chat["total_tokens"], chat["count_source"]) == (13, "local_estimate")
    text = served.ask(path, {"model": "gpt-4o", "prompt": "hello world"}).json
    assert (text["total_tokens"], text["request_model"]) == (2, "gpt-4o")
    assert served.ask(path, {"model": "gpt-4o"}).status == 400


def test_a_client_that_sends_slowly_is_cut() -> None:
    with Served("--max-seconds", "0.5") as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as slow:
            slow.sendall(f"POST {COUNT} HTTP/1.1\r\nhost: a\r\ncontent-length: 99\r\n\r\n".encode())
            slow.sendall(b'{"model"')
            answer = b"".join(iter(lambda: slow.recv(4096), b""))
        head, _, content = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408")
        assert json.loads(content)["error"]["type"] == "timeout_error"
        assert server.ask(COUNT, BODY).status == 200


def test_a_large_body_is_refused_in_time_and_whoever_sends_it_reads_that() -> None:
    with Served("--max-mb", "0.5") as server:
        large = b'{"model": "' + b"x" * (900 << 10)
        answer = server.ask(COUNT, large)
        assert (answer.status, answer.json["error"]["type"]) == (413, "request_too_large")
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
            client.sendall(
                f"POST {COUNT} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n".encode()
            )
            client.sendall(b"\r\n" + (b"40000\r\n" + b"x" * 0x40000 + b"\r\n") * 3 + b"0\r\n\r\n")
            assert client.recv(64).startswith(b"HTTP/1.1 413")


def test_nothing_of_a_body_is_written_anywhere(tmp_path: Path) -> None:
    known = tmp_path / "known.bin"
    with Served("--known", str(known), "--max-mb", "0.1") as server:
        texts = {"role": "user", "content": CANARY}
        good = {"model": CANARY, "messages": [texts], "system": CANARY}
        for path in (COUNT, "/v1/estimate", "/v1/responses/input_tokens", "/tokenize"):
            server.ask(path, good)
            for bad in (CANARY.encode(), json.dumps(good).encode()[:-9], [CANARY], {CANARY: 1}):
                answer = server.ask(path, bad)
                assert CANARY not in answer.content.decode()
            server.ask(path, CANARY.encode() * 9_000)
        server.ask("/v1/record", {"request": good, "usage": {CANARY: CANARY}, "tenant": CANARY})
        server.ask("/v1/record", {"request": good, "usage": 99, "reply": texts, "tenant": CANARY})
        assert CANARY.encode() not in server.ask("/metrics").content
        text = server.stop()
    assert CANARY not in text
    assert text.count("\n") == 1
    assert CANARY.encode() not in known.read_bytes()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_is_known_outlives_the_server(tmp_path: Path, workers: str) -> None:
    known = tmp_path / "known.bin"
    options = ("--known", str(known), "--workers", workers)
    with Served(*options) as server:
        server.ask("/v1/record", {"request": BODY, "usage": USAGE})
        server.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["known.bin"]
    assert stat.S_IMODE(known.stat().st_mode) == 0o600
    with Served(*options) as server:
        found = [server.ask("/v1/estimate", BODY).json["source"] for _ in range(8)]
        server.stop(signal.SIGINT)
    assert found == ["exact"] * 8


def test_a_file_of_another_secret_is_set_aside_and_the_server_starts(tmp_path: Path) -> None:
    known, secret = tmp_path / "known.bin", tmp_path / "secret"
    known.write_bytes(b"of another secret")
    secret.write_text(SECRET)
    with Served("--known", str(known), "--secret-file", str(secret)) as server:
        assert server.ask("/healthz").status == 200
        text = server.stop()
    assert text.count("known.bin.set-aside") == 1
    assert (tmp_path / "known.bin.set-aside").read_bytes() == b"of another secret"
    assert known.read_bytes()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--host", "0.0.0.0"), "--without-token"),  # noqa: S104
        (("--redis", "redis://localhost"), "TOKENCTX_SECRET"),
        (("--known", "known.bin"), "TOKENCTX_SECRET"),
        (("--max-mb", "0"), "above 0"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_the_start(options: tuple[str, ...], why: str) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert why in re.sub(r"[\s│]+", " ", done.stderr)


def test_an_open_address_needs_a_token_and_asks_for_it() -> None:
    with Served("--host", "0.0.0.0", TOKENCTX_TOKEN=WORD) as server:  # noqa: S104
        assert server.ask("/healthz").json == {"status": "ok"}
        assert server.ask(COUNT, BODY).status == 401
        assert server.ask("/metrics").status == 401
        for headers in (
            {"Authorization": f"Bearer {WORD}"},
            {"authorization": f"bearer {WORD}"},
            {"x_api_key": WORD},
            {"x_goog_api_key": WORD},
        ):
            assert server.ask(COUNT, BODY, **headers).status == 200
        for headers in ({"Authorization": WORD}, {"x_api_key": WORD[:-1]}, {"x_api_key": ""}):
            assert server.ask(COUNT, BODY, **headers).status == 401


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(require("redis"), tmp_path) as running:
        yield running


def test_what_one_server_records_another_knows_by_redis(redis: RedisServer) -> None:
    options = ("--redis", f"redis://127.0.0.1:{redis.port}")
    call = {"request": BODY, "usage": USAGE, "reply": REPLY}
    with Served(*options) as one, Served(*options) as other:
        assert one.ask("/readyz").json == {"status": "ok", "shared_store": "up"}
        assert one.ask("/v1/record", call).json["recorded"]
        one.stop()  # all is written then
        end, found = time.monotonic() + SECONDS, ("", 0)
        while found != ("delta", 26):  # a look-up may be late, and is taken then
            assert time.monotonic() < end, found
            later = other.ask("/v1/estimate", LATER).json
            found = later["source"], later["known_tokens"]


def test_all_workers_know_by_redis_and_add_up_their_numbers(redis: RedisServer) -> None:
    options = ("--redis", f"redis://127.0.0.1:{redis.port}", "--workers", "2")
    call = {"request": BODY, "usage": USAGE, "reply": REPLY}
    with Served(*options) as server:
        assert server.ask("/v1/record", call).json["recorded"]
        end, found = time.monotonic() + SECONDS, [""]
        while set(found[-20:]) != {"delta"}:  # a look-up may be late, and is taken then
            assert time.monotonic() < end, found
            found.append(server.ask("/v1/estimate", LATER).json["source"])
        while estimates_in(server.ask("/metrics").content) != len(found) - 1:
            assert time.monotonic() < end


def estimates_in(metrics: bytes) -> float:
    lines = re.findall(rb"^tokenctx_estimates_total\{.*\} (.*)$", metrics, re.MULTILINE)
    return sum(map(float, lines))


def test_every_curl_of_the_page_is_answered() -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("no curl on this machine")
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("curl ")]
    assert len(lines) >= 12
    with Served() as server:
        for line in lines:
            words = shlex.split(line.replace("localhost:8484", f"127.0.0.1:{server.port}"))
            done = subprocess.run(
                [curl, *words[1:], "-sf", "--max-time", "20"],
                cwd=ROOT / "tests" / "data",
                capture_output=True,
                check=False,
            )
            assert done.returncode == 0, (line, done.stdout)
