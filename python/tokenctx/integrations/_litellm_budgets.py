"""Budgets of litellm's calls: reserved by attempt, settled with its bill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from litellm.exceptions import RateLimitError

from tokenctx import normalize_usage
from tokenctx.gateway.booking import LATE_STATUSES, Booking, errors_behind, may_be_served, status_of
from tokenctx.gateway.bounds import choices_of, unseen_tokens
from tokenctx.integrations import _litellm_calls as calls
from tokenctx.integrations._litellm_calls import Json, LitellmCall

if TYPE_CHECKING:
    from tokenctx.gateway.journal import Journal
    from tokenctx.money.budgets import BudgetRefusal, Budgets


LATE: Final = ("Timeout", "APIConnectionError")
"""Classes of litellm's errors after which a provider may have answered, and will bill."""


class RefusalHeaders(dict[str, str]):
    """Headers of a refusal, for the client; litellm's router reads of them that it may go on.

    It takes `retry-after` for the time in which a deployment is to be left alone, by all tenants.
    It asks by `get`; what copies them for the client goes through the items.
    """

    def get(self, key: str, default: Any = None) -> Any:
        return "0" if key == "retry-after" else super().get(key, default)


async def reserve(
    budgets: Budgets | None,
    call: LitellmCall,
    details: Json,
    before: LitellmCall | None,
    journal: Journal,
) -> None:
    """Reserve an attempt, by the tenant, and by `user` and `team` of the virtual key.

    The attempt `before` is ended first: litellm tells its failure to nobody, if it tries again, and
    leaves the class of its error alone. Raises litellm's RateLimitError if a budget has no room,
    which is not retried and leaves no deployment alone.
    """
    if before is not None and before is not call and before.reservation is not None:
        await _end(before, details, is_late=_was_late(details))
    if budgets is None:
        return
    metadata = calls.metadata_of(details)
    keys = {
        "tenant": call.names["tenant"],
        "user": metadata.get("user_api_key_user_id"),
        "team": metadata.get("user_api_key_team_id"),
    }
    taken = call.estimate if call.estimate is not None else call.bound()
    booking = Booking(budgets, keys, journal)
    refusal = await booking.areserve(taken, None, choices_of(details))
    call.reservation = booking.reservation
    if refusal is not None:
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
        await call.reservation.asettle(usage, model=calls.answered(call, response)["model"] or "")
        return
    seen = 0 if usage is None else usage.output_tokens
    await call.reservation.akeep(seen, told if isinstance(told, int) else 0)


async def release(details: Json) -> None:
    """End what an attempt that failed has reserved."""
    call: Any = details.get(calls.KEY)
    if isinstance(call, LitellmCall) and call.reservation is not None:
        await _end(call, details, is_late=_is_late(details))


async def _end(call: LitellmCall, details: Json, *, is_late: bool) -> None:
    """Book an attempt that may have been answered; give back any other."""
    if call.reservation is None:
        return
    if not is_late:
        await call.reservation.arelease()
        return
    if details.get("stream") and details.get("completion_start_time") is None:
        await call.reservation.akeep()  # a stream that had not begun
        return
    asked = call.estimate.requested_output_tokens if call.estimate is not None else None
    await call.reservation.akeep(unseen_tokens(asked * choices_of(details) if asked else None))


def _is_late(details: Json) -> bool:
    """True if an attempt that failed may have been answered: in part, or too late."""
    error = details.get("exception")
    if details.get("completion_start_time") is not None or not isinstance(error, Exception):
        return True
    for one in errors_behind(
        error, with_context=True
    ):  # litellm's own say a status that nobody may have sent
        names = {base.__name__ for base in type(one).__mro__}
        is_own = type(one).__module__.startswith("litellm")
        if names & {"APIStatusError", "HTTPStatusError"} and not is_own:
            return status_of(one) in LATE_STATUSES
    status = status_of(error)
    return status == 408 or (may_be_served(error, with_context=True) and not 400 <= status < 500)


def _was_late(details: Json) -> bool:
    """As `_is_late`, of the attempt before this one, as far as litellm tells it."""
    for name in calls.METADATA:
        tried = (details.get(name) or {}).get("previous_models")
        if tried and isinstance(tried[-1], dict):
            return str(tried[-1].get("exception_type")) in LATE
    return False
