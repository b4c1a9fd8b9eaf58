"""What gateways feel, beside parsing the same body: the rows of `gateway_rows.py` that are quick.

All rows are measured by `dev.py study gateway_speed`; here they keep their floors.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import orjson
import pytest

import gateway_rows as rows
from conversations import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_benchmark.fixture import BenchmarkFixture

GROUPS: dict[str, tuple[Callable[[], Iterator[rows.Row]], int]] = {
    "known-field-changed": (rows.next_turn, 1),
    "known-spacing-changed": (rows.next_turn, 2),
    "known-dict": (rows.next_turn, 3),
    "known-markers-moved": (rows.markers, 0),
    "known-sdk-objects": (rows.sdk_objects, 0),
    "known-picture": (rows.images, 0),
    "known-picture-dict": (rows.images, 1),
    "record-small": (rows.small_record, 0),
}


@pytest.mark.parametrize("implementation", ["rust", "reference"])
@pytest.mark.parametrize("group", GROUPS)
def test_row(benchmark: BenchmarkFixture, group: str, implementation: str) -> None:
    make, nth = GROUPS[group]
    row = list(make())[nth]
    benchmark.group = group
    work = row.ours if implementation == "rust" else row.theirs
    benchmark.pedantic(work, rounds=60, iterations=row.repeat, warmup_rounds=2)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("implementation", ["rust", "reference"])
def test_record_of_a_body_just_estimated(benchmark: BenchmarkFixture, implementation: str) -> None:
    """Each turn is a new one, so its estimate comes before."""
    made, turns = rows.estimator(), rows.growing()
    made.record(next(turns), rows.KNOWN_TOKENS)

    def estimated() -> tuple[tuple[Any, ...], dict[str, Any]]:
        turn = next(turns)
        made.estimate(turn)
        return (turn,), {}

    benchmark.group = "record-known"
    work = functools.partial(made.record, usage=rows.KNOWN_TOKENS)
    if implementation == "reference":
        work = functools.partial(orjson.loads)
    benchmark.pedantic(work, setup=estimated, rounds=60, warmup_rounds=2)  # type: ignore[no-untyped-call]


def test_growing_conversations_are_bytes() -> None:
    assert next(rows.growing()) == encoded(rows.big())
