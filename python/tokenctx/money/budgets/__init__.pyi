from tokenctx.money.budgets.budget import Budget as Budget
from tokenctx.money.budgets.budgets import Budgets as Budgets
from tokenctx.money.budgets.memory import MemoryBudgetStore as MemoryBudgetStore
from tokenctx.money.budgets.redis import RedisBudgetStore as RedisBudgetStore
from tokenctx.money.budgets.refusal import BudgetRefusal as BudgetRefusal
from tokenctx.money.budgets.reservation import Reservation as Reservation
from tokenctx.money.budgets.uncounted import Uncounted as Uncounted
