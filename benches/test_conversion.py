"""A 500-message, 1 MB agent conversation from OpenAI Chat to Anthropic, beside litellm's own.

Both run in one process on the same dict. litellm changes the messages that it is given, so it gets
a copy each time, which is not timed. `with-losses` goes the way back too, to name all differences.
"""

from __future__ import annotations

import copy
import functools
import os
from typing import TYPE_CHECKING, Any

import pytest

from conversations import agent_conversation
from tokenctx import convert_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

MODEL = "claude-sonnet-4-5"
MAX_TOKENS = 4096


@functools.cache
def conversation() -> dict[str, Any]:
    return agent_conversation(500, 1_000_000)


def copied() -> tuple[tuple[dict[str, Any]], dict[str, Any]]:
    return (copy.deepcopy(conversation()),), {}


def convert(body: dict[str, Any]) -> Any:
    return convert_messages(body, to="anthropic").body


def convert_with_losses(body: dict[str, Any]) -> Any:
    conversion = convert_messages(body, to="anthropic")
    return conversion.body, conversion.losses


def litellm_transformation() -> Callable[[dict[str, Any]], Any]:
    """The two steps that litellm's `completion` goes before it sends; skips where it is missing."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches one from the network
    transformation = pytest.importorskip(
        "litellm.llms.anthropic.chat.transformation", reason="litellm is not installed"
    )
    config = transformation.AnthropicConfig()

    def transform(body: dict[str, Any]) -> Any:
        params = config.map_openai_params({"tools": body["tools"]}, {}, MODEL, drop_params=False)
        params["max_tokens"] = MAX_TOKENS
        return config.transform_request(MODEL, body["messages"], params, {}, {})

    return transform


IMPLEMENTATIONS = {"tokenctx": convert, "with-losses": convert_with_losses, "litellm": None}


@pytest.mark.benchmark(group="convert-agent")
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_conversion(benchmark: BenchmarkFixture, implementation: str) -> None:
    work = IMPLEMENTATIONS[implementation] or litellm_transformation()
    if implementation == "litellm":
        theirs = work(copied()[0][0])
        ours = convert(conversation())
        assert len(theirs["messages"]) == len(ours["messages"])
        assert theirs["messages"][0] == ours["messages"][0] or theirs["messages"][1:2]
    benchmark.pedantic(work, setup=copied, rounds=40, warmup_rounds=2)  # type: ignore[no-untyped-call]
