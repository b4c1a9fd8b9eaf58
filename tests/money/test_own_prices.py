"""A file of one's own: discounts that were agreed on, the schema that editors check it by."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import HybridTokenEstimator
from tokenctx._results.tables import read_table
from tokenctx.money import Prices, prices
from tokenctx.usage import Usage

if TYPE_CHECKING:
    from pathlib import Path

DAY = "2026-11-20"
CONTRACT = {
    "name": "contract",
    "factor": "0.85",
    "models": ["gpt-5*", "GPT-4o"],
    "hosts": ["azure", "openai"],
    "from": "2026-07-01",
    "until": "2027-06-30",
}
OWN: dict[str, Any] = {
    "updated": DAY,
    "models": {"acme-1": {"input": "2", "output": "8", "web_search": "10000"}},
    "discounts": [
        CONTRACT,
        {"factor": "0.5", "models": ["claude-*"], "hosts": ["bedrock"]},
        {"factor": "0", "models": ["acme-1"], "kinds": ["web_search"], "name": "free searches"},
        {"factor": "0.9", "models": ["acme-*"], "name": "never, since another comes first"},
    ],
}
NOON = dt.datetime(2026, 11, 23, 12, tzinfo=dt.timezone.utc)


def total(model: str, provider: str | None = None, at: dt.datetime = NOON) -> Any:
    tokens = Usage(uncached_input_tokens=100_000)
    plain = Prices().cost(tokens, model=model, provider=provider, at=at)
    own = Prices(OWN).cost(tokens, model=model, provider=provider, at=at)
    assert plain is not None
    assert own is not None
    assert plain.total
    assert own.total is not None
    return own.total / plain.total, dict(own.factors)


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-4o", None),
        ("gpt-4o-2024-08-06", "azure"),
        ("azure/gpt-5-mini", None),
        ("GPT-5", "OpenAI"),
        ("gpt-5.6-sol", None),
    ],
)
def test_a_discount_is_a_named_factor(model: str, provider: str | None) -> None:
    assert total(model, provider) == (Decimal("0.85"), {"discount=contract": "0.85"})


@pytest.mark.parametrize(
    ("model", "provider"),
    [("gpt-5-mini", "openrouter"), ("gpt-4o-mini", None), ("claude-sonnet-4-5", "anthropic")],
)
def test_a_discount_holds_for_nobody_else(model: str, provider: str | None) -> None:
    assert total(model, provider) == (1, {})


def test_a_host_has_a_discount_in_each_of_its_names() -> None:
    for name in ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock/claude-sonnet-4-5"):
        assert total(name) == (Decimal("0.5"), {"discount=own": "0.5"})
    assert total("claude-sonnet-4-5", "aws")[0] == Decimal("0.5")


def test_a_discount_has_its_first_and_its_last_day() -> None:
    days = {"2026-06-30": 1, "2026-07-01": Decimal("0.85"), "2027-06-30": Decimal("0.85")}
    for day, factor in (days | {"2027-07-01": 1}).items():
        assert total("gpt-4o", at=dt.datetime.fromisoformat(day + "T12:00:00"))[0] == factor


def test_a_discount_changes_its_kinds_alone() -> None:
    cost = Prices(OWN).cost(
        Usage(uncached_input_tokens=10**6, web_search_requests=2), model="acme-1"
    )
    assert cost is not None
    assert cost.total == 2
    assert cost.factors == {"discount=free searches": "0"}
    by_tokens = Prices({**OWN, "discounts": [{"factor": "0.9"}]}).cost(
        Usage(uncached_input_tokens=10**6, web_search_requests=2), model="acme-1"
    )
    assert by_tokens is not None
    assert by_tokens.total == Decimal("1.8") + Decimal("0.02")


def test_a_discount_stands_beside_other_factors_and_tiers() -> None:
    usage = Usage(uncached_input_tokens=300_000, service_tier="batch")
    plain = usage.cost("gpt-5.5")
    own = usage.cost("gpt-5.5", prices=Prices({"updated": DAY, "discounts": [CONTRACT]}))
    assert plain is not None
    assert own is not None
    assert plain.total
    assert own.total == plain.total * Decimal("0.85")
    assert own.factors == {**plain.factors, "discount=contract": "0.85"}
    assert own.next_tier_factor == plain.next_tier_factor


def test_a_cost_that_is_billed_has_no_discount() -> None:
    usage = Usage(uncached_input_tokens=100, reported_cost=Decimal("0.0123"))
    cost = Prices(OWN).cost(usage, model="gpt-4o")
    assert cost is not None
    assert cost.total == Decimal("0.0123")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Prices:
    monkeypatch.setattr(prices, "_INSTALLED", [])
    return Prices(OWN)


def test_prices_that_are_installed_are_those_of_each_cost(installed: Prices) -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}
    estimate = HybridTokenEstimator().estimate(body)
    assert estimate.cost is not None
    assert estimate.cost.factors == {}
    installed.install()
    assert estimate.cost.factors == {"discount=contract": "0.85"}
    cost = Usage(output_tokens=5).cost("gpt-4o")
    assert cost is not None
    assert cost.factors == {"discount=contract": "0.85"}


WRONG: list[tuple[Any, str]] = [
    ({}, r"discounts is a dict"),
    ([1], r"discounts\[0\] is a int"),
    ([{}], r"discounts\[0\]\.factor is None"),
    ([{"factor": 0.5}], r"discounts\[0\]\.factor is 0\.5"),
    ([{"factor": "-1"}], r"discounts\[0\]\.factor is '-1'"),
    ([{"factor": "1", "model": ["m"]}], r"discounts\[0\] has 'model'; the fields are name"),
    ([{"factor": "1", "models": "m"}], r"discounts\[0\]\.models is 'm'; it must be a list"),
    ([{"factor": "1", "models": []}], r"discounts\[0\]\.models is \[\]"),
    ([{"factor": "1", "hosts": [5]}], r"discounts\[0\]\.hosts is \[5\]"),
    ([{"factor": "1", "kinds": ["tokens"]}], r"discounts\[0\]\.kinds has 'tokens'"),
    ([{"factor": "1", "name": ""}], r"discounts\[0\]\.name is ''"),
    ([{"factor": "1", "from": "July"}], r"discounts\[0\]\.from is 'July'; write a day"),
    ([{"factor": "1", "until": 2026}], r"discounts\[0\]\.until is 2026; write a day"),
]


@pytest.mark.parametrize(("discounts", "error"), WRONG)
def test_what_is_wrong_in_a_discount_is_named(discounts: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Prices({"updated": DAY, "discounts": discounts})


def test_a_field_that_a_file_does_not_have_is_named() -> None:
    with pytest.raises(ValueError, match="prices have 'discount'; the fields are"):
        Prices({"updated": DAY, "models": {}, "discount": []})


# ---------------------------------------------------------------------------- the schema


def faults(content: Any) -> list[str]:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(read_table("prices.schema"))
    return [fault.message for fault in validator.iter_errors(content)]


def test_the_schema_is_one_and_takes_what_prices_take(tmp_path: Path) -> None:
    pytest.importorskip("jsonschema").Draft202012Validator.check_schema(read_table("prices.schema"))
    period = {"input": ["1", [1_000, "3"]], "from": "2026-10-01", "between": ["22:00", "02:00"]}
    words = {"service_tier": {"flex": "0.5", "priority": {"input": "5"}}, "speed": {"fast": 2}}
    whole = {**OWN, "$schema": "prices.schema.json", "models": {"m": [period, {"output": 0.25}]}}
    for content in (OWN, whole, {"updated": DAY, "models": {"m": {"input": "1", **words}}}):
        assert faults(content) == []
        path = tmp_path / "prices.json"
        path.write_text(json.dumps(content), "utf-8")
        Prices(path)


def test_the_table_of_the_package_is_as_the_schema_says() -> None:
    assert faults(read_table("prices")) == []


WRONG_ROWS: tuple[Any, ...] = (
    *(1, [], {"cost": "1"}, {"input": "-1"}, {"input": "NaN"}, {"input": True}),
    *({"input": ["1", ["2"]]}, {"input": "1", "from": "now"}),
    *({"input": "1", "between": ["1"]}, {"input": "1", "speed": "2"}),
    {"input": "1", "speed": {"fast": {"tokens": "1"}}},
)


@pytest.mark.parametrize(
    "content",
    [
        {"updated": DAY},
        {"models": {}},
        {"updated": "yesterday", "models": {}},
        {"updated": DAY, "models": {}, "discount": []},
        *({"updated": DAY, "discounts": one} for one, _ in WRONG if one != [{"factor": 0.5}]),
        *({"updated": DAY, "models": {"m": row}} for row in WRONG_ROWS),
    ],
)
def test_what_prices_refuse_the_schema_refuses(content: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        Prices(content)
    assert faults(content)
