"""Arguments of the estimator, checked and as its engine takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypedDict

from tokenctx._results.defaults import DEFAULTS

if TYPE_CHECKING:
    from tokenctx._estimate.profiles import Profiles
    from tokenctx._results.estimates import TextCounter

MIN_SECRET_BYTES: Final = 16
RFC_006_CHARS_PER_TOKEN: Final = {"anthropic": 4.0, "openai": 3.5, "google": 4.0}
LARGE_BYTES: Final = 1 << 16
"""From this many bytes on a body is counted in a thread where a loop runs: a millisecond or two."""
LARGE_KNOWN_BYTES: Final = 1 << 20
"""Bytes that are read in half a millisecond, if all but `LARGE_BYTES` of it is known."""
MESSAGE_BYTES: Final = 256
"""The time to read a message or a part beside its text, in bytes of text."""


class NoFields(TypedDict):
    """No keyword beside those that are named."""


def other_arguments(names: Iterable[str]) -> TypeError:
    """The error for arguments of `estimate` that are fields of a request, or of nothing."""
    return TypeError(
        f"estimate() has no argument {', '.join(map(repr, names))}; it takes the whole request, "
        "as it is sent: estimate({'model': model, 'messages': messages, ...})"
    )


def require_common(secret: bytes | None) -> None:
    """Raise ValueError unless several processes can have been given this secret."""
    if secret is None or len(secret) < MIN_SECRET_BYTES:
        given = "there is none" if secret is None else f"it has {len(secret)} bytes"
        raise ValueError(
            f"a shared store needs secret=, at least {MIN_SECRET_BYTES} bytes, and {given}: keys "
            "and values are made with it, so every process must be given the same, from where "
            "its other secrets come from; make one with secrets.token_bytes(32)"
        )


def require_settings(
    *,
    secret: object,
    ttl_seconds: object,
    provider_overrides: object,
    vocabularies: object,
    on_accuracy: object,
    metrics: object,
    clock: object,
) -> None:
    """Raise TypeError or ValueError, which name it, for a setting that cannot be meant."""
    if not isinstance(secret, bytes | None):
        raise TypeError(f"secret is of type {type(secret).__name__}; it must be bytes")
    if secret == b"":
        raise ValueError(
            "secret is empty; give bytes, secrets.token_bytes(32) makes some, or leave it out"
        )
    if isinstance(ttl_seconds, bool) or not isinstance(ttl_seconds, int | float):
        raise TypeError(f"ttl_seconds is of type {type(ttl_seconds).__name__}; it must be a number")
    if not ttl_seconds > 0:
        raise ValueError(f"ttl_seconds is {ttl_seconds}; it must be above 0")
    for name, value in (("provider_overrides", provider_overrides), ("vocabularies", vocabularies)):
        if value is not None and not isinstance(value, Mapping):
            raise TypeError(f"{name} is of type {type(value).__name__}; it must be a mapping")
    for name, value in (("on_accuracy", on_accuracy), ("clock", clock)):
        if value is not None and not callable(value):
            raise TypeError(f"{name} is of type {type(value).__name__}; it must be callable")
    if isinstance(metrics, type) or not (metrics is None or hasattr(metrics, "count_estimate")):
        raise TypeError(
            f"metrics is of type {type(metrics).__name__}; it must be a tokenctx.Metrics: "
            "metrics=Metrics()"
        )


def require_names(**names: object) -> None:
    """Raise TypeError, which names it, unless each is text; a tenant may be bytes too."""
    for name, value in names.items():
        is_bytes = name == "tenant" and isinstance(value, bytes)
        if not (value is None or isinstance(value, str) or is_bytes):
            kinds = "str or bytes" if name == "tenant" else "str"
            raise TypeError(f"{name} is of type {type(value).__name__}; it must be {kinds}")


def require_store(store: object) -> None:
    """Raise TypeError, which says what to do, unless `store` is a PrefixStore."""
    needed = ("is_async", "deadline_seconds", "get_many", "set_many")
    missing = [name for name in needed if not hasattr(store, name)]
    if missing:
        kind = f"{type(store).__module__}.{type(store).__qualname__}"
        raise TypeError(
            f"shared is a {kind}, which has no {', '.join(missing)}; it must be a PrefixStore. "
            "For a client of Redis or Valkey: shared=RedisPrefixStore(client)"
        )


def is_large(value: object) -> bool:
    """True if reading `value` may take longer than a loop should be held: some milliseconds.

    Of objects only messages are looked at, and no more of them than it takes to tell.
    """
    if isinstance(value, bytes | bytearray | memoryview | str):
        return len(value) >= LARGE_BYTES
    size = 0
    for message in _messages(value):
        content = message.get("content") if isinstance(message, Mapping) else None
        size += MESSAGE_BYTES + (len(content) if isinstance(content, str) else 0)
        for part in content if isinstance(content, list) else ():
            text = part.get("text") if isinstance(part, Mapping) else None
            size += len(text) if isinstance(text, str) else MESSAGE_BYTES
        if size >= LARGE_BYTES:
            return True
    return False


def _messages(value: object) -> list[object]:
    if isinstance(value, Mapping):
        lists = (value.get(name) for name in ("messages", "input", "contents"))
        value = next((it for it in lists if it), None)
        if isinstance(value, str):
            value = [{"content": value}]
    return value if isinstance(value, list) else []


def tenant_bytes(tenant: str | bytes | None) -> bytes | None:
    """The name of a tenant as bytes."""
    return tenant.encode(errors="surrogatepass") if isinstance(tenant, str) else tenant


def milli(characters_per_token: float) -> int:
    """Characters per 1,000 tokens; raises ValueError beyond 0.001 to 1000 per token."""
    if isinstance(characters_per_token, bool) or not isinstance(characters_per_token, int | float):
        raise TypeError(
            f"characters per token is of type {type(characters_per_token).__name__}; "
            "it must be a number"
        )
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


def named_tables(
    method: str, vocabularies: Mapping[str, TextCounter] | None, profiles: Profiles | None
) -> tuple[list[tuple[str, TextCounter]], str | None]:
    """The vocabularies and the rows of profiles for an engine: the given over the defaults."""
    named = [*DEFAULTS.vocabularies.items()] if method == "profile" else []
    if vocabularies:
        from tokenctx.encodings.vocabularies import named_vocabularies

        named = named_vocabularies({**dict(named), **vocabularies}, method)
    if profiles is None:
        return named, DEFAULTS.profiles
    from tokenctx._estimate.profiles import profile_rows

    return named, profile_rows(profiles)
