"""A gateway around the estimator: one object for a call, middleware, transports."""

from tokenctx.gateway.asgi import TokenctxMiddleware
from tokenctx.gateway.call import Call
from tokenctx.gateway.gateway import Gateway
from tokenctx.gateway.refusals import Refusal, refusal_of
from tokenctx.gateway.relay import Relay

__all__ = ["Call", "Gateway", "Refusal", "Relay", "TokenctxMiddleware", "refusal_of"]

for _item in (Call, Gateway, Refusal, Relay, TokenctxMiddleware, refusal_of):
    _item.__module__ = "tokenctx.gateway"
