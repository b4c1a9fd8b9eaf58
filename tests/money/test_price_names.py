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

LLAMA = "meta-llama/llama-3.3-70b-instruct"
FIREWORKS = "accounts/fireworks/models/deepseek-v3"
SONNET = "anthropic.claude-sonnet-4-5-20250929-v1:0"
US_GOV = f"us-gov.{SONNET}"
NOVA = "amazon.nova-pro-v1:0"
US_NOVA = f"us-gov-west-1/{NOVA}"
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
        ("anthropic/claude-sonnet-4", "our-proxy", "claude-sonnet-4-0"),
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
        ("together_ai/deepseek-ai/DeepSeek-V3.1", None, "together", "deepseek-ai/deepseek-v3.1"),
        ("meta-llama/Llama-3.3-70B-Instruct", "novita-ai", "novita", LLAMA),
        ("perplexity/sonar", "perplexity", "perplexity", "sonar"),
        ("accounts/fireworks/models/deepseek-v3", None, "fireworks", FIREWORKS),
        ("openai/responses/gpt-5.5", None, "openai", "gpt-5.5"),
        ("azure/eu/gpt-4o", None, "azure", "eu/gpt-4o"),
        ("azure/global-standard/gpt-4o", None, "azure", "gpt-4o"),
        ("us.xai.grok-4.6", None, "aws", "us.xai.grok-4.6"),
        (f"bedrock/converse/{SONNET}", None, "aws", SONNET),
        (
            f"arn:aws-us-gov:bedrock:us-gov-west-1:12:inference-profile/{US_GOV}",
            None,
            "aws",
            US_GOV,
        ),
        (f"bedrock/arn:aws:bedrock:us-gov-west-1::foundation-model/{NOVA}", None, "aws", US_NOVA),
    ],
)
def test_a_host_has_its_own_row_in_each_of_its_names(
    model: str, provider: str | None, host: str, row: str
) -> None:
    found = Prices().find(model, provider)
    assert found is not None
    assert (found.provider, found.model) == (host, row)
    assert not found.is_doubtful


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-4o", "our-proxy"),
        ("acme/gpt-4o", None),
        ("github_copilot/gpt-5", None),
        ("x-ai/grok-4", "openrouter"),
        ("azure/jp/gpt-4o", None),
        (f"bedrock/eu-west-1/{SONNET}", None),
        (f"arn:aws:bedrock:eu-west-1::foundation-model/{SONNET}", None),
        ("openai/gpt-4o:online", "openrouter"),
    ],
)
def test_the_price_of_another_host_region_or_service_is_doubtful(
    model: str, provider: str | None
) -> None:
    found = Prices().find(model, provider)
    assert found is not None
    assert found.is_doubtful


@pytest.mark.parametrize(
    "name", ["xai/grok-4", "grok-4", "openai/gpt-4o", "deepseek-ai/deepseek-v3", "zai-org/GLM-4.6"]
)
def test_who_makes_a_model_and_no_host_beside_it_is_no_doubt(name: str) -> None:
    found = Prices().find(name)
    assert found is not None
    assert not found.is_doubtful


def test_each_row_is_found_by_its_own_name_and_host() -> None:
    prices, rows, others = Prices(), read_table("prices")["models"], set()
    for key, row in rows.items():
        host, _, name = key.partition("/")
        newest = row[-1] if isinstance(row, list) else row
        is_doubtful = newest["sources"].endswith("?")
        for model, provider in ((key, None), (name, host)):
            found = prices.find(model, provider)
            if found is None or (host, name, is_doubtful) != (
                found.provider,
                found.model,
                found.is_doubtful,
            ):
                others.add((model, provider))
    # A host's own name before a model's says who answers: these have two rows there.
    assert others == {
        ("perplexity/sonar", "perplexity"),
        ("google/gemma-4-26b-a4b-it-maas", "google"),
    }
    assert len(rows) > 8_000


@pytest.mark.parametrize("variant", ["free", "batch", "extended"])
def test_a_service_behind_a_name_prices_no_name_without_it(variant: str) -> None:
    rows = {f"acme/large:{variant}": {"input": "1", "output": "2"}}
    content = {"updated": "2026-11-20", "models": rows}
    prices = Prices(content, package=None)
    assert prices.find(f"acme/large:{variant}") is not None
    for model, provider in (("acme/large", None), ("large", None), ("large", "acme")):
        assert prices.find(model, provider) is None


def test_names_without_end_are_read_once() -> None:
    """Hours, if any rule reads such a name from each of its places."""
    prices = Prices()
    for piece in (" ", "/", ":", "[x", "(", "arn:", "us.", "-v1", "-20250101", "a/"):
        name = f"a{piece * (400_000 // len(piece))}b"
        assert prices.find(name) is None
        assert prices.find(name, "bedrock") is None


def test_what_is_billed_by_the_hour_has_no_price_by_the_token() -> None:
    for kind in ("provisioned-model/abc123", "application-inference-profile/abc123"):
        assert Prices().find(f"arn:aws:bedrock:us-east-1:123456789012:{kind}") is None
