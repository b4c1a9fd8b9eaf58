"""Conversations of agents as hypothesis makes them: calls, results, faults, every dialect."""

from __future__ import annotations

import random
from typing import Any

Json = dict[str, Any]

WORDS = "the file error value returns async line result user 日本語 emoji 🙂 x = 1; {} \n".split(
    " "
)
DIALECTS = ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock-converse")


def conversation(seed: int, dialect: str | None = None) -> Json:
    """A request of up to 40 messages: turns with steps of parallel calls, some without results."""
    random_ = random.Random(seed)
    dialect = dialect or random_.choice(DIALECTS)
    turns: list[Json] = []
    for turn in range(random_.randint(0, 5)):
        turns.append({"kind": "user", "text": text(random_)})
        for step in range(random_.randint(0, 3)):
            ids = [f"c{turn}_{step}_{index}" for index in range(random_.randint(0, 3))]
            thought = text(random_) if random_.random() < 0.3 else None
            turns.append({"kind": "said", "text": text(random_), "ids": ids, "thought": thought})
            answered = [one for one in ids if random_.random() > 0.05]
            random_.shuffle(answered)
            turns.append(
                {"kind": "results", "ids": answered, "texts": [text(random_, 200) for _ in ids]}
            )
    made: Json = MAKERS[dialect](turns, text(random_) if random_.random() < 0.7 else "")
    return made


def text(random_: random.Random, most: int = 40) -> str:
    return " ".join(random_.choices(WORDS, k=random_.randint(0, most)))


def chat(turns: list[Json], system: str) -> Json:
    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    for turn in turns:
        if turn["kind"] == "user":
            messages.append({"role": "user", "content": turn["text"]})
        elif turn["kind"] == "said":
            calls = [
                {"id": one, "type": "function", "function": {"name": "read", "arguments": "{}"}}
                for one in turn["ids"]
            ]
            said: Json = {"role": "assistant", "content": turn["text"]}
            messages.append({**said, "tool_calls": calls} if calls else said)
        else:
            pairs = zip(turn["ids"], turn["texts"], strict=False)
            messages += [{"role": "tool", "tool_call_id": one, "content": it} for one, it in pairs]
    return {"model": "gpt-4o", "messages": messages}


def responses(turns: list[Json], system: str) -> Json:
    items: list[Json] = []
    for turn in turns:
        if turn["kind"] == "user":
            items.append({"role": "user", "content": turn["text"]})
        elif turn["kind"] == "said":
            if turn["thought"]:
                summary = [{"type": "summary_text", "text": turn["thought"]}]
                items.append({"type": "reasoning", "id": "r", "summary": summary})
            items += [
                {"type": "function_call", "call_id": one, "name": "read", "arguments": "{}"}
                for one in turn["ids"]
            ]
            items.append({"role": "assistant", "content": turn["text"]})
        else:
            pairs = zip(turn["ids"], turn["texts"], strict=False)
            items += [
                {"type": "function_call_output", "call_id": one, "output": it} for one, it in pairs
            ]
    return {"model": "gpt-4.1", "input": items, **({"instructions": system} if system else {})}


def anthropic(turns: list[Json], system: str) -> Json:
    messages: list[Json] = []
    for turn in turns:
        if turn["kind"] == "user":
            messages.append({"role": "user", "content": turn["text"]})
        elif turn["kind"] == "said":
            blocks: list[Json] = []
            if turn["thought"]:
                thinking = {"type": "thinking", "thinking": turn["thought"], "signature": "cw"}
                blocks.append(thinking)
            blocks.append({"type": "text", "text": turn["text"]})
            blocks += [
                {"type": "tool_use", "id": one, "name": "read", "input": {}} for one in turn["ids"]
            ]
            messages.append({"role": "assistant", "content": blocks})
        elif turn["ids"]:
            results = [
                {"type": "tool_result", "tool_use_id": one, "content": it}
                for one, it in zip(turn["ids"], turn["texts"], strict=False)
            ]
            messages.append({"role": "user", "content": results})
    return {
        "model": "claude-sonnet-4-5",
        "messages": messages,
        **({"system": system} if system else {}),
    }


def gemini(turns: list[Json], system: str) -> Json:
    contents: list[Json] = []
    for turn in turns:
        if turn["kind"] == "user":
            contents.append({"role": "user", "parts": [{"text": turn["text"]}]})
        elif turn["kind"] == "said":
            calls = [{"functionCall": {"name": one, "args": {}}} for one in turn["ids"]]
            contents.append({"role": "model", "parts": [{"text": turn["text"]}, *calls]})
        elif turn["ids"]:
            parts = [
                {"functionResponse": {"name": one, "response": {"result": it}}}
                for one, it in zip(turn["ids"], turn["texts"], strict=False)
            ]
            contents.append({"role": "user", "parts": parts})
    head = {"systemInstruction": {"parts": [{"text": system}]}} if system else {}
    return {"model": "gemini-2.5-pro", "contents": contents, **head}


def converse(turns: list[Json], system: str) -> Json:
    messages: list[Json] = []
    for turn in turns:
        if turn["kind"] == "user":
            messages.append({"role": "user", "content": [{"text": turn["text"]}]})
        elif turn["kind"] == "said":
            uses = [
                {"toolUse": {"toolUseId": one, "name": "read", "input": {}}} for one in turn["ids"]
            ]
            messages.append({"role": "assistant", "content": [{"text": turn["text"]}, *uses]})
        elif turn["ids"]:
            results = [
                {"toolResult": {"toolUseId": one, "content": [{"text": it}]}}
                for one, it in zip(turn["ids"], turn["texts"], strict=False)
            ]
            messages.append({"role": "user", "content": results})
    head = {"system": [{"text": system}]} if system else {}
    return {"model": "amazon.nova-pro-v1:0", "messages": messages, "inferenceConfig": {}, **head}


MAKERS: dict[str, Any] = {
    "openai-chat": chat,
    "openai-responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "bedrock-converse": converse,
}
