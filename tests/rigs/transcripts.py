"""Sessions of agents as their files have them, made up, and the calls in each."""

from __future__ import annotations

from typing import Any

from tokenctx._cli.evaluation.transcripts.thread import NO_ANSWER, REPEATED, SUM

Json = dict[str, Any]

PROMPT, ANSWER, RESULT = "Look for it. " * 40, "I do. " * 20, "It is there. " * 60


def claude(uuid: str, parent: str | None, kind: str, message: Json, **more: Any) -> Json:
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "isSidechain": False,
        "message": message,
        **more,
    }


def said(own: str, blocks: list[Json], billed: int, *, output: int = 30, stop: str | None) -> Json:
    usage = {"input_tokens": 4, "cache_read_input_tokens": billed - 4, "output_tokens": output}
    model = "claude-sonnet-4-5"
    return {
        "id": own,
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": stop,
        "usage": usage,
    }


def asked(text: str) -> Json:
    return {"role": "user", "content": text}


def tool_use(own: str) -> Json:
    return {"type": "tool_use", "id": own, "name": "Look", "input": {"path": own}}


def tool_result(own: str) -> Json:
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": own, "content": RESULT}],
    }


TEXT = {"type": "text", "text": ANSWER}
CLAUDE = [
    {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
    claude("1", None, "user", asked(PROMPT)),
    claude("2", "1", "assistant", said("m1", [TEXT], 1000, output=1, stop=None)),
    claude("3", "2", "assistant", said("m1", [tool_use("a")], 1000, output=2, stop=None)),
    claude("4", "3", "user", tool_result("a")),
    claude("5", "3", "assistant", said("m1", [tool_use("b")], 1000, stop="tool_use")),
    claude("6", "5", "user", tool_result("b")),
    claude("s1", None, "user", asked("Sub. " * 9), isSidechain=True, agentId="k"),
    claude("s2", "s1", "assistant", said("n1", [TEXT], 300, stop="end_turn"), isSidechain=True),
    claude("7", "6", "assistant", said("m2", [TEXT], 1500, stop="end_turn")),
    claude("e", "7", "assistant", {"model": "<synthetic>", "content": [TEXT]}),
    claude("8", "7", "user", asked(PROMPT)),
    claude("9", "8", "assistant", said("m3", [TEXT], 1700, stop="end_turn")),
    claude("10", "7", "user", asked("Another way. ")),  # back to before the last prompt
    claude("11", "10", "assistant", said("m4", [TEXT], 1550, stop="end_turn")),
    {"type": "system", "subtype": "compact_boundary", "uuid": "12", "parentUuid": None},
    claude("13", "12", "user", asked("In short: found."), isCompactSummary=True),
    claude("14", "13", "assistant", said("m5", [TEXT], 400, stop="end_turn")),
]


def codex(kind: str, **payload: Any) -> Json:
    return {"timestamp": "2026-09-01T10:00:00Z", "type": kind, "payload": payload}


def item(role: str, text: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text}]
    return codex("response_item", type="message", role=role, content=content)


def counted(billed: int, sums: int) -> Json:
    last = {"input_tokens": billed, "cached_input_tokens": billed - 9, "output_tokens": 30}
    info = {
        "total_token_usage": {"input_tokens": sums, "output_tokens": 0, "total_tokens": sums},
        "last_token_usage": {**last, "total_tokens": billed + 30},
        "model_context_window": 272000,
    }
    return codex("event_msg", type="token_count", info=info, rate_limits=None)


CALL = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": RESULT}
CODEX = [
    codex("session_meta", id="u", cwd="/", cli_version="0.60.0", instructions=None),
    codex("turn_context", model="gpt-5-codex"),
    item("user", PROMPT),
    codex("event_msg", type="user_message", message=PROMPT),
    codex("event_msg", type="token_count", info=None, rate_limits={}),
    codex("response_item", **CALL),
    counted(1000, 1000),
    codex("response_item", **OUTPUT),
    counted(1000, 1000),
    item("assistant", ANSWER),
    counted(1500, 2500),
    counted(1500, 2500),
    codex("compacted", message="In short: found."),
    item("user", PROMPT),
    item("assistant", ANSWER),
    counted(400, 2900),
]


def record(name: str, billed: int) -> Json:
    usage = {"input_tokens": billed, "cached_input_tokens": 9, "output_tokens": 30}
    return codex("token_usage_record", response_id=name, usage=usage)


CODEX_NEW = [
    *CODEX[:4],
    codex("response_item", **CALL),
    record("r1", 1000),
    counted(1000, 1000),
    codex("response_item", **OUTPUT),
    item("assistant", ANSWER),
    counted(1500, 2500),
    record("r2", 1500),
    record("r2", 1500),
]
CODEX_OLD = [
    {"id": "u", "timestamp": "2025-07-01T10:00:00Z", "instructions": None},
    {"record_type": "state"},
    item("user", PROMPT)["payload"],
    item("assistant", ANSWER)["payload"],
]


def pi(own: str, parent: str | None, message: Json, kind: str = "message") -> Json:
    return {"type": kind, "id": own, "parentId": parent, "timestamp": "t", "message": message}


def pi_said(billed: int, blocks: list[Json], **more: Any) -> Json:
    usage: Json = {"input": billed - 900, "output": 30, "cacheRead": 900, "cacheWrite": 0}
    usage = {**usage, "totalTokens": billed + 30, "cost": {"total": 0.1}}
    about = {"role": "assistant", "api": "x", "provider": "openai", "model": "gpt-5.2"}
    return {**about, "content": blocks, "usage": usage, "stopReason": "stop", **more}


PI = [
    {"type": "session", "version": 3, "id": "u", "timestamp": "t", "cwd": "/"},
    pi("1", None, {"role": "user", "content": [{"type": "text", "text": PROMPT}]}),
    pi(
        "2",
        "1",
        pi_said(1000, [{"type": "toolCall", "id": "c", "name": "look", "arguments": {"a": 1}}]),
    ),
    pi(
        "3",
        "2",
        {"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": RESULT}]},
    ),
    pi("4", "3", pi_said(1500, [TEXT])),
    pi("5", "4", pi_said(0, [], stopReason="error")),
    pi("6", "4", {"role": "user", "content": "Again?"}),
    # the sum of a turn
    pi(
        "7",
        "6",
        pi_said(
            1600,
            [TEXT],
            usage={
                "input": 12,
                "cacheRead": 819661,
                "cacheWrite": 93130,
                "output": 15104,
                "totalTokens": 163978,
            },
        ),
    ),
    {
        "type": "compaction",
        "id": "8",
        "parentId": "7",
        "summary": "In short: found.",
        "firstKeptEntryId": "6",
        "tokensBefore": 9,
    },
    pi("9", "8", {"role": "user", "content": "And now?"}),
    pi("10", "9", pi_said(950, [TEXT])),
]


def opencode(own: str, role: str, parts: list[Json], **more: Any) -> Json:
    info = {"id": own, "sessionID": "ses", "role": role, "modelID": "claude-sonnet-4-5", **more}
    named = [
        {"id": f"{own}p{n}", "messageID": own, "sessionID": "ses", **it}
        for n, it in enumerate(parts)
    ]
    return {"info": info, "parts": named}


def finish(billed: int) -> Json:
    cache = {"read": billed - 3, "write": 0}
    tokens = {"input": 3, "output": 30, "reasoning": 0, "cache": cache}
    return {"type": "step-finish", "reason": "stop", "tokens": tokens, "cost": 0}


STATE = {"status": "completed", "input": {"path": "a"}, "output": RESULT}
OPENCODE: Json = {
    "info": {"id": "ses", "version": "1.0.0", "title": "t"},
    "messages": [
        opencode("m1", "user", [{"type": "text", "text": PROMPT}]),
        opencode(
            "m2",
            "assistant",
            [
                {"type": "step-start"},
                {"type": "tool", "callID": "c", "tool": "look", "state": STATE},
                finish(1000),
                {"type": "step-start"},
                TEXT,
                finish(1500),
            ],
            tokens=finish(1500)["tokens"],
        ),
        opencode("m3", "assistant", [{"type": "text", "text": "In short."}], summary=True),
        opencode("m4", "user", [{"type": "text", "text": PROMPT}]),
        opencode("m5", "assistant", [TEXT], tokens=finish(400)["tokens"]),
    ],
}


def gemini(own: str, kind: str, **more: Any) -> Json:
    return {"id": own, "timestamp": "t", "type": kind, **more}


def tokens(billed: int) -> Json:
    about = {"input": billed, "output": 20, "cached": 100, "thoughts": 10, "tool": 0}
    return {"tokens": {**about, "total": billed + 30}, "model": "gemini-2.5-pro"}


FUNCTION = {"functionResponse": {"id": "c", "name": "look", "response": {"output": RESULT}}}
USED = {"id": "c", "name": "look", "args": {"path": "a"}, "status": "success", "result": [FUNCTION]}
GEMINI = {
    "sessionId": "u",
    "projectHash": "h",
    "startTime": "t",
    "lastUpdated": "t",
    "messages": [
        gemini("1", "user", content=PROMPT),
        gemini("2", "gemini", content="", toolCalls=[USED], **tokens(1000)),
        gemini("3", "gemini", content=ANSWER, **tokens(1500)),
        gemini("4", "info", content="Update."),
    ],
}
GEMINI_LINES = [
    {"sessionId": "u", "projectHash": "h", "startTime": "t", "kind": "main"},
    gemini("1", "user", content=PROMPT),
    gemini("2", "gemini", content="", **tokens(1000)),
    gemini("2", "gemini", content="", toolCalls=[USED], **tokens(1000)),
    gemini("3", "gemini", content=ANSWER, **tokens(1500)),
    {"$set": {"lastUpdated": "t"}},
    gemini("4", "user", content=PROMPT),
    gemini("5", "gemini", content=ANSWER, **tokens(1700)),
    {"$rewindTo": "4"},
    gemini("6", "user", content="Another way."),
    gemini("7", "gemini", content=ANSWER, **tokens(1550)),
]

Turns = list[list[tuple[int, str, int]]]
"""By conversation, of each call: the bill, the relation, the number of messages."""
FORMS: dict[str, tuple[object, Turns, Json]] = {
    "Claude Code": (
        CLAUDE,
        [
            [
                (1000, "first", 1),
                (1500, "extends", 4),
                (1700, "extends", 6),
                (1550, "compacted", 6),
                (400, "compacted", 1),
            ],
            [(300, "first", 1)],
        ],
        {"an answer that the agent has made up itself": 1},
    ),
    "Codex": (
        CODEX,
        [[(1000, "first", 1), (1500, "extends", 3), (400, "compacted", 2)]],
        {REPEATED: 2},
    ),
    "Codex with records": (
        CODEX_NEW,
        [[(1000, "first", 1), (1500, "extends", 3)]],
        {NO_ANSWER: 1},
    ),
    "pi": (
        PI,
        [[(1000, "first", 1), (1500, "extends", 3), (950, "compacted", 4)]],
        {"a call that failed or was stopped": 1, SUM: 1},
    ),
    "opencode": (
        OPENCODE,
        [[(1000, "first", 1), (1500, "extends", 3), (400, "compacted", 2)]],
        {"a call that makes a summary: its request is not in the transcript": 1},
    ),
    "gemini-cli": (GEMINI, [[(1000, "first", 1), (1500, "extends", 3)]], {}),
    "gemini-cli in lines": (
        GEMINI_LINES,
        [
            [
                (1000, "first", 1),
                (1500, "extends", 3),
                (1700, "extends", 5),
                (1550, "compacted", 5),
            ]
        ],
        {},
    ),
}
