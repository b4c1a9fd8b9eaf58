"""What a call costs: beside genai-prices, tiers, files of the user, what nobody knows; routing."""

from __future__ import annotations

import datetime as dt
import functools
import json
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx import Estimate, HybridTokenEstimator
from tokenctx._results.cost import AT
from tokenctx._results.tables import read_table as read_table_anew
from tokenctx.money import Prices, routing
from tokenctx.money.prices import genai_row
from tokenctx.usage import Usage

if TYPE_CHECKING:
    from pathlib import Path

OWN: dict[str, Any] = {
    "updated": "2026-11-20",
    "models": {
        "acme-1": {
            "input": ["1", [1_000, "3"]],
            "cache_read": "0.1",
            "cache_write": "1.25",
            "cache_write_1h": "2",
            "output": ["4", [1_000, "8"]],
        },
        "acme-2": [
            {"input": "2", "output": "2"},
            {"input": "1", "output": "1", "from": "2026-10-01"},
            {"input": "5", "output": "5", "between": ["22:00", "02:00"]},
        ],
        "azure/acme-1": {"input": "7", "output": "7", "request": "1000000"},
        "no-output": {"input": "1"},
    },
}
read_table = functools.cache(read_table_anew)
NOON = dt.datetime(2026, 11, 23, 12, tzinfo=dt.timezone.utc)


def estimate(model: str = "acme-1", **body: Any) -> Estimate:
    body.setdefault("messages", [{"role": "user", "content": "How long is a day?"}])
    return HybridTokenEstimator().estimate({"model": model, **body})


def usages(count: int, models: list[Any]) -> Any:
    """Usages of models at random, with tokens of all kinds, many of them near a tier."""
    chance = random.Random(11)
    for _ in range(count):
        model = chance.choice(models)
        sizes = (0, 1, chance.randrange(1_000), chance.randrange(400_000), 200_000, 272_000)
        read, write, uncached, output = (chance.choice(sizes) for _ in range(4))
        audio_read, image_read = chance.choice(((0, 0), (read // 3, read // 4)))
        audio, image, video = chance.choice(((0, 0, 0), (uncached // 2, uncached // 5, 7)))
        video = min(video, uncached - audio - image)
        audio_out, image_out, video_out = chance.choice(((0, 0, 0), (output // 2, output // 3, 0)))
        reasoning = chance.choice((0, output - audio_out - image_out))
        yield (
            model,
            Usage(
                uncached_input_tokens=uncached,
                cache_read_tokens=read,
                cache_write_tokens=write,
                cache_write_1h_tokens=chance.choice((0, write, write // 2)),
                input_audio_tokens=audio + audio_read,
                input_image_tokens=image + image_read,
                input_video_tokens=video,
                cache_read_audio_tokens=audio_read,
                cache_read_image_tokens=image_read,
                output_tokens=output,
                output_audio_tokens=audio_out,
                output_image_tokens=image_out,
                output_video_tokens=video_out,
                reasoning_tokens=reasoning,
                web_search_requests=chance.choice((0, 0, 3)),
            ),
        )


BY_HAND = {"aws/openai.gpt-5.5"}
"""Rows of `study model_prices` that come before those of genai-prices."""


def more_kinds(name: str, prices: Any) -> set[str]:
    """Kinds that the table has from others where genai-prices says nothing of them."""
    rows = read_table("prices")["models"].get(name)
    ours, theirs = (it[-1] if isinstance(it, list) else it for it in (rows, genai_row(prices)))
    more = set() if ours is None else {kind for kind in ours if kind in AT} - set(theirs or ())
    return more - {"cache_write_12h"}  # which nothing here has


@pytest.mark.parametrize(
    ("package", "draws"),
    [("genai-prices", 5_000), pytest.param("table", 50_000, marks=pytest.mark.slow)],
)
def test_costs_are_those_of_genai_prices(package: str, draws: int) -> None:
    """But for kinds that it has no price of, and rows by hand; see `study model_prices`."""
    genai_prices = pytest.importorskip("genai_prices")
    from genai_prices import data

    models = [(provider, it) for provider in data.providers for it in provider.models]
    prices, unlike, other_units, more = Prices(package=package), 0, set(), 0
    for (provider, model), usage in usages(draws, models):
        theirs = genai_prices.Usage(
            input_tokens=usage.input_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            cache_write_1h_tokens=usage.cache_write_1h_tokens,
            output_tokens=usage.output_tokens,
            output_reasoning_tokens=usage.reasoning_tokens,
            input_audio_tokens=usage.input_audio_tokens,
            input_image_tokens=usage.input_image_tokens,
            input_video_tokens=usage.input_video_tokens,
            output_audio_tokens=usage.output_audio_tokens,
            output_image_tokens=usage.output_image_tokens,
            output_video_tokens=usage.output_video_tokens,
            cache_audio_read_tokens=usage.cache_read_audio_tokens,
            cache_image_read_tokens=usage.cache_read_image_tokens,
            web_searches=usage.web_search_requests,
        )
        expected = model.calc_price(theirs, provider, genai_request_timestamp=NOON)
        cost = prices.cost(usage, model=model.id, provider=provider.id, at=NOON)
        if cost is None:
            other_units.add(model.id)
            continue
        name = f"{provider.id}/{model.id}".lower()
        if package == "table" and (more_kinds(name, model.prices) or name in BY_HAND):
            more += 1
            continue
        told = cost.provider, cost.model.lower()
        if told != (provider.id, model.id.lower()):  # their own rules do not find it by its name
            unlike += 1
            continue
        assert cost.total == expected.total_price, (provider.id, model.id, usage)
        assert cost.input == expected.input_price
    assert unlike < draws / 40
    assert more < draws / 40
    assert len(other_units) < 150


@pytest.mark.parametrize(
    ("model", "cliff"),
    [("claude-haiku-5-5", 100_000), ("gpt-5.4", 272_000), ("gemini-2.5-pro", 200_000)],
)
def test_known_cliffs(model: str, cliff: int) -> None:
    below, at, above = (
        Usage(uncached_input_tokens=tokens, output_tokens=10).cost(model)
        for tokens in (cliff - 1, cliff, cliff + 1)
    )
    assert below is not None
    assert at is not None
    assert above is not None
    assert (below.tokens_to_next_tier, at.tokens_to_next_tier) == (1, 0)
    assert below.next_tier_above_tokens == at.next_tier_above_tokens == cliff
    assert (below.tier_above_tokens, above.tier_above_tokens) == (0, cliff)
    assert below.next_tier_factor is not None
    assert below.input is not None
    assert above.input is not None
    a_token = below.input / (cliff - 1)
    assert at.input == a_token * cliff
    assert above.input == a_token * below.next_tier_factor * (cliff + 1)
    assert above.tokens_to_next_tier is None


def test_parts_and_bounds() -> None:
    prices = Prices(OWN, package=None)
    usage = Usage(
        uncached_input_tokens=100,
        cache_read_tokens=200,
        cache_write_tokens=300,
        cache_write_1h_tokens=100,
        output_tokens=50,
    )
    cost = usage.cost("acme-1", prices=prices)
    assert cost is not None
    million = Decimal(10**6)
    assert cost.uncached_input == Decimal(100) / million
    assert cost.cache_read == Decimal(20) / million
    assert cost.cache_write == (200 * Decimal("1.25") + 200) / million
    assert cost.output == Decimal(200) / million
    assert cost.total == cost.low == cost.high == Decimal("0.00077")
    assert (cost.currency, cost.source, cost.date) == ("USD", "caller", "2026-11-20")
    assert cost.as_dict()["total"] == "0.00077"
    one = estimate(max_tokens=100)
    before = prices.cost(one)
    assert before is not None
    assert before.output == Decimal("0.0004")
    assert before.low is not None
    assert before.high is not None
    assert before.total is not None
    assert before.low <= before.total - before.output
    assert before.high >= before.total
    without_cap = prices.cost(estimate())
    assert without_cap is not None
    assert (without_cap.output, without_cap.total, without_cap.high) == (None, None, None)
    assert without_cap.low is not None


def test_the_split_of_the_cache_counts() -> None:
    estimator = HybridTokenEstimator(caching=True)
    text = "You are a careful assistant for people in a hurry. " * 300
    mark = {"cache_control": {"type": "ephemeral"}}
    body: dict[str, Any] = {"model": "claude-sonnet-4-5", "max_tokens": 10}
    body["messages"] = [{"role": "user", "content": [{"type": "text", "text": text, **mark}]}]
    first = estimator.estimate(body)
    assert first.cost is not None
    assert first.cache is not None
    assert first.cost.cache_write == first.cache.write_tokens * Decimal("3.75") / 10**6
    usage = {"input_tokens": 4, "cache_creation_input_tokens": first.tokens - 4, "output_tokens": 5}
    estimator.record(body, usage)
    again = estimator.estimate(body)
    assert again.cost is not None
    assert again.cache is not None
    assert again.cost.cache_read == again.cache.read_tokens * Decimal("0.3") / 10**6
    assert again.cost.input is not None
    assert first.cost.input is not None
    assert again.cost.input * 10 < first.cost.input
    assert again.cost.low is not None
    assert again.cost.low <= again.cost.input


def test_periods_hours_and_hosts() -> None:
    prices = Prices(OWN, package=None)
    usage = Usage(uncached_input_tokens=10**6)

    def total(at: str, model: str = "acme-2", provider: str | None = None) -> Any:
        moment = dt.datetime.fromisoformat(at)
        cost = prices.cost(usage, model=model, provider=provider, at=moment)
        return None if cost is None else cost.total

    assert total("2026-09-30T12:00:00") == 2
    assert total("2026-10-01T12:00:00+00:00") == 1
    assert total("2026-10-01T01:00:00+02:00") == 5  # 23:00 UTC
    assert total("2026-11-01T01:59:00") == 5
    assert total("2026-11-01T02:00:00") == 1
    assert total("2026-11-01T12:00:00", "acme-1") == 3
    assert total("2026-11-01T12:00:00", "azure/acme-1") == 8  # the call itself costs one
    assert total("2026-11-01T12:00:00", "acme-1", "azure") == 8
    assert total("2026-11-01T12:00:00", "acme-1-2026-05-01") == 3
    assert total("2026-11-01T12:00:00", "acme-1:free") is None
    assert total("2026-11-01T12:00:00", "acme-10") is None


def test_yours_come_first_then_the_package() -> None:
    rows = {"updated": "2026-01-01", "models": {"gpt-4o": {"input": "1", "output": "1"}}}
    usage = Usage(uncached_input_tokens=10**6)
    own = Prices(rows).cost(usage, model="openai/gpt-4o-2024-11-20", at=NOON)
    assert own is not None
    assert (own.source, own.is_stale) == ("caller", True)
    assert own.total == 1
    other = Prices(rows, package="table").cost(usage, model="gpt-4.1")
    assert other is not None
    assert other.source.startswith("table of genai-prices")
    assert other.provider == "openai"


def test_what_nobody_knows_is_none() -> None:
    assert estimate("nobody-knows-it").cost is None
    assert Usage(uncached_input_tokens=5).cost("nobody-knows-it") is None
    assert HybridTokenEstimator().estimate([{"role": "user", "content": "hi"}]).cost is None
    cost = Prices(OWN, package=None).cost(Usage(output_tokens=5), model="no-output")
    assert cost is not None
    assert (cost.output, cost.total) == (None, None)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({"models": {}}, "updated is None"),
        ({"updated": "yesterday", "models": {}}, "updated is 'yesterday'"),
        ({"updated": "2026-11-20"}, "no `models`"),
        ({"updated": "2026-11-20", "models": {"m": 1}}, "m is a int"),
        ({"updated": "2026-11-20", "models": {"m": []}}, "m has no price"),
        ({"updated": "2026-11-20", "models": {"m": {"cost": "1"}}}, "m has 'cost'"),
        ({"updated": "2026-11-20", "models": {"m": {"input": "-1"}}}, "m.input is '-1'"),
        ({"updated": "2026-11-20", "models": {"m": {"input": "NaN"}}}, "m.input is 'NaN'"),
        ({"updated": "2026-11-20", "models": {"m": {"input": True}}}, "m.input is True"),
        ({"updated": "2026-11-20", "models": {"m": {"input": ["1", ["2"]]}}}, "the tier"),
        ({"updated": "2026-11-20", "models": {"m": {"input": ["1", [5, "2"], [5, "3"]]}}}, "rise"),
        ({"updated": "2026-11-20", "models": {"m": {"input": "1", "from": "now"}}}, "from='now'"),
        ({"updated": "2026-11-20", "models": {"m": {"input": "1", "between": ["1"]}}}, "between"),
        ([], "holds a list"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(content: Any, error: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(ValueError, match=error):
        Prices(path)


def test_a_file_of_prices(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text('{"updated": "2026-11-20", "models": {"m": {"input": 0.1, "output": 3}}}')
    cost = Prices(path).cost(Usage(uncached_input_tokens=3), model="m")
    assert cost is not None
    assert cost.total == Decimal("0.0000003")
    path.write_text("{")
    with pytest.raises(ValueError, match=r"prices\.json is no JSON file"):
        Prices(path)
    with pytest.raises(OSError, match="nowhere"):
        Prices(tmp_path / "nowhere.json")
    with pytest.raises(ValueError, match="package is 'litellm'"):
        Prices(package="litellm")
    with pytest.raises(TypeError, match="an Estimate or a Usage"):
        Prices(package=None).cost(5, model="m")
    with pytest.raises(ValueError, match="model is missing"):
        Prices(package=None).cost(Usage())


def test_models_beside_each_other() -> None:
    body = {"messages": [{"role": "user", "content": "word " * 150_000}], "max_tokens": 100}
    estimator = HybridTokenEstimator(caching=True)
    names = ["gpt-4o", "gpt-4.1", "claude-haiku-5-5", "nobody-knows-it"]
    found = routing.choices(estimator, body, names)
    assert [it.model for it in found] == names
    assert [it.fits for it in found] == [False, True, True, None]
    assert [it.model for it in routing.fitting(found)] == names[1:]
    best = routing.cheapest(found)
    assert best is not None
    assert best.model == "claude-haiku-5-5"
    assert routing.cheapest(found[3:]) is None
    assert routing.warm(found) == ()
    usage = {"prompt_tokens": 150_007, "completion_tokens": 2}
    estimator.record(body, usage, model="gpt-4.1")
    again = routing.choices(estimator, body, names)
    assert [it.model for it in routing.warm(again)] == ["gpt-4.1"]
