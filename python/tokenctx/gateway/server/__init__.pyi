from tokenctx.gateway.server.app import CountServer as CountServer
from tokenctx.gateway.server.app import count_server as count_server
