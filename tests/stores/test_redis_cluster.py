"""Promises of RedisPrefixStore with a cluster of three nodes."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest

import redis_rig as rig
from redis_worker import CONVERSATIONS, SECRET, TURNS, billed, conversation, share
from tokenctx import HybridTokenEstimator, RedisPrefixStore
from tokenctx.money.budgets import Budget, Budgets, RedisBudgetStore
from tokenctx.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("redis")

LOOKUPS = 60


@pytest.fixture(scope="module", params=["redis", "valkey"])
def nodes(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[list[rig.Server]]:
    program = rig.require(request.param)
    with rig.cluster(program, tmp_path_factory.mktemp("cluster")) as running:
        yield running


def calls(node: rig.Server, command: str) -> int:
    """How often the node was called with `command`, refused ones included."""
    with rig.sync_client("redis", node.port) as client:
        return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


def estimator(client: Any) -> HybridTokenEstimator:
    store = RedisPrefixStore(client, deadline_seconds=5)
    return HybridTokenEstimator(secret=SECRET, shared=store, learning=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*rig.SYNC, *rig.ASYNC])
def test_a_lookup_is_one_mget_of_one_slot(nodes: list[rig.Server], name: str) -> None:
    async def converse(client: Any) -> None:
        one, other = estimator(client), estimator(client)
        for index in range(LOOKUPS):
            await one.arecord(conversation(index, 5), billed(index, 5))
        assert await one.aflush(10)
        before = [calls(node, "mget") for node in nodes]
        for index in range(LOOKUPS):
            estimate = await other.aestimate(conversation(index, 6))
            assert (estimate.source, estimate.known_tokens) == ("delta", billed(index, 5))
        made = [calls(node, "mget") - count for node, count in zip(nodes, before, strict=True)]
        assert sum(made) == LOOKUPS
        assert min(made) > 0, "the conversations are on all nodes"

    async def main() -> None:
        port = nodes[0].port
        if name in rig.SYNC:
            with rig.sync_client(name, port, is_cluster=True) as client:
                await converse(client)
        else:
            async with rig.async_client(name, port, is_cluster=True) as client:
                await converse(client)

    for node in nodes:
        node.said(b"FLUSHALL\r\n")
    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("nodes", ["redis"], indirect=True)
def test_four_processes_share_ten_thousand_conversations(nodes: list[rig.Server]) -> None:
    for node in nodes:
        node.said(b"FLUSHALL\r\n")
    assert share(nodes[0].port, "RedisCluster") == CONVERSATIONS * TURNS


@pytest.mark.parametrize("name", ["redis", "redis.asyncio"])
def test_budgets_of_a_cluster_are_one_script_on_one_node(
    nodes: list[rig.Server], name: str
) -> None:
    budgets = [Budget(key, tokens=100_000, per="day", by="tenant") for key in ("one", "two")]
    estimate = HybridTokenEstimator().estimate(conversation(0, 1))

    async def book(client: Any) -> dict[str, int]:
        kept = Budgets(budgets, store=RedisBudgetStore(client, prefix=f"cluster {name}"))
        found = client.ping()  # to connect takes longer than a step is waited for
        if inspect.isawaitable(found):
            await found
        for nth in range(LOOKUPS):
            reservation = await kept.areserve(estimate, {"tenant": f"tenant {nth}"})
            await reservation.asettle(Usage(uncached_input_tokens=9))
        return kept.stats()

    async def main() -> None:
        before = [calls(node, "evalsha") + calls(node, "eval") for node in nodes]
        port = nodes[0].port
        if name in rig.SYNC:
            with rig.sync_client(name, port, is_cluster=True) as client:
                stats = await book(client)
        else:
            async with rig.async_client(name, port, is_cluster=True) as client:
                stats = await book(client)
        assert stats == {"granted": LOOKUPS, "settled": LOOKUPS}
        now = [calls(node, "evalsha") + calls(node, "eval") for node in nodes]
        made = sorted(after - count for after, count in zip(now, before, strict=True))
        assert made[:2] == [0, 0], "all keys are on one node"
        assert 2 * LOOKUPS <= made[2] <= 2 * LOOKUPS + 3, "one call a step"

    asyncio.run(main())
