"""The vendors' own SDKs ask `tokenctx serve`, and raise from its errors what they always raise."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from serve_rig import Served

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "token-of-the-test"  # noqa: S105
QUESTION = "Why is the sky blue?"
ASKED: list[Any] = [{"role": "user", "content": QUESTION}]
NODE = Path(__file__).parents[1] / "node" / "count_client.mjs"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--token", TOKEN, "--max-mb", "0.1") as server:
        yield server


class Clients:
    """SDKs that ask a server; all are closed in the end."""

    def __init__(self, served: Served, stack: ExitStack) -> None:
        self._served, self._stack = served, stack

    def _kept(self, client: Any) -> Any:
        self._stack.callback(client.close)
        return client

    def anthropic(self, key: str = TOKEN) -> Any:
        import anthropic

        url = self._served.url
        return self._kept(anthropic.Anthropic(base_url=url, api_key=key, max_retries=0))

    def openai(self, key: str = TOKEN, **headers: str) -> Any:
        import openai

        url = f"{self._served.url}/v1"
        options: Any = {"api_key": key, "max_retries": 0, "default_headers": headers}
        return self._kept(openai.OpenAI(base_url=url, **options))

    def gemini(self, key: str = TOKEN) -> Any:
        from google import genai

        options = genai.types.HttpOptions(base_url=self._served.url)
        return self._kept(genai.Client(api_key=key, http_options=options))

    def bedrock(self, key: str = TOKEN) -> Any:
        boto3 = pytest.importorskip("boto3")
        names = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        url = self._served.url
        client = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, **names)

        def add_token(request: Any, **_: object) -> None:
            request.headers["x-api-key"] = key

        client.meta.events.register("before-send.bedrock-runtime", add_token)
        return self._kept(client)


@pytest.fixture
def clients(served: Served) -> Iterator[Clients]:
    with ExitStack() as stack:
        yield Clients(served, stack)


def test_anthropic_counts_messages_with_system_and_tools(clients: Clients) -> None:
    client = clients.anthropic()
    plain = client.messages.count_tokens(model="claude-sonnet-4-5", messages=ASKED)
    assert plain.input_tokens == 13
    tools: Any = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}]
    whole = client.messages.count_tokens(
        model="claude-sonnet-4-5", messages=ASKED, system="Be short.", tools=tools
    )
    assert whole.input_tokens > plain.input_tokens + 100
    edited = client.beta.messages.count_tokens(
        model="claude-sonnet-4-5",
        messages=ASKED,
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
    )
    assert edited.context_management.original_input_tokens >= edited.input_tokens > 0


def test_openai_counts_the_input_of_responses(clients: Clients) -> None:
    counted = clients.openai().responses.input_tokens.count(model="gpt-4o", input=QUESTION)
    assert (counted.object, counted.input_tokens) == ("response.input_tokens", 13)


def test_gemini_counts_contents(clients: Clients) -> None:
    counted = clients.gemini().models.count_tokens(model="gemini-2.5-flash", contents=QUESTION)
    assert counted.total_tokens == 7


def test_bedrock_counts_converse_and_invoke(clients: Clients) -> None:
    client = clients.bedrock()
    model = "anthropic.claude-sonnet-4-5-20250929-v1:0"
    converse = {"messages": [{"role": "user", "content": [{"text": QUESTION}]}]}
    counted = client.count_tokens(modelId=model, input={"converse": converse})
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": ASKED}
    invoked = client.count_tokens(
        modelId=model, input={"invokeModel": {"body": json.dumps(body).encode()}}
    )
    assert counted["inputTokens"] == invoked["inputTokens"] == 13


def test_anthropic_raises_its_own_errors(clients: Clients) -> None:
    import anthropic

    client = clients.anthropic()
    with pytest.raises(anthropic.BadRequestError, match="at least one message"):
        client.messages.count_tokens(model="claude-sonnet-4-5", messages=[])
    long: list[Any] = [{"role": "user", "content": "x" * 200_000}]
    with pytest.raises(anthropic.APIStatusError) as too_large:
        client.messages.count_tokens(model="claude-sonnet-4-5", messages=long)
    assert too_large.value.status_code == 413
    body: Any = too_large.value.body
    assert body["error"]["type"] == "request_too_large"
    with pytest.raises(anthropic.AuthenticationError, match="token"):
        clients.anthropic("wrong").messages.count_tokens(model="m", messages=ASKED)


def test_openai_raises_its_own_errors(clients: Clients) -> None:
    import openai

    with pytest.raises(openai.APIStatusError) as too_large:
        clients.openai().responses.input_tokens.count(model="gpt-4o", input="x" * 200_000)
    assert too_large.value.status_code == 413
    with pytest.raises(openai.AuthenticationError) as wrong:
        clients.openai("wrong").responses.input_tokens.count(input=QUESTION)
    assert wrong.value.code == "invalid_api_key"
    client = clients.openai(**{"content-encoding": "zstd"})
    with pytest.raises(openai.BadRequestError, match="content-encoding"):
        client.responses.input_tokens.count(input=QUESTION)


def test_gemini_raises_its_own_errors(clients: Clients) -> None:
    from google.genai import errors

    client, stranger = clients.gemini(), clients.gemini("wrong")
    with pytest.raises(errors.ClientError) as wrong:
        stranger.models.count_tokens(model="gemini-2.5-flash", contents="?")
    assert (wrong.value.code, wrong.value.status) == (401, "UNAUTHENTICATED")
    with pytest.raises(errors.ClientError) as too_large:
        client.models.count_tokens(model="g", contents="x" * 200_000)
    assert too_large.value.code == 413


def test_bedrock_raises_its_own_errors(clients: Clients) -> None:
    exceptions = pytest.importorskip("botocore.exceptions")
    client = clients.bedrock()
    with pytest.raises(exceptions.ClientError) as broken:
        client.count_tokens(modelId="m", input={"invokeModel": {"body": b'{"messages": ['}})
    assert broken.value.response["Error"]["Code"] == "ValidationException"
    wrong = clients.bedrock("wrong")
    with pytest.raises(exceptions.ClientError) as refused:
        wrong.count_tokens(modelId="m", input={"invokeModel": {"body": b"{}"}})
    assert refused.value.response["Error"]["Code"] == "AccessDeniedException"


def test_claude_code_and_codex_ask_in_their_forms(served: Served) -> None:
    tool = {"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"}}
    claude = {
        "model": "claude-sonnet-4-5-20250929",
        "system": [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}],
        "messages": ASKED,
        "tools": [tool],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    counted = served.ask(
        "/v1/messages/count_tokens?beta=true",
        claude,
        x_api_key=TOKEN,
        anthropic_version="2023-06-01",
        anthropic_beta="token-counting-2024-11-01",
    )
    assert counted.status == 200
    assert list(counted.json) == ["input_tokens"]
    assert counted.json["input_tokens"] > 100
    message = {"type": "message", "role": "user"}
    codex = {
        "model": "gpt-5",
        "instructions": "Be short.",
        "input": [{**message, "content": [{"type": "input_text", "text": QUESTION}]}],
        "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object"}}],
        "parallel_tool_calls": False,
        "reasoning": {"effort": "medium"},
    }
    counted = served.ask("/v1/responses/input_tokens", codex, Authorization=f"Bearer {TOKEN}")
    assert counted.status == 200
    assert counted.json["input_tokens"] > 20


def test_a_client_in_another_language_gets_a_delta(served: Served) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine")
    done = subprocess.run(
        [node, NODE, served.url, TOKEN], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    first, recorded, streamed, later = map(json.loads, done.stdout.splitlines())
    assert (first["tokens"], first["source"]) == (13, "estimated")
    assert recorded["recorded"] is True
    assert streamed == {**recorded, "source": "exact", "error_tokens": 0, "estimated_tokens": 20}
    assert (later["source"], later["known_tokens"]) == ("delta", 26)


def test_vertex_and_the_wrapped_request_of_gemini(served: Served) -> None:
    contents = [{"role": "user", "parts": [{"text": QUESTION}]}]
    vertex = "/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-flash:countTokens"
    key = {"x_goog_api_key": TOKEN}
    assert served.ask(vertex, {"contents": contents}, **key).json["totalTokens"] > 0
    path = "/v1beta/models/gemini-2.5-flash:countTokens"
    whole = {"model": "models/gemini-2.5-flash", "contents": contents}
    counted = served.ask(path, {"generateContentRequest": whole}, **key)
    assert counted.json["totalTokens"] == 7
    assert counted.json["promptTokensDetails"] == [{"modality": "TEXT", "tokenCount": 7}]
    image = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(bytes(9)).decode()}}
    with_image = {"contents": [{"role": "user", "parts": [image]}]}
    assert "promptTokensDetails" not in served.ask(path, with_image, **key).json
    both = served.ask(path, {"generateContentRequest": whole, "contents": contents}, **key)
    assert (both.status, both.json["error"]["status"]) == (400, "INVALID_ARGUMENT")


def test_an_interaction_is_counted_where_contents_are(served: Served) -> None:
    path = "/v1beta/models/gemini-3.5-flash:countTokens"
    key = {"x_goog_api_key": TOKEN}
    contents = [{"role": "user", "parts": [{"text": QUESTION}]}]
    as_contents = served.ask(path, {"contents": contents}, **key)
    step = {"type": "user_input", "content": [{"type": "text", "text": QUESTION}]}
    for asked in (QUESTION, [step]):
        counted = served.ask(path, {"input": asked}, **key)
        assert counted.json == as_contents.json
    image = {"type": "image", "mime_type": "image/png", "uri": "files/a"}
    with_image = {"input": [{**step, "content": [image]}]}
    counted = served.ask(path, with_image, **key)
    assert "promptTokensDetails" not in counted.json
    assert "remote_image" in counted.headers["x-tokenctx-assumptions"]
    both = served.ask(path, {"input": QUESTION, "contents": contents}, **key)
    assert both.status == 400
