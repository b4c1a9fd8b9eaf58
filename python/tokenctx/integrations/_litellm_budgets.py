"""Budgets of litellm's calls: reserved by attempt, settled with its bill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litellm.exceptions import RateLimitError

from tokenctx import normalize_usage
from tokenctx.integrations import _litellm_calls as calls
from tokenctx.integrations._litellm_calls import Json, LitellmCall

if TYPE_CHECKING:
    from tokenctx.money.budgets import Budgets


async def reserve(budgets: Budgets | None, call: LitellmCall, metadata: Json) -> None:
    """Reserve an attempt, by the tenant, and by `user` and `team` of the virtual key.

    Raises litellm's RateLimitError if a budget has no room.
    """
    if budgets is None or call.estimate is None:
        return
    keys = {
        "tenant": call.names["tenant"],
        "user": metadata.get("user_api_key_user_id"),
        "team": metadata.get("user_api_key_team_id"),
    }
    call.reservation = await budgets.areserve(call.estimate, keys)
    if (refusal := call.reservation.refusal) is not None:
        raise RateLimitError(refusal.message, llm_provider="", model=call.names["model"])


async def settle(call: LitellmCall, told: object) -> None:
    """Put the bill in the place of what was reserved, or book that where no provider sent one."""
    if call.reservation is None:
        return
    usage = normalize_usage(told, call.dialect)
    await (call.reservation.akeep() if usage is None else call.reservation.asettle(usage))


async def release(details: Json) -> None:
    """Give back what an attempt that failed has reserved."""
    call: Any = details.get(calls.KEY)
    if isinstance(call, LitellmCall) and call.reservation is not None:
        await call.reservation.arelease()
