"""Budgets in Redis or Valkey, of all processes that share it: one script, one round trip a step."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, cast

from tokenctx.money.budgets.store import RETRY_SECONDS, Balance, Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tokenctx.money.budgets.store import Step

SCRIPT: Final = """
-- KEYS: of each budget a hash (w newest part, t taken, b:PART of it if it rolls, a:ID amount:part
-- held, with :l behind it once its lease is over, or s if settled) and its leases; last the limits
-- that an operator has set.
-- ARGV: kind, id, seconds to keep it, time or -1, seconds to know what is over; of each limit,
-- seconds, amount, window, parts, and 1 if it is given back when the lease of its caller ends.
local now = tonumber(ARGV[4])
if now < 0 then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end
local kind, id, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local field, count, limits = 'a:' .. id, (#KEYS - 1) / 2, KEYS[#KEYS]
local takes = kind == 'reserve' or kind == 'hold'
local whole = function(number) return string.format('%.0f', number) end
local parsed = function(value)
  if not value then return nil end
  local amount, part, over = string.match(value, '^(%d+):(%d+)(:?l?)$')
  return tonumber(amount), tonumber(part), over == ':l'
end
local add = function(it, part, amount)  -- nothing if the part counts no longer
  if amount == 0 or part <= it.newest - it.counted then return end
  it.taken = it.taken + amount
  if it.counted > 1 then redis.call('HINCRBY', it.hash, 'b:' .. whole(part), whole(amount)) end
end
local clear = function(it)  -- a bill that comes twice is known all the same
  local all = redis.call('HGETALL', it.hash)
  for n = 1, #all, 2 do
    local kept, name = string.sub(all[n], 1, 2), string.sub(all[n], 3)
    if kept == 'b:' or (kept == 'a:' and all[n + 1] ~= 's') then
      redis.call('HDEL', it.hash, all[n])
      if kept == 'a:' then redis.call('ZREM', it.leases, name) end
    end
  end
  it.taken = 0
  if it.known ~= 's' then it.known = false end
end
local names = function(first, last)
  local found = {}
  for part = first, last do found[#found + 1] = 'b:' .. whole(part) end
  return found
end
local budgets, refused = {}, 0
for i = 1, count do
  local it, at = {hash = KEYS[2 * i - 1], leases = KEYS[2 * i]}, 6 * i - 1
  local seconds, parts = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 5])
  it.amount, it.window = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  it.limit = tonumber(redis.call('HGET', limits, it.hash) or ARGV[at + 1])
  it.length, it.counted = seconds / parts, parts > 1 and parts + 1 or 1
  local part = seconds > 0 and math.floor(now / it.length) or 0
  local kept = redis.call('HMGET', it.hash, 'w', 't', field)
  it.newest, it.taken, it.known = tonumber(kept[1]) or -1, tonumber(kept[2]) or 0, kept[3]
  it.exists = kept[1]
  if part < it.newest - it.counted then  -- the clock had jumped ahead
    it.newest = part
    clear(it)
  elseif part > it.newest then
    if it.counted == 1 then
      it.taken = 0
    elseif it.newest >= 0 then
      local old = names(it.newest - it.counted + 1, math.min(it.newest, part - it.counted))
      if #old > 0 then
        for _, amount in ipairs(redis.call('HMGET', it.hash, unpack(old))) do
          it.taken = it.taken - (tonumber(amount) or 0)
        end
        redis.call('HDEL', it.hash, unpack(old))
      end
    end
    it.newest = part
  end
  local ended = redis.call('ZRANGEBYSCORE', it.leases, '-inf', now, 'LIMIT', 0, 1000)
  if kind == 'reserve' then  -- of a clock that had jumped ahead
    local later = now + 86400 + lease
    local found = redis.call('ZRANGEBYSCORE', it.leases, later, '+inf', 'LIMIT', 0, 1000)
    for _, name in ipairs(found) do ended[#ended + 1] = name end
  end
  for _, name in ipairs(ended) do
    local value = redis.call('HGET', it.hash, 'a:' .. name)
    local amount, from, over = parsed(value)
    local known = tonumber(ARGV[5])
    known = math.min(tonumber(redis.call('ZSCORE', it.leases, name)) + known, now + known)
    local is_booked = ARGV[at + 6] == '0'
    if amount and not over and is_booked and known > now then  -- its bill may come yet
      redis.call('HSET', it.hash, 'a:' .. name, value .. ':l')
      redis.call('ZADD', it.leases, known, name)
    else
      if amount and not is_booked then add(it, from, -amount) end
      redis.call('HDEL', it.hash, 'a:' .. name)
      redis.call('ZREM', it.leases, name)
      if name == id then it.known = false end
    end
  end
  if kind == 'reserve' and refused == 0 and it.taken + it.amount > it.limit then refused = i end
  budgets[i] = it
end
local answer = {refused}
for i, it in ipairs(budgets) do
  local before, from = parsed(it.known)
  local is_new = false  -- what is settled is kept for a while, so that a retry does nothing
  if kind == 'hold' and before then
    is_new = true
    local more = math.max(it.amount - before, 0)
    add(it, from, more)
    redis.call('HSET', it.hash, field, whole(before + more) .. ':' .. whole(from))
  elseif takes and refused == 0 and not it.known then
    is_new = true
    add(it, it.newest, it.amount)
    redis.call('HSET', it.hash, field, whole(it.amount) .. ':' .. whole(it.newest))
  elseif kind == 'settle' and it.known ~= 's' then
    is_new = true
    if before then add(it, from, -before) end
    local part = it.window
    if part < 0 or part > it.newest then part = it.newest end
    add(it, part, it.amount)
    redis.call('HSET', it.hash, field, 's')
  elseif kind == 'reset' then
    clear(it)
  elseif kind == 'limit' then
    it.limit = it.amount < 0 and tonumber(ARGV[6 * i]) or it.amount
    if it.amount < 0 then redis.call('HDEL', limits, it.hash) end
    if it.amount >= 0 then redis.call('HSET', limits, it.hash, whole(it.amount)) end
  end
  if is_new then redis.call('ZADD', it.leases, now + lease, id) end
  local reset = it.length > 0 and math.max(0, (it.newest + it.counted) * it.length - now) or 0
  if it.exists or takes or kind == 'settle' then
    redis.call('HSET', it.hash, 'w', whole(it.newest), 't', whole(it.taken))
    if it.length > 0 then
      local life = math.ceil((reset + lease) * 1000)
      redis.call('PEXPIRE', it.hash, life)
      redis.call('PEXPIRE', it.leases, life)
    elseif it.taken == 0 then  -- such as the slots of a tenant that has gone
      redis.call('PEXPIRE', it.hash, math.ceil(lease * 1000))
    else
      redis.call('PERSIST', it.hash)
    end
  end
  local beyond = it.taken + it.amount - it.limit
  if refused > 0 and it.counted > 1 and beyond > 0 then  -- until there is room
    local first = it.newest - it.counted + 1
    for n, amount in ipairs(redis.call('HMGET', it.hash, unpack(names(first, it.newest)))) do
      beyond = beyond - (tonumber(amount) or 0)
      if beyond <= 0 then
        reset = math.max(0, (first + n - 1 + it.counted) * it.length - now)
        break
      end
    end
  end
  answer[#answer + 1] = whole(it.taken)
  answer[#answer + 1] = whole(it.newest)
  answer[#answer + 1] = whole(reset * 1000)
  answer[#answer + 1] = whole(it.limit)
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
        keys.append(f"{self._prefix}:limits")
        now = -1.0 if self._clock is None else self._clock()
        kept = RETRY_SECONDS if step.kind == "settle" else step.lease_seconds
        words: list[Any] = [step.kind, step.id, kept, now, RETRY_SECONDS]
        for claim in step.claims:
            words += [claim.limit, claim.seconds, claim.amount, claim.window, claim.parts]
            words.append(int(claim.returns))
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
    fours = zip(*[iter(rest)] * 4, strict=True)
    balances = [Balance(taken, part, reset / 1000, limit) for taken, part, reset, limit in fours]
    return Outcome(refused - 1 if refused else None, balances)
