"""What gateways feel, beside parsing the same body: rows of `gateway_rows.py`, by processor time.

`dev.py study gateway_speed` shows them as ratios; here they keep their floors.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

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
    "known-said-again": (rows.said_again, 0),
    "known-branch": (rows.branches, 0),
    "estimate-caching": (rows.caching, 0),
    "record-caching": (rows.caching, 1),
    "known-sdk-objects": (rows.sdk_objects, 0),
    "known-picture": (rows.images, 0),
    "known-picture-dict": (rows.images, 1),
    "known-later-picture": (rows.images, 2),
    "known-later-picture-dict": (rows.images, 3),
    "known-tool": (rows.tools, 0),
    "unknown-texts": (rows.unknown, 0),
    "first-estimate": (rows.first, 0),
    "record-small": (rows.small_record, 0),
    "record-known": (rows.big_record, 0),
    "interpreter-held": (rows.stalls, 0),
    "count-lines": (functools.partial(rows.lines, 6_000_000), 0),
    **{
        f"{name}-{kind}": (functools.partial(rows.texts_of, kind, 1_000_000), nth)
        for kind in ("english", "code", "json", "messages", "letters")
        for nth, name in ((0, "encode-buffer"), (1, "encode-list"), (3, "count-warm"))
    },
}


class Clock:
    """Goes on by the seconds that a row tells, so that what it prepares is not timed."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        return self._now

    def spend(self, work: rows.Work, repeat: int) -> None:
        self._now += rows.seconds(work, repeat)


CLOCK = Clock()


@pytest.mark.benchmark(timer=CLOCK)
@pytest.mark.parametrize("implementation", ["rust", "reference"])
@pytest.mark.parametrize("group", GROUPS)
def test_row(benchmark: BenchmarkFixture, group: str, implementation: str) -> None:
    make, nth = GROUPS[group]
    made = make()  # kept: a row may need what its generator drops at the end
    row = next(itertools.islice(made, nth, None))
    benchmark.group = group
    work = row.ours if implementation == "rust" else row.theirs
    given = {"work": work, "repeat": row.repeat}
    benchmark.pedantic(CLOCK.spend, kwargs=given, rounds=row.most_rounds, warmup_rounds=1)  # type: ignore[no-untyped-call]


def test_growing_conversations_are_bytes() -> None:
    assert next(rows.growing()) == encoded(rows.big())
