"""A gateway around the estimator: one object for a call, middleware, transports."""

from tokenctx.gateway.refusals import Refusal, refusal_of

__all__ = ["Refusal", "refusal_of"]
