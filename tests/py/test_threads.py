"""Estimators shared by threads, and after a fork."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tokenctx
from dialect_calls import chat, user


def bodies(count: int) -> list[bytes]:
    """Requests from a few bytes, read attached, to many KB, read detached."""
    return [
        json.dumps(chat(user(f"message {number} " * (1 + number % 400)))).encode()
        for number in range(count)
    ]


def test_threads_share_an_estimator() -> None:
    estimator = tokenctx.HybridTokenEstimator(learning=False)
    several = bodies(60)
    for number, body in enumerate(several[::2]):
        estimator.record(body, 1000 + number)
    expected = [estimator.estimate(body).tokens for body in several]
    start = threading.Barrier(8)

    def work(thread: int) -> bool:
        start.wait()
        same = [estimator.estimate(body).tokens for body in several] == expected
        for number, body in enumerate(several[::2]):
            estimator.record(body, 1000 + number)
            estimator.record(chat(user(f"own {thread} {number}")), 7)
        return same

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert [estimator.estimate(body).tokens for body in several] == expected
    assert len(estimator) == 30 + 8 * 30


def test_threads_share_a_tracker() -> None:
    tracker = tokenctx.ConversationStateTracker()
    start = threading.Barrier(8)

    def work(thread: int) -> bool:
        start.wait()
        for number in range(50):
            messages = [user(f"{thread} {number}")]
            tracker.record_actual(messages, "family", 1 + number)
            if tracker.lookup(messages, "family").known_tokens != 1 + number:
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert len(tracker) == 400


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_threads_estimate_leaves_a_working_child() -> None:
    """A lock that is held at the fork would never be released in the child."""
    estimator, tracker = tokenctx.HybridTokenEstimator(), tokenctx.ConversationStateTracker()
    several, stopped = bodies(200), threading.Event()
    estimator.record(several[0], 1234)

    def work() -> None:
        while not stopped.is_set():
            for body in several:
                estimator.record(body, 1234)
                estimator.estimate(body)
                tracker.record_actual(body, "family", 5)
                tracker.lookup(body, "family")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        statuses = [in_child(estimator, tracker, several[0]) for _ in range(20)]
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    assert statuses == [0] * 20


def in_child(estimator: Any, tracker: Any, body: bytes) -> int:
    """Exit status of a forked process that uses both; of the alarm's signal if it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            right = estimator.estimate(body).tokens == 1234
            estimator.record(body, 99)
            tracker.record_actual(body, "family", 5)
            right &= estimator.estimate(body).tokens == 99
            right &= tracker.lookup(body, "family").known_tokens == 5
            os._exit(0 if right else 3)
        finally:
            os._exit(4)
    return os.waitpid(child, 0)[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    "before",
    ["tokenctx.encodings.preload_encodings()", "threads = [start(name) for name in names]"],
)
def test_a_fork_while_a_vocabulary_is_built_leaves_a_working_child(before: str) -> None:
    """Who builds is not in the child, which must not wait for it; what was built before, it has."""
    expected = counts_in_a_process("pass")
    assert counts_in_a_process(f"{before}\nchild = os.fork()\nif child: leave(child)") == expected


def counts_in_a_process(before: str) -> str:
    """The output of a process that counts in each built encoding, after `before`."""
    code = f"""
import os, signal, sys, threading
import tokenctx
signal.alarm(60)
names = ("gemma", "qwen2", "mistral_v3", "deepseek_v3", "p50k_base", "r50k_base")
def count(name):
    return tokenctx.count_tokens("hello, world of tokens", encoding=name)
def start(name):
    thread = threading.Thread(target=count, args=(name,))
    thread.start()
    return thread
def leave(child):
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
{before}
print([count(name) for name in names], flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_another_thread_runs_while_a_vocabulary_is_built() -> None:
    """A thread gives the interpreter away only where it waits or leaves it here, as to build."""
    code = """
import sys, threading
import tokenctx
sys.setswitchinterval(100)
text, meanwhile = "a few words", 0
for name in ("gemma", "qwen2", "mistral_v3", "deepseek_v3"):
    counts = []
    count = lambda: counts.append(tokenctx.count_tokens(text, encoding=name))
    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    meanwhile += not counts
    for thread in threads:
        thread.join()
    assert counts == [3, 3, 3], counts
assert meanwhile
"""
    subprocess.run([sys.executable, "-c", code], check=True)
