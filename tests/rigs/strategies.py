"""Requests as clients send them, of every dialect, and what goes wrong with them on the way."""

from __future__ import annotations

import base64
import copy
import json
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

Draw = Any
Json = Any

MODELS: Final = [
    "gpt-4o",
    "gpt-4o-mini-2024-07-18",
    "gpt-4-turbo",
    "gpt-5",
    "o1",
    "claude-sonnet-4-5",
    "claude-opus-4-6",
    "claude-3-5-haiku-latest",
    "us.anthropic.claude-sonnet-4-20250514-v1:0",
    "gemini-2.5-pro",
    "models/gemini-3-pro",
    "gpt-oss-120b",
    "ft:gpt-4o:acme::1",
    "deepseek/deepseek-chat",
    "llama-3",
    "",
    " GPT-4O ",
]
WORDS: Final = [
    "hello world",
    "Wie wird das Wetter in Zürich?",
    "它今天会下雨吗",
    "👩‍👩‍👧 ok",
    "can't won't I'LL",
    "def f(x):\n    return x['a'] + 1\r\n",
    "   \t\n",
    "<|endoftext|>",
    "12345 ٣٤ ½",
    "\ud83d",
    "\ude00\ud83d",
    "e\u0301\u200d\ufeff",
    '{"a": 1, "b": [null, 2.50, 1e3]}',
    '{"b":{"$mid":1},"a":"\\ud800"}',
    "[1, 2",
    "null",
    '"text"',
    "{} x",
    "\x00\x1f",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
]
PNG: Final = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x04\0\0\0\x03\0\x08\x06\0\0\0"
).decode()
MEDIA: Final = [
    PNG,
    f"data:image/png;base64,{PNG}",
    f"DATA:IMAGE/PNG;charset=x;base64,{PNG[:-3]}",
    "data:text/plain,hello%20world%zz",
    "data:application/pdf;base64,JVBERi0xLjQK",
    "data:,",
    "data:image/png;base64,****",
    "https://example.com/a.png",
    "gs://bucket/a.mp4",
    "s3://bucket/a.pdf",
    "file-abc",
    "file_1",
    "R0lGODlhAQABAIAAAAAAAP///w==",
    "SGVsbG8",
    "SGVs\nbG8=",
    "not base64!",
    "",
]
MIMES: Final = [
    "image/png",
    "IMAGE/JPEG; q=1",
    "image/jpg",
    "application/pdf",
    "text/plain; charset=utf-8",
    "application/json",
    "image/svg+xml",
    "audio/wav",
    "video/mp4",
    "png",
    "pdf",
    "md",
    "wav",
    "cache_control",
    "stateful_marker",
    "",
]
ROLES: Final = "user assistant system developer tool function model human AI User".split()
TYPES: Final = (
    "text input_text output_text summary_text refusal thinking redacted_thinking reasoning "
    "reasoning_text tool_use server_tool_use mcp_tool_use tool-call tool_result tool-result "
    "web_search_tool_result image_url input_image image document file input_file input_audio "
    "video_url audio_url file_url video audio container_upload message function_call "
    "function_call_output custom_tool_call custom_tool_call_output computer_call_output "
    "web_search_call item_reference function custom enabled json_schema base64 url content media "
    "error-text error-json json computer_screenshot"
).split()
KEYS: Final = (
    "messages contents input prompt message chat_history system instructions systemInstruction "
    "system_instruction preamble tools functions toolConfig tool_config toolChoice tool_choice "
    "function_call functionCallingConfig mode response_format output_format text format "
    "json_schema schema generationConfig output_config responseSchema thinking model modelId "
    "generateContentRequest previous_response_id conversation cachedContent inferenceConfig "
    "anthropic_version role content parts name type id call_id callId status cache_control $mid "
    "tool_calls function arguments args parameters custom tool_call_id tool_use_id toolResult "
    "toolUse toolUseId toolName result output is_error refusal images reasoning_content reasoning "
    "reasoning_details encrypted_content summary action value mimeType mime_type data kind "
    "contentText contentJson functionCall functionResponse response inlineData fileData fileUri "
    "executableCode codeExecutionResult code json image document video audio source bytes "
    "reasoningContent reasoningText redactedContent guardContent citationsContent url detail "
    "file_id file_data filename title context media_type thought signature functionDeclarations "
    "input_schema inputSchema description builtin cachePoint"
).split()


# What Unicode has not assigned may be a letter of the next version in the `regex` package, by which
# the reference splits text; the core holds to version 16.
ASSIGNED: Final = st.characters(codec=None, exclude_categories=["Cn"])
texts = st.sampled_from(WORDS) | st.text(ASSIGNED, max_size=12)
names = st.sampled_from(["get_weather", "f", "", "naïve tool", "search.web", "\ud83d"]) | texts
media_texts = st.sampled_from(MEDIA)
mimes = st.sampled_from(MIMES)
numbers = (
    st.integers(-3, 300)
    | st.sampled_from([2**53 + 1, -(2**63), 2**64, 10**30])
    | st.floats()
    | st.sampled_from([0.0, -0.0, 1e16, 1e-7, 1.5, 5e-324])
)
scalars = st.none() | st.booleans() | numbers | texts | media_texts | st.sampled_from(TYPES)
keys = st.sampled_from(KEYS)
arbitrary = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(keys | texts, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)
"""Any JSON value; its keys are mostly those that some dialect gives a meaning."""


def some(**fields: Any) -> st.SearchStrategy[Json]:
    """A JSON object that has some of `fields`."""
    return st.fixed_dictionaries({}, optional=fields)


def block(kind: str, *required: str, **fields: Any) -> st.SearchStrategy[Json]:
    """A content block of this type."""
    always = {"type": st.just(kind), **{name: fields.pop(name) for name in required}}
    return st.fixed_dictionaries(always, optional=fields)


arguments = texts | st.dictionaries(texts, numbers | texts, max_size=3) | st.none()
sources = some(
    type=st.sampled_from(["base64", "url", "text", "content", "file"]),
    media_type=mimes,
    data=media_texts | texts,
    url=media_texts,
    content=texts,
    file_id=media_texts,
)
CHAT_BLOCKS: Final = [
    block("text", "text", text=texts, cache_control=st.just({"type": "ephemeral"})),
    block(
        "image_url",
        "image_url",
        image_url=some(url=media_texts, detail=st.sampled_from(["low", "high", "x"])) | media_texts,
    ),
    block("input_audio", "input_audio", input_audio=some(data=media_texts, format=mimes)),
    block("file", "file", file=some(file_data=media_texts, filename=texts, file_id=media_texts)),
    block("refusal", "refusal", refusal=texts),
]
ANTHROPIC_BLOCKS: Final = [
    block("text", "text", text=texts, cache_control=st.just({"type": "ephemeral"})),
    block("image", "source", source=sources),
    block("document", "source", source=sources, title=texts, context=texts),
    block("tool_use", "name", "input", id=names, name=names, input=arguments),
    block("thinking", "thinking", thinking=texts, signature=texts),
    block("redacted_thinking", "data", data=media_texts),
]
RESPONSES_BLOCKS: Final = [
    block("input_text", "text", text=texts),
    block("output_text", "text", text=texts, annotations=st.just([])),
    block("input_image", image_url=media_texts, detail=texts, file_id=media_texts),
    block(
        "input_file",
        file_data=media_texts,
        filename=texts,
        file_url=media_texts,
        file_id=media_texts,
    ),
    block("computer_screenshot", image_url=media_texts),
]
GEMINI_PARTS: Final = [
    some(text=texts, thought=st.booleans(), thoughtSignature=media_texts),
    some(inlineData=some(mimeType=mimes, data=media_texts, displayName=texts)),
    some(inline_data=some(mime_type=mimes, data=media_texts)),
    some(fileData=some(mimeType=mimes, fileUri=media_texts)),
    some(functionCall=some(name=names, args=arguments, id=names)),
    some(functionResponse=some(name=names, response=arbitrary, parts=st.just([{"text": "x"}]))),
    some(executableCode=some(code=texts, language=names)),
    some(codeExecutionResult=some(output=texts, outcome=names)),
]
CONVERSE_BLOCKS: Final = [
    some(text=texts),
    some(image=some(format=mimes, source=some(bytes=media_texts))),
    some(document=some(format=mimes, name=texts, source=some(bytes=media_texts, text=texts))),
    some(video=some(format=mimes, source=some(bytes=media_texts, s3Location=st.just({})))),
    some(toolUse=some(toolUseId=names, name=names, input=arguments)),
    some(
        toolResult=some(
            toolUseId=names,
            status=st.sampled_from(["error", "success"]),
            content=st.lists(some(text=texts, json=arguments), max_size=2),
        )
    ),
    some(
        reasoningContent=some(
            reasoningText=some(text=texts, signature=texts) | texts, redactedContent=media_texts
        )
    ),
    some(guardContent=some(text=some(text=texts) | texts)),
    some(cachePoint=some(type=st.just("default"))),
]
VSCODE_PARTS: Final = [
    some(value=texts),
    some(callId=names, name=names, input=arguments),
    some(
        callId=names,
        content=st.lists(some(value=texts) | some(mimeType=mimes, data=media_texts), max_size=2),
    ),
    some(mimeType=mimes, data=media_texts),
    some(
        kind=st.sampled_from(
            ["text", "attachment", "tool_invocation", "tool_result", "metadata", "?"]
        ),
        content=texts,
        contentJson=arbitrary,
        toolName=names,
    ),
]
AI_SDK_BLOCKS: Final = [
    block("tool-call", toolCallId=names, toolName=names, input=arguments, args=arguments),
    block(
        "tool-result",
        toolName=names,
        output=some(
            type=st.sampled_from(["text", "json", "error-json", "content"]), value=arbitrary
        )
        | texts,
    ),
    block("image", image=media_texts, mediaType=mimes),
    block("file", data=media_texts, mediaType=mimes, filename=texts),
    block("media", data=media_texts, mediaType=mimes),
]
BLOCKS: Final = {
    "openai-chat": st.one_of(CHAT_BLOCKS),
    "anthropic": st.one_of(ANTHROPIC_BLOCKS),
    "openai-responses": st.one_of(RESPONSES_BLOCKS),
    "gemini": st.one_of(GEMINI_PARTS),
    "bedrock-converse": st.one_of(CONVERSE_BLOCKS),
    "vscode": st.one_of(VSCODE_PARTS),
    "ai-sdk": st.one_of(AI_SDK_BLOCKS),
}


def contents(blocks: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """Text, or a list of blocks; results hold blocks of their own."""
    result = block(
        "tool_result",
        tool_use_id=names,
        is_error=st.booleans(),
        content=texts | st.lists(blocks, max_size=2) | arguments,
    )
    return texts | st.lists(blocks | result, max_size=3) | st.lists(blocks, max_size=3)


calls = st.lists(
    some(id=names, type=st.just("function"), function=some(name=names, arguments=arguments))
    | some(type=st.just("custom"), custom=some(name=names, input=texts)),
    max_size=2,
)
roles = st.sampled_from(ROLES)


def messages(dialect: str) -> st.SearchStrategy[Json]:
    """A message of this dialect."""
    content = contents(BLOCKS[dialect])
    if dialect == "gemini":
        return some(role=roles, parts=st.lists(BLOCKS[dialect], max_size=3))
    if dialect == "vscode":
        return some(role=st.sampled_from([1, 2, 3, 4]), content=content, name=names) | some(
            role=roles, parts=st.lists(BLOCKS[dialect], max_size=3)
        )
    plain = st.fixed_dictionaries({"role": roles, "content": content}, optional={"name": names})
    if dialect == "openai-chat":
        return (
            plain
            | some(
                role=st.just("assistant"),
                content=content | st.none(),
                tool_calls=calls,
                reasoning_content=texts,
                refusal=texts,
                function_call=some(name=names, arguments=arguments),
            )
            | some(role=st.just("tool"), tool_call_id=names, content=content)
        )
    if dialect == "openai-responses":
        item = some(
            type=st.sampled_from(TYPES),
            name=names,
            arguments=arguments,
            input=texts,
            output=content,
            encrypted_content=media_texts,
            summary=st.lists(some(type=st.just("summary_text"), text=texts), max_size=2),
            action=arguments,
        )
        return plain | item
    return plain


schemas = st.just({"type": "object", "properties": {"b": {"type": "string"}, "a": {}}}) | arbitrary
definitions = some(name=names, description=texts, parameters=schemas)
tools = st.lists(
    some(type=st.just("function"), function=definitions)
    | some(name=names, description=texts, input_schema=schemas, cache_control=st.just({}))
    | some(
        type=st.sampled_from(["function", "custom", "web_search", "bash_20250124"]),
        name=names,
        parameters=schemas,
    )
    | some(functionDeclarations=st.lists(definitions, max_size=2), googleSearch=st.just({}))
    | some(toolSpec=some(name=names, inputSchema=some(json=schemas)))
    | names,
    max_size=3,
)
choices = st.sampled_from(
    ["auto", "none", "required", "any", {"type": "any"}, {"auto": {}}]
) | some(type=st.sampled_from(["function", "tool", "any"]), name=names, function=some(name=names))
OPTIONS: Final = {
    "model": st.sampled_from(MODELS),
    "tools": tools,
    "tool_choice": choices,
    "thinking": some(type=st.sampled_from(["enabled", "disabled"]), budget_tokens=numbers),
    "response_format": some(
        type=st.just("json_schema"), json_schema=some(name=names, schema=schemas)
    ),
    "temperature": numbers,
}
SYSTEM: Final = texts | st.lists(some(type=st.just("text"), text=texts), max_size=2)


def bodies(dialect: str) -> st.SearchStrategy[Json]:
    """A request of this dialect, not yet damaged."""
    turns = st.lists(messages(dialect), max_size=5)
    if dialect == "gemini":
        config = some(functionCallingConfig=some(mode=st.sampled_from(["ANY", "AUTO"])))
        options = {
            "systemInstruction": some(parts=st.lists(some(text=texts), max_size=2)) | texts,
            "generationConfig": some(responseSchema=schemas, temperature=numbers),
            "tools": tools,
            "toolConfig": config,
            "model": OPTIONS["model"],
        }
        return st.fixed_dictionaries({"contents": turns}, optional=options)
    if dialect == "openai-responses":
        options = {
            **OPTIONS,
            "instructions": texts,
            "text": some(format=some(schema=schemas)),
            "previous_response_id": names,
        }
        return st.fixed_dictionaries({"input": turns | texts}, optional=options)
    if dialect == "bedrock-converse":
        config = some(tools=tools, toolChoice=choices)
        options = {
            "system": SYSTEM,
            "toolConfig": config,
            "modelId": OPTIONS["model"],
            "inferenceConfig": st.just({}),
        }
        return st.fixed_dictionaries({"messages": turns}, optional=options)
    options = OPTIONS if dialect != "anthropic" else {**OPTIONS, "system": SYSTEM}
    return st.fixed_dictionaries({"messages": turns}, optional=options)


MUTATIONS: Final[dict[str, Callable[[Any, Any, Any], object]]] = {
    "replace": lambda parent, key, value: parent.__setitem__(key, value),
    "null": lambda parent, key, _: parent.__setitem__(key, None),
    "wrap": lambda parent, key, _: parent.__setitem__(key, [parent[key]]),
    "nest": lambda parent, key, value: parent.__setitem__(key, {str(value): parent[key]}),
    "quote": lambda parent, key, _: parent.__setitem__(key, json.dumps(parent[key])),
    "delete": lambda parent, key, _: parent.__delitem__(key),
}


def places(value: Json) -> list[tuple[Any, Any]]:
    """Every container in `value`, with each key or index in it."""
    found: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        parent = pending.pop()
        if isinstance(parent, (dict, list)):
            members = list(parent.items() if isinstance(parent, dict) else enumerate(parent))
            found += [(parent, key) for key, _ in members]
            pending += [member for _, member in members]
    return found


def mutate(draw: Draw, body: Json) -> None:
    """Change one place of `body`: its value, its key, or what stands beside it."""
    found = places(body)
    if not found:
        return
    parent, key = found[draw(st.integers(0, len(found) - 1))]
    how = draw(st.sampled_from([*MUTATIONS, "rename", "add", "retype"]))
    if how == "nest":
        MUTATIONS[how](parent, key, draw(keys))
    elif how == "replace":
        MUTATIONS[how](parent, key, draw(arbitrary))
    elif how in MUTATIONS:
        MUTATIONS[how](parent, key, None)
    elif isinstance(parent, list):
        parent.insert(key, draw(arbitrary))
    elif how == "rename":
        parent[draw(keys)] = parent.pop(key)
    elif how == "retype":
        parent["type"] = draw(st.sampled_from(TYPES))
    else:
        parent[draw(keys)] = draw(arbitrary)


@st.composite
def requests(draw: Draw) -> Json:
    """A request of some dialect, up to three places of it changed; or any JSON value."""
    dialect = draw(st.sampled_from([*BLOCKS, None]))
    if dialect is None:
        return draw(arbitrary)
    body = copy.deepcopy(draw(bodies(dialect)))
    for _ in range(draw(st.sampled_from([0, 1, 1, 2, 3]))):
        mutate(draw, body)
    return body


@st.composite
def replies(draw: Draw) -> Json:
    """An answer: a message, a body around it, or any JSON value."""
    dialect = draw(st.sampled_from(sorted(BLOCKS)))
    message = copy.deepcopy(draw(messages(dialect)))
    shapes = [
        message,
        [message],
        {"choices": [{"message": message}]},
        {"candidates": [{"content": message}]},
        {"output": [message]},
        {"output": {"message": message}},
        {"message": message},
        {"type": "message", **message},
    ]
    reply = draw(st.sampled_from(shapes) | arbitrary)
    if draw(st.booleans()):
        mutate(draw, reply)
    return reply


def is_request(value: Any) -> bool:
    """True if `value` could be meant as a request: a number of tokens is had, and no error."""
    if isinstance(value, dict):
        return bool(value) and not isinstance(value.get("messages"), str)
    return isinstance(value, (list, str))
