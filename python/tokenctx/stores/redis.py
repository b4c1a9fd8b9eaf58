"""A shared store in Redis or Valkey, through the client that the gateway has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from tokenctx.stores.protocol import Values

DEFAULT_DEADLINE_SECONDS: Final = 0.003
_CLIENTS: Final = ("redis", "valkey", "coredis", "glide", "glide_sync")


class RedisPrefixStore:
    """Known prefixes in Redis or Valkey, for `HybridTokenEstimator(shared=...)`.

    `client` is a client of the package redis, valkey, coredis, valkey-glide or valkey-glide-sync,
    for a single server, sentinels or a cluster, sync or async. It stays the caller's: its
    connections, retries and timeouts are used as they are, and it is not closed. Give it a socket
    timeout of at most a few seconds: an estimate waits no longer than `deadline_seconds` anyway,
    but only the client can end a call. Only MGET and SET with EX are sent. Raises TypeError for
    any other client and ValueError for a deadline that is not above 0.
    """

    def __init__(self, client: Any, *, deadline_seconds: float = DEFAULT_DEADLINE_SECONDS) -> None:
        if isinstance(deadline_seconds, bool) or not isinstance(deadline_seconds, int | float):
            kind = type(deadline_seconds).__name__
            raise TypeError(f"deadline_seconds is of type {kind}; it must be a number")
        if not deadline_seconds > 0:
            raise ValueError(
                f"deadline_seconds is {deadline_seconds}; it must be above 0, 0.003 is the default"
            )
        module = _client_module(client)
        self._client = client
        self._is_async = module.startswith(("redis.asyncio", "valkey.asyncio", "coredis", "glide."))
        self._expiry = _glide_expiry if module.startswith("glide") else _expiry
        self._deadline_seconds = deadline_seconds

    @property
    def is_async(self) -> bool:
        """True if the client is asynchronous."""
        return self._is_async

    @property
    def deadline_seconds(self) -> float:
        """How long an estimate waits at most."""
        return self._deadline_seconds

    def get_many(self, keys: Sequence[str]) -> Values | Awaitable[Values]:
        """The values of `keys`, all of one hash tag, by one MGET."""
        return cast("Values | Awaitable[Values]", self._client.mget(list(keys)))

    def set_many(self, values: Mapping[str, str], ttl_seconds: int) -> object | Awaitable[object]:
        """Keep `values` for `ttl_seconds`, by one SET with EX each."""
        expiry = self._expiry(ttl_seconds)
        sets = (self._client.set(key, value, **expiry) for key, value in values.items())
        return _awaited(sets) if self._is_async else list(sets)


async def _awaited(sets: Iterable[Awaitable[object]]) -> None:
    for one in sets:
        await one


def _client_module(client: object) -> str:
    """The module of the client's class, or of the first of its bases that is of a known package."""
    for base in type(client).__mro__:
        if base.__module__.partition(".")[0] in _CLIENTS:
            return base.__module__
    raise TypeError(
        f"client is a {type(client).__qualname__}; it must be a client of redis, valkey, coredis, "
        "valkey-glide or valkey-glide-sync. For anything else, implement "
        "tokenctx.stores.PrefixStore"
    )


def _expiry(ttl_seconds: int) -> dict[str, Any]:
    return {"ex": ttl_seconds}


def _glide_expiry(ttl_seconds: int) -> dict[str, Any]:
    from glide_shared import ExpirySet, ExpiryType

    return {"expiry": ExpirySet(ExpiryType.SEC, ttl_seconds)}
