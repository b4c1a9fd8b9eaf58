"""Functions for Spark: estimates beside the columns of a frame, and counts as a column."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.front import own_names
from tokenctx.batch.by_model import ONE_THREAD, counts_by_model
from tokenctx.batch.counts import estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame

_KINDS: Final = {
    **dict.fromkeys(("tokens", "low", "high", "requested_output_tokens"), "long"),
    **dict.fromkeys(("quality", "dialect", "model", "profile", "assumptions", "reason"), "string"),
}


def with_estimates(
    frame: DataFrame, column: str, *, model: str | None = None, prefix: str = "estimated_"
) -> DataFrame:
    """`frame` with the columns of `Estimates` for the requests in `column`, named behind `prefix`.

    By `mapInArrow`: a row keeps its place, one that cannot be read has nulls and
    `estimated_reason`. Workers import this package by themselves, once each; nothing is pickled but
    names. Needs pyspark, pandas and pyarrow, as `mapInArrow` does. Raises ValueError for a column
    that is not there, or names that are there already.
    """
    if column not in frame.columns:
        raise ValueError(
            f"no column is called {column!r}; the frame has {', '.join(frame.columns)}"
        )
    taken = [name for name in frame.columns if name in {prefix + it for it in _KINDS}]
    if taken:
        raise ValueError(f"the frame has {taken[0]!r} already; give another prefix")
    from pyspark.sql.types import StructType

    schema = StructType(list(frame.schema.fields))  # its own is kept by the frame
    for name, kind in _KINDS.items():
        schema = schema.add(prefix + name, kind)
    return frame.mapInArrow(partial(_estimated, column, model, prefix), schema)


def count_tokens(text: Column | str, model: Column | str) -> Column:
    """The tokens of the column `text` in the encoding of the model in the column `model`.

    A text is null for null, and for a model whose encoding is not known. For one model for all rows
    give `lit("gpt-4o")`.
    """
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf

    def counts(texts: Any, models: Any) -> Any:
        return _counts(texts, models)

    # Spark tells by the annotations what a function gets.
    counts.__annotations__ = dict.fromkeys(("texts", "models", "return"), pa.Array)
    found: Column = arrow_udf(counts, "bigint")(text, model)
    return found


def _estimated(
    column: str, model: str | None, prefix: str, batches: Iterable[Any]
) -> Iterator[Any]:
    import pyarrow as pa

    for rows in batches:
        found = estimate(rows.column(column), model=model, threads=ONE_THREAD)
        arrays = [pa.array(it) for it in found.columns.values()]
        names = [prefix + name for name in found.columns]
        yield pa.RecordBatch.from_arrays([*rows.columns, *arrays], [*rows.schema.names, *names])


def _counts(texts: Any, models: Any) -> Any:
    import pyarrow as pa

    return pa.array(counts_by_model(texts, models.to_pylist()), pa.int64())


__all__, __dir__ = own_names(globals())
