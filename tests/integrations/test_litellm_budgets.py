"""Budgets of litellm: a reservation ends with its attempt, a refusal is quick and says when."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

import upstream
from gateway_rig import served
from tokenctx.money.budgets import Budget, Budgets, MemoryBudgetStore
from way_round import MANY, Answer, Books, Provider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from upstream import Upstream

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # its import asks the network else
pytest.importorskip("litellm_proxy_extras", reason="litellm[proxy]: dev.py clients has it")
litellm = pytest.importorskip("litellm", reason="litellm[proxy]: dev.py clients has it")

pytestmark = pytest.mark.filterwarnings("ignore")  # litellm's own

MESSAGES = [{"role": "user", "content": "Why is the sky of the budget blue?"}]

OTHER = [{"role": "user", "content": "And of another?"}]


@pytest.fixture(scope="module")
def provider() -> Iterator[Upstream]:
    with upstream.running() as running:
        yield running


def made(limit: int) -> tuple[Any, MemoryBudgetStore]:
    from tokenctx.integrations.litellm import TokenctxLogger

    store = MemoryBudgetStore()
    budgets = Budgets([Budget("b", tokens=limit, per="day")], store=store)
    return TokenctxLogger(budgets=budgets), store


@pytest.fixture
def callbacks() -> Iterator[list[Any]]:
    before, litellm.callbacks = litellm.callbacks, []
    yield litellm.callbacks
    litellm.callbacks = before
    for name in ("success_callback", "_async_success_callback", "input_callback"):
        getattr(litellm, name).clear()


def held(store: MemoryBudgetStore) -> int:
    return sum(len(ledger.held) for ledger in store._ledgers.values())


def booked(store: MemoryBudgetStore) -> int:
    return sum(ledger.used for ledger in store._ledgers.values())


def router(provider: Upstream, count: int = 1, **options: Any) -> Any:
    settings = {"model": "openai/gpt-4o", "api_base": f"{provider.url}/v1", "api_key": "none"}
    deployments = [{"model_name": "m", "litellm_params": dict(settings)} for _ in range(count)]
    return litellm.Router(model_list=deployments, **options)


async def logged() -> None:
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

    await asyncio.sleep(0)
    await GLOBAL_LOGGING_WORKER.flush()
    await asyncio.sleep(0.05)


@pytest.mark.parametrize("count", [1, 2])
def test_a_refusal_is_not_tried_again_and_says_when_to_come_back(
    provider: Upstream, callbacks: list[Any], count: int
) -> None:
    logger, _ = made(2_000)
    callbacks.append(logger)

    async def run() -> None:
        asked = router(provider, count, num_retries=2)
        began = time.monotonic()
        with pytest.raises(litellm.RateLimitError) as raised:
            await asked.acompletion("m", messages=MESSAGES, max_tokens=5_000)
        assert time.monotonic() - began < 2
        assert logger.counts["limited"] == 1
        assert "x-should-retry" in dict(raised.value.headers)
        await logged()
        await asked.acompletion("m", messages=MESSAGES, max_tokens=5)  # no deployment is left alone
        await logged()
        with pytest.raises(litellm.RateLimitError) as raised:
            await asked.acompletion("m", messages=OTHER, max_tokens=1_900)
        headers = dict(raised.value.headers)
        assert 0 < int(headers["retry-after"]) <= 86_400
        assert "x-ratelimit-limit-tokens" in headers

    asyncio.run(run())


def test_each_attempt_that_fails_gives_back(callbacks: list[Any]) -> None:
    logger, store = made(10**6)
    callbacks.append(logger)

    async def run() -> None:
        options: Any = {
            "model": "openai/gpt-4o",
            "api_base": "http://127.0.0.1:9",
            "api_key": "none",
        }
        deployments = [{"model_name": "m", "litellm_params": options}]
        asked = litellm.Router(model_list=deployments, num_retries=2, retry_after=0)
        with pytest.raises(Exception, match="onnection"):
            await asked.acompletion("m", messages=MESSAGES, max_tokens=500)
        await logged()

    asyncio.run(run())
    assert held(store) == 0
    assert booked(store) == 0


def test_attempts_that_share_what_litellm_keeps_give_back() -> None:
    """In the proxy the attempts of a call have one logging object, and one failure event."""
    httpx: Any = pytest.importorskip("httpx")
    import openai

    logger, store = made(10**6)

    class Kept:
        model_call_details: dict[str, Any] = {}  # noqa: RUF012

    async def run() -> None:
        kwargs = {"messages": MESSAGES, "model": "openai/gpt-4o", "litellm_logging_obj": Kept}
        for _ in range(3):
            await logger.async_pre_call_deployment_hook(
                {**kwargs, "max_tokens": 500}, "acompletion"
            )
            assert held(store) == 1
        request = httpx.Request("POST", "http://127.0.0.1")
        busy = openai.APIStatusError("", response=httpx.Response(500, request=request), body=None)
        Kept.model_call_details["exception"] = busy
        await logger.async_log_failure_event(Kept.model_call_details)

    asyncio.run(run())
    assert held(store) == 0
    assert booked(store) == 0


def test_what_litellm_counted_books_the_reservation_or_more(
    provider: Upstream, callbacks: list[Any]
) -> None:
    logger, store = made(10**6)
    callbacks.append(logger)

    async def run() -> None:
        messages = [{"role": "user", "content": f"{upstream.UNBILLED}why?"}]
        stream = await litellm.acompletion(
            "openai/gpt-4o",
            messages=messages,
            max_tokens=500,
            api_base=f"{provider.url}/v1",
            api_key="none",
            stream=True,
        )
        async for _ in stream:
            pass
        await logged()

    asyncio.run(run())
    assert booked(store) >= 500


def test_one_estimate_serves_all_deployments_of_a_model(
    provider: Upstream, callbacks: list[Any]
) -> None:
    logger, _ = made(10**6)
    callbacks.append(logger)

    async def run() -> None:
        await router(provider, 20).acompletion("m", messages=MESSAGES, max_tokens=5)
        await logged()

    asyncio.run(run())
    assert logger.estimator.stats()["estimated"] <= 2


def test_a_synchronous_call_says_loudly_that_it_has_no_budget(
    provider: Upstream, callbacks: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    logger, _ = made(1)
    callbacks.append(logger)
    litellm.completion(
        "openai/gpt-4o", messages=MESSAGES, api_base=f"{provider.url}/v1", api_key="none"
    )
    for _ in range(200):  # litellm logs in a thread of its own
        if logger.counts["unbudgeted"]:
            break
        time.sleep(0.05)
    assert logger.counts["unbudgeted"] == 1
    assert "went past the budgets" in caplog.text


WAYS: dict[str, tuple[Answer, dict[str, Any]]] = {
    "whole": (Answer(is_stream=False), {}),
    "whole, no usage": (Answer(50, "none", is_stream=False), {}),
    "whole, four": (Answer(50, is_stream=False, choices=4), {"n": 4}),
    "whole, four, no usage": (Answer(50, "none", is_stream=False, choices=4), {"n": 4}),
    "stream": (Answer(), {"stream": True}),
    "stream, no usage": (Answer(MANY, "none"), {"stream": True}),
    "stream, no usage, arguments": (Answer(MANY, "none", place="arguments"), {"stream": True}),
    "stream, four, no usage": (Answer(MANY, "none", choices=4), {"stream": True, "n": 4}),
    "cut": (Answer(MANY, "none", "cut"), {"stream": True}),
    "cut, four": (Answer(MANY, "none", "cut", choices=4), {"stream": True, "n": 4}),
    "the client leaves": (Answer(40, "none", "waits", at_once=10), {"stream": True}),
    "nothing comes": (Answer(50, ends="late"), {"timeout": 0.3}),
    "somebody was not patient": (Answer(50, ends="late"), {}),
    "an error": (Answer(ends="500"), {}),
    "busy": (Answer(ends="429"), {}),
}


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("name", WAYS)
def test_no_way_round(callbacks: list[Any], name: str, retries: int) -> None:
    """What a real provider has served behind litellm's router and nobody has booked is 0."""
    from tokenctx.integrations.litellm import TokenctxLogger

    answer, more = WAYS[name]
    books, provider = Books(lease_seconds=60), Provider()
    books.teach("", 1)
    callbacks.append(TokenctxLogger(budgets=books.budgets))

    async def run(url: str) -> None:
        options = {"model": "openai/gpt-4o", "api_base": f"{url}/v1", "api_key": "none"}
        deployments = [{"model_name": "m", "litellm_params": options}]
        asked = litellm.Router(model_list=deployments, num_retries=retries, retry_after=0)
        with contextlib.suppress(Exception):
            got = await asked.acompletion("m", messages=MESSAGES, max_tokens=MANY, **more)
            if "stream" in more:
                await read(got, leaves=answer.ends == "waits")
        await logged()

    async def read(stream: Any, *, leaves: bool) -> None:
        async for _ in stream:
            if leaves:
                await stream.aclose()
                return

    with served(provider) as url:
        provider.answer = answer
        asyncio.run(run(url))
    assert provider.calls >= 1
    for _ in range(200):
        if not books.held or answer.ends == "waits":
            break
        time.sleep(0.01)
    if answer.ends == "waits":  # litellm tells nobody of it: it is booked when its lease is over
        books.clock.now += 61
        books.budgets.balance("b")
    assert books.booked >= provider.served
    assert provider.served or answer.ends in ("500", "429")
    assert books.booked == 0 or provider.served


@pytest.mark.parametrize("fallback", ["of the router", "of the provider"])
def test_a_bill_is_that_of_the_model_that_answered(callbacks: list[Any], fallback: str) -> None:
    from tokenctx.integrations.litellm import TokenctxLogger

    store, provider = MemoryBudgetStore(), Provider()
    budgets = Budgets([Budget("b", money="100", by="model")], store=store)
    logger = TokenctxLogger(budgets=budgets)
    callbacks.append(logger)
    claude = "claude-sonnet-4-5"

    def router_of(url: str) -> Any:
        shared = {"api_base": f"{url}/v1", "api_key": "none"}
        models = [
            {"model_name": name, "litellm_params": {"model": f"openai/{name}", **shared}}
            for name in ("gpt-4o", claude)
        ]
        fallbacks = [{"gpt-4o": [claude]}]
        return litellm.Router(model_list=models, num_retries=0, fallbacks=fallbacks)

    async def run(url: str) -> None:
        await router_of(url).acompletion("gpt-4o", messages=MESSAGES, max_tokens=50)
        await logged()

    with served(provider) as url:
        answer = Answer(20, is_stream=False, model=claude)
        provider.answers = [answer]
        if fallback == "of the router":
            provider.answers = [Answer(ends="500"), answer]
        asyncio.run(run(url))
    body = {"messages": MESSAGES, "max_tokens": 50}
    of_claude = logger.estimator.estimate(body, model=claude, dialect="openai-chat")
    of_gpt = logger.estimator.estimate(body, model="gpt-4o", dialect="openai-chat")
    assert (of_claude.source, of_gpt.source) == ("exact", "estimated")
    assert held(store) == 0
    prompt = provider.served - 20
    assert booked(store) == 3_000 * prompt + 15_000 * 20, "dollars of Sonnet, in billionths"


def test_what_is_counted_is_in_the_metrics(provider: Upstream, callbacks: list[Any]) -> None:
    from tokenctx import HybridTokenEstimator, Metrics
    from tokenctx.integrations.litellm import TokenctxLogger

    metrics = Metrics()
    rows = Budgets([Budget("b", tokens=2_000, per="day")])
    logger = TokenctxLogger(HybridTokenEstimator(metrics=metrics), budgets=rows)
    callbacks.append(logger)

    async def run() -> None:
        asked = router(provider)
        await asked.acompletion("m", messages=MESSAGES, max_tokens=5)
        with pytest.raises(litellm.RateLimitError):
            await asked.acompletion("m", messages=MESSAGES, max_tokens=5_000)
        await logged()

    asyncio.run(run())
    logger.log_success_event({"call_type": "completion", "cache_hit": True}, None, 0, 0)
    seen = metrics.snapshot()
    assert seen["tokenctx.budget.requests"] == {("granted", ""): 1, ("refused", "b"): 1}
    assert seen["tokenctx.calls.missed"] == {
        ("litellm_unbudgeted",): 1,
        ("litellm_cached",): 1,
    }
