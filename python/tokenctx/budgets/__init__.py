"""Token and money budgets: reserved before a call, settled with its bill.

What a call may take at most is reserved at once in all budgets that it falls under, or in none:
the `high` of its estimate and the output that its tenant and model usually give. The bill puts the
true number in its place; a failure gives it back, and a caller that dies loses its lease.
"""

from tokenctx.budgets.budget import Budget
from tokenctx.budgets.budgets import Budgets
from tokenctx.budgets.memory import MemoryBudgetStore
from tokenctx.budgets.redis import RedisBudgetStore
from tokenctx.budgets.refusal import BudgetRefusal
from tokenctx.budgets.reservation import Reservation

__all__ = [
    "Budget",
    "BudgetRefusal",
    "Budgets",
    "MemoryBudgetStore",
    "RedisBudgetStore",
    "Reservation",
]
