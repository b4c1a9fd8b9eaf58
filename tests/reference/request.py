"""Readers: a body of any dialect to one neutral request."""

from __future__ import annotations

from dataclasses import replace
from itertools import filterfalse
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from blake3 import blake3

from reference.document import (
    Anomalies,
    ascii_lower,
    canonical,
    compact,
    load,
    parse_arguments,
)
from reference.model import (
    Data,
    Dialect,
    Media,
    Message,
    Part,
    Reasoning,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from reference.parts import (
    UNBILLED_KEYS,
    About,
    data,
    first,
    joined_text,
    merge_text,
    read_call,
    read_content,
    read_data,
    read_media,
    read_result,
    string,
)
from tokenctx._errors import RequestError

if TYPE_CHECKING:
    from reference.model import CallForm

ROLES: Final = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "chatbot": "assistant",
    "tool": "tool",
    "function": "tool",
}
INTERACTION_ROLES: Final = {"user_input": "user", "model_output": "assistant"}
"""Who speaks in an item of Gemini's Interactions API."""
VENDOR_CALLS: Final = frozenset(
    "code_interpreter_call file_search_call image_generation_call mcp_call web_search_call".split()
)
"""Items of the Responses API: calls of tools that the vendor runs."""
VSCODE_ROLES: Final = {1: "user", 2: "assistant", 3: "system"}
ANTHROPIC_BLOCKS: Final = frozenset(
    "tool_use tool_result redacted_thinking server_tool_use".split()
)
CONVERSE_KEYS: Final = frozenset(
    "text toolUse toolResult image document video cachePoint reasoningContent guardContent "
    "citationsContent".split()
)
UNSEEN: Final = "form signature_bytes is_run_by_vendor ends documents call_id".split()
"""Fields of parts that are neither identity nor part of the view."""
KIND_NAMES: Final = {
    Text: "text",
    Media: "media",
    ToolCall: "tool_call",
    ToolResult: "tool_result",
    Reasoning: "reasoning",
    Data: "data",
}
MESSAGE_KEYS: Final = frozenset(
    "role content parts message reasoning_content reasoning thinking reasoning_details tool_calls "
    "function_call refusal images".split()
)
SERVER_STATE_KEYS: Final = (
    "previous_response_id",
    "conversation",
    "cachedContent",
    "cached_content",
    "mcp_servers",
    "container",
)

JSON_SCHEMA_KEYS: Final = ("parametersJsonSchema", "parameters_json_schema")
JSON_OUTPUT_KEYS: Final = ("responseJsonSchema", "response_json_schema")
"""Where Gemini has a schema as JSON Schema instead of its own form."""


def read_request(body: object, *, model: str | None = None, dialect: str | None = None) -> Request:
    """The neutral request of `body`: JSON bytes or text, a dict, a list of messages, SDK objects.

    `model` and `dialect` override what the body says. Raises RequestError for bytes that are not
    JSON and for a dialect that does not exist; any JSON value at all is read.
    """
    if dialect is not None and dialect not in get_args(Dialect):
        raise RequestError(
            f"dialect is {dialect!r}; it must be one of {', '.join(get_args(Dialect))}",
            "unknown_dialect",
        )
    anomalies = Anomalies()
    value = load(body, anomalies)
    assumptions: set[str] = set(anomalies)
    found = cast("Dialect", dialect) if dialect is not None else detect_dialect(value)
    fields = value if isinstance(value, dict) else {"messages": value}
    counted = counted_request(fields)
    fields = first(fields, "generateContentRequest") or (fields if counted is None else counted)
    fields = fields if isinstance(fields, dict) else {"messages": value}
    named = model if model is not None else string(first(fields, "model", "modelId"))
    if any(fields.get(key) for key in SERVER_STATE_KEYS):
        assumptions.add("server_state")
    tool_config = first(fields, "toolConfig", "tool_config")
    tools = first(fields, "tools", "functions")
    if tools is None and isinstance(tool_config, dict):
        tools = tool_config.get("tools")
    items = message_list(fields, assumptions)
    return Request(
        dialect=found,
        model=named,
        system=read_system(fields, assumptions),
        is_raw=is_raw_prompt(fields),
        has_system_role=not lacks_role(system_value(fields)),
        tools=read_tools(tools, fields, assumptions),
        deferred_tools=read_deferred_tools(tools),
        added_tools=read_added_tools(items),
        messages=read_messages(items, assumptions),
        tool_choice=read_tool_choice(fields),
        response_schema=read_response_schema(fields),
        json_schema=has_json_schema(fields),
        schema_name=string(output_format(fields).get("name")),
        schema_description=string(output_format(fields).get("description")),
        thinking=read_thinking(fields),
        citations=has_citations(fields),
        serial=read_serial(fields),
        pro=read_pro(fields),
        assumptions=frozenset(assumptions),
    )


def detect_dialect(value: Any) -> Dialect:
    """The dialect that the shape of `value` tells; `openai-chat` when nothing speaks against it."""
    if not isinstance(value, dict):
        return dialect_of_messages(value if isinstance(value, list) else [])
    if "contents" in value or "generateContentRequest" in value:
        return "gemini"
    if counted_request(value) is not None:
        return "bedrock-converse"
    messages = value.get("messages")
    if not isinstance(messages, list):
        is_responses = "input" in value or "previous_response_id" in value
        return "openai-responses" if is_responses else "openai-chat"
    if "toolConfig" in value or "inferenceConfig" in value:
        return "bedrock-converse"
    found = dialect_of_messages(messages)
    if found != "openai-chat":
        return found
    if "system" in value or "anthropic_version" in value or has_input_schema(value.get("tools")):
        return "anthropic"
    return "openai-chat"


def has_input_schema(tools: Any) -> bool:
    """Whether a tool is defined the Anthropic way."""
    return isinstance(tools, list) and any(
        isinstance(tool, dict) and "input_schema" in tool for tool in tools
    )


def counted_request(value: dict[str, Any]) -> dict[str, Any] | None:
    """The Converse request in a body of Bedrock's endpoint that counts."""
    counted = value.get("input")
    inner = counted.get("converse") if isinstance(counted, dict) else None
    return inner if isinstance(inner, dict) else None


def dialect_of_messages(messages: list[Any]) -> Dialect:
    """The dialect of the first message that only one dialect writes so."""
    for message in messages:
        if isinstance(message, dict) and (found := dialect_of_message(message)) is not None:
            return found
    return "openai-chat"


def dialect_of_message(message: dict[str, Any]) -> Dialect | None:
    """The dialect of a message, None when several write it so."""
    role = message.get("role")
    if isinstance(role, int) and not isinstance(role, bool):
        return "vscode"
    if "parts" in message:
        parts = message["parts"]
        is_store = isinstance(parts, list) and any(
            isinstance(part, dict) and "kind" in part for part in parts
        )
        return "vscode" if is_store else "gemini"
    if role is None and isinstance(message.get("type"), str):
        return "openai-responses"
    content = message.get("content")
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and (found := dialect_of_block(block)) is not None:
            return found
    return None


def dialect_of_block(block: dict[str, Any]) -> Dialect | None:
    """The dialect of a content block, None when several write it so."""
    kind = block.get("type")
    if isinstance(kind, str):
        is_thinking = kind == "thinking" and isinstance(block.get("thinking"), str)
        if kind in ANTHROPIC_BLOCKS or is_thinking or isinstance(block.get("source"), dict):
            return "anthropic"
        return "openai-responses" if kind.startswith("input_") and kind != "input_audio" else None
    if "value" in block or "callId" in block or "mimeType" in block:
        return "vscode"
    return "bedrock-converse" if CONVERSE_KEYS & block.keys() else None


def message_list(fields: dict[str, Any], assumptions: set[str]) -> list[Any]:
    """The messages of a body, in whatever field they are."""
    found = first(fields, "messages", "contents", "input", "prompt", "inputText")
    if isinstance(found, list):
        return found
    if found is None and ("role" in fields or "parts" in fields):
        return [fields]
    if found is None and isinstance(fields.get("message"), str):
        history = fields.get("chat_history")
        return [
            *(history if isinstance(history, list) else []),
            {"role": "user", "content": fields["message"]},
        ]
    if isinstance(found, (str, dict)):
        is_message = isinstance(found, dict) and ("role" in found or "parts" in found)
        return [found if is_message else {"role": "user", "content": found}]
    if found is not None or not fields:
        assumptions.add("unknown_request")
        return [] if not fields else [{"role": "user", "content": found}]
    assumptions.add("unknown_request")
    return []


def read_system(fields: dict[str, Any], assumptions: set[str]) -> tuple[Part, ...]:
    """Parts of the system prompt that stands outside of the messages."""
    value = system_value(fields)
    if isinstance(value, dict) and "parts" in value:
        value = value["parts"]
    blocks = value if isinstance(value, list) else [value]
    return merge_text(read_content([*filterfalse(is_client_header, blocks)], assumptions))


def system_value(fields: dict[str, Any]) -> Any:
    """The system prompt that stands outside of the messages, in whatever field it is."""
    keys = "system", "instructions", "systemInstruction", "system_instruction", "preamble"
    return first(fields, *keys)


def is_raw_prompt(fields: dict[str, Any]) -> bool:
    """Whether a body is for completions; Ollama, which has options, lays a template around."""
    is_chat = first(fields, "messages", "contents", "input", "options") is not None
    return not is_chat and fields.get("prompt") is not None


def lacks_role(value: Any) -> bool:
    """Whether a value is Gemini's content without a role."""
    return isinstance(value, dict) and "parts" in value and value.get("role") is None


def is_client_header(block: Any) -> bool:
    """Whether a block of the system prompt is a coding agent's header, which nobody bills."""
    text = string(block.get("text")) if isinstance(block, dict) else ""
    return text.startswith("x-anthropic-billing-header:")


def read_messages(items: list[Any], assumptions: set[str]) -> tuple[Message, ...]:
    """One message for each item of a conversation."""
    return tuple(read_message(item, assumptions) for item in items)


def read_message(item: Any, assumptions: set[str]) -> Message:
    """A message of any dialect, or an item of the Responses API."""
    if isinstance(item, str):
        return Message("user", merge_text([Text(item)]))
    if not isinstance(item, dict):
        assumptions.add("unknown_message")
        return Message("user", (data(item),) if item is not None else ())
    kind = item.get("type")
    if "role" not in item and isinstance(kind, str) and kind != "message":
        return read_item(kind, item, assumptions)
    if not MESSAGE_KEYS & item.keys():
        return Message("user", merge_text(read_content(item, assumptions)))
    role = read_role(item.get("role"), assumptions)
    parts = read_reasoning(item)
    content = read_content(first(item, "content", "parts", "message"), assumptions)
    if role == "tool" and not any(isinstance(part, ToolResult) for part in content):
        call_id = string(item.get("tool_call_id"))
        result = ToolResult(string(item.get("name")), merge_text(content), call_id=call_id)
        return Message(role, (result,))
    parts += content
    parts += read_calls(item, assumptions)
    for image in item["images"] if isinstance(item.get("images"), list) else []:
        parts.append(read_media(image, About("image"), assumptions))
    name = "" if role == "tool" else string(item.get("name"))
    return Message(role, merge_text(parts), name, has_role=not lacks_role(item))


def read_role(value: Any, assumptions: set[str]) -> str:
    """The role by its one name; an unknown one is kept as it is."""
    if value is None:
        return "user"
    if isinstance(value, int) and value in VSCODE_ROLES and not isinstance(value, bool):
        return VSCODE_ROLES[value]
    if isinstance(value, str) and value.lower() in ROLES:
        return ROLES[value.lower()]
    assumptions.add("unknown_role")
    return string(value) or "user"


def read_reasoning(item: dict[str, Any]) -> list[Part]:
    """Reasoning beside the content, as OpenAI-compatible servers return it."""
    text = first(item, "reasoning_content", "reasoning", "thinking")
    if isinstance(text, (str, list)) and (joined := joined_text(text)):
        return [Reasoning(joined)]
    details = item.get("reasoning_details")
    if isinstance(details, list) and details:
        opaque = "".join(string(block.get("data")) for block in details if isinstance(block, dict))
        return [Reasoning(joined_text(details), opaque)]
    return []


def read_calls(item: dict[str, Any], assumptions: set[str]) -> list[Part]:
    """Tool calls beside the content, as OpenAI Chat has them."""
    calls: list[Part] = []
    listed = item.get("tool_calls")
    for call in listed if isinstance(listed, list) else []:
        inner = first(call, "function", "custom") if isinstance(call, dict) else None
        inner = call if isinstance(call, dict) and not isinstance(inner, dict) else inner
        if isinstance(inner, dict):
            arguments = first(inner, "arguments", "input", "parameters", "args")
            calls.append(read_call(inner.get("name"), arguments))
        else:
            calls.append(read_data(call, assumptions))
    if isinstance(legacy := item.get("function_call"), dict):
        call = read_call(legacy.get("name"), legacy.get("arguments"))
        calls.append(replace(call, form="legacy"))
    if isinstance(refusal := item.get("refusal"), str):
        calls.append(Text(refusal))
    return calls


def read_item(kind: str, item: dict[str, Any], assumptions: set[str]) -> Message:
    """An item of the Responses API that is not a message, or one of Gemini's Interactions."""
    if kind in INTERACTION_ROLES:
        content = read_content(item.get("content"), assumptions)
        return Message(INTERACTION_ROLES[kind], merge_text(content))
    if kind.endswith("_output"):
        output = first(item, "output", "tools")
        return Message("tool", (read_result("", output, assumptions, 0),))
    if kind in ("function_call", "custom_tool_call") or kind.endswith("_call"):
        name = string(item.get("name")) or kind.removesuffix("_call")
        call = read_call(name, first(item, "arguments", "input", "action"))
        form: CallForm = "item" if string(item.get("id")) else "plain"
        is_run = kind in VENDOR_CALLS
        return Message("assistant", (replace(call, form=form, is_run_by_vendor=is_run),))
    if kind == "reasoning":
        opaque = string(item.get("encrypted_content"))
        text = joined_text(first(item, "content", "summary"))
        return Message("assistant", (Reasoning("" if opaque else text, opaque),))
    if kind == "item_reference":
        assumptions.add("server_state")
        return Message("assistant", (data(item),))
    parts = read_content([item], assumptions)
    return Message("user", merge_text(parts))


def read_tools(value: Any, fields: dict[str, Any], assumptions: set[str]) -> tuple[Tool, ...]:
    """Tool definitions of any dialect in their order, without those that are not loaded yet."""
    tools: list[Tool] = []
    items = value if isinstance(value, list) else [value]
    loaded = loaded_names(fields) if any(map(is_deferred, items)) else set()
    for item in items:
        if not is_deferred(item) or string(item.get("name")) in loaded:
            tools.extend(replace(tool, is_loaded=is_deferred(item)) for tool in read_tool(item))
    if any(tool.builtin for tool in tools):
        assumptions.add("builtin_tool")
    return tuple(tools)


def read_deferred_tools(value: Any) -> tuple[Tool, ...]:
    """Definitions of deferred tools in their order."""
    items = value if isinstance(value, list) else [value]
    return tuple(tool for item in items if is_deferred(item) for tool in read_tool(item))


def read_added_tools(items: list[Any]) -> tuple[Tool, ...]:
    """Definitions in items that add tools."""
    lists = [
        item.get("tools")
        for item in items
        if isinstance(item, dict) and item.get("type") == "additional_tools"
    ]
    found = [tool for tools in lists if isinstance(tools, list) for tool in tools]
    return tuple(tool for item in found for tool in read_tool(item))


def is_deferred(item: Any) -> bool:
    """Whether the model sees a tool only once a message refers to it."""
    return isinstance(item, dict) and item.get("defer_loading") is True


def loaded_names(fields: dict[str, Any]) -> set[str]:
    """Names of deferred tools that a result or a message of the system refers to."""
    messages = fields.get("messages")
    found: set[str] = set()
    for message in messages if isinstance(messages, list) else ():
        for block in content_blocks(message):
            for inner in (block, *content_blocks(block)):
                if inner.get("type") == "tool_reference":
                    found.add(string(inner.get("tool_name")))
            if isinstance(tool := block.get("tool"), dict):
                found.add(string(tool.get("name")))
    return found


def content_blocks(owner: Any) -> list[dict[str, Any]]:
    """The blocks in the content of a message or of a block."""
    content = owner.get("content") if isinstance(owner, dict) else None
    return [it for it in content if isinstance(it, dict)] if isinstance(content, list) else []


def read_tool(item: Any) -> list[Tool]:
    """The definitions in one element of a tool list."""
    if isinstance(item, str):
        return [Tool(item, "", "", canonical(item), builtin=True)]
    if not isinstance(item, dict):
        return []
    declared = first(item, "functionDeclarations", "function_declarations")
    if isinstance(declared, list):
        tools = [define(tool) for tool in declared if isinstance(tool, dict)]
        others = item.keys() - {"functionDeclarations", "function_declarations"}
        return tools + [builtin(key, {key: item[key]}) for key in sorted(others)]
    inner = first(item, "function", "toolSpec", "custom")
    if isinstance(inner, dict):
        return [define(inner)]
    if isinstance(item.get("name"), str) and item.get("type") in (None, "function", "custom"):
        return [define(item)]
    kept = {key: field for key, field in item.items() if key not in UNBILLED_KEYS}
    if not kept:
        return []
    name = first(item, "type", "name")
    return [builtin(name if isinstance(name, str) else min(kept), kept)]


def define(tool: dict[str, Any]) -> Tool:
    """A tool of the client's own."""
    own = ("parameters", "input_schema", "inputSchema")
    schema = first(tool, *own, *JSON_SCHEMA_KEYS, "format")
    if isinstance(schema, dict) and isinstance(schema.get("json"), dict):
        schema = schema["json"]
    name, description = string(tool.get("name")), string(tool.get("description"))
    identity = canonical({"description": description, "name": name, "parameters": schema})
    text = "" if schema is None else compact(schema)
    is_json_schema = first(tool, *JSON_SCHEMA_KEYS) is not None
    return Tool(name, description, text, identity, is_json_schema=is_json_schema)


def builtin(name: str, definition: dict[str, Any]) -> Tool:
    """A tool that runs at the provider."""
    return Tool(name, "", "", canonical(definition), builtin=True)


def read_tool_choice(fields: dict[str, Any]) -> str:
    """`required`, `none`, `tool:` and a name, or empty text when the model is free."""
    choice = first(fields, "tool_choice", "function_call")
    config = first(fields, "toolConfig", "tool_config")
    if choice is None and isinstance(config, dict):
        choice = config.get("toolChoice")
        calling = first(config, "functionCallingConfig", "function_calling_config")
        choice = calling.get("mode") if isinstance(calling, dict) else choice
    if isinstance(choice, dict):
        inner = first(choice, "function", "tool", "custom")
        name = inner.get("name") if isinstance(inner, dict) else choice.get("name")
        if isinstance(name, str) and name:
            return "tool:" + name
        choice = string(choice.get("type")) or min(choice, default="")
    word = ascii_lower(string(choice))
    return "none" if word == "none" else "required" if word in ("any", "required") else ""


def has_json_schema(fields: dict[str, Any]) -> bool:
    """Whether Gemini's structured output is described by JSON Schema."""
    config = first(fields, "generationConfig", "generation_config")
    return isinstance(config, dict) and first(config, *JSON_OUTPUT_KEYS) is not None


def read_response_schema(fields: dict[str, Any]) -> str:
    """Compact JSON of the structured output's schema, empty when there is none."""
    text, config = (
        fields.get("text"),
        first(fields, "generationConfig", "generation_config", "output_config", "outputConfig"),
    )
    form = first(fields, "response_format", "output_format")
    if form is None and isinstance(text, dict):
        form = text.get("format")
    if form is None and isinstance(config, dict):
        form = first(config, "format", "textFormat")
        schema = first(config, "responseSchema", "response_schema", *JSON_OUTPUT_KEYS)
        if schema is not None:
            return compact(schema)
    if not isinstance(form, dict):
        return ""
    structure = form.get("structure")
    form = structure if isinstance(structure, dict) else form
    inner = first(form, "json_schema", "jsonSchema")
    schema = first(inner if isinstance(inner, dict) else form, "schema")
    if isinstance(schema, str):
        parsed, is_json = parse_arguments(schema)
        schema = parsed if is_json else schema
    return "" if schema is None else compact(schema)


def output_format(fields: dict[str, Any]) -> dict[str, Any]:
    """The named format of the output that OpenAI dialects ask for; empty when there is none."""
    text, form = fields.get("text"), fields.get("response_format")
    if form is None and isinstance(text, dict):
        form = text.get("format")
    if not isinstance(form, dict):
        return {}
    inner = form.get("json_schema")
    return inner if isinstance(inner, dict) else form


def has_citations(fields: dict[str, Any]) -> bool:
    """Whether citations of a document in the messages are switched on."""
    messages = fields.get("messages")
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            document = block.get("document", block) if isinstance(block, dict) else block
            document = document if isinstance(document, dict) else block
            citations = document.get("citations") if isinstance(document, dict) else None
            if isinstance(citations, dict) and citations.get("enabled") is True:
                return True
    return False


def read_serial(fields: dict[str, Any]) -> bool:
    """Whether calls side by side are switched off."""
    choice = fields.get("tool_choice")
    is_off = isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True
    return is_off or fields.get("parallel_tool_calls") is False


def read_pro(fields: dict[str, Any]) -> bool:
    """Whether the reasoning mode `pro` is asked for."""
    reasoning = fields.get("reasoning")
    return isinstance(reasoning, dict) and reasoning.get("mode") == "pro"


def read_thinking(fields: dict[str, Any]) -> bool:
    """Whether extended thinking with a budget is switched on."""
    more = fields.get("additionalModelRequestFields")
    more = more if isinstance(more, dict) else {}
    for owner, key in ((fields, "thinking"), (more, "thinking"), (more, "reasoning_config")):
        thinking = owner.get(key)
        if isinstance(thinking, dict) and thinking.get("type") == "enabled":
            return True
    reasoning = fields.get("reasoning")
    if not isinstance(reasoning, dict):
        return False
    effort = string(reasoning.get("effort"))
    return bool(
        effort not in ("", "none") or reasoning.get("enabled") or reasoning.get("max_tokens")
    )


def read_reply(body: object) -> tuple[Message, ...]:
    """The messages of an answer as they come back in the next request; empty when unclear.

    Reads a response body of any dialect, a message, a list of items, or the SDK's object.
    """
    value = load(body, Anomalies())
    assumptions: set[str] = set()
    if isinstance(value, dict):
        if value.get("error"):
            return ()
        choices, candidates = value.get("choices"), value.get("candidates")
        if isinstance(choices, list):
            value = (
                choices[0].get("message")
                if len(choices) == 1 and isinstance(choices[0], dict)
                else None
            )
        elif isinstance(candidates, list):
            value = (
                candidates[0].get("content")
                if len(candidates) == 1 and isinstance(candidates[0], dict)
                else None
            )
        elif isinstance(output := value.get("output"), dict):
            value = output.get("message")
        elif isinstance(output, list):
            value = output
        elif isinstance(value.get("message"), dict):
            value = value["message"]
    items = value if isinstance(value, list) else [value]
    return read_messages([item for item in items if isinstance(item, dict)], assumptions)


def view(request: Request) -> dict[str, Any]:
    """`request` as plain JSON values: what was read, with media as the hash of their bytes."""
    return {
        "dialect": request.dialect,
        "model": request.model,
        "system": list(map(part_view, request.system)),
        "tools": [tool_view(tool) for tool in request.tools],
        "messages": reply_view(request.messages),
        "tool_choice": request.tool_choice,
        "response_schema": request.response_schema,
        "thinking": request.thinking,
        "assumptions": sorted(request.assumptions),
    }


def reply_view(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """`messages` as plain JSON values."""
    return [
        {
            "role": message.role,
            "name": message.name,
            "parts": list(map(part_view, message.parts)),
        }
        for message in messages
    ]


def tool_view(tool: Tool) -> dict[str, Any]:
    """A tool definition as plain JSON values."""
    unseen = "is_json_schema", "is_loaded"
    return {name: value for name, value in vars(tool).items() if name not in unseen}


def part_view(part: Part) -> dict[str, Any]:
    """A part as plain JSON values, its kind first."""
    kind = KIND_NAMES[type(part)]
    fields = dict(vars(part))
    for unseen in UNSEEN:
        fields.pop(unseen, None)
    if isinstance(part, ToolResult):
        fields["parts"] = list(map(part_view, part.parts))
    if isinstance(part, Media):
        content = fields.pop("data")
        fields["blake3"] = "" if content is None else blake3(content).hexdigest()
    return {"part": kind, **fields}
