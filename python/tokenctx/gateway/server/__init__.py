"""The count endpoints of the vendors, answered here: an ASGI app; `tokenctx serve` runs it."""

from tokenctx._results.front import front

__getattr__, __dir__ = front(__name__, __file__)
