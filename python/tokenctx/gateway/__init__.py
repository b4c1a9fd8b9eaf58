"""A gateway around the estimator: one object for a call, middleware, clients, a count server."""

from tokenctx._results.front import front

__getattr__, __dir__ = front(__name__, __file__)
