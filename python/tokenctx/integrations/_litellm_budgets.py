"""Budgets of litellm's calls: reserved by attempt, settled with its bill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litellm.exceptions import RateLimitError

from tokenctx import normalize_usage
from tokenctx.integrations import _litellm_calls as calls
from tokenctx.integrations._litellm_calls import Json, LitellmCall

if TYPE_CHECKING:
    from tokenctx.money.budgets import BudgetRefusal, Budgets


class RefusalHeaders(dict[str, str]):
    """Headers of a refusal, for the client; litellm's router reads of them that it may go on.

    It takes `retry-after` for the time in which a deployment is to be left alone, by all tenants.
    It asks by `get`; what copies them for the client goes through the items.
    """

    def get(self, key: str, default: Any = None) -> Any:
        return "0" if key == "retry-after" else super().get(key, default)


async def reserve(
    budgets: Budgets | None, call: LitellmCall, metadata: Json, before: LitellmCall | None = None
) -> None:
    """Reserve an attempt, by the tenant, and by `user` and `team` of the virtual key.

    What the attempt `before` has reserved is given back: litellm tells its failure to nobody, if it
    tries again. Raises litellm's RateLimitError if a budget has no room, which is not retried and
    leaves no deployment alone.
    """
    if before is not None and before is not call and before.reservation is not None:
        await before.reservation.arelease()
    if budgets is None:
        return
    keys = {
        "tenant": call.names["tenant"],
        "user": metadata.get("user_api_key_user_id"),
        "team": metadata.get("user_api_key_team_id"),
    }
    taken = call.estimate if call.estimate is not None else call.bound()
    call.reservation = await budgets.areserve(taken, keys)
    if (refusal := call.reservation.refusal) is not None:
        raise refused(refusal, call.names["model"])


def refused(refusal: BudgetRefusal, model: str) -> RateLimitError:
    """The error of a refusal, with the headers that the client is to see."""
    error = RateLimitError(refusal.message, llm_provider="", model=model)
    error.num_retries = 0
    error.headers = RefusalHeaders(
        {name: value for name, value in refusal.headers.items() if name != "content-type"}
    )
    return error


async def settle(call: LitellmCall, told: object, response: object) -> None:
    """Put the bill in the place of what was reserved.

    Without one, since `told` is not the response, that is booked, or what litellm has counted of
    the answer if that is more.
    """
    if call.reservation is None:
        return
    usage = normalize_usage(response, call.dialect)
    if usage is not None and told is response and usage.input_tokens:
        await call.reservation.asettle(usage)
        return
    seen = 0 if usage is None else usage.output_tokens
    await call.reservation.akeep(seen, told if isinstance(told, int) else 0)


async def release(details: Json) -> None:
    """Give back what an attempt that failed has reserved."""
    call: Any = details.get(calls.KEY)
    if isinstance(call, LitellmCall) and call.reservation is not None:
        await call.reservation.arelease()
