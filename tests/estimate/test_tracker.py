"""The promises of RFC 029's lookup.

The cases are those of the systems that the RFC describes; where we promise something else, the
test says why. What only those systems have is not tested: their conversation ids (ours are the
digests), their log of near misses, and token totals split over single messages.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import tokenctx
from talk import FAMILY, assistant, talk, user

ENTRY_BYTES = 48


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def tracker() -> Any:
    return tokenctx.ConversationStateTracker()


def found(tracker: Any, messages: object, family: str = FAMILY) -> tuple[str, int | None, Any]:
    result = tracker.lookup(messages, family)
    return result.type, result.known_tokens, result.new_message_indices


NOTHING = ("none", None, ())


# Exact, prefix, none


def test_the_same_messages_are_exact(tracker: Any) -> None:
    messages = [user("hello"), assistant("world")]
    tracker.record_actual(messages, FAMILY, 500)
    assert found(tracker, messages) == ("exact", 500, ())


def test_an_unknown_conversation_is_none(tracker: Any) -> None:
    assert found(tracker, talk("AB")) == NOTHING


def test_another_family_is_none(tracker: Any) -> None:
    tracker.record_actual(talk("AB"), FAMILY, 500)
    assert found(tracker, talk("AB"), "gpt") == NOTHING


def test_families_keep_their_totals_apart(tracker: Any) -> None:
    tracker.record_actual(talk("AB"), "claude", 100)
    tracker.record_actual(talk("AB"), "gpt", 120)
    assert found(tracker, talk("AB"), "claude") == ("exact", 100, ())
    assert found(tracker, talk("AB"), "gpt") == ("exact", 120, ())


def test_one_new_message_is_a_prefix(tracker: Any) -> None:
    tracker.record_actual(talk("AB"), FAMILY, 500)
    assert found(tracker, talk("ABC")) == ("prefix", 500, (2,))
    assert tracker.lookup(talk("ABC"), FAMILY).new_message_count == 1


def test_two_new_messages_are_a_prefix(tracker: Any) -> None:
    tracker.record_actual(talk("AB"), FAMILY, 200)
    assert found(tracker, talk("ABCD")) == ("prefix", 200, (2, 3))


def test_one_message_is_a_conversation(tracker: Any) -> None:
    tracker.record_actual(talk("A"), FAMILY, 7)
    assert found(tracker, talk("A")) == ("exact", 7, ())
    assert found(tracker, talk("AB")) == ("prefix", 7, (1,))


def test_a_branch_uses_the_deepest_known_prefix(tracker: Any) -> None:
    tracker.record_actual(talk("AB"), FAMILY, 100)
    tracker.record_actual(talk("ABC"), FAMILY, 150)
    assert found(tracker, talk("ABD")) == ("prefix", 100, (2,))
    assert found(tracker, talk("ABCE")) == ("prefix", 150, (3,))


def test_exact_beats_prefix(tracker: Any) -> None:
    tracker.record_actual(talk("ABC"), FAMILY, 150)
    tracker.record_actual(talk("AB"), FAMILY, 100)
    assert found(tracker, talk("ABC")) == ("exact", 150, ())


def test_the_longest_prefix_beats_the_newest(tracker: Any) -> None:
    tracker.record_actual(talk("ABCD"), FAMILY, 400)
    tracker.record_actual(talk("AB"), FAMILY, 200)
    assert found(tracker, talk("ABCDE")) == ("prefix", 400, (4,))


def test_a_shorter_branch_does_not_evict_a_longer_one(tracker: Any) -> None:
    tracker.record_actual(talk("ABCDEF"), FAMILY, 600)
    tracker.record_actual(talk("AB"), FAMILY, 200)
    assert found(tracker, talk("ABCDEF")) == ("exact", 600, ())


def test_a_new_total_replaces_the_old_one(tracker: Any) -> None:
    tracker.record_actual(talk("AB"), FAMILY, 100)
    tracker.record_actual(talk("AB"), FAMILY, 90)
    assert found(tracker, talk("AB")) == ("exact", 90, ())
    assert len(tracker) == 1


def test_an_edited_message_in_the_middle_leaves_what_stands_before_it(tracker: Any) -> None:
    tracker.record_actual(talk("AB"), FAMILY, 100)
    tracker.record_actual(talk("ABCD"), FAMILY, 200)
    assert found(tracker, talk("ABXD")) == ("prefix", 100, (2, 3))
    assert found(tracker, talk("XBCD")) == NOTHING


def test_two_chats_of_one_family_do_not_disturb_each_other(tracker: Any) -> None:
    # The first generation kept one state for a family: the second chat overwrote the first.
    for turn in range(1, 6):
        tracker.record_actual(talk("ABCDEFGHIJ"[: 2 * turn]), FAMILY, 100 * turn)
        tracker.record_actual(talk("0123456789"[: 2 * turn]), FAMILY, 1000 * turn)
    assert found(tracker, talk("ABCDEFGHIJ")) == ("exact", 500, ())
    assert found(tracker, talk("0123456789+")) == ("prefix", 5000, (10,))


def test_many_conversations_are_known_at_once(tracker: Any) -> None:
    for number in range(500):
        tracker.record_actual([user(f"chat {number}")], FAMILY, number + 1)
    assert len(tracker) == 500
    for number in range(500):
        assert found(tracker, [user(f"chat {number}")]) == ("exact", number + 1, ())


# Where we differ on purpose


def test_messages_in_another_order_are_none(tracker: Any) -> None:
    # The last generation asked for set membership. Order is part of what the model sees, and a
    # total of other messages in another order is no total of these.
    tracker.record_actual(talk("ABCDEF"), FAMILY, 600)
    assert found(tracker, talk("XYAZ")) == NOTHING
    assert found(tracker, [*talk("ABCDEF")[2:], *talk("AB")]) == NOTHING


def test_a_repeated_continue_is_a_new_message(tracker: Any) -> None:
    # A set cannot see duplicates: there, this was `none`.
    messages = [user("go"), assistant("1"), user("continue"), assistant("2")]
    tracker.record_actual(messages, FAMILY, 300)
    assert found(tracker, [*messages, user("continue")]) == ("prefix", 300, (4,))
    tracker.record_actual([*messages, user("continue")], FAMILY, 310)
    again = [*messages, user("continue"), user("continue")]
    assert found(tracker, again) == ("prefix", 310, (5,))


def test_a_changed_system_prompt_is_another_conversation(tracker: Any) -> None:
    # The last generation tolerated drift of message 0 (prefix 5000, new [5]) and so left out the
    # tokens by which the system prompt had changed. We count anew instead of being silently wrong.
    rest = talk("hwqa")
    tracker.record_actual([{"role": "system", "content": "1"}, *rest], FAMILY, 5000)
    drifted = [{"role": "system", "content": "2"}, *rest]
    assert found(tracker, drifted) == NOTHING
    assert found(tracker, [*drifted, user("new")]) == NOTHING


def test_fewer_messages_than_known_are_none(tracker: Any) -> None:
    # The last generation answered with the longer total, an over-estimate. The total of the first
    # messages is not known unless it was recorded.
    tracker.record_actual(talk("ABCD"), FAMILY, 400)
    assert found(tracker, talk("AB")) == NOTHING


# What is not recorded


@pytest.mark.parametrize("tokens", [0, -1, -(10**30)])
def test_a_failed_call_is_not_recorded(tracker: Any, tokens: int) -> None:
    assert tracker.record_actual(talk("AB"), FAMILY, tokens) is None
    assert found(tracker, talk("AB")) == NOTHING


def test_a_failed_call_leaves_what_is_known(tracker: Any) -> None:
    tracker.record_actual(talk("AB"), FAMILY, 100)
    tracker.record_actual(talk("AB"), FAMILY, 0)
    assert found(tracker, talk("AB")) == ("exact", 100, ())


@pytest.mark.parametrize("messages", [[], b"[]", "[]", (), {}, None])
def test_an_empty_conversation_is_neither_recorded_nor_found(tracker: Any, messages: Any) -> None:
    tracker.record_actual(talk("A"), FAMILY, 100)
    assert tracker.record_actual(messages, FAMILY, 100) is None
    assert found(tracker, messages) == NOTHING
    assert len(tracker) == 1


# Results


def test_the_state_says_what_is_known(tracker: Any) -> None:
    state = tracker.record_actual(talk("ABA"), FAMILY, 500)
    assert isinstance(state, tokenctx.KnownConversationState)
    assert (state.actual_tokens, state.model_family) == (500, FAMILY)
    assert len(state.message_hashes) == 3
    assert all(len(bytes.fromhex(digest)) == 16 for digest in state.message_hashes)
    # The third message is the first again: equal content, equal digest.
    assert state.message_hashes[0] == state.message_hashes[2] != state.message_hashes[1]


def test_json_text_and_objects_are_one_conversation(tracker: Any) -> None:
    tracker.record_actual(talk("AB"), FAMILY, 100)
    for form in (json.dumps(talk("AB")), json.dumps(talk("AB"), indent=2).encode()):
        assert found(tracker, form) == ("exact", 100, ())
        assert found(tracker, {"messages": talk("AB")}) == ("exact", 100, ())


def test_text_that_is_no_json_is_refused(tracker: Any) -> None:
    with pytest.raises(tokenctx.RequestError):
        tracker.lookup(b"[{", FAMILY)
    with pytest.raises(tokenctx.RequestError):
        tracker.record_actual("hello", FAMILY, 1)


def test_clear_forgets_everything(tracker: Any) -> None:
    tracker.record_actual(talk("AB"), FAMILY, 100)
    tracker.clear()
    assert len(tracker) == 0
    assert found(tracker, talk("AB")) == NOTHING


# Bounds


def test_the_least_recently_used_goes_first() -> None:
    tracker = tokenctx.ConversationStateTracker(capacity_bytes=3 * ENTRY_BYTES)
    for letter in "ABC":
        tracker.record_actual(talk(letter), FAMILY, 10)
    assert found(tracker, talk("A"))[0] == "exact"
    tracker.record_actual(talk("D"), FAMILY, 10)
    kinds = {letter: found(tracker, talk(letter))[0] for letter in "ABCD"}
    assert kinds == {"A": "exact", "B": "none", "C": "exact", "D": "exact"}
    assert len(tracker) == 3


def test_a_prefix_that_is_used_stays() -> None:
    tracker = tokenctx.ConversationStateTracker(capacity_bytes=2 * ENTRY_BYTES)
    tracker.record_actual(talk("AB"), FAMILY, 100)
    tracker.record_actual(talk("X"), FAMILY, 10)
    assert found(tracker, talk("ABC")) == ("prefix", 100, (2,))
    tracker.record_actual(talk("Y"), FAMILY, 10)
    assert found(tracker, talk("AB")) == ("exact", 100, ())
    assert found(tracker, talk("X")) == NOTHING


@pytest.mark.parametrize("capacity_bytes", [0, 1, ENTRY_BYTES, 2 * ENTRY_BYTES - 1])
def test_one_conversation_is_always_kept(capacity_bytes: int) -> None:
    tracker = tokenctx.ConversationStateTracker(capacity_bytes=capacity_bytes)
    for letter in "ABC":
        tracker.record_actual(talk(letter), FAMILY, 10)
        assert len(tracker) == 1
        assert found(tracker, talk(letter)) == ("exact", 10, ())


def test_what_is_recorded_expires() -> None:
    clock = Clock()
    tracker = tokenctx.ConversationStateTracker(ttl_seconds=3600, clock=clock)
    tracker.record_actual(talk("AB"), FAMILY, 100)
    clock.seconds = 3599.9
    assert found(tracker, talk("AB")) == ("exact", 100, ())
    clock.seconds = 3600
    assert found(tracker, talk("AB")) == NOTHING
    assert len(tracker) == 0


def test_a_new_record_lives_as_long_again() -> None:
    clock = Clock()
    tracker = tokenctx.ConversationStateTracker(ttl_seconds=60, clock=clock)
    tracker.record_actual(talk("AB"), FAMILY, 100)
    clock.seconds = 50
    tracker.record_actual(talk("AB"), FAMILY, 101)
    clock.seconds = 100
    assert found(tracker, talk("AB")) == ("exact", 101, ())


def test_an_expired_conversation_uncovers_a_shorter_one() -> None:
    clock = Clock()
    tracker = tokenctx.ConversationStateTracker(ttl_seconds=60, clock=clock)
    tracker.record_actual(talk("ABC"), FAMILY, 150)
    clock.seconds = 30
    tracker.record_actual(talk("AB"), FAMILY, 100)
    clock.seconds = 70
    assert found(tracker, talk("ABC")) == ("prefix", 100, (2,))
