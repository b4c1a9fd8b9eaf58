"""Whatever ends a call of an agent framework: what the provider has served and nobody has booked or
refused is 0."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from agent_fronts import FRONTS, TENANT, is_refusal, look
from gateway_rig import served
from tokenctx import HybridTokenEstimator
from tokenctx.money.budgets import Budget, Budgets
from way_round import MANY, Answer, Books, Provider

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("uvicorn")
pytest.importorskip("openai")
pytestmark = pytest.mark.filterwarnings("ignore")  # the frameworks' own

ENDS: dict[str, tuple[Answer, int | None]] = {
    "whole": (Answer(is_stream=False), None),
    "whole, no usage": (Answer(is_stream=False, usage="none", output=MANY), None),
    "whole, zeros": (Answer(is_stream=False, usage="zeros", output=MANY), None),
    "whole, four, no usage": (
        Answer(is_stream=False, usage="none", output=MANY, choices=4),
        None,
    ),
    "another model": (Answer(is_stream=False, model="gpt-4o-mini"), None),
    "late": (Answer(is_stream=False, ends="late", output=MANY), None),
    "nothing comes": (Answer(is_stream=False, ends="late", output=MANY), 0),
    "an error": (Answer(is_stream=False, ends="500"), None),
    "busy": (Answer(is_stream=False, ends="429"), None),
    "stream": (Answer(), None),
    "stream, no usage": (Answer(MANY, "none"), None),
    "stream, zeros": (Answer(MANY, "zeros"), None),
    "stream, another model": (Answer(model="gpt-4o-mini"), None),
    "stream, an error": (Answer(ends="503"), None),
    "cut": (Answer(MANY, "none", "cut"), None),
    "cut, in one event": (Answer(MANY, "none", "cut", at_once=MANY), None),
    "the client leaves": (Answer(40, "none", "waits", at_once=40), 1),
    "stream, nothing comes": (Answer(50, ends="late"), 0),
}


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider()


@pytest.fixture(scope="module")
def url(provider: Provider) -> Iterator[str]:
    with served(provider) as address:
        yield address


@pytest.fixture(autouse=True)
def _fresh(provider: Provider) -> None:
    provider.answers, provider.answer = [], Answer(is_stream=False)
    provider.served = provider.calls = 0


@pytest.fixture(params=FRONTS)
def kind(request: pytest.FixtureRequest) -> Any:
    return FRONTS[request.param]


@pytest.mark.parametrize("name", ENDS)
def test_what_was_served_is_booked(kind: Any, url: str, provider: Provider, name: str) -> None:
    books = Books()
    books.teach(TENANT, 1)
    answer, leaves = ENDS[name]
    provider.answer = answer
    is_stream = answer.is_stream
    kind(url, books).ask(is_stream=is_stream, leaves=leaves, choices=answer.choices)
    assert provider.calls == 1
    assert books.booked >= provider.served
    if answer.ends in ("500", "503", "429"):
        assert books.booked == 0, "nobody is billed for a failure"
    if answer.usage == "end" and answer.ends == "well":
        assert books.booked == provider.served, "the bill, and no more"


def test_parallel_calls_are_booked_each(kind: Any, url: str, provider: Provider) -> None:
    books = Books()
    front = kind(url, books)
    ends = [Answer(is_stream=False), Answer(is_stream=False, ends="500")]
    provider.answers = ends * 6
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: front.ask(), range(12)))
    assert provider.calls == 12
    assert books.booked == provider.served


def test_each_call_of_a_loop_of_tools_is_booked(kind: Any, url: str, provider: Provider) -> None:
    books = Books()
    estimator = HybridTokenEstimator()
    calling = Answer(is_stream=False, place="arguments")
    provider.answers = [calling, calling, Answer(is_stream=False)]
    assert kind(url, books, estimator, tool=look).ask() is None
    assert provider.calls == 3
    assert books.booked == provider.served
    counts = estimator.stats()
    assert (counts["recorded"], counts["delta"]) == (3, 2)


def test_a_loop_of_tools_ends_where_the_budget_does(
    kind: Any, url: str, provider: Provider
) -> None:
    books = Books()
    books.budgets = books.made(limit=1_000)
    books.teach(TENANT, 1)
    provider.answer = Answer(is_stream=False, place="arguments")
    assert is_refusal(kind(url, books, tool=look).ask())
    assert 1 <= provider.calls < 10
    assert provider.served == books.booked <= 1_000


def test_attempts_of_a_framework_are_booked_each(kind: Any, url: str, provider: Provider) -> None:
    books = Books()
    busy = Answer(is_stream=False, ends="429")
    late = Answer(is_stream=False, ends="late", output=MANY)
    is_strands = kind is FRONTS["strands"]  # which tries again where it was throttled alone
    provider.answers = [busy, busy if is_strands else late, Answer(is_stream=False)]
    assert kind(url, books, tries_again=True).ask() is None
    assert provider.calls == 3
    assert books.booked >= provider.served


def test_a_bill_goes_to_the_model_that_answered(kind: Any, url: str, provider: Provider) -> None:
    if kind in (FRONTS["openai-agents"], FRONTS["strands"]):
        pytest.skip("it does not say who has answered")
    books = Books()
    row = Budget("money", money=1, per="day", by="tenant")
    books.budgets = Budgets([row], store=books.store)
    provider.answer = Answer(is_stream=False, model="gpt-4.1-mini", output=MANY)
    assert kind(url, books).ask() is None
    prompt = provider.served - MANY
    price = prompt * Decimal("0.40") + MANY * Decimal("1.60")
    taken = books.budgets.balance("money", {"tenant": TENANT}).taken
    assert taken == pytest.approx(price / 10**6, rel=Decimal("0.001"))


def test_a_refusal_is_not_tried_again(kind: Any, url: str, provider: Provider) -> None:
    books = Books()
    books.budgets = books.made(limit=10)
    assert is_refusal(kind(url, books, tries_again=True).ask())
    assert provider.calls == 0
    if kind is not FRONTS["llama-index"]:  # which reads no header of an answer of 429
        assert books.budgets.stats()["refused"] == 1


def test_a_budget_without_room_sends_nothing(kind: Any, url: str, provider: Provider) -> None:
    books = Books()
    books.budgets = books.made(limit=10)
    assert is_refusal(kind(url, books).ask())
    assert provider.calls == 0
    assert books.booked == 0


def test_a_call_that_we_cannot_read_or_count_is_no_way_around(
    kind: Any, url: str, provider: Provider
) -> None:
    class Broken(HybridTokenEstimator):
        def estimate(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError

        async def aestimate(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError

        def record_event(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError

        async def arecord_event(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError

    books = Books()
    kind(url, books, Broken()).ask()
    assert provider.calls == 1
    assert books.booked >= provider.served


def test_a_guess_of_a_framework_never_becomes_exact(
    kind: Any, url: str, provider: Provider
) -> None:
    estimator = HybridTokenEstimator()
    provider.answer = Answer(is_stream=False, usage="zeros")
    kind(url, Books(), estimator).ask()
    assert provider.calls == 1
    assert estimator.stats()["recorded"] == 0
