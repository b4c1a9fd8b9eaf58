"""Call README's gateway by the vendors' SDKs, in front of a provider of ours.

Each client has to see the very usage that the provider has billed, and each request has to come
there with its query and headers; without a key, it is refused.
"""

import json
import runpy
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anthropic
import httpx2
import openai
import uvicorn
from google import genai

HOST = "127.0.0.1"
Json = dict[str, Any]
QUESTION = "Why is the sky blue?"
CHAT_USAGE = {"prompt_tokens": 13, "completion_tokens": 9, "total_tokens": 22}
RESPONSES_USAGE = {"input_tokens": 13, "output_tokens": 9, "total_tokens": 22}
RESPONSES_USAGE_DETAILS: Json = {
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
MESSAGES_USAGE = {"input_tokens": 14, "output_tokens": 8}
GEMINI_USAGE = {"promptTokenCount": 8, "candidatesTokenCount": 7, "totalTokenCount": 15}
HOSTS: list[str] = []
"""Where the gateway meant to send what it was asked."""
REPLY = "Air scatters blue light."


def chat(body: Json) -> list[Json]:
    about = {"id": "c", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": REPLY}}
        choice |= {"finish_reason": "stop", "logprobs": None}
        return [{**about, "object": "chat.completion", "choices": [choice], "usage": CHAT_USAGE}]
    about["object"] = "chat.completion.chunk"
    delta = {"index": 0, "delta": {"role": "assistant", "content": REPLY}, "finish_reason": "stop"}
    events: list[Json] = [{**about, "choices": [delta]}]
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append({**about, "choices": [], "usage": CHAT_USAGE})
    return events


def responses(body: Json) -> list[Json]:
    content = {"type": "output_text", "text": REPLY, "annotations": []}
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    usage = {**RESPONSES_USAGE, **RESPONSES_USAGE_DETAILS}
    about = {"id": "r", "object": "response", "created_at": 1, "model": body["model"]}
    about |= {"status": "completed", "tools": [], "tool_choice": "auto", "usage": usage}
    return [{**about, "parallel_tool_calls": True, "output": [{**item, "content": [content]}]}]


def messages(body: Json) -> list[Json]:
    about = {"id": "m", "type": "message", "role": "assistant", "model": body["model"]}
    about |= {"stop_reason": "end_turn", "stop_sequence": None, "usage": MESSAGES_USAGE}
    return [{**about, "content": [{"type": "text", "text": REPLY}]}]


def gemini(_: Json) -> list[Json]:
    content = {"role": "model", "parts": [{"text": REPLY}]}
    return [
        {
            "candidates": [{"content": content, "finishReason": "STOP"}],
            "usageMetadata": GEMINI_USAGE,
        }
    ]


ANSWERS = {
    "/v1/chat/completions": chat,
    "/v1/responses": responses,
    "/v1/messages": messages,
    "generateContent": gemini,
}


class Provider(BaseHTTPRequestHandler):
    """All vendors: it bills what it likes, and remembers what it was asked."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, Json]] = []  # noqa: RUF012  # of the one provider

    def do_GET(self) -> None:
        self.answer([{"object": "list", "data": [{"id": "gpt-4o", "object": "model"}]}])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.partition("?")[0]
        events = ANSWERS[path.rpartition(":")[2]](body)
        self.answer(events, is_stream=bool(body.get("stream")))

    def answer(self, events: list[Json], *, is_stream: bool = False) -> None:
        self.seen.append((self.path, {name.lower(): it for name, it in self.headers.items()}))
        lines = [f"data: {json.dumps(it)}\n\n" for it in events]
        whole = "".join([*lines, "data: [DONE]\n\n"]) if is_stream else json.dumps(events[0])
        self.send_response(200)
        kind = "text/event-stream" if is_stream else "application/json"
        self.send_header("content-type", kind)
        self.send_header("x-request-id", "r-1")
        self.send_header("content-length", str(len(whole.encode())))
        self.end_headers()
        self.wfile.write(whole.encode())

    def log_message(self, *_: object) -> None:
        """Nothing: the checks say what is wrong."""


def numbers(usage: Any, names: Json) -> Json:
    told = usage.model_dump(by_alias=True, mode="json")
    return {name: told.get(name) for name in names}


class Checks:
    """Calls of the SDKs through the gateway at `url`, and what was wrong."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.wrong: list[str] = []

    def same(self, what: str, actual: object, expected: object) -> None:
        if actual != expected:
            self.wrong.append(f"{what} is {actual}, and the provider said {expected}")

    def openai(self) -> None:
        client = openai.OpenAI(api_key="sk-1", base_url=f"{self.url}/v1", max_retries=0)
        asked: Any = {"model": "gpt-4o", "messages": [{"role": "user", "content": QUESTION}]}
        raw = client.chat.completions.with_raw_response.create(**asked)
        usage = numbers(raw.parse().usage, CHAT_USAGE)
        self.same("usage of OpenAI's chat", usage, CHAT_USAGE)
        self.same("the estimate in a header", raw.headers.get("x-tokenctx-tokens"), "13")
        self.same("a header of the provider", raw.headers.get("x-request-id"), "r-1")
        streamed = client.chat.completions.create(
            **asked, stream=True, stream_options={"include_usage": True}
        )
        usages = [numbers(it.usage, CHAT_USAGE) for it in streamed if it.usage]
        self.same("usage of a stream", usages, [CHAT_USAGE])
        plain = list(client.chat.completions.create(**asked, stream=True))
        self.same("events of a stream without usage", len([it for it in plain if it.usage]), 0)
        answer = client.responses.create(model="gpt-4o", input=QUESTION)
        self.same("usage of responses", numbers(answer.usage, RESPONSES_USAGE), RESPONSES_USAGE)
        self.same("models", [it.id for it in client.models.list()], ["gpt-4o"])
        self.same("the host", HOSTS[-1], "api.openai.com")

    def anthropic(self) -> None:
        client = anthropic.Anthropic(api_key="sk-2", base_url=self.url, max_retries=0)
        asked: Any = {"role": "user", "content": QUESTION}
        answer = client.messages.create(
            model="claude-opus-4-8", max_tokens=99, messages=[asked], extra_query={"beta": "true"}
        )
        usage = numbers(answer.usage, MESSAGES_USAGE)
        self.same("usage of Anthropic", usage, MESSAGES_USAGE)
        path, headers = Provider.seen[-1]
        self.same("the path and query", path, "/v1/messages?beta=true")
        self.same("missing headers", {"anthropic-version"} - headers.keys(), set())
        keys = [headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer ")]
        self.same("the key", {"sk-2"} - set(keys), set())
        self.same("the host", HOSTS[-1], "api.anthropic.com")

    def google(self) -> None:
        options: Any = {"base_url": self.url}
        client = genai.Client(api_key="g-3", http_options=options)
        answer = client.models.generate_content(model="gemini-2.5-flash", contents=QUESTION)
        told = answer.usage_metadata
        usage = {
            "promptTokenCount": told and told.prompt_token_count,
            "candidatesTokenCount": told and told.candidates_token_count,
            "totalTokenCount": told and told.total_token_count,
        }
        self.same("usage of Gemini", usage, GEMINI_USAGE)
        self.same("the host", HOSTS[-1], "generativelanguage.googleapis.com")

    def without_a_key(self) -> None:
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": QUESTION}]}
        before = len(Provider.seen)
        for key in ({}, {"authorization": "Bearer"}, {"authorization": "a", "x-api-key": "b"}):
            answer = httpx2.post(f"{self.url}/v1/chat/completions", json=body, headers=key)
            self.same(f"the status with {len(key)} keys", answer.status_code, 401)
        self.same("requests without a key at the provider", len(Provider.seen) - before, 0)


def gateway(path: str, provider: str) -> Any:
    """The app in README's file, which finds all vendors at `provider`."""
    made = httpx2.AsyncClient

    def client(**settings: Any) -> httpx2.AsyncClient:
        async def there(request: httpx2.Request) -> None:
            HOSTS.append(request.url.host)
            request.url = httpx2.URL(provider).copy_with(raw_path=request.url.raw_path)

        return made(**settings, trust_env=False, event_hooks={"request": [there]})

    httpx2.AsyncClient = client  # type: ignore[misc,assignment]
    return runpy.run_path(path)["app"]


def main() -> None:
    provider = ThreadingHTTPServer((HOST, 0), Provider)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    app = gateway(sys.argv[1], f"http://{HOST}:{provider.server_port}")
    config = uvicorn.Config(app, host=HOST, port=0, log_level="error")
    server = uvicorn.Server(config)
    threading.Thread(target=server.run, daemon=True).start()
    until = time.monotonic() + 20
    while not server.started and time.monotonic() < until:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    checks = Checks(f"http://{HOST}:{port}")
    for check in (checks.openai, checks.anthropic, checks.google, checks.without_a_key):
        try:
            check()
        except Exception as error:  # noqa: PERF203  # whatever an SDK raises
            checks.wrong.append(f"{check.__name__}: {type(error).__name__}: {error}")
    print("connected: SDKs of OpenAI, Anthropic and Google, and a client without a key")
    sys.exit("\n".join(checks.wrong) or 0)


if __name__ == "__main__":
    main()
