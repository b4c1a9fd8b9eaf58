"""A request counted part by part: every message once, and what stands around them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from tokenctx._context.outline import SYSTEM_FIELDS, Outline, Part
from tokenctx._context.usage import (
    MESSAGES,
    CategoryName,
    ContextCategory,
    ContextItem,
    apportioned,
    categories,
    scaled,
)
from tokenctx._core import count_tokens_batch
from tokenctx._estimate.profiles import bundled_profiles
from tokenctx._models import CountOnlyName, EncodingName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tokenctx._context.outline import MessageOutline
    from tokenctx._estimate.estimator import HybridTokenEstimator
    from tokenctx._models import Dialect, RequestCount

ENCODINGS: Final = frozenset((*get_args(EncodingName), *get_args(CountOnlyName)))
MCP_NAME: Final = re.compile(r"mcp(__|--|_)(?P<server>.+?)\1.+", re.DOTALL)
"""How agents name the tools of an MCP server."""
MAX_NAME: Final = 200
SERVER_FIELDS: Final = ("server_label", "mcp_server_name", "serverLabel")


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
class CountedParts:
    """A request counted.

    Attributes:
        message_tokens: Of each message, in the caller's order.
        part_tokens: Of each part of each message, which they sum to; none unless wanted.
    """

    count: RequestCount
    message_tokens: tuple[int, ...]
    part_tokens: tuple[tuple[int, ...], ...]
    fixed: tuple[ContextCategory, ...]
    messages: tuple[ContextCategory, ...]
    deferred: tuple[ContextCategory, ...]


def is_deferred(tool: Any) -> bool:
    """Whether a tool is defined but not shown to the model before it is searched for."""
    return isinstance(tool, dict) and tool.get("defer_loading") is True


def shown(tool: Any) -> Any:
    """A definition as it is when it is shown to the model."""
    if not is_deferred(tool):
        return tool
    return {name: value for name, value in tool.items() if name != "defer_loading"}


def message_tokens_of(count: RequestCount, outline: Outline) -> tuple[int, ...]:
    """The tokens of each message as the caller has them."""
    counted = count.message_tokens
    if len(counted) != len(outline.messages):
        # A request of odd shape was read as another number of messages.
        weights = [sum(map(_length, message.parts)) for message in outline.messages]
        counted = tuple(apportioned(sum(counted), weights))
    return counted


def count_briefly(
    count: RequestCount, outline: Outline, *, with_part_tokens: bool = False
) -> CountedParts:
    """The messages of a request as one part and all else as another."""
    message_tokens = message_tokens_of(count, outline)
    tokens_of_parts = part_tokens(outline, count, message_tokens) if with_part_tokens else ()
    pairs = zip(outline.messages, message_tokens, strict=True)
    said = sum(tokens for message, tokens in pairs if message.speaker != "system")
    system = count.context_tokens + sum(message_tokens) - said
    fixed = (ContextCategory("system", system),)
    messages = (ContextCategory("messages", said),)
    return CountedParts(count, message_tokens, tokens_of_parts, fixed, messages, ())


def count_parts(
    estimator: HybridTokenEstimator,
    count: RequestCount,
    outline: Outline,
    names: Names,
    *,
    marked: Mapping[str, Mapping[str, str]] | None = None,
    server_of: Callable[[str], str | None] | None = None,
) -> CountedParts:
    """Every part of a request, by category. `marked` and `server_of` are as in `ContextWindow`."""
    message_tokens = message_tokens_of(count, outline)
    tokens_of_parts = part_tokens(outline, count, message_tokens)
    by_category: dict[CategoryName, int] = {}
    for message, tokens, shares in zip(
        outline.messages, message_tokens, tokens_of_parts, strict=True
    ):
        names_of = [_category(message, part) for part in message.parts] or ["user"]
        for name, number in zip(names_of, shares or (tokens,), strict=True):
            by_category[name] = by_category.get(name, 0) + number
    system_messages = by_category.pop("system", 0)
    head = _Head(estimator, outline, names, count)
    system, tools, framing = head.split()
    fixed = _with_marked(
        {"system": system + system_messages, "framing": framing}, marked or {}, count.encoding
    )
    tool_items = head.tool_items(deferred=False, server_of=server_of)
    if tools:
        own = ContextCategory("tools", sum(item.tokens for item in tool_items), tool_items)
        fixed = (*scaled((own,), tools), *fixed)
    later = head.tool_items(deferred=True, server_of=server_of)
    deferred = ContextCategory("tools", sum(item.tokens for item in later), later, is_deferred=True)
    return CountedParts(
        count,
        message_tokens,
        tokens_of_parts,
        fixed,
        categories({name: by_category[name] for name in MESSAGES if name in by_category}),
        (deferred,) if later else (),
    )


def part_tokens(
    outline: Outline, count: RequestCount, message_tokens: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """The tokens of each message shared among its parts.

    A part of text weighs what its text counts; files share what is left. Only messages of several
    parts are looked at again, and reasoning that the provider does not keep weighs nothing.
    """
    kept_from = _reasoning_kept_from(outline, count.profile)
    shares: list[tuple[int, ...]] = []
    for index, (message, tokens) in enumerate(zip(outline.messages, message_tokens, strict=True)):
        if len(message.parts) < 2:
            shares.append((tokens,) * len(message.parts))
            continue
        weights = [
            0 if part.kind == "reasoning" and index < kept_from else _weight(part, count.encoding)
            for part in message.parts
        ]
        files = [int(part.has_file) for part in message.parts]
        if any(files):
            rest = apportioned(max(0, tokens - sum(weights)), files)
            weights = [weight + more for weight, more in zip(weights, rest, strict=True)]
        shares.append(tuple(apportioned(tokens, weights)))
    return tuple(shares)


def text_tokens(texts: Sequence[str], encoding: str) -> int:
    """Tokens of texts in an encoding; of one that we lack, a quarter of the letters."""
    if encoding not in ENCODINGS:
        return sum(map(len, texts)) // 4
    return sum(count_tokens_batch(texts, encoding=encoding))  # type: ignore[arg-type]


def _weight(part: Part, encoding: str) -> int:
    return 0 if part.kind == "file" else text_tokens(part.texts(), encoding)


def _length(part: Part) -> int:
    return sum(map(len, part.texts()))


def _reasoning_kept_from(outline: Outline, profile_name: str) -> int:
    """The first message whose reasoning is still billed."""
    profile = bundled_profiles().get(profile_name)
    keeps = "all" if profile is None else profile["reasoning"]
    if keeps == "all":
        return 0
    if keeps == "never":
        return len(outline.messages)
    turns = [index for index, message in enumerate(outline.messages) if message.is_turn]
    return turns[-1] if turns else 0


def _category(message: MessageOutline, part: Part) -> CategoryName:
    if message.speaker == "system":
        return "system"
    if part.kind == "result":
        return "tool_results"
    if part.kind == "file":
        return "files"
    if part.kind == "reasoning":
        return "reasoning"
    return "assistant" if message.speaker == "assistant" else "user"


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


class _Head:
    """What stands around the messages, told apart by counting it with and without."""

    def __init__(
        self,
        estimator: HybridTokenEstimator,
        outline: Outline,
        names: Names,
        count: RequestCount,
    ) -> None:
        self._estimator, self._outline, self._count = estimator, outline, count
        self._names = {**names.as_arguments(), "dialect": names.dialect or count.dialect}
        pairs = zip(outline.raw_messages, outline.messages, strict=True)
        self._messages = [raw for raw, message in pairs if message.speaker == "system"]

    def split(self) -> tuple[int, int, int]:
        """Tokens of the system prompt outside of the messages, of all tools, and of the rest."""
        fields = dict(self._outline.fields)
        whole = self._count.context_tokens
        without_tools = whole
        if self._outline.tools:
            without_tools = min(whole, self._context({**fields, **self._tools([])}))
        bare = {name: value for name, value in fields.items() if name not in SYSTEM_FIELDS}
        framing = without_tools
        if len(bare) < len(fields):
            framing = min(without_tools, self._context({**bare, **self._tools([])}))
        return without_tools - framing, whole - without_tools, framing

    def tool_items(
        self, *, deferred: bool, server_of: Callable[[str], str | None] | None
    ) -> tuple[ContextItem, ...]:
        """Tokens of each tool by itself, with its server."""
        fields = dict(self._outline.fields)
        tools = self._outline.tools
        later = {name for name, tool in tools if is_deferred(tool)}
        later -= self._outline.loaded_tools if later else set()
        chosen = [(name, shown(tool)) for name, tool in tools if (name in later) is deferred]
        if not chosen:
            return ()
        nothing = self._context({**fields, **self._tools([])})
        return tuple(
            ContextItem(
                name[:MAX_NAME],
                max(0, self._context({**fields, **self._tools([tool])}) - nothing),
                _server(name, tool, server_of),
            )
            for name, tool in chosen
        )

    def _tools(self, tools: list[Any]) -> dict[str, Any]:
        """The field of the tools, with `tools` in it."""
        fields = self._outline.fields
        for config in ("toolConfig", "tool_config"):
            about = fields.get(config)
            if isinstance(about, dict) and "tools" in about:
                return {config: {**about, "tools": tools}}
        if isinstance(fields.get("tools"), dict):
            return {"tools": {key: value for tool in tools for key, value in tool.items()}}
        return {"tools": tools}

    def _context(self, body: dict[str, Any]) -> int:
        body = {**body, self._outline.list_field: self._messages}
        return self._estimator.count_request(body, **self._names).context_tokens


def _server(name: str, tool: Any, server_of: Callable[[str], str | None] | None) -> str:
    """The server that a tool is of: as the caller says, as it says itself, or by its name."""
    found = server_of(name) if server_of is not None else None
    if found is not None:
        return found[:MAX_NAME]
    about = tool if isinstance(tool, dict) else {}
    told = next((about[key] for key in SERVER_FIELDS if isinstance(about.get(key), str)), "")
    match = MCP_NAME.fullmatch(name[:MAX_NAME])
    return str(told or (match["server"] if match else ""))[:MAX_NAME]
