"""2,000 chat requests of 0.2 to 4 KB of new text, as lines of JSON, beside orjson and tiktoken.

The peer parses each line and counts each text, and adds nothing for roles, tools or framing. Both
get the same lines, which are new in each round; tokenctx on one thread, and on two.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest

from conversations import encoded, prose
from counters import tiktoken_encoding
from tokenctx import batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

ROWS = 2_000
ROUNDS = itertools.count()


def lines() -> bytes:
    """Requests whose texts no one has seen before."""
    random_ = random.Random(f"batch {next(ROUNDS)}")
    made = []
    for _ in range(ROWS):
        text = prose(random_, random_.randrange(200, 4_000))
        system = {"role": "system", "content": prose(random_, 60)}
        user = {"role": "user", "content": f"{random_.random()} {text}"}
        made.append(encoded({"model": "gpt-4o", "messages": [system, user]}))
    return b"\n".join(made)


def ours(threads: int) -> Callable[[bytes], int]:
    return lambda rows: sum(batch.estimate(rows, threads=threads).tokens.tolist())


def peer() -> Callable[[bytes], int]:
    orjson = pytest.importorskip("orjson", reason="orjson is missing")
    pytest.importorskip("tiktoken", reason="tiktoken is missing")
    encode = tiktoken_encoding("o200k_base").encode_ordinary

    def work(rows: bytes) -> int:
        bodies = map(orjson.loads, rows.split(b"\n"))
        return sum(len(encode(one["content"])) for body in bodies for one in body["messages"])

    return work


@pytest.mark.benchmark(group="batch-estimate")
@pytest.mark.parametrize("implementation", ["tokenctx", "two-threads", "orjson-tiktoken"])
def test_batch(benchmark: BenchmarkFixture, implementation: str) -> None:
    work = {"tokenctx": lambda: ours(1), "two-threads": lambda: ours(2), "orjson-tiktoken": peer}
    count = work[implementation]()
    made = lines()
    framing = ROWS * 11  # two messages of 4, 3 for the answer
    assert ours(1)(made) - framing == pytest.approx(peer()(made), rel=0.01)
    rounds: dict[str, Any] = {"setup": lambda: ((lines(),), {}), "rounds": 7, "warmup_rounds": 1}
    benchmark.pedantic(count, **rounds)  # type: ignore[no-untyped-call]
