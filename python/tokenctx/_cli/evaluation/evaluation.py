"""Recorded calls scored: what would have been estimated, beside what was billed."""

from __future__ import annotations

import heapq
import json
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.chat_form import chat_form
from tokenctx._cli.evaluation.recordings import (
    API_DIALECTS,
    DOUBLE,
    Doubles,
    is_transcript_at,
    message_list,
    read_recording,
    restored,
    truncated,
)
from tokenctx._cli.evaluation.replay import quantile, replay
from tokenctx._cli.evaluation.strata import (
    DELTA,
    DELTA_TOKENS,
    POOLS,
    STRATA,
    Pool,
    stratum_of,
    vendor_of,
)
from tokenctx._cli.files import lines_of
from tokenctx._estimate.estimator import HybridTokenEstimator
from tokenctx._results.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tokenctx._cli.evaluation.peers import Peer
    from tokenctx._cli.evaluation.strata import Stratum
    from tokenctx._results.estimates import Dialect, Estimate, TextCounter

Json = dict[str, Any]

STAND_IN_MARKS: Final = (b'"_image"', b'"_file"', b'"_media"')
LATEST: Final = 2.0**32
"""Seconds since the epoch; what is later is another unit."""
SHARES: Final = (("exact", 0.0), ("within_2", 2.0), ("within_5", 5.0), ("within_10", 10.0))


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One recorded call as it is scored: the body, and what is known about it.

    Attributes:
        line: Number of its line in the file.
        created: When it was answered, in seconds since the epoch; None if unknown.
        body: The request, its media restored.
        known: The first messages of the body and what was billed for them, if a turn is known.
    """

    line: int
    id: str
    group: str
    provider: str
    api: str
    model: str
    created: float | None
    stratum: Stratum
    billed_tokens: int
    body: Json
    dialect: Dialect | None
    known: tuple[Json, int] | None = None

    @property
    def names(self) -> Json:
        """The arguments of an estimate beside the body."""
        return {
            "model": self.model or None,
            "dialect": self.dialect,
            "provider": self.provider or None,
        }


@dataclass(frozen=True, slots=True)
class Score:
    """A billed total beside an estimate; percent are of the billed tokens."""

    billed_tokens: int
    tokens: int
    low: int
    high: int

    @property
    def percent(self) -> float:
        """The error, positive if too much was estimated."""
        return 100 * (self.tokens - self.billed_tokens) / self.billed_tokens

    @property
    def is_covered(self) -> bool:
        """True if the billed total is within the bounds."""
        return self.low <= self.billed_tokens <= self.high


class Scores(list[Score]):
    """Scores of several calls."""

    def as_json(self) -> Json:
        """Their figures; all but `n` are null where there is none. Shares are in percent."""
        errors = [score.percent for score in self]
        sizes = [abs(error) for error in errors]
        return {
            "n": len(self),
            **{name: _share([size <= most for size in sizes]) for name, most in SHARES},
            "mape": _mean(sizes),
            "median": _rounded(quantile(sizes, 0.5)),
            "p90": _rounded(quantile(sizes, 0.9)),
            "signed_mean": _mean(errors),
            "coverage": _share([score.is_covered for score in self]),
        }


def _mean(numbers: list[float]) -> float | None:
    return _rounded(sum(numbers) / len(numbers)) if numbers else None


def _share(hits: list[bool]) -> float | None:
    return _rounded(100 * sum(hits) / len(hits)) if hits else None


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


@dataclass(slots=True)
class Filter:
    """Which calls are scored; None is any. `model` is a part of the name."""

    provider: str | None = None
    api: str | None = None
    model: str | None = None
    stratum: str | None = None

    def holds(self, call: RecordedCall) -> bool:
        """True if `call` is one of them."""
        return (
            self.provider in {None, call.provider}
            and self.api in {None, call.api}
            and self.stratum in {None, call.stratum}
            and (self.model is None or self.model in call.model)
        )


NOT_COMPARABLE: Final = (
    "a call that goes on from none, in a transcript: its system prompt is missing"
)


class Unusable(Exception):  # noqa: N818  # no error: a line that is left out
    """Why a line cannot be scored, without text of it."""


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Each line of the file with its number and the bytes of the file that are read.

    A packed file is unpacked. Raises OSError, EOFError, zlib.error or FileError.
    """
    for number, (line, position) in enumerate(lines_of(path), 1):
        if line.strip():
            yield number, line, position


def read_call(number: int, line: bytes) -> RecordedCall:
    """The recorded call in a line. Raises Unusable for one that cannot be scored."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise Unusable("no JSON") from None
    if not isinstance(record, dict) or not isinstance(record.get("request"), dict):
        raise Unusable("no JSON object with a `request`")
    billed = record.get("input_tokens")
    if type(billed) is not int or billed <= 0:
        raise Unusable("no `input_tokens` above 0")
    try:
        return _call(number, record, has_stand_ins=any(mark in line for mark in STAND_IN_MARKS))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise Unusable(f"a field of the wrong type ({type(error).__name__})") from None
    except Error:
        raise Unusable("a request beyond a limit") from None


def _call(number: int, record: Json, *, has_stand_ins: bool) -> RecordedCall:
    body = restored(record["request"]) if has_stand_ins else record["request"]
    api, model = str(record.get("api") or ""), record.get("request_model") or record.get("model")
    model, dialect = str(model or ""), API_DIALECTS.get(api)
    return RecordedCall(
        number,
        str(record.get("id") or ""),
        str(record.get("group") or ""),
        str(record.get("provider") or ""),
        api,
        model,
        _seconds(record.get("created")),
        stratum_of(record.get("features"), body, model or None, dialect),
        record["input_tokens"],
        body,
        dialect,
        _known(record.get("prev"), body),
    )


def _seconds(created: object) -> float | None:
    if isinstance(created, str):
        try:
            created = datetime.fromisoformat(created[:10] + "T00:00:00+00:00").timestamp()
        except ValueError:
            return None
    return created if isinstance(created, (int, float)) and 0 < created < LATEST else None


def _known(previous: object, body: Json) -> tuple[Json, int] | None:
    """The turn that the recording says was billed before, of the same system prompt and tools."""
    if not isinstance(previous, dict) or not previous.get("same_context"):
        return None
    count, tokens = previous["n_items"], previous["input_tokens"]
    messages = message_list(body)
    if not 0 < count <= len(messages) or not tokens:
        return None
    return truncated(body, messages[:count]), tokens


def plain_estimator(vocabularies: Mapping[str, TextCounter] | None = None) -> HybridTokenEstimator:
    """An estimator that knows nothing and learns nothing, so that every call is scored alike."""
    return HybridTokenEstimator(vocabularies=vocabularies, learning=False)


@dataclass(slots=True)
class Scorer:
    """Estimates recorded calls, each with nothing known; and again from the turn before."""

    estimator: HybridTokenEstimator = field(default_factory=plain_estimator)

    def estimate(self, call: RecordedCall) -> Estimate:
        """The estimate for `call` with nothing known. Raises Unusable beyond a limit."""
        try:
            return self.estimator.estimate(call.body, **call.names)
        except Error:
            raise Unusable("a request beyond a limit") from None

    def delta(self, call: RecordedCall) -> Estimate | None:
        """The estimate from the turn before, if that is known.

        Its reply is not in the recording: it is counted like all that is new.
        """
        if call.known is None:
            return None
        body, tokens = call.known
        self.estimator.record(body, tokens, **call.names)
        estimate = self.estimator.estimate(call.body, **call.names)
        self.estimator.reset()
        return estimate


def score_of(call: RecordedCall, estimate: Estimate) -> Score:
    """The bill of `call` beside its estimate."""
    return Score(call.billed_tokens, estimate.tokens, estimate.low, estimate.high)


def era_of(call: RecordedCall) -> str:
    """The quarter in which a call was answered."""
    if call.created is None:
        return "unknown"
    day = datetime.fromtimestamp(call.created, timezone.utc)
    return f"{day.year} Q{(day.month + 2) // 3}"


ROWS: Final[dict[str, Callable[[RecordedCall, Estimate], str]]] = {
    "provider": lambda call, _: f"{call.provider} {call.api}".strip(),
    "model": lambda call, _: call.model,
    "family": lambda _, estimate: estimate.profile,
    "group": lambda call, _: call.group,
    "era": lambda call, _: era_of(call),
}
"""The key that the calls of a row share, beside their stratum."""


@dataclass(slots=True)
class Tally:
    """Scores of one way of counting as they come in: by row and stratum, and by pool.

    A row is what its calls share, by name (a key of `ROWS`) and value.
    """

    rows: dict[tuple[str, str, Stratum], Scores] = field(
        default_factory=lambda: defaultdict(Scores)
    )
    pools: dict[str, Scores] = field(
        default_factory=lambda: {pool.name: Scores() for pool in (*POOLS, DELTA)}
    )
    failed_count: int = 0

    def add(self, rows: Mapping[str, str], call: RecordedCall, score: Score) -> None:
        """Count the score of `call` in."""
        for by, row in rows.items():
            self.rows[by, row, call.stratum].append(score)
        vendor = vendor_of(call.provider, call.api, call.model)
        for pool in POOLS:
            if pool.holds(vendor, call.api, call.stratum):
                self.pools[pool.name].append(score)

    def sorted_rows(self, by: str) -> list[tuple[str, Stratum, Scores]]:
        """The rows that share `by`, by its value, in the order of the strata."""
        order = {stratum: place for place, stratum in enumerate(STRATA)}
        keys = sorted((key for key in self.rows if key[0] == by), key=lambda it: order[it[2]])
        return [(it[1], it[2], self.rows[it]) for it in sorted(keys, key=lambda it: it[1])]

    def sorted_pools(self) -> list[tuple[Pool, Scores]]:
        """The promised pools with their scores, in the order of the promises."""
        return [(pool, self.pools[pool.name]) for pool in (*POOLS, DELTA)]


@dataclass(slots=True)
class Evaluation:
    """The outcome: our scores, those of other counters, and the largest misses.

    Attributes:
        by: What the calls of a row share; keys of `ROWS`.
        worst_count: How many misses are kept.
        estimator: What is scored; it learns nothing.
        peers: Other counters to be scored on the same calls.
        skipped: Lines that were not scored, by reason.
    """

    by: tuple[str, ...] = ("provider",)
    worst_count: int = 0
    estimator: HybridTokenEstimator = field(default_factory=plain_estimator)
    peers: list[Peer] = field(default_factory=list)
    own: Tally = field(default_factory=Tally)
    of_peers: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    worst: list[tuple[float, int, RecordedCall, Estimate]] = field(default_factory=list)
    skipped: dict[str, list[int]] = field(default_factory=dict)
    record_count: int = 0
    seconds: float = 0.0

    def add(self, call: RecordedCall, estimate: Estimate, delta: Estimate | None) -> None:
        """Count the estimates for `call` in."""
        score, rows = score_of(call, estimate), {by: ROWS[by](call, estimate) for by in self.by}
        self.record_count += 1
        self.own.add(rows, call, score)
        if delta and call.stratum != "undetermined":
            self.own.pools[DELTA.name].append(score_of(call, delta))
        if call.stratum != "undetermined":
            self._keep_if_worst(abs(score.percent), call, estimate)
        if self.peers:
            self._compare(rows, call)

    def _keep_if_worst(self, percent: float, call: RecordedCall, estimate: Estimate) -> None:
        heapq.heappush(self.worst, (percent, call.line, call, estimate))
        if len(self.worst) > self.worst_count:
            heapq.heappop(self.worst)

    def _compare(self, rows: Mapping[str, str], call: RecordedCall) -> None:
        form = chat_form(call.body, call.model, call.dialect)
        for peer in self.peers:
            tally = self.of_peers[peer.title]
            try:
                tokens = peer.count(form)
            except Exception:  # whatever a request makes it raise is its score
                tally.failed_count += 1
            else:
                tally.add(rows, call, Score(call.billed_tokens, tokens, tokens, tokens))


def evaluate(
    path: Path, which: Filter, evaluation: Evaluation, advance_to: Callable[[int], None]
) -> None:
    """Score every call in the file at `path`; a line that cannot be scored is counted and named.

    Raises OSError, EOFError or zlib.error for a file that cannot be read.
    """
    scorer, start = Scorer(evaluation.estimator), time.perf_counter()
    if is_transcript_at(path):
        _evaluate_turns(path, which, evaluation)
        evaluation.seconds += time.perf_counter() - start
        return
    doubles = Doubles()
    for number, line, position in numbered_lines(path):
        try:
            call = read_call(number, line)
            if doubles.hold(call.id or call.created, line):
                evaluation.skipped.setdefault(DOUBLE, []).append(number)
            elif which.holds(call):
                is_long = call.known is not None and call.known[1] >= DELTA_TOKENS
                delta = scorer.delta(call) if is_long else None
                evaluation.add(call, scorer.estimate(call), delta)
        except Unusable as reason:
            evaluation.skipped.setdefault(str(reason), []).append(number)
        advance_to(position)
    evaluation.seconds += time.perf_counter() - start


def _evaluate_turns(path: Path, which: Filter, evaluation: Evaluation) -> None:
    """Score the turns of transcripts that go on from a call: nothing else can be compared.

    System prompt and tools are missing. Raises RecordingError for one without a billed call.
    """
    recording = read_recording(path)
    for conversation in recording.conversations:
        if which.provider not in {None, conversation.provider}:
            continue
        for turn in replay(conversation):
            found = turn.estimate
            if found.source == "estimated":
                evaluation.skipped.setdefault(NOT_COMPARABLE, []).append(turn.number)
                continue
            score = Score(turn.billed_tokens, found.tokens, found.low, found.high)
            evaluation.record_count += 1
            evaluation.own.pools[DELTA.name].append(score)
    for reason, count in recording.skipped.items():
        evaluation.skipped.setdefault(reason, []).extend([0] * count)
