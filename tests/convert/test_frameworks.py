"""Messages and tools of agent frameworks count as the same in dicts, or are refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conversion_cases import PNG
from tokenctx import ContextWindow, HybridTokenEstimator, RequestError, convert_messages

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You know the weather."},
    {"role": "user", "content": "What is it like in Oslo, " + "really " * 50 + "?"},
    {"role": "assistant", "content": "I look it up.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    {"role": "assistant", "content": "It rains."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "And here?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        ],
    },
]
TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather.", "parameters": SCHEMA},
}


def langchain() -> tuple[list[Any], list[Any]]:
    made = pytest.importorskip("langchain_core.messages")
    tools = pytest.importorskip("langchain_core.tools")
    call = {"name": "weather", "args": {"city": "Oslo"}, "id": "c1"}
    messages = [
        made.SystemMessage(MESSAGES[0]["content"]),
        made.HumanMessage(MESSAGES[1]["content"]),
        made.AIMessage("I look it up.", tool_calls=[call]),
        made.ToolMessage("rain", tool_call_id="c1"),
        made.AIMessage("It rains."),
        made.HumanMessage(MESSAGES[5]["content"]),
    ]

    def weather(city: str) -> str:
        return city

    tool = tools.StructuredTool.from_function(
        weather, name="weather", description="The weather.", args_schema=SCHEMA
    )
    return messages, [tool]


def pydantic_ai() -> tuple[list[Any], list[Any]]:
    made = pytest.importorskip("pydantic_ai.messages")
    tools = pytest.importorskip("pydantic_ai.tools")
    image = made.BinaryContent.from_data_uri(f"data:image/png;base64,{PNG}")
    messages = [
        made.ModelRequest(
            parts=[
                made.SystemPromptPart(MESSAGES[0]["content"]),
                made.UserPromptPart(MESSAGES[1]["content"]),
            ]
        ),
        made.ModelResponse(
            parts=[
                made.TextPart("I look it up."),
                made.ToolCallPart("weather", '{"city": "Oslo"}', "c1"),
            ]
        ),
        made.ModelRequest(parts=[made.ToolReturnPart("weather", "rain", "c1")]),
        made.ModelResponse(parts=[made.TextPart("It rains.")]),
        made.ModelRequest(parts=[made.UserPromptPart(["And here?", image])]),
    ]
    tool = tools.ToolDefinition(
        name="weather", description="The weather.", parameters_json_schema=SCHEMA
    )
    return messages, [tool]


def llama_index() -> tuple[list[Any], list[Any]]:
    made = pytest.importorskip("llama_index.core.base.llms.types")
    call = made.ToolCallBlock(tool_call_id="c1", tool_name="weather", tool_kwargs={"city": "Oslo"})
    messages = [
        made.ChatMessage(role="system", content=MESSAGES[0]["content"]),
        made.ChatMessage(role="user", content=MESSAGES[1]["content"]),
        made.ChatMessage(role="assistant", blocks=[made.TextBlock(text="I look it up."), call]),
        made.ChatMessage(role="tool", content="rain", additional_kwargs={"tool_call_id": "c1"}),
        made.ChatMessage(role="assistant", content="It rains."),
        made.ChatMessage(
            role="user",
            blocks=[
                made.TextBlock(text="And here?"),
                made.ImageBlock(image=PNG.encode(), image_mimetype="image/png"),
            ],
        ),
    ]
    return messages, []


def haystack() -> tuple[list[Any], list[Any]]:
    made = pytest.importorskip("haystack.dataclasses")
    tools = pytest.importorskip("haystack.tools")
    call = made.ToolCall("weather", {"city": "Oslo"}, id="c1")
    image = made.ImageContent(PNG, mime_type="image/png")
    messages = [
        made.ChatMessage.from_system(MESSAGES[0]["content"]),
        made.ChatMessage.from_user(MESSAGES[1]["content"]),
        made.ChatMessage.from_assistant("I look it up.", tool_calls=[call]),
        made.ChatMessage.from_tool("rain", origin=call),
        made.ChatMessage.from_assistant("It rains."),
        made.ChatMessage.from_user(content_parts=["And here?", image]),
    ]
    tool = tools.Tool("weather", "The weather.", SCHEMA, lambda city: city)
    return messages, [tool]


def litellm() -> tuple[list[Any], list[Any]]:
    made = pytest.importorskip("litellm")
    answer = made.Message(role="assistant", content="I look it up.", tool_calls=[CALL])
    return [*MESSAGES[:2], answer, *MESSAGES[3:]], [TOOL]


def openai_agents() -> tuple[list[Any], list[Any]]:
    agents = pytest.importorskip("agents")
    tool = agents.FunctionTool(
        name="weather",
        description="The weather.",
        params_json_schema=SCHEMA,
        strict_json_schema=False,
        on_invoke_tool=lambda _context, _text: None,
    )
    return MESSAGES, [tool]


FRAMEWORKS = (langchain, pydantic_ai, llama_index, haystack, litellm, openai_agents)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_objects_count_as_the_same_in_dicts(
    framework: Callable[[], tuple[list[Any], list[Any]]],
) -> None:
    messages, tools = framework()
    plain = {"model": "gpt-4o", "messages": MESSAGES, "tools": [TOOL] if tools else []}
    body = {"model": "gpt-4o", "messages": messages, "tools": tools}
    one, other = HybridTokenEstimator(), HybridTokenEstimator()
    assert one.estimate(body) == other.estimate(plain)
    listed = one.estimate(messages, model="gpt-4o")
    assert listed == other.estimate(MESSAGES, model="gpt-4o")
    assert one.record(body, 500)
    assert one.estimate(plain).source == "exact", "the same conversation, however it is given"
    assert ContextWindow("gpt-4o").usage(body) == ContextWindow("gpt-4o").usage(plain)
    assert convert_messages(body, to="gemini").body == convert_messages(plain, to="gemini").body


def test_a_part_that_is_not_known_is_refused_by_name() -> None:
    made = pytest.importorskip("pydantic_ai.messages")
    private = "the secret query"
    part = made.NativeToolCallPart("web_search", {"query": private})
    body = [made.ModelResponse(parts=[part])]
    for call in (HybridTokenEstimator().estimate, lambda it: convert_messages(it, to="anthropic")):
        with pytest.raises(RequestError, match="NativeToolCallPart cannot be read") as caught:
            call(body)
        assert caught.value.code == "framework_object"
        assert private not in str(caught.value)


def test_instructions_of_pydantic_ai_are_sent_once() -> None:
    made = pytest.importorskip("pydantic_ai.messages")

    def request(text: str, instructions: str) -> Any:
        return made.ModelRequest(parts=[made.UserPromptPart(text)], instructions=instructions)

    answer = made.ModelResponse(parts=[made.TextPart("It rains.")])
    body = [request("In Oslo?", "Be brief."), answer, request("And here?", "Be very brief.")]
    plain = [
        {"role": "system", "content": "Be very brief."},
        {"role": "user", "content": "In Oslo?"},
        {"role": "assistant", "content": "It rains."},
        {"role": "user", "content": "And here?"},
    ]
    estimator = HybridTokenEstimator()
    assert estimator.estimate(body, model="gpt-4o") == estimator.estimate(plain, model="gpt-4o")
    lone = estimator.count_request({"model": "gpt-4o", "messages": body[2]})
    assert lone.tokens == estimator.count_request([plain[0], plain[3]], model="gpt-4o").tokens


def test_a_reply_may_be_an_object() -> None:
    made = pytest.importorskip("langchain_core.messages")
    one, usage = HybridTokenEstimator(), {"input_tokens": 90, "output_tokens": 4}
    assert one.record(MESSAGES[:2], usage, reply=made.AIMessage("It rains."))
    more = [*MESSAGES[:2], MESSAGES[4], {"role": "user", "content": "Thanks."}]
    estimate = one.estimate(more)
    assert (estimate.source, estimate.new_message_count) == ("delta", 1)


class Blocks:
    """A message of a framework that nobody knows."""

    def __init__(self) -> None:
        self.role = "user"
        self.blocks = [{"text": "word " * 1000}]


@pytest.mark.parametrize("message", [Blocks(), vars(Blocks())])
def test_a_message_of_which_nothing_was_read_is_not_exact(message: Any) -> None:
    estimate = HybridTokenEstimator().estimate({"model": "gpt-4o", "messages": [message]})
    assert estimate.tokens > 1000
    assert estimate.quality != "exact"
    assert "unknown_message" in estimate.assumptions
