"""Long sessions of agents, made by the vendors' public rules on reasoning: the next total is near.

OpenAI bills encrypted reasoning items while the model works on the user's turn and drops them with
the next one; DeepSeek does so with `reasoning_content`. The bills here are counts of what is
visible, and as many tokens of reasoning as nobody can tell from its text.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

import tokenctx
from generated_conversations import text

Json = dict[str, Any]
TURNS, STEPS = 5, 12
SYSTEM = "You edit files. " * 300


@dataclass
class Responses:
    """A session of Codex: encrypted reasoning between calls."""

    model: str = "gpt-5.1-codex"
    items: list[Json] = field(default_factory=lambda: [{"role": "developer", "content": SYSTEM}])

    def body(self, items: list[Json]) -> Json:
        return {"model": self.model, "input": items}

    def user(self, said: str) -> None:
        self.items.append({"role": "user", "content": said})

    def reply(self, random_: random.Random, number: int) -> list[Json]:
        blob = "".join(random_.choices("abcdefgh", k=random_.randint(400, 6000)))
        name, arguments = "shell", f'{{"command": "{text(random_)[:40]!a}"}}'.replace("'", "")
        return [
            {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": blob},
            {
                "type": "function_call",
                "call_id": f"c{number}",
                "name": name,
                "arguments": arguments,
            },
        ]

    def result(self, random_: random.Random, number: int) -> None:
        output = text(random_, 400)
        self.items.append(
            {"type": "function_call_output", "call_id": f"c{number}", "output": output}
        )

    def answer(self, items: list[Json]) -> Json:
        return {"output": items}

    def visible(self, items: list[Json]) -> list[Json]:
        return [item for item in items if item.get("type") != "reasoning"]

    def usage(self, tokens: int, output: int, reasoning: int) -> Json:
        details = {"reasoning_tokens": reasoning}
        return {"input_tokens": tokens, "output_tokens": output, "output_tokens_details": details}


@dataclass
class DeepSeek(Responses):
    """A loop of DeepSeek: readable reasoning beside the calls."""

    model: str = "deepseek-reasoner"
    items: list[Json] = field(default_factory=lambda: [{"role": "system", "content": SYSTEM}])

    def body(self, items: list[Json]) -> Json:
        return {"model": self.model, "messages": items}

    def reply(self, random_: random.Random, number: int) -> list[Json]:
        call = {"id": f"c{number}", "type": "function"}
        function = {"name": "bash", "arguments": '{"command": "ls"}'}
        said = {"role": "assistant", "content": text(random_, 5)}
        thought = text(random_, 600) + "."
        return [
            {**said, "reasoning_content": thought, "tool_calls": [{**call, "function": function}]}
        ]

    def result(self, random_: random.Random, number: int) -> None:
        content = text(random_, 400)
        self.items.append({"role": "tool", "tool_call_id": f"c{number}", "content": content})

    def answer(self, items: list[Json]) -> Json:
        return {"choices": [{"message": items[0]}]}

    def visible(self, items: list[Json]) -> list[Json]:
        names = {"reasoning_content"}
        return [{key: it for key, it in item.items() if key not in names} for item in items]

    def usage(self, tokens: int, output: int, reasoning: int) -> Json:
        details = {"reasoning_tokens": reasoning}
        names = {"prompt_tokens": tokens, "completion_tokens": output}
        return {**names, "completion_tokens_details": details}


def errors(session: Responses, seed: int) -> tuple[list[float], list[float]]:
    """By how many percent the next total was off, within turns and at turns of the user."""
    random_, estimator = random.Random(seed), tokenctx.HybridTokenEstimator(learning=False)
    within: list[float] = []
    at_turns: list[float] = []

    def count(items: list[Json]) -> int:
        return int(estimator.count_request(session.body(session.visible(items))).tokens)

    number = 0
    for turn in range(TURNS):
        session.user(text(random_) + "?")
        held = 0
        for step in range(STEPS):
            billed = count(session.items) + held
            if turn or step:
                estimate = estimator.estimate(session.body(session.items))
                off = 100 * abs(estimate.tokens - billed) / billed
                (within if step else at_turns).append(off)
            reasoning, reply = random_.randint(50, 2500), session.reply(random_, number)
            output = count([*session.items, *reply]) - count(session.items) + reasoning
            usage = session.usage(billed, output, reasoning)
            body = session.body(list(session.items))
            assert estimator.record(body, usage, reply=session.answer(reply))
            held += reasoning
            session.items += reply
            session.result(random_, number)
            number += 1
    return within, at_turns


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", [Responses, DeepSeek])
def test_the_next_total_is_near_also_where_reasoning_is_dropped(
    kind: type[Responses], seed: int
) -> None:
    within, at_turns = errors(kind(), seed)
    assert len(at_turns) == TURNS - 1
    assert max(within) <= 2
    assert max(at_turns) <= 2
