"""A 500-message, 1 MB agent conversation in another dialect, beside litellm's own transformation.

Both run in one process on the same dict. litellm changes the messages that it is given, so it gets
a copy each time, which is not timed. `with-losses` goes the way back too, to name all differences.
In `convert-picture` and `convert-marker` one message of the user has a picture, or a cache marker.
`python` is the conversion without the short cut of the core for plain messages: what a conversation
takes that has more than texts, calls and results.
"""

from __future__ import annotations

import copy
import functools
import os
from typing import TYPE_CHECKING, Any

import pytest

from conversations import agent_conversation
from tokenctx import convert_messages
from tokenctx.convert import conversion

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    from tokenctx.convert.model import Dialect

    Transform = Callable[[dict[str, Any]], Any]

CLAUDE = "claude-sonnet-4-5"
GEMINI = "gemini-2.5-pro"
MAX_TOKENS = 4096


PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'iVBO' * 20_000}"}}
MARKER = {"cache_control": {"type": "ephemeral"}}


@functools.cache
def conversation(group: str) -> dict[str, Any]:
    made = {**agent_conversation(500, 1_000_000), "max_completion_tokens": MAX_TOKENS}
    said = {"type": "text", "text": made["messages"][101]["content"]}
    if group == "convert-picture":
        made["messages"][101]["content"] = [said, PICTURE]
    elif group == "convert-marker":
        made["messages"][101]["content"] = [{**said, **MARKER}]
    body: dict[str, Any] = convert_messages(made, to=DIRECTIONS[group][0]).body
    return body


def litellm_module(name: str) -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches one from the network
    reason = "this litellm is not installed"
    return pytest.importorskip(f"litellm.llms.{name}", reason=reason)


def litellm_to_anthropic() -> Transform:
    """The two steps that litellm's `completion` goes before it sends."""
    config = litellm_module("anthropic.chat.transformation").AnthropicConfig()

    def transform(body: dict[str, Any]) -> Any:
        params = config.map_openai_params({"tools": body["tools"]}, {}, CLAUDE, drop_params=False)
        params["max_tokens"] = MAX_TOKENS
        return config.transform_request(CLAUDE, body["messages"], params, {}, {})["messages"]

    return transform


def litellm_to_gemini() -> Transform:
    """The two steps that litellm's `completion` goes before it sends."""
    module = litellm_module("vertex_ai.gemini.transformation")
    google = litellm_module("gemini.chat.transformation").GoogleAIStudioGeminiConfig()

    def transform(body: dict[str, Any]) -> Any:
        params = google.map_openai_params({"tools": body["tools"]}, {}, GEMINI, drop_params=False)
        request = module.transform_request_body(
            body["messages"], GEMINI, params, "gemini", {}, cached_content=None
        )
        return request["contents"]

    return transform


def litellm_to_openai() -> Transform:
    """What litellm's `/v1/messages` does for a model that is not Anthropic's."""
    module = litellm_module("anthropic.pass_through.adapters.transformation")
    adapter = module.LiteLLMAnthropicMessagesAdapter()

    def transform(body: dict[str, Any]) -> Any:
        return adapter.translate_anthropic_to_openai(body)[0]["messages"]

    return transform


DIRECTIONS: dict[str, tuple[Dialect, Dialect, Callable[[], Transform]]] = {
    "convert-agent": ("openai-chat", "anthropic", litellm_to_anthropic),
    "convert-picture": ("openai-chat", "anthropic", litellm_to_anthropic),
    "convert-marker": ("openai-chat", "anthropic", litellm_to_anthropic),
    "convert-agent-gemini": ("openai-chat", "gemini", litellm_to_gemini),
    "convert-agent-back": ("anthropic", "openai-chat", litellm_to_openai),
}
IMPLEMENTATIONS = ("tokenctx", "litellm", "with-losses", "python")


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("group", DIRECTIONS)
def test_conversion(
    benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch, group: str, implementation: str
) -> None:
    _, target, theirs = DIRECTIONS[group]

    def convert(body: dict[str, Any]) -> Any:
        return convert_messages(body, to=target).messages

    def convert_with_losses(body: dict[str, Any]) -> Any:
        found = convert_messages(body, to=target)
        return found.messages, found.losses

    def copied() -> tuple[tuple[dict[str, Any]], dict[str, Any]]:
        return (copy.deepcopy(conversation(group)),), {}

    work: Transform = convert
    if implementation == "with-losses":
        work = convert_with_losses
    elif implementation == "litellm":
        work = theirs()
        assert len(work(copied()[0][0])) == len(convert(conversation(group)))
    elif implementation == "python":
        monkeypatch.setattr(conversion, "_convert_plain", lambda *_: None)
    benchmark.group = group
    benchmark.pedantic(work, setup=copied, rounds=100, warmup_rounds=5)  # type: ignore[no-untyped-call]
