"""How near the bill of another model is, for calls that both models have answered.

    python3 dev.py study other_model calls.jsonl.gz ...

A pair is two recorded calls of one project with the same messages and different models: one is
recorded, the other estimated, its bill is the truth. Two ways: a count, and the other bill. Pairs
are told apart by whether the request tells its size (determined) or not. `nearer` and `farther`
count pairs in which the other bill is nearer to the truth than the count, or farther; errors are
absolute, in percent of the bill. The estimate follows the other bill where the request does not
tell its size, and nowhere else.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tokenctx import HybridTokenEstimator
from tokenctx._cli.evaluation.evaluation import Unusable, numbered_lines, read_call
from tokenctx._cli.evaluation.replay import quantile
from tokenctx._core import _request_view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenctx._cli.evaluation.evaluation import RecordedCall


@dataclass(slots=True)
class Errors:
    """Errors of the pairs of one kind, in percent, by way; and what became of the bounds."""

    count: list[float] = field(default_factory=list)
    bill: list[float] = field(default_factory=list)
    followed: int = 0
    in_bounds: int = 0


def groups(paths: list[Path]) -> Iterator[list[RecordedCall]]:
    """Calls of one project with the same messages."""
    found: dict[tuple[str, str], list[RecordedCall]] = defaultdict(list)
    for path in paths:
        for number, line, _ in numbered_lines(path):
            try:
                call = read_call(number, line)
            except Unusable:
                continue
            view = json.loads(_request_view(call.body, model=call.model, dialect=call.dialect))
            view = {name: view[name] for name in view if name not in {"model", "dialect"}}
            found[call.group, json.dumps(view, sort_keys=True)].append(call)
    yield from found.values()


def measure(paths: list[Path]) -> dict[str, Errors]:
    """By whether the request tells its size."""
    kinds: dict[str, Errors] = defaultdict(Errors)
    plain = HybridTokenEstimator(learning=False)
    for group in groups(paths):
        counted = [plain.estimate(call.body, **call.names) for call in group]
        for (first, _), (second, own) in itertools.permutations(
            zip(group, counted, strict=True), 2
        ):
            if first.model == second.model:
                continue
            estimator = HybridTokenEstimator(learning=False)
            estimator.record(first.body, first.billed_tokens, **first.names)
            estimate = estimator.estimate(second.body, **second.names)
            if estimate.source != "estimated":
                continue  # both are of one profile
            truth = second.billed_tokens
            is_followed = "other_model_bill" in estimate.assumptions
            is_told = own.quality != "heuristic" or own.assumptions == ("unknown_model",)
            errors = kinds["determined" if is_told and not is_followed else "undetermined"]
            errors.count.append(100 * abs(own.tokens - truth) / truth)
            errors.bill.append(100 * abs(first.billed_tokens - truth) / truth)
            errors.followed += is_followed
            errors.in_bounds += estimate.low <= truth <= estimate.high
    return kinds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("calls", type=Path, nargs="+")
    print(f"{'':13}{'pairs':>8}{'nearer':>8}{'farther':>8}{'count %':>9}{'bill %':>9}", end="")
    print(f"{'followed':>10}{'in bounds %':>13}")
    for kind, errors in sorted(measure(parser.parse_args().calls).items()):
        pairs = list(zip(errors.count, errors.bill, strict=True))
        nearer = sum(bill < count for count, bill in pairs)
        farther = sum(bill > count for count, bill in pairs)
        medians = [quantile(it, 0.5) for it in (errors.count, errors.bill)]
        share = 100 * errors.in_bounds / len(pairs)
        print(f"{kind:13}{len(pairs):8}{nearer:8}{farther:8}", end="")
        print(f"{medians[0]:9.1f}{medians[1]:9.1f}{errors.followed:10}{share:13.1f}")


if __name__ == "__main__":
    main()
