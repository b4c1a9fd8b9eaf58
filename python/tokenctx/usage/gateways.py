"""Facts that a gateway tells beside an answer: its own sum, its own cache, the model that has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tokenctx.usage.reading import MAX_WORD, TABLE, dollars_of, member

if TYPE_CHECKING:
    from decimal import Decimal

Headers = Mapping[str, str] | Mapping[bytes, bytes] | Iterable[tuple[Any, Any]]
"""Headers of an answer as any library has them: a mapping, or pairs of text or bytes."""
_GATEWAYS: Final[dict[str, Any]] = TABLE["gateways"]
_LITELLM: Final = "litellm"
HIDDEN: Final = "_hidden_params"
"""Where objects of litellm have what its proxy tells by headers."""


def _names(row: dict[str, Any]) -> list[str]:
    words = (row.get(it) for it in ("cost", "model", "group", "fallbacks"))
    return [*filter(None, words), *row["cached"]]


_NAMES: Final = frozenset(name for row in _GATEWAYS.values() for name in _names(row))


class Told(NamedTuple):
    """The facts that a gateway has told.

    Attributes:
        by: Its name.
        cost: What it reckons that the call cost, in dollars; None if it does not say.
        is_cached: Whether its own cache has answered, so that no provider was asked; not if it
            reckons that the call cost something.
        model: The model that has answered; empty if it does not say.
    """

    by: str
    cost: Decimal | None = None
    is_cached: bool = False
    model: str = ""


def told_by_headers(headers: Headers | None) -> Told | None:
    """The facts in the headers of an answer; None if they are of no gateway that is known."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    found: dict[str, str] = {}
    for key, value in pairs:
        name = _text(key).lower()
        if name in _NAMES:
            found[name] = _text(value).strip()
    if not found:
        return None
    for by, row in _GATEWAYS.items():
        if found.keys().isdisjoint(_names(row)):
            continue
        is_cached = any(
            found.get(name, "") != "" and found[name].lower().endswith(word)
            for name, word in row["cached"].items()
        )
        fallbacks = found.get(row.get("fallbacks"), "0")
        model = found.get(row.get("model"), "")
        if not model and fallbacks.isdecimal() and int(fallbacks[:MAX_WORD]) > 0:
            model = found.get(row.get("group"), "")
        cost = dollars_of(found.get(row.get("cost")), "1")
        return Told(by, cost, is_cached and not cost, model[: 4 * MAX_WORD])
    return None


def told_by_object(answer: object) -> Told | None:
    """The facts in an object of litellm; None of any other."""
    hidden = member(answer, HIDDEN)
    if hidden is None:
        return None
    cost, is_cached = dollars_of(member(hidden, "response_cost"), "1"), member(hidden, "cache_hit")
    if cost is None and is_cached is not True:
        return None
    return Told(_LITELLM, cost, is_cached is True)


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
