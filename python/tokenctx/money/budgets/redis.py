"""Budgets in Redis or Valkey, of all processes that share it: one script, one round trip a step."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, cast

from tokenctx.money.budgets.store import RETRY_SECONDS, Balance, Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tokenctx.money.budgets.store import Step

SCRIPT: Final = """
-- KEYS: of each budget a hash (w window, u used, h held, a:ID amount, s if settled) and its leases.
-- ARGV: r or s, id, seconds to keep it, time or -1; of each budget limit, seconds, amount, window.
local now = tonumber(ARGV[4])
if now < 0 then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end
local kind, id, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local field, count = 'a:' .. id, #KEYS / 2
local whole = function(number) return string.format('%.0f', number) end
local used, held, windows, amounts, refused = {}, {}, {}, {}, 0
for i = 1, count do
  local hash, leases, at = KEYS[2 * i - 1], KEYS[2 * i], 4 * i
  local limit, seconds = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  amounts[i] = tonumber(ARGV[at + 3])
  local window = seconds > 0 and math.floor(now / seconds) or 0
  local kept = redis.call('HMGET', hash, 'w', 'u', 'h')
  windows[i] = tonumber(kept[1]) or -1
  used[i], held[i] = tonumber(kept[2]) or 0, tonumber(kept[3]) or 0
  if window > windows[i] or window < windows[i] - 1 then  -- later; or the clock had jumped
    if kept[1] then redis.call('DEL', hash, leases) end
    windows[i], used[i], held[i] = window, 0, 0
  end
  local ended = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 1000)
  if kind == 'r' then  -- of a clock that had jumped ahead
    local later = redis.call('ZRANGEBYSCORE', leases, now + 86400 + lease, '+inf', 'LIMIT', 0, 1000)
    for _, name in ipairs(later) do ended[#ended + 1] = name end
  end
  for _, name in ipairs(ended) do
    local amount = redis.call('HGET', hash, 'a:' .. name)
    if amount and amount ~= 's' then held[i] = held[i] - tonumber(amount) end
    redis.call('HDEL', hash, 'a:' .. name)
    redis.call('ZREM', leases, name)
  end
  if kind == 'r' and refused == 0 and used[i] + held[i] + amounts[i] > limit then refused = i end
end
local answer = {refused}
for i = 1, count do
  local hash, leases, at = KEYS[2 * i - 1], KEYS[2 * i], 4 * i
  local seconds = tonumber(ARGV[at + 2])
  local known = redis.call('HGET', hash, field)
  local is_new = false  -- what is settled is kept for a while, so that a retry does nothing
  if kind == 'r' then
    is_new = refused == 0 and not known
    if is_new then
      held[i] = held[i] + amounts[i]
      redis.call('HSET', hash, field, whole(amounts[i]))
    end
  elseif (tonumber(ARGV[at + 4]) < 0 or tonumber(ARGV[at + 4]) >= windows[i]) and known ~= 's' then
    is_new = true
    if known then held[i] = held[i] - tonumber(known) end
    used[i] = used[i] + amounts[i]
    redis.call('HSET', hash, field, 's')
  end
  if is_new then redis.call('ZADD', leases, now + lease, id) end
  redis.call('HSET', hash, 'w', whole(windows[i]), 'u', whole(used[i]), 'h', whole(held[i]))
  local reset = 0
  if seconds > 0 then
    reset = math.max(0, (windows[i] + 1) * seconds - now)
    local life = math.ceil((reset + lease) * 1000)
    redis.call('PEXPIRE', hash, life)
    redis.call('PEXPIRE', leases, life)
  end
  answer[#answer + 1] = whole(used[i] + held[i])
  answer[#answer + 1] = whole(windows[i])
  answer[#answer + 1] = whole(reset * 1000)
end
return answer
"""
_DIGEST: Final = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()


class RedisBudgetStore:
    """Budgets in Redis or Valkey, for `Budgets(store=...)`.

    `client` is a client of the package redis or valkey, for a single server, sentinels or a
    cluster, sync or async; it stays the caller's, with its timeouts: `Budgets` waits no longer
    than its own deadline. Windows and leases go by the clock of the server, so that those of the
    workers do not matter.
    All keys of one `prefix` have one hash tag, since a step takes its budgets together: a cluster
    keeps them on one node, and another prefix on another. `clock` gives seconds since 1970 in place
    of the server, for a replay. Raises TypeError for any other client.
    """

    def __init__(
        self,
        client: Any,
        *,
        prefix: str = "tokenctx-budget",
        clock: Callable[[], float] | None = None,
    ) -> None:
        modules = [base.__module__ for base in type(client).__mro__]
        known = [it for it in modules if it.partition(".")[0] in ("redis", "valkey")]
        if not known:
            raise TypeError(
                f"client is a {type(client).__qualname__}; it must be a client of redis or valkey. "
                "For anything else, implement tokenctx.money.budgets.store.BudgetStore"
            )
        self._client = client
        self._is_async = ".asyncio" in known[0]
        self._prefix = f"{{{prefix}}}"
        self._clock = clock

    @property
    def is_async(self) -> bool:
        """True if the client is asynchronous."""
        return self._is_async

    def apply(self, step: Step) -> Outcome | Awaitable[Outcome]:
        """Do one step: EVALSHA, and EVAL where the server does not know the script yet."""
        keys = [f"{self._prefix}{it.key}{end}" for it in step.claims for end in ("", ":l")]
        now = -1.0 if self._clock is None else self._clock()
        kept = step.lease_seconds if step.kind == "reserve" else RETRY_SECONDS
        words: list[Any] = [step.kind[0], step.id, kept, now]
        for claim in step.claims:
            words += [claim.limit, claim.seconds, claim.amount, claim.window]
        call = (len(keys), *keys, *words)
        if self._is_async:
            return self._aapply(call)
        try:
            answer = self._client.evalsha(_DIGEST, *call)
        except Exception as error:
            if not _is_unknown(error):
                raise
            answer = self._client.eval(SCRIPT, *call)
        return _outcome(answer)

    async def _aapply(self, call: tuple[Any, ...]) -> Outcome:
        try:
            answer = await self._client.evalsha(_DIGEST, *call)
        except Exception as error:
            if not _is_unknown(error):
                raise
            answer = await self._client.eval(SCRIPT, *call)
        return _outcome(answer)


def _is_unknown(error: Exception) -> bool:
    """True if the server does not know the script."""
    return type(error).__name__ == "NoScriptError" or "NOSCRIPT" in str(error)


def _outcome(answer: Any) -> Outcome:
    refused, *rest = (int(cast("Any", it)) for it in answer)
    threes = zip(*[iter(rest)] * 3, strict=True)
    balances = [Balance(taken, window, reset / 1000) for taken, window, reset in threes]
    return Outcome(refused - 1 if refused else None, balances)
