"""How far estimates of edited and branched conversations are from their bills.

    python3 dev.py study edits calls.jsonl.gz sessions.jsonl.gz

**Recorded**: pairs of calls of one project that share messages, of which the later does not
extend the earlier one. The one, and its own earlier turns, are recorded; the other is estimated;
its bill is the truth. Of several such calls the one that shares most is taken.

**Made** from recorded sessions, out of their own steps. A step is what came between two calls: the
reply, results, what the user said. What it was billed for is the difference of the two bills, so a
conversation with steps taken out or exchanged has a bill without any count of ours. What a cleared
result had cost is its step less the output of the reply; the cleared one, and an added system
prompt or tool, are counted. The logs lack system prompt and tools; to be fair, plain counting is
told what they cost: the bill of the first call less its count.

Three ways on the same requests, those that were estimated by difference: that estimate; the deepest
known prefix and a count; a count of all. Errors are absolute, in percent of the bill.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenctx import HybridTokenEstimator
from tokenctx._cli.evaluation.evaluation import Unusable, numbered_lines, read_call
from tokenctx._cli.evaluation.recordings import (
    MESSAGE_FIELDS,
    UNBILLED_FIELDS,
    message_list,
    read_recording,
    truncated,
)
from tokenctx._cli.evaluation.replay import quantile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenctx._cli.evaluation.evaluation import RecordedCall
    from tokenctx._results.estimates import Estimate, RequestCount

Json = dict[str, Any]
CLEARED: Final = "[Old tool result content cleared]"
SYSTEM: Final = "You are a careful assistant. It is Monday. " * 20
TOOL: Final = {"name": "ask", "description": "Asks the user.", "input_schema": {"type": "object"}}
KEPT_STEPS: Final = 3
"""Steps whose results an agent leaves alone when it clears old ones."""
MOMENTS: Final = 16
"""Turns of a session at which it is edited."""
WAYS: Final = ("difference", "prefix", "counting")
MOST_SHARED: Final = 300
"""A message that more calls of a project have says nothing about their nearness."""


@dataclass(slots=True)
class Pattern:
    """What one kind of edit came to."""

    requests: int = 0
    in_bounds: int = 0
    errors: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, estimate: Estimate, prefix: int, counted: int, billed: int) -> None:
        """Errors are those of estimates by difference; the others are not about edits."""
        self.requests += 1
        if {"edited_history", "changed_context"}.isdisjoint(estimate.assumptions):
            return
        answers = {"difference": estimate.tokens, "prefix": prefix, "counting": counted}
        for name, tokens in answers.items():
            self.errors[name].append(100 * abs(tokens - billed) / billed)
        self.in_bounds += estimate.low <= billed <= estimate.high


Patterns = dict[str, Pattern]


def prefix_tokens(known: list[tuple[int, int]], count: RequestCount) -> int:
    """The answer from the longest of `known`, numbers of messages and bills; else the count."""
    if not known:
        return count.tokens
    length, billed = max(known)
    return billed + sum(count.message_tokens[length:])


# Recorded edits


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded call, its messages as digests."""

    call: RecordedCall
    context: bytes
    messages: tuple[bytes, ...]
    sizes: dict[bytes, int]

    def extends(self, other: Recorded) -> bool:
        head = self.messages[: len(other.messages)]
        return self.context == other.context and head == other.messages


def digest(value: object) -> bytes:
    """Identity of what is billed in a JSON value."""
    text = json.dumps(billed_part(value), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def billed_part(value: object) -> object:
    if isinstance(value, dict):
        return {key: billed_part(it) for key, it in value.items() if key not in UNBILLED_FIELDS}
    return [billed_part(it) for it in value] if isinstance(value, list) else value


def recorded(path: Path) -> Iterator[tuple[tuple[str, ...], Recorded]]:
    """The calls of a file, each with what it shares its known conversations with."""
    blank = HybridTokenEstimator(learning=False)
    for number, line, _ in numbered_lines(path):
        try:
            call = read_call(number, line)
        except Unusable:
            continue
        body = call.body if isinstance(call.body, dict) else json.loads(call.body)
        rest = {name: body[name] for name in body if "system" in name.lower() or name == "tools"}
        context = digest({**rest, "instructions": body.get("instructions")})
        sizes = {digest(it): len(json.dumps(it)) for it in message_list(body)}
        messages = tuple(digest(it) for it in message_list(body))
        profile = blank.count_request(body, **names(call)).profile
        key = call.group, call.provider, call.api, profile, call.model
        yield key, Recorded(call, context, messages, sizes)


def names(call: RecordedCall) -> Json:
    return {"model": call.model or None, "dialect": call.dialect, "provider": call.provider}


def nearest(call: Recorded, others: Sequence[Recorded]) -> Recorded | None:
    """The one of `others` that shares most with `call`, less what it has besides."""
    best, found = 0, None
    for other in others:
        if other is call or call.extends(other):
            continue
        shared = call.sizes.keys() & other.sizes.keys()
        left = other.sizes.keys() - shared
        gain = sum(call.sizes[it] for it in shared) - sum(other.sizes[it] for it in left)
        if gain > best:
            best, found = gain, other
    return found


def kind(one: Recorded, other: Recorded) -> str:
    """What `other` changed of `one`."""
    if one.context != other.context:
        return "system prompt, tools"
    pairs = zip(one.messages, other.messages, strict=False)
    same = next((at for at, (a, b) in enumerate(pairs) if a != b), None)
    if same is None:
        return "back to an earlier turn"
    is_rest_shared = set(one.messages[same:]) & set(other.messages[same:])
    return "in between" if is_rest_shared else "from a turn on"


def measure_recorded(path: Path) -> Patterns:
    patterns: Patterns = defaultdict(Pattern)
    projects: dict[tuple[str, ...], list[Recorded]] = defaultdict(list)
    for key, one in recorded(path):
        projects[key].append(one)
    for calls in projects.values():
        having: dict[bytes, list[Recorded]] = defaultdict(list)
        for one in calls:
            for message in one.sizes:
                having[message].append(one)
        for call in calls:
            lists = [having[it] for it in call.sizes if len(having[it]) <= MOST_SHARED]
            others = {id(it): it for found in lists for it in found}
            if before := nearest(call, list(others.values())):
                pattern = patterns[kind(before, call)]
                measure_pair(pattern, call, before, list(others.values()))
    return patterns


def measure_pair(
    pattern: Pattern, call: Recorded, before: Recorded, others: Sequence[Recorded]
) -> None:
    estimator = HybridTokenEstimator()
    history = [it for it in others if it is not call and before.extends(it)]
    for one in sorted(history, key=lambda it: len(it.messages)):
        estimator.record(one.call.body, one.call.billed_tokens, **names(one.call))
    estimator.record(before.call.body, before.call.billed_tokens, **names(before.call))
    estimate = estimator.estimate(call.call.body, **names(call.call))
    count = estimator.count_request(call.call.body, **names(call.call))
    known = [
        (len(it.messages), it.call.billed_tokens)
        for it in history
        if call.extends(it) and len(count.message_tokens) == len(call.messages)
    ]
    billed = call.call.billed_tokens
    pattern.add(estimate, prefix_tokens(known, count), count.tokens, billed)


# Made edits


@dataclass(frozen=True, slots=True)
class Step:
    """What came with one call of a session: messages, their bill, the whole body and its bill."""

    messages: list[Json]
    tokens: int
    output_tokens: int
    """Of the reply among them; 0 if that is not known."""
    body: Json
    billed: int


def sessions(path: Path) -> Iterator[tuple[str, list[Step]]]:
    """Stretches of the recorded sessions in which each call extends the one before."""
    for conversation in read_recording(path).conversations:
        steps: list[Step] = []
        output = 0
        for turn in conversation.turns:
            body, billed = json.loads(turn.body), turn.billed.input_tokens
            messages = message_list(body)
            if not steps or turn.relation != "extends":
                if len(steps) > MOMENTS:
                    yield conversation.name, steps
                steps = []
            before = steps[-1] if steps else None
            known, known_billed = (
                (len(message_list(before.body)), before.billed) if before else (0, 0)
            )
            steps.append(Step(messages[known:], billed - known_billed, output, body, billed))
            output = turn.billed.output_tokens if turn.reply else 0
        if len(steps) > MOMENTS:
            yield conversation.name, steps


def made_edits(
    steps: list[Step], at: int, counts: RequestCounts
) -> Iterator[tuple[str, Json, int]]:
    """Edits of the conversation after step `at`: their name, the body and its bill."""
    now, half, third = steps[at], at // 2, at // 3
    other = max(steps[1:half], key=lambda step: abs(step.tokens))
    yield "last turn made anew", *joined(now.body, [*steps[:at], other])
    yield (
        "a turn in the middle",
        *joined(now.body, [*steps[:half], other, *steps[half + 1 : at + 1]]),
    )
    yield "head trimmed", *joined(now.body, [steps[0], *steps[third + 1 : at + 1]])
    cleared = [cleared_step(step, counts) for step in steps[1 : at + 1 - KEPT_STEPS]]
    yield (
        "old results cleared",
        *joined(now.body, [steps[0], *cleared, *steps[at + 1 - KEPT_STEPS : at + 1]]),
    )
    for name, change in (("system prompt", {"system": SYSTEM}), ("tool added", {"tools": [TOOL]})):
        more = counts.context({**now.body, **change}) - counts.context(now.body)
        yield name, {**now.body, **change}, now.billed + more


def joined(body: Json, steps: Sequence[Step]) -> tuple[Json, int]:
    messages = [message for step in steps for message in step.messages]
    return truncated(body, messages), sum(step.tokens for step in steps)


class RequestCounts:
    """Counts of parts of requests to one model."""

    def __init__(self) -> None:
        self._blank = HybridTokenEstimator(learning=False)

    def __call__(self, body: Json) -> RequestCount:
        return self._blank.count_request(body)

    def context(self, body: Json) -> int:
        """What stands around the messages."""
        return self._blank.count_request(body).context_tokens


def cleared_step(step: Step, counts: RequestCounts) -> Step:
    """`step` with its results cleared, if the log says what they were billed for."""
    messages = copy.deepcopy(step.messages)
    results = [it for it in messages if clear(it)]
    if not results or step.output_tokens == 0 or len(messages) != 2:
        return step
    body = truncated(step.body, messages)
    tokens = step.output_tokens + counts(body).message_tokens[-1]
    return Step(messages, min(step.tokens, tokens), step.output_tokens, body, step.billed)


def clear(message: Json) -> bool:
    """Clears the tool results in `message`; whether it had any."""
    if message.get("role") == "tool":
        message["content"] = CLEARED
        return True
    content = message.get("content")
    found = (
        [it for it in content if it.get("type") == "tool_result"]
        if isinstance(content, list)
        else []
    )
    for part in found:
        part["content"] = CLEARED
    return bool(found)


def measure_made(path: Path) -> Patterns:
    patterns: Patterns = defaultdict(Pattern)
    counts = RequestCounts()
    for _, steps in sessions(path):
        estimator = HybridTokenEstimator()
        hidden = steps[0].billed - counts(steps[0].body).tokens
        moments = {1 + len(steps) * nth // MOMENTS for nth in range(4, MOMENTS)}
        for at, step in enumerate(steps):
            estimator.record(step.body, step.billed)
            if at not in moments:
                continue
            for name, body, billed in made_edits(steps, at, counts):
                count = counts(body)
                known = known_prefixes(steps[: at + 1], body)
                counted = count.tokens + hidden
                prefix = prefix_tokens(known, count) if known else counted
                patterns[name].add(estimator.estimate(body), prefix, counted, billed)
    return patterns


def known_prefixes(steps: Sequence[Step], body: Json) -> list[tuple[int, int]]:
    """Recorded calls that `body` extends: how many messages, and the bill."""
    fields = {*MESSAGE_FIELDS}
    rest = {name: value for name, value in body.items() if name not in fields}
    messages, found = message_list(body), []
    for step in steps:
        own = message_list(step.body)
        is_same = {name: it for name, it in step.body.items() if name not in fields} == rest
        if is_same and own == messages[: len(own)]:
            found.append((len(own), step.billed))
    return found


# Report


def rows(patterns: Patterns) -> Iterator[Json]:
    for name, pattern in patterns.items():
        errors, total = pattern.errors, len(pattern.errors["difference"])
        row: Json = {"pattern": name, "N": pattern.requests, "by difference": total}
        for way in WAYS:
            row[f"{way}: median %"] = percent(quantile(errors[way], 0.5))
            row[f"{way}: p90 %"] = percent(quantile(errors[way], 0.9))
            row[f"{way}: mean %"] = percent(sum(errors[way]) / total if total else None)
        yield {**row, "in bounds %": percent(100 * pattern.in_bounds / total if total else None)}


def percent(number: float | None) -> float | None:
    return None if number is None else round(number, 2)


def show(title: str, patterns: Patterns) -> None:
    print(f"\n{title} edits\n")
    for number, row in enumerate(rows(patterns)):
        if number == 0:
            print("| " + " | ".join(row) + " |\n| ---" + " | --:" * (len(row) - 1) + " |")
        print("| " + " | ".join(map(cell, row.values())) + " |")


def cell(value: object) -> str:
    if value is None:
        return "-"
    return (
        f"{value:.2f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("calls", type=Path, help="recorded calls, as `tokenctx eval` reads them")
    parser.add_argument("sessions", type=Path, help="recorded sessions, as `tokenctx replay` does")
    parser.add_argument("--json", action="store_true", help="JSON instead of tables")
    options = parser.parse_args()
    found = {
        "recorded": measure_recorded(options.calls),
        "made": measure_made(options.sessions),
    }
    for patterns in found.values():
        all_of = Pattern()
        for pattern in patterns.values():
            all_of.requests += pattern.requests
            all_of.in_bounds += pattern.in_bounds
            for way, errors in pattern.errors.items():
                all_of.errors[way] += errors
        patterns["all"] = all_of
    if options.json:
        json.dump({title: list(rows(it)) for title, it in found.items()}, sys.stdout, indent=1)
        return
    for title, patterns in found.items():
        show(title, patterns)


if __name__ == "__main__":
    main()
