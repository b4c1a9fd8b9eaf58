"""The answer when a budget has no room: as the vendors word their own limits."""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.errors import Error
from tokenctx._results.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from tokenctx._results.estimates import Dialect
    from tokenctx.money.budgets.budget import Budget, Unit
    from tokenctx.money.budgets.store import Balance


@dataclass(frozen=True, slots=True)
class BudgetRefusal(Result):
    """A call for which a budget has no room, and what to answer.

    Attributes:
        status: Of HTTP: 429.
        headers: In lower case; all but the length.
        body: What to send.
        message: The message in it; numbers and the name of the budget.
        budget: The name of the budget.
        wanted: What the call would take of it: tokens, dollars, requests or calls at once.
        left: What is left of it, likewise.
        limit: What there is of it, likewise.
        retry_after_seconds: When there may be room: at the end of its window, in a rolling one
            when enough has left it, and after a second where calls at once are limited. None if it
            has no window, or if the call takes more than there is in any.
    """

    status: int
    headers: dict[str, str] = field(hash=False)
    body: bytes
    message: str
    budget: str
    wanted: int | Decimal
    left: int | Decimal
    limit: int | Decimal
    retry_after_seconds: float | None


class BudgetError(Error):
    """A budget has no room for a call that a framework makes; the call was not sent.

    Attributes:
        refusal: Which budget, what is left of it, and when to ask again.
    """

    def __init__(self, refusal: BudgetRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal

    def __reduce__(self) -> tuple[type[BudgetError], tuple[BudgetRefusal]]:
        return type(self), (self.refusal,)


SLOT_SECONDS: Final = 1.0
"""After this a call that found no slot may ask again: nobody knows when one is given back."""
UNITS: Final = {"tokens": "tokens", "money": "dollars", "requests": "requests"}


def refusal_of(
    budget: Budget,
    wanted: int,
    balance: Balance,
    dialect: Dialect | None,
    headers: dict[str, str],
) -> BudgetRefusal:
    """The answer for a call that would take `wanted` of a budget."""
    limit = balance.limit
    needs, rest, most = map(budget.told, (wanted, max(0, limit - balance.taken), limit))
    if budget.unit == "concurrency":
        retry = SLOT_SECONDS if wanted <= limit else None
        message = f"Rate limit reached for budget {budget.name}: {most} calls at once."
    else:
        unit = UNITS[budget.unit]
        span = "in all" if budget.per is None else f"per {budget.per}"
        retry = balance.reset_seconds if budget.seconds and wanted <= limit else None
        message = (
            f"Rate limit reached for budget {budget.name}: this request needs up to {needs} "
            f"{unit}, {rest} of {most} {span} are left."
        )
    if retry is not None:
        headers = {**headers, "retry-after": str(max(1, math.ceil(retry)))}
        message += f" Please try again in {math.ceil(retry)} s."
    elif wanted > limit:
        message += " It does not fit at any time."
        headers = {**headers, "x-should-retry": "false"}
    return _answer(budget, message, (needs, rest, most), retry, dialect, headers)


def unknown_refusal(
    budget: Budget,
    wanted: str,
    dialect: Dialect | None,
    headers: dict[str, str],
) -> BudgetRefusal:
    """The answer for a call of which nobody knows what it would take; `wanted` says why."""
    message = f"Refused by budget {budget.name}: {wanted}."
    most = budget.told(budget.limit)
    headers = {**headers, "x-should-retry": "false"}
    return _answer(budget, message, (0, 0, most), None, dialect, headers)


def _answer(
    budget: Budget,
    message: str,
    amounts: tuple[int | Decimal, int | Decimal, int | Decimal],
    retry: float | None,
    dialect: Dialect | None,
    headers: dict[str, str],
) -> BudgetRefusal:
    body = json.dumps(_body(dialect, message, retry, budget.unit)).encode()
    headers = {"content-type": "application/json", **headers}
    if dialect == "bedrock-converse":
        headers["x-amzn-errortype"] = "ThrottlingException"
    return BudgetRefusal(429, headers, body, message, budget.name, *amounts, retry)


def _body(dialect: Dialect | None, message: str, retry: float | None, unit: Unit) -> dict[str, Any]:
    if dialect == "anthropic":
        return {"type": "error", "error": {"type": "rate_limit_error", "message": message}}
    if dialect == "bedrock-converse":
        return {"message": message}
    if dialect in ("gemini", "gemini-interactions"):
        error: dict[str, Any] = {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED"}
        if retry is not None:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            error["details"] = [{"@type": kind, "retryDelay": f"{math.ceil(retry)}s"}]
        return {"error": error}
    kind = "insufficient_quota" if unit == "money" else unit
    code = "insufficient_quota" if unit == "money" else "rate_limit_exceeded"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def limit_headers(
    budgets: Sequence[Budget], balances: Sequence[Balance], dialect: Dialect | None
) -> dict[str, str]:
    """The vendor's rate-limit headers, of the budgets of tokens and requests with the least left.

    Budgets without a window have none, since vendors have none of that kind.
    """
    headers: dict[str, str] = {}
    for unit in ("tokens", "requests"):
        balance = min(
            (it for of, it in zip(budgets, balances, strict=True) if of.unit == unit and of.per),
            key=lambda it: it.limit - it.taken,
            default=None,
        )
        if balance is not None:
            headers |= _limit_headers(unit, balance, dialect)
    return headers


def _limit_headers(unit: str, balance: Balance, dialect: Dialect | None) -> dict[str, str]:
    left = max(0, balance.limit - balance.taken)
    if dialect == "anthropic":
        now = dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=balance.reset_seconds)
        return {
            f"anthropic-ratelimit-{unit}-limit": str(balance.limit),
            f"anthropic-ratelimit-{unit}-remaining": str(left),
            f"anthropic-ratelimit-{unit}-reset": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        }
    return {
        f"x-ratelimit-limit-{unit}": str(balance.limit),
        f"x-ratelimit-remaining-{unit}": str(left),
        f"x-ratelimit-reset-{unit}": f"{balance.reset_seconds:.3f}s",
    }
