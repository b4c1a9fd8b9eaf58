"""Known prefixes that several processes share: a store, and what keeps its failures away."""

from tokenctx._results.front import front

__getattr__, __dir__ = front(__name__, __file__)
