"""The count server as an ASGI app: routes, forms of errors, and what may go wrong inside."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator, Metrics
from tokenctx.gateway.server import count_server
from tokenctx.gateway.server.routes import route_of

QUESTION = {"role": "user", "content": "Why is the sky blue?"}
BODY: dict[str, Any] = {"model": "gpt-4o", "messages": [QUESTION]}
ROUTES = {
    "/v1/messages/count_tokens": "anthropic",
    "/messages/count_tokens": "anthropic",
    "/v1/responses/input_tokens": "openai",
    "/responses/input_tokens": "openai",
    "/openai/v1/responses/input_tokens": "openai",
    "/v1beta/models/gemini-2.5-flash:countTokens": "google",
    "/v1/models/gemini-2.5-flash:countTokens": "google",
    "/models/gemini-2.5-flash:countTokens": "google",
    "/v1beta1/projects/p/locations/l/publishers/google/models/m:countTokens": "google",
    "/model/anthropic.claude-v1:0/count-tokens": "bedrock",
    "/model/arn:aws:bedrock:us-east-1:1:inference-profile/us.m/count-tokens": "bedrock",
    "/tokenize": "vllm",
    "/utils/token_counter": "openai",
    "/v1/estimate": "openai",
    "/v1/record": "openai",
}
PATHS = {
    "anthropic": "/v1/messages/count_tokens",
    "openai": "/v1/responses/input_tokens",
    "google": "/v1beta/models/m:countTokens",
    "bedrock": "/model/m/count-tokens",
    "vllm": "/tokenize",
}


def ask(
    app: Any,
    path: str,
    *parts: bytes,
    method: str = "POST",
    root: str = "",
    is_cut: bool = False,
    **headers: str,
) -> tuple[int, Any, dict[str, str]]:
    """Status, JSON and headers of an answer; status 0 if there was none."""
    incoming: list[dict[str, Any]] = [
        {"type": "http.request", "body": part, "more_body": True} for part in parts
    ]
    incoming.append({"type": "http.disconnect"} if is_cut else {"type": "http.request"})
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return incoming.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    names = [(it.replace("_", "-").encode(), value.encode()) for it, value in headers.items()]
    scope = {"type": "http", "path": root + path, "root_path": root, "method": method}
    asyncio.run(app({**scope, "headers": names}, receive, send))
    if not sent:
        return 0, None, {}
    start, body = sent
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    assert int(found["content-length"]) == len(body["body"])
    return start["status"], json.loads(body["body"]), found


@pytest.fixture
def app() -> Any:
    return count_server(HybridTokenEstimator(metrics=Metrics()))


@pytest.mark.parametrize(("path", "vendor"), ROUTES.items())
def test_a_path_belongs_to_a_vendor(path: str, vendor: str) -> None:
    found = route_of(path)
    assert found is not None
    assert found[0].vendor == vendor


@pytest.mark.parametrize(
    "path", ["/", "/v1/messages", "/v1/estimates", "/model/count-tokens", "/v1/estimate/x"]
)
def test_another_path_is_not_found(app: Any, path: str) -> None:
    status, body, _ = ask(app, path, b"{}")
    assert (status, body["error"]["code"]) == (404, "not_found")


def test_each_vendor_has_its_own_form_of_an_error(app: Any) -> None:
    found = {vendor: ask(app, path, b'{"a": ')[:2] for vendor, path in PATHS.items()}
    assert {status for status, _ in found.values()} == {400}
    message = "the body is no JSON object"
    _, anthropic = found["anthropic"]
    assert anthropic.pop("request_id").startswith("req_")
    error = {"type": "invalid_request_error", "message": message}
    assert anthropic == {"type": "error", "error": error}
    plain = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    assert found["openai"][1] == {"error": plain}
    google = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
    assert found["google"][1] == {"error": google}
    assert found["bedrock"][1] == {"message": message}
    assert found["vllm"][1] == {"error": {**plain, "type": "BadRequestError", "code": 400}}


def test_an_error_of_bedrock_has_its_name_in_a_header(app: Any) -> None:
    _, _, headers = ask(app, PATHS["bedrock"], b"{}")
    assert headers["x-amzn-errortype"] == "ValidationException"


def test_a_method_that_is_not_allowed_says_which_is(app: Any) -> None:
    status, _, headers = ask(app, PATHS["openai"], method="GET")
    assert (status, headers["allow"]) == (405, "POST")


def test_a_body_may_come_in_any_parts(app: Any) -> None:
    content = json.dumps(BODY).encode()
    for cut in (1, 9, len(content) - 1):
        status, body, headers = ask(app, "/v1/estimate", content[:cut], content[cut:])
        assert (status, body["tokens"], headers["x-tokenctx-tokens"]) == (200, 13, "13")


def test_a_client_that_hangs_up_gets_no_answer_and_breaks_nothing(app: Any) -> None:
    assert ask(app, "/v1/estimate", b'{"mod', is_cut=True)[0] == 0
    assert ask(app, "/v1/estimate", json.dumps(BODY).encode())[0] == 200


def test_it_can_be_mounted_below_a_path(app: Any) -> None:
    assert ask(app, "/healthz", method="GET", root="/count")[0] == 200
    assert ask(app, "/v1/estimate", json.dumps(BODY).encode(), root="/count")[0] == 200


@pytest.mark.parametrize("header", [{"origin": "https://a.example"}, {"sec_fetch_site": "none"}])
def test_a_web_page_may_ask_only_with_a_token(app: Any, header: dict[str, Any]) -> None:
    content = json.dumps(BODY).encode()
    assert ask(app, "/v1/record", content, **header)[0] == 403
    guarded = count_server(HybridTokenEstimator(), token="t")  # noqa: S106
    assert ask(guarded, "/v1/estimate", content, x_api_key="t", **header)[0] == 200


def test_too_many_large_bodies_at_once_are_told_to_come_again() -> None:
    app = count_server(HybridTokenEstimator(), max_body_bytes=100)
    app.hold(16 * 100 - 10)
    status, body, headers = ask(app, PATHS["anthropic"], b"x" * 50)
    assert (status, body["error"]["type"]) == (503, "overloaded_error")
    assert headers["retry-after"] == "1"
    app.hold(-(16 * 100 - 10))
    app.hold(16 * 100)  # nothing of the body above is held any more
    assert ask(app, PATHS["anthropic"], b"")[0] == 400


class Broken(HybridTokenEstimator):
    async def aestimate(self, *_: object, **__: object) -> Any:
        raise KeyError("canary")


def test_a_failure_of_ours_is_counted_and_answered_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    app = count_server(Broken(metrics=metrics))
    with caplog.at_level(logging.DEBUG):
        status, body, _ = ask(app, PATHS["openai"], json.dumps(BODY).encode())
    assert (status, body["error"]["type"]) == (500, "server_error")
    assert "canary" not in caplog.text + str(body)
    assert "KeyError" in caplog.text
    assert metrics.snapshot()["tokenctx.failures"] == {("serve",): 1}


class Slow(HybridTokenEstimator):
    async def aestimate(self, *_: object, **__: object) -> Any:
        await asyncio.Event().wait()


def test_a_count_that_takes_too_long_is_ended() -> None:
    app = count_server(Slow(), max_seconds=0.05)
    status, body, _ = ask(app, PATHS["anthropic"], json.dumps(BODY).encode())
    assert (status, body["error"]["type"]) == (504, "timeout_error")


ODD: list[Any] = [None, True, 1, "x", [], {}, [1], {"a": None}, {"messages": 1}, {"contents": "x"}]


@pytest.mark.parametrize("path", [*PATHS.values(), "/utils/token_counter", "/v1/record"])
def test_no_value_of_any_field_is_a_failure_of_ours(app: Any, path: str) -> None:
    names = ("request", "usage", "reply", "input", "prompt", "contents", "generateContentRequest")
    for name in (*names, "messages", "model", "tenant", "tools", "context_management"):
        for value in ODD:
            for more in ({}, {"request": BODY, "usage": 5}, {**BODY, "prompt": "x"}):
                content = json.dumps({**more, name: value}).encode()
                status, body, _ = ask(app, path, content)
                assert status in (200, 400), (name, value, body)


def test_what_cannot_be_meant_is_refused_by_name() -> None:
    estimator = HybridTokenEstimator()
    with pytest.raises(ValueError, match="token is empty"):
        count_server(estimator, token="")
    with pytest.raises(ValueError, match="max_seconds is 0"):
        count_server(estimator, max_seconds=0)


def test_metrics_are_shown_where_there_is_a_collector() -> None:
    from tokenctx.integrations.metrics import prometheus

    estimator = HybridTokenEstimator(metrics=Metrics())
    assert ask(count_server(estimator), "/metrics", method="GET")[0] == 404
    app = count_server(estimator, collector=prometheus(estimator))
    with pytest.raises(json.JSONDecodeError):
        ask(app, "/metrics", method="GET")


def test_hooks_run_when_the_server_starts_and_stops() -> None:
    done: list[str] = []

    async def start() -> None:
        done.append("start")

    async def stop() -> None:
        done.append("stop")

    app = count_server(HybridTokenEstimator(), on_start=start, on_stop=stop)
    incoming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return incoming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    asyncio.run(app({"type": "lifespan"}, receive, send))
    assert done == ["start", "stop"]
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
