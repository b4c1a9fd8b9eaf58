"""The context window of a conversation: how full it is, with what, and what to do about it."""

from tokenctx._results.front import front

__getattr__, __dir__ = front(__name__, __file__)
