"""Where prices are from: your file, the package genai-prices, or the table of this package."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from time import time as seconds
from typing import TYPE_CHECKING, Any, Final

from tokenctx._core import model_name
from tokenctx._results.cost import AT
from tokenctx._results.estimates import Estimate
from tokenctx._results.tables import DASHES, read_table
from tokenctx.money.cost import (
    STALE_DAYS,
    Priced,
    billed_cost,
    cost_of_estimate,
    cost_of_usage,
)
from tokenctx.money.discounts import read_discounts, spelled
from tokenctx.money.rates import (
    Words,
    check_rows,
    host_of,
    period_at,
    rates_of,
    read_periods,
)
from tokenctx.usage.normal import Usage

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from tokenctx._results.cost import Cost
    from tokenctx.money.discounts import Discount

FINE_TUNED: Final = "ft:"
Said = tuple[str, str, str, str]
"""Service tier, speed, region and search of a call, in the vendor's words."""
NOTHING: Final[Said] = ("", "", "", "")
STANDARD: Final = Words()
_DAY_SECONDS: Final = 86_400
_FIRST_DAY: Final = dt.date(1970, 1, 1).toordinal()
"""That of the clock of `time`; days of UTC are counted as by `date.toordinal`."""
_STANDARD_WORDS: Final = frozenset(
    "standard default auto standard_only on_demand unspecified service_tier_unspecified global "
    "not_available traffic_type_unspecified".split()
)
"""Words of a call that change no price."""
_SAME_TIERS: Final = {
    "fast": "priority",
    "batches": "batch",
    "on_demand_flex": "flex",
    "on_demand_priority": "priority",
}
"""Other words for a service tier: who asks OpenAI for `fast` is served `priority`."""
DATED: Final = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)(?:-v\d+)?$|-v\d+$")
_LEVEL: Final = re.compile(r"(?:\[[^\[\]]*\]|\([^()]*\))$")
"""A window or a level of effort behind a name: `[1m]`, `(high)`."""
_BEDROCK: Final = re.compile(
    r"(?:[a-z]{2}(?:-[a-z]+)?\.|global\.|apac\.|us-gov\.)?"
    r"(?:amazon|anthropic|openai|meta|mistral|cohere|ai21|deepseek|qwen|minimax|moonshotai?|zai|xai"
    r"|nvidia|google|writer|stability|twelvelabs)\.[a-z]"
)
"""A model's id of Bedrock: perhaps a region, a maker, a dot."""
_ARN: Final = re.compile(
    r"(?:.*/)?arn:aws[a-z-]*:bedrock:([a-z0-9-]*):\d*:(foundation-model|inference-profile)/(.+)"
)
ROUTE: Final = re.compile(r"^([^/]+/)(?:converse|converse_like|invoke|async_invoke|responses)/")
"""Which interface of a host is called, as litellm writes it behind the host."""
_PLACE: Final = re.compile(
    r"(?:^|(?<=/))"
    r"(?:(?:us|eu|ca|sa|ap|me|af|il|mx)(?:-gov)?-[a-z]+-\d|us-gov|us|eu|au|jp|uk|ca|in|kr|apac"
    r"|global|global-standard|regional)[./](?=.)"
)
"""Where a call is answered, in a name: `eu.` of Bedrock, `eu/` or `eu-west-1/` behind the host."""
_ANYWHERE: Final = frozenset({"global", "global-standard"})
_VARIANT: Final = re.compile(r":[a-z][^/:]*$")
"""A service of its own behind a name, `:free`, `:batch`, or who is chosen to answer, `:nitro`."""
_CHOICES: Final = frozenset({"nitro", "floor", "exacto"})
"""Variants that choose among hosts, and have no price of their own."""
_FIELDS: Final = (
    *("$schema", "about", "updated", "models", "names", "discounts", "makers", "sources"),
)
"""What a file of prices has."""
_GENAI_USES: Final = {
    "requests_kcount": "request",
    "web_searches_kcount": "web_search",
    "storage_searches_kcount": "storage_search",
}


class Prices:
    """Prices of models: yours first, then those of the package's own table.

    `rows` are yours: the path of a JSON file, or a mapping, with `updated` (the day that they are
    of) and `models`: for each name, as `gpt-4o` or `azure/gpt-4o`, prices in dollars per million
    tokens by kind, as `input`, `cache_read`, `cache_write`, `cache_write_1h`, `output`,
    `output_audio`, and per million uses of `web_search` and `request`, as decimal text.
    `["2.5", [272000, "5"]]` is a price that doubles for calls of more than 272,000 input tokens.
    `service_tier`, `speed` and `inference_geo` say what changes the prices, for each word a factor
    or prices of its own: `{"flex": "0.5", "priority": {"input": "5", "output": "20"}}`. A list of
    such rows has periods: `from` a day, `between` two times of the day (UTC). A name is that of all
    dated versions of the model; `names` has others of your rows, `{"fast": "our-model"}`.
    `discounts`, with `models` or alone, are factors that you have agreed on, for your rows and
    others: `{"factor": "0.85", "name": "contract", "models": ["gpt-5*"], "hosts": ["azure"],
    "from": "2026-07-01", "until": "2027-06-30"}`; all but `factor` may be left out, and the first
    that holds for a call counts. It changes the prices of tokens, or those of its `kinds`; never a
    cost that the provider reports. `package` is where other prices are from: `table` (the default),
    `genai-prices` (which must be installed; it has standard prices alone), or None for no others.

    Raises OSError for a file that cannot be read, ValueError for what is wrong in it, ImportError
    without the package that is asked for.
    """

    def __init__(
        self,
        rows: Mapping[str, Any] | str | os.PathLike[str] | None = None,
        *,
        package: str | None = "table",
    ) -> None:
        self._own: PriceTable | None = None
        self._discounts: tuple[Discount, ...] = ()
        if rows is not None:
            content = _read_rows(rows)
            self._discounts = read_discounts(content.get("discounts", []))
            has_models = "models" in content or not self._discounts
            self._own = PriceTable(content if has_models else {**content, "models": {}}, "caller")
        if package not in ("genai-prices", "table", None):
            raise ValueError(f"package is {package!r}; it must be 'genai-prices', 'table' or None")
        self._package: PriceTable | None = None
        if package is not None:
            self._package = bundled_table() if package == "table" else genai_table()
        self._found = lru_cache(maxsize=1024)(self._find)  # a model's prices are read once

    def find(
        self,
        model: str,
        provider: str | None = None,
        at: dt.datetime | None = None,
        words: Words = STANDARD,
    ) -> Priced | None:
        """The prices of `model` at a moment, by default now; None if they are unknown.

        `words` are the service tier, speed and region that change them.
        """
        if at is None:
            moment, day = None, int(seconds()) // _DAY_SECONDS + _FIRST_DAY
        else:
            moment = _utc(at)
            day = moment.toordinal()
        found = self._found(model, provider, words, day, None)
        if found is None or not found.has_hours:
            return found
        moment = moment or dt.datetime.now(dt.timezone.utc)
        return self._found(model, provider, words, moment.toordinal(), moment.time())

    def cost(
        self,
        tokens: object,
        *,
        model: str | None = None,
        provider: str | None = None,
        at: dt.datetime | None = None,
        output_tokens: int | None = None,
        service_tier: str | None = None,
        speed: str | None = None,
        inference_geo: str | None = None,
    ) -> Cost | None:
        """The cost of a call, of an `Estimate` before it or its `Usage` after; None if unknown.

        `model` has to be named with a usage; an estimate has it. `provider` is who answers, where
        the name does not say it. `output_tokens` is the output of an estimate; by default the most
        that its request asks for. `service_tier` (`flex`, `priority`, `batch`), `speed` and
        `inference_geo` are what the usage or the request says, unless you know better. Raises
        TypeError for anything else than these two, ValueError without a model.
        """
        if isinstance(tokens, Usage):
            said = said_by(tokens)
        elif isinstance(tokens, Estimate):
            said = _words_of_request(tokens.price_words) if tokens.price_words else NOTHING
        else:
            raise TypeError(
                f"tokens are of type {type(tokens).__name__}; they must be an Estimate or a Usage"
            )
        name = model or getattr(tokens, "model", "")
        if not name:
            raise ValueError("model is missing; name the model that the usage is of")
        if service_tier is not None or speed is not None or inference_geo is not None:
            said = (
                said[0] if service_tier is None else service_tier,
                said[1] if speed is None else speed,
                said[2] if inference_geo is None else inference_geo,
                said[3],
            )
        words = words_of(said)
        priced = self.find(name, provider, at, words)
        if isinstance(tokens, Estimate):
            if output_tokens is None:
                output_tokens = tokens.requested_output_tokens
            return None if priced is None else cost_of_estimate(tokens, priced, output_tokens)
        if priced is None:
            is_told = tokens.reported_cost is not None
            return billed_cost(tokens, name, provider or "") if is_told else None
        passes: list[tuple[str, Cost | None]] = []
        for it in tokens.passes:
            cost = self.cost(it.usage, model=it.model or name, provider=provider, at=at)
            passes.append((it.kind, cost))
        return cost_of_usage(tokens, priced, output_tokens, passes)

    def _find(
        self, model: str, provider: str | None, words: Words, day: int, time: dt.time | None
    ) -> Priced | None:
        moment = dt.datetime.combine(dt.date.fromordinal(day), time or dt.time())
        host = (provider or "").strip().lower()
        for table in (self._own, self._package):
            found = None if table is None else table.find(model, host, moment, words)
            if found is not None:
                return self._discounted(found, model, host, moment.date())
        return None

    def _discounted(self, found: Priced, model: str, host: str, day: dt.date) -> Priced:
        """The prices with what was agreed on for this model of this host on this day."""
        name = _spelled(model)
        head, slash, _ = name.partition("/")
        host = host_of(host or (head if slash else found.provider))
        names = {spelled(it) for it in (name, name.rpartition("/")[2], *_plain_names(name))}
        for discount in self._discounts:
            if discount.holds(names, host, day):
                return found._replace(rates=discount.applied(found.rates))
        return found

    def install(self) -> None:
        """From now on all costs in this process go by these prices, unless others are named.

        `Estimate.cost`, `Usage.cost`, budgets and routing do; costs that were told stay.
        """
        _INSTALLED[:] = [self]


_INSTALLED: Final[list[Prices]] = []


class PriceTable:
    """Rows of prices by name; `names` in its content are others for the same rows."""

    def __init__(self, content: Mapping[str, Any], source: str) -> None:
        self.date = _day(content.get("updated"), source)
        models = content.get("models")
        if not isinstance(models, Mapping):
            raise ValueError("prices have no `models`, names with their prices")  # noqa: TRY004
        self._source = source
        self._content = content
        self.makers = makers = content.get("makers")
        self._rows: dict[str, Any] = {}
        self._by_own_name: dict[str, str] = {}
        self._by_host: dict[str, dict[tuple[str, str], str]] = {}
        places = {maker: place for place, maker in enumerate(makers or ())}
        is_checked = source != "caller"
        exact: list[tuple[int, int, str, str]] = []
        derived: list[tuple[str, str]] = []
        for name, row in models.items():
            key = name.lower()
            self._rows[key] = row if is_checked else check_rows(name, row)
            host, _, tail = key.partition("/")
            self._by_host.setdefault(host, {})
            if (makers is None or host in makers) and _variant(key) is None:
                own = tail or host
                plain = own if own.startswith(FINE_TUNED) else _own(own)
                if own.translate(DASHES) == plain.translate(DASHES):
                    exact.append((tail.count("/"), places.get(host, 0), plain, key))
                else:
                    derived.append((plain, key))
        for name, key in _other_names(content.get("names", {}), self._rows):
            self._rows.setdefault(name, self._rows[key])
            host, _, tail = name.partition("/")
            if makers is None or host in makers:
                derived.append((_own(tail or host), name))
        # Who made a model comes before who hosts it, and a name's own row before a longer name's.
        exact.sort(key=lambda it: it[:2])
        for plain, key in [*(it[2:] for it in exact), *derived]:
            self._by_own_name.setdefault(plain, key)

    def digest(self) -> str:
        """A short name of all that is in the table."""
        content = json.dumps(self._content, sort_keys=True, default=str)
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()

    def _of_host(self, name: str, hosts: tuple[str, ...]) -> str | None:
        """The row of a host that has the model's own name, however the host writes it."""
        names, places = _plain_names(name), dict.fromkeys((_place(name), ""))
        for host in hosts:
            if host in self._by_host and not self._by_host[host]:
                self._by_host[host] = self._names_at(host)
            known = self._by_host.get(host, {})
            wanted = ((place, own) for place in places for own in names)
            if (key := next((known[it] for it in wanted if it in known), None)) is not None:
                return key
        return None

    def _names_at(self, host: str) -> dict[tuple[str, str], str]:
        """The rows of a host by region and by the model's own name, with its date and without."""
        head = f"{host}/"
        tails = [
            key[len(head) :] for key in self._rows if key.startswith(head) and _variant(key) is None
        ]
        # The newest of several dates; a region of its own has prices of its own.
        tails.sort(reverse=True)
        tails.sort(key=lambda it: (bool(_place(it)), it.count("/")))
        found: dict[tuple[str, str], str] = {}
        for plain in (_own, lambda tail: _undated(_own(tail))):
            for tail in tails:
                for place in dict.fromkeys((_place(tail), "")):
                    found.setdefault((place, plain(tail)), head + tail)
        return found

    def find(self, model: str, provider: str, at: dt.datetime, words: Words) -> Priced | None:
        """The prices of `model`; None if it is not in the table."""
        name = _spelled(model)
        hosts = _hosts(name, provider)
        key = next((it for it in _keys(name, hosts) if it in self._rows), None)
        variant = _variant(name)
        if key is None and variant == "free":
            return None  # what is priced is another service
        plain = name if variant is None or key is not None else _VARIANT.sub("", name)
        if plain != name:
            key = next((it for it in _keys(plain, hosts) if it in self._rows), None)
        if hosts and (key is None or key.partition("/")[0] not in hosts):
            key = self._of_host(plain, hosts) or key
        if key is None and not provider:  # as its maker writes it, before what is spelled alike
            by_makers = (f"{maker}/{plain}" for maker in self.makers or ())
            key = next((it for it in by_makers if it in self._rows), None)
        if key is None:
            names = _plain_names(plain)
            key = next((self._by_own_name[it] for it in names if it in self._by_own_name), None)
        if key is None:
            return None
        row = self._rows[key]
        periods = row if isinstance(row, tuple) else read_periods(key, row)
        period = period_at(periods, at)
        host, slash, own = key.partition("/")
        host, own = (host, own) if slash else ("", key)
        is_of_another = (
            (bool(hosts and host) and host not in hosts)
            or (slash and _place(name) != _place(own))
            or (plain != name and variant not in _CHOICES)
        )
        age = at.date() - dt.date.fromisoformat(self.date)
        return Priced(
            rates_of(key, period.row, words),
            own,
            host,
            self._source,
            self.date,
            str(period.row.get("sources", "")).endswith("?") or bool(is_of_another),
            any(it.between for it in periods),
            age.days > STALE_DAYS,
        )


def _other_names(names: Any, rows: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each other name with the name of its row. Raises ValueError for one without a row."""
    if not isinstance(names, Mapping):
        raise ValueError(f"names is a {type(names).__name__}; it must be an object")  # noqa: TRY004
    for name, of in names.items():
        if not isinstance(of, str) or of.lower() not in rows:
            raise ValueError(f"names.{name} is {of!r}; it must be a name in `models`")
        yield name.lower(), of.lower()


def _spelled(model: str) -> str:
    """The name in lower case, without a level behind it, and the id in an ARN of Bedrock."""
    name = _LEVEL.sub("", model.strip().lower()).rstrip()
    if "arn:" in name and (arn := _ARN.fullmatch(name)):
        region, kind, own = arn.groups()
        return f"bedrock/{region}/{own}" if kind == "foundation-model" and region else own
    return ROUTE.sub(r"\1", name) if "/" in name else name


def _variant(name: str) -> str | None:
    """The service behind the last colon, if it is one; a size (`:8b`) and `ft:` are none."""
    found = _VARIANT.search(name) if ":" in name else None
    return None if found is None or FINE_TUNED in name else found[0][1:]


def _place(name: str) -> str:
    """Where a call is answered, if the name says it; empty for anywhere."""
    found = _PLACE.search(name)
    place = "" if found is None else found[0][:-1]
    return "" if place in _ANYWHERE else place


def _hosts(name: str, provider: str) -> tuple[str, ...]:
    """Who answers, as it is written and as the table calls it: named by the caller or the name."""
    head, slash, _ = name.partition("/")
    written = provider or (head if slash else "")
    if written:
        return tuple(dict.fromkeys((written, host_of(written))))
    return (host_of("bedrock"),) if _BEDROCK.match(name) else ()


def _keys(name: str, hosts: tuple[str, ...]) -> Iterator[str]:
    """The names that rows of a model may have, those of who answers before others."""
    head, slash, tail = name.partition("/")
    is_of_host = slash and host_of(head) in hosts
    names = (tail, name) if is_of_host else (name, tail) if slash else (name,)
    plain = () if _variant(name) else _plain_names(name)
    for text in (*names, *plain):
        for host in hosts:
            yield f"{host}/{text}"
        yield text
    for text in names:
        anywhere = _PLACE.sub("", text)
        if anywhere != text:
            for host in hosts:
                yield f"{host}/{anywhere}"


def plain_model(name: str) -> str:
    """One name for all spellings of a model: without provider, date and case."""
    return _plain_names(name.strip().lower())[1]


def _plain_names(name: str) -> tuple[str, str]:
    """The model's own name, and without its date; a fine-tuned model costs more than its base."""
    last = name.rpartition("/")[2]
    if last.startswith(FINE_TUNED):
        own = FINE_TUNED + last[len(FINE_TUNED) :].partition(":")[0]
    else:
        own = _own(name)
    return own, _undated(own)


def _words_of_request(words: tuple[str, ...]) -> Said:
    """What the request of an estimate asks for."""
    said = dict(word.split("=", 1) for word in words if "=" in word)
    return said.get("service_tier", ""), said.get("speed", ""), said.get("inference_geo", ""), ""


def said_by(usage: Usage) -> Said:
    """The words of the answer."""
    return usage.service_tier, usage.speed, usage.inference_geo, usage.search_size


def words_of(said: Said) -> Words:
    """The words that change a price, by their usual name."""
    return STANDARD if said == STANDARD else _changing(*said)


@lru_cache(maxsize=256)
def _changing(*said: str) -> Words:
    found = Words(*("" if it.lower() in _STANDARD_WORDS else it.lower() for it in said))
    tier = found.service_tier
    return found._replace(service_tier=_SAME_TIERS.get(tier, tier))


def _own(name: str) -> str:
    return model_name(name).translate(DASHES)


def _undated(name: str) -> str:
    return DATED.sub("", name)


def _utc(at: dt.datetime) -> dt.datetime:
    return (
        at.replace(tzinfo=dt.timezone.utc) if at.tzinfo is None else at.astimezone(dt.timezone.utc)
    )


def _day(updated: Any, source: str) -> str:
    try:
        return dt.date.fromisoformat(updated).isoformat()
    except (TypeError, ValueError):
        raise ValueError(
            f"updated is {updated!r} in the prices of {source}; write the day that they are of, "
            "as 2026-11-23"
        ) from None


def _read_rows(rows: Mapping[str, Any] | str | os.PathLike[str]) -> Mapping[str, Any]:
    content = rows if isinstance(rows, Mapping) else _read_file(Path(rows))
    if unknown := sorted(set(content) - set(_FIELDS)):
        raise ValueError(f"prices have {unknown[0]!r}; the fields are {', '.join(_FIELDS)}")
    return content


def _read_file(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"), parse_float=Decimal)
    except ValueError as error:
        raise ValueError(f"{path.name} is no JSON file: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(  # noqa: TRY004  # as for all that is wrong in a file
            f"{path.name} holds a {type(content).__name__}; it must be an object with `models`"
        )
    return content


@cache
def bundled_table() -> PriceTable:
    """The table of this package."""
    content = read_table("prices")
    sources = ", ".join(f"{name} {version}" for name, version in content["sources"].items())
    return PriceTable(content, f"table of {sources}")


def check_table(content: Mapping[str, Any]) -> None:
    """Raises ValueError unless `content` can stand in for the table of this package."""
    if not isinstance(content.get("sources"), Mapping):
        raise ValueError("prices have no `sources`")  # noqa: TRY004
    for name, row in content["models"].items():
        check_rows(name, row)
    if bundled_table.cache_info().currsize:
        raise ValueError("prices: they are in use already; load newer tables before the first cost")


def default_prices() -> Prices:
    """The prices that `Estimate.cost` and `Usage.cost` go by."""
    if not _INSTALLED:
        _INSTALLED.append(Prices())
    return _INSTALLED[0]


def fingerprint(prices: Prices) -> str:
    """A short name of all prices and discounts in `prices`: other prices have another."""
    tables = (prices._own, prices._package)  # noqa: SLF001  # of this module
    parts = [it.digest() for it in tables if it is not None]
    return f"{'-'.join(parts)}-{prices._discounts!r}"  # noqa: SLF001


@cache
def genai_table() -> PriceTable:
    """The table in the package genai-prices. Raises ImportError where it is missing."""
    try:
        from genai_prices import __version__, data
    except ImportError:
        raise ImportError("genai-prices is missing: pip install genai-prices") from None
    models = {
        f"{host.id}/{model.id}".lower(): row
        for host in data.providers
        for model in host.models
        if (row := genai_row(model.prices))
    }
    content = {"updated": _genai_date(), "makers": bundled_table().makers, "models": models}
    return PriceTable(content, f"genai-prices {__version__}")


def genai_row(prices: Any) -> Any:
    """A row of genai-prices as one of ours; None if nothing in it is priced by the token."""
    if isinstance(prices, list):
        rows = [_genai_period(it.prices, it.constraint) for it in prices]
        return rows if any(rows) else None
    return _genai_period(prices) or None


def _genai_period(prices: Any, constraint: Any = None) -> dict[str, Any]:
    said = {name: price for name, price in vars(prices).items() if price is not None}
    if said and not any(name.endswith("_mtok") for name in said):
        return {}  # by the hour, the page or the character
    row: dict[str, Any] = {"input": "0", "output": "0"}
    for name, price in said.items():
        kind = name.removesuffix("_mtok").replace("cache_audio_read", "cache_read_audio")
        kind = _GENAI_USES.get(name, kind.replace("cache_image_read", "cache_read_image"))
        if kind in AT:
            times = 1000 if name in _GENAI_USES else 1
            row[kind] = _genai_price(price, times)
    if (since := getattr(constraint, "start_date", None)) is not None:
        row["from"] = since.isoformat()
    if (start := getattr(constraint, "start_time", None)) is not None:
        row["between"] = [f"{it:%H:%M:%S}" for it in (start, constraint.end_time)]
    return row


def _genai_price(price: Any, times: int) -> Any:
    base = getattr(price, "base", None)
    if base is None:
        return decimal_text(price * times)
    return [
        decimal_text(base * times),
        *([it.start, decimal_text(it.price * times)] for it in price.tiers),
    ]


def decimal_text(price: Decimal) -> str:
    """A decimal without an exponent or idle zeros."""
    digits = f"{price:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _genai_date() -> str:
    """The day of the snapshot: that of the newest of its files."""
    from importlib import metadata

    path = Path(str(metadata.distribution("genai-prices").locate_file("genai_prices/data.py")))
    return dt.datetime.fromtimestamp(path.stat().st_mtime, dt.timezone.utc).date().isoformat()
