"""The clients that agents use read a scaled stream: a local server replays, they parse.

`model` names the stream of `streams.json` that the server sends, in pieces, through the scaler.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import ContextWindowScaler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tokenctx.usage import ScaledUsage

CASES = json.loads((Path(__file__).parents[1] / "data" / "usage" / "streams.json").read_bytes())
STREAMS: dict[str, dict[str, Any]] = {case["name"]: case for case in CASES["streams"]}
REPORTED: list[ScaledUsage] = []
SCALER = ContextWindowScaler(128_000, on_usage=REPORTED.append)


def last_reported() -> ScaledUsage:
    """The usage of the stream that was just read; the server tells it when it has sent the end."""
    end = time.monotonic() + 10
    while not REPORTED and time.monotonic() < end:
        time.sleep(0.01)
    (reported,) = REPORTED
    return reported


START_SECONDS = 20

pytestmark = pytest.mark.filterwarnings("ignore")  # the clients' own


async def pieces(name: str) -> AsyncIterator[bytes]:
    """The stream of this name, cut anywhere."""
    stream = "".join(line + "\n" for line in STREAMS[name]["lines"]).encode()
    draw = random.Random(name)
    while stream:
        size = draw.randrange(1, 200)
        yield stream[:size]
        stream = stream[size:]
        await asyncio.sleep(0)


def body(path: str, name: str) -> dict[str, Any]:
    """The response that is not streamed."""
    lines = STREAMS[name]["lines"]
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    if path.endswith("responses"):
        response: dict[str, Any] = events[-1]["response"]
        return response
    if path.endswith("messages"):
        content = STREAMS[name]["reply"]
        return {**events[0]["message"], "content": content, "stop_reason": "end_turn"}
    choice = {"index": 0, "message": STREAMS[name]["reply"], "finish_reason": "stop"}
    chat = {"id": "1", "object": "chat.completion", "created": 1, "model": name}
    return {**chat, "choices": [choice], "usage": events[-1]["usage"]}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """The gateway: answers in the measure of 200,000 tokens for a model with 128,000."""
    request = b""
    message = {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        request += message.get("body", b"")
    asked = json.loads(request)
    name = asked["model"]
    is_streamed = asked.get("stream")
    kind = b"text/event-stream" if is_streamed else b"application/json"
    headers = [(b"content-type", kind)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if is_streamed:
        async for chunk in SCALER.scale_stream(pieces(name), first_input_tokens=1_280):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        rest = b""
    elif scope["path"].endswith("count_tokens"):
        rest = SCALER.scale_count_response(b'{"input_tokens": 50000}')
    else:
        rest = SCALER.scale_body(json.dumps(body(scope["path"], name)).encode())
    await send({"type": "http.response.body", "body": rest})


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of the gateway."""
    uvicorn = pytest.importorskip("uvicorn")
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="off")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    until = time.monotonic() + START_SECONDS
    while not running.started and time.monotonic() < until:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    running.should_exit = True
    thread.join()
    listening.close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    REPORTED.clear()


MESSAGES: Any = [{"role": "user", "content": "hi"}]
ANTHROPIC: dict[str, Any] = {"max_tokens": 9, "messages": MESSAGES}


@pytest.fixture
def claude(server: str) -> Iterator[Any]:
    anthropic = pytest.importorskip("anthropic")
    with anthropic.Anthropic(base_url=server, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def openai(server: str) -> Iterator[Any]:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{server}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_anthropic_streams(claude: Any) -> None:
    events = list(claude.messages.create(model="anthropic-text", stream=True, **ANTHROPIC))
    usage = events[0].message.usage
    cached = usage.cache_creation_input_tokens + usage.cache_read_input_tokens
    assert usage.input_tokens + cached == 60_001 * 200_000 // 128_000
    split = usage.cache_creation
    assert split.ephemeral_5m_input_tokens + split.ephemeral_1h_input_tokens == (
        usage.cache_creation_input_tokens
    )
    (delta,) = (event for event in events if event.type == "message_delta")
    assert delta.usage.output_tokens == 7_812
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
    assert text == STREAMS["anthropic-text"]["reply"][0]["text"]
    reported = last_reported()
    assert (reported.real.input_tokens, reported.real.output_tokens) == (60_001, 5_000)


def test_anthropic_message_of_a_stream(claude: Any) -> None:
    name = "anthropic-tools-thinking"
    with claude.messages.stream(model=name, **ANTHROPIC) as stream:
        first = next(iter(stream))
        assert first.message.usage.input_tokens == 2_000
        message = stream.get_final_message()
    assert message.usage.output_tokens == 90 * 200_000 // 128_000
    assert message.content[1].input == {"usage": {"input_tokens": 5}}
    assert message.content[1].type == "tool_use"


def test_anthropic_error_in_a_stream(claude: Any) -> None:
    anthropic = pytest.importorskip("anthropic")
    events = claude.messages.create(model="anthropic-error", stream=True, **ANTHROPIC)
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        list(events)


def test_anthropic_body_and_count(claude: Any) -> None:
    message = claude.messages.create(model="anthropic-text", **ANTHROPIC)
    assert message.usage.cache_read_input_tokens == 7_001 * 200_000 // 128_000
    assert claude.messages.count_tokens(model="m", messages=MESSAGES).input_tokens == 78_125


CHAT: dict[str, Any] = {"messages": MESSAGES, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize("name", ["openai-chat", "openai-chat-tools", "groq-usage-twice"])
def test_openai_chat_streams(openai: Any, name: str) -> None:
    chunks = list(openai.chat.completions.create(model=name, stream=True, **CHAT))
    usage = chunks[-1].usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    reported = last_reported()
    assert usage.prompt_tokens == reported.real.input_tokens * 200_000 // 128_000
    assert usage.completion_tokens == reported.adjusted.output_tokens


def test_openai_chat_body(openai: Any) -> None:
    usage = openai.chat.completions.create(model="openai-chat", messages=MESSAGES).usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (78_125, 7_812)
    assert usage.total_tokens == 85_937
    assert usage.prompt_tokens_details.cached_tokens == 1_600


def test_openai_responses(openai: Any) -> None:
    name = "openai-responses"
    *_, last = openai.responses.create(model=name, input="hi", stream=True)
    whole = openai.responses.create(model=name, input="hi")
    for usage in (last.response.usage, whole.usage):
        assert (usage.input_tokens, usage.output_tokens) == (78_125, 7_812)
        assert usage.total_tokens == 85_937
        assert usage.input_tokens_details.cached_tokens == 1_600
        assert usage.output_tokens_details.reasoning_tokens == 100
    assert whole.output_text == "Hallo"
    assert whole.tools[0].parameters == {"usage": {"input_tokens": 5}}


def test_async_clients(server: str) -> None:
    anthropic = pytest.importorskip("anthropic")

    async def final() -> Any:
        async with (
            anthropic.AsyncAnthropic(base_url=server, api_key="none") as client,
            client.messages.stream(model="anthropic-text", **ANTHROPIC) as stream,
        ):
            return await stream.get_final_message()

    assert asyncio.run(final()).usage.output_tokens == 7_812


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    return pytest.importorskip("litellm", exc_type=ImportError)


@pytest.mark.slow
def test_litellm_of_openai(litellm: Any, server: str) -> None:
    chunks = litellm.completion(
        model="openai/openai-chat", api_base=f"{server}/v1", api_key="none", stream=True, **CHAT
    )
    usage = [chunk.usage for chunk in chunks if getattr(chunk, "usage", None)][-1]
    assert (usage.prompt_tokens, usage.completion_tokens) == (78_125, 7_812)
    assert usage.total_tokens == 85_937


def test_litellm_of_anthropic(litellm: Any, server: str) -> None:
    chunks = litellm.completion(
        model="anthropic/anthropic-text", api_base=server, api_key="none", stream=True, **CHAT
    )
    usage = [chunk.usage for chunk in chunks if getattr(chunk, "usage", None)][-1]
    assert usage.completion_tokens == 7_812
    assert usage.prompt_tokens == 60_001 * 200_000 // 128_000
