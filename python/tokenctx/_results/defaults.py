"""What a process uses where a call names nothing else; `configure` fills it, once, at the start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenctx._results.estimates import TextCounter


@dataclass(slots=True)
class Defaults:
    """Profiles as an engine takes them, and vocabularies by name."""

    profiles: str | None = None
    vocabularies: Mapping[str, TextCounter] = field(default_factory=dict)


DEFAULTS: Final = Defaults()
