"""Text to tokens: the vocabularies, by name, by model, and your own from a file."""

from tokenctx._results.front import front

__getattr__, __dir__ = front(__name__, __file__)
