"""Answers to requests that are too long, as the vendor itself would word them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from tokenctx._results.result import Result

if TYPE_CHECKING:
    from tokenctx._results.estimates import Dialect, Estimate, ModelLimits

Json = dict[str, Any]

OUTPUT_IS_REFUSED: Final = frozenset({"openai-chat", "vscode"})
"""Where input and wanted output together are refused. Others cut the output at the window (Claude
from 4.5 on, Responses), or have a window for the input alone (Gemini)."""
CONVERSE_ERROR: Final = "ValidationException"


@dataclass(frozen=True, slots=True)
class Refusal(Result):
    """The answer in place of a provider that would refuse a request as too long.

    SDKs raise from it what they raise from the provider's own answer, and agents compact.

    Attributes:
        status: Of HTTP: 400; 200 for a stream of Responses, whose errors are events in it.
        headers: In lower case; all but the length.
        body: What to send.
        message: The message in it, for logs; numbers, and no text of the request.
        input_tokens: What the request was taken for.
        output_tokens: The wanted output, if that is what made it too long; else 0.
        limit_tokens: What it is beyond: the window, or the most input.
    """

    status: int
    headers: dict[str, str] = field(hash=False)
    body: bytes
    message: str
    input_tokens: int
    output_tokens: int
    limit_tokens: int


def refusal_of(
    dialect: Dialect,
    estimate: Estimate,
    *,
    by: Literal["tokens", "high"] = "tokens",
    output_tokens: int | None = None,
    limits: ModelLimits | None = None,
    is_stream: bool = False,
) -> Refusal | None:
    """The answer that refuses an estimated request; None if it fits, or no window is known.

    `by` is the number of the estimate that has to fit: `high` refuses what may be too long, and
    what the answer names is then that. The input alone is judged, and in OpenAI's Chat format,
    where input and wanted output are refused together, both; with `output_tokens` both in every
    format, and with 0 the input alone. `limits` stand in for those of the estimate. `is_stream`
    says that a stream was asked for, in which Responses alone has its errors. Never raises but
    ValueError for another `by`.
    """
    if by not in ("tokens", "high"):
        raise ValueError(f"by is {by!r}; it must be 'tokens' or 'high'")
    limits = estimate.limits if limits is None else limits
    if not limits.window_tokens:
        return None
    tokens = estimate.tokens if by == "tokens" else estimate.high
    most = min(limits.window_tokens, limits.max_input_tokens or limits.window_tokens)
    if output_tokens is None and dialect in OUTPUT_IS_REFUSED:
        output_tokens = estimate.requested_output_tokens
    if tokens > most:
        return _refusal(dialect, tokens, 0, most, is_stream=is_stream)
    wanted = max(0, output_tokens or 0)
    if tokens + wanted > limits.window_tokens:
        return _refusal(dialect, tokens, wanted, limits.window_tokens, is_stream=is_stream)
    return None


def _refusal(dialect: Dialect, tokens: int, output: int, limit: int, *, is_stream: bool) -> Refusal:
    message = _message(dialect, tokens, output, limit)
    status, headers = 400, {"content-type": "application/json"}
    if dialect == "openai-responses" and is_stream:
        status, headers = 200, {"content-type": "text/event-stream"}
        body = _failed_stream(message)
    else:
        body = json.dumps(_body(dialect, message)).encode()
    if dialect == "bedrock-converse":
        headers["x-amzn-errortype"] = CONVERSE_ERROR
    return Refusal(status, headers, body, message, tokens, output, limit)


def _message(dialect: Dialect, tokens: int, output: int, limit: int) -> str:
    """As `parse_overflow` reads it again, with both numbers."""
    if dialect in ("anthropic", "bedrock-converse"):
        if output:
            return (
                f"input length and `max_tokens` exceed context limit: {tokens} + {output} > "
                f"{limit}, decrease input length or `max_tokens` and try again"
            )
        message = f"prompt is too long: {tokens} tokens > {limit} maximum"
        is_converse = dialect == "bedrock-converse"
        return f"Input is too long for requested model: {message}" if is_converse else message
    if dialect in ("gemini", "gemini-interactions"):
        return (
            f"The input token count ({tokens + output}) exceeds the maximum number of tokens "
            f"allowed ({limit})."
        )
    length = f"This model's maximum context length is {limit} tokens. However, "
    if output:
        return (
            f"{length}you requested {tokens + output} tokens ({tokens} in the messages, {output} "
            "in the completion). Please reduce the length of the messages or completion."
        )
    resulted = f"{length}your messages resulted in {tokens} tokens."
    if dialect == "openai-responses":
        return (
            "Your input exceeds the context window of this model. Please adjust your input and "
            f"try again. {resulted}"
        )
    return f"{resulted} Please reduce the length of the messages."


def _body(dialect: Dialect, message: str) -> Json:
    if dialect == "anthropic":
        error = {"type": "invalid_request_error", "message": message}
        return {"type": "error", "error": error}
    if dialect in ("gemini", "gemini-interactions"):
        return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    if dialect == "bedrock-converse":
        return {"message": message}
    return {"error": _openai_error(message, "input" if "responses" in dialect else "messages")}


def _openai_error(message: str, parameter: str) -> Json:
    return {
        "message": message,
        "type": "invalid_request_error",
        "param": parameter,
        "code": "context_length_exceeded",
    }


def _failed_stream(message: str) -> bytes:
    """The events of OpenAI: SDKs raise at the first, agents compact at the second."""
    error = _openai_error(message, "input")
    response = {
        "id": "resp_refused",
        "object": "response",
        "created_at": 0,
        "status": "failed",
        "error": {"code": error["code"], "message": message},
        "model": "",
        "output": [],
        "usage": None,
    }
    events: list[Json] = [
        {"type": "error", "sequence_number": 0, "error": error},
        {"type": "response.failed", "sequence_number": 1, "response": response},
    ]
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return "".join(lines).encode()
