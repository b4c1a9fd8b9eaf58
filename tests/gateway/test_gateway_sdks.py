"""The vendors' own SDKs through a gateway and over its transports: deltas, totals, refusals."""

from __future__ import annotations

import contextlib
import importlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pytest

from gateway_rig import (
    ANSWERS,
    CALL,
    OUTPUT,
    REPLY,
    Upstream,
    WatchedGateway,
    billed,
    proxy,
    served,
)
from tokenctx import HybridTokenEstimator
from tokenctx.context import ModelLimits, parse_overflow
from tokenctx.gateway import TokenctxMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tokenctx.convert import Dialect

Json = dict[str, Any]
QUESTION = "Why is the sky blue?"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SMALL = {"gpt-4o": ModelLimits(5), "claude": ModelLimits(5), "gemini": ModelLimits(5)}
WAYS = ("middleware", "handle", "transport")


@dataclass
class Way:
    """How an SDK reaches the provider, and what saw its calls."""

    url: str
    gateway: WatchedGateway
    upstream: Upstream
    client: Callable[[str], Any]
    """A client of a library for the argument of an SDK; None where the gateway is a server."""


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Ways:
    """Every way, made once: servers take half a second to start and to stop."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._made: dict[tuple[str, bool], Way] = {}

    def reached(self, way: str, *, is_small: bool = False) -> Way:
        """A way that knows nothing yet; a small one has models of five tokens."""
        if (way, is_small) not in self._made:
            self._made[way, is_small] = self._way(way, SMALL if is_small else None)
        there = self._made[way, is_small]
        there.gateway.estimator.reset()
        there.gateway.calls.clear()
        there.upstream.seen.clear()
        return there

    def _way(self, way: str, limits: dict[str, ModelLimits] | None) -> Way:
        upstream, stack = Upstream(), self._stack
        gateway = WatchedGateway(HybridTokenEstimator(learning=False), limits=limits)
        address = stack.enter_context(served(upstream))
        if way == "transport":

            def client(library: str) -> Any:
                module = importlib.import_module(f"tokenctx.gateway.{library}")
                return module.client(gateway, refuse=True, tenant="acme")

            return Way(address, gateway, upstream, client)
        app = proxy(address, gateway if way == "handle" else None)
        if way == "middleware":
            app.add_middleware(TokenctxMiddleware, gateway=gateway)
        return Way(stack.enter_context(served(app)), gateway, upstream, lambda _: None)


@pytest.fixture(scope="module")
def ways() -> Iterator[Ways]:
    with contextlib.ExitStack() as stack:
        yield Ways(stack)


# ------------------------------------------------------------------------------ SDKs


def library_of(module: Any) -> str:
    """Which library an SDK takes clients of."""
    base = module._base_client.SyncHttpxClientWrapper.__mro__
    return str(next(it.__module__ for it in base if it.__module__ in ("httpx", "httpx2")))


def with_openai(way: Way) -> Any:
    openai = pytest.importorskip("openai")
    http_client = way.client(library_of(openai))
    return openai.OpenAI(
        base_url=f"{way.url}/v1", api_key="k", max_retries=0, http_client=http_client
    )


def ask_chat(way: Way, messages: list[Any], *, tools: bool, stream: bool) -> str:
    function = {"name": "weather", "parameters": SCHEMA}
    more: Json = {"tools": [{"type": "function", "function": function}]} if tools else {}
    with with_openai(way) as client:
        create = client.chat.completions.create
        asked = {"model": "gpt-4o", "messages": messages, **more}
        if not stream:
            message = create(**asked).choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            text = message.content
        else:
            text, calls = "", list[Any]()
            for chunk in create(**asked, stream=True):
                assert chunk.usage is None
                assert chunk.choices
                text += chunk.choices[0].delta.content or ""
                calls += chunk.choices[0].delta.tool_calls or []
            said: Json = {"role": "assistant", "content": text or None}
            if calls:
                dumped = [it.model_dump(exclude={"index"}) for it in calls]
                said["tool_calls"] = dumped
            messages.append(said)
    if tools and messages[-1].get("tool_calls"):
        call = messages[-1]["tool_calls"][0]
        assert json.loads(call["function"]["arguments"]) == CALL
        messages.append({"role": "tool", "tool_call_id": "c1", "content": "rain"})
        return ""
    return cast("str", text)


def ask_responses(way: Way, messages: list[Any], *, tools: bool, stream: bool) -> str:
    tool = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}
    more: Json = {"tools": [tool]} if tools else {}
    with with_openai(way) as client:
        asked = {"model": "gpt-4o", "input": messages, **more}
        if stream:
            last = list(client.responses.create(**asked, stream=True))[-1]
            response = last.response
        else:
            response = client.responses.create(**asked)
    messages += [item.model_dump(exclude_none=True) for item in response.output]
    if tools and response.output[0].type == "function_call":
        messages.append({"type": "function_call_output", "call_id": "c1", "output": "rain"})
        return ""
    return cast("str", response.output_text)


def ask_claude(way: Way, messages: list[Any], *, tools: bool, stream: bool) -> str:
    anthropic = pytest.importorskip("anthropic")
    more: Json = {"tools": [{"name": "weather", "input_schema": SCHEMA}]} if tools else {}
    http_client = way.client(library_of(anthropic))
    with anthropic.Anthropic(
        base_url=way.url, api_key="k", max_retries=0, http_client=http_client
    ) as client:
        asked = {"model": "claude-opus-4-5", "max_tokens": 99, "messages": messages, **more}
        if stream:
            with client.messages.stream(**asked) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**asked)
    content = [block.model_dump(exclude_none=True) for block in message.content]
    messages.append({"role": "assistant", "content": content})
    if tools and content[0]["type"] == "tool_use":
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "rain"}
        messages.append({"role": "user", "content": [result]})
        return ""
    return cast("str", content[0]["text"])


def ask_gemini(way: Way, messages: list[Any], *, tools: bool, stream: bool) -> str:
    genai = pytest.importorskip("google.genai")
    library = "httpx2" if "httpx2" in vars(genai._api_client) else "httpx"
    options: Json = {"base_url": way.url}
    if (http_client := way.client(library)) is not None:
        options["httpx_client"] = http_client
    client = genai.Client(api_key="k", http_options=options)
    function = {"name": "weather", "parameters": {"type": "OBJECT"}}
    config = {"tools": [{"function_declarations": [function]}]} if tools else {}
    asked: Any = {"model": "gemini-2.5-pro", "contents": messages, "config": config}
    models = client.models
    if stream:
        response = list(models.generate_content_stream(**asked))[-1]
    else:
        response = models.generate_content(**asked)
    client.close()
    if http_client is not None:
        http_client.close()
    content = response.candidates[0].content
    messages.append(content)
    if tools and content.parts[0].function_call:
        answer = {"name": "weather", "response": {"result": "rain"}}
        messages.append({"role": "user", "parts": [{"function_response": answer}]})
        return ""
    return cast("str", content.parts[0].text)


BEDROCK_MODEL = "anthropic.claude-opus-4-5-20251101-v1:0"


def ask_bedrock(way: Way, messages: list[Any], *, tools: bool, stream: bool) -> str:
    boto3 = pytest.importorskip("boto3")
    if way.client("httpx") is not None:
        pytest.skip("boto3 takes no client of httpx")
    names = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
    about = {"region_name": "us-east-1", "endpoint_url": way.url, **names}
    spec = {"name": "weather", "inputSchema": {"json": SCHEMA}}
    more: Json = {"toolConfig": {"tools": [{"toolSpec": spec}]}} if tools else {}
    asked = {"modelId": BEDROCK_MODEL, "messages": messages, **more}
    with contextlib.closing(boto3.client("bedrock-runtime", **about)) as client:
        if stream:
            block, usage = heard(client.converse_stream(**asked)["stream"])
        else:
            answer = client.converse(**asked)
            (block,), usage = answer["output"]["message"]["content"], answer["usage"]
    bill = billed(json.loads(way.upstream.seen[-1][1]))
    assert (usage["inputTokens"], usage["outputTokens"]) == (bill, OUTPUT)
    messages.append({"role": "assistant", "content": [block]})
    if "toolUse" in block:
        result = {"toolResult": {"toolUseId": "t1", "content": [{"text": "rain"}]}}
        messages.append({"role": "user", "content": [result]})
        return ""
    return cast("str", block["text"])


def heard(events: Any) -> tuple[Json, Json]:
    """The only block of a ConverseStream, and its usage."""
    block: Json = {"text": ""}
    usage: Json = {}
    spelled = ""
    for event in events:
        usage = event.get("metadata", {}).get("usage", usage)
        if begun := event.get("contentBlockStart"):
            block = dict(begun["start"])
        delta = event.get("contentBlockDelta", {}).get("delta", {})
        spelled += delta.get("text", "") + delta.get("toolUse", {}).get("input", "")
    if "toolUse" in block:
        return {"toolUse": {**block["toolUse"], "input": json.loads(spelled)}}, usage
    return {"text": spelled}, usage


Asking = Any
SDKS: dict[str, tuple[Asking, Json]] = {
    "openai-chat": (ask_chat, {"role": "user", "content": QUESTION}),
    "openai-responses": (ask_responses, {"role": "user", "content": QUESTION}),
    "anthropic": (ask_claude, {"role": "user", "content": QUESTION}),
    "gemini": (ask_gemini, {"role": "user", "parts": [{"text": QUESTION}]}),
    "bedrock-converse": (ask_bedrock, {"role": "user", "content": [{"text": QUESTION}]}),
}


def by_hand(upstream: Upstream, sdk: str) -> int:
    """The estimate of the second body where the first was recorded without a gateway."""
    estimator = HybridTokenEstimator()
    bodies = [raw for _, raw in upstream.seen]
    dialect = cast("Dialect", sdk)
    model = {"gemini": "gemini-2.5-pro", "bedrock-converse": BEDROCK_MODEL}.get(sdk)
    path = next(end for end in ANSWERS if upstream.seen[0][0].endswith(end))
    answer, _ = ANSWERS[path](json.loads(bodies[0]))
    estimator.record(bodies[0], json.dumps(answer), dialect=dialect, model=model)
    return estimator.estimate(bodies[1], dialect=dialect, model=model).tokens


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("tools", [False, True], ids=["text", "tools"])
@pytest.mark.parametrize("sdk", SDKS)
def test_the_next_turn_is_a_delta_with_the_right_totals(
    sdk: str, *, tools: bool, stream: bool, way: str, ways: Ways
) -> None:
    ask, question = SDKS[sdk]
    there = ways.reached(way)
    before = there.gateway.stats()
    messages: list[Any] = [question]
    text = ask(there, messages, tools=tools, stream=stream)
    if not tools:
        assert text == REPLY
        messages.append(question)
    assert ask(there, messages, tools=tools, stream=stream) == REPLY
    first, second = there.gateway.calls
    bills = [billed(json.loads(body)) for _, body in there.upstream.seen]
    assert first.estimate is not None
    assert second.estimate is not None
    assert first.estimate.dialect == sdk
    assert (first.estimate.source, second.estimate.source) == ("estimated", "delta")
    assert second.estimate.known_tokens >= bills[0] + OUTPUT
    assert second.estimate.tokens == by_hand(there.upstream, sdk)
    for call, bill in zip((first, second), bills, strict=True):
        assert call.reason is None
        assert call.event is not None
        assert call.event.billed_tokens == bill
    after = there.gateway.stats()
    assert {name: after[name] - before.get(name, 0) for name in after} == {
        "estimated": 2,
        "recorded": 2,
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("sdk", SDKS)
def test_a_refusal_is_raised_as_the_sdk_raises_the_providers(
    sdk: str, *, stream: bool, way: str, ways: Ways
) -> None:
    openai = pytest.importorskip("openai")
    anthropic = pytest.importorskip("anthropic")
    errors = pytest.importorskip("google.genai.errors")
    bedrock = pytest.importorskip("botocore.exceptions")
    # Of a stream of Responses the error is an event, which the SDK raises as an APIError.
    kinds = {
        "openai-chat": openai.BadRequestError,
        "openai-responses": openai.APIError if stream else openai.BadRequestError,
        "anthropic": anthropic.BadRequestError,
        "gemini": errors.ClientError,
        "bedrock-converse": bedrock.ClientError,
    }
    ask, question = SDKS[sdk]
    there = ways.reached(way, is_small=True)
    before = there.gateway.stats().get("refused", 0)
    with pytest.raises(kinds[sdk]) as caught:
        ask(there, [question], tools=False, stream=stream)
    assert there.upstream.seen == []
    assert there.gateway.stats()["refused"] == before + 1
    overflow = parse_overflow(caught.value)
    assert overflow is not None
    assert overflow.limit_tokens == 5
    if sdk.startswith("openai"):
        assert caught.value.code == "context_length_exceeded"
