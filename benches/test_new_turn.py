"""The next turn of a known conversation beside what else a gateway does with its body, in one run.

480 messages of 930 KB are known; an answer and a new message of 1 KB have come. `tokenctx` gives
the estimate from bytes or from a dict, `reference` is the baseline in plain Python. `orjson` and
`json` only parse the bytes. `litellm` is its `token_counter` on the parsed messages and tools,
which remembers nothing. What is not installed is skipped.
"""

from __future__ import annotations

import functools
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from conversations import agent_conversation, encoded, with_new_turn
from reference.baseline import Baseline
from tokenctx import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    Encode = Callable[[dict[str, Any]], object]
    Work = Callable[[], object]

KNOWN_TOKENS = 200_000
SECRET = b"benchmark"
ESTIMATORS: dict[str, Any] = {"tokenctx": HybridTokenEstimator, "reference": Baseline}
ROUNDS = {"litellm": 5, "reference": 3}


def known(estimator: Any, encode: Encode) -> Work:
    """The estimate of the next turn."""
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


@pytest.mark.parametrize("implementation", [*ESTIMATORS, *OTHERS])
@pytest.mark.parametrize("group", GROUPS)
def test_new_turn(benchmark: BenchmarkFixture, group: str, implementation: str) -> None:
    other = OTHERS.get(implementation)
    work = other() if other else known(ESTIMATORS[implementation](secret=SECRET), GROUPS[group])
    benchmark.group = group
    rounds = ROUNDS.get(implementation, 50)
    benchmark.pedantic(work, rounds=rounds, warmup_rounds=1)  # type: ignore[no-untyped-call]
