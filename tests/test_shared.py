"""Promises of a shared store that need no server: any store, both implementations."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECRET = bytes(range(32))
USER = {"role": "user", "content": "Why is the sky blue?"}
REPLY = {"role": "assistant", "content": "Dust."}
NEXT = {"role": "user", "content": "And red at dusk?"}


class DictStore:
    """A shared store in a dict; `fails` and `lies` make it a bad one."""

    is_async = False
    deadline_seconds = 5.0

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.asked: list[list[str]] = []
        self.failure: BaseException | None = None

    def get_many(self, keys: Sequence[str]) -> list[str | None]:
        self.asked.append(list(keys))
        if self.failure:
            raise self.failure
        return [self.values.get(key) for key in keys]

    def set_many(self, values: Mapping[str, str], ttl_seconds: int) -> None:
        assert ttl_seconds == 24 * 60 * 60
        if self.failure:
            raise self.failure
        self.values.update(values)


class AsyncDictStore(DictStore):
    is_async = True

    async def get_many(self, keys: Sequence[str]) -> list[str | None]:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().get_many(keys)

    async def set_many(  # type: ignore[override]
        self, values: Mapping[str, str], ttl_seconds: int
    ) -> None:
        await asyncio.sleep(0)
        super().set_many(values, ttl_seconds)


def body(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": list(messages)}


def test_what_one_records_another_knows(implementation: Any) -> None:
    store = DictStore()
    one, other = (
        implementation.HybridTokenEstimator(secret=SECRET, shared=store) for _ in range(2)
    )
    assert one.record(body(USER), {"prompt_tokens": 13, "completion_tokens": 2}, reply=REPLY)
    assert one.flush(5)
    estimate = other.estimate(body(USER, REPLY, NEXT))
    assert estimate == one.estimate(body(USER, REPLY, NEXT))
    assert (estimate.source, estimate.new_message_count) == ("delta", 1)
    assert other.stats()["shared_taken"] == 1
    other.estimate(body(USER, REPLY, NEXT))
    assert len(store.asked) == 1, "nobody asks where nothing deeper can have been recorded"


def test_both_implementations_share_a_store() -> None:
    import tokenctx
    import tokenctx.reference

    store = DictStore()
    both = [
        it.HybridTokenEstimator(secret=SECRET, shared=store)
        for it in (tokenctx, tokenctx.reference)
    ]
    for writer, reader in (both, reversed(both)):
        writer.record(body(USER), {"prompt_tokens": 13, "completion_tokens": 2}, reply=REPLY)
        assert writer.flush(5)
        assert reader.estimate(body(USER, REPLY, NEXT)).source == "delta"
        writer.reset()
        reader.reset()
        store.values.clear()
