"""Requests and answers from one dialect to another, with a list of what could not be carried over.

One module per dialect reads into a neutral conversation (`model`) and writes from it; nothing is
written for a pair of dialects.
"""

from tokenctx._results.front import front

__getattr__, __dir__ = front(__name__, __file__)
