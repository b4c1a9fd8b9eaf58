"""litellm's streams in Anthropic's form, with their input tokens in the first event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tokenctx import ContextWindowScaler
from tokenctx.integrations._litellm_calls import Json, kept
from tokenctx.integrations.litellm import TokenctxLogger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SAME_WINDOW: Final = ContextWindowScaler(200_000, assumed_window=200_000)
"""It changes no number, and puts one where a `message_start` has 0."""


class MessageStartLogger(TokenctxLogger):
    """`TokenctxLogger` that also tells Anthropic's streams their input tokens when they begin.

    litellm says 0 there where the provider tells them last. A class of its own, since a callback
    with a hook for streams takes all streams of the proxy off litellm's fast path.
    """

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: Json
    ) -> AsyncIterator[Any]:
        """The stream, with the estimate in a `message_start` that says 0."""
        call, stream = kept(request_data), response
        if call is not None and call.estimate is not None and call.dialect == "anthropic":
            stream = SAME_WINDOW.scale_stream(response, first_input_tokens=call.estimate)
        async for chunk in stream:
            yield chunk
