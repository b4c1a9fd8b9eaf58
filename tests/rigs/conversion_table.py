"""The tables of docs/conversion.md, made by converting one witness of each feature.

    python tests/rigs/conversion_table.py        # says whether the file is as it should be
    python tests/rigs/conversion_table.py --write

A witness is a neutral conversation with one feature. It is written in the source dialect; if that
is already a loss, the dialect does not have the feature. Then it is converted, and what is lost at
this step is the cell.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any, Final

from conversion_law import DIALECTS
from tokenctx.convert import ConversionOptions, convert_messages
from tokenctx.convert import model as m
from tokenctx.convert.accepts import accepted
from tokenctx.convert.arrange import arranged
from tokenctx.convert.conversion import RULES
from tokenctx.convert.notes import KINDS, Notes
from tokenctx.convert.rules import Writer

FILE: Final = Path(__file__).parents[2] / "docs" / "conversion.md"
START, END = "<!-- conversion -->\n", "<!-- end of conversion -->\n"
DROPPED: Final = frozenset(
    "cache_control citations field option reasoning signature item_id name error_flag "
    "empty_message".split()
)
PNG: Final = m.Media(data=base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), mime="image/png")
PDF: Final = m.Media(data=base64.b64encode(b"%PDF-1.4").decode(), mime="application/pdf")
WAV: Final = m.Media(data=base64.b64encode(b"RIFF0000WAVE").decode(), mime="audio/wav")
TEXT: Final = m.Text(text="text")
CACHE: Final = {"type": "ephemeral"}
CALL: Final = m.ToolCall(path=("call",), id="call_1", name="f", arguments={"a": 1})
SCHEMA: Final = {"type": "object"}


def user(*parts: m.Part) -> m.Message:
    return m.Message(role="user", parts=parts)


def answer(*parts: m.Part) -> m.Message:
    return m.Message(role="assistant", parts=(*parts, TEXT))


def turn(*calls: m.ToolCall, **result: Any) -> tuple[m.Message, ...]:
    results = tuple(
        m.ToolResult(
            call_id=call.id, name=call.name, is_custom=call.is_custom, **{"parts": (TEXT,)} | result
        )
        for call in calls
    )
    return (
        m.Message(role="assistant", parts=calls),
        *(m.Message(role="tool", parts=(item,)) for item in results),
    )


MESSAGES: Final[dict[str, tuple[m.Message, ...]]] = {
    "text": (user(TEXT),),
    "system prompt": (
        m.Message(role="system", parts=(TEXT,), is_plain=True, is_top=True),
        user(TEXT),
    ),
    "later system message": (user(TEXT), m.Message(role="system", parts=(TEXT,)), user(TEXT)),
    "developer message": (m.Message(role="developer", parts=(TEXT,)), user(TEXT)),
    "name of a participant": (m.Message(role="user", parts=(TEXT,), name="bob"),),
    "messages of one role side by side": (user(TEXT), user(m.Text(text="more"))),
    "cache marker": (user(m.Text(text="text", cache=CACHE)),),
    "image": (user(m.Image(media=PNG)),),
    "image by URL": (
        user(m.Image(media=m.Media(url="https://example.com/a.png", mime="image/png"))),
    ),
    "image of the assistant": (user(TEXT), answer(m.Image(media=PNG))),
    "PDF": (user(m.File(media=PDF, name="a.pdf")),),
    "document that is text": (user(m.File(media=m.Media(text="text", mime="text/plain"))),),
    "upload of OpenAI": (user(m.File(media=m.Media(file_id="file-1", owner="openai"))),),
    "upload of Anthropic": (user(m.Image(media=m.Media(file_id="file_1", owner="anthropic"))),),
    "audio": (user(m.Audio(media=WAV)),),
    "refusal": (user(TEXT), m.Message(role="assistant", parts=(m.Refusal(text="no"),))),
    "tool call and result": turn(CALL),
    "parallel calls": turn(CALL, m.ToolCall(path=("other",), id="call_2", name="g", arguments={})),
    "call of a custom tool": turn(
        m.ToolCall(id="call_1", name="f", arguments="x", is_text=True, is_custom=True)
    ),
    "result that is JSON": turn(CALL, parts=(m.Data(value={"a": 1}),)),
    "result with an image": turn(CALL, parts=(TEXT, m.Image(media=PNG)), is_plain=False),
    "result that is an error": turn(CALL, is_error=True),
    "reasoning of Anthropic": (
        user(TEXT),
        answer(m.Reasoning(text="hm", signature="c2ln", maker="anthropic")),
    ),
    "redacted thinking": (user(TEXT), answer(m.Reasoning(encrypted="c2Vj", maker="anthropic"))),
    "reasoning of OpenAI": (
        user(TEXT),
        answer(m.Reasoning(id="rs_1", encrypted="c2Vj", maker="openai")),
    ),
    "reasoning of Google": (
        user(TEXT),
        answer(m.Reasoning(text="hm", signature="c2ln", maker="google")),
    ),
    "thought signature on a call": turn(
        m.ToolCall(id="call_1", name="f", arguments={}, signature="c2ln")
    ),
}
OPTIONS: Final[dict[str, Any]] = {
    "max_output_tokens": 10,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 5,
    "seed": 5,
    "stop": ["x"],
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "choice_count": 2,
    "logprobs": True,
    "top_logprobs": 2,
    "stream": True,
    "user_id": "u",
    "metadata": {"a": "b"},
    "store": True,
    "service_tier": "auto",
    "safety_identifier": "x",
    "prompt_cache_key": "x",
    "verbosity": "low",
    "reasoning_effort": "low",
    "thinking_budget": 2000,
    "tool_choice": m.ToolChoice("tool", "f"),
    "parallel_tool_calls": False,
    "response_format": m.ResponseFormat("schema", SCHEMA),
}
TOOLS: Final = {
    "tool": m.Tool(name="f", description="d", schema=SCHEMA),
    "strict tool": m.Tool(name="f", schema=SCHEMA, strict=True),
    "custom tool": m.Tool(name="f", description="d", is_custom=True),
    "cache marker on a tool": m.Tool(name="f", schema=SCHEMA, cache=CACHE),
}


def witnesses() -> dict[str, m.Conversation]:
    """One conversation for each feature."""
    made = {name: m.Conversation("vscode", messages) for name, messages in MESSAGES.items()}
    base = (user(TEXT),)
    for name, tool in TOOLS.items():
        made[name] = m.Conversation("vscode", base, (tool,))
    made["JSON without a schema"] = option("response_format", m.ResponseFormat("json"))
    for name, value in OPTIONS.items():
        made[f"`{name}`"] = option(name, value)
    return made


def option(name: str, value: Any) -> m.Conversation:
    options = {name: m.Option(value, ("option",))}
    tools = (TOOLS["tool"],) if name in ("tool_choice", "parallel_tool_calls") else ()
    return m.Conversation("vscode", (user(TEXT),), tools, options)


def written(conversation: m.Conversation, dialect: Any) -> tuple[Any, set[str]]:
    """The witness in a dialect, and what was lost on the way."""
    rules, notes = RULES[dialect], Notes(ConversionOptions())
    found, rules = accepted(conversation, rules, notes)
    found = arranged(found, rules, notes)
    body = rules.write(found, Writer(rules, found, notes))
    return body, {note.kind for note in notes.losses}


def cell(conversation: m.Conversation, source: Any, target: Any) -> str:
    """What becomes of the witness between two dialects."""
    body, before = written(conversation, source)
    if before:
        return ""
    found = convert_messages(
        body, to=target, source=source, options=ConversionOptions(verify=False)
    )
    lost = sorted({loss.kind for loss in found.losses})
    if not lost:
        return "kept"
    return ", ".join("dropped" if kind in DROPPED else f"emulated: {kind}" for kind in lost)


def table() -> str:
    """All rows: features by source, targets as columns."""
    lines = [
        "| Feature | From | " + " | ".join(DIALECTS) + " |",
        "| --- | --- |" + " --- |" * len(DIALECTS),
    ]
    for name, conversation in witnesses().items():
        rows = {
            source: [cell(conversation, source, target) for target in DIALECTS]
            for source in DIALECTS
        }
        for source, cells in rows.items():
            if any(cells):
                shown = [
                    "" if target == source else text
                    for target, text in zip(DIALECTS, cells, strict=True)
                ]
                lines.append(f"| {name} | {source} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def page() -> str:
    """The whole file: what is written by hand, and the tables between its two marks."""
    before, rest = FILE.read_text("utf-8").split(START)
    _, after = rest.split(END)
    kinds = "\n".join(f"| `{kind}` | {meaning} |" for kind, meaning in KINDS.items())
    return f"""{before}{START}
{table()}

## Kinds of losses and warnings

| Kind | Meaning |
| --- | --- |
{kinds}

{END}{after}"""


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(page(), "utf-8")
    elif FILE.read_text("utf-8") != page():
        sys.exit("docs/conversion.md is old; run python tests/rigs/conversion_table.py --write")
