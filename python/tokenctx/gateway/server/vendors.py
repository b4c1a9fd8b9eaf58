"""The count endpoints of the vendors: what each is asked, and the answer in its own form."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, Final

from tokenctx._core import encoding_for_model
from tokenctx.gateway.server.call import Members, ServedRequest, estimate_headers
from tokenctx.gateway.server.refused import Refused

if TYPE_CHECKING:
    from tokenctx._results.estimates import Dialect, Estimate

Answer = tuple[dict[str, Any], dict[str, str]]
"""The body of an answer and its headers."""

MEDIA: Final = (b'"inlineData"', b'"inline_data"', b'"fileData"', b'"file_data"')
MEDIA_OF_STEPS: Final = (b'"mime_type"', b'"uri"')


async def anthropic(call: ServedRequest) -> Answer:
    """`POST /v1/messages/count_tokens`; with context management also the count before it."""
    members = await call.members()
    for name in ("model", "messages"):
        if name not in members:
            raise Refused(400, f"{name}: Field required", param=name)
    estimate = await call.estimate(call.body, dialect="anthropic")
    if estimate.source == "estimated" and estimate.new_message_count == 0:
        raise Refused(400, "messages: at least one message is required", param="messages")
    answer: dict[str, Any] = {"input_tokens": estimate.tokens}
    if "context_management" in members:
        plain = await call.estimate(members.without("context_management"), dialect="anthropic")
        original = max(plain.tokens, estimate.tokens)
        answer["context_management"] = {"original_input_tokens": original}
    return answer, estimate_headers(estimate)


async def openai(call: ServedRequest) -> Answer:
    """`POST /v1/responses/input_tokens`; every field is optional."""
    await call.members()
    estimate = await call.estimate(call.body, dialect="openai-responses")
    answer = {"object": "response.input_tokens", "input_tokens": estimate.tokens}
    return answer, estimate_headers(estimate)


async def gemini(call: ServedRequest) -> Answer:
    """`POST /v1beta/models/{model}:countTokens`, also as Vertex has it; of an interaction, too."""
    members = await call.members()
    whole = members.raw("generateContentRequest", "generate_content_request")
    given = ("contents" in members, "input" in members, whole is not None)
    if sum(given) != 1:
        why = "give one of contents, generateContentRequest and input, which an interaction has"
        raise Refused(400, why, param="contents")
    body = call.body if whole is None else whole
    provider = "vertex" if call.named.get("project") else None
    model = call.named["model"]
    is_interaction = "input" in members
    dialect: Dialect = "gemini-interactions" if is_interaction else "gemini"
    estimate = await call.estimate(body, dialect=dialect, model=model, provider=provider)
    answer: dict[str, Any] = {"totalTokens": estimate.tokens}
    if not any(mark in body for mark in (MEDIA_OF_STEPS if is_interaction else MEDIA)):
        answer["promptTokensDetails"] = [{"modality": "TEXT", "tokenCount": estimate.tokens}]
    return answer, estimate_headers(estimate)


async def bedrock(call: ServedRequest) -> Answer:
    """`POST /model/{modelId}/count-tokens`, of `converse` or of `invokeModel`."""
    given = (await call.members()).raw("input")
    if given is None:
        raise Refused(400, "Value at 'input' failed to satisfy constraint: must not be null")
    members = await call.work(given, Members, given, "input")
    converse, invoked = members.raw("converse"), members.raw("invokeModel")
    if (converse is None) == (invoked is None):
        raise Refused(400, "input must have exactly one of converse and invokeModel")
    names = {"model": call.named["model"], "provider": "bedrock"}
    if converse is not None:
        estimate = await call.estimate(converse, dialect="bedrock-converse", **names)
    else:
        body = await call.work(given, _invoked_body, invoked)
        estimate = await call.estimate(body, **names)
    return {"inputTokens": estimate.tokens}, estimate_headers(estimate)


async def vllm(call: ServedRequest) -> Answer:
    """`POST /tokenize`: the count of a prompt or of messages; ids where the vocabulary is exact."""
    members = await call.members()
    answer: dict[str, Any] = {"count": 0, "max_model_len": None, "tokens": [], "token_strs": None}
    if "messages" in members:
        estimate = await call.estimate(call.body, dialect="openai-chat")
        headers = {**estimate_headers(estimate), "x-tokenctx-no-ids": "template"}
        answer["count"] = estimate.tokens
    else:
        prompt = members.text("prompt")
        if prompt is None:
            raise Refused(400, "give prompt or messages", param="prompt")
        model = members.text("model")
        answer["count"], estimate = await text_tokens(call, prompt, model)
        headers = estimate_headers(estimate)
        if estimate.quality == "exact" and estimate.model:
            with_texts = members.value("return_token_strs") is True
            answer |= await call.work(call.body, _ids, prompt, estimate.model, with_texts)
        else:
            headers["x-tokenctx-no-ids"] = "vocabulary"
    answer["max_model_len"] = estimate.window_tokens
    return answer, headers


async def litellm(call: ServedRequest) -> Answer:
    """`POST /utils/token_counter` of litellm's proxy."""
    members = await call.members()
    model = members.text("model")
    if "messages" in members or "contents" in members:
        estimate = await call.estimate(call.body)
        tokens = estimate.tokens
    elif (prompt := members.text("prompt")) is not None:
        tokens, estimate = await text_tokens(call, prompt, model)
    else:
        raise Refused(400, "prompt or messages or contents must be provided")
    answer = {
        "total_tokens": tokens,
        "request_model": model or "",
        "model_used": model or "",
        "tokenizer_type": f"tokenctx_{estimate.profile}",
        "count_source": "local_estimate",
        **dict.fromkeys(("original_response", "error", "error_message", "status_code")),
    }
    return answer, estimate_headers(estimate)


async def text_tokens(call: ServedRequest, text: str, model: str | None) -> tuple[int, Estimate]:
    """Tokens of a text alone: of a message with it, less those of one without."""
    bodies = [
        json.dumps({"messages": [{"role": "user", "content": it}]}).encode() for it in (text, "")
    ]
    full, empty = [await call.estimate(body, model=model or "") for body in bodies]
    return max(0, full.tokens - empty.tokens), full


def _invoked_body(invoked: bytes) -> bytes:
    encoded = Members(invoked, "invokeModel").text("body")
    if encoded is None:
        raise Refused(400, "invokeModel has no body")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise Refused(400, "the body of invokeModel is no base64") from None


def _ids(prompt: str, model: str, with_texts: bool) -> dict[str, Any]:  # noqa: FBT001
    """The tokens of a prompt; none if the vocabulary of the model can only count."""
    encoding = encoding_for_model(model)
    ids = encoding.encode(prompt)
    texts = [encoding.decode([token]) for token in ids] if with_texts else None
    return {"tokens": ids, "count": len(ids), "token_strs": texts}
