"""A local provider: OpenAI Chat and Responses and Anthropic, plain and streamed, over loopback.

It bills our own count of a request and a constant of the conversation that no request says. So a
total can only be right if the bill of an earlier turn stands in it.
"""

from __future__ import annotations

import gc
import json
import socket
import threading
import time
import warnings
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tokenctx import HybridTokenEstimator, encoding_for_model

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

START_SECONDS = 20
COUNTER = HybridTokenEstimator()
UNBILLED = "A server that streams no usage: "
"""A question that begins so is streamed without usage, whatever is asked."""


def hidden_tokens(body: Json) -> int:
    """What is billed beyond the count: from 200 to 999, by the first message of the user."""
    return 200 + zlib.crc32(first_text(body).encode()) % 800


def billed_tokens(body: Json) -> int:
    """The input tokens that the provider bills for `body`."""
    return COUNTER.count_request(body).tokens + hidden_tokens(body)


def output_tokens(body: Json) -> int:
    """What the provider bills for its answer: its text, and a flat 20 for a call."""
    if wanted_call(body):
        return 20
    return encoding_for_model(body["model"]).count(answer_text(body))


def items_of(body: Json) -> list[Json]:
    given: Any = body.get("messages", body.get("input", []))
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)


def text_of(item: Json) -> str:
    content = item.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content if isinstance(part, dict))


def first_text(body: Json) -> str:
    return next((text_of(item) for item in items_of(body) if item.get("role") == "user"), "")


def is_question(body: Json) -> bool:
    """Whether the last message is one of the user that no tool has answered."""
    last = items_of(body)[-1]
    content = last.get("content")
    is_result = isinstance(content, list) and any("tool_result" in str(p) for p in content)
    return last.get("role") == "user" and not is_result


def wanted_call(body: Json) -> tuple[str, Json] | None:
    """The tool that the last message of the user names, and arguments for it."""
    for tool in body.get("tools") or ():
        about = tool.get("function", tool)
        name, schema = about.get("name"), about.get("parameters", about.get("input_schema", {}))
        if name and is_question(body) and name in text_of(items_of(body)[-1]):
            return name, dict.fromkeys(schema.get("properties", {}), "Oslo")
    return None


def answer_text(body: Json) -> str:
    return f"It scatters; that was message {len(items_of(body))}."


# ------------------------------------------------------------------------------ the dialects


def chat(body: Json) -> Json:
    call = wanted_call(body)
    message: Json = {"role": "assistant", "content": None if call else answer_text(body)}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        call_id = f"call_{len(items_of(body))}"
        message["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
    billed = billed_tokens(body)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
        ],
        "usage": {
            "prompt_tokens": billed,
            "completion_tokens": output_tokens(body),
            "total_tokens": billed + output_tokens(body),
        },
    }


def chat_events(body: Json) -> Iterator[bytes]:
    answer = chat(body)
    choice = answer["choices"][0]
    delta = choice["message"]
    for number, call in enumerate(delta.get("tool_calls", ())):
        call["index"] = number
    head = {name: answer[name] for name in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    for change, reason in ((delta, None), ({}, choice["finish_reason"])):
        event = {**head, "choices": [{"index": 0, "delta": change, "finish_reason": reason}]}
        yield b"data: " + json.dumps(event).encode() + b"\n\n"
    asks = (body.get("stream_options") or {}).get("include_usage")
    if asks and UNBILLED not in first_text(body):
        event = {**head, "choices": [], "usage": answer["usage"]}
        yield b"data: " + json.dumps(event).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


def responses(body: Json) -> Json:
    call = wanted_call(body)
    number = len(items_of(body))
    billed = billed_tokens(body)
    item: Json = {
        "type": "message",
        "id": f"msg_{number}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": answer_text(body), "annotations": []}],
    }
    if call:
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": call[0],
            "arguments": json.dumps(call[1]),
            "status": "completed",
        }
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "status": "completed",
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": billed,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": output_tokens(body),
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": billed + output_tokens(body),
        },
    }


def responses_events(body: Json) -> Iterator[bytes]:
    whole = responses(body)
    item = whole["output"][0]
    begun = {**whole, "output": [], "status": "in_progress", "usage": None}
    place = {"output_index": 0, "item_id": item["id"]}
    empty: Json = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, **empty}},
        *({**event, **place} for event in parts_of(item)),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    for number, event in enumerate(events):
        data = json.dumps({**event, "sequence_number": number})
        yield f"event: {event['type']}\ndata: {data}\n\n".encode()


def parts_of(item: Json) -> list[Json]:
    """The events between the beginning of an item and its end."""
    if item["type"] == "function_call":
        kind, arguments = "response.function_call_arguments", item["arguments"]
        return [
            {"type": f"{kind}.delta", "delta": arguments},
            {"type": f"{kind}.done", "arguments": arguments, "name": item["name"]},
        ]
    (part,) = item["content"]
    text = {"content_index": 0, "logprobs": []}
    return [
        {"type": "response.content_part.added", "content_index": 0, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", "delta": part["text"], **text},
        {"type": "response.output_text.done", "text": part["text"], **text},
        {"type": "response.content_part.done", "content_index": 0, "part": part},
    ]


def messages(body: Json) -> Json:
    call = wanted_call(body)
    block: Json = {"type": "text", "text": answer_text(body)}
    if call:
        call_id = f"toolu_{len(items_of(body))}"
        block = {"type": "tool_use", "id": call_id, "name": call[0], "input": call[1]}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [block],
        "stop_reason": "tool_use" if call else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": billed_tokens(body), "output_tokens": output_tokens(body)},
    }


def messages_events(body: Json) -> Iterator[bytes]:
    whole = messages(body)
    (block,) = whole["content"]
    begun = {**whole, "content": [], "stop_reason": None}
    begun["usage"] = {**whole["usage"], "output_tokens": 0}
    delta: Json = {"type": "text_delta", "text": block.get("text")}
    empty: Json = {"type": "text", "text": ""}
    if block["type"] == "tool_use":
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        empty = {**block, "input": {}}
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events: list[Json] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": output_tokens(body)}},
        {"type": "message_stop"},
    ]
    for event in events:
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


DIALECTS = {
    "/chat/completions": (chat, chat_events),
    "/responses": (responses, responses_events),
    "/messages": (messages, messages_events),
}

# ------------------------------------------------------------------------------ the server


@dataclass
class Upstream:
    """A provider that runs.

    Attributes:
        url: Its address, without a path.
        bodies: Every request that it was sent, in order.
    """

    url: str
    bodies: list[Json] = field(default_factory=list)

    @property
    def bills(self) -> list[int]:
        """What was billed for each."""
        return [billed_tokens(body) for body in self.bodies]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = b""
        message: Any = {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            request += message.get("body", b"")
        found = [pair for end, pair in DIALECTS.items() if scope["path"].endswith(end)]
        status, kind, parts = 404, b"application/json", [b"{}"]
        if found:
            body = json.loads(request)
            self.bodies.append(body)
            whole, events = found[0]
            status = 200
            if body.get("stream"):
                kind, parts = b"text/event-stream", list(events(body))
            else:
                parts = [json.dumps(whole(body)).encode()]
        head = {"type": "http.response.start", "status": status}
        await send({**head, "headers": [(b"content-type", kind)]})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


@contextmanager
def running() -> Iterator[Upstream]:
    """An upstream on a port of its own, for as long as the block runs."""
    import uvicorn

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        upstream = Upstream(f"http://127.0.0.1:{listening.getsockname()[1]}")
        config = uvicorn.Config(upstream, log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        until = time.monotonic() + START_SECONDS
        while not server.started and time.monotonic() < until:
            time.sleep(0.01)
        try:
            yield upstream
        finally:
            server.should_exit = True
            thread.join()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # clients leave connections of ended loops behind
                gc.collect()
