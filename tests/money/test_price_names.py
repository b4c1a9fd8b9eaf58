"""A model has one price under all its names: those of hosts, dates, variants, and your own."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx._results.tables import read_table
from tokenctx.money import Prices
from tokenctx.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

MILLION = Usage(uncached_input_tokens=10**6)


def names_in(clause: Any) -> Iterator[str]:
    """The names that a rule of genai-prices is equal to, where one of several is enough."""
    if text := getattr(clause, "equals", None):
        yield text
    for one in getattr(clause, "or_", ()):
        yield from names_in(one)


def test_every_name_that_genai_prices_knows_has_a_price() -> None:
    pytest.importorskip("genai_prices")
    from genai_prices import data

    rows, prices = read_table("prices")["models"], Prices()
    missing, seen = [], 0
    for provider in data.providers:
        for model in provider.models:
            if f"{provider.id}/{model.id}".lower() not in rows:
                continue
            for name in names_in(model.match):
                seen += 1
                if prices.find(name, provider.id) is None:
                    missing.append((provider.id, name))
    assert missing == []
    assert seen > 2_000


@pytest.mark.parametrize(
    ("model", "provider", "as_is"),
    [
        ("claude-opus-4", None, "claude-opus-4-0"),
        ("claude-sonnet-4-20250514", None, "claude-sonnet-4-0"),
        ("anthropic/claude-sonnet-4", "vercel", "claude-sonnet-4-0"),
        ("anthropic/claude-4.5-sonnet-20250929", "openrouter", "anthropic/claude-sonnet-4.5"),
        ("deepseek/deepseek-r1:nitro", "openrouter", "deepseek/deepseek-r1"),
        ("grok-3-mini-high", "xai", "grok-3-mini"),
    ],
)
def test_other_names_have_the_price_of_their_row(
    model: str, provider: str | None, as_is: str
) -> None:
    found, row = (Prices().find(name, provider) for name in (model, as_is))
    assert found is not None
    assert row is not None
    assert found.rates == row.rates


def test_your_rows_have_other_names_too() -> None:
    rows = {"acme/Large": {"input": "3", "output": "9"}}
    prices = Prices(
        {"updated": "2026-11-20", "models": rows, "names": {"Fast": "acme/large"}}, package=None
    )
    cost = prices.cost(MILLION, model="fast")
    assert cost is not None
    assert (cost.total, cost.source) == (Decimal(3), "caller")


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ({"fast": "nobody"}, "names.fast is 'nobody'; it must be a name in `models`"),
        ({"fast": 5}, "names.fast is 5"),
        (["fast"], "names is a list; it must be an object"),
    ],
)
def test_a_name_without_a_row_is_refused(names: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Prices({"updated": "2026-11-20", "models": {}, "names": names})


@pytest.mark.parametrize(
    ("model", "provider", "host", "row"),
    [
        ("claude-sonnet-4-5", "vertex_ai", "google", "claude-sonnet-4-5"),
        ("gpt-4o", "azure_openai", "azure", "gpt-4o"),
        ("claude-opus-4-1", "bedrock", "aws", "claude-opus-4-1-20250805"),
        (
            "together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo",
            None,
            "together",
            "meta-llama/llama-3.3-70b-instruct-turbo",
        ),
    ],
)
def test_a_host_has_its_own_row_in_each_of_its_names(
    model: str, provider: str | None, host: str, row: str
) -> None:
    found = Prices().find(model, provider)
    assert found is not None
    assert (found.provider, found.model) == (host, row)
    assert not found.is_doubtful


def test_the_price_of_another_host_is_doubtful() -> None:
    for model, provider in (
        ("grok-4", "azure_ai"),
        ("gpt-4o", "our-proxy"),
        ("azure/grok-4", None),
    ):
        found = Prices().find(model, provider)
        assert found is not None
        assert found.is_doubtful
    for name in ("xai/grok-4", "grok-4", "openai/gpt-4o", "deepseek-ai/deepseek-v3"):
        found = Prices().find(name)
        assert found is not None
        assert not found.is_doubtful
