"""Workers beside each other, as whoever scrapes one of them sees them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import HybridTokenEstimator, Metrics

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("prometheus_client")

BODY = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}


def _total(snapshot: Any, name: str = "tokenctx.refused") -> float:
    return sum(float(str(it)) for it in snapshot[name].values())


def test_no_count_falls_whichever_worker_is_scraped(tmp_path: Path) -> None:
    from tokenctx.integrations._processes import Processes

    counted = [Metrics(), Metrics(), Metrics()]
    workers = [Processes(it, tmp_path) for it in counted]
    seen = 0.0
    for nth in range(12):
        counted[nth % 3].count_refused("openai-chat")
        for asked in (workers[nth % 3], workers[(nth + 1) % 3]):
            total = _total(asked.snapshot())
            assert total >= seen
            seen = total
    assert seen == 12


def test_a_worker_with_the_number_of_one_that_died_hides_none_of_its_counts(
    tmp_path: Path,
) -> None:
    pytest.importorskip("redis")
    from tokenctx._cli.workers import Settings, Worker

    settings = Settings(None, None, None, None, tmp_path, 1 << 20, 5.0)
    dead, after = Worker(settings), Worker(settings)
    dead._estimator.metrics.count_refused("openai-chat")
    dead._all.tell()  # type: ignore[union-attr]
    assert _total(after._all.snapshot()) == 1  # type: ignore[union-attr]


WORKER = """
import sys, time
from prometheus_client import CollectorRegistry, generate_latest
from tokenctx import HybridTokenEstimator, Metrics
from tokenctx.integrations.metrics import prometheus

estimator = HybridTokenEstimator(metrics=Metrics())
prometheus(estimator, registry := CollectorRegistry(), folder=sys.argv[1])
for line in sys.stdin:
    if line == "scrape\\n":
        for row in generate_latest(registry).decode().splitlines():
            if row.startswith("tokenctx_estimates_total{"):
                print(row.rpartition(" ")[2], flush=True)
    else:
        for _ in range(int(line)):
            estimator.estimate({"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]})
        print("done", flush=True)
"""


def _worker(folder: Path) -> Any:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", WORKER, str(folder)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)


def _asked(worker: Any, line: str) -> str:
    worker.stdin.write(f"{line}\n")
    worker.stdin.flush()
    told: str = worker.stdout.readline().strip()
    return told


def test_one_scrape_sees_the_workers_of_a_service_of_ones_own(tmp_path: Path) -> None:
    workers = [_worker(tmp_path) for _ in range(3)]
    try:
        assert [_asked(it, "5") for it in workers] == ["done"] * 3
        until = time.monotonic() + 30
        while _asked(workers[0], "scrape") != "15.0":
            assert time.monotonic() < until
        workers[1].send_signal(signal.SIGKILL)
        workers[2].communicate()
        assert workers[2].returncode == 0
        workers.append(_worker(tmp_path))
        assert _asked(workers[3], "2") == "done"
        seen = float(_asked(workers[3], "scrape"))
        assert seen == 17
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
            worker.stdin.close()
            worker.stdout.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_counts_what_it_has_seen_itself(tmp_path: Path) -> None:
    """As workers do that were forked from a process which has counted before them."""
    code = """
import os, sys
from tokenctx import HybridTokenEstimator, Metrics
from tokenctx.integrations._processes import Processes
estimator = HybridTokenEstimator(metrics=Metrics())
processes = Processes(estimator.metrics, sys.argv[1])
body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}
estimator.estimate(body)
for _ in range(3):
    if (child := os.fork()) == 0:
        estimator.estimate(body)
        processes.tell()
        os._exit(0)
    os.waitpid(child, 0)
print(sum(processes.snapshot()["tokenctx.estimates"].values()))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) == 4


def test_a_folder_that_is_none_or_is_full_costs_no_request(tmp_path: Path) -> None:
    from tokenctx.integrations._processes import Processes
    from tokenctx.integrations.metrics import prometheus

    with pytest.raises(NotADirectoryError, match="moon"):
        prometheus(Metrics(), folder=tmp_path / "moon")
    gone = tmp_path / "gone"
    gone.mkdir()
    metrics = Metrics()
    processes = Processes(metrics, gone)
    gone.rmdir()
    HybridTokenEstimator(metrics=metrics).estimate(BODY)
    assert _total(processes.snapshot(), "tokenctx.estimates") == 1
    gone.mkdir()
    (gone / "1.json").write_text("{", "utf-8")
    (gone / "2.json").write_text(json.dumps({"moon": [[[], 1]]}), "utf-8")
    assert _total(processes.snapshot(), "tokenctx.estimates") == 1
