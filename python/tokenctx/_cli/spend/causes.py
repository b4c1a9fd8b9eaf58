"""Input that was paid again: sent before in its conversation, and not read from the cache. Why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.spend.links import CUT_SHARE, LEAST_CUT_MESSAGES, LEAST_SUMMARY_TOKENS, link
from tokenctx._cli.spend.report import COUNTS

if TYPE_CHECKING:
    import datetime as dt

    from tokenctx._cli.spend.ledger import Ledger

HOUR_SECONDS: Final = 3600
SHORT_SECONDS: Final = 300
"""A cached prefix of Anthropic and OpenAI lives so long after its last use, unless it is for an
hour."""
BLOCK_TOKENS: Final = 1024
"""Reads end at a block or a mark: so little behind it is no loss."""

CAUSES: Final = {
    "model": "the model changed: each has a cache of its own",
    "cut": "the history was cut or summarised",
    "context": "the system prompt or the tools changed",
    "message": "an earlier message changed or was taken out",
    "idle": "idle for longer than the cache lives",
    "gone": "nothing that the log has changed: expired or evicted (the log has no times)",
    "evicted": "nothing that the log has changed, in time: evicted, or written too late",
    "off": "nothing was ever written or read: caching is off, or the input is too short for it",
    "tail": "the end behind the last mark or block",
    "unknown": "not known: the log has no text of the calls",
}
"""Why input was paid again, in words."""

# The call before is that of the same conversation, or the one that `links` finds; `same` is how
# many of the hashes of system prompt and messages the two have in common.
_SPENT: Final = f"""
create or replace temp table spent as
with called as (
    select * exclude (place, above, batch_key, call_key),
        lag(input_tokens) over w as had, lag(model) over w as had_model,
        lag(moment) over w as had_moment, lag(chain) over w as had_chain,
        max(written_1h_tokens) over (w rows between unbounded preceding and 1 preceding)
            as had_hour, lag(output_tokens) over w as had_output,
        sum(read_tokens + written_tokens) over (partition by conversation) as cached,
        count(*) over w as turn, false as is_linked, lead(chain) over w as next_chain,
        min(input_tokens) over (w rows between unbounded preceding and 1 preceding) as least
    from kept where {COUNTS} and is_billed and conversation <> ''
    window w as (partition by conversation order by coalesce(moment, timestamp '1970-01-01'), seq)
    union all by name
    select own.* exclude (place, above, batch_key, call_key)
            replace (coalesce(linked.is_cut, own.is_cut) as is_cut),
        had.input_tokens as had, had.model as had_model, had.moment as had_moment,
        had.chain as had_chain,
        max(own.written_1h_tokens) over (w rows between unbounded preceding and 1 preceding)
            as had_hour, had.output_tokens as had_output,
        sum(own.read_tokens + own.written_tokens) over (partition by root) as cached,
        count(*) over w as turn, had.seq is not null as is_linked
    from linked join kept as own using (seq) left join kept as had on had.seq = before_seq
    window w as (partition by root order by nth)),
compared as (
    select *, epoch(moment - had_moment) as idle,
        case when chain is null or had_chain is null then null
             else coalesce(list_position(list_transform(
                 range(1, least(len(chain), len(had_chain)) + 1),
                 lambda i: chain[i] <> had_chain[i]), true) - 1,
                 least(len(chain), len(had_chain))) end as same
    from called),
judged as (
    select *, greatest(0, least(had, input_tokens) - read_tokens) as missed,
        case when had is null then null
             when is_cut then 'cut'
             when model <> had_model then 'model'
             when not is_linked and chain[1] <> had_chain[1] and chain[2] <> had_chain[2] then null
             when same = 0 then 'context'
             when not is_linked and same < len(had_chain) and len(chain) < len(had_chain)
                     and len(had_chain) > {LEAST_CUT_MESSAGES} and had >= {CUT_SHARE} * input_tokens
                     and input_tokens - least > {LEAST_SUMMARY_TOKENS}
                     and next_chain[:len(had_chain)] is distinct from had_chain then 'cut'
             when not is_linked and same = 1 and len(chain) < len(had_chain) then null
             when same < len(had_chain) then 'message'
             when cached = 0 then 'off'
             when least(had, input_tokens) - read_tokens <= {BLOCK_TOKENS} then 'tail'
             when idle > case when had_hour > 0 then {HOUR_SECONDS} else {SHORT_SECONDS} end
                 then 'idle'
             when same is null and is_cut is null then 'unknown'
             when idle is null then 'gone'
             else 'evicted' end as cause
    from compared),
split as (
    select *,
        case when cause is null then 0 else least(missed, written_tokens) end as again_written,
        case when cause is null then 0
             else least(greatest(missed - written_tokens, 0), new_tokens) end as again_new
    from judged)
select * exclude (chain, had_chain, same, missed, cached, is_linked, next_chain, least),
    again_written + again_new as again_tokens,
    case when cause = 'idle' and idle <= {HOUR_SECONDS} then again_written else 0 end
        as warm_tokens,
    coalesce(nano_written::hugeint * again_written // nullif(written_tokens, 0), 0)::bigint
        as nano_again_written,
    coalesce(nano_new::hugeint * again_new // nullif(new_tokens, 0), 0)::bigint as nano_again_new,
    greatest(0, input_tokens - coalesce(had, 0) - coalesce(had_output, 0)) as grown
from split
union all by name
select * exclude (place, above, batch_key, call_key, chain),
    0 as again_written, 0 as again_new, 0 as again_tokens, 0 as warm_tokens,
    0 as nano_again_written, 0 as nano_again_new, 0 as grown
from kept where {COUNTS}
    and (not is_billed or (conversation = '' and seq not in (select seq from linked)))
"""


@dataclass(frozen=True, slots=True)
class Cause:
    """Input that was paid again for one reason.

    Attributes:
        name: The reason, of `CAUSES`.
        calls: How many calls.
        tokens: How much input.
        nano: What it cost, in nano-dollars.
        first: The first of these calls; None where times are not known.
        last: The last one.
    """

    name: str
    calls: int
    tokens: int
    nano: int
    first: dt.datetime | None
    last: dt.datetime | None

    def as_json(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        return {
            "cause": self.name,
            "calls": self.calls,
            "tokens": self.tokens,
            "nano_dollars": self.nano,
            "first": None if self.first is None else self.first.isoformat(),
            "last": None if self.last is None else self.last.isoformat(),
        }


def find_causes(ledger: Ledger) -> list[Cause]:
    """The reasons why input was paid again, that of most tokens first.

    Makes the table `spent`, which has each call with what of it was paid again.
    """
    link(ledger)
    ledger.rows(_SPENT)
    return [
        Cause(name, calls, int(tokens), int(nano or 0), first, last)
        for name, calls, tokens, nano, first, last in ledger.rows(
            "select cause, count(*), sum(again_tokens) as tokens, "
            "sum(nano_again_written + nano_again_new), min(moment), max(moment) "
            "from spent where again_tokens > 0 group by cause order by tokens desc, cause"
        )
    ]


def again(ledger: Ledger, by: str) -> dict[str, tuple[int, int]]:
    """The nano-dollars of writing and of new input that were paid again, by an SQL expression."""
    return {
        name: (int(written or 0), int(new or 0))
        for name, written, new in ledger.rows(
            f"select coalesce({by}, ''), sum(nano_again_written), sum(nano_again_new) "
            "from spent group by 1"
        )
    }


def tools(ledger: Ledger, most: int) -> list[tuple[str, int, int]]:
    """The tools whose results made the input grow most: calls that sent them, tokens they added.

    Growth is what a call has more than the one before and its answer; several tools share it.
    """
    return [
        (name, calls, int(tokens))
        for name, calls, tokens in ledger.rows(
            "select tool, count(*), sum(grown // len(tools)) as tokens from "
            "(select unnest(tools) as tool, tools, grown from spent where len(tools) > 0) "
            f"group by tool order by tokens desc, tool limit {most}"
        )
    ]
