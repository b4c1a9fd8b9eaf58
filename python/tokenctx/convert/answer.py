"""Answers of a model from one dialect to another: message, reason of the end, usage.

Each dialect has a row of words for the reason, a row of places for the usage, and two functions for
the envelope around the message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tokenctx.convert import (
    ai_sdk,
    anthropic,
    gemini,
    gemini_interactions,
    openai_chat,
    openai_responses,
)
from tokenctx.convert.arrange import arranged
from tokenctx.convert.model import Conversation, Json, Message, ToolCall
from tokenctx.convert.rules import Writer
from tokenctx.convert.tools import pair_ids
from tokenctx.usage.normal import Usage, normalize_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenctx.convert.model import Dialect, Path
    from tokenctx.convert.notes import Notes
    from tokenctx.convert.rules import Rules


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of any dialect.

    Attributes:
        finish: stop, length, tool_calls, content_filter or other.
        created: Seconds since 1970.
        extra: Places of what has no neutral name.
    """

    message: Message
    id: str | None = None
    model: str | None = None
    finish: str = "stop"
    created: int | None = None
    usage: Usage | None = None
    extra: tuple[Path, ...] = ()


FINISH: Final[Mapping[Dialect, Mapping[str, str]]] = MappingProxyType(
    {
        "openai-chat": {
            "stop": "stop",
            "length": "length",
            "tool_calls": "tool_calls",
            "content_filter": "content_filter",
            "function_call": "tool_calls",
        },
        "openai-responses": {
            "completed": "stop",
            "max_output_tokens": "length",
            "content_filter": "content_filter",
        },
        "anthropic": {
            "end_turn": "stop",
            "max_tokens": "length",
            "tool_use": "tool_calls",
            "refusal": "content_filter",
            "stop_sequence": "stop",
            "model_context_window_exceeded": "length",
        },
        "gemini": {
            "STOP": "stop",
            "MAX_TOKENS": "length",
            "SAFETY": "content_filter",
            "RECITATION": "content_filter",
            "BLOCKLIST": "content_filter",
            "PROHIBITED_CONTENT": "content_filter",
            "SPII": "content_filter",
        },
        "gemini-interactions": {
            "completed": "stop",
            "incomplete": "length",
            "requires_action": "tool_calls",
            "failed": "other",
        },
        "ai-sdk": {
            "stop": "stop",
            "length": "length",
            "tool-calls": "tool_calls",
            "content-filter": "content_filter",
            "other": "other",
        },
    }
)
"""Words for why the answer ended; the first word of a meaning is the one that is written."""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Where a dialect has the counts.

    Attributes:
        field: The field of the answer.
        places: By neutral name; joined by dots.
        sums: The sum of input and output, if the dialect has it, and other sums of what is in
            `places`.
        has_cache_inside: Whether cached tokens are inside of the input.
        has_reasoning_inside: Whether reasoning is inside of the output.
        demanded: Groups and details that are 0 if they are not there.
    """

    field: str
    places: Mapping[str, str]
    sums: tuple[str, ...] = ()
    has_cache_inside: bool = True
    has_reasoning_inside: bool = True
    demanded: tuple[tuple[str, str], ...] = ()


USAGE: Final[Mapping[Dialect, UsageRow]] = MappingProxyType(
    {
        "openai-chat": UsageRow(
            "usage",
            {
                "input_tokens": "prompt_tokens",
                "cache_read_tokens": "prompt_tokens_details.cached_tokens",
                "cache_write_tokens": "prompt_tokens_details.cache_write_tokens",
                "output_tokens": "completion_tokens",
                "reasoning_tokens": "completion_tokens_details.reasoning_tokens",
            },
            ("total_tokens",),
        ),
        "openai-responses": UsageRow(
            "usage",
            {
                "input_tokens": "input_tokens",
                "cache_read_tokens": "input_tokens_details.cached_tokens",
                "cache_write_tokens": "input_tokens_details.cache_write_tokens",
                "output_tokens": "output_tokens",
                "reasoning_tokens": "output_tokens_details.reasoning_tokens",
            },
            ("total_tokens",),
            demanded=(
                ("input_tokens_details", "cached_tokens"),
                ("input_tokens_details", "cache_write_tokens"),
                ("output_tokens_details", "reasoning_tokens"),
            ),
        ),
        "anthropic": UsageRow(
            "usage",
            {
                "input_tokens": "input_tokens",
                "cache_read_tokens": "cache_read_input_tokens",
                "cache_write_tokens": "cache_creation_input_tokens",
                "output_tokens": "output_tokens",
            },
            has_cache_inside=False,
        ),
        "gemini": UsageRow(
            "usageMetadata",
            {
                "input_tokens": "promptTokenCount",
                "cache_read_tokens": "cachedContentTokenCount",
                "output_tokens": "candidatesTokenCount",
                "reasoning_tokens": "thoughtsTokenCount",
            },
            ("totalTokenCount",),
            has_reasoning_inside=False,
        ),
        "gemini-interactions": UsageRow(
            "usage",
            {
                "input_tokens": "total_input_tokens",
                "cache_read_tokens": "total_cached_tokens",
                "output_tokens": "total_output_tokens",
                "reasoning_tokens": "total_thought_tokens",
            },
            ("total_tokens",),
            has_reasoning_inside=False,
        ),
        "ai-sdk": UsageRow(
            "usage",
            {
                "input_tokens": "inputTokens",
                "cache_read_tokens": "inputTokenDetails.cacheReadTokens",
                "cache_write_tokens": "inputTokenDetails.cacheWriteTokens",
                "output_tokens": "outputTokens",
                "reasoning_tokens": "outputTokenDetails.reasoningTokens",
            },
            ("totalTokens", "inputTokenDetails.noCacheTokens", "outputTokenDetails.textTokens"),
        ),
    }
)


def read_usage(body: Json, dialect: Dialect) -> tuple[Usage | None, list[Path]]:
    """The counts of an answer, and the places of those that have no neutral name."""
    row = USAGE[dialect]
    found = body.get(row.field)
    if not isinstance(found, dict):
        return None, []
    usage = normalize_usage(found, None if dialect == "ai-sdk" else dialect)
    known = {*row.places.values(), *row.sums}
    leaves = _leaves(found)
    unread = [place for place in leaves if leaves[place] and place not in known]
    return usage, [(row.field, *place.split(".")) for place in unread]


def _leaves(value: Json) -> dict[str, Any]:
    """The values of an object and of the objects in it, by places joined with dots."""
    found: dict[str, Any] = {}
    for name, item in value.items():
        if isinstance(item, dict):
            found.update({f"{name}.{inner}": inner_item for inner, inner_item in item.items()})
        else:
            found[name] = item
    return found


def write_usage(usage: Usage, dialect: Dialect, notes: Notes) -> Json:
    """The counts as the dialect has them; details that are zero are left out."""
    row = USAGE[dialect]
    inside = usage.input_tokens if row.has_cache_inside else usage.uncached_input_tokens
    beside = 0 if row.has_reasoning_inside else usage.reasoning_tokens
    values = {
        "input_tokens": inside,
        "cache_read_tokens": usage.cache_read_tokens or None,
        "cache_write_tokens": usage.cache_write_tokens or None,
        "output_tokens": usage.output_tokens - beside,
        "reasoning_tokens": usage.reasoning_tokens or None,
    }
    written: Json = {}
    for name, value in values.items():
        place = row.places.get(name)
        if value is None:
            continue
        if place is None:
            notes.lose("field", ("usage", name))
        else:
            group, _, field = place.rpartition(".")
            (written.setdefault(group, {}) if group else written)[field] = value
    for name in row.sums[:1]:
        written[name] = usage.input_tokens + usage.output_tokens
    for group, field in row.demanded:
        written.setdefault(group, {}).setdefault(field, 0)
    return written


def is_answer(body: Any) -> bool:
    """True if `body` is an answer, not a request."""
    if not isinstance(body, dict) or "messages" in body or "contents" in body or "input" in body:
        return False
    return detect_answer(body) is not None


def detect_answer(body: Json) -> Dialect | None:
    """The dialect of an answer; None if it is none."""
    if isinstance(body.get("choices"), list):
        return "openai-chat"
    if isinstance(body.get("candidates"), list):
        return "gemini"
    if isinstance(body.get("output"), list):
        return "openai-responses"
    if isinstance(body.get("steps"), list) and "status" in body:
        return "gemini-interactions"
    if not isinstance(body.get("content"), list):
        return None
    if body.get("type") == "message" and body.get("role") == "assistant":
        return "anthropic"
    return "ai-sdk" if "finishReason" in body else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**53 else None


def _unnamed(body: Json, *known: str) -> tuple[Path, ...]:
    return tuple((name,) for name in body if name not in known and body[name] is not None)


def _read_chat(body: Json, notes: Notes) -> Answer:
    choices = body["choices"]
    first = choices[0] if choices and isinstance(choices[0], dict) else {}
    path: Path = ("choices", 0, "message")
    message = openai_chat.read_message(first.get("message", {"role": "assistant"}), path, notes)
    extra = [("choices", index) for index in range(1, len(choices))]
    known = ("id", "model", "created", "object", "choices", "usage")
    return Answer(
        message,
        _text(body.get("id")),
        _text(body.get("model")),
        str(first.get("finish_reason")),
        _whole(body.get("created")),
        extra=(*_unnamed(body, *known), *extra),
    )


def _read_responses(body: Json, notes: Notes) -> Answer:
    messages = tuple(openai_responses.read_items(body["output"], "output", notes))
    parts = tuple(part for message in messages for part in message.parts)
    details = body.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    known = "id model created_at object output usage status incomplete_details output_text".split()
    return Answer(
        Message(("output",), body["output"], role="assistant", parts=parts),
        _text(body.get("id")),
        _text(body.get("model")),
        str(reason or body.get("status") or "completed"),
        _whole(body.get("created_at")),
        extra=tuple(path for path in _unnamed(body, *known) if body[path[0]] not in ([], {})),  # type: ignore[index]
    )


def _read_anthropic(body: Json, notes: Notes) -> Answer:
    parts = tuple(anthropic.read_content(body["content"], ("content",), notes))
    known = ("id", "model", "type", "role", "content", "stop_reason", "usage")
    return Answer(
        Message(("content",), body["content"], role="assistant", parts=parts),
        _text(body.get("id")),
        _text(body.get("model")),
        str(body.get("stop_reason")),
        extra=_unnamed(body, *known),
    )


def _read_gemini(body: Json, notes: Notes) -> Answer:
    candidates = body["candidates"]
    first = candidates[0] if candidates and isinstance(candidates[0], dict) else {}
    path: Path = ("candidates", 0, "content")
    message = gemini.read_content(first.get("content", {"parts": []}), path, notes)
    extra = [("candidates", index) for index in range(1, len(candidates))]
    known = ("responseId", "modelVersion", "candidates", "usageMetadata")
    return Answer(
        replace(message, role="assistant"),
        _text(body.get("responseId")),
        _text(body.get("modelVersion")),
        str(first.get("finishReason")),
        extra=(*_unnamed(body, *known), *extra),
    )


def _read_interactions(body: Json, notes: Notes) -> Answer:
    messages = tuple(gemini_interactions.read_steps(body["steps"], "steps", notes))
    parts = tuple(part for message in messages for part in message.parts)
    known = "id model created updated object steps usage status output_text".split()
    return Answer(
        Message(("steps",), body["steps"], role="assistant", parts=parts),
        _text(body.get("id")),
        _text(body.get("model")),
        str(body.get("status")),
        extra=tuple(path for path in _unnamed(body, *known) if body[path[0]] not in ([], {})),  # type: ignore[index]
    )


def _read_ai_sdk(body: Json, notes: Notes) -> Answer:
    about = body.get("response")
    about = about if isinstance(about, dict) else {}
    parts = [_renamed(part, "providerMetadata", "providerOptions") for part in body["content"]]
    content = {"role": "assistant", "content": parts}
    message = ai_sdk.read_message(content, (), notes, is_top=False)
    return Answer(
        message,
        _text(about.get("id")),
        _text(about.get("modelId")),
        str(body.get("finishReason")),
        extra=_unnamed(body, "content", "finishReason", "usage", "response"),
    )


def _renamed(part: Any, name: str, other: str) -> Any:
    """`part` with its options of providers under the name that they have in answers, or back."""
    if not isinstance(part, dict) or name not in part:
        return part
    return {other if key == name else key: value for key, value in part.items()}


READERS: Final[Mapping[Dialect, Callable[[Json, Notes], Answer]]] = MappingProxyType(
    {
        "openai-chat": _read_chat,
        "openai-responses": _read_responses,
        "anthropic": _read_anthropic,
        "gemini": _read_gemini,
        "gemini-interactions": _read_interactions,
        "ai-sdk": _read_ai_sdk,
    }
)


def _write_chat(answer: Answer, word: str, usage: Json | None, writer: Writer) -> Json:
    message = openai_chat.write_message(answer.message, writer)
    message.setdefault("refusal", None)
    choice = {"index": 0, "message": message, "finish_reason": word, "logprobs": None}
    return {
        "id": answer.id or "chatcmpl-converted",
        "object": "chat.completion",
        "created": answer.created or 0,
        "model": answer.model or "",
        "choices": [choice],
        **({} if usage is None else {"usage": usage}),
    }


def _write_responses(answer: Answer, word: str, usage: Json | None, writer: Writer) -> Json:
    is_whole = word == "completed"
    output = openai_responses.write_output(answer.message, answer.id or "msg_converted", writer)
    return {
        "id": answer.id or "resp_converted",
        "object": "response",
        "created_at": answer.created or 0,
        "model": answer.model or "",
        "status": "completed" if is_whole else "incomplete",
        "incomplete_details": None if is_whole else {"reason": word},
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **({} if usage is None else {"usage": usage}),
    }


def _write_anthropic(answer: Answer, word: str, usage: Json | None, writer: Writer) -> Json:
    return {
        "id": answer.id or "msg_converted",
        "type": "message",
        "role": "assistant",
        "model": answer.model or "",
        "content": writer.parts(answer.message.parts, "assistant"),
        "stop_reason": word,
        "stop_sequence": None,
        "usage": usage or {"input_tokens": 0, "output_tokens": 0},
    }


def _write_gemini(answer: Answer, word: str, usage: Json | None, writer: Writer) -> Json:
    content = {"role": "model", "parts": writer.parts(answer.message.parts, "assistant")}
    about = {"responseId": answer.id, "modelVersion": answer.model, "usageMetadata": usage}
    return {
        "candidates": [{"content": content, "finishReason": word, "index": 0}],
        **{name: value for name, value in about.items() if value is not None},
    }


def _write_interactions(answer: Answer, word: str, usage: Json | None, writer: Writer) -> Json:
    about = {"id": answer.id, "model": answer.model, "usage": usage}
    steps = gemini_interactions.write_steps(replace(answer.message, raw=None), writer)
    known = {name: value for name, value in about.items() if value is not None}
    return {"status": word, "steps": steps, **known}


def _write_ai_sdk(answer: Answer, word: str, usage: Json | None, writer: Writer) -> Json:
    about = {"id": answer.id, "modelId": answer.model}
    parts = writer.parts(answer.message.parts, "assistant")
    return {
        "content": [_renamed(part, "providerOptions", "providerMetadata") for part in parts],
        "finishReason": word,
        **({} if usage is None else {"usage": usage}),
        "response": {name: value for name, value in about.items() if value is not None},
    }


WRITERS: Final[Mapping[Dialect, Callable[[Answer, str, Json | None, Writer], Json]]] = (
    MappingProxyType(
        {
            "openai-chat": _write_chat,
            "openai-responses": _write_responses,
            "anthropic": _write_anthropic,
            "gemini": _write_gemini,
            "gemini-interactions": _write_interactions,
            "ai-sdk": _write_ai_sdk,
        }
    )
)


def convert_answer(body: Json, source: Dialect, rules: Rules, notes: Notes) -> Json:
    """`body`, an answer of the dialect `source`, as an answer of the dialect of `rules`."""
    answer = READERS[source](body, notes)
    usage, unread = read_usage(body, source)
    for path in (*answer.extra, *unread):
        notes.lose("field", path)
    message = answer.message
    has_calls = any(isinstance(part, ToolCall) for part in message.parts)
    finish = FINISH[source].get(answer.finish, "other")
    finish = "tool_calls" if has_calls and finish == "stop" else finish
    words = {meaning: word for word, meaning in reversed(tuple(FINISH[rules.name].items()))}
    conversation = Conversation(source, (message,))
    conversation = arranged(pair_ids(conversation, notes, rules), rules, notes)
    if conversation.messages:
        message = conversation.messages[0]
    writer = Writer(rules, conversation, notes)
    counts = None if usage is None else write_usage(usage, rules.name, notes)
    word = words.get(finish, words["stop"])
    return WRITERS[rules.name](replace(answer, message=message), word, counts, writer)
