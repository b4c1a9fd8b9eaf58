"""Token and money budgets: reserved before a call, settled with its bill.

What a call may take at most is reserved at once in all budgets that it falls under, or in none:
the `high` of its estimate and the output that its tenant and model usually give. The bill puts the
true number in its place; a failure gives it back, and a caller that dies loses its lease.
"""

from tokenctx.money.budgets.budget import Budget
from tokenctx.money.budgets.budgets import Budgets
from tokenctx.money.budgets.memory import MemoryBudgetStore
from tokenctx.money.budgets.redis import RedisBudgetStore
from tokenctx.money.budgets.refusal import BudgetRefusal
from tokenctx.money.budgets.reservation import Reservation

__all__ = [
    "Budget",
    "BudgetRefusal",
    "Budgets",
    "MemoryBudgetStore",
    "RedisBudgetStore",
    "Reservation",
]
