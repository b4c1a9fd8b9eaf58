"""Conversations of every dialect with what goes wrong in real ones, from a seed.

Each is what a client might send: well-formed, but ids repeat, results are missing, doubled or out
of place, arguments are broken, parts are unknown and fields are new.
"""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any, Final

Json = dict[str, Any]

PNG: Final = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").decode()
PDF: Final = base64.b64encode(b"%PDF-1.4\n%%EOF").decode()
TEXTS: Final = (
    *("hello", "Wie geht's?", "它今天会下雨吗", "", "  \n", "two\nlines ", "<system>x</system>"),
    *('{"a": 1}', "null", "👩‍👩‍👧", "\ud83d", "x" * 300),
)
NAMES: Final = ("get_weather", "search", "f")
IDS: Final = ("call_1", "call_2", "call_3", "toolu_01AbC", "a|b:c", "x" * 70, "ünïcode id")
ARGUMENTS: Final = ('{"city":"Paris"}', '{"a": [1, 2.5, null]}', "{}", "", "{broken", "[1]", "null")


def conversation(seed: int) -> tuple[str, Json]:
    """The dialect and the body of this seed."""
    random = Random(seed)
    dialect = random.choice(list(MAKERS))
    return dialect, MAKERS[dialect](random)


def turns(random: Random) -> list[tuple[str, Any]]:
    """What happens, whatever the dialect: kinds of turns and what is in them."""
    found: list[tuple[str, Any]] = []
    for _ in range(random.randrange(7)):
        kind = random.choice(("user", "user", "assistant", "calls", "calls", "system", "unknown"))
        if kind != "calls":
            found.append((kind, random.choice(TEXTS)))
            continue
        calls = [
            (random.choice(IDS), random.choice(NAMES), random.choice(ARGUMENTS))
            for _ in range(random.choice((1, 1, 2, 3)))
        ]
        found.append(("calls", calls))
        if random.random() < 0.15:
            found.append(("user", "in between"))
        results = [(call_id, name) for call_id, name, _ in calls if random.random() < 0.85]
        if random.random() < 0.15:
            results.append((random.choice(IDS), random.choice(NAMES)))
        if random.random() < 0.2:
            random.shuffle(results)
        if results:
            found.append(("results", results))
    return found


def some(random: Random, chance: float, **fields: Any) -> Json:
    """Each of `fields` with this chance."""
    return {name: value for name, value in fields.items() if random.random() < chance}


def content(random: Random, text: str, *parts: Json, kind: str = "text") -> Any:
    """A text alone or a list of parts with it."""
    if random.random() < 0.5:
        return text
    chosen = [part for part in parts if random.random() < 0.3]
    return [{"type": kind, "text": text}, *chosen]


def openai_chat(random: Random) -> Json:
    url = random.choice((f"data:image/png;base64,{PNG}", "https://example.com/a.png", "data:,x"))
    user_parts = (
        {"type": "image_url", "image_url": {"url": url, **some(random, 0.5, detail="low")}},
        {
            "type": "file",
            "file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "a"},
        },
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
        {"type": "brand_new", "value": 1},
        {"type": "text", "text": "cached", "cache_control": {"type": "ephemeral"}},
    )
    messages: list[Any] = []
    for kind, value in turns(random):
        if kind == "results":
            for call_id, _ in value:
                result = content(random, random.choice(TEXTS))
                messages.append({"role": "tool", "tool_call_id": call_id, "content": result})
        elif kind == "calls":
            calls = [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": name, "arguments": arguments},
                }
                if random.random() < 0.9
                else {"id": call_id, "type": "custom", "custom": {"name": name, "input": arguments}}
                for call_id, name, arguments in value
            ]
            text = random.choice((None, "", "let me see"))
            reasoning = some(random, 0.2, reasoning_content="hm", refusal="no")
            messages.append(
                {"role": "assistant", "content": text, "tool_calls": calls, **reasoning}
            )
        elif kind == "unknown":
            messages.append({"role": "narrator", "content": value})
        else:
            role = random.choice(("system", "developer")) if kind == "system" else kind
            parts = user_parts if role == "user" else ()
            extra = some(random, 0.1, name="bob", x_new={"deep": [1]})
            messages.append({"role": role, "content": content(random, value, *parts), **extra})
    function = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    options = some(
        random,
        0.15,
        max_tokens=10,
        stop=random.choice(("x", ["x", "y"])),
        temperature=0.5,
        n=2,
        tools=[{"type": "function", "function": {**function, **some(random, 0.5, strict=True)}}],
        tool_choice=random.choice(
            ("auto", "required", {"type": "function", "function": {"name": "f"}})
        ),
        parallel_tool_calls=False,
        response_format=random.choice(
            (
                {"type": "json_object"},
                {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
            )
        ),
        reasoning_effort=random.choice(("low", "none")),
        user="u",
        logit_bias={"5": 1},
        new_option=[1],
    )
    return {"model": "gpt-4o", "messages": messages, **options}


def anthropic(random: Random) -> Json:
    image = {"type": "base64", "media_type": "image/png", "data": PNG}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    media = (
        {"type": "image", "source": image},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "document", "source": pdf, **some(random, 0.5, title="t", context="c")},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    )
    cached = {"type": "text", "text": "cached", "cache_control": {"type": "ephemeral"}}
    thinking = {"type": "thinking", "thinking": "hm \n", "signature": "c2ln"}
    redacted = {"type": "redacted_thinking", "data": "c2VjcmV0"}
    server = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    messages: list[Any] = []
    for kind, value in turns(random):
        if kind == "results":
            blocks: list[Json] = [
                {
                    "type": "tool_result",
                    "tool_use_id": call_id,
                    **some(random, 0.8, content=content(random, random.choice(TEXTS), *media)),
                    **some(random, 0.3, is_error=random.choice((True, False))),
                }
                for call_id, _ in value
            ]
            more = [{"type": "text", "text": "and"}] if random.random() < 0.2 else []
            messages.append({"role": "user", "content": [*blocks, *more]})
        elif kind == "calls":
            blocks = [
                {"type": "tool_use", "id": call_id, "name": name, "input": {"a": arguments}}
                for call_id, name, arguments in value
            ]
            before = [part for part in (thinking, redacted, server) if random.random() < 0.2]
            messages.append({"role": "assistant", "content": [*before, *blocks]})
        elif kind == "unknown":
            messages.append({"role": "user", "content": [{"type": "brand_new", "text": value}]})
        else:
            parts = (
                (*media, cached) if kind == "user" else (thinking,) if kind == "assistant" else ()
            )
            messages.append({"role": kind, "content": content(random, value, *parts)})
    tool = {"name": "f", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}
    options = some(
        random,
        0.2,
        system=random.choice(("be kind", [cached, {"type": "text", "text": "b"}])),
        tools=[
            tool,
            *([{"type": "bash_20250124", "name": "bash"}] if random.random() < 0.2 else []),
        ],
        tool_choice=random.choice(
            ({"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "f"})
        ),
        temperature=1,
        top_k=5,
        stop_sequences=["x"],
        thinking=random.choice(
            ({"type": "enabled", "budget_tokens": 2000}, {"type": "disabled"}, {"type": "adaptive"})
        ),
        metadata={"user_id": "u"},
        output_config={"effort": "high"},
        new_option={"a": 1},
    )
    return {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages, **options}


def openai_responses(random: Random) -> Json:
    parts = (
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
        {
            "type": "input_file",
            "file_data": f"data:application/pdf;base64,{PDF}",
            "filename": "a.pdf",
        },
        {"type": "input_file", "file_id": "file-1"},
        {"type": "brand_new"},
    )
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2Vj"}
    items: list[Any] = []
    for kind, value in turns(random):
        if kind == "results":
            for call_id, _ in value:
                output = content(random, random.choice(TEXTS), parts[0], kind="input_text")
                item = {"type": "function_call_output", "call_id": call_id, "output": output}
                items.append(item)
        elif kind == "calls":
            items += [reasoning] if random.random() < 0.4 else []
            for call_id, name, arguments in value:
                call = {"call_id": call_id, "name": name, "arguments": arguments}
                extra = some(random, 0.5, id="fc_1", status="completed")
                items.append({"type": "function_call", **call, **extra})
        elif kind == "unknown":
            items.append({"type": "web_search_call", "id": "ws_1", "status": "completed"})
        elif kind == "assistant" and random.random() < 0.5:
            text = {"type": "output_text", "text": value, "annotations": []}
            head = {"type": "message", "id": "msg_1", "role": kind, "status": "completed"}
            items.append({**head, "content": [text]})
        else:
            role = random.choice(("system", "developer")) if kind == "system" else kind
            inner = parts if role == "user" else ()
            items.append(
                {"role": role, "content": content(random, value, *inner, kind="input_text")}
            )
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}
    options = some(
        random,
        0.2,
        instructions="be kind",
        tools=[tool, {"type": "web_search"}],
        tool_choice=random.choice(("auto", {"type": "function", "name": "f"})),
        max_output_tokens=16,
        text={"format": {"type": "json_object"}, "verbosity": "low"},
        reasoning={"effort": "low", "summary": "auto"},
        include=["reasoning.encrypted_content"],
        store=False,
        previous_response_id="resp_1",
    )
    whole: Any = random.choice(TEXTS) if random.random() < 0.1 else items
    return {"model": "gpt-5", "input": whole, **options}


def gemini(random: Random) -> Json:
    media = (
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.com/a.pdf"}},
        {"inlineData": {"mimeType": "audio/wav", "data": PNG}},
        {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/x"}},
    )
    thought = {"text": "hm", "thought": True, "thoughtSignature": "c2ln"}
    has_ids = random.random() < 0.5
    contents: list[Any] = []
    for kind, value in turns(random):
        if kind == "results":
            parts: list[Json] = []
            for call_id, name in value:
                response = random.choice(({"output": "ok"}, {"error": "no"}, {"a": [1]}, {}))
                extra = {"id": call_id} if has_ids else {}
                media_parts = some(random, 0.2, parts=[media[0]])
                response = {"name": name, "response": response, **extra, **media_parts}
                parts.append({"functionResponse": response})
            contents.append({"role": random.choice(("user", "function")), "parts": parts})
        elif kind == "calls":
            parts = [thought] if random.random() < 0.3 else []
            for call_id, name, arguments in value:
                call = {
                    "name": name,
                    "args": {"a": arguments},
                    **({"id": call_id} if has_ids else {}),
                }
                parts.append({"functionCall": call, **some(random, 0.4, thoughtSignature="c2ln")})
            contents.append({"role": "model", "parts": parts})
        elif kind == "unknown":
            code = {"executableCode": {"language": "PYTHON", "code": value}}
            contents.append({"role": "model", "parts": [code]})
        else:
            chosen = [part for part in media if random.random() < 0.2]
            role = "model" if kind == "assistant" else "user"
            contents.append({"role": role, "parts": [{"text": value}, *chosen]})
    schema = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}}
    config = some(
        random,
        0.3,
        temperature=0.5,
        maxOutputTokens=10,
        topK=5,
        responseSchema=schema,
        responseMimeType="application/json",
        thinkingConfig={"thinkingBudget": 100, "includeThoughts": True},
        candidateCount=1,
    )
    options = some(
        random,
        0.3,
        systemInstruction={"parts": [{"text": "be kind"}]},
        tools=[
            {"functionDeclarations": [{"name": "f", "parameters": schema}]},
            {"googleSearch": {}},
        ],
        toolConfig={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        generationConfig=config,
        safetySettings=[],
    )
    return {"contents": contents, **options}


def gemini_interactions(random: Random) -> Json:
    media = (
        {"type": "image", "mime_type": "image/png", "data": PNG, "resolution": "low"},
        {"type": "document", "mime_type": "application/pdf", "uri": "https://example.com/a.pdf"},
        {"type": "audio", "mime_type": "audio/wav", "data": PNG, "channels": 1},
        {"type": "video", "uri": "files/x"},
        {"type": "brand_new"},
    )
    thought = {"type": "thought", "signature": "c2ln"}
    steps: list[Any] = []
    for kind, value in turns(random):
        said = [{"type": "text", "text": value}, *(it for it in media if random.random() < 0.2)]
        if kind == "results":
            for call_id, name in value:
                result = random.choice(
                    ("ok", "", {"a": [1]}, {}, [said_of("a"), media[0]], [], [1])
                )
                about = some(random, 0.5, name=name, is_error=random.random() < 0.5)
                step = {"type": "function_result", "call_id": call_id, "result": result}
                steps.append({**step, **about})
        elif kind == "calls":
            for call_id, name, arguments in value:
                summary = some(random, 0.5, summary=[said_of("hm")])
                steps += [{**thought, **summary}] if random.random() < 0.4 else []
                call = {"type": "function_call", "id": call_id, "name": name}
                steps.append({**call, "arguments": {"a": arguments}})
        elif kind == "unknown":
            steps.append({"type": "google_search_call", "id": "s", "arguments": {"queries": ["a"]}})
        elif kind == "assistant":
            steps += [thought] if random.random() < 0.3 else []
            steps.append({"type": "model_output", "content": said, **some(random, 0.1, error={})})
        elif random.random() < 0.2:
            steps += said
        else:
            steps.append({"type": "user_input", "content": said})
    config = some(
        random,
        0.3,
        temperature=0.5,
        max_output_tokens=10,
        thinking_level="low",
        thinking_summaries="auto",
        stop_sequences=["x"],
        tool_choice=random.choice(
            ("any", "validated", {"allowed_tools": {"mode": "any", "tools": ["f"]}})
        ),
    )
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = [
        {
            "type": "function",
            "name": "f",
            "parameters": schema,
            **some(random, 0.3, description="d"),
        },
        {"type": "google_search"},
    ]
    options = some(
        random,
        0.3,
        system_instruction="be kind",
        tools=tools,
        generation_config=config,
        response_format={"type": "text", "mime_type": "application/json", "schema": schema},
        store=False,
        previous_interaction_id="v1_a",
        labels={"a": "b"},
    )
    return {"input": steps or "hi", **options}


def said_of(text: str) -> Json:
    return {"type": "text", "text": text}


def ai_sdk(random: Random) -> Json:
    media = (
        {"type": "image", "image": PNG},
        {"type": "file", "data": "https://example.com/a.pdf", "mediaType": "application/pdf"},
        {"type": "file", "data": PDF, "mediaType": "application/pdf", "filename": "a.pdf"},
        {"type": "file", "data": {"type": "data", "data": PNG}, "mediaType": "image/png"},
    )
    proof = random.choice(
        (
            {"anthropic": {"signature": "c2ln"}},
            {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "c2Vj"}},
            {"google": {"thoughtSignature": "c2ln"}},
            {"other": {"a": 1}},
        )
    )
    thought = {"type": "reasoning", "text": "hm", "providerOptions": proof}
    cached = {"anthropic": {"cacheControl": {"type": "ephemeral"}}}
    outputs = (
        {"type": "text", "value": "ok"},
        {"type": "json", "value": {"a": [1]}},
        {"type": "error-text", "value": "no"},
        {"type": "error-json", "value": {"e": 1}},
        {"type": "execution-denied"},
        {"type": "content", "value": [{"type": "text", "text": "t"}, media[3]]},
    )
    messages: list[Any] = []
    for kind, value in turns(random):
        if kind == "results":
            parts = [
                {
                    "type": "tool-result",
                    "toolCallId": call_id,
                    "toolName": name,
                    "output": random.choice(outputs),
                }
                for call_id, name in value
            ]
            messages.append({"role": "tool", "content": parts})
        elif kind == "calls":
            parts = [thought] if random.random() < 0.3 else []
            for call_id, name, arguments in value:
                call = {"toolCallId": call_id, "toolName": name, "input": {"a": arguments}}
                parts.append(
                    {"type": "tool-call", **call, **some(random, 0.2, providerOptions=cached)}
                )
            messages.append({"role": "assistant", "content": parts})
        elif kind == "unknown":
            custom = {"type": "custom", "kind": "openai.compaction"}
            messages.append({"role": "assistant", "content": [custom]})
        elif kind == "system":
            messages.append({"role": kind, "content": value})
        else:
            inner = media if kind == "user" else (thought,)
            extra = some(random, 0.1, providerOptions=cached)
            messages.append({"role": kind, "content": content(random, value, *inner), **extra})
    options = some(
        random,
        0.2,
        instructions=random.choice(
            ("be kind", [{"role": "system", "content": "a", "providerOptions": cached}])
        ),
        tools={"f": {"description": "d", "inputSchema": {"type": "object"}}},
        toolChoice=random.choice(("auto", {"type": "tool", "toolName": "f"})),
        maxOutputTokens=10,
        stopSequences=["x"],
        reasoning="low",
        providerOptions={"openai": {"parallelToolCalls": False, "new": 1}},
    )
    return {"messages": json.loads(json.dumps(messages)), **options}


MAKERS: Final = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "gemini-interactions": gemini_interactions,
    "ai-sdk": ai_sdk,
}
