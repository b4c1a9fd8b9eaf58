"""Bodies and answers of every vendor's format, and cuts of them."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from gateway_rig import ANSWERS
from tokenctx import (
    HybridTokenEstimator,
)
from tokenctx.gateway import Gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


Json = dict[str, Any]


CHAT = "/v1/chat/completions"


TEXT = "Why is the sky blue?"


MESSAGES = [{"role": "user", "content": TEXT}]


BODIES: dict[str, Json] = {
    CHAT: {"model": "gpt-4o", "messages": MESSAGES},
    "/v1/responses": {"model": "gpt-4o", "input": TEXT},
    "/v1/messages": {"model": "claude-opus-4-5", "max_tokens": 9, "messages": MESSAGES},
    "/v1beta/models/gemini-2.5-pro:generateContent": {
        "contents": [{"role": "user", "parts": [{"text": TEXT}]}]
    },
    "/model/amazon.nova-pro-v1%3A0/converse": {
        "messages": [{"role": "user", "content": [{"text": TEXT}]}]
    },
}


PATHS = list(BODIES)


STREAMED = [path.replace("/converse", "/converse-stream") for path in PATHS]


JSON = {"content-type": "application/json"}


EVENTS = {"content-type": "text/event-stream"}


def gateway(**options: Any) -> Gateway:
    return Gateway(HybridTokenEstimator(), **options)


def raw(path: str, **more: Any) -> bytes:
    if path.endswith("/converse-stream"):
        path = path.removesuffix("-stream")
        more.pop("stream", None)  # the path says it
    return json.dumps({**BODIES[path], **more}).encode()


def answer(path: str, body: bytes) -> tuple[bytes, list[bytes]]:
    """What our provider sends for a body: whole, and as the events of a stream."""
    ending = next(it for it in ANSWERS if path.endswith(it))
    whole, events = ANSWERS[ending](json.loads(body))
    return json.dumps(whole).encode(), events


def cuts(data: bytes, seed: int) -> list[bytes]:
    draw = random.Random(seed)
    places = sorted(draw.randrange(len(data) + 1) for _ in range(draw.randrange(9)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


async def aiter_of(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
