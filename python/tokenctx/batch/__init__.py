"""Many rows at once, on all cores, as columns: estimates, counts, usage, cost; DuckDB and Spark."""

from tokenctx._results.front import front

__getattr__, __dir__ = front(__name__, __file__)
