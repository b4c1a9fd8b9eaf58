"""The answer when a budget has no room: as the vendors word their own limits."""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tokenctx._results.result import Result
from tokenctx.money.budgets.budget import NANO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenctx._results.estimates import Dialect
    from tokenctx.money.budgets.budget import Budget
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
        wanted: What the call would take of it: tokens, or dollars.
        left: What is left of it, likewise.
        limit: What there is of it, likewise.
        retry_after_seconds: When its window ends; None if it has none, or if the call takes more
            than there is in any window.
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


def told(budget: Budget, amount: int) -> int | Decimal:
    """An amount of a budget in tokens or dollars."""
    return Decimal(amount) / NANO if budget.is_money else amount


def refusal_of(
    budget: Budget,
    wanted: int,
    balance: Balance,
    dialect: Dialect | None,
    headers: dict[str, str],
) -> BudgetRefusal:
    """The answer for a call that would take `wanted` of a budget."""
    left = max(0, budget.limit - balance.taken)
    unit = "dollars" if budget.is_money else "tokens"
    needs, rest, most = (told(budget, it) for it in (wanted, left, budget.limit))
    span = "in all" if budget.per is None else f"per {budget.per}"
    retry = balance.reset_seconds if budget.seconds and wanted <= budget.limit else None
    message = (
        f"Rate limit reached for budget {budget.name}: this request needs up to {needs} "
        f"{unit}, {rest} of {most} {span} are left."
    )
    if retry is not None:
        headers = {**headers, "retry-after": str(math.ceil(retry))}
        message += f" Please try again in {math.ceil(retry)} s."
    elif wanted > budget.limit:
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
    most = told(budget, budget.limit)
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
    body = json.dumps(_body(dialect, message, retry, is_money=budget.is_money)).encode()
    headers = {"content-type": "application/json", **headers}
    if dialect == "bedrock-converse":
        headers["x-amzn-errortype"] = "ThrottlingException"
    return BudgetRefusal(429, headers, body, message, budget.name, *amounts, retry)


def _body(
    dialect: Dialect | None, message: str, retry: float | None, *, is_money: bool
) -> dict[str, Any]:
    if dialect == "anthropic":
        return {"type": "error", "error": {"type": "rate_limit_error", "message": message}}
    if dialect == "bedrock-converse":
        return {"message": message}
    if dialect == "gemini":
        error: dict[str, Any] = {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED"}
        if retry is not None:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            error["details"] = [{"@type": kind, "retryDelay": f"{math.ceil(retry)}s"}]
        return {"error": error}
    kind = "insufficient_quota" if is_money else "tokens"
    code = "insufficient_quota" if is_money else "rate_limit_exceeded"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def limit_headers(
    budgets: Sequence[Budget], balances: Sequence[Balance], dialect: Dialect | None
) -> dict[str, str]:
    """The vendor's rate-limit headers, of the budget of tokens that has the least left."""
    pairs = [
        (budget, balance)
        for budget, balance in zip(budgets, balances, strict=True)
        if not budget.is_money and budget.seconds
    ]
    if not pairs:
        return {}
    budget, balance = min(pairs, key=lambda it: it[0].limit - it[1].taken)
    left = max(0, budget.limit - balance.taken)
    if dialect == "anthropic":
        now = dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=balance.reset_seconds)
        return {
            "anthropic-ratelimit-tokens-limit": str(budget.limit),
            "anthropic-ratelimit-tokens-remaining": str(left),
            "anthropic-ratelimit-tokens-reset": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        }
    return {
        "x-ratelimit-limit-tokens": str(budget.limit),
        "x-ratelimit-remaining-tokens": str(left),
        "x-ratelimit-reset-tokens": f"{balance.reset_seconds:.3f}s",
    }
