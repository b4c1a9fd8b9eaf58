"""Which API a path of HTTP belongs to, and the model where the path names it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from tokenctx._results.estimates import Dialect

ENDINGS: Final[tuple[tuple[str, Dialect | None], ...]] = (
    ("/chat/completions", "openai-chat"),
    ("/responses", "openai-responses"),
    ("/messages", "anthropic"),
    (":generateContent", "gemini"),
    (":streamGenerateContent", "gemini"),
    ("/converse", "bedrock-converse"),
    ("/converse-stream", "bedrock-converse"),
    ("/invoke", None),
    ("/invoke-with-response-stream", None),
    (":rawPredict", None),
    (":streamRawPredict", None),
)
"""How the paths of chat requests end, in the references of the vendors' APIs (2026-11), and their
dialect; None where the body says it."""
THREADS: Final = "/threads/"
"""Messages of OpenAI's Assistants, which are not requests to a model."""
_MODEL: Final = re.compile(r"/(models|model|deployments)/(.+?)(?::\w+|/[\w/-]+)$")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a chat request is sent.

    Attributes:
        dialect: None where the body tells it.
        model: As the path names it; empty if it does not.
        is_deployment: The name is one that a customer of Azure gave, which may be any.
    """

    dialect: Dialect | None
    model: str
    is_deployment: bool


def endpoint_of(path: str) -> Endpoint | None:
    """The endpoint that the path of a chat request names; None for others. Queries are left out."""
    plain = path.partition("?")[0].rstrip("/")
    for ending, dialect in ENDINGS:
        if plain.endswith(ending) and THREADS not in plain:
            match = _MODEL.search(plain)
            if match is None:
                return Endpoint(dialect, "", is_deployment=False)
            return Endpoint(dialect, unquote(match[2]), match[1] == "deployments")
    return None
