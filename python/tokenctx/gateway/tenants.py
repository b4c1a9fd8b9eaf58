"""Whose call it is, by a header of its request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SIGNED: Final = b"AWS4-"


def header_tenant(name: str = "authorization") -> Callable[[Any], bytes]:
    """A function for `tenant=`: the value of one header, of an ASGI scope or a request of httpx.

    Name the header that your application passes on. A request without it, or with two of it, has no
    tenant: the function raises LookupError or ValueError, since of two headers applications,
    relays and providers do not take the same one. Nor has one that is signed as AWS signs, anew
    with each request: ValueError. Such a call is one of nobody.
    """
    wanted = name.lower().encode("latin-1")

    def tenant(request: Any) -> bytes:
        headers: Iterable[tuple[bytes, bytes]] = (
            request["headers"] if isinstance(request, dict) else request.headers.raw
        )
        values = [value for key, value in headers if key.lower() == wanted]
        if not values:
            raise LookupError(f"the header {name} is missing, which says whose call it is")
        if len(values) > 1:
            raise ValueError(f"the header {name} comes {len(values)} times; it must come once")
        value = values[0].strip()
        if value.startswith(_SIGNED):
            raise ValueError(
                f"the header {name} holds a signature of AWS, which is new with each request; "
                "name a header that says whose call it is"
            )
        return value

    return tenant
