"""Results: small, frozen, comparable, picklable; no text of a message in any of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Source = Literal["exact", "delta", "estimated"]
Quality = Literal["exact", "calibrated", "heuristic"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Input tokens that a request is expected to be billed for."""

    tokens: int
    source: Source
    known_tokens: int
    estimated_tokens: int
    new_message_count: int
    quality: Quality
    low: int
    high: int
    assumptions: tuple[str, ...]
    dialect: str
    model: str
    profile: str
    context_window_tokens: int | None


@dataclass(frozen=True, slots=True)
class RequestCount:
    """Input tokens of a request, counted here part by part."""

    tokens: int
    context_tokens: int
    message_tokens: tuple[int, ...]
    dialect: str
    model: str
    profile: str
    encoding: str
    quality: Quality
    assumptions: tuple[str, ...]
