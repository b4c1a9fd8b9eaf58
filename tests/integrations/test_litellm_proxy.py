"""A running proxy of litellm with the callback: real clients in front, a local provider behind."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

import upstream
from litellm_proxy import program, proxy
from tokenctx.context import parse_overflow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from upstream import Upstream

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
QUESTION = {"role": "user", "content": "Why is the sky blue?"}
OWN = """
from tokenctx.integrations.litellm_streams import MessageStartLogger


class Own(MessageStartLogger):
    pass


handler = Own(clamp=True)
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[Upstream]:
    program()
    with upstream.running() as running:
        yield running


def models(url: str) -> list[dict[str, Any]]:
    """A model of OpenAI, one of Anthropic, a small one, and a small and a large one as one."""

    def deployed(name: str, model: str, **info: Any) -> dict[str, Any]:
        base = url if model.startswith("anthropic/") else f"{url}/v1"
        settings = {"model": model, "api_base": base, "api_key": "none"}
        return {"model_name": name, "litellm_params": settings, "model_info": info}

    return [
        deployed("fast", "openai/gpt-4o"),
        deployed("claude", "anthropic/claude-sonnet-4-5"),
        deployed("small", "openai/gpt-4"),
        deployed("either", "openai/gpt-4"),
        deployed("either", "openai/gpt-4o"),
        deployed("own-limit", "openai/gpt-4o", max_input_tokens=500),
        deployed("falls-back", "openai/gpt-4"),
    ]


@pytest.fixture(scope="module")
def ready(provider: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A proxy with the ready instance, named in its configuration."""
    folder = tmp_path_factory.mktemp("ready")
    with proxy(folder, configuration(provider, "tokenctx.integrations.litellm.handler")) as address:
        yield address


@pytest.fixture(scope="module")
def own(provider: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A proxy with an instance of a subclass, from a file beside the configuration."""
    folder: Path = tmp_path_factory.mktemp("own")
    with proxy(folder, configuration(provider, "own.handler"), own=OWN) as address:
        yield address


def configuration(provider: Upstream, callback: str) -> dict[str, Any]:
    return {
        "model_list": models(provider.url),
        "litellm_settings": {"callbacks": [callback], "num_retries": 0},
        "router_settings": {"context_window_fallbacks": [{"falls-back": ["fast"]}]},
    }


def client(address: str, key: str) -> Any:
    import openai

    return openai.OpenAI(base_url=f"{address}/v1", api_key=f"sk-{key}", max_retries=0)


def claude_client(address: str, key: str) -> Any:
    import anthropic

    return anthropic.Anthropic(base_url=address, api_key=f"sk-{key}", max_retries=0)


Header = dict[str, Any]


def told(headers: Any) -> tuple[str, int, int]:
    """Source, all tokens and known tokens, as the answer's headers have them."""
    names = ("source", "input-tokens", "known-tokens")
    source, tokens, known = (headers[f"x-tokenctx-{name}"] for name in names)
    return source, int(tokens), int(known)


def until_known(ask: Any) -> Any:
    """The answer once the request is known to have been billed: litellm records it afterwards."""
    end = time.monotonic() + 20
    while True:
        answer = ask()
        if told(answer.headers)[0] == "exact" or time.monotonic() > end:
            return answer
        time.sleep(0.1)


def chat(address: str, key: str, messages: list[Any], **options: Any) -> Any:
    asked = {"model": "fast", "messages": messages, "tools": [TOOL], **options}
    return client(address, key).chat.completions.with_raw_response.create(**asked)


def test_the_second_turn_of_a_chat_is_a_delta_for_its_key_alone(
    ready: str, provider: Upstream
) -> None:
    question = [{"role": "system", "content": "Be brief."}, QUESTION]
    first = chat(ready, "one", question)
    source, tokens, _ = told(first.headers)
    answer = first.parse()
    billed = answer.usage.prompt_tokens
    assert (source, billed) == ("estimated", provider.bills[-1])
    assert tokens == billed - upstream.hidden_tokens(provider.bodies[-1]), "a plain count"
    until_known(lambda: chat(ready, "one", question))
    reply = {"role": "assistant", "content": answer.choices[0].message.content}
    messages = [*question, reply, {"role": "user", "content": "And red at dusk?"}]
    later = chat(ready, "one", messages)
    source, tokens, known = told(later.headers)
    assert (source, known > billed) == ("delta", True)
    assert tokens == later.parse().usage.prompt_tokens
    other = chat(ready, "two", messages)
    source, tokens, known = told(other.headers)
    assert (source, known) == ("estimated", 0)
    assert tokens == later.parse().usage.prompt_tokens - upstream.hidden_tokens(provider.bodies[-1])


def test_a_call_of_a_tool_and_its_result_are_a_delta(ready: str) -> None:
    messages: list[Any] = [{"role": "user", "content": "What does weather say of Oslo?"}]
    known = until_known(lambda: chat(ready, "tools", messages))
    answer = known.parse().choices[0].message
    result = {"role": "tool", "tool_call_id": answer.tool_calls[0].id, "content": "rain"}
    messages += [answer.model_dump(exclude_none=True), result]
    later = chat(ready, "tools", messages)
    source, tokens, _ = told(later.headers)
    assert source == "delta"
    assert abs(tokens - later.parse().usage.prompt_tokens) < 20, "the call is billed flat"


def test_a_stream_of_chat_is_recorded(ready: str, provider: Upstream) -> None:
    messages: list[Any] = [{"role": "user", "content": "Why is a streamed sky blue?"}]
    text = ""

    def ask() -> Any:
        nonlocal text
        answer = chat(ready, "stream", messages, stream=True)
        chunks = [chunk for chunk in answer.parse() if chunk.choices]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        return answer

    until_known(ask)
    messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And red?"}]
    later = ask()
    source, tokens, _ = told(later.headers)
    assert (source, tokens) == ("delta", provider.bills[-1]), "said before the stream begins"


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("model", ["claude", "fast"])
def test_the_second_turn_of_messages_is_a_delta(
    ready: str, provider: Upstream, model: str, *, is_stream: bool
) -> None:
    anthropic = claude_client(ready, f"messages-{is_stream}")
    asked: dict[str, Any] = {"model": model, "system": "Be brief.", "max_tokens": 50}
    messages: list[Any] = [{"role": "user", "content": f"Why, {model} {is_stream}, is it blue?"}]
    create = anthropic.messages.with_raw_response.create
    content: list[Any] = []

    def ask() -> Any:
        answer = create(messages=messages, stream=is_stream, **asked)
        made = answer.parse()
        if is_stream:
            parts = [getattr(getattr(event, "delta", None), "text", "") for event in made]
            content[:] = [{"type": "text", "text": "".join(parts)}]
        else:
            content[:] = [block.model_dump() for block in made.content]
        return answer

    until_known(ask)
    messages += [
        {"role": "assistant", "content": list(content)},
        {"role": "user", "content": "And red at dusk?"},
    ]
    later = ask()
    source, tokens, _ = told(later.headers)
    assert source == "delta"
    assert abs(tokens - provider.bills[-1]) <= 8


def test_responses_are_recorded(ready: str, provider: Upstream) -> None:
    responses = client(ready, "responses").responses
    asked: dict[str, Any] = {"model": "fast", "instructions": "Be brief.", "store": False}
    items: list[Any] = [{"role": "user", "content": "Why is the sky of Responses blue?"}]
    create = responses.with_raw_response.create
    answer = until_known(lambda: create(input=items, **asked)).parse()
    items += [item.model_dump(exclude_none=True) for item in answer.output]
    items.append({"role": "user", "content": "And red at dusk?"})
    later = create(input=items, **asked)
    source, tokens, _ = told(later.headers)
    assert (source, tokens) == ("delta", provider.bills[-1])


LONG: Any = {"role": "user", "content": "word " * 9_000}


def test_what_no_deployment_holds_is_refused_as_an_overflow(ready: str, provider: Upstream) -> None:
    import openai

    sent = len(provider.bodies)
    for model, limit in (("small", 8_192), ("own-limit", 500)):
        with pytest.raises(openai.BadRequestError) as caught:
            chat(ready, "long", [LONG], model=model)
        overflow = parse_overflow(caught.value)
        assert overflow is not None
        assert overflow.limit_tokens == limit
        assert (overflow.actual_tokens or 0) > 9_000
        assert "word word" not in str(caught.value)
    assert len(provider.bodies) == sent, "the provider was not asked"


def test_messages_are_refused_as_an_overflow(ready: str) -> None:
    import anthropic

    create = claude_client(ready, "long").messages.create
    with pytest.raises(anthropic.BadRequestError) as caught:
        create(model="small", messages=[LONG], max_tokens=5)
    overflow = parse_overflow(caught.value)
    assert overflow is not None
    assert overflow.limit_tokens == 8_192


def test_the_router_takes_what_is_large_enough(ready: str, provider: Upstream) -> None:
    used = set()
    for turn in range(4):
        asked = {"role": "user", "content": f"turn {turn}: " + LONG["content"]}
        chat(ready, "routed", [asked], model="either")
        used.add(provider.bodies[-1]["model"])
    assert used == {"gpt-4o"}
    chat(ready, "routed", [LONG], model="falls-back")
    assert provider.bodies[-1]["model"] == "gpt-4o"


def test_a_subclass_from_a_file_has_all_hooks(own: str, provider: Upstream) -> None:
    """litellm looks for three of the hooks in the class of the instance alone."""
    messages: list[Any] = [{"role": "user", "content": "Why is my own sky blue?"}]
    first = chat(own, "one", messages, model="small", max_tokens=8_100)
    assert told(first.headers)[0] == "estimated"
    sent = provider.bodies[-1]["max_tokens"]
    assert 7_000 < sent < 8_192 - upstream.COUNTER.count_request(provider.bodies[-1]).tokens
    assert (
        told(until_known(lambda: chat(own, "one", messages, model="small")).headers)[0] == "exact"
    )


def test_a_stream_of_messages_begins_with_its_input_tokens(own: str, provider: Upstream) -> None:
    """OpenAI tells them at the end, so litellm's stream of Anthropic's form begins with 0."""
    asked: dict[str, Any] = {"model": "fast", "max_tokens": 50}
    messages: list[Any] = [{"role": "user", "content": "Why does it begin with blue?"}]
    create = claude_client(own, "start").messages.create
    events = list(create(messages=messages, stream=True, **asked))
    counted = provider.bills[-1] - upstream.hidden_tokens(provider.bodies[-1])
    assert events[0].message.usage.input_tokens == counted
    assert any("scatters" in json.dumps(event.model_dump()) for event in events)
