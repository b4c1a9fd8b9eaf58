"""Whatever way a call takes around a budget, and through whatever front: what a real provider has
served and nobody has booked or refused is 0."""

from __future__ import annotations

import contextlib
import gc
import json
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import way_round
from gateway_rig import served
from way_round import (
    ENDS,
    FRONTS,
    KIND,
    KINDS,
    MANY,
    ODD,
    PATHS,
    UNBOUNDED,
    Answer,
    Books,
    Provider,
    body,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("httpx2")


# Clients that leave have their relays leave connections behind, which is what is tried here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
UNTOLD = sorted(ODD.keys() - {"no JSON", "padded"})
"""Bodies that tell a chat where the path does not; the padded one is tried where it does."""


@pytest.fixture(scope="module", autouse=True)
def _what_is_left() -> Iterator[None]:
    """Connections that were left behind are no warning in the tests after these."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider()


@pytest.fixture(scope="module")
def url(provider: Provider) -> Iterator[str]:
    with served(provider) as address:
        yield address


@pytest.fixture(scope="module")
def books() -> Books:
    return Books()


@pytest.fixture(scope="module", params=FRONTS)
def ask(request: pytest.FixtureRequest, url: str, books: Books) -> Iterator[Any]:
    with FRONTS[request.param](url, books) as front:
        yield front


class Watch:
    """What was served and booked since it was made."""

    def __init__(self, provider: Provider, books: Books) -> None:
        provider.answers, provider.answer = [], Answer()
        self._provider, self._books = provider, books
        self._before = provider.calls, provider.served, books.booked

    @property
    def calls(self) -> int:
        return self._provider.calls - self._before[0]

    @property
    def served(self) -> int:
        return self._provider.served - self._before[1]

    @property
    def unbooked(self) -> int:
        return max(0, self.served - (self._books.booked - self._before[2]))


@pytest.fixture
def watch(provider: Provider, books: Books) -> Watch:
    return Watch(provider, books)


@pytest.mark.parametrize("path", PATHS)
def test_paths(ask: Any, watch: Watch, path: str) -> None:
    ask(body(), path)
    assert watch.calls == 1
    assert watch.served > 1000
    assert watch.unbooked == 0


@pytest.mark.parametrize("path", UNBOUNDED)
def test_what_no_body_bounds_is_refused(ask: Any, watch: Watch, path: str) -> None:
    assert ask(b'{"input_file_id": "file_1"}', path) == 429
    assert watch.calls == 0


@pytest.mark.parametrize("name", ODD)
def test_bodies(ask: Any, watch: Watch, name: str) -> None:
    content, headers = ODD[name]
    ask(content, headers=[KIND, *headers])
    assert watch.calls == 1
    assert watch.served > 200
    assert watch.unbooked == 0


@pytest.mark.parametrize("name", ENDS)
def test_ends(ask: Any, watch: Watch, books: Books, provider: Provider, name: str) -> None:
    answer, leaves = ENDS[name]
    headers = [KIND, ("authorization", f"Bearer {name}")]
    books.teach(name, 1)
    provider.answer = answer
    more = {"n": answer.choices} if answer.choices > 1 else {}
    ask(body(1, max_tokens=MANY, **more), headers=headers, leaves=leaves)
    assert watch.calls == 1
    assert watch.unbooked == 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_header_says_of_a_body_hides_nothing(ask: Any, watch: Watch, kind: str) -> None:
    ask(body(), headers=[("content-type", kind)] if kind else [])
    assert watch.calls == 1
    assert watch.unbooked == 0


@pytest.mark.parametrize("front", ["middleware", "handle"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [*(("plain", kind) for kind in KINDS), *((name, "image/png") for name in UNTOLD)],
)
def test_at_a_path_that_nobody_knows(
    front: str, kind: str, name: str, url: str, provider: Provider
) -> None:
    content, headers = (body(), ()) if name == "plain" else ODD[name]
    books = Books()
    watch = Watch(provider, books)
    with FRONTS[front](url, books) as ask:
        ask(content, "/v1/talk", [("content-type", kind), *headers])
    assert watch.calls == 1
    assert watch.unbooked == 0


def test_attempts_of_one_call(provider: Provider, url: str) -> None:
    """The same body and ids again and again: each time that it was served it is booked."""
    httpx = pytest.importorskip("httpx")
    books = Books()
    watch, front = Watch(provider, books), books.gateway()
    bad = [Answer(ends="500"), Answer(MANY, "none", "cut"), Answer(50, "none"), Answer(ends="429")]
    provider.answers = [*bad, Answer(20)]
    call = front.call(body(), path=way_round.CHAT)
    for _ in range(5):
        with httpx.stream("POST", url + way_round.CHAT, content=call.upstream_body) as got:
            relay = call.relay(got.status_code, got.headers)
            with contextlib.suppress(httpx.HTTPError):
                list(call.stream(got.iter_raw(), relay=relay))
    assert watch.calls == 5
    assert watch.unbooked == 0


def test_many_of_the_same_ids_at_once(ask: Any, watch: Watch) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: ask(body(20)), range(24)))
    assert watch.calls == 24
    assert watch.unbooked == 0


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0, 400 * 86_400.0])
@pytest.mark.parametrize("per", [None, "minute", "day"])
def test_clocks_that_jump_while_it_answers(jump: float, per: Any) -> None:
    """Of a window that is over nothing is asked; in one that counts nothing is missing."""
    books = Books(per=per)
    clock, front = books.clock, books.gateway()
    call = front.call(body(), path=way_round.CHAT)
    clock.now += jump
    answer = json.dumps(way_round.answer_of(Answer(50), 1000)).encode()
    call.response(answer)
    assert books.held == 0
    balance = books.budgets.balance("b")
    if jump < 0:
        assert balance.taken == 1050
    elif per is None:  # its lease was over long before its bill came: both are booked
        assert balance.taken >= 1050
    clock.now -= jump
    again = front.call(body(), path=way_round.CHAT)
    again.response(answer)
    assert books.budgets.balance("b").taken >= 1050


def test_a_process_that_dies_and_one_that_takes_its_place(provider: Provider, url: str) -> None:
    """A call that nobody ends is booked when its lease is over; its bill takes that place, once."""
    httpx = pytest.importorskip("httpx")
    books = Books(lease_seconds=60)
    watch = Watch(provider, books)
    dead = books.gateway().call(body(), path=way_round.CHAT)
    httpx.post(url + way_round.CHAT, content=dead.upstream_body)  # and no word more
    reserved = books.budgets.balance("b").taken
    books.budgets = books.made()
    books.clock.now += 61
    assert books.budgets.balance("b").taken == reserved
    assert watch.unbooked == 0
    late = json.dumps(way_round.answer_of(Answer(50), 1000)).encode()
    dead.response(late)
    assert books.budgets.balance("b").taken == 1050
