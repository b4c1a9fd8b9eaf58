"""The recipes of engines run, and their totals are those of the loop, nulls in their places."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tokenctx import HybridTokenEstimator, RequestError

pytestmark = pytest.mark.filterwarnings("ignore")  # the engines' own

ROOT = Path(__file__).parents[2]
REQUESTS = [
    json.dumps(json.loads(line)["request"])
    for line in (ROOT / "tests/data/recorded-calls.jsonl").read_text("utf-8").splitlines()
]
BODIES = [None, *REQUESTS, "no request", *REQUESTS, ""]


def recipe(engine: str) -> dict[str, Any]:
    """The names of the block of an engine, once it was run."""
    pytest.importorskip(engine, reason="python3 dev.py clients has it")
    page = (ROOT / "docs/recipes.md").read_text("utf-8")
    blocks = page.split("```python\n")[1:]
    [source] = [
        it.partition("```")[0] for it in blocks if re.search(rf"^import {engine}\b", it, re.M)
    ]
    names: dict[str, Any] = {}
    exec(compile(source, engine, "exec"), names)  # noqa: S102  # of this repository
    return names


def counted(body: str | None) -> int | None:
    """The tokens of a request by itself; None where it cannot be read."""
    try:
        return None if body is None else HybridTokenEstimator().estimate(body).tokens
    except RequestError:
        return None


def loop() -> list[int | None]:
    found = [counted(body) for body in BODIES]
    assert found.count(None) == 3
    return found


def test_polars() -> None:
    pl = recipe("polars")["pl"]
    column = pl.col("body").tokenctx.estimate()
    frame = pl.DataFrame({"body": BODIES})
    assert frame.select(column)["body"].to_list() == loop()
    streamed = frame.lazy().select(column).collect(engine="streaming")
    assert streamed["body"].to_list() == loop()


def test_pandas() -> None:
    names = recipe("pandas")
    found = names["estimated"](names["pd"].Series(BODIES))
    assert [None if it is names["pd"].NA else int(it) for it in found] == loop()


def test_datafusion() -> None:
    context = recipe("datafusion")["context"]
    context.from_pydict({"nth": list(range(len(BODIES))), "body": BODIES}, name="calls")
    table = context.sql("SELECT tokens(body) AS tokens FROM calls ORDER BY nth").to_pydict()
    assert table["tokens"] == loop()


def test_daft() -> None:
    names = recipe("daft")
    daft = names["daft"]
    frame = daft.from_pydict({"body": BODIES})
    found = frame.select(names["tokens"](daft.col("body")).alias("tokens")).to_pydict()
    assert found["tokens"] == loop()


def test_datasets() -> None:
    names = recipe("datasets")
    log = names["datasets"].Dataset.from_dict({"body": BODIES})
    assert log.map(names["counted"], batched=True)["tokens"][:] == loop()


def test_ray() -> None:
    pytest.importorskip("ray", reason="python3 dev.py clients has it").init(
        num_cpus=1, include_dashboard=False, log_to_driver=False
    )
    names = recipe("ray")
    log = names["ray"].data.from_items(
        [{"nth": it, "body": body} for it, body in enumerate(BODIES)]
    )
    counted = log.map_batches(names["with_tokens"], batch_format="pyarrow").take_all()
    names["ray"].shutdown()
    assert [it["tokens"] for it in sorted(counted, key=lambda it: it["nth"])] == loop()
