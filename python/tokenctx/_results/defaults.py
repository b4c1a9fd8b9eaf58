"""What a process uses where a call names nothing else; `configure` fills it, once, at the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenctx._results.estimates import TextCounter


@dataclass(slots=True)
class Defaults:
    """Profiles as an engine takes them, vocabularies by name, other names of models."""

    profiles: str | None = None
    vocabularies: Mapping[str, TextCounter] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    fallbacks: Mapping[str, Sequence[str]] = field(default_factory=dict)


DEFAULTS: Final = Defaults()


def checked_aliases(aliases: Mapping[str, str]) -> dict[str, str]:
    """Names of one's own and the models that they stand for. Raises ValueError for what is none."""
    if not isinstance(aliases, Mapping):
        raise ValueError(f"aliases is a {type(aliases).__name__}; {_ALIASES}")  # noqa: TRY004
    for alias, model in aliases.items():
        if not (_is_name(alias) and _is_name(model)):
            raise ValueError(f"aliases has {alias!r}: {model!r}; {_ALIASES}")
    return dict(aliases)


def checked_fallbacks(fallbacks: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Models and those that stand in for them. Raises ValueError for what is none."""
    if not isinstance(fallbacks, Mapping):
        raise ValueError(f"fallbacks is a {type(fallbacks).__name__}; {_FALLBACKS}")  # noqa: TRY004
    for model, others in fallbacks.items():
        is_list = isinstance(others, (list, tuple)) and all(map(_is_name, others))
        if not (_is_name(model) and is_list and model not in others):
            raise ValueError(f"fallbacks has {model!r}: {others!r}; {_FALLBACKS}")
    return {model: tuple(others) for model, others in fallbacks.items()}


_ALIASES: Final = 'it must have names of models by yours, as {"fast": "gpt-4o-mini"}'
_FALLBACKS: Final = 'it must have lists of other models by model, as {"gpt-4": ["gpt-4.1"]}'


def _is_name(it: object) -> bool:
    return isinstance(it, str) and bool(it)
