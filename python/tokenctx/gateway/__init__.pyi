from tokenctx.gateway import server as server
from tokenctx.gateway.asgi import TokenctxMiddleware as TokenctxMiddleware
from tokenctx.gateway.call import Call as Call
from tokenctx.gateway.gateway import Gateway as Gateway
from tokenctx.gateway.refusals import Refusal as Refusal
from tokenctx.gateway.refusals import refusal_of as refusal_of
from tokenctx.gateway.relay import Relay as Relay
from tokenctx.gateway.tenants import header_tenant as header_tenant
