"""The store of known prefixes: against a brute-force model, in an export, after a fork."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from reference.prefix import Boundary, KnownTotal, PrefixStore
from tokenctx import HybridTokenEstimator

STEPS_AT_LEAST = 50_000
OPERATIONS_PER_RULE = 30
TTL_SECONDS = 1000
TENANTS = (None, "one", "other")
steps = {"roomy": 0, "tight": 0}


def body_of(letters: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[nth % 2], "content": it} for nth, it in enumerate(letters)]
    return {"model": "gpt-4o", "messages": messages}


OUTPUT_TOKENS = 14
"""More than the count of a reply confirms, and not so much that it is taken for reasoning."""


def reply_framing() -> int:
    """Tokens of a reply as input beside its output."""
    estimator = HybridTokenEstimator(learning=False)
    usage = {"prompt_tokens": 100, "completion_tokens": OUTPUT_TOKENS}
    estimator.record(body_of("a"), usage, reply=body_of("ab")["messages"][1])
    return estimator.estimate(body_of("abc")).known_tokens - 100 - OUTPUT_TOKENS


class StoreMachine(RuleBasedStateMachine):
    """An estimator beside a dict of all that was recorded.

    Operations come in bursts from a drawn seed: drawing each of them would take most of the time.
    """

    kind = "roomy"
    capacity_bytes = 1 << 20

    @initialize(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.framing = reply_framing()
        self.seconds = self.random.choice((0.0, 1.8e9, -50.0))
        self.estimator = self.made()
        self.recorded: dict[tuple[str | None, str], tuple[list[KnownTotal], float]] = {}
        # Not bounded: what it knows and the estimator does not must have been evicted.
        self.model = PrefixStore(1 << 40, TTL_SECONDS)
        self.letters: list[str] = ["a"]

    def made(self) -> HybridTokenEstimator:
        return HybridTokenEstimator(
            secret=b"secret",
            capacity_bytes=self.capacity_bytes,
            ttl_seconds=TTL_SECONDS,
            learning=False,
            clock=lambda: self.seconds,
        )

    def some(self) -> str:
        """A conversation: one that was recorded, cut, changed or grown, or another.

        It is short, so that no difference to another one saves more than its known prefix.
        """
        letters = self.random.choice(self.letters[-30:])
        letters = letters[: self.random.randint(0, len(letters))]
        more = self.random.choice((0, 1, 2, 2, 9))
        return (letters + "".join(self.random.choices("abc", k=more)))[:11] or "a"

    def digests(self, tenant: str | None, letters: str) -> list[bytes]:
        ends = range(1, len(letters) + 1)
        names = [repr((tenant, letters[:end])).encode() for end in ends]
        return [hashlib.blake2b(name, digest_size=16).digest() for name in names]

    @rule(seed=st.integers(0, 2**32), seconds=st.integers(0, TTL_SECONDS), restarts=st.booleans())
    def live(self, seed: int, seconds: int, *, restarts: bool) -> None:
        self.seconds += seconds
        if restarts:
            self.restart()
        self.random.seed(seed)
        for _ in range(OPERATIONS_PER_RULE):
            operation = self.random.choice((self.record, self.record, self.look_up, self.look_up))
            operation(self.random.choice(TENANTS), self.some())
        steps[self.kind] += OPERATIONS_PER_RULE

    def restart(self) -> None:
        data, old = self.estimator.export_known(), self.estimator
        self.estimator = self.made()
        assert self.estimator.import_known(data) == len(self.estimator) <= len(old)
        assert self.estimator.import_known(data) == 0

    def record(self, tenant: str | None, letters: str) -> None:
        tokens, with_reply = self.random.randint(1, 10**6), self.random.random() < 0.6
        self.letters.append(letters)
        totals = {letters: KnownTotal(tokens)}
        reply = None
        if with_reply:
            grown = letters + self.random.choice("abc")
            reply = body_of(grown)["messages"][-1]
            derived = OUTPUT_TOKENS + self.framing
            totals[grown] = KnownTotal(tokens + derived, derived)
            self.letters.append(grown)
        usage = {"prompt_tokens": tokens, "completion_tokens": OUTPUT_TOKENS}
        assert self.estimator.record(body_of(letters), usage, reply=reply, tenant=tenant)
        digests = self.digests(tenant, list(totals)[-1])
        boundaries = []
        for known, total in totals.items():
            boundaries.append(Boundary(len(known), digests[len(known) - 1], total))
            old, expires = self.recorded.get((tenant, known), ([], 0.0))
            # A billed total stays under a derived one, if it has not gone since.
            is_kept = expires > self.seconds and not total.is_billed
            right = [total, *(it for it in old if is_kept and it.is_billed)]
            self.recorded[tenant, known] = right, self.seconds + TTL_SECONDS
        self.model.record(digests[: len(letters)], boundaries, self.seconds)
        self.look_up(tenant, list(totals)[-1], is_newest=True)

    def look_up(self, tenant: str | None, letters: str, *, is_newest: bool = False) -> None:
        estimate = self.estimator.estimate(body_of(letters), tenant=tenant)
        depth = len(letters) - estimate.new_message_count
        expected = self.model.deepest(self.digests(tenant, letters), self.seconds)
        if "edited_history" in estimate.assumptions:  # the tenant's nearest conversation, edited
            assert any(name == tenant for name, _ in self.recorded)
            assert self.kind == "tight" or expected is None
            return
        if depth:
            right, expires = self.recorded[tenant, letters[:depth]]
            assert self.seconds < expires
            is_billed = {total.tokens: total.is_billed for total in right}[estimate.known_tokens]
            assert (estimate.source == "exact") is (depth == len(letters) and is_billed)
        else:
            assert (estimate.source, estimate.known_tokens) == ("estimated", 0)
        if is_newest:
            assert estimate.new_message_count == 0
            assert depth == len(letters)
        if self.kind == "roomy":
            assert self.estimator.stats()["evicted"] == 0
            known = expected or (-1, KnownTotal(0))
            assert (depth, estimate.known_tokens) == (known[0] + 1, known[1].tokens)


class TightStoreMachine(StoreMachine):
    """The same with room for less than what is recorded."""

    kind = "tight"
    capacity_bytes = 60 * 48


@pytest.mark.slow
@pytest.mark.parametrize("machine", [StoreMachine, TightStoreMachine])
def test_the_store_is_right_whatever_happens(machine: type[StoreMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=40, stateful_step_count=40))
    assert steps[machine.kind] >= STEPS_AT_LEAST // 2


# Export


def known(count: int = 20) -> HybridTokenEstimator:
    estimator = HybridTokenEstimator(secret=b"secret")
    for nth in range(count):
        estimator.record(body_of("ab" * nth + "a"), 100 + nth, tenant=f"tenant {nth % 3}")
    return estimator


def test_an_export_is_taken_over_by_the_same_secret_with_the_time_that_is_left() -> None:
    seconds = [50.0, 1e9]
    clocks = [lambda: seconds[0], lambda: seconds[1]]
    old, new = (
        HybridTokenEstimator(secret=b"secret", ttl_seconds=60, clock=clock) for clock in clocks
    )
    old.record(body_of("a"), 10)
    seconds[0] += 40
    old.record(body_of("b"), 20, tenant="one")
    assert new.import_known(old.export_known()) == 2
    assert new.estimate(body_of("a")).tokens == 10
    assert new.estimate(body_of("b"), tenant="one").tokens == 20
    assert new.estimate(body_of("b")).source == "estimated"
    seconds[1] += 20
    assert new.estimate(body_of("a")).source == "estimated"
    assert new.estimate(body_of("b"), tenant="one").source == "exact"
    seconds[0] += 60
    assert len(old) == 2
    assert HybridTokenEstimator(secret=b"secret").import_known(old.export_known()) == 0


def test_what_is_known_already_stays() -> None:
    old, new = known(), known()
    new.record(body_of("a"), 999, tenant="tenant 0")
    new.import_known(old.export_known())
    assert new.estimate(body_of("a"), tenant="tenant 0").tokens == 999
    assert len(new) == len(old)


def test_an_export_holds_no_more_than_there_is_room_for() -> None:
    small = HybridTokenEstimator(secret=b"secret", capacity_bytes=4 * 48)
    small.import_known(known().export_known())
    assert len(small) == 4


def test_a_senseless_export_is_refused_and_nothing_is_imported() -> None:
    data = known().export_known()
    changed = [data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] for place in range(200)]
    cut = [data[:end] for end in range(0, len(data), 7)]
    grown = [data + b"\0", data + data, b"", b"tokenctx known", b"\0" * 100]
    for senseless in (*changed, *cut, *grown):
        estimator = HybridTokenEstimator(secret=b"secret")
        with pytest.raises(ValueError, match="nothing was imported"):
            estimator.import_known(senseless)
        assert len(estimator) == 0
    other = HybridTokenEstimator(secret=b"other")
    with pytest.raises(ValueError, match="another secret"):
        other.import_known(data)
    assert len(other) == 0


def test_an_export_holds_neither_text_nor_names() -> None:
    estimator = HybridTokenEstimator(secret=b"canary-secret")
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "canary-text"}]}
    estimator.record(body, 10, tenant="canary-tenant")
    assert b"canary" not in estimator.export_known()


# Laws


TALK = st.lists(st.text(max_size=30), min_size=1, max_size=12)


def talk(texts: list[str]) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[nth % 2], "content": text} for nth, text in enumerate(texts)]
    return {"model": "gpt-4o", "messages": messages}


@given(TALK, st.randoms(use_true_random=False))
def test_with_bills_as_counted_the_cache_changes_the_label_alone(
    texts: list[str], random_: random.Random
) -> None:
    known_, unknown = HybridTokenEstimator(), HybridTokenEstimator()
    for end in range(1, len(texts) + 1):
        body = talk(texts[:end])
        tokens = unknown.estimate(body).tokens
        assert known_.estimate(body).tokens == tokens
        if random_.random() < 0.5:
            known_.record(body, tokens)


@given(TALK, st.integers(0, 50), st.lists(st.integers(0, 50), min_size=12, max_size=12))
def test_with_true_bills_an_estimate_is_no_worse_than_a_count(
    texts: list[str], hidden: int, more: list[int]
) -> None:
    """The provider adds to the request and to its messages what nobody can count."""
    known_, unknown = (HybridTokenEstimator(learning=False) for _ in range(2))
    for end in range(1, len(texts) + 1):
        body = talk(texts[:end])
        counted = unknown.estimate(body).tokens
        billed = counted + hidden + sum(more[:end])
        estimate = known_.estimate(body)
        assert abs(estimate.tokens - billed) <= abs(counted - billed)
        assert estimate.tokens == billed - (sum(more[:end]) + hidden if end == 1 else more[end - 1])
        known_.record(body, billed)
        assert known_.estimate(body).tokens == billed


# Processes


def run_apart(code: str) -> None:
    """Run `code` in a process of its own: it forks, or measures its memory."""
    words = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_children_answer_while_threads_are_at_work() -> None:
    """Locks are taken only while attached to the interpreter, so no child gets a locked one."""
    run_apart(
        """
        import json, os, signal, threading
        from tokenctx import HybridTokenEstimator

        def body(number, turns):
            text = "a line of a long file\\n" * 40
            contents = [f"{number} {turn} {text}" for turn in range(turns)]
            messages = [{"role": "user", "content": content} for content in contents]
            return json.dumps({"model": "gpt-4o", "messages": messages}).encode()

        estimator = HybridTokenEstimator(capacity_bytes=200_000)
        known = [body(number, 30) for number in range(3)]
        for number, it in enumerate(known):
            estimator.record(it, 5000 + number)
        done = threading.Event()

        def work(thread):
            number = 0
            while not done.is_set():
                it = body(f"{thread} {number}", 3 + number % 30)
                estimator.estimate(it)
                estimator.record(it, 4000)
                estimator.export_known()
                for again in known:
                    estimator.estimate(again)
                number += 1

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        children = []
        for child in range(200):
            pid = os.fork()
            if pid == 0:
                signal.alarm(60)  # a child that hangs ends by a signal
                tokens = [estimator.estimate(it).tokens for it in known]
                right = tokens == [5000, 5001, 5002]
                mine = body("child", 5)
                right = right and estimator.record(mine, 700)
                right = right and estimator.estimate(mine).tokens == 700
                estimator.export_known()
                os._exit(0 if right else 1)
            children.append(pid)
            if len(children) == 10:
                states = [os.waitpid(pid, 0)[1] for pid in children]
                assert states == [0] * 10, states
                children.clear()
        done.set()
        for thread in threads:
            thread.join()
        """
    )


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_stays_while_new_conversations_come() -> None:
    """Without bounds, 300,000 prefixes would take more than is allowed here."""
    script = Path(__file__).parents[2] / "benches/studies/soak.py"
    limits = ("--capacity-bytes", "2000000", "--spare-bytes", "8000000")
    words = [sys.executable, str(script), "--conversations", "150000", *limits]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
