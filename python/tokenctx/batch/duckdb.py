"""Functions for DuckDB's SQL: `count_tokens`, `estimate_tokens`, `llm_cost`."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.front import own_names
from tokenctx.batch.by_model import ONE_THREAD, counts_by_model
from tokenctx.batch.costs import cost
from tokenctx.batch.counts import estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb as engine

_ESTIMATE: Final = {
    **dict.fromkeys(("tokens", "low", "high", "requested_output_tokens"), "BIGINT"),
    **dict.fromkeys(("quality", "dialect", "model", "profile", "assumptions"), "VARCHAR"),
    "reason": "VARCHAR",
}
_DOLLARS: Final = "DECIMAL(18, 9)"


def register(connection: engine.DuckDBPyConnection) -> None:
    """Give `connection` three functions for its SQL; needs the packages duckdb and pyarrow.

    `count_tokens(text, model)` is BIGINT: null for a null text, and for a model whose encoding is
    not known. `estimate_tokens(body)` is a STRUCT of the columns of `Estimates`: `tokens`, `low`,
    `high` and others, all null with a `reason` for a body that cannot be read. `llm_cost(usage,
    model, at)` is DECIMAL(18, 9) dollars for a usage as JSON text at a TIMESTAMP in UTC: null where
    there is no usage or no price, never 0 for it. Raises ImportError without the packages.
    """
    struct = connection.struct_type(_ESTIMATE)
    text = "VARCHAR"
    for name, function, takes, gives in (
        ("count_tokens", _counts, [text, text], "BIGINT"),
        ("estimate_tokens", _estimates, [text], struct),
        ("llm_cost", _costs, [text, text, "TIMESTAMP"], _DOLLARS),
    ):
        _create(connection, name, function, takes, gives)


def _create(
    connection: Any, name: str, function: Callable[..., Any], takes: list[str], gives: Any
) -> None:
    # Nulls come in, so that a row's reason can be told and each row keeps its place.
    connection.create_function(name, function, takes, gives, type="arrow", null_handling="special")


def _counts(texts: Any, models: Any) -> Any:
    import pyarrow as pa

    return pa.array(counts_by_model(texts, models.to_pylist()), pa.int64())


def _estimates(bodies: Any) -> Any:
    import pyarrow as pa

    return pa.array(estimate(bodies, threads=ONE_THREAD))


def _costs(usages: Any, models: Any, at: Any) -> Any:
    import pyarrow as pa

    found = cost(usages.to_pylist(), models.to_pylist(), at=at.to_pylist()).nano_dollars
    dollars = [None if it is None else Decimal(it).scaleb(-9) for it in found]
    return pa.array(dollars, pa.decimal128(18, 9))


__all__, __dir__ = own_names(globals())
