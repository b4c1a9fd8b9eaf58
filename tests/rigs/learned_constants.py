"""Calls that are billed by other constants than those of the package."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from tokenctx import HybridTokenEstimator
from tokenctx._estimate.profiles import bundled_profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORDS = "the agent reads a file, finds 3 errors and calls fetch_page(url='x') again\n".split(" ")
NUMBERS = (
    *("request_tokens", "message_tokens", "system_tokens", "tools_tokens"),
    *("tool_tokens", "tools_permille", "call_tokens", "result_tokens"),
)


def text(random_: random.Random, words: int) -> str:
    return " ".join(random_.choices(WORDS, k=words))


def tool(random_: random.Random, index: int) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"url": {"type": "string"}}}
    function = {"name": f"tool_{index}", "description": text(random_, 12), "parameters": schema}
    return {"type": "function", "function": function}


def conversation(random_: random.Random, model: str) -> dict[str, Any]:
    """A request of a few turns, sometimes with tools and calls."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": text(random_, 40)}]
    tools = [tool(random_, index) for index in range(random_.choice((0, 0, 1, 3, 8)))]
    for turn in range(random_.randrange(1, 6)):
        messages.append({"role": "user", "content": text(random_, random_.randrange(5, 300))})
        if tools:
            function = {"name": "tool_0", "arguments": json.dumps({"url": "x" * turn})}
            call = {"id": f"call_{turn}", "type": "function", "function": function}
            result = text(random_, random_.randrange(200))
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"call_{turn}", "content": result},
            ]
        messages.append({"role": "assistant", "content": text(random_, 60)})
    body: dict[str, Any] = {"model": model, "messages": messages}
    return {**body, "tools": tools} if tools else body


def biller(model: str, random_: random.Random | None = None) -> Callable[[Any], int]:
    """What counts by the constants of `model`; with `random_`, each is 20 % more or less."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    name = HybridTokenEstimator().count_request(body).profile
    row, changed = bundled_profiles()[name], {}
    if random_ is not None:
        factors = {number: random_.choice((0.8, 1.2)) for number in (*NUMBERS, "text_numerator")}
        changed = {
            number: round(row[number] * factors[number]) for number in NUMBERS if number in row
        }
        numerator, denominator = row.get("text_numerator", 1), row.get("text_denominator", 1)
        changed["text_numerator"] = round(numerator * 10 * factors["text_numerator"])
        changed["text_denominator"] = denominator * 10
    estimator = HybridTokenEstimator(profiles={"name": name, **changed})
    return lambda body: estimator.count_request(body).tokens


def calls(model: str) -> Iterator[tuple[dict[str, Any], int]]:
    """30 conversations, each after a beginning of it, with what they are billed."""
    random_ = random.Random(model)
    bill = biller(model, random_)
    for _ in range(30):
        body = conversation(random_, model)
        end = random_.randrange(1, len(body["messages"]) + 1)
        for part in ({**body, "messages": body["messages"][:end]}, body):
            yield part, bill(part) + random_.choice((0, 0, 0, 900))
