"""Counts of texts of which each may be for another model, as engines have them in two columns."""

from __future__ import annotations

from typing import Any, Final

from tokenctx.batch.counts import count

ONE_THREAD: Final = 1
"""An engine calls from each of its own threads, and counting releases the interpreter."""


def counts_by_model(texts: Any, models: list[str | None]) -> list[int | None]:
    """The tokens of each text in the encoding of its model; None where that is not known."""
    known = dict.fromkeys(models)
    if len(known) == 1:
        return _counts_in(texts, models[0])
    rows = texts.to_pylist()
    found: list[int | None] = [None] * len(rows)
    for model in known:
        places = [place for place, it in enumerate(models) if it == model]
        tokens = _counts_in([rows[place] for place in places], model)
        for place, number in zip(places, tokens, strict=True):
            found[place] = number
    return found


def _counts_in(texts: Any, model: str | None) -> list[int | None]:
    if model is None:
        return [None] * len(texts)
    try:
        return count(texts, model=model, threads=ONE_THREAD).tokens.tolist()
    except ValueError:  # of a model that no profile knows
        return [None] * len(texts)
