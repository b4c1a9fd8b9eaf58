"""Prices and costs, the cache of the provider, budgets, routing."""
