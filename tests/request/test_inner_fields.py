"""Objects in tools and options are closed tables too: their unknown members are labelled."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

import sdk_types
from json_places import places
from tokenctx import HybridTokenEstimator
from tokenctx._results.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

WORDS: Final = "word " * 200
PARAMETERS: Final = {"type": "object", "properties": {"city": {"type": "string"}}}
INNER: Final = read_table("fields")["inner"]
HI: Final = {"role": "user", "content": "hi"}
CITY: Final = {"type": "approximate", "city": "Paris"}
FUNCTION: Final = {"type": "function", "name": "weather", "parameters": PARAMETERS}
GRAMMAR: Final = {"syntax": "lark", "definition": "start: a"}

BODIES: Final[dict[str, Json]] = {
    "openai-chat": {
        "model": "gpt-5",
        "messages": [HI],
        "tools": [{"type": "custom", "custom": {"name": "c", "format": {"grammar": GRAMMAR}}}],
        "web_search_options": {"user_location": {"approximate": {"city": "Paris"}}},
    },
    "openai-responses": {
        "model": "gpt-5.6-sol",
        "input": [
            HI,
            {"type": "additional_tools", "tools": [{"type": "namespace", "tools": [FUNCTION]}]},
            {"type": "tool_search_output", "call_id": "s", "tools": [FUNCTION]},
        ],
        "tools": [
            {"type": "namespace", "name": "n", "description": "d", "tools": [FUNCTION]},
            {
                "type": "mcp",
                "server_label": "x",
                "allowed_tools": {"tool_names": ["a"]},
                "require_approval": {"never": {"tool_names": ["a"]}},
            },
            {"type": "custom", "name": "c", "format": {"type": "grammar", **GRAMMAR}},
            {
                "type": "file_search",
                "vector_store_ids": ["v"],
                "filters": {"type": "and", "filters": [{"type": "eq", "key": "a", "value": 1}]},
                "ranking_options": {"ranker": "auto", "hybrid_search": {"text_weight": 1}},
            },
            {"type": "web_search", "user_location": CITY},
            {"type": "code_interpreter", "container": {"type": "auto", "file_ids": []}},
            {"type": "tool_search"},
        ],
        "context_management": [{"type": "compaction", "compact_threshold": 9_000_000}],
    },
    "anthropic": {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "messages": [HI],
        "tools": [
            {
                "type": "mcp_toolset",
                "mcp_server_name": "x",
                "default_config": {"defer_loading": True},
                "configs": {"a": {"enabled": True}},
            },
            {"type": "web_search_20250305", "name": "web_search", "user_location": CITY},
        ],
        "mcp_servers": [
            {"type": "url", "url": "u", "name": "x", "tool_configuration": {"enabled": True}}
        ],
        "context_management": {
            "edits": [
                {
                    "type": "clear_tool_uses_20250919",
                    "trigger": {"type": "input_tokens", "value": 900_000},
                    "keep": {"type": "tool_uses", "value": 3},
                }
            ]
        },
        "container": {"id": "c", "skills": [{"type": "anthropic", "skill_id": "x"}]},
    },
    "bedrock-converse": {
        "model": "anthropic.claude-sonnet-4-5",
        "messages": [{"role": "user", "content": [{"text": "hi"}]}],
        "toolConfig": {
            "tools": [
                {"toolSpec": {"name": "weather", "inputSchema": {"json": PARAMETERS}}},
                {"cachePoint": {"type": "default"}},
                {"systemTool": {"name": "n"}},
            ]
        },
    },
}
SCHEMAS: Final = frozenset({"parameters", "json"})
CASES: Final = [
    (dialect, path)
    for dialect, body in BODIES.items()
    for path in places(body)
    if SCHEMAS.isdisjoint(path)
]


def estimate(dialect: Any, body: Json) -> Any:
    found = HybridTokenEstimator(learning=False).estimate(body, dialect=dialect)
    text = json.dumps(body).encode()
    of_bytes = HybridTokenEstimator(learning=False).estimate(text, dialect=dialect)
    assert (found.low, found.tokens, found.high) == (of_bytes.low, of_bytes.tokens, of_bytes.high)
    return found


@pytest.mark.parametrize("dialect", BODIES)
def test_what_the_table_has_is_not_labelled(dialect: str) -> None:
    assert "unknown_field" not in estimate(dialect, BODIES[dialect]).assumptions


@pytest.mark.parametrize(
    ("dialect", "path"), CASES, ids=lambda it: it if isinstance(it, str) else ".".join(map(str, it))
)
@pytest.mark.parametrize("value", [WORDS, {"a": [WORDS]}], ids=["text", "object"])
def test_a_member_that_no_row_has_is_labelled(
    dialect: str, path: tuple[Any, ...], value: Any
) -> None:
    plain = estimate(dialect, BODIES[dialect])
    body = copy.deepcopy(BODIES[dialect])
    owner: Any = body
    for key in path:
        owner = owner[key]
    owner["frobnicate"] = value
    found = estimate(dialect, body)
    assert "unknown_field" in found.assumptions or found.tokens > plain.tokens
    assert found.high >= plain.high + 90


def test_a_schema_of_ollama_has_members_of_its_own() -> None:
    body = {"model": "qwen3:4b", "messages": [HI], "options": {"num_ctx": 99}}
    found = estimate(None, {**body, "format": {**PARAMETERS, "title": "Answer"}})
    assert "unknown_field" not in found.assumptions


# ------------------------------------------------------------------------------ the SDKs

APART: Final = frozenset(
    {
        *(
            "parameters",
            "input_schema",
            "schema",
            "output_schema",
            "function",
            "custom",
        ),  # own rows
        *("tools", "cache_control", "citations", "type", "key", "input_image_mask"),
        *("reasoning", "thinking", "content", "output"),  # of a tool: what another model is told
    }
)
"""Names whose members have rows of their own in the table, or are in the price of the tool."""


def nested(kind: Any, depth: int = 6) -> Iterator[tuple[str, str, str]]:
    """Each member of the objects in a type: its holder, the name of it, and what holds that."""
    for holder in sdk_types.objects(kind):
        for name, annotation in sdk_types.annotations_of(holder).items():
            if name in APART or depth == 0:
                continue
            for inner in sdk_types.objects(annotation):
                yield from ((name, it, holder.__name__) for it in sdk_types.annotations_of(inner))
            yield from nested(annotation, depth - 1)


def test_the_members_of_tools_in_the_sdks_have_rows() -> None:
    from anthropic.types import beta
    from openai.types import responses

    servers = beta.BetaRequestMCPServerURLDefinitionParam
    roots = (responses.ToolParam, beta.BetaToolUnionParam, servers)
    found = {it for root in roots for it in nested(root)}
    assert len(found) > 50
    missing = {
        (holder, name)
        for holder, name, _ in found
        if name not in INNER.get(holder, ()) and "*" not in INNER.get(holder, ())
    }
    in_sets = {it for it in missing if it[1] in INNER["configs"]}  # of members of a set of tools
    assert sorted(missing - in_sets) == []
