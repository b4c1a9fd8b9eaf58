"""A request counted part by part: every message once, and all around them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from tokenctx._core import count_tokens_batch
from tokenctx._results.estimates import CountOnlyName, EncodingName
from tokenctx.context.usage import (
    MESSAGES,
    CategoryName,
    ContextCategory,
    ContextItem,
    categories,
    scaled,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tokenctx._core import PartCounts, ToolCount
    from tokenctx._results.estimates import Dialect, RequestCount

ENCODINGS: Final = frozenset((*get_args(EncodingName), *get_args(CountOnlyName)))
MCP_NAME: Final = re.compile(r"mcp(__|--|_)(?P<server>.+?)\1.+", re.DOTALL)
"""How agents name the tools of an MCP server."""
MAX_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class Names:
    """Who a request is for, as far as the caller says it."""

    model: str | None = None
    dialect: Dialect | None = None
    provider: str | None = None

    def as_arguments(self) -> dict[str, Any]:
        """Keyword arguments of the estimator."""
        return {"model": self.model, "dialect": self.dialect, "provider": self.provider}


@dataclass(frozen=True, slots=True)
class Categories:
    """The parts of a request by category: around the messages, of messages, and not sent yet."""

    fixed: tuple[ContextCategory, ...]
    messages: tuple[ContextCategory, ...]
    deferred: tuple[ContextCategory, ...] = ()


def brief_categories(count: RequestCount, parts: PartCounts) -> Categories:
    """The messages of a request as one part and all else as another."""
    pairs = zip(parts.message_tokens, parts.is_system, strict=True)
    said = sum(tokens for tokens, is_system in pairs if not is_system)
    system = count.context_tokens + sum(parts.message_tokens) - said
    fixed = (ContextCategory("system", system),)
    return Categories(fixed, (ContextCategory("messages", said),))


def all_categories(
    count: RequestCount,
    parts: PartCounts,
    *,
    marked: Mapping[str, Mapping[str, str]] | None = None,
    server_of: Callable[[str], str | None] | None = None,
) -> Categories:
    """Every part of a request, by category. `marked` and `server_of` are as in `ContextWindow`."""
    by_category = dict(parts.categories)
    head: Any = parts.head  # categories were wanted
    system = head.system + by_category.pop("system", 0)
    fixed = _with_marked({"system": system, "framing": head.framing}, marked or {}, count.encoding)
    tools = head.items
    if head.tools:
        own = _tools((tool for tool in tools if not tool.is_deferred), server_of)
        fixed = (*scaled((own,), head.tools), *fixed)
    later = _tools((tool for tool in tools if tool.is_deferred), server_of, is_deferred=True)
    return Categories(
        fixed,
        categories({name: by_category[name] for name in MESSAGES if name in by_category}),
        (later,) if later.items else (),
    )


def _tools(
    tools: Iterable[ToolCount],
    server_of: Callable[[str], str | None] | None,
    *,
    is_deferred: bool = False,
) -> ContextCategory:
    items = tuple(
        ContextItem(tool.name[:MAX_NAME], tool.tokens, _server(tool, server_of)) for tool in tools
    )
    return ContextCategory("tools", sum(item.tokens for item in items), items, is_deferred)


def text_tokens(texts: Sequence[str], encoding: str) -> int:
    """Tokens of texts in an encoding; of one that we lack, a quarter of the letters."""
    if encoding not in ENCODINGS:
        return sum(map(len, texts)) // 4
    return sum(count_tokens_batch(texts, encoding=encoding))  # type: ignore[arg-type]


def _with_marked(
    fixed: dict[CategoryName, int], marked: Mapping[str, Mapping[str, str]], encoding: str
) -> tuple[ContextCategory, ...]:
    """The fixed parts, with marked texts taken out of the system prompt that they are in."""
    parts: list[ContextCategory] = []
    left = fixed["system"]
    names: tuple[CategoryName, ...] = ("memory", "skills")
    for name in names:
        items = tuple(
            ContextItem(title, text_tokens([text], encoding))
            for title, text in marked.get(name, {}).items()
        )
        whole = sum(item.tokens for item in items)
        tokens = min(left, whole)
        left -= tokens
        parts += scaled((ContextCategory(name, whole, items),), tokens)
    head = (ContextCategory("system", left), *parts, ContextCategory("framing", fixed["framing"]))
    return tuple(part for part in head if part.tokens)


def _server(tool: ToolCount, server_of: Callable[[str], str | None] | None) -> str:
    """The server that a tool is of: as the caller says, as it says itself, or by its name."""
    found = server_of(tool.name) if server_of is not None else None
    if found is not None:
        return found[:MAX_NAME]
    match = MCP_NAME.fullmatch(tool.name[:MAX_NAME])
    return (tool.server or (match["server"] if match else ""))[:MAX_NAME]
