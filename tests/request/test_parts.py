"""Every reader sees the part that a row of `parts.json` says, and every known type has a row.

The second source is the types of the official SDKs, the committed requests, and, for dialects
without a Python package, what their references list.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import pytest

import sdk_types
from tokenctx._core import _convert_plain, _outline, _reply_view, _request_view
from tokenctx._results.tables import read_table
from tokenctx.convert import model, vscode
from tokenctx.convert.conversion import RULES
from tokenctx.convert.notes import ConversionOptions, Notes
from tokenctx.usage.replies import reply_of

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

REQUESTS: Final = Path(__file__).parents[1] / "data" / "requests"
TABLE: Final = read_table("parts")["dialects"]
ROWS: Final = [(dialect, row) for dialect, about in TABLE.items() for row in about["parts"]]
MEDIA: Final = ("image", "file", "audio", "video")
ID, WORDS, TOOL = "call-7", "words", "look"
CONVERTED: Final[dict[str, tuple[type, ...]]] = {
    "text": (model.Text, model.Refusal),
    "reasoning": (model.Reasoning,),
    "call": (model.ToolCall,),
    "result": (model.ToolResult,),
    "image": (model.Image,),
    "file": (model.File,),
    "audio": (model.Audio,),
    "video": (model.File,),
    "data": (model.Data,),
    "summary": (model.Summary,),
    "content": (model.Text,),
}

DOCUMENTED: Final = {
    "openai-chat": "input_text output_text thinking video_url audio_url document_url file_url "
    "video audio tool_call",
    "openai-responses": "text",
    "bedrock-converse": "text toolUse toolResult json image document video audio "
    "reasoningContent guardContent citationsContent",
    "ai-sdk": "text image file reasoning tool-call tool-result reasoning-file media file-data "
    "file-url image-data image-url tool-approval-request tool-approval-response",
    "vscode": "LanguageModelTextPart LanguageModelToolCallPart LanguageModelToolResultPart "
    "LanguageModelDataPart",
}
"""Types of references without a Python package here: of other servers, AWS, Vercel and VS Code."""

UNREAD: Final = {
    "openai-responses": {
        "message": "a message, not a part of one",
        "additional_tools": "read as tools that the model sees later",
        "compaction_trigger": "no content",
        "configuration_update": "counted as its JSON",
        "item_reference": "only the provider knows what it names: the assumption server_state",
        "mcp_list_tools": "tools of a server, counted as its JSON",
        "mcp_approval_request": "counted as its JSON",
        "mcp_approval_response": "counted as its JSON",
        "program": "counted as its JSON",
        "program_output": "read by its ending as a result, without its content",
    },
    "anthropic": {
        "search_result": "counted as its JSON",
        "tool_addition": "counted as its JSON; its tool is loaded",
        "tool_removal": "counted as its JSON; its tool is loaded",
        "mcp_tool_listing": "tools of a server, counted as its JSON",
        "fallback": "says which model answered",
        "tool_reference": "it loads a tool that is deferred",
        "browser_state": "inside of a result, counted as its JSON",
    },
    "gemini": {
        "mediaResolution": "beside media, not a part",
        "thought": "beside text: it makes it reasoning",
        "thoughtSignature": "beside a call or a text",
        "videoMetadata": "beside media, not a part",
        "toolCall": "counted as its JSON",
        "toolResponse": "counted as its JSON",
        "partMetadata": "the caller's own",
        "audioTranscription": "of answers of the live API",
        "mediaProcessing": "beside media, not a part",
        "speechMetadata": "beside media, not a part",
        "documentMetadata": "beside media, not a part",
        "spreadsheetMetadata": "beside media, not a part",
        "audioMetadata": "beside media, not a part",
    },
    "gemini-interactions": {
        "function": "a tool in the result of a search for tools, counted as its JSON",
    },
    "any": {
        "hologram": "made up, to be unknown",
        "web_search_result": "inside of the vendor's result, counted as its JSON",
    },
}
"""Types without a row on purpose, each with the reason."""


def label(value: object) -> str:
    return value["type"] if isinstance(value, dict) else str(value)


each_row = pytest.mark.parametrize(("dialect", "row"), ROWS, ids=label)


# ------------------------------------------------------------------------------ a part of a row


def first(column: str | list[str] | None) -> str | None:
    return column[0] if isinstance(column, list) else column


def fields_of(row: Json) -> Json:
    """A small part of this type without the type."""
    fields = dict(row.get("example", {}))
    if "id" in row:
        fields[row["id"]] = ID
    if "name" in row:
        fields[row["name"]] = TOOL
    if name := first(row.get("arguments")):
        is_text = row["place"] == "call" or (row["place"] == "item" and name != "action")
        fields[name] = '{"a":1}' if is_text else {"a": 1}
    content = first(row.get("content"))
    if content and row["kind"] in {"text", "reasoning", "summary"}:
        fields[content] = [{"text": WORDS}] if row["place"] == "item" else WORDS
    elif row["kind"] in {"reasoning", "summary"} and "opaque" in row:
        fields[row["opaque"]] = "AAAA"
    elif content and row["kind"] == "content" and row["place"] == "item":
        fields[content] = [{"type": "text", "text": WORDS}]
    elif content and row["kind"] == "result" and "example" not in row:
        fields[content] = WORDS
    return fields


def part_of(row: Json) -> Json:
    fields = fields_of(row)
    if row["place"] == "field":
        is_text = row["kind"] == "text" and "content" not in row
        return {row["type"]: WORDS if is_text else fields}
    if row["place"] == "call":
        fields.pop(row["id"])
        return {"id": ID, "type": row["type"], row["type"]: fields}
    return fields if row["place"] == "shape" else {"type": row["type"], **fields}


def message_of(dialect: str, row: Json) -> Json:
    """A message with a part of this type; an item is one itself."""
    part = part_of(row)
    is_said = row["kind"] in {"call", "reasoning", "summary"}
    if row["place"] == "item":
        return part
    if row["place"] == "call":
        return {"role": "assistant", "content": None, "tool_calls": [part]}
    if dialect == "gemini":
        return {"role": "model" if is_said else "user", "parts": [part]}
    if dialect == "gemini-interactions":
        return {"type": "user_input", "content": [part]}
    if dialect == "vscode":
        return {"role": 2 if is_said else 1, "content": [part]}
    tool = "tool" if dialect == "ai-sdk" and row["kind"] == "result" else "user"
    return {"role": "assistant" if is_said else tool, "content": [part]}


def body_of(dialect: str, row: Json) -> Json:
    field = "input" if dialect in ("openai-responses", "gemini-interactions") else "messages"
    field = "contents" if dialect == "gemini" else field
    return {field: [message_of(dialect, row)]}


# ------------------------------------------------------------------------------ what readers see


def flat(parts: list[Json]) -> Iterator[Json]:
    for part in parts:
        yield part
        yield from flat(part.get("parts", []))


def in_view(view: list[Json], row: Json) -> bool:
    """Whether the core's view of messages has the part as what it is."""
    parts = list(flat([part for message in view for part in message["parts"]]))
    kind = row["kind"]
    if kind in {"text", "content"}:
        return any(part["part"] == "text" and part["text"] == WORDS for part in parts)
    if kind in MEDIA:
        return any(part["part"] == "media" and part["kind"] == kind for part in parts)
    name = {"call": "tool_call", "result": "tool_result"}.get(kind, kind)
    found = [part for part in parts if part["part"] == name]
    if kind == "call" and "name" in row:
        found = [part for part in found if part["name"] == TOOL]
    if kind in {"reasoning", "summary"}:
        found = [part for part in found if part["text"] == WORDS or part["opaque"] == "AAAA"]
    return bool(found)


def is_seen_by_request(dialect: str, row: Json) -> bool:
    view = json.loads(_request_view(body_of(dialect, row)))
    return "unknown_part" not in view["assumptions"] and in_view(view["messages"], row)


def is_seen_by_reply(dialect: str, row: Json) -> bool:
    message = message_of(dialect, row)
    return in_view(json.loads(_reply_view([message] if row["place"] == "item" else message)), row)


def is_seen_by_outline(dialect: str, row: Json) -> bool:
    [(_, found)] = _outline(body_of(dialect, row))
    kind = "file" if row["kind"] in MEDIA else row["kind"]
    kind = kind if kind in {"call", "result", "reasoning", "file"} else "text"
    is_kind = [kind for kind, *_ in found] == [kind]
    return is_kind and ("id" not in row or found[0][1] == ID)


def is_seen_by_conversion(dialect: str, row: Json) -> bool:
    read = vscode.read if dialect == "vscode" else RULES[dialect].read  # type: ignore[index]
    conversation = read(body_of(dialect, row), Notes(ConversionOptions()))
    parts = [part for message in conversation.messages for part in message.parts]
    found = [part for part in parts if isinstance(part, CONVERTED.get(row["kind"], ()))]
    if row["kind"] in {"call", "result"} and "id" in row:
        found = [p for p in found if ID in {getattr(p, "id", None), getattr(p, "call_id", None)}]
    return bool(found)


SEEN_BY: Final = {
    "request": is_seen_by_request,
    "reply": is_seen_by_reply,
    "outline": is_seen_by_outline,
    "conversion": is_seen_by_conversion,
}


def cases() -> Iterator[Any]:
    for dialect, row in ROWS:
        for reader in SEEN_BY:
            is_converted = dialect in RULES or dialect == "vscode"
            if row["kind"] != "other" and (reader != "conversion" or is_converted):
                yield pytest.param(dialect, row, reader, id=f"{dialect}-{row['type']}-{reader}")


@pytest.mark.parametrize(("dialect", "row", "reader"), list(cases()))
def test_a_reader_sees_what_a_row_says_or_the_row_says_that_it_does_not(
    dialect: str, row: Json, reader: str
) -> None:
    unread = row.get("unread_by", ())
    is_read = ("request" if reader == "reply" else reader) not in unread
    seen = SEEN_BY[reader](dialect, row)
    verb = "does not see" if is_read else "sees, although unread_by says no,"
    assert seen == is_read, f"{reader} {verb} `{row['type']}` of {dialect} as {row['kind']}"


# ------------------------------------------------------------------------------ answers as streams


def events_of(dialect: str, row: Json) -> list[Json] | None:
    """A stream with a part of this type; None where a model says no such part in it."""
    part, kind = part_of(row), row["kind"]
    if dialect == "openai-responses" and row["place"] == "item" and kind in {"call", "reasoning"}:
        return [{"type": "response.output_item.done", "output_index": 0, "item": part}]
    if dialect == "gemini":
        return [{"candidates": [{"content": {"parts": [part]}}]}]
    if row["place"] == "call" and kind == "call" and "conversion" not in row.get("unread_by", ()):
        return [{"choices": [{"delta": {"tool_calls": [{"index": 0, **part}]}}]}]
    if kind == "call" and dialect == "anthropic":
        start = {**part, row["arguments"]: {}}
        delta = {"type": "input_json_delta", "partial_json": '{"a":1}'}
        return [
            {"type": "content_block_start", "index": 0, "content_block": start},
            {"type": "content_block_delta", "index": 0, "delta": delta},
        ]
    if kind == "call" and dialect == "bedrock-converse":
        held = dict(part[row["type"]])
        held[row["arguments"]] = '{"a":1}'
        start = {row["id"]: held.pop(row["id"]), row["name"]: held.pop(row["name"])}
        return [
            {"contentBlockStart": {"contentBlockIndex": 0, "start": {row["type"]: start}}},
            {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {row["type"]: held}}},
        ]
    if kind in {"text", "reasoning"} and dialect == "bedrock-converse":
        said = WORDS if kind == "text" else {"text": WORDS}
        return [{"contentBlockDelta": {"contentBlockIndex": 0, "delta": {row["type"]: said}}}]
    return None


def streams() -> Iterator[Any]:
    for dialect, row in ROWS:
        if events := events_of(dialect, row):
            yield pytest.param(dialect, row, events, id=f"{dialect}-{row['type']}")


@pytest.mark.parametrize(("dialect", "row", "events"), list(streams()))
def test_the_answer_of_a_stream_has_the_part_too(
    dialect: str, row: Json, events: list[Json]
) -> None:
    reply = reply_of(events[0])
    assert reply is not None
    for event in events:
        reply.add(event)
    view = json.loads(_reply_view(reply.message()))
    assert in_view(view, row), f"the answer of a stream lacks `{row['type']}` of {dialect}"
    if row["kind"] == "call" and "arguments" in row:
        calls = [part for message in view for part in message["parts"]]
        assert [json.loads(part["arguments"]) for part in calls] == [{"a": 1}]


# ------------------------------------------------------------------------------ the short cut


@pytest.mark.parametrize("dialect", ["openai-responses", "anthropic", "ai-sdk"])
def test_the_short_cut_takes_the_calls_and_results_of_the_table(dialect: str) -> None:
    rows = [row for row in TABLE[dialect]["parts"] if "conversion" not in row.get("unread_by", ())]
    rows = [row for row in rows if not row.get("is_custom")]
    calls, results = ([row for row in rows if row["kind"] == kind] for kind in ("call", "result"))
    assert calls
    assert results
    to = RULES["openai-chat"]
    for call in calls:
        for result in results:
            messages = [message_of(dialect, call), message_of(dialect, result)]
            found = _convert_plain(messages, dialect, to)
            assert found is not None, f"{dialect}: {call['type']}, {result['type']}"
            assert found[1][0]["tool_calls"][0]["id"] == found[1][1]["tool_call_id"] == ID


# ------------------------------------------------------------------------------ the second source


def without_row(dialect: str, types: set[str]) -> list[str]:
    """What to say of types that have neither a row nor a reason."""
    known = {name for row in TABLE[dialect]["parts"] for name in (row["type"], row.get("also"))}
    missing = sorted(types - known - UNREAD.get(dialect, {}).keys())
    return [
        f"`{name}` of {dialect} has no row in parts.json: {', '.join(SEEN_BY)} do not know it"
        for name in missing
    ]


def openai_chat_types() -> set[str]:
    from openai.types import chat
    from openai.types.chat import chat_completion_assistant_message_param as assistant

    roots = (
        chat.ChatCompletionContentPartParam,
        assistant.ContentArrayOfContentPart,
        chat.ChatCompletionMessageToolCallUnionParam,
    )
    return sdk_types.type_names(roots)


def openai_responses_types() -> set[str]:
    from openai.types import responses
    from openai.types.responses import response_output_message_param as output
    from openai.types.responses import response_reasoning_item_param as reasoning

    roots = (
        responses.ResponseInputItemParam,
        responses.ResponseOutputItem,
        responses.ResponseInputContentParam,
        responses.ResponseFunctionCallOutputItemParam,
        responses.ResponseComputerToolCallOutputScreenshotParam,
        output.Content,
        reasoning.Content,
        reasoning.Summary,
    )
    return sdk_types.type_names(roots)


def anthropic_types() -> set[str]:
    from anthropic import types
    from anthropic.types import beta, tool_result_block_param
    from anthropic.types.beta import beta_tool_result_block_param

    roots = (
        types.ContentBlockParam,
        types.ContentBlock,
        beta.BetaContentBlockParam,
        beta.BetaContentBlock,
        tool_result_block_param.Content,
        beta_tool_result_block_param.Content,
    )
    return sdk_types.type_names(roots)


def gemini_types() -> set[str]:
    from google.genai import types

    fields = types.Part.model_fields.items()
    return {field.alias or name for name, field in fields}


def interactions_types() -> set[str]:
    from google.genai._gaos.types import interactions

    names = ("StepParam", "ContentParam", "FunctionResultSubcontentParam")
    return sdk_types.type_names(tuple(getattr(interactions, name) for name in names))


SDK_TYPES: Final = {
    "openai-chat": openai_chat_types,
    "openai-responses": openai_responses_types,
    "anthropic": anthropic_types,
    "gemini": gemini_types,
    "gemini-interactions": interactions_types,
}


@pytest.mark.parametrize("dialect", SDK_TYPES)
def test_every_type_of_an_sdk_has_a_row_or_a_reason(dialect: str) -> None:
    types = SDK_TYPES[dialect]()
    assert len(types) >= 6
    assert without_row(dialect, types) == []
    assert UNREAD.get(dialect, {}).keys() <= types, "a reason for a type that is no more"


@pytest.mark.parametrize("dialect", DOCUMENTED)
def test_every_documented_type_has_a_row(dialect: str) -> None:
    assert without_row(dialect, set(DOCUMENTED[dialect].split())) == []


def typed(value: Any, field: str = "") -> Iterator[str]:
    """The types of parts in the lists of content in `value`."""
    if isinstance(value, dict):
        if field in {"content", "input", "output"} and isinstance(value.get("type"), str):
            yield value["type"]
        for name, item in value.items():
            yield from typed(item, name if isinstance(item, list) else "")
    elif isinstance(value, list):
        for item in value:
            yield from typed(item, field)


@pytest.mark.parametrize("path", sorted(REQUESTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_type_in_the_committed_requests_has_a_row_or_a_reason(path: Path) -> None:
    cases = json.loads(path.read_bytes())
    found = set(typed(cases))
    known = {row["type"] for _, row in ROWS} | {name for names in UNREAD.values() for name in names}
    assert sorted(found - known) == [], f"types in {path.name} that parts.json lacks"


@each_row
def test_a_row_that_is_taken_out_is_missed(dialect: str, row: Json) -> None:
    """The second source has every row: without it, a test above fails and names it."""
    types = set(DOCUMENTED.get(dialect, "").split())
    types |= SDK_TYPES[dialect]() if dialect in SDK_TYPES else set()
    assert row["type"] in types, f"nothing but the row says that {dialect} has `{row['type']}`"


def test_no_type_without_a_row_has_one() -> None:
    rows = {(dialect, row["type"]) for dialect, row in ROWS}
    reasons = {(dialect, name) for dialect, names in UNREAD.items() for name in names}
    assert not rows & reasons


def test_a_type_tells_one_dialect_only() -> None:
    marking = [(row["place"], row["type"]) for _, row in ROWS if "marks" in row]
    assert len(marking) == len(set(marking))


def test_the_columns_are_explained() -> None:
    columns = {column for _, row in ROWS for column in row} - {"also"}
    assert columns == read_table("parts")["columns"].keys()
    readers = {name for _, row in ROWS for name in row.get("unread_by", ())}
    assert readers <= {"request", "outline", "conversion"}
    assert set(TABLE) == {*get_args(model.Source), "bedrock-converse", "gemini-interactions"}
