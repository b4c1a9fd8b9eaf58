"""What an estimate costs, stage by stage, in the core and in plain Python.

Both run in one process on the same bytes and are asserted equal before anything is timed. The
plain side is what a gateway would write by itself: `tests/reference/baseline.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import reference
import tokenctx
from conversations import agent_conversation, encoded, prose_and_code, with_new_turn
from reference.baseline import Baseline

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

KNOWN_TOKENS = 200_000
SECRET = b"benchmark"

Work = Callable[[], object]


class Rust:
    """The core under the names of the baseline, with what both tell."""

    count_tokens = staticmethod(tokenctx.count_tokens)

    def __init__(self) -> None:
        estimator = tokenctx.HybridTokenEstimator(secret=SECRET)
        self.record, self.estimate = estimator.record, estimator.estimate
        self.count = estimator.count_request


class Plain(Baseline):
    """The baseline."""

    count_tokens = staticmethod(reference.count_tokens)

    def __init__(self) -> None:
        super().__init__(SECRET)


IMPLEMENTATIONS: dict[str, Any] = {"rust": Rust, "reference": Plain}
TRACKERS: dict[Any, Any] = {Rust: tokenctx.ConversationStateTracker, Plain: Baseline}


def told(answer: Any) -> object:
    """What both implementations say in an answer."""
    names = ("type", "tokens", "known_tokens", "new_message_count", "message_tokens")
    found = {name: getattr(answer, name) for name in names if hasattr(answer, name)}
    return found or answer


def count_text(made: Any) -> Work:
    """64 KB of prose and code."""
    return functools.partial(made.count_tokens, prose_and_code(64_000))


def digest(made: Any) -> Work:
    """Parse, read and digest 480 messages of 930 KB; nothing is known, nothing counted."""
    return functools.partial(
        TRACKERS[made](secret=SECRET).lookup, encoded(agent_conversation()), "gpt-4o"
    )


def lookup(made: Any) -> Work:
    """The same 480 messages, known to the last."""
    body = encoded(agent_conversation())
    tracker = TRACKERS[made](secret=SECRET)
    tracker.record_actual(body, "gpt-4o", KNOWN_TOKENS)
    return functools.partial(tracker.lookup, body, "gpt-4o")


def estimate_cold(made: Any) -> Work:
    """40 messages of 60 KB estimated by an estimator that knows nothing: all is counted."""
    body = encoded(agent_conversation(40, 60_000))
    return lambda: made().estimate(body)


def recount(made: Any) -> Work:
    """480 messages of 930 KB counted from the first to the last; nothing is known."""
    body = encoded(agent_conversation())
    return lambda: made().count(body)


def estimate_new_turn(made: Any) -> Work:
    """An answer and a new message of 1 KB on 480 known messages of 930 KB, from raw bytes."""
    body = agent_conversation()
    estimator = made()
    estimator.record(encoded(body), KNOWN_TOKENS)
    return functools.partial(estimator.estimate, encoded(with_new_turn(body)))


def estimate_new_turn_object(made: Any) -> Work:
    """The same from a dict."""
    body = agent_conversation()
    estimator = made()
    estimator.record(body, KNOWN_TOKENS)
    return functools.partial(estimator.estimate, with_new_turn(body))


GROUPS: dict[str, Callable[[Any], Work]] = {
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
    work = {name: GROUPS[group](made) for name, made in IMPLEMENTATIONS.items()}
    assert told(work["rust"]()) == told(work["reference"]())
    benchmark.group = group
    rounds = 50 if implementation == "rust" else 3
    benchmark.pedantic(work[implementation], rounds=rounds, warmup_rounds=1)  # type: ignore[no-untyped-call]
