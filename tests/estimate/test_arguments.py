"""A wrong argument is named, with its value, the limit and the way out; a result is a dict too."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest

import tokenctx
from tokenctx import (
    ContextWindow,
    ContextWindowScaler,
    ConversationStateTracker,
    HybridTokenEstimator,
    normalize_usage,
)
from tokenctx.context import model_limits
from tokenctx.usage import agent_hints

if TYPE_CHECKING:
    from collections.abc import Callable

BODY = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}
NAN = float("nan")


def made(**settings: Any) -> Callable[[], object]:
    return lambda: HybridTokenEstimator(**settings)


def asked(**names: Any) -> Callable[[], object]:
    return lambda: HybridTokenEstimator().estimate(BODY, **names)


def scaler(*windows: Any, **more: Any) -> Callable[[], object]:
    return lambda: ContextWindowScaler(*windows, **more)


def learning(learned: Any) -> Callable[[], object]:
    return lambda: HybridTokenEstimator().learn(learned)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (asked(model=5), TypeError, "model is of type int; it must be str"),
        (asked(provider=b"x"), TypeError, "provider is of type bytes; it must be str"),
        (asked(tenant=5), TypeError, "tenant is of type int; it must be str or bytes"),
        (asked(dialect="latin"), ValueError, "latin.*openai-chat"),
        (lambda: model_limits(5), TypeError, "model is of type int; it must be str"),  # type: ignore[arg-type]
        (lambda: ContextWindow(5), TypeError, "model is of type int; it must be str"),  # type: ignore[arg-type]
        (made(secret=b""), ValueError, r"secret is empty.*secrets\.token_bytes"),
        (made(secret=["word"]), TypeError, "secret is of type list; it must be bytes"),
        (made(ttl_seconds=0), ValueError, "ttl_seconds is 0; it must be above 0"),
        (made(ttl_seconds=NAN), ValueError, "ttl_seconds is nan; it must be above 0"),
        (made(ttl_seconds="1"), TypeError, "ttl_seconds is of type str; it must be a number"),
        (made(method="guess"), ValueError, "guess.*profile, universal, characters"),
        (made(chars_per_token=["4"]), TypeError, "characters per token is of type list"),
        (made(provider_overrides=5), TypeError, "provider_overrides is of type int.* a mapping"),
        (made(vocabularies=[]), TypeError, "vocabularies is of type list; it must be a mapping"),
        (made(on_accuracy=5), TypeError, "on_accuracy is of type int; it must be callable"),
        (made(clock=5), TypeError, "clock is of type int; it must be callable"),
        (
            made(shared=object(), secret=bytes(32)),
            TypeError,
            r"shared is a builtins.object, which has no is_async.*RedisPrefixStore\(client\)",
        ),
        (learning([]), ValueError, "version is None; it must be 1"),
        (learning({"version": 1}), ValueError, "models is of type NoneType"),
        (learning({"version": 1, "models": [1]}), ValueError, "models is of type list"),
        (scaler("128k"), TypeError, "real window is of type str; it must be a whole number"),
        (scaler(-1), ValueError, "real window is -1 tokens; it must be at least 0"),
        (
            scaler(2**64),
            ValueError,
            "real window is 18446744073709551616.*at most",
        ),
        (scaler(5, 0), ValueError, "assumed window is 0 tokens; it must be at least 1"),
        (lambda: agent_hints("m", None), TypeError, "window is of type NoneType"),  # type: ignore[arg-type]
        (lambda: agent_hints("m", 0), ValueError, "window is 0 tokens; it must be at least 1"),
        (lambda: agent_hints(5, 5), TypeError, "model is of type int; it must be str"),  # type: ignore[arg-type]
        (
            lambda: pickle.dumps(HybridTokenEstimator()),
            TypeError,
            r"cannot be pickled: make one in each process.*export_known\(\)",
        ),
    ],
)
def test_a_wrong_argument_is_named(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_raw_client_is_to_be_wrapped() -> None:
    redis = pytest.importorskip("redis")
    with redis.Redis() as client, pytest.raises(TypeError, match=r"RedisPrefixStore\(client\)"):
        HybridTokenEstimator(shared=client, secret=bytes(32))


def test_an_estimator_is_true_and_tells_no_content() -> None:
    estimator, scaling = HybridTokenEstimator(), ContextWindowScaler(1000)
    assert estimator
    assert len(estimator) == 0
    estimator.record(BODY, 50, tenant="the tenant")
    assert repr(estimator) == "<HybridTokenEstimator profile, 1 known prefixes>"
    assert repr(scaling) == "<ContextWindowScaler 1000 as 200000>"


def results() -> list[Any]:
    estimator = HybridTokenEstimator()
    window = ContextWindow("gpt-4o", estimator=estimator)
    usage = {"prompt_tokens": 9, "completion_tokens": 1}
    event = estimator.record_event(BODY, usage, tenant=b"\xff")
    tracker = ConversationStateTracker()
    return [
        estimator.estimate(BODY),
        estimator.count_request(BODY),
        event,
        estimator.record_event(BODY, {}),
        *estimator.accuracy().values(),
        model_limits("gpt-4o"),
        normalize_usage(usage),
        ContextWindowScaler(1000).scale({"prompt_tokens": 9}),
        window.usage(BODY),
        window.trim(BODY, 1),
        window.prune(BODY),
        window.retain(BODY),
        tracker.lookup(BODY["messages"], "gpt-4o"),
        *tokenctx.convert_messages({**BODY, "seed": 1}, to="anthropic").losses,
        tokenctx.context.parse_overflow("maximum context length is 10 tokens. You requested 20"),
    ]


@pytest.mark.parametrize("index", range(len(results())))
def test_a_result_is_a_dict_that_json_takes(index: int) -> None:
    result = results()[index]
    values = result.as_dict()
    assert json.loads(json.dumps(values)) == values
    assert set(result.__dataclass_fields__) <= values.keys()


def test_an_estimate_as_a_dict_has_what_is_computed() -> None:
    values = HybridTokenEstimator().estimate(BODY).as_dict()
    assert values["window_tokens"] == values["limits"]["window_tokens"] == 128_000
    assert values["method"] == "estimated"


# The event loop


class Counter:
    """A vocabulary that tells which thread it counts in."""

    name = "mine"

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def count(self, text: str, /) -> int:
        self.threads.add(threading.get_ident())
        return len(text)


@pytest.mark.parametrize("form", ["bytes", "dict", "parts", "many"])
@pytest.mark.parametrize("is_large", [True, False])
def test_what_is_large_is_counted_in_a_thread(form: str, is_large: bool) -> None:  # noqa: FBT001
    text = "word " * (20_000 if is_large else 20)
    messages: list[Any] = [{"role": "user", "content": text}]
    if form == "parts":
        messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    if form == "many":
        messages = [{"role": "user", "content": "hi"}] * (400 if is_large else 4)
    body: Any = {"model": "gpt-4o", "messages": messages}
    if form == "bytes":
        body = json.dumps(body).encode()
    counter, other = Counter(), Counter()
    one = HybridTokenEstimator(vocabularies={"gpt-4o": counter}, learning=False)
    two = HybridTokenEstimator(vocabularies={"gpt-4o": other}, learning=False)

    async def main() -> None:
        assert await one.aestimate(body) == two.estimate(body)
        assert await one.arecord(body, 70) == two.record(body, 70)
        assert (await one.aestimate(body)).source == "exact"

    asyncio.run(main())
    assert (threading.get_ident() not in counter.threads) == is_large


def test_a_large_body_of_which_little_is_new_needs_no_thread() -> None:
    messages = [{"role": "user", "content": f"{number} " * 5_000} for number in range(12)]
    body: dict[str, Any] = {"model": "gpt-4o", "messages": messages}
    new, long = {"role": "user", "content": "more"}, {"role": "user", "content": "word " * 20_000}
    estimator = HybridTokenEstimator()

    async def main() -> None:
        assert await estimator.arecord(json.dumps(body).encode(), 120_000)
        loop = asyncio.get_running_loop()
        await loop.shutdown_default_executor()  # which has no threads any more
        for more, needs_thread in (([new], False), ([long], True)):
            text = json.dumps({**body, "messages": [*messages, *more]}).encode()
            for work in (estimator.aestimate(text), estimator.arecord(text, 120_100)):
                if needs_thread:
                    with pytest.raises(RuntimeError, match="shutdown"):
                        await work
                else:
                    assert await work

    asyncio.run(main())


def test_a_large_estimate_is_cancelled_at_once() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Counter):
        def count(self, text: str, /) -> int:
            begun.set()
            go_on.wait(60)
            return len(text)

    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "word " * 20_000}]}
    estimator = HybridTokenEstimator(vocabularies={"gpt-4o": Slow()})

    async def main() -> None:
        work = asyncio.ensure_future(estimator.aestimate(body))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert not go_on.is_set(), "nobody waited for the count"
        go_on.set()

    asyncio.run(main())
    assert estimator.estimate(body).tokens > 0
