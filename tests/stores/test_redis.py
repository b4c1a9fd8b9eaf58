"""Promises of RedisPrefixStore, with real servers and the clients of real packages."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import busy_loop
import redis_rig as rig
from redis_worker import CONVERSATIONS, SECRET, TURNS, share
from tokenctx import HybridTokenEstimator, RedisPrefixStore

if TYPE_CHECKING:
    from collections.abc import Iterator

redis = pytest.importorskip("redis")

TRIES = 3
"""Runs of which one must be good: other tests share the machine."""
PATIENT_SECONDS = 5.0
"""A deadline that a busy machine does not miss, where the deadline is not what is tested."""


@pytest.fixture(scope="module", params=["redis", "valkey"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    program = rig.require(request.param)
    with rig.server(program, tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def plain(server: Any) -> Iterator[Any]:
    """A client that sees what is in the server, which is empty first."""
    with rig.sync_client("redis", server.port) as client:
        client.flushall()
        yield client


def estimator(client: Any, deadline_seconds: float = PATIENT_SECONDS) -> HybridTokenEstimator:
    store = RedisPrefixStore(client, deadline_seconds=deadline_seconds)
    return HybridTokenEstimator(secret=SECRET, shared=store, learning=False)


def turn(name: str, count: int) -> dict[str, Any]:
    """A conversation with `count` answers."""
    messages = [{"role": "user", "content": f"Why is the sky {name}?"}]
    for index in range(count):
        messages.append({"role": "assistant", "content": f"Dust, {index}."})
        messages.append({"role": "user", "content": f"And then, {index}?"})
    return {"model": "gpt-4o", "messages": messages}


@pytest.mark.slow
@pytest.mark.parametrize("name", rig.ASYNC)
def test_a_loop_that_is_held_costs_no_lookups(
    server: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With default settings, whatever holds the loop; and nothing is said of the store."""
    for title, held in busy_loop.HOLDS.items():
        found = []
        for _ in range(TRIES):
            found.append(asyncio.run(busy_loop.deltas(name, server.port, 60, held))[0])
            if found[-1] >= 57:
                break
        assert found[-1] >= 57, (title, found)
    # A client of another loop may say that it was not let through; the store has nothing to say.
    assert not [it for it in caplog.records if it.name.startswith("tokenctx")]


def test_threads_that_hold_the_interpreter_are_no_failure_of_the_server(
    server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Eight threads count and ask; the server is well, so nothing is stopped or logged."""
    with rig.sync_client("redis", server.port) as client:
        one, other = estimator(client, 0.003), estimator(client, 0.003)
        text = "some words here " * 2_000

        def work(first: int) -> None:
            for index in range(first, first + 200):
                one.record(turn(str(index), 0), 50)
                other.estimate([{"role": "user", "content": f"{text}{index}"}])
                other.estimate(turn(str(index), 1))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(0, 8_000, 1_000)))
        assert one.flush(PATIENT_SECONDS)
        assert other.stats()["shared_reads_stopped"] == 0
    assert not caplog.records


@pytest.mark.parametrize("name", rig.SYNC)
def test_what_one_worker_records_another_knows(server: Any, plain: Any, name: str) -> None:
    with rig.sync_client(name, server.port) as client:
        one, other = estimator(client), estimator(client)
        assert one.record(turn(name, 0), 50)
        assert one.flush(PATIENT_SECONDS)
        estimate = other.estimate(turn(name, 1))
    assert (estimate.source, estimate.known_tokens) == ("delta", 50)
    (key,) = plain.keys()
    assert plain.ttl(key) in range(86_000, 86_401)


@pytest.mark.parametrize("name", [*rig.SYNC, *rig.ASYNC])
@pytest.mark.usefixtures("plain")
def test_the_same_on_the_loop(server: Any, name: str) -> None:
    async def converse(client: Any) -> None:
        one, other = estimator(client), estimator(client)
        assert await one.arecord(turn(name, 0), 50)
        assert await one.aflush(PATIENT_SECONDS)
        estimate = await other.aestimate(turn(name, 1))
        assert (estimate.source, estimate.known_tokens) == ("delta", 50)

    async def main() -> None:
        if name in rig.SYNC:
            with rig.sync_client(name, server.port) as client:
                await converse(client)
        else:
            async with rig.async_client(name, server.port) as client:
                await converse(client)

    asyncio.run(main())


@pytest.mark.slow
def test_four_processes_share_ten_thousand_conversations(server: Any, plain: Any) -> None:
    """Every later turn is a delta from what was billed, whichever worker takes it."""
    assert share(server.port) == CONVERSATIONS * TURNS
    assert plain.dbsize() == CONVERSATIONS * TURNS


def test_a_value_opens_under_its_own_key_only(plain: Any) -> None:
    """Garbage, another type, values of other keys, of another secret: all are misses."""
    one = estimator(plain)
    for name in ("blue", "red"):
        one.record(turn(name, 0), 50 if name == "blue" else 70)
    assert one.flush(PATIENT_SECONDS)
    blue, red = plain.keys()
    values = {key: plain.get(key) for key in (blue, red)}
    cold = HybridTokenEstimator(learning=False).estimate(turn("blue", 1))
    bad: list[Any] = [values[blue][:-1], values[blue] + b"A", b"", b"\xff\x00\r\n", b"A" * 10**7]
    bad += [bytes([values[blue][0] ^ 1]) + values[blue][1:]]
    for value in bad:
        plain.set(blue, value)
        plain.set(red, value)
        assert estimator(plain).estimate(turn("blue", 1)) == cold
    plain.set(blue, values[red])
    plain.set(red, values[blue])
    assert estimator(plain).estimate(turn("blue", 1)) == cold
    plain.delete(blue, red)
    plain.lpush(blue, "a list")
    plain.lpush(red, "a list")
    assert estimator(plain).estimate(turn("blue", 1)) == cold
    assert one.record(turn("blue", 0), 50)
    assert one.flush(PATIENT_SECONDS)
    assert estimator(plain).estimate(turn("blue", 1)).known_tokens == 50, "it heals"


def test_a_client_that_decodes_works_too(server: Any, plain: Any) -> None:
    with redis.Redis(port=server.port, decode_responses=True) as client:
        one, other = estimator(client), estimator(plain)
        one.record(turn("blue", 0), 50)
        assert one.flush(PATIENT_SECONDS)
        assert other.estimate(turn("blue", 1)).source == "delta"
        assert estimator(client).estimate(turn("blue", 1)).source == "delta"


def test_one_mget_a_lookup_and_one_set_an_entry(plain: Any) -> None:
    one, other = estimator(plain), estimator(plain)
    plain.config_resetstat()
    one.record(turn("blue", 5), 50, reply={"role": "assistant", "content": "Dust."})
    one.record(turn("red", 5), 60)
    assert one.flush(PATIENT_SECONDS)
    for name in ("blue", "red"):
        other.estimate(turn(name, 6))
    commands = {
        name: row["calls"]
        for name, row in plain.info("commandstats").items()
        if name not in {"cmdstat_config|resetstat", "cmdstat_info"}
    }
    assert commands == {"cmdstat_mget": 2, "cmdstat_set": 2}


def test_nothing_of_a_message_reaches_the_server(plain: Any) -> None:
    one = estimator(plain)
    one.record(turn("canary", 3), 50, reply={"role": "assistant", "content": "canary"})
    assert one.flush(PATIENT_SECONDS)
    keys = plain.keys()
    assert len(keys) == 1
    for key in keys:
        assert re.fullmatch(rb"tcx1:\{[\w-]{8}\}:[\w-]{22}", key)
        assert re.fullmatch(rb"[\w-]{30,92}", plain.get(key))
