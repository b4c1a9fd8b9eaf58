"""The caching rules of each provider, from `data/caching.json`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, Literal

from tokenctx._results.tables import DASHES, read_table

Kind = Literal["marked", "exact", "automatic"]

_DEFAULT: Final[dict[str, Any]] = {
    "providers": (),
    "other_providers": (),
    "models": (),
    "lookback_blocks": None,
    "block_tokens": 1,
    "write_lifetimes": (),
    "is_write_billed": False,
}


@dataclass(frozen=True, slots=True, eq=False)  # each is one of the table, and hashed by that
class Rule:
    """How one provider caches prefixes.

    Attributes:
        name: What forecasts name it by.
        kind: `marked` (up to marks in the request), `exact` (the same, and the end of each request
            as well), `automatic` (whatever was sent before, best effort).
        vendors: Makers of the models, in the words of `profiles.json`.
        providers: Who answers; empty is all but `other_providers`.
        other_providers: Who does not answer so.
        models: Beginnings of the names of the models; empty is all.
        minimum_tokens: Shorter prefixes are not cached.
        block_tokens: What is read is a multiple of this.
        lookback_blocks: Blocks of content before a mark in which an earlier end is found.
        lifetime_seconds: Kept for so long after the last use, unless the request says otherwise.
        longest_seconds: Perhaps kept for so long.
        share: The part of the calls behind a live prefix that read it, before anything is learned.
        is_write_billed: Whether what is written has a price of its own.
    """

    name: str
    kind: Kind
    vendors: tuple[str, ...]
    providers: tuple[str, ...]
    other_providers: tuple[str, ...]
    models: tuple[str, ...]
    minimum_tokens: int
    block_tokens: int
    lookback_blocks: int | None
    lifetime_seconds: int
    longest_seconds: int
    share: float
    is_write_billed: bool

    def applies(self, model: str, vendor: str, provider: str) -> bool:
        """True if a call of this model is cached so."""
        if vendor not in self.vendors and provider not in self.providers:
            return False
        if provider in self.other_providers or (
            self.providers and provider and provider not in self.providers
        ):
            return False
        return not self.models or model.translate(DASHES).startswith(self.models)


@cache
def _table() -> Any:
    return read_table("caching")


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, the first that applies counts."""
    names = Rule.__dataclass_fields__
    rows = _table()["rules"]

    def rule(row: dict[str, Any]) -> Rule:
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in {**_DEFAULT, **row}.items()
            if name in names
        }
        return Rule(**fields)

    return tuple(map(rule, rows))


@lru_cache(maxsize=1024)
def rule_of(model: str, vendor: str, provider: str) -> Rule | None:
    """How a call of this model is cached; None if that is not known."""
    return next((it for it in rules() if it.applies(model, vendor, provider)), None)


@lru_cache(maxsize=1024)
def minimum_tokens(rule: Rule, model: str) -> int:
    """The shortest prefix of `model` that is cached."""
    of_models: dict[str, int] = _table()["minimum_tokens"]
    model = model.translate(DASHES)
    name = next((model[:end] for end in range(len(model), 0, -1) if model[:end] in of_models), "")
    return of_models.get(name, rule.minimum_tokens)
