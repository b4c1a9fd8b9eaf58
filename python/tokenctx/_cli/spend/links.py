"""Calls of which no row says a conversation: the call before each, told by what the two send.

A call goes on from another if it begins with all messages of that one, behind the same system
prompt and tools; of several the one with the most messages, of these the latest, if there is one of
the same model. Where the beginning changed, the last two messages of the call before still stand
somewhere in the next: with half of the others, too, it is the same conversation, changed or cut.
After a summary nothing may be the same but system prompt and tools. It is told by its shape: a
conversation of one's own that grew long ends, and at once a much shorter one begins, which is more
than a bare start. Who shares neither is a conversation of its own, and nothing was paid again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tokenctx._cli.spend.calls import NO_HEAD
from tokenctx._cli.spend.report import COUNTS

if TYPE_CHECKING:
    from tokenctx._cli.spend.ledger import Ledger

LEAST_SUMMARY_TOKENS: Final = 1024
"""So much more than the bare start of a conversation has one that begins with a summary."""
LEAST_CUT_MESSAGES: Final = 4
"""A conversation with fewer messages has nothing to summarise."""
CUT_SHARE: Final = 2
"""A summary makes the input smaller by this factor at least."""
CUT_SECONDS: Final = 3600
"""Later than that after the last call of a conversation it is not gone on with."""

# `nth` is the place in the order of time; `chain` has the hash of what stands before the messages,
# then one for each message; `prefixes` one for each message and all before it.
_PLAIN: Final = f"""
create or replace temp table plain as
select row_number() over (order by coalesce(moment, timestamp '1970-01-01'), seq) as nth,
    seq, tenant, model, moment, input_tokens, chain, prefixes, len(prefixes) as depth
from kept where {COUNTS} and is_billed and conversation = '' and len(prefixes) > 0
"""
_TAILS: Final = """
create or replace temp table tails as
select hash(prefixes[-1], tenant) as key, nth from plain
union all select hash(prefixes[-1], tenant, model), nth from plain
union all select hash(chain[-2], chain[-1], tenant), nth from plain where depth > 1
"""
# A score is the number of messages that match, then how well: 3 is the same model, 2 another one,
# 1 is the last two messages alone.
_MATCHES: Final = """
create or replace temp table matches as
with each as (
    select nth, tenant, model, depth, unnest(prefixes) as prefix, unnest(chain[2:]) as message,
        unnest(chain[1:depth]) as above, unnest(range(1, depth + 1)) as place
    from plain),
probes as (
    select nth, hash(prefix, tenant, model) as key, 4 * place + 3 as score from each
    union all
    select nth, hash(prefix, tenant), 4 * place + 2 from each where place < depth
    union all
    select nth, hash(above, message, tenant), 4 * place + 1 from each
    where place > 1 and place < depth),
found as (
    select probes.nth, score, tails.nth as earlier
    from (select * from probes where key in (select key from tails)) probes
    asof join tails on probes.key = tails.key and probes.nth > tails.nth)
select nth,
    arg_max(earlier, score) filter (where score % 4 > 1) as before,
    coalesce(max(score) filter (where score % 4 > 1) // 4, 0) as place,
    arg_max(earlier, score) filter (where score % 4 = 1) as changed,
    coalesce(max(score) filter (where score % 4 = 1) // 4, 0) as changed_place
from found group by nth
"""
_LINKS: Final = """
create or replace temp table links as
select own.nth,
    case when is_changed then changed else before end as before,
    case when is_changed and changed_place < had_depth then true end as is_cut,
    own.depth = 1 and not is_changed as is_same_start,
    not is_changed and place = 1 and own.depth > 1 as is_second
from plain as own join (
    select matches.*, had.depth as had_depth,
        coalesce(changed_place > place and 2 * len(list_intersect(had.chain[2:], own.chain[2:]))
            >= least(len(list_distinct(had.chain[2:])), changed_place), false) as is_changed
    from matches join plain as own using (nth) left join plain as had on had.nth = changed
) as found using (nth)
where is_changed or before is not null
"""
_ROOTS: Final = """
create or replace temp table roots as
select plain.nth, case when is_same_start then null else before end as up,
    coalesce(up, plain.nth) as root
from plain left join links using (nth)
"""
_HIGHER: Final = """
create or replace temp table roots as
select own.nth, own.up, higher.root, higher.root <> own.root as is_moved
from roots as own join roots as higher on higher.nth = own.root
"""
_SUMMARIES: Final = f"""
create or replace temp table summaries as
with placed as (
    select plain.nth, plain.depth, moment, input_tokens, root, before, is_second,
        lag(plain.nth) over thread as had_of_thread, lag(plain.nth) over head as had_of_head,
        lag(root) over head as first, lag(root, 2) over head as second,
        lag(root, 3) over head as third, min(input_tokens) over (partition by chain[1], tenant)
            as bare_tokens, chain[1] <> {NO_HEAD} as has_head
    from plain join roots using (nth) left join links using (nth)
    window thread as (partition by root order by plain.nth),
        head as (partition by chain[1], tenant order by plain.nth)),
candidates as (
    select *, case when is_second then had_of_thread else had_of_head end as had_nth
    from placed
    where is_second or (before is null and has_head and first = second and second = third))
select own.nth, own.had_nth as before
from candidates as own join plain as had on had.nth = own.had_nth
left join plain as start on start.nth = own.before
where had.nth not in (select before from links where before is not null)
    and had.depth >= {LEAST_CUT_MESSAGES} and own.depth < had.depth
    and had.input_tokens >= {CUT_SHARE} * own.input_tokens
    and own.input_tokens - coalesce(start.input_tokens, own.bare_tokens) > {LEAST_SUMMARY_TOKENS}
    and coalesce(epoch(own.moment - had.moment), 0) <= {CUT_SECONDS}
"""
_SUMMARISED: Final = """
create or replace temp table links as
select links.* from links where nth not in (select nth from summaries)
union all by name select nth, before, true as is_cut, false as is_same_start, false as is_second
from summaries
"""
_LINKED: Final = """
create or replace temp table linked as
select own.seq, had.seq as before_seq, is_cut, root, own.nth
from plain as own join roots using (nth) left join links using (nth)
left join plain as had on had.nth = before
"""


def link(ledger: Ledger) -> None:
    """Make the table `linked`: of each call with text and no conversation, the call before it.

    Its columns are `seq`, `before_seq` (null for the first), `is_cut` (true where the history got
    shorter), `root` (the same for all calls of a conversation) and `nth` (their order).
    """
    for query in (_PLAIN, _TAILS, _MATCHES, _LINKS):
        ledger.rows(query)
    _find_roots(ledger)
    for query in (_SUMMARIES, _SUMMARISED):
        ledger.rows(query)
    _find_roots(ledger)
    for query in (_LINKED, *(f"drop table {it}" for it in ("plain", "tails", "matches", "roots"))):
        ledger.rows(query)


def _find_roots(ledger: Ledger) -> None:
    """The first call of each conversation: every step doubles how far a call sees back."""
    ledger.rows(_ROOTS)
    while True:
        ledger.rows(_HIGHER)
        [(moved,)] = ledger.rows("select count(*) from roots where is_moved")
        if not moved:
            return
