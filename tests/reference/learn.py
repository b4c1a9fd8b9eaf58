"""Learning: what recorded calls tell about the constants of a model; see `src/learn.rs`."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import astuple, dataclass, field
from typing import Final

PRIOR_SPREAD: Final = (20.0, 0.15, 3.0, 0.3, 150.0, 8.0, 15.0, 0.5, 0.5)
MAX_SURPRISE: Final = 3.0
MEMORY: Final = 0.98
NOISE: Final = (1.0, 0.01, 0.02)
MAX_LEAD: Final = 8
MAX_NUMBER: Final = 1e6
MODELS: Final = 1024

Row = list[float]


@dataclass(frozen=True)
class Features:
    """What was counted, by what the constants of a profile apply to."""

    requests: int = 0
    text_tokens: int = 0
    messages: int = 0
    tools_tokens: int = 0
    tool_sets: int = 0
    tools: int = 0
    calls: int = 0
    schema_tokens: int = 0
    media_tokens: int = 0

    def vector(self) -> Row:
        """The numbers in their order."""
        return [float(min(number, 1 << 40)) for number in astuple(self)]


@dataclass(frozen=True)
class Lesson:
    """One recorded call, as far as it was counted."""

    model: str
    features: Features
    counted: int
    billed: int
    derived: int
    handicap: int


def prior() -> list[Row]:
    """The covariance before anything is recorded."""
    size = range(len(PRIOR_SPREAD))
    return [
        [PRIOR_SPREAD[row] * PRIOR_SPREAD[row] if row == column else 0.0 for column in size]
        for row in size
    ]


def dot(left: Row, right: Row) -> float:
    """Sum of products, from the first to the last."""
    total = 0.0
    for a, b in zip(left, right, strict=True):
        total = total + a * b
    return total


def bounded(counted: int, surplus: float) -> int:
    """`counted` and `surplus`, rounded and bounded."""
    corrected = int(max(0.0, math.floor(float(counted) + surplus + 0.5)))
    return min(max(corrected, counted // 4), counted * 4 + 1000)


@dataclass
class Learner:
    """The corrections of one model."""

    lead: int
    corrections: Row = field(default_factory=lambda: [0.0] * len(PRIOR_SPREAD))
    covariance: list[Row] = field(default_factory=prior)

    def corrected(self, features: Features, counted: int) -> int:
        """`counted` tokens after correction."""
        if self.lead <= 0:
            return counted
        return bounded(counted, dot(self.corrections, features.vector()))

    def learn(self, lesson: Lesson) -> None:
        """Learn from one call."""
        features = lesson.features.vector()
        surplus = dot(self.corrections, features)
        corrected = abs(bounded(lesson.counted, surplus) - lesson.billed)
        plain = abs(lesson.counted - lesson.billed)
        won = (corrected < plain) - (corrected > plain)
        self.lead = min(max(self.lead + won, -MAX_LEAD), MAX_LEAD)

        spread = [dot(row, features) for row in self.covariance]
        token, counted, derived = NOISE
        noise = token + counted * float(lesson.counted) + derived * float(lesson.derived)
        variance = dot(features, spread) + noise * noise
        limit = MAX_SURPRISE * math.sqrt(variance)
        surprise = float(lesson.billed) - float(lesson.counted) - surplus
        surprise = min(max(surprise, -limit), limit)
        start = prior()
        for row, row_spread in enumerate(spread):
            gain = row_spread / variance
            self.corrections[row] += gain * surprise
            for column, column_spread in enumerate(spread):
                known = self.covariance[row][column] - gain * column_spread
                self.covariance[row][column] = MEMORY * known + (1.0 - MEMORY) * start[row][column]

    def export(self) -> tuple[int, Row]:
        """Lead, corrections and covariance, row by row."""
        return self.lead, self.corrections + [number for row in self.covariance for number in row]


def imported(lead: int, numbers: Row) -> Learner | None:
    """What `Learner.export` gave; None if the numbers cannot be such."""
    size = len(PRIOR_SPREAD)
    if len(numbers) != size + size * size or not all(abs(it) <= MAX_NUMBER for it in numbers):
        return None
    rows = [numbers[at : at + size] for at in range(size, len(numbers), size)]
    return Learner(min(max(lead, -MAX_LEAD), MAX_LEAD), numbers[:size], rows)


class Learners(OrderedDict[str, Learner]):
    """The corrections of many models, bounded; the least recently used goes first."""

    def used(self, model: str) -> Learner | None:
        """The learner of `model`."""
        learner = super().get(model)
        if learner is not None:
            self.move_to_end(model)
        return learner

    def put(self, model: str, learner: Learner) -> None:
        """Set the learner of `model`."""
        self[model] = learner
        self.move_to_end(model)
        if len(self) > MODELS:
            self.popitem(last=False)

    def learn(self, lesson: Lesson) -> None:
        """Learn from one call."""
        learner = self.used(lesson.model) or Learner(-lesson.handicap)
        learner.learn(lesson)
        self.put(lesson.model, learner)
