"""The workers of `tokenctx serve` beside each other, as whoever scrapes one of them sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("prometheus_client")
pytest.importorskip("redis")


def test_no_count_falls_whichever_worker_is_scraped(tmp_path: Path) -> None:
    from tokenctx._cli.workers import Settings, Worker

    settings = Settings(None, None, None, None, tmp_path, 1 << 20, 5.0)
    workers = [Worker(settings), Worker(settings), Worker(settings)]
    seen = 0.0
    for nth in range(12):
        workers[nth % 3]._metrics.count_refused("openai-chat")
        for asked in (workers[nth % 3], workers[(nth + 1) % 3]):
            total = sum(float(str(it)) for it in asked.snapshot()["tokenctx.refused"].values())
            assert total >= seen
            seen = total
    assert seen == 12


def test_a_worker_with_the_number_of_one_that_died_hides_none_of_its_counts(
    tmp_path: Path,
) -> None:
    from tokenctx._cli.workers import Settings, Worker

    settings = Settings(None, None, None, None, tmp_path, 1 << 20, 5.0)
    dead = Worker(settings)
    dead._metrics.count_refused("openai-chat")
    dead._tell()
    after = Worker(settings)
    after._tell()
    assert list(after.snapshot()["tokenctx.refused"].values()) == [1]
