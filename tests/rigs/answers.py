"""What the estimator answers to cases of many kinds, as plain values.

`tests/data/answers` has the cases with the answers of the day that they name. They are no bills:
they say what the rules say, and a change of a rule shows in them. After one that is wanted, write
them anew and review what differs:

    python tests/rigs/answers.py
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import learned_constants
from agent_turns import SHAPES, edited_anywhere
from tokenctx import HybridTokenEstimator, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenctx import Estimate

Json = dict[str, Any]

DATA: Final = Path(__file__).parents[1] / "data" / "answers"
SECRET: Final = b"secret of the answers"
SEEDS: Final = range(5)
TURNS: Final = 12


def estimator(**options: Any) -> HybridTokenEstimator:
    return HybridTokenEstimator(secret=SECRET, clock=lambda: 0.0, **options)


def value(case: Json, name: str) -> Any:
    """What a case has under `name`; a text is JSON that not every parser reads."""
    return json.loads(case[name]) if isinstance(case[name], str) else case[name]


def counted(case: Json) -> Json:
    """The count of a request, and its bounds where nothing is known."""
    body, about = (
        value(case, "body"),
        {name: case.get(name) for name in ("model", "dialect", "provider")},
    )
    count, estimate = estimator().count_request(body, **about), estimator().estimate(body, **about)
    return {
        "profile": count.profile,
        "tokens": count.tokens,
        "context": count.context_tokens,
        "messages": list(count.message_tokens),
        "bounds": [estimate.low, estimate.high],
        "quality": count.quality,
        "assumptions": list(count.assumptions),
    }


def estimated(estimate: Estimate) -> list[Any]:
    """An estimate in a row: source, known and new tokens, new messages, bounds, assumptions."""
    numbers = (estimate.known_tokens, estimate.estimated_tokens, estimate.new_message_count)
    bounds = (estimate.low, estimate.high)
    return [estimate.source, *numbers, *bounds, estimate.quality, *estimate.assumptions]


def replayed(case: Json) -> list[Any]:
    """What is estimated before and after a request is recorded with its answer, and then more."""
    one = estimator(method=case["method"])
    billed, output, reasoning = case["usage"]
    usage = {"input_tokens": billed, "output_tokens": output}
    usage["output_tokens_details"] = {"reasoning_tokens": reasoning}
    first, reply = value(case, "body"), value(case, "reply")
    then = extended(first, reply)
    answers = [estimated(one.estimate(first)), one.record(first, usage, reply=reply)]
    answers += [estimated(one.estimate(first)), estimated(one.estimate(then))]
    answers.append(one.record(then, 2 * billed + 40))
    return [*answers, estimated(one.estimate(extended(then, reply)))]


def extended(body: Any, reply: Any) -> Any:
    """`body` with the message in `reply` and another of the user, where it has a list for them."""
    new = [reply, {"role": "user", "content": "go on"}]
    if isinstance(body, list):
        return [*body, *new]
    for name in ("messages", "contents", "input"):
        if isinstance(body, dict) and isinstance(body.get(name), list):
            return {**body, name: [*body[name], *new]}
    return body


def session(case: Json) -> list[Any]:
    """Estimates of a session of an agent, and of what becomes of it by edits; some are recorded."""
    turn, rest, field = SHAPES[case["shape"]]
    random_, one = random.Random(case["seed"]), estimator(capacity_bytes=1 << 18)
    messages: list[Json] = []
    answers: list[Any] = []
    for number in range(TURNS):
        messages += turn(random_, number)
        edited = list(messages)
        edited_anywhere(random_, edited)
        if random_.random() < 0.3:
            messages = edited
        bodies = [{**rest, field: list(messages)}, {**rest, field: edited}]
        answers += [estimated(one.estimate(body)) for body in bodies]
        if random_.random() < 0.8:
            one.record(bodies[0], one.count_request(bodies[0]).tokens * 11 // 10 + 300)
    stats = one.stats()
    return [*answers, [stats[name] for name in ("recorded", "known_prefixes", "known_shapes")]]


def learned(case: Json) -> list[Any]:
    """Estimates of a model whose constants are learned from call to call, and its wins."""
    one = estimator()
    answers: list[Any] = []
    for body, billed in learned_constants.calls(case["model"]):
        answers.append(estimated(one.estimate(body)))
        one.record(body, billed)
    wins = {model: about["wins"] for model, about in one.learned()["models"].items()}
    return [*answers, wins]


def or_refused(answer: Callable[[Json], Any]) -> Callable[[Json], Any]:
    """The answer, or the code of the error where the body is no request."""

    def answered(case: Json) -> Any:
        try:
            return answer(case)
        except (RequestError, TypeError) as error:
            return [getattr(error, "code", "TypeError")]

    return answered


KINDS: Final[dict[str, Callable[[Json], Any]]] = {
    "counts": or_refused(counted),
    "replays": or_refused(replayed),
    "sessions": session,
    "learning": learned,
}


def cases(kind: str) -> list[Json]:
    found: list[Json] = json.loads((DATA / f"{kind}.json").read_text("utf-8"))["cases"]
    return found


def main() -> None:
    """Write what is answered today into every file."""
    for kind, answer in KINDS.items():
        path = DATA / f"{kind}.json"
        content = json.loads(path.read_text("utf-8"))
        made = [{**case, "answer": answer(case)} for case in content["cases"]]
        head = ",\n".join(
            f'"{name}": {json.dumps(content[name])}' for name in ("about", "source", "date")
        )
        rows = ",\n".join(map(json.dumps, made))
        path.write_text(f'{{\n{head},\n"cases": [\n{rows}\n]}}\n', "utf-8")


if __name__ == "__main__":
    main()
