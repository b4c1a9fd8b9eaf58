"""Arguments of the estimator, checked and as its engine takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MIN_SECRET_BYTES: Final = 16


def require_common(secret: bytes | None) -> None:
    """Raise ValueError unless several processes can have been given this secret."""
    if secret is None or len(secret) < MIN_SECRET_BYTES:
        given = "there is none" if secret is None else f"it has {len(secret)} bytes"
        raise ValueError(
            f"a shared store needs secret=, at least {MIN_SECRET_BYTES} bytes, and {given}: keys "
            "and values are made with it, so every process must be given the same, from where "
            "its other secrets come from; make one with secrets.token_bytes(32)"
        )


def tenant_bytes(tenant: str | bytes | None) -> bytes | None:
    """The name of a tenant as bytes."""
    return tenant.encode(errors="surrogatepass") if isinstance(tenant, str) else tenant


def milli(characters_per_token: float) -> int:
    """Characters per 1,000 tokens; raises ValueError beyond 0.001 to 1000 per token."""
    if not 0.001 <= characters_per_token <= 1000:
        raise ValueError(
            f"characters per token is {characters_per_token}; it must be 0.001 to 1000"
        )
    return round(characters_per_token * 1000)


def model_name(model: object) -> str:
    """The name, or `family`, `id` or `name` of an object or mapping; empty without one."""
    if isinstance(model, str):
        return model
    for field in ("family", "id", "name"):
        value = model.get(field) if isinstance(model, Mapping) else getattr(model, field, None)
        if isinstance(value, str):
            return value
    return ""
