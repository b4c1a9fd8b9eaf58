"""The count endpoints of the vendors, answered here: an ASGI app; `tokenctx serve` runs it."""

from tokenctx.gateway.server.app import CountServer, count_server

__all__ = ["CountServer", "count_server"]

for _item in (CountServer, count_server):
    _item.__module__ = "tokenctx.gateway.server"
