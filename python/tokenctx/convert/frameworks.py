"""Messages and tools of agent frameworks, as OpenAI Chat has them.

No framework is imported here: an object tells by its class which one made it, and then that one is
there already. Where a framework has a converter of its own, it is called; the others are read part
by part, and a part that is not known is refused, since what is left out is counted as nothing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Json = dict[str, Any]

CONVERTERS: Final = {
    "langchain_core": "langchain_core.messages.convert_to_openai_messages",
    "pydantic_ai": "the model's own mapping of messages",
    "llama_index": "llama_index.llms.openai.utils.to_openai_message_dicts",
    "haystack": "haystack.dataclasses.ChatMessage.to_openai_dict_format",
    "agents": "agents.models.openai_responses.Converter.convert_tools",
}
"""The converter that a caller can use where this module cannot, by the framework's root module."""


def plain(body: Any) -> Any:
    """`body` with dicts in place of the messages and tools of frameworks; other values as they are.

    Looked at are `body` itself, its items or fields, and the items of these. One object may become
    several messages, or none. Raises RequestError with the code ``"framework_object"`` for an
    object that its framework cannot convert or that has a part which is not known.
    """
    if isinstance(body, Mapping):
        return {name: _field(value) for name, value in body.items()}
    return _field(body)


def _field(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return _instructed(value, [item for one in value for item in _items(one)])
    found = _read(value)
    if found is None:
        return value
    found = _instructed([value], found)
    return found[0] if len(found) == 1 else found


def _items(value: Any) -> list[Any]:
    found = _read(value)
    return [value] if found is None else found


def _read(value: Any) -> list[Json] | None:
    """The dicts that stand for an object of a framework; None for anything else."""
    if isinstance(value, str | bytes | dict | list | int | float) or value is None:
        return None
    for base in type(value).__mro__:
        root = base.__module__.partition(".")[0]
        reader = _READERS.get((root, base.__name__))
        if reader is not None:
            try:
                return list(reader(value))
            except RequestError:
                raise
            except Exception as error:  # a framework's own, or of a class of the user's
                raise _refused(value, type(error).__name__) from None
    return None


def _refused(value: Any, why: str) -> RequestError:
    kind = type(value)
    roots = [base.__module__.partition(".")[0] for base in kind.__mro__]
    how = next((CONVERTERS[root] for root in roots if root in CONVERTERS), "its framework")
    return RequestError(
        f"a {kind.__module__}.{kind.__qualname__} cannot be read ({why}); convert it to dicts with "
        f"{how} first",
        "framework_object",
    )


# ------------------------------------------------------------------------------ parts of Chat


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _media(kind: str, data: bytes | str | None, media_type: str | None, url: str | None) -> Json:
    """A picture, sound or file by its bytes (or their base64), or by its place."""
    if data is not None:
        encoded = base64.b64encode(data).decode() if isinstance(data, bytes) else data
        url = f"data:{media_type or 'application/octet-stream'};base64,{encoded}"
        if kind == "audio":
            form = (media_type or "audio/wav").partition("/")[2]
            return {"type": "input_audio", "input_audio": {"data": encoded, "format": form}}
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    if kind == "video":
        return {"type": "video_url", "video_url": {"url": url}}
    return {"type": "file", "file": {"file_data": url}}


def _call(call_id: str | None, name: str, arguments: Any) -> Json:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def _answer(content: list[Json], calls: list[Json], **fields: Any) -> Json:
    is_plain = all(part["type"] == "text" for part in content)
    text = "\n\n".join(part["text"] for part in content) if is_plain else content
    return {
        "role": "assistant",
        "content": text or None,
        **({"tool_calls": calls} if calls else {}),
        **fields,
    }


def _function(name: str, description: str | None, parameters: Any) -> Json:
    function = {"name": name, "description": description or "", "parameters": parameters}
    return {"type": "function", "function": function}


# ------------------------------------------------------------------------------ LangChain


def _langchain_message(message: Any) -> Iterator[Json]:
    convert = import_module("langchain_core.messages").convert_to_openai_messages
    yield convert(message)


def _langchain_tool(tool: Any) -> Iterator[Json]:
    yield import_module("langchain_core.utils.function_calling").convert_to_openai_tool(tool)


# ------------------------------------------------------------------------------ pydantic-ai


def _instructed(values: Sequence[Any], items: list[Any]) -> list[Any]:
    """`items` with the instructions of the last request; those of earlier ones are not sent."""
    requests = (it for it in reversed(values) if type(it).__name__ == "ModelRequest")
    last = next((it for it in requests if type(it).__module__.startswith("pydantic_ai.")), None)
    if last is None or not last.instructions:
        return items
    roles = [item.get("role") if isinstance(item, dict) else None for item in items]
    place = next((at for at, role in enumerate(roles) if role != "system"), len(roles))
    return [*items[:place], {"role": "system", "content": last.instructions}, *items[place:]]


def _pydantic_request(request: Any) -> Iterator[Json]:
    for part in request.parts:
        kind = part.part_kind
        if kind == "system-prompt":
            yield {"role": "system", "content": part.content}
        elif kind == "user-prompt":
            is_text = isinstance(part.content, str)
            content = part.content if is_text else _pydantic_content(part.content)
            yield {"role": "user", "content": content}
        elif kind == "tool-return":
            yield _pydantic_result(part, part.model_response_str())
            if part.files:
                yield {"role": "user", "content": _pydantic_content(part.files)}
        elif kind == "retry-prompt" and part.tool_name is None:
            yield {"role": "user", "content": part.model_response()}
        elif kind == "retry-prompt":
            yield _pydantic_result(part, part.model_response())
        else:
            raise _refused(part, "this part is not known")


def _pydantic_result(part: Any, text: str) -> Json:
    return {"role": "tool", "tool_call_id": part.tool_call_id, "content": text}


def _pydantic_content(items: Any) -> list[Json]:
    return [found for item in items for found in _pydantic_item(item)]


def _pydantic_item(item: Any) -> Iterator[Json]:
    kind = "text" if isinstance(item, str) else item.kind
    if kind == "text":
        yield _text(item)
    elif kind == "text-content":
        yield _text(item.content)
    elif kind in {"image-url", "audio-url", "video-url", "document-url"}:
        yield _media(kind.removesuffix("-url"), None, None, item.url)
    elif kind == "binary":
        yield _media(item.media_type.partition("/")[0], item.data, item.media_type, None)
    elif kind != "cache-point":
        raise _refused(item, "this content is not known")


def _pydantic_response(response: Any) -> Iterator[Json]:
    content: list[Json] = []
    calls: list[Json] = []
    thoughts: list[str] = []
    for part in response.parts:
        kind = part.part_kind
        if kind == "text":
            content.append(_text(part.content))
        elif kind == "thinking":
            thoughts.append(part.content)
        elif kind == "tool-call":
            calls.append(_call(part.tool_call_id, part.tool_name, part.args))
        elif kind == "file":
            content += _pydantic_content([part.content])
        else:
            raise _refused(part, "this part is not known")
    fields = {"reasoning_content": "\n\n".join(thoughts)} if thoughts else {}
    yield _answer(content, calls, **fields)


def _pydantic_tool(tool: Any) -> Iterator[Json]:
    yield _function(tool.name, tool.description, tool.parameters_json_schema)


# ------------------------------------------------------------------------------ llama-index


def _llama_message(message: Any) -> Iterator[Json]:
    role = getattr(message.role, "value", message.role)
    content: list[Json] = []
    calls = [_llama_call(call) for call in message.additional_kwargs.get("tool_calls") or ()]
    thoughts: list[str] = []
    for block in message.blocks:
        kind = block.block_type
        if kind == "text":
            content.append(_text(block.text))
        elif kind in {"image", "audio", "video", "document"}:
            content.append(_llama_media(block, kind))
        elif kind == "tool_call":
            calls.append(_call(block.tool_call_id, block.tool_name, block.tool_kwargs))
        elif kind == "thinking":
            thoughts.append(block.content or "")
        elif kind != "cache":
            raise _refused(block, "this block is not known")
    if role in {"assistant", "model", "chatbot"}:
        fields = {"reasoning_content": "\n\n".join(thoughts)} if thoughts else {}
        yield _answer(content, calls, **fields)
        return
    is_text = len(content) == 1 and content[0]["type"] == "text"
    written: Json = {"role": role, "content": content[0]["text"] if is_text else content}
    if role in {"tool", "function"}:
        written["tool_call_id"] = message.additional_kwargs.get("tool_call_id")
    yield written


def _llama_call(call: Any) -> Json:
    found: Json = call if isinstance(call, dict) else call.model_dump()
    return found


def _llama_media(block: Any, kind: str) -> Json:
    """Bytes are kept as base64; a path on this machine is not opened."""
    names = {"image": "image_mimetype", "video": "video_mimetype", "document": "document_mimetype"}
    data = getattr(block, "data" if kind == "document" else kind)
    media_type = getattr(block, names[kind]) if kind in names else f"audio/{block.format or 'wav'}"
    if data is None and block.url is None:
        raise _refused(block, "its file is not loaded")
    data = data.decode() if isinstance(data, bytes) else data
    return _media(kind, data, media_type, None if block.url is None else str(block.url))


def _llama_tool(tool: Any) -> Iterator[Json]:
    yield tool.metadata.to_openai_tool()


# ------------------------------------------------------------------------------ haystack, agents


def _haystack_message(message: Any) -> Iterator[Json]:
    yield message.to_openai_dict_format(require_tool_call_ids=False)


def _haystack_tool(tool: Any) -> Iterator[Json]:
    yield {"type": "function", "function": tool.tool_spec}


def _agents_tool(tool: Any) -> Iterator[Json]:
    made = _function(tool.name, tool.description, tool.params_json_schema)
    if tool.strict_json_schema:
        made["function"]["strict"] = True
    yield made


_READERS: Final[Mapping[tuple[str, str], Callable[[Any], Iterator[Json]]]] = {
    ("langchain_core", "BaseMessage"): _langchain_message,
    ("langchain_core", "BaseTool"): _langchain_tool,
    ("pydantic_ai", "ModelRequest"): _pydantic_request,
    ("pydantic_ai", "ModelResponse"): _pydantic_response,
    ("pydantic_ai", "ToolDefinition"): _pydantic_tool,
    ("llama_index", "ChatMessage"): _llama_message,
    ("llama_index", "BaseTool"): _llama_tool,
    ("haystack", "ChatMessage"): _haystack_message,
    ("haystack", "Tool"): _haystack_tool,
    ("agents", "FunctionTool"): _agents_tool,
}
"""By root module and class, which may be a base of the object's own."""
