"""Strata of recorded calls, and the pools of them whose accuracy is promised."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from tokenctx._core import _request_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tokenctx._results.estimates import Dialect

Stratum = Literal[
    "undetermined",
    "reasoning replayed",
    "images",
    "files",
    "audio/video",
    "structured output",
    "tools",
    "text",
]
"""The kind of a request by what it has beside text; the first that fits."""

Json = dict[str, Any]

STRATA: Final[tuple[Stratum, ...]] = get_args(Stratum)
UNDETERMINED: Final = ("builtin_", "remote_", "server_")
"""Beginnings of the assumptions that name what only the provider knows."""
RECORDED: Final[tuple[tuple[str, Stratum], ...]] = (
    ("not_determined_by_request", "undetermined"),
    ("thinking_history", "reasoning replayed"),
    ("encrypted_parts", "reasoning replayed"),
    ("has_images", "images"),
    ("has_files", "files"),
    ("has_audio_video", "audio/video"),
    ("has_structured_output", "structured output"),
    ("has_tools", "tools"),
)
"""Features of a record in the order of the strata."""


def stratum_of(
    features: object, body: object, model: str | None, dialect: Dialect | None
) -> Stratum:
    """The stratum of a call: by its recorded features, or else by what its body holds.

    Raises RequestError for a body beyond a limit.
    """
    if isinstance(features, dict):
        return next((stratum for name, stratum in RECORDED if features.get(name)), "text")
    view = json.loads(_request_view(body, model=model, dialect=dialect))
    found = set(_found(view))
    return next((stratum for stratum in STRATA if stratum in found), "text")


def _found(view: Json) -> Iterator[Stratum]:
    if any(name.startswith(UNDETERMINED) for name in view["assumptions"]):
        yield "undetermined"
    if any(tool["builtin"] for tool in view["tools"]):
        yield "undetermined"
    if view["tools"]:
        yield "tools"
    if view["response_schema"]:
        yield "structured output"
    pending = [*view["system"], *(part for one in view["messages"] for part in one["parts"])]
    while pending:
        part = pending.pop()
        pending += part.get("parts", ())
        if part["part"] == "reasoning":
            yield "reasoning replayed"
        elif part["part"] == "media":
            kind = part["kind"]
            yield "images" if kind == "image" else "files" if kind == "file" else "audio/video"


Vendor = Literal["openai", "anthropic", "gemini", "other"]


def vendor_of(provider: str, api: str, model: str) -> Vendor:
    """Whose rules count a call: the vendor's own hosts and its clouds, or any other."""
    if provider in {"openai", "azure"}:
        return "openai"
    if "claude" in model and provider in {"anthropic", "bedrock", "vertex"}:
        return "anthropic"
    return "gemini" if api.startswith("google.") and provider in {"google", "vertex"} else "other"


@dataclass(frozen=True, slots=True)
class Promise:
    """Shares in percent: exact, within 2 %, within 5 %; None where nothing is promised."""

    exact: int | None
    within_2: int
    within_5: int

    @property
    def shares(self) -> tuple[int | None, int, int]:
        """All three in this order."""
        return self.exact, self.within_2, self.within_5


@dataclass(frozen=True, slots=True)
class Pool:
    """Calls that are judged together.

    Attributes:
        holds: Whether a call of this vendor, API and stratum is one of them.
        must: What has to be reached.
        aim: What is aimed at.
    """

    name: str
    holds: Callable[[Vendor, str, Stratum], bool]
    must: Promise
    aim: Promise | None = None


def _pool(
    name: str,
    must: tuple[int | None, int, int],
    aim: tuple[int | None, int, int] | None,
    *,
    vendor: Vendor | None = None,
    api: str = "",
    strata: tuple[Stratum, ...] = STRATA[1:],
) -> Pool:
    def holds(its_vendor: Vendor, its_api: str, stratum: Stratum) -> bool:
        fits = vendor in {None, its_vendor} and its_api.startswith(api)
        return fits and stratum in strata

    return Pool(name, holds, Promise(*must), None if aim is None else Promise(*aim))


CHAT: Final[dict[str, Any]] = {"vendor": "openai", "api": "openai.chat"}
CLAUDE: Final[dict[str, Any]] = {"vendor": "anthropic"}
POOLS: Final = (
    _pool("countable from the request", (65, 82, 91), (80, 92, 96)),
    _pool("OpenAI chat: text", (97, 98, 99), (99, 99, 100), **CHAT, strata=("text",)),
    _pool("OpenAI chat: tools", (80, 93, 97), (90, 98, 99), **CHAT, strata=("tools",)),
    _pool(
        "OpenAI chat: structured output",
        (45, 85, 97),
        (75, 95, 99),
        **CHAT,
        strata=("structured output",),
    ),
    _pool(
        "OpenAI responses: countable",
        (65, 82, 90),
        (80, 92, 96),
        vendor="openai",
        api="openai.responses",
    ),
    _pool("Anthropic: text", (88, 94, 97), (93, 97, 99), **CLAUDE, strata=("text",)),
    _pool("Anthropic: tools", (60, 88, 95), (75, 95, 98), **CLAUDE, strata=("tools",)),
    _pool("Gemini: countable", (20, 50, 75), (45, 75, 90), vendor="gemini"),
    _pool(
        "Gemini: text",
        (80, 90, 95),
        None,
        vendor="gemini",
        strata=("text",),
    ),
    _pool("other vendors", (None, 40, 62), (None, 65, 85), vendor="other"),
    _pool("images", (None, 65, 80), (None, 85, 95), strata=("images",)),
    _pool("files, audio, video", (None, 45, 65), (None, 65, 80), strata=("files", "audio/video")),
)
"""All but the first overlap: each is a question that users ask."""
DELTA: Final = Pool(
    "delta, 1,000 tokens or more known",
    lambda _vendor, _api, stratum: stratum != "undetermined",
    Promise(None, 95, 98),
    Promise(None, 98, 99),
)
"""Estimates from a known turn before, of at least `DELTA_TOKENS` tokens."""
DELTA_TOKENS: Final = 1000
