"""A signal whose handler raises ends a long call, which then had no effect."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHILD = """
import json, random, signal, sys, time

import tokenctx

kind, long_seconds, tries = sys.argv[1], 0.5, 8
letters = "".join(random.Random(1).choices("abcdefghij klmnop", k=1_000_000))
encoding, claude = tokenctx.get_encoding("o200k_base"), tokenctx.get_encoding("claude_v3")
estimator = tokenctx.HybridTokenEstimator()
model = "claude-sonnet-4-5" if "claude" in kind else "gpt-4o"

def made(size, nth):
    "A call on so much that was never seen before."
    texts = [f"{nth} {at} {letters[at * 90 % 900_000 :][:200]}" for at in range(size)]
    text, messages = " ".join(texts), [{"role": "user", "content": text} for text in texts]
    body = {"model": model, "messages": messages}
    data, tenant = json.dumps(body).encode(), str(nth)
    return {
        "encode": lambda: encoding.encode(text),
        "encode one piece": lambda: encoding.encode(text.replace(" ", "")),
        "encode_batch": lambda: encoding.encode_batch(texts),
        "count": lambda: encoding.count(text),
        "count claude": lambda: claude.count(text),
        "count_batch": lambda: encoding.count_batch(texts),
        "estimate": lambda: estimator.estimate(data, tenant=tenant),
        "estimate claude": lambda: estimator.estimate(data, tenant=tenant),
        "estimate dict": lambda: estimator.estimate(body, tenant=tenant),
        "record": lambda: estimator.record(data, 500, tenant=tenant),
        "record dict": lambda: estimator.record(body, 500, tenant=tenant),
        "count_request": lambda: estimator.count_request(data),
    }[kind]

class Ended(BaseException):
    pass

def end(*_):
    # Whoever handles a signal may count.
    assert tokenctx.count_tokens(SAID) == COUNTED
    raise Ended

SAID = "xyzzy plugh " * 9
COUNTED = tokenctx.count_tokens(SAID)

size, nth, seconds = 1000, 0, 0.0
while seconds < long_seconds and size < 90_000:
    size, nth = min(2 * size, 90_000), nth + 1
    call, begun = made(size, nth), time.perf_counter()
    call()
    seconds = time.perf_counter() - begun
known, lags = len(estimator), []
signal.signal(signal.SIGALRM, end)
while len(lags) < tries and not any(lag < seconds / 4 for lag in lags):
    nth += 1
    call, begun = made(size, nth), time.perf_counter()
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds / 4)
        call()
    except Ended:
        lags.append(time.perf_counter() - begun - seconds / 4)
    signal.setitimer(signal.ITIMER_REAL, 0)
assert min(lags) < seconds / 4, (seconds, lags)
assert len(estimator) == known
# What is counted next is right.
again = made(2000, nth)()
estimator = tokenctx.HybridTokenEstimator()
assert made(2000, nth)() == again
assert estimator.stats()["estimated"] <= 1
print(f"{kind}: {1e3 * min(lags):.0f} ms of {1e3 * seconds:.0f}")
"""

CALLS = (
    "encode",
    "encode one piece",
    "encode_batch",
    "count",
    "count claude",
    "count_batch",
    "estimate",
    "estimate claude",
    "estimate dict",
    "record",
    "record dict",
    "count_request",
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signal.setitimer")


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_a_signal_ends_a_long_call(call: str) -> None:
    command = [sys.executable, "-c", CHILD, call]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
