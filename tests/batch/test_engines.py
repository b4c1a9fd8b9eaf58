"""DuckDB, Spark and pyarrow itself: the totals of the loop, nulls in their places."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import HybridTokenEstimator, RequestError, batch, count_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore")  # the engines' own

DATA = Path(__file__).parents[1] / "data"
TEXTS = ["hello world", None, "", "a b c " * 50, "naïve 🙂"]
HI = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]})


@pytest.fixture(scope="module")
def arrow() -> Any:
    return pytest.importorskip("pyarrow", reason="python3 dev.py clients has it")


@pytest.fixture(scope="module")
def duck() -> Any:
    duckdb = pytest.importorskip("duckdb", reason="python3 dev.py clients has it")
    connection = duckdb.connect()
    batch.duckdb.register(connection)
    return connection


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="python3 dev.py clients has it")
    folder = str(tmp_path_factory.mktemp("spark"))
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": folder,
    }
    environment = pytest.MonkeyPatch()
    environment.setenv("PYSPARK_PYTHON", sys.executable)  # of the workers
    builder = sql.SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
    environment.undo()


def requests() -> list[str | None]:
    """The recorded requests as JSON text, among them a null and two that cannot be read."""
    lines = (DATA / "recorded-calls.jsonl").read_text("utf-8").splitlines()
    bodies: list[str | None] = [json.dumps(json.loads(line)["request"]) for line in lines]
    return [*bodies[:3], None, "{", *bodies[3:], ""]


def looped(bodies: list[str | None]) -> list[tuple[int | None, str | None]]:
    estimator = HybridTokenEstimator()

    def row(body: str | None) -> tuple[int | None, str | None]:
        if body is None:
            return None, "null"
        try:
            return estimator.estimate(body).tokens, None
        except RequestError as error:
            return None, error.code

    return [row(body) for body in bodies]


@pytest.mark.parametrize(
    "kind", ["string", "large_string", "string_view", "binary", "large_binary", "binary_view"]
)
def test_every_type_of_text_and_bytes_is_read(arrow: Any, kind: str) -> None:
    values = TEXTS if "string" in kind else [it and it.encode() for it in TEXTS]
    column = arrow.array(values, getattr(arrow, kind)())
    expected = [None if it is None else count_tokens(it) for it in TEXTS]
    assert batch.count(column).tokens.tolist() == expected
    assert batch.count(column.slice(1, 3)).tokens.tolist() == expected[1:4]
    chunks = arrow.chunked_array([column, column.slice(2)])
    assert batch.count(chunks).tokens.tolist() == expected + expected[2:]


def test_dictionaries_and_columns_of_nulls_are_read(arrow: Any) -> None:
    expected = batch.count(TEXTS).tokens.tolist()
    column = arrow.array(TEXTS).dictionary_encode()
    assert batch.count(column).tokens.tolist() == expected
    assert batch.count(arrow.chunked_array([column, column])).tokens.tolist() == expected * 2
    empty = arrow.array([None, None], arrow.string())
    for nulls in (empty, empty.dictionary_encode(), arrow.nulls(2)):
        assert batch.count(nulls).reason.tolist() == ["null", "null"]
    assert len(batch.count(arrow.array([], arrow.string()))) == 0


def test_tables_and_numbers_are_refused_by_name(arrow: Any) -> None:
    with pytest.raises(TypeError, match=r"Table is a table .* fields body; pass one column"):
        batch.estimate(arrow.table({"body": [HI]}))
    with pytest.raises(TypeError, match="column of Int64"):
        batch.estimate(arrow.array([1]))


def test_results_are_taken_by_arrow_and_numpy(arrow: Any) -> None:
    numpy = pytest.importorskip("numpy")
    found = batch.estimate([HI, None])
    assert arrow.array(found.tokens).to_pylist() == [8, None]
    assert arrow.record_batch(found).to_pylist() == found.tolist()
    assert numpy.isnan(numpy.asarray(found.tokens)).tolist() == [False, True]
    assert numpy.asarray(batch.estimate([HI]).tokens).dtype == "int64"


def test_duckdb_counts_what_the_loop_counts(duck: Any) -> None:
    bodies = requests()
    duck.execute("CREATE OR REPLACE TABLE log (row INTEGER, body VARCHAR)")
    duck.executemany("INSERT INTO log VALUES (?, ?)", list(enumerate(bodies)))
    query = "SELECT e.tokens, e.reason FROM (SELECT row, estimate_tokens(body) AS e FROM log)"
    assert duck.execute(f"{query} ORDER BY row").fetchall() == looped(bodies)


def test_duckdb_counts_texts_of_several_models(duck: Any) -> None:
    query = """SELECT count_tokens(text, model) FROM (VALUES
        ('hello world', 'gpt-4o'), ('hello world', 'gpt-4'), (NULL, 'gpt-4o'),
        ('a', 'nobody-knows-it'), ('a', NULL)) AS t(text, model)"""
    assert duck.execute(query).fetchall() == [(2,), (2,), (None,), (None,), (None,)]
    total = "SELECT sum(count_tokens('hello ' || i, 'gpt-4o')) FROM range(20000) AS t(i)"
    expected = batch.count([f"hello {it}" for it in range(20000)]).tokens.sum()
    assert duck.execute(total).fetchall() == [(expected,)]


def test_duckdb_adds_up_what_calls_cost(duck: Any) -> None:
    usage = json.dumps({"prompt_tokens": 1000, "completion_tokens": 10})
    query = """SELECT llm_cost(?, 'gpt-4o', TIMESTAMP '2026-11-01'), llm_cost(?, 'nobody', NULL),
        llm_cost(NULL, 'gpt-4o', NULL), llm_cost('{', 'gpt-4o', NULL)"""
    [row] = duck.execute(query, [usage, usage]).fetchall()
    assert [None if it is None else float(it) for it in row] == [0.0026, None, None, None]


def test_spark_counts_what_the_loop_counts(spark: Any) -> None:
    """In two workers; the frame keeps its columns, and nothing has to be pickled."""
    bodies = requests()
    frame = spark.createDataFrame(list(enumerate(bodies)), "row int, body string").repartition(2)
    found = batch.spark.with_estimates(frame, "body").orderBy("row").collect()
    rows = [(it["estimated_tokens"], it["estimated_reason"]) for it in found]
    assert rows == looped(bodies)
    assert [it["body"] for it in found] == bodies
    with pytest.raises(ValueError, match="no column is called 'text'; the frame has row, body"):
        batch.spark.with_estimates(frame, "text")
    with pytest.raises(ValueError, match="has 'estimated_tokens' already"):
        batch.spark.with_estimates(batch.spark.with_estimates(frame, "body"), "body")


def test_spark_counts_texts_of_several_models(spark: Any) -> None:
    rows = [("hello world", "gpt-4o"), (None, "gpt-4"), ("a", "nobody-knows-it")]
    frame = spark.createDataFrame(rows, "text string, model string")
    counted = frame.select(batch.spark.count_tokens("text", "model").alias("n")).collect()
    assert [it["n"] for it in counted] == [2, None, None]
