"""The load generator: equal options make equal requests, whoever takes them."""

from __future__ import annotations

import argparse
import json

import pytest

from gateway_load import EDITS, Report, requests, run_worker, summary


def options(workers: int, routing: str = "sticky") -> argparse.Namespace:
    return argparse.Namespace(
        requests=300,
        conversations=20,
        turns=15,
        workers=workers,
        routing=routing,
        capacity_mib=1,
        ttl_seconds=86_400.0,
        sessions=None,
        seed=3,
    )


@pytest.mark.slow
def test_equal_options_make_equal_requests() -> None:
    one, other = list(requests(options(1))), list(requests(options(3)))
    assert [request for _, request in one] == [request for _, request in other]
    assert {worker for worker, _ in other} == {0, 1, 2}
    assert {request.edit for _, request in one} == set(EDITS)
    times = [request.now_seconds for _, request in one]
    assert times == sorted(times)


@pytest.mark.slow
def test_every_request_is_counted_once() -> None:
    reports = [run_worker(options(2), worker) for worker in range(2)]
    found = summary(reports, 1.0)
    kinds = [count for row in found["hit_kinds"].values() for count in row.values()]
    assert sum(kinds) == found["requests"] == 300
    assert json.loads(json.dumps(found)) == found


@pytest.mark.slow
def test_a_conversation_that_stays_with_its_worker_is_known_whoever_else_works() -> None:
    """Only one that moves between workers is counted anew."""

    def known(reports: list[Report]) -> int:
        rows = summary(reports, 1.0)["hit_kinds"].values()
        return sum(sum(row.values()) - row["estimated"] for row in rows)

    alone = known([run_worker(options(1), 0)])
    sticky = known([run_worker(options(2), worker) for worker in range(2)])
    moving = known([run_worker(options(2, "random"), worker) for worker in range(2)])
    assert alone == sticky > moving
