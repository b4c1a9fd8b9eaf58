"""A column of costs is the loop over its calls, to the last nano-dollar."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest

from tokenctx import batch, normalize_usage
from tokenctx.money import Prices

ODD = {
    "updated": "2026-11-20",
    "models": {
        "odd": {
            "input": ["0.1234567891", [700, "1.23"]],
            "cache_read": "0.000000001",
            "cache_write_1h": "3.3333333333",
            "output": "7.77",
            "output_reasoning": "9.99",
            "request": "1234.5678",
            "service_tier": {"flex": "0.3333"},
        },
        "no-output": {"input": "1"},
        "by-hour": [
            {"input": "1", "output": "1"},
            {"input": "2", "output": "2", "between": ["10:00", "12:00"]},
        ],
    },
}
PRICES = Prices(ODD)
MODELS = ("odd", "no-output", "by-hour", "gpt-5.5", "claude-sonnet-4-5", "gemini-2.5-pro", "none")
MODELS_OR_NOT = (*MODELS, None)


def usages(count: int) -> list[Any]:
    """Usage of all kinds: plain, in tiers, of media, with searches, told costs and passes."""
    chance = random.Random(17)
    made = []
    for _ in range(count):
        sizes = (0, 1, chance.randrange(900), chance.randrange(300_000))
        usage: dict[str, Any] = {
            "input_tokens": chance.choice(sizes),
            "cache_read_input_tokens": chance.choice(sizes),
            "cache_creation_input_tokens": 100,
            "cache_creation": {"ephemeral_1h_input_tokens": chance.choice((0, 60, 100))},
            "output_tokens": chance.choice(sizes),
            "output_tokens_details": {"reasoning_tokens": chance.choice((0, 0, 50))},
            "service_tier": chance.choice(("", "standard", "flex", "nobody's")),
        }
        more: tuple[dict[str, Any], ...] = (
            *({}, {}, {}, {}),
            *({"server_tool_use": {"web_search_requests": 2}}, {"input_audio_tokens": 7}),
            *({"cost": 0.25}, {"new_kind_of_calls": 4}),
            {"iterations": [{"type": "compaction", "input_tokens": 500, "output_tokens": 5}]},
        )
        made.append(usage | chance.choice(more))
    return made


@pytest.mark.parametrize("tier", [None, "flex"])
def test_costs_are_those_of_the_loop(tier: str | None) -> None:
    rows, chance = usages(3_000), random.Random(18)
    models = [chance.choice(MODELS_OR_NOT) for _ in rows]
    noon = dt.datetime(2026, 11, 20, 11, tzinfo=dt.timezone.utc)
    moments = [noon + dt.timedelta(hours=chance.choice((0, 6))) for _ in rows]
    table = batch.cost(rows, models, at=moments, service_tier=tier, prices=PRICES)
    kinds: dict[str | None, int] = {}
    for usage, model, moment, row in zip(rows, models, moments, table, strict=True):
        normal = normalize_usage(usage)
        assert normal is not None
        kinds[row["reason"]] = kinds.get(row["reason"], 0) + 1
        if model is None:
            assert row == {"nano_dollars": None, "reason": "no_model"}
            continue
        cost = PRICES.cost(normal, model=model, at=moment, service_tier=tier)
        units = None if cost is None or cost.unpriced else cost.total_units()
        nano = None if units is None else (units + 5 * 10**14) // 10**15
        assert row == {"nano_dollars": nano, "reason": None if nano is not None else "no_price"}
    assert all(kinds[it] > 100 for it in (None, "no_model", "no_price"))


def test_one_model_for_all_rows_is_that_model_for_each() -> None:
    rows = usages(200)
    table = batch.cost(rows, "odd", prices=PRICES)
    assert table.tolist() == batch.cost(rows, ["odd"] * 200, prices=PRICES).tolist()


def test_a_cost_beyond_the_column_is_its_largest_number() -> None:
    rows = {"updated": "2026-11-20", "models": {"dear": {"input": "1" + "0" * 15, "output": "0"}}}
    most = batch.cost([{"input_tokens": 2**40, "output_tokens": 0}], "dear", prices=Prices(rows))
    assert most.nano_dollars.tolist() == [2**63 - 1]
