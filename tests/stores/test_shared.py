"""Promises of a shared store that need no server: any store."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import subprocess
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import tokenctx
from reference.digest import derive_key, link, message_digest, prefix_digests, tenant_key
from reference.entry import Sealer
from reference.prefix import KnownTotal
from request_laws import one_view
from tokenctx import HybridTokenEstimator
from tokenctx._core import CallContext, Engine, Wanted
from tokenctx._results.estimates import Estimate
from tokenctx.stores.breaker import FAILURES, Breaker
from tokenctx.stores.outbox import MAX_ENTRIES, Outbox
from tokenctx.usage.normal import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tokenctx.stores import PrefixStore

SECRET = bytes(range(32))
REPLY = {"role": "assistant", "content": "Dust."}
PATIENT_SECONDS = 30.0


class DictStore:
    """A shared store in a dict; `answer` may make a bad one of it."""

    is_async = False
    deadline_seconds = PATIENT_SECONDS

    def __init__(self, answer: Callable[[list[str | None]], Any] = lambda values: values) -> None:
        self.values: dict[str, str] = {}
        self.asked: list[list[str]] = []
        self.answer = answer

    def get_many(self, keys: Sequence[str]) -> Any:
        self.asked.append(list(keys))
        return self.answer([self.values.get(key) for key in keys])

    def set_many(self, values: Mapping[str, str], ttl_seconds: int) -> Any:
        assert ttl_seconds > 0
        self.answer([])
        self.values.update(values)


class AsyncDictStore(DictStore):
    is_async = True

    async def get_many(self, keys: Sequence[str]) -> Any:
        await asyncio.sleep(0)
        return super().get_many(keys)

    async def set_many(self, values: Mapping[str, str], ttl_seconds: int) -> Any:
        await asyncio.sleep(0)
        super().set_many(values, ttl_seconds)


def turn(count: int, name: str = "blue") -> dict[str, Any]:
    """A conversation with `count` answers."""
    messages = [{"role": "user", "content": f"Why is the sky {name}?"}]
    for index in range(count):
        messages += [REPLY, {"role": "user", "content": f"And then, {index}?"}]
    return {"model": "gpt-4o", "messages": messages}


def estimator(store: PrefixStore, **more: Any) -> Any:
    return HybridTokenEstimator(secret=SECRET, shared=store, learning=False, **more)


USAGE = {"prompt_tokens": 50, "completion_tokens": 2}


def test_what_one_records_another_knows() -> None:
    store = DictStore()
    one, other = estimator(store), estimator(store)
    assert one.record(turn(0), USAGE, reply=REPLY)
    assert one.flush(PATIENT_SECONDS)
    estimate = other.estimate(turn(1))
    assert estimate == one.estimate(turn(1))
    assert (estimate.source, estimate.new_message_count) == ("delta", 1)
    assert other.stats()["shared_taken"] == 1
    other.estimate(turn(1))
    assert len(store.asked) == 1, "nobody asks where nothing deeper can have been recorded"


def engine() -> Engine:
    return Engine(SECRET, 1 << 20, 60.0, "profile", 3500, {}, 1100, [], is_learning=False)


KEY = tenant_key(derive_key(SECRET), b"t")
NOW_UNIX_SECONDS = 1_795_000_000
REPLY_TOKENS = 2 + 4
"""What was billed for the answer, and the frame that it has as input of gpt-4o."""


@pytest.mark.parametrize("count", [0, 3, 20])
def test_what_is_shared_is_the_total_sealed_under_the_digest_of_the_prefix(count: int) -> None:
    call = CallContext(tenant=b"t", wants_entries=True)
    billed = Usage(uncached_input_tokens=50, output_tokens=2)
    recorded = engine().record(turn(count), call, billed, REPLY, 0.0, NOW_UNIX_SECONDS)
    assert recorded is not None
    digests = prefix_digests(KEY, "gpt-4o", one_view(turn(count)))
    (reply,) = one_view([REPLY])["messages"]
    totals = [
        (digests[-1], KnownTotal(50)),
        (
            link(KEY, digests[-1], message_digest(KEY, reply)),
            KnownTotal(50 + REPLY_TOKENS, 1),  # counted, and confirmed by its bill
        ),
    ]
    seal = Sealer(SECRET).seal
    assert recorded.entries == [
        (digests[1], prefix, seal(prefix, total, NOW_UNIX_SECONDS)) for prefix, total in totals
    ]
    other = engine()
    for _, prefix, sealed in recorded.entries:
        assert other.insert(prefix, sealed, call, 0.0, NOW_UNIX_SECONDS)
        assert not other.insert(digests[0], sealed, call, 0.0, NOW_UNIX_SECONDS)
    found = other.estimate(turn(count + 1), call, 0.0)
    assert isinstance(found, Estimate)
    assert (found.source, found.known_tokens) == ("delta", 50 + REPLY_TOKENS)


@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("limit", [1, 16])
def test_the_last_borders_between_speakers_are_asked_for(count: int, limit: int) -> None:
    digests = prefix_digests(KEY, "gpt-4o", one_view(turn(count)))
    asked = engine().estimate(turn(count), CallContext(tenant=b"t"), 0.0, limit)
    assert isinstance(asked, Wanted)
    assert (asked.root, asked.prefixes) == (digests[1], digests[1:][-limit:])
    assert (asked.points, asked.learned) == ([], None)


def test_the_borders_of_answers_are_asked_for() -> None:
    store = DictStore()
    one = estimator(store)
    one.estimate(turn(0))
    assert not store.asked, "nothing was answered yet"
    one.estimate(turn(2))
    assert len(store.asked[0]) == 5
    one.estimate(turn(40))
    assert len(store.asked[1]) == 16
    assert len({key.partition("}")[0] for keys in store.asked for key in keys}) == 1
    assert one.record(turn(40), 500)
    one.estimate(turn(41))
    assert len(store.asked[2]) == 2, "the answer and the request itself"


def learning(store: PrefixStore, now: Callable[[], float] = lambda: 0.0) -> Any:
    return HybridTokenEstimator(secret=SECRET, shared=store, clock=now)


def taught(one: Any, calls: int, tenant: str | None = None) -> None:
    """Records `calls` that were billed 50 tokens more than they are counted."""
    for length in range(1, calls + 1):
        body = {"model": "grok-4", "messages": [{"role": "user", "content": "word " * length}]}
        assert one.record(body, one.count_request(body).tokens + 50, tenant=tenant)
        assert one.flush(PATIENT_SECONDS)


GROK = {"model": "grok-4", "messages": [{"role": "user", "content": "Hi there"}]}


def test_what_one_learns_another_corrects_by_from_its_first_estimate_on() -> None:
    store = DictStore()
    one, other = learning(store), learning(store)
    taught(one, 8)
    estimate = other.estimate(GROK)
    assert estimate == one.estimate(GROK)
    assert "learned_correction" in estimate.assumptions
    assert abs(estimate.tokens - other.count_request(GROK).tokens - 50) <= 2
    assert other.stats()["shared_refused"] == 0
    (learned,) = other.learned()["models"].values()
    assert learned["calls"] == 8


def test_others_are_asked_once_a_minute_what_they_have_learned() -> None:
    store, now = DictStore(), [0.0]
    one, other = learning(store), learning(store, lambda: now[0])
    plain = other.estimate(GROK)
    taught(one, 8)
    other.estimate(GROK)
    assert [len(keys) for keys in store.asked[:1]] == [1]
    assert other.estimate(GROK) == plain, "not asked again yet"
    now[0] = 60.0
    assert other.estimate(GROK) == one.estimate(GROK) != plain
    taught(other, 3)
    (learned,) = other.learned()["models"].values()
    assert learned["calls"] == 11, "it goes on from what it took over"


def test_what_a_tenant_has_taught_no_other_is_told() -> None:
    store = DictStore()
    one, other = learning(store), learning(store)
    taught(one, 8, "a")
    for tenant in ("b", None):
        assert "learned_correction" not in other.estimate(GROK, tenant=tenant).assumptions
    assert "learned_correction" in other.estimate(GROK, tenant="a").assumptions


def test_what_is_learned_is_written_seldom_and_only_while_it_corrects() -> None:
    written: list[str] = []

    class Noting(DictStore):
        def set_many(self, values: Mapping[str, str], ttl_seconds: int) -> Any:
            written.extend(value for value in values.values() if len(value) > 128)
            super().set_many(values, ttl_seconds)

    one = learning(Noting())
    taught(one, 40)
    assert 3 <= len(written) <= 6, "after 2 or 4, 8, 16 and 32 calls"
    assert {len(value) for value in written} == {322}
    written.clear()
    right = learning(Noting())
    for length in range(1, 20):
        body = {"model": "grok-4", "messages": [{"role": "user", "content": "word " * length}]}
        assert right.record(body, right.count_request(body).tokens)
    assert right.flush(PATIENT_SECONDS)
    assert not written


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_changed_value_of_what_was_learned_is_a_miss(*, is_cut: bool) -> None:
    store = DictStore()
    taught(learning(store), 8)
    for key, value in store.values.items():
        if len(value) > 128:
            store.values[key] = value[:-4] if is_cut else value[::-1]
    other = learning(store)
    assert "learned_correction" not in other.estimate(GROK).assumptions
    assert other.stats()["shared_refused"] == 1


def test_tenants_share_nothing() -> None:
    store = DictStore()
    one, other = estimator(store), estimator(store)
    one.record(turn(0), 50, tenant="a")
    assert one.flush(PATIENT_SECONDS)
    assert other.estimate(turn(1), tenant="b").source == "estimated"
    assert other.estimate(turn(1)).source == "estimated"
    assert other.estimate(turn(1), tenant="a").source == "delta"


def test_an_entry_is_as_old_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    store, now = DictStore(), time.time()
    one, other = estimator(store), estimator(store, ttl_seconds=60)
    one.record(turn(0), 50)
    assert one.flush(PATIENT_SECONDS)
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert other.estimate(turn(1)).source == "estimated"


@pytest.mark.parametrize("secret", [None, b"", b"short"])
def test_a_secret_is_demanded(secret: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"needs secret=, at least 16 bytes"):
        HybridTokenEstimator(secret=secret, shared=DictStore())


def test_other_clients_and_deadlines_are_refused() -> None:
    redis = pytest.importorskip("redis")
    with pytest.raises(TypeError, match=r"implement tokenctx\.stores\.PrefixStore"):
        tokenctx.RedisPrefixStore(object())
    with redis.Redis() as client, pytest.raises(ValueError, match="deadline_seconds is 0"):
        tokenctx.RedisPrefixStore(client, deadline_seconds=0)


def raises(error: BaseException) -> Callable[[Any], Any]:
    def answer(_: Any) -> Any:
        raise error

    return answer


BAD: list[Callable[[Any], Any]] = [
    raises(OSError("down")),
    raises(asyncio.CancelledError()),
    lambda _: None,
    lambda _: 7,
    lambda values: values[1:],
    lambda _: "text",
]
EXIT = raises(SystemExit(1))
"""In a thread; on the loop it is the loop's to raise."""


@pytest.mark.parametrize(
    ("kind", "answer"),
    [*itertools.product([DictStore, AsyncDictStore], BAD), (DictStore, EXIT)],
)
def test_a_bad_store_is_soon_left_alone(
    kind: type[DictStore], answer: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        store = kind(answer)
        one, cold = estimator(store), HybridTokenEstimator(learning=False)
        for index in range(3 * FAILURES):
            body = turn(1, str(index))
            assert await one.aestimate(body) == cold.estimate(body)
        assert len(store.asked) == FAILURES
        assert one.stats()["shared_reads_stopped"] == 1

    asyncio.run(main())
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("shared store: lookups stopped, last failure: ")
    assert "down" not in line


@pytest.mark.parametrize(
    "value", ["", "A", "AAAA", "\xe9", "A" * 10**6, 7, [b"x"], b"\xff" * 40], ids=str
)
def test_bad_values_are_misses(value: Any) -> None:
    store = DictStore(lambda values: [value] * len(values))
    one, cold = estimator(store), HybridTokenEstimator(learning=False)
    for index in range(2 * FAILURES):
        assert one.estimate(turn(1, str(index))) == cold.estimate(turn(1, str(index)))
    assert one.stats()["shared_refused"] == 2 * FAILURES * 3


def test_a_frozen_store_holds_up_nobody() -> None:
    """Calls that never end are left in their threads, which hold up no exit either."""
    code = """
import threading, tokenctx
class Frozen:
    is_async, deadline_seconds = False, 0.001
    def get_many(self, keys): threading.Event().wait()
    def set_many(self, values, ttl_seconds): threading.Event().wait()
one = tokenctx.HybridTokenEstimator(secret=bytes(32), shared=Frozen())
for index in range(100):
    messages = [{"role": role, "content": str(index)} for role in ("user", "assistant", "user")]
    assert one.record({"messages": messages[:1]}, 50)
    one.reset()
    assert one.estimate({"messages": messages}).source == "estimated"
assert one.stats()["shared_reads_stopped"] == 1
assert threading.active_count() <= 2 * 16 + 2
print("held up by nobody")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert done.stdout.split() == b"held up by nobody".split()


@pytest.mark.parametrize("kind", [DictStore, AsyncDictStore])
def test_under_another_loop_than_asyncios_an_estimate_is_local(kind: type[DictStore]) -> None:
    trio = pytest.importorskip("trio")
    store = kind()
    one, other = estimator(store), estimator(store)
    cold = HybridTokenEstimator(learning=False)

    async def main() -> None:
        assert await one.arecord(turn(0), 50)
        assert (await one.aestimate(turn(0))).source == "exact"
        assert await other.aestimate(turn(1)) == cold.estimate(turn(1))
        with pytest.raises(RuntimeError, match=r"aflush needs asyncio.*flush\(\)"):
            await other.aflush()

    trio.run(main)


def test_probing_keeps_no_estimator_alive() -> None:
    one = estimator(DictStore(lambda _: 1 // 0))
    for index in range(FAILURES):
        one.estimate(turn(1, str(index)))
    assert one.stats()["shared_reads_stopped"] == 1
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def test_a_burst_of_failures_is_one_incident() -> None:
    breaker = Breaker("lookups")
    began = time.monotonic()
    for _ in range(10 * FAILURES):
        breaker.failed("no answer in time", began)
    assert not breaker.is_open
    for _ in range(FAILURES - 1):
        breaker.failed("no answer in time", time.monotonic())
    assert breaker.is_open


def test_making_one_starts_nothing() -> None:
    before = threading.active_count()
    one = estimator(DictStore())
    one.estimate(turn(0))
    assert threading.active_count() == before
    assert one.flush(0)


def test_without_the_loop_an_asynchronous_store_waits() -> None:
    store = AsyncDictStore()
    one = estimator(store)
    assert one.record(turn(0), 50)
    assert not one.flush(0)
    assert one.estimate(turn(0)).source == "exact"

    async def main() -> None:
        assert await one.aflush(PATIENT_SECONDS)
        assert (await estimator(store).aestimate(turn(1))).source == "delta"
        assert estimator(store).estimate(turn(1)).source == "estimated"

    asyncio.run(main())


def test_the_outbox_keeps_the_newest() -> None:
    outbox: Outbox[str] = Outbox()
    outbox.put((str(index), "old") for index in range(MAX_ENTRIES + 5))
    outbox.put([("7", "new")])
    assert outbox.dropped == 5
    writer = outbox.new_writer()
    assert writer is not None
    first = outbox.take(writer)
    assert first[:2] == [("7", "new"), (str(MAX_ENTRIES + 4), "old")]
    assert outbox.failed(writer, first, "down")
    assert outbox.take(writer)[0] == first[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_begins_anew() -> None:
    """Threads and locks of the parent are not there in the child, which has threads of its own."""
    store = DictStore()
    one = estimator(store)
    one.record(turn(0), 50)
    assert one.flush(PATIENT_SECONDS)
    for _ in range(20):
        for index in range(5):
            one.record(turn(0, f"busy {index}"), 50)
        child = os.fork()
        if not child:
            fresh = estimator(store)
            sources = {it.estimate(turn(1, name)).source for it in (fresh,) for name in ["blue"]}
            one.record(turn(0, "child"), 60)
            is_written = one.flush(PATIENT_SECONDS)
            os._exit(not (sources == {"delta"} and is_written))
        assert os.waitpid(child, 0)[1] == 0
