"""What an estimate costs, stage by stage, in the core and in the plain Python reference.

Both run in one process on the same bytes and are asserted equal before anything is timed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import reference
import tokenctx
from conversations import agent_conversation, encoded, prose_and_code, with_new_turn

if TYPE_CHECKING:
    import types

    from pytest_benchmark.fixture import BenchmarkFixture

IMPLEMENTATIONS = {"rust": tokenctx, "reference": reference}
KNOWN_TOKENS = 200_000
SECRET = b"benchmark"

Work = Callable[[], object]


def estimator(module: types.ModuleType) -> tokenctx.HybridTokenEstimator:
    made: tokenctx.HybridTokenEstimator = module.HybridTokenEstimator(secret=SECRET)
    return made


def count_text(module: types.ModuleType) -> Work:
    """64 KB of prose and code."""
    return functools.partial(module.count_tokens, prose_and_code(64_000))


def digest(module: types.ModuleType) -> Work:
    """Parse, read and digest 480 messages of 930 KB; nothing is known, nothing counted."""
    tracker = module.ConversationStateTracker(secret=SECRET)
    return functools.partial(tracker.lookup, encoded(agent_conversation()), "gpt-4o")


def lookup(module: types.ModuleType) -> Work:
    """The same 480 messages, known to the last."""
    body = encoded(agent_conversation())
    tracker = module.ConversationStateTracker(secret=SECRET)
    tracker.record_actual(body, "gpt-4o", KNOWN_TOKENS)
    return functools.partial(tracker.lookup, body, "gpt-4o")


def estimate_cold(module: types.ModuleType) -> Work:
    """40 messages of 60 KB estimated by an estimator that knows nothing: all is counted."""
    body = encoded(agent_conversation(40, 60_000))
    return lambda: estimator(module).estimate(body)


def recount(module: types.ModuleType) -> Work:
    """480 messages of 930 KB counted from the first to the last; nothing is known."""
    body = encoded(agent_conversation())
    return lambda: estimator(module).count_request(body)


def estimate_new_turn(module: types.ModuleType) -> Work:
    """An answer and a new message of 1 KB on 480 known messages of 930 KB, from raw bytes."""
    body = agent_conversation()
    made = estimator(module)
    made.record(encoded(body), KNOWN_TOKENS)
    return functools.partial(made.estimate, encoded(with_new_turn(body)))


def estimate_new_turn_object(module: types.ModuleType) -> Work:
    """The same from a dict."""
    body = agent_conversation()
    made = estimator(module)
    made.record(body, KNOWN_TOKENS)
    return functools.partial(made.estimate, with_new_turn(body))


GROUPS: dict[str, Callable[[types.ModuleType], Work]] = {
    "count-text": count_text,
    "digest-agent": digest,
    "lookup-agent": lookup,
    "estimate-cold": estimate_cold,
    "recount-agent": recount,
    "estimate-new-turn": estimate_new_turn,
    "estimate-new-turn-object": estimate_new_turn_object,
}


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("group", GROUPS)
def test_estimate(benchmark: BenchmarkFixture, group: str, implementation: str) -> None:
    work = {name: GROUPS[group](module) for name, module in IMPLEMENTATIONS.items()}
    assert work["rust"]() == work["reference"]()
    benchmark.group = group
    rounds = 50 if implementation == "rust" else 3
    benchmark.pedantic(work[implementation], rounds=rounds, warmup_rounds=1)  # type: ignore[no-untyped-call]
