"""The next turn of a known conversation beside what else a gateway does with its body, in one run.

480 messages of 930 KB are known; an answer and a new message of 1 KB have come. `tokenctx` gives
the estimate from bytes or from a dict, `reference` is its twin in plain Python. `orjson` and `json`
only parse the bytes. `litellm` is its `token_counter` on the parsed messages and tools, which
remembers nothing. What is not installed is skipped.
"""

from __future__ import annotations

import functools
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

import reference
import tokenctx
from conversations import agent_conversation, encoded, with_new_turn

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    Encode = Callable[[dict[str, Any]], object]
    Work = Callable[[], object]

KNOWN_TOKENS = 200_000
ROUNDS = {"litellm": 5, "reference": 3}


def known(module: types.ModuleType, encode: Encode) -> Work:
    """The estimate of the next turn."""
    estimator = module.HybridTokenEstimator(secret=b"benchmark")
    body = agent_conversation()
    estimator.record(encode(body), KNOWN_TOKENS)
    body = with_new_turn(body)
    assert estimator.estimate(encode(body)).known_tokens == KNOWN_TOKENS
    return functools.partial(estimator.estimate, encode(body))


def parsed(loads: Callable[[bytes], object]) -> Work:
    return functools.partial(loads, encoded(with_new_turn(agent_conversation())))


def litellm_count() -> Work:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches one from the network
    litellm = pytest.importorskip("litellm", reason="litellm is not installed")
    body = with_new_turn(agent_conversation())
    return functools.partial(litellm.token_counter, **body)


def orjson_parsed() -> Work:
    return parsed(pytest.importorskip("orjson", reason="orjson is not installed").loads)


GROUPS: dict[str, Encode] = {"new-turn-bytes": encoded, "new-turn-object": lambda body: body}
OTHERS: dict[str, Callable[[], Work]] = {
    "orjson": orjson_parsed,
    "json": lambda: parsed(json.loads),
    "litellm": litellm_count,
}


@pytest.mark.parametrize("implementation", ["tokenctx", "reference", *OTHERS])
@pytest.mark.parametrize("group", GROUPS)
def test_new_turn(benchmark: BenchmarkFixture, group: str, implementation: str) -> None:
    packages = {"tokenctx": tokenctx, "reference": reference}
    package = packages.get(implementation)
    work = known(package, GROUPS[group]) if package else OTHERS[implementation]()
    benchmark.group = group
    rounds = ROUNDS.get(implementation, 50)
    benchmark.pedantic(work, rounds=rounds, warmup_rounds=1)  # type: ignore[no-untyped-call]
