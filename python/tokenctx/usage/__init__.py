"""Usage that a provider reports: one normal form, of answers and streams, scaled for agents."""

from tokenctx._results.front import front

__getattr__, __dir__ = front(__name__, __file__)
