"""Estimators shared by threads, and after a fork."""

from __future__ import annotations

import json
import os
import signal
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
