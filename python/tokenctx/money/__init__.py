"""Money: prices and costs, what the provider's cache saves, budgets, and routing by cost."""

from tokenctx._results.front import front

__getattr__, __dir__ = front(__name__, __file__)
