"""Where prices are from: your file, the package genai-prices, or the table of this package."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenctx._core import model_name
from tokenctx._results.tables import DASHES, read_table
from tokenctx.money.cost import Priced, Split, cost_of
from tokenctx.money.rates import Rates, Tier, rates_at, read_periods

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from tokenctx._results.result import Cost
    from tokenctx.money.rates import Period

PROVIDERS: Final = {"bedrock": "aws", "vertex": "google", "moonshot": "moonshotai", "xai": "x-ai"}
"""Who answers, in the words of the table of prices."""
_DATED: Final = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)(?:-v\d+)?$|-v\d+$")


class Prices:
    """Prices of models: yours first, then those of genai-prices or of the package's own table.

    `rows` are yours: the path of a JSON file, or a mapping, with `updated` (the day that they are
    of) and `models`: for each name, as `gpt-4o` or `azure/gpt-4o`, prices in dollars per million
    tokens by `input`, `cache_read`, `cache_write`, `cache_write_1h` and `output`, and of a million
    calls by `request`, as decimal text.
    `["2.5", [272000, "5"]]` is a price that doubles for calls of more than 272,000 input tokens. A
    list of such rows has periods: `from` a day, `between` two times of the day (UTC). A name is
    that of all dated versions of the model. `package` is where other prices are from:
    `genai-prices` (which must be installed), `table`, or None for nowhere; by default the former
    where it is installed. Raises OSError for a file that cannot be read, ValueError for what is
    wrong in it, ImportError without the package that is asked for.
    """

    def __init__(
        self,
        rows: Mapping[str, Any] | str | os.PathLike[str] | None = None,
        *,
        package: str | None = "",
    ) -> None:
        self._own = None if rows is None else _Table(_read_rows(rows), "caller")
        self._package: Callable[[str, str, dt.datetime], Priced | None]
        if package not in ("", "genai-prices", "table", None):
            raise ValueError(f"package is {package!r}; it must be 'genai-prices', 'table' or None")
        if package is None:
            self._package = _nowhere
        elif package == "table" or (package == "" and _genai_prices() is None):
            self._package = bundled_table().find
        elif _genai_prices() is None:
            raise ImportError("genai-prices is missing: pip install genai-prices")
        else:
            self._package = _from_genai_prices

    def find(
        self, model: str, provider: str | None = None, at: dt.datetime | None = None
    ) -> Priced | None:
        """The rates of `model` at a moment, by default now; None if they are unknown."""
        moment = _utc(at)
        hint = (provider or "").strip().lower()
        own = None if self._own is None else self._own.find(model, hint, moment)
        return own or self._package(model, hint, moment)

    def cost(
        self,
        tokens: object,
        *,
        model: str | None = None,
        provider: str | None = None,
        at: dt.datetime | None = None,
        output_tokens: int | None = None,
    ) -> Cost | None:
        """The cost of a call, of an `Estimate` before it or its `Usage` after; None if unknown.

        `model` has to be named with a usage; an estimate has it. `provider` is who answers, where
        the name does not say it. `output_tokens` is the output of an estimate; by default the most
        that its request asks for. Raises TypeError for anything else than these two.
        """
        name = model or getattr(tokens, "model", "")
        if not name:
            raise ValueError("model is missing; name the model that the usage is of")
        split = Split.of(tokens, output_tokens)
        moment = _utc(at)
        found = self.find(name, provider, moment)
        return None if found is None else cost_of(split, found, moment)


class _Table:
    """Rows of prices by name."""

    def __init__(self, content: Mapping[str, Any], source: str) -> None:
        self.date = _day(content.get("updated"), source)
        models = content.get("models")
        if not isinstance(models, Mapping):
            raise ValueError("prices have no `models`, names with their prices")  # noqa: TRY004
        self._source = source
        makers = content.get("makers")
        self._rows: dict[str, Any] = {}
        self._by_own_name: dict[str, str] = {}
        is_checked = source != "caller"
        for name, row in models.items():
            key = name.lower()
            self._rows[key] = row if is_checked else read_periods(name, row)
            host, _, tail = key.partition("/")
            if makers is None or host in makers:
                self._by_own_name.setdefault(_own(tail or host), key)
        self._periods = lru_cache(maxsize=1024)(self._read)

    def _read(self, key: str) -> tuple[Period, ...]:
        row = self._rows[key]
        return row if isinstance(row, tuple) else read_periods(key, row)

    def find(self, model: str, provider: str, at: dt.datetime) -> Priced | None:
        """The rates of `model`; None if it is not in the table."""
        key = next((key for key in self._keys(model, provider) if key in self._rows), None)
        if key is None:
            return None
        host, slash, name = key.partition("/")
        host, name = (host, name) if slash else ("", key)
        rates = rates_at(self._periods(key), at)
        return Priced(rates, name, host, self._source, self.date)

    def _keys(self, model: str, provider: str) -> Iterator[str]:
        name = model.strip().lower()
        head, _, tail = name.partition("/")
        if name.endswith(":free"):
            yield from (f"{provider}/{name}", name)
            return
        hosts = [PROVIDERS.get(it, it) for it in (provider, head if tail else "") if it]
        for text in (name, tail or name, _own(name), _undated(_own(name))):
            for host in hosts:
                yield f"{host}/{text}"
            yield text
        for text in (_own(name), _undated(_own(name))):
            if text in self._by_own_name:
                yield self._by_own_name[text]


def _own(name: str) -> str:
    return model_name(name).translate(DASHES)


def _undated(name: str) -> str:
    return _DATED.sub("", name)


def _utc(at: dt.datetime | None) -> dt.datetime:
    if at is None:
        return dt.datetime.now(dt.timezone.utc)
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
    if isinstance(rows, Mapping):
        return rows
    path = Path(rows)
    try:
        content = json.loads(path.read_text("utf-8"), parse_float=Decimal)
    except ValueError as error:
        raise ValueError(f"{path.name} is no JSON file: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(  # noqa: TRY004  # as for all that is wrong in a file
            f"{path.name} holds a {type(content).__name__}; it must be an object with `models`"
        )
    return content


def _nowhere(_model: str, _provider: str, _at: dt.datetime) -> None:
    return None


@cache
def bundled_table() -> _Table:
    """The table of this package."""
    content = read_table("prices")
    sources = ", ".join(f"{name} {version}" for name, version in content["sources"].items())
    return _Table(content, f"table of {sources}")


def check_table(content: Mapping[str, Any]) -> None:
    """Raises ValueError unless `content` can stand in for the table of this package."""
    if not isinstance(content.get("sources"), Mapping):
        raise ValueError("prices have no `sources`")  # noqa: TRY004
    for name, row in content["models"].items():
        read_periods(name, row)
    if bundled_table.cache_info().currsize:
        raise ValueError("prices: they are in use already; load newer tables before the first cost")


@cache
def default_prices() -> Prices:
    """The prices that `Estimate.cost` and `Usage.cost` go by."""
    return Prices()


@cache
def _genai_prices() -> Any:
    """The package, if it is installed."""
    try:
        import genai_prices
    except ImportError:
        return None
    return genai_prices


@lru_cache(maxsize=4096)
def _genai_model(model: str, provider: str) -> tuple[Any, Any] | None:
    """Provider and model of a name in genai-prices; None if it has no price."""
    package = _genai_prices()
    head, _, tail = model.partition("/")
    tries = [(provider, model), (provider, tail)] if provider else []
    tries += [(head, tail), ("", model), ("", tail), ("", model_name(model))]
    for host, name in tries:
        if not name:
            continue
        try:
            found = package.calc_price(package.Usage(), name, provider_id=host or None)
        except (LookupError, ValueError):
            continue
        return found.provider, found.model
    return None


def _from_genai_prices(model: str, provider: str, at: dt.datetime) -> Priced | None:
    found = _genai_model(model, provider)
    if found is None:
        return None
    host, about = found
    prices = about.get_prices(at)
    said = [name for name, it in vars(prices).items() if it is not None]
    if said and not any(name.endswith("_mtok") for name in said):
        return None  # by the hour, the page or the character
    free = (Tier(0, Decimal(0)),)
    rates = Rates(
        _tiers(prices.input_mtok) or free,
        _tiers(prices.cache_read_mtok),
        _tiers(prices.cache_write_mtok),
        _tiers(prices.cache_write_1h_mtok),
        _tiers(prices.output_mtok) or free,
        _request(prices.requests_kcount),
    )
    source = f"genai-prices {_genai_prices().__version__}"
    return Priced(rates, about.id, host.id, source, _genai_date())


def _request(price: Any) -> tuple[Tier, ...]:
    """The price of a million requests, of that of a thousand."""
    return tuple(Tier(it.above, it.price * 1000) for it in _tiers(price))


def _tiers(price: Any) -> tuple[Tier, ...]:
    """Tiers of a price of genai-prices."""
    if price is None:
        return ()
    base = getattr(price, "base", None)
    if base is None:
        return (Tier(0, price),)
    return (Tier(0, base), *(Tier(it.start, it.price) for it in price.tiers))


@cache
def _genai_date() -> str:
    """The day of the snapshot: that of the newest of its files."""
    from importlib import metadata

    path = Path(str(metadata.distribution("genai-prices").locate_file("genai_prices/data.py")))
    return dt.datetime.fromtimestamp(path.stat().st_mtime, dt.timezone.utc).date().isoformat()
