"""Calls of which no row says a conversation: the call before each, told by what the two send.

A call goes on from another if it begins with all messages of that one, behind the same system
prompt and tools; of several the one with the most messages, of these the latest, if there is one of
the same model. Where the beginning changed, the last two messages of the call before still stand
somewhere in the next: with half of the others, too, it is the same conversation, changed or cut.
After a summary nothing may be the same but system prompt and tools. It is told by its shape: a
conversation of one's own that grew long ends, and soon a much shorter one begins, which is more
than a bare start. Who shares neither is a conversation of its own, and nothing was paid again.

They are read here in the order of time, with the last of them in mind. The engine could tell it in
one query for each rule; with 20 million messages that did not fit the memory which it has.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tokenctx._cli.spend.calls import NO_HEAD
from tokenctx._cli.spend.report import COUNTS

if TYPE_CHECKING:
    from tokenctx._cli.spend.ledger import Ledger

MOST_CALLS: Final = 100_000
MOST_MESSAGES: Final = 4_000_000
"""So many are kept in mind: who pauses for as many calls of others begins anew. About 100 MB."""
MOST_HEADS: Final = 10_000
ROWS_AT_ONCE: Final = 4_096
LEAST_SUMMARY_TOKENS: Final = 1024
"""So much more than the bare start of a conversation has one that begins with a summary."""
LEAST_OTHER_MESSAGES: Final = 2
"""One question to two models is no conversation of both; it is one if the answers are the same."""
LEAST_CUT_MESSAGES: Final = 4
"""A conversation with fewer messages has nothing to summarise."""
CUT_SHARE: Final = 2
"""A summary makes the input smaller by this factor at least."""
CUT_SECONDS: Final = 3600
"""Later than that after the last call of a conversation it is not gone on with."""
MOST_TRIES: Final = 8
"""So many calls that end like a part of another are compared with it: chatter repeats itself."""
ALONE_CALLS: Final = 3
"""So many calls in sequence are of one conversation where nobody else has one at a time."""
PREFIX_FACTOR: Final = 6_364_136_223_846_793_005
"""Odd and large; the hashes that it is multiplied with are as good as random."""
MOST_HASH: Final = (1 << 63) - 1

_PLAIN: Final = f"""
create or replace temp table plain as
select row_number() over (order by coalesce(moment, timestamp '1970-01-01'), seq) as nth,
    seq, tenant, model, epoch(moment) as at, input_tokens, chain
from kept where {COUNTS} and is_billed and conversation = '' and len(chain) > 1
"""
_LINKED: Final = """
create or replace temp table linked (
    seq bigint, before_seq bigint, is_cut boolean, root bigint, nth bigint, summed bigint)
"""
# Who was taken for the summary of a conversation is none if that one goes on later.
_GONE_ON: Final = """
update linked set before_seq = nullif(summed, 0), is_cut = null
where summed is not null
    and before_seq in (select before_seq from linked where summed is null)
"""


@dataclass(slots=True)
class _Thread:
    """A conversation: its first call, and its last one so far."""

    root: int
    last: _Sent | None = None


@dataclass(slots=True)
class _Sent:
    """A call that others may go on from."""

    seq: int
    thread: _Thread
    at: float | None
    tokens: int
    messages: array[int]
    depth: int
    keys: tuple[int, ...]
    is_followed: bool = False


@dataclass(slots=True)
class _Head:
    """The calls behind one system prompt: the last one, whose the last ones were, the smallest."""

    least_tokens: int
    last: _Sent
    roots: deque[int] = field(default_factory=lambda: deque(maxlen=ALONE_CALLS))


@dataclass(slots=True)
class _Link:
    before: _Sent
    thread: _Thread | None
    is_cut: bool | None = None
    is_second: bool = False


Row = tuple[int, int, str, str, "float | None", int, list[int]]
"""`nth`, `seq`, tenant, model, time, tokens, chain."""


class _Links:
    """The calls so far, by what the next one has in common with them."""

    def __init__(self) -> None:
        self._tails: dict[int, _Sent] = {}
        self._sent: deque[_Sent] = deque()
        self._message_count = 0
        self._heads: OrderedDict[tuple[int, str], _Head] = OrderedDict()

    def placed(self, row: Row) -> tuple[int, int | None, bool | None, int, int, int | None]:
        """A row of the table `linked` for a call, the next in the order of time."""
        nth, seq, tenant, model, at, tokens, chain = row
        messages = array("q", chain[1:])
        begun = _prefixes(chain)
        link = self._link(messages, begun, tenant, model)
        head = self._heads.get((chain[0], tenant)) if chain[0] != NO_HEAD else None
        ended = self._ended(link, head, (len(messages), tokens, at))
        before = is_cut = thread = None
        if link is not None:
            before, is_cut, thread = link.before, link.is_cut, link.thread
        summed = None
        if ended is not None:
            summed = before.seq if before else 0
            before, is_cut, thread = ended, True, ended.thread
        elif before is not None:
            before.is_followed = True
        keys = _keys(messages, begun[-1], tenant, model)
        thread = thread or _Thread(seq)
        own = _Sent(seq, thread, at, tokens, messages, len(messages), keys)
        self._keep(own)
        self._keep_head((chain[0], tenant), own)
        return (seq, before.seq if before else None, is_cut, thread.root, nth, summed)

    def _link(
        self, messages: array[int], begun: list[int], tenant: str, model: str
    ) -> _Link | None:
        """The call with the most messages that this one goes on from."""
        depth, find, tries = len(messages), self._tails.get, MOST_TRIES
        for place in range(depth, 0, -1):
            found = find(hash((begun[place - 1], tenant, model)))
            if found is None and LEAST_OTHER_MESSAGES <= place < depth:
                found = find(hash((begun[place - 1], tenant)))
            if found is not None:
                # Two equal starts are two conversations, the second of which pays again.
                thread = None if place == depth == 1 else found.thread
                return _Link(found, thread, is_second=place == 1 < depth)
            if 1 < place < depth and tries:
                found = find(hash((messages[place - 2], messages[place - 1], tenant, None)))
                if found is None:
                    continue
                if _share_half(found.messages, messages, place):
                    return _Link(found, found.thread, is_cut=place < found.depth or None)
                tries -= 1
        return None

    def _ended(
        self, link: _Link | None, head: _Head | None, own: tuple[int, int, float | None]
    ) -> _Sent | None:
        """The last call of the conversation of which this one begins with the summary."""
        if link is not None and link.is_second:
            last, least = link.before.thread.last, link.before.tokens
        elif link is None and head is not None and _is_alone(head):
            last, least = head.last, head.least_tokens
        else:
            return None
        depth, tokens, at = own
        if last is None or last.is_followed or not LEAST_CUT_MESSAGES <= last.depth > depth:
            return None
        is_shorter = last.tokens >= CUT_SHARE * tokens and tokens - least > LEAST_SUMMARY_TOKENS
        is_soon = at is None or last.at is None or at - last.at <= CUT_SECONDS
        return last if is_shorter and is_soon else None

    def _keep(self, own: _Sent) -> None:
        own.thread.last = own
        for key in own.keys:
            self._tails[key] = own
        self._sent.append(own)
        self._message_count += own.depth
        while len(self._sent) > MOST_CALLS or self._message_count > MOST_MESSAGES:
            gone = self._sent.popleft()
            self._message_count -= gone.depth
            gone.messages = array("q")
            for key in gone.keys:
                if self._tails.get(key) is gone:
                    del self._tails[key]

    def _keep_head(self, name: tuple[int, str], own: _Sent) -> None:
        head = self._heads.pop(name, None) or _Head(own.tokens, own)
        head.last, head.least_tokens = own, min(own.tokens, head.least_tokens)
        head.roots.append(own.thread.root)
        self._heads[name] = head
        if len(self._heads) > MOST_HEADS:
            self._heads.popitem(last=False)


def _prefixes(chain: list[int]) -> list[int]:
    """Of a chain: for each message a hash of it and of all that stands before."""
    whole, found = chain[0], []
    for it in chain[1:]:
        whole = (whole * PREFIX_FACTOR + it) & MOST_HASH
        found.append(whole)
    return found


def _keys(messages: array[int], whole: int, tenant: str, model: str) -> tuple[int, ...]:
    """The names that a call is found by, of those that go on from it."""
    keys = (hash((whole, tenant, model)), hash((whole, tenant)))
    return (*keys, hash((*messages[-2:], tenant, None))) if len(messages) > 1 else keys


def _share_half(had: array[int], messages: array[int], place: int) -> bool:
    """True if half of the messages of two calls are the same, up to a place in the later one."""
    earlier = set(had)
    return 2 * len(earlier.intersection(messages)) >= min(len(earlier), place)


def _is_alone(head: _Head) -> bool:
    return len(head.roots) == ALONE_CALLS and len(set(head.roots)) == 1


def link(ledger: Ledger) -> None:
    """Make the table `linked`: of each call with text and no conversation, the call before it.

    Its columns are `seq`, `before_seq` (null for the first), `is_cut` (true where the history got
    shorter), `root` (the same for all calls of a conversation) and `nth` (their order).
    """
    ledger.rows(_PLAIN)
    ledger.rows(_LINKED)
    [(count,)] = ledger.rows("select count(*) from plain")
    links, names = _Links(), ("seq", "before_seq", "is_cut", "root", "nth", "summed")
    for first in range(1, count + 1, ROWS_AT_ONCE):
        rows = ledger.rows(
            "select * from plain where nth between ? and ? order by nth",
            *(first, first + ROWS_AT_ONCE - 1),
        )
        columns = zip(*map(links.placed, rows), strict=True)
        ledger.insert("linked", dict(zip(names, columns, strict=True)))
    ledger.rows(_GONE_ON)
    ledger.rows("drop table plain")
