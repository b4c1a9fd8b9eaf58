"""Which path is answered by what, and in whose form its errors are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tokenctx.gateway.server import own, vendors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tokenctx.gateway.server.call import ServedRequest
    from tokenctx.gateway.server.refused import Vendor
    from tokenctx.gateway.server.vendors import Answer


@dataclass(frozen=True, slots=True)
class Route:
    """A path and what answers it; groups of the pattern are what the path names."""

    pattern: str
    vendor: Vendor
    answer: Callable[[ServedRequest], Awaitable[Answer]]


_MODELS: Final = "(?:models|tunedModels)/(?P<model>[^/]+):countTokens"
_VERTEX: Final = r"projects/(?P<project>[^/]+)/locations/[^/]+/(?:publishers/[^/]+/|endpoints/)"
ROUTES: Final = (
    Route("(?:/v1)?/messages/count_tokens", "anthropic", vendors.anthropic),
    Route("(?:/v1|/openai/v1|/openai)?/responses/input_tokens", "openai", vendors.openai),
    Route(f"(?:/v1\\w*)?/(?:{_VERTEX})?{_MODELS}", "google", vendors.gemini),
    Route("/model/(?P<model>.+)/count-tokens", "bedrock", vendors.bedrock),
    Route("/tokenize", "vllm", vendors.vllm),
    Route("/utils/token_counter", "openai", vendors.litellm),
    Route("/v1/estimate", "openai", own.estimate),
    Route("/v1/record", "openai", own.record),
)
_PATTERNS: Final = tuple((re.compile(route.pattern), route) for route in ROUTES)


def route_of(path: str) -> tuple[Route, dict[str, str]] | None:
    """The route of a path, without its query, and what the path names; None otherwise."""
    for pattern, route in _PATTERNS:
        if found := pattern.fullmatch(path):
            return route, {name: text for name, text in found.groupdict().items() if text}
    return None
