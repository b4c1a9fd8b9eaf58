"""litellm's SDK with the callback and with our counter; the provider is a local one."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

import upstream
from tokenctx import HybridTokenEstimator
from tokenctx.context import parse_overflow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from upstream import Upstream

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # its import asks the network else
pytest.importorskip("litellm_proxy_extras", reason="litellm[proxy]: dev.py clients has it")
litellm = pytest.importorskip("litellm", reason="litellm[proxy]: dev.py clients has it")

pytestmark = pytest.mark.filterwarnings("ignore")  # litellm's own

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Why is the sky of the SDK blue?"},
]
PRIVATE = "a private question of a tenant"


@pytest.fixture(scope="module")
def provider() -> Iterator[Upstream]:
    with upstream.running() as running:
        yield running


@pytest.fixture
def logger() -> Iterator[Any]:
    from tokenctx.integrations.litellm import TokenctxLogger

    made, before = TokenctxLogger(), litellm.callbacks
    litellm.callbacks = [made]
    yield made
    litellm.callbacks = before
    for name in ("success_callback", "_async_success_callback", "input_callback"):
        getattr(litellm, name).clear()


def asked(provider: Upstream, **options: Any) -> dict[str, Any]:
    given = {"model": "openai/gpt-4o", "messages": MESSAGES, "api_key": "none", "max_retries": 0}
    return {**given, "api_base": f"{provider.url}/v1", **options}


async def called(provider: Upstream, *, times: int = 1, **options: Any) -> list[Any]:
    """The answers; litellm has logged them when this returns."""
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

    answers = []
    for _ in range(times):
        answer = await litellm.acompletion(**asked(provider, **options))
        if options.get("stream"):
            answer = [chunk async for chunk in answer]
        answers.append(answer)
        await asyncio.sleep(0)
        await GLOBAL_LOGGING_WORKER.flush()
    return answers


def estimate(logger: Any, messages: list[Any]) -> Any:
    return logger.estimator.estimate({"model": "openai/gpt-4o", "messages": messages})


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_asynchronous_call_is_recorded(
    provider: Upstream, logger: Any, *, is_stream: bool
) -> None:
    options: dict[str, Any] = {"stream": is_stream, "stream_options": {"include_usage": True}}
    asyncio.run(called(provider, **options))
    assert logger.counts["recorded"] == 1
    assert estimate(logger, MESSAGES).tokens == provider.bills[-1]
    reply = {"role": "assistant", "content": upstream.answer_text(provider.bodies[-1])}
    more = [*MESSAGES, reply, {"role": "user", "content": "And red?"}]
    later = estimate(logger, more)
    assert (later.source, later.new_message_count) == ("delta", 1)
    assert later.tokens == upstream.billed_tokens({"model": "gpt-4o", "messages": more})


def test_a_synchronous_call_is_recorded(provider: Upstream, logger: Any) -> None:
    litellm.completion(**asked(provider))
    for _ in range(200):  # litellm logs in a thread of its own
        if logger.counts["recorded"]:
            break
        __import__("time").sleep(0.05)
    found = estimate(logger, MESSAGES)
    assert (found.source, found.tokens) == ("exact", provider.bills[-1])


def test_what_litellms_cache_answers_is_no_bill(
    provider: Upstream, logger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litellm, "cache", litellm.Cache(type="local"))
    asyncio.run(called(provider, times=2, caching=True))
    assert (logger.counts["recorded"], logger.counts["cached"]) == (1, 1)


def test_redacted_messages_are_not_recorded_and_are_counted(
    provider: Upstream, logger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litellm, "turn_off_message_logging", True)
    asyncio.run(called(provider))
    assert (logger.counts["recorded"], logger.counts["redacted"]) == (0, 1)
    assert len(logger.estimator) == 0


def test_what_is_too_long_is_refused_before_it_is_sent(provider: Upstream, logger: Any) -> None:
    sent = len(provider.bodies)
    long = [{"role": "user", "content": f"{PRIVATE} " * 5_000}]
    with pytest.raises(litellm.ContextWindowExceededError) as caught:
        asyncio.run(called(provider, model="openai/gpt-4", messages=long))
    overflow = parse_overflow(caught.value)
    assert overflow is not None
    assert overflow.limit_tokens == 8_192
    assert PRIVATE not in str(caught.value)
    assert (len(provider.bodies), logger.counts["refused"]) == (sent, 1)


def test_calls_are_reserved_in_budgets_and_settled(provider: Upstream, logger: Any) -> None:
    from tokenctx.money.budgets import Budget, Budgets

    logger.budgets = Budgets([Budget("day", tokens=5_000, per="day", by="tenant")])
    asyncio.run(called(provider, max_tokens=100))
    assert logger.budgets.stats() == {"granted": 1, "settled": 1}
    [ledger] = logger.budgets._store._ledgers.values()
    answer = litellm.token_counter(text=upstream.answer_text(provider.bodies[-1]))
    assert provider.bills[-1] < ledger.used <= provider.bills[-1] + 2 * answer
    with pytest.raises((litellm.APIConnectionError, litellm.InternalServerError)):
        asyncio.run(called(provider, max_tokens=100, api_base="http://127.0.0.1:9/v1"))
    assert logger.budgets.stats()["released"] == 1
    sent = len(provider.bodies)
    with pytest.raises(litellm.RateLimitError, match="budget day"):
        asyncio.run(called(provider, max_tokens=4_900))
    assert (len(provider.bodies), logger.counts["limited"]) == (sent, 1)


def test_a_most_output_that_does_not_fit_is_lowered_if_that_is_asked(
    provider: Upstream, logger: Any
) -> None:
    logger.clamp = True
    asyncio.run(called(provider, model="openai/gpt-4", max_tokens=8_190))
    high = logger.estimator.count_request({"model": "gpt-4", "messages": MESSAGES}).tokens
    assert 8_000 < provider.bodies[-1]["max_tokens"] <= 8_192 - high
    asyncio.run(called(provider, model="openai/gpt-4", max_tokens=100))
    assert provider.bodies[-1]["max_tokens"] == 100
    assert logger.counts["clamped"] == 1


class Broken(HybridTokenEstimator):
    """An estimator whose every answer is an error that quotes the request."""

    async def aestimate(self, body: object, *_: Any, **__: Any) -> Any:
        raise RuntimeError(PRIVATE, body)

    async def arecord(self, body: object, usage: object, **_: Any) -> bool:
        raise RuntimeError(PRIVATE, body, usage)


def test_a_fault_of_ours_breaks_no_call_and_quotes_nothing(
    provider: Upstream, logger: Any, caplog: pytest.LogCaptureFixture
) -> None:
    logger.estimator = Broken()
    (answer,) = asyncio.run(called(provider))
    assert "scatters" in answer.choices[0].message.content
    assert logger.counts["failed"] >= 2
    ours = [record.getMessage() for record in caplog.records if record.name == "tokenctx"]
    assert ours == ["a hook of tokenctx for litellm raised RuntimeError"]


def test_no_text_shows_in_what_is_kept_of_a_call() -> None:
    from tokenctx.integrations._litellm_calls import read_call

    call = read_call({"messages": [{"role": "user", "content": PRIVATE}]}, "acompletion", "m", None)
    assert PRIVATE not in f"{call!r} {call}"


def test_a_subclass_has_the_hooks_that_litellm_looks_for_in_it() -> None:
    pytest.importorskip("litellm.proxy.utils", reason="the extra proxy: dev.py clients")
    from litellm.proxy.utils import ProxyLogging

    from tokenctx.integrations.litellm import TokenctxLogger
    from tokenctx.integrations.litellm_streams import MessageStartLogger

    class Own(TokenctxLogger):
        pass

    class Starting(MessageStartLogger):
        pass

    class Other(litellm.integrations.custom_logger.CustomLogger):  # type: ignore[misc,name-defined]
        async def async_pre_call_hook(self, *_: Any) -> None:
            """What litellm does not find in a subclass."""

    class Lost(Other):
        pass

    before = litellm.callbacks
    try:
        litellm.callbacks = [Own()]
        found = ProxyLogging.callback_capabilities()
        assert found.has_pre_call_override
        assert found.has_post_call_response_headers
        assert not found.has_iterator_override, "all streams keep their fast path"
        litellm.callbacks = [Starting()]
        assert ProxyLogging.callback_capabilities().has_iterator_override
        litellm.callbacks = [Lost()]
        assert not ProxyLogging.callback_capabilities().has_pre_call_override, "the trap is gone"
    finally:
        litellm.callbacks = before


# ------------------------------------------------------------------ the counter

TEXT = "hello <|endoftext|> world"


def homes(function: object) -> set[str]:
    """The modules of litellm that have this function, by any name."""
    return {
        name
        for name, module in list(sys.modules.items())
        if module is not None and name.partition(".")[0] == "litellm"
        if any(value is function for value in list(vars(module).values()))
    }


def test_the_counter_goes_in_everywhere_and_out_again() -> None:
    from tokenctx.integrations.litellm_counter import install, uninstall

    original = litellm.token_counter
    where = homes(original)
    assert {"litellm", "litellm.utils", "litellm.main", "litellm.cost_calculator"} <= where
    with install() as installed:
        ours = litellm.token_counter
        assert inspect.signature(ours) == inspect.signature(original)
        assert homes(original) - {"tokenctx"} == set()
        assert homes(ours) == where
        counted = HybridTokenEstimator().count_request({"model": "gpt-4o", "messages": MESSAGES})
        assert litellm.token_counter(model="gpt-4o", messages=MESSAGES) == counted.tokens
        assert litellm.utils.get_modified_max_tokens("gpt-4o", "", MESSAGES, 10, 0, 0) == 10
        assert litellm.token_counter("gpt-4o", text=[TEXT, TEXT]) > 5
        assert litellm.token_counter(model="nobody/knows", text="hello world") == 2
        reply = [{"role": "assistant", "content": "It scatters."}]
        counted_reply = litellm.token_counter("gpt-4o", messages=reply, count_response_tokens=True)
        assert counted_reply < litellm.token_counter("gpt-4o", messages=reply)
        assert installed.fallbacks == 0
    assert homes(original) == where
    assert homes(ours) == set()
    again, other = install(), install()
    assert homes(original) == set()
    assert again is not other
    uninstall()
    uninstall()
    assert homes(original) == where


class Uncountable(HybridTokenEstimator):
    """An estimator that cannot count, and says what."""

    def count_request(self, body: object, *_: Any, **__: Any) -> Any:
        raise RuntimeError(PRIVATE, body)


def test_litellm_counts_where_ours_cannot(caplog: pytest.LogCaptureFixture) -> None:
    from tokenctx.integrations.litellm_counter import install

    tokenizer = {"type": "openai_tokenizer", "tokenizer": litellm.encoding}
    own = litellm.token_counter(model="gpt-4o", messages=MESSAGES)
    wrong: list[dict[str, Any]] = [
        {},
        {"text": "a", "messages": MESSAGES},
        {"text": "a", "tools": [{"type": "function"}]},
    ]
    with install(Uncountable()) as installed:
        for arguments in wrong:
            with pytest.raises(ValueError, match=r"text|messages"):
                litellm.token_counter(model="gpt-4o", **arguments)
        with pytest.raises(TypeError):
            litellm.token_counter(model="gpt-4o", texts="no such parameter")
        assert litellm.token_counter(text="a b", custom_tokenizer=tokenizer) == 2
        assert installed.fallbacks == len(wrong) + 2
        assert litellm.token_counter(model="gpt-4o", messages=MESSAGES) == own
        assert installed.fallbacks == len(wrong) + 3
    assert PRIVATE not in caplog.text


def test_a_disabled_counter_stays_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    from tokenctx.integrations.litellm_counter import install

    monkeypatch.setattr(litellm, "disable_token_counter", True)
    with install():
        assert litellm.token_counter(model="gpt-4o", messages=MESSAGES) == 0


TOOLS = [
    {"type": "function", "function": {"name": f"look_up_{n}", "description": "Looks it up. " * 5}}
    for n in range(20)
]


def test_what_litellm_counts_for_itself_is_no_bill(provider: Upstream, logger: Any) -> None:
    """A server streams no usage: litellm counts, without the tools, and says so nowhere."""
    messages = [{"role": "user", "content": f"{upstream.UNBILLED}why?"}]
    options: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    options["tools"] = TOOLS
    counted = logger.estimator.estimate({"messages": messages, "tools": TOOLS}, model="gpt-4o")
    asyncio.run(called(provider, times=4, messages=messages, **options))
    assert (logger.counts["recorded"], logger.counts["counted_by_litellm"]) == (0, 4)
    again = logger.estimator.estimate({"messages": messages, "tools": TOOLS}, model="gpt-4o")
    assert (again.tokens, again.source) == (counted.tokens, "estimated")
    asyncio.run(called(provider, **options))
    assert logger.counts["recorded"] == 1, "a bill of the same tools is one"


@pytest.mark.parametrize(
    ("details", "told"),
    [
        ({}, None),
        ({"prompt_tokens_details": {"cached_tokens": 0}}, 1000),
        ({"cache_read_input_tokens": 900, "cache_creation_input_tokens": 0}, 1000),
    ],
)
@pytest.mark.parametrize("place", ["metadata", "litellm_metadata"])
def test_of_a_client_that_hung_up_only_an_input_that_a_provider_sent_is_known(
    details: dict[str, Any], told: int | None, place: str
) -> None:
    from tokenctx.integrations._litellm_calls import told_usage

    counted: list[str] = []
    usage = litellm.Usage(prompt_tokens=1000, completion_tokens=3, total_tokens=1003, **details)
    response = litellm.ModelResponse(usage=usage)
    event = {"stream": True, "litellm_params": {place: {"client_disconnected": True}}}
    assert told_usage(event, response, counted.append) == told
    assert counted == ["counted_by_litellm"] * (told is None)
    assert told_usage({}, response, counted.append) is response
