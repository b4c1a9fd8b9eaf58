"""Tokens of many rows: of requests, of texts, and of the log that requests make together."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from tokenctx._core import CallContext, _count_batch, _estimate_batch, _unique_batch
from tokenctx.batch.table import Table

if TYPE_CHECKING:
    from tokenctx._core import Column
    from tokenctx._results.estimates import Dialect, EncodingName

_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Estimates(Table):
    """Input tokens of requests, a row each; nothing is known of calls before.

    Attributes:
        tokens: Input tokens.
        low: Lower bound.
        high: Upper bound.
        requested_output_tokens: The most output that the request asks for; null if it does not.
        quality: `exact`, `calibrated` or `heuristic`.
        dialect: The format of the request.
        model: The model that it names, or the one that the caller names.
        profile: The profile that it is counted with.
        assumptions: The names of all guesses, joined by commas; empty without one.
    """

    tokens: Column
    low: Column
    high: Column
    requested_output_tokens: Column
    quality: Column
    dialect: Column
    model: Column
    profile: Column
    assumptions: Column


@dataclass(frozen=True, slots=True)
class Counts(Table):
    """Tokens, a row each.

    Attributes:
        tokens: Tokens of the row.
    """

    tokens: Column


def estimate(
    bodies: object,
    *,
    model: str | None = None,
    dialect: Dialect | None = None,
    provider: str | None = None,
    method: Literal["profile", "universal"] = "profile",
    threads: int | None = None,
) -> Estimates:
    """The input tokens of each request, as `HybridTokenEstimator().estimate` tells them.

    `bodies` are rows of any kind that one estimate takes, JSON lines in one buffer (blank lines are
    no rows), or a column of text or bytes with `__arrow_c_stream__` or `__arrow_c_array__`, from
    which nothing is copied. An iterator is read a block at a time. `model`, `dialect` and
    `provider` hold for all rows. The rows are split over `threads`, by default one a core, while
    the interpreter is released. Raises TypeError for what has no rows or is a table, ValueError
    for no threads; a row that cannot be read is null, with its `reason`.
    """
    call = CallContext(model, dialect, provider)
    (tokens, low, high, output), words, reason = _estimate_batch(
        _secret(), bodies, call, threads, method=method
    )
    return Estimates(reason, tokens, low, high, output, *words)


def count(
    texts: object,
    *,
    encoding: EncodingName | None = None,
    model: str | None = None,
    threads: int | None = None,
) -> Counts:
    """The tokens of each text, as `count_tokens` counts them; by default with o200k_base.

    `texts` are `str` or bytes, or a column of Arrow; `threads` and errors are those of `estimate`.
    """
    if encoding is not None and model is not None:
        raise ValueError(
            "encoding and model are given; a model has an encoding: leave one of them out"
        )
    tokens, reason = _count_batch(texts, encoding, model, threads)
    return Counts(reason, tokens)


def unique(
    bodies: object,
    *,
    model: str | None = None,
    dialect: Dialect | None = None,
    provider: str | None = None,
    threads: int | None = None,
) -> Counts:
    """The tokens of each request that no request before it in `bodies` had as its beginning.

    Their sum is the text that the log has seen; what was sent again is counted once. The order of
    the rows is the order of time. 16 bytes are kept for each new message, as a keyed digest.
    Arguments and errors are those of `estimate`.
    """
    call = CallContext(model, dialect, provider)
    tokens, reason = _unique_batch(_secret(), bodies, call, threads)
    return Counts(reason, tokens)


@cache
def _secret() -> bytes:
    """One of this process: nothing of a batch can be found in another."""
    return os.urandom(_SECRET_BYTES)
