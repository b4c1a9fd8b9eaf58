"""One request to the server: its body by parts, and what is estimated for it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, get_args

from tokenctx._core import _json_members
from tokenctx._estimate.arguments import is_large
from tokenctx._results.estimates import Dialect
from tokenctx.gateway.headers import estimate_headers as headers_of
from tokenctx.gateway.server.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenctx._estimate.estimator import HybridTokenEstimator
    from tokenctx._results.estimates import Estimate

T = TypeVar("T")

DIALECTS: Final = frozenset(get_args(Dialect))


class Members:
    """The members of a JSON object in bytes, each still as bytes; of equal names the last counts.

    Raises Refused for anything but an object.
    """

    def __init__(self, body: bytes, what: str = "the body") -> None:
        places = _json_members(body)
        if places is None:
            raise Refused(400, f"{what} is no JSON object")
        self._body = body
        self._places = {name: (start, end) for name, start, end in places}

    def __contains__(self, name: str) -> bool:
        return self.raw(name) is not None

    def raw(self, *names: str) -> bytes | None:
        """The first of these members that is there and not null."""
        for name in names:
            start, end = self._places.get(name, (0, 0))
            if start < end and self._body[start:end] != b"null":
                return self._body[start:end]
        return None

    def without(self, name: str) -> bytes:
        """The object with null in place of a member."""
        start, end = self._places[name]
        return b"".join((self._body[:start], b"null", self._body[end:]))

    def value(self, name: str) -> Any:
        """The value of a member; None without it. Raises Refused for what is no JSON."""
        raw = self.raw(name)
        try:
            return None if raw is None else json.loads(raw)
        except (ValueError, RecursionError):
            raise Refused(400, f"{name} is no JSON", param=name) from None

    def text(self, name: str) -> str | None:
        """The value of a member that is to be text, or None. Raises Refused for another."""
        value = self.value(name)
        if value is not None and not isinstance(value, str):
            raise Refused(400, f"{name} must be a string", param=name)
        return value


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """A request: the estimator that answers it, headers, what its path names, and its body."""

    estimator: HybridTokenEstimator
    headers: Mapping[str, bytes]
    named: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str | None:
        """A header as text; None without it."""
        value = self.headers.get(name)
        return None if value is None else value.decode("utf-8", "replace")

    async def members(self) -> Members:
        """The members of the body."""
        return await self.work(self.body, Members, self.body)

    async def work(self, subject: bytes, call: Callable[..., T], *arguments: Any) -> T:
        """The result of a function that reads `subject`: in a thread, if that is large."""
        if not is_large(subject):
            return call(*arguments)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, partial(call, *arguments))

    def names(self, **given: str | None) -> dict[str, Any]:
        """Model, dialect, provider and tenant: what is given here, then what the headers say.

        A header beats what the path or the route means, but for the dialect. Raises Refused for an
        unknown dialect.
        """
        names: dict[str, Any] = {
            name: self.header(f"x-tokenctx-{name}") or given.get(name)
            for name in ("model", "provider")
        }
        dialect = given.get("dialect") or self.header("x-tokenctx-dialect")
        if dialect is not None and dialect not in DIALECTS:
            known = ", ".join(sorted(DIALECTS))
            raise Refused(400, f"dialect is unknown; it must be one of {known}", param="dialect")
        tenant = given.get("tenant") or self.headers.get("x-tokenctx-tenant")
        return {**names, "dialect": cast("Dialect | None", dialect), "tenant": tenant}

    async def estimate(self, subject: bytes, **given: str | None) -> Estimate:
        """The estimate of a request in bytes."""
        return await self.estimator.aestimate(subject, **self.names(**given))


def estimate_headers(estimate: Estimate) -> dict[str, str]:
    """How sure an answer is, as headers: `x-tokenctx-low` and so on."""
    headers = headers_of(estimate, estimate.window_tokens)
    return {**headers, "x-tokenctx-assumptions": ",".join(estimate.assumptions)}
