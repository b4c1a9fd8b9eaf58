"""Options and media that only some models of a dialect take, and what is sent to the others."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tokenctx.convert.model import Audio, File, Image, Option, Tool, changed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenctx.convert.model import Conversation, Dialect
    from tokenctx.convert.notes import Notes
    from tokenctx.convert.rules import Rules

CUSTOM_SCHEMA: Final = MappingProxyType(
    {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
)
"""Of the function that stands for a tool for free text where there are none."""
_BUDGETS: Final = MappingProxyType({"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576})
"""Thinking budgets that Google's endpoint for OpenAI's clients takes for the levels of effort."""


@dataclass(frozen=True, slots=True)
class Accepts:
    """Options of one kind of model.

    Attributes:
        efforts: The levels of effort that it takes.
        budgets: The thinking budget that stands for a level that it does not take.
        has_media_results: Whether a tool result may hold images and files.
    """

    efforts: frozenset[str]
    budgets: Mapping[str, int] = field(default_factory=dict)
    has_media_results: bool = True


def _row(pattern: str, efforts: str, **more: object) -> tuple[re.Pattern[str], Accepts]:
    levels = frozenset(efforts.split())
    return re.compile(pattern, re.IGNORECASE), Accepts(levels, **more)  # type: ignore[arg-type]


_GEMINI: Final = (  # https://ai.google.dev/gemini-api/docs/thinking, 2026
    _row(r"gemini-(1|2[.-]0)", "", has_media_results=False),
    _row(r"gemini-2[.-]5-pro", "", budgets=_BUDGETS, has_media_results=False),
    _row(r"gemini-2", "", budgets={**_BUDGETS, "none": 0}, has_media_results=False),
    _row(r"gemini-3-pro", "low high"),
    _row(r"gemini-\d[\d.-]*pro", "low medium high"),
)
_OPENAI: Final = (  # references of Chat Completions and Responses; xAI's guide to reasoning, 2026
    _row(r"^(ft:)?(gpt-[34]|chatgpt-|o1-(mini|preview))", ""),
    _row(r"^o\d", "low medium high"),
    _row(r"^gpt-5-pro", "high"),
    _row(r"^gpt-5-codex", "low medium high"),
    _row(r"^gpt-5(-mini|-nano|-\d|$)", "minimal low medium high"),
    _row(r"^gpt-5\.1(-\d|$)", "none low medium high"),
    _row(r"^grok-(2|3(?!-mini)|4(-0709|-latest|$)|code)", ""),
)
ROWS: Final[Mapping[Dialect, tuple[tuple[re.Pattern[str], Accepts], ...]]] = MappingProxyType(
    {
        "openai-chat": _OPENAI,
        "openai-responses": _OPENAI,
        "gemini": _GEMINI,
        "gemini-interactions": tuple((it, replace(row, budgets={})) for it, row in _GEMINI),
        "anthropic": (  # https://platform.claude.com/docs/en/build-with-claude/effort, 2026
            _row(r"claude-([123]|haiku-[34]|instant)", ""),
            _row(r"claude-(opus|sonnet)-4(?!\d|[.-]\d\b|[.-]\d-)", ""),  # of 2025-05
            _row(r"claude-(opus-4[.-][01]|sonnet-4[.-][05])\b", ""),
            _row(r"claude-opus-4[.-]5\b", "low medium high"),
            _row(r"claude-(opus|sonnet)-4[.-]6\b", "low medium high max"),
        ),
    }
)
"""Models that do not take all that their dialect has; the first row that matches a name is its."""


def accepted(conversation: Conversation, rules: Rules, notes: Notes) -> tuple[Conversation, Rules]:
    """The conversation with options that its model takes, and the rules of that model."""
    conversation = _with_choice(_with_functions(conversation, rules, notes), notes)
    model = conversation.options.get("model")
    name = str(notes.options.model or (model.value if model else ""))
    rows = ROWS.get(rules.name, ())
    found = next((accepts for pattern, accepts in rows if pattern.search(name)), None)
    if found is None:
        return conversation, rules
    if not found.has_media_results:
        parts = {place: dict(writers) for place, writers in rules.parts.items()}
        for kind in (Image, File, Audio):
            parts["result"].pop(kind, None)
        rules = replace(rules, parts=parts)
    return _with_effort(conversation, found, notes), rules


def _with_functions(conversation: Conversation, rules: Rules, notes: Notes) -> Conversation:
    """The conversation with functions in place of tools for free text where there are none."""
    if rules.has_custom or not any(tool.is_custom for tool in conversation.tools):
        return conversation
    tools = tuple(_function(tool, notes) if tool.is_custom else tool for tool in conversation.tools)
    return replace(conversation, tools=tools)


def _function(tool: Tool, notes: Notes) -> Tool:
    notes.lose("custom_tool", tool.path)
    made: Tool = changed(tool, schema=dict(CUSTOM_SCHEMA), is_custom=False, format=None)
    return made


_CHOICES: Final = frozenset({"tool_choice", "parallel_tool_calls"})


def _with_choice(conversation: Conversation, notes: Notes) -> Conversation:
    """The conversation without a choice among tools that it does not have: that is refused."""
    if _CHOICES.isdisjoint(conversation.options):
        return conversation
    choice = conversation.options.get("tool_choice")
    names = {tool.name for tool in conversation.tools}
    dropped = set()
    if not names:
        dropped = set(_CHOICES)
    elif choice is not None and choice.value.mode == "tool" and choice.value.name not in names:
        dropped = {"tool_choice"}
    if dropped.isdisjoint(conversation.options):
        return conversation
    return _without(conversation, dropped, notes)


def _with_effort(conversation: Conversation, accepts: Accepts, notes: Notes) -> Conversation:
    effort = conversation.options.get("reasoning_effort")
    if effort is None or effort.value in accepts.efforts:
        return conversation
    budget = accepts.budgets.get(effort.value)
    if budget is None or "thinking_budget" in conversation.options:
        return _without(conversation, {"reasoning_effort"}, notes)
    options = {name: it for name, it in conversation.options.items() if name != "reasoning_effort"}
    options["thinking_budget"] = Option(budget, effort.path)
    notes.lose("form", effort.path)
    return replace(conversation, options=options)


def _without(conversation: Conversation, names: set[str], notes: Notes) -> Conversation:
    for name in sorted(names & conversation.options.keys()):
        notes.lose("option", conversation.options[name].path)
    options = {name: it for name, it in conversation.options.items() if name not in names}
    return replace(conversation, options=options)
