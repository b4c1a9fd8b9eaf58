"""How often an answer shows that the vendor's own tools were used, which its usage may not tell."""

from __future__ import annotations

import re
from typing import Any, Final

from tokenctx.usage.reading import (
    TABLE,
    TOOL_COUNTS,
    UNKNOWN,
    is_object,
    kind_of,
    member,
    members,
)

Uses = dict[str, int]
_KINDS: Final[dict[str, dict[str, str]]] = TABLE["uses"]
KNOWN_USES: Final = frozenset(
    f"tools.{kind}"
    for kinds in (*_KINDS.values(), TOOL_COUNTS)
    for kind in (*kinds.values(), *kinds)
)
"""As `Usage.unread` names uses of tools that are known, though their price is not."""
_SERVER_TOOL: Final = "server_tool_use"
_CALL: Final = "_call"
_HOLDERS: Final = ("response", "message", "interaction")
"""Where events have the answer, or the beginning of it."""
_LISTS: Final = ("output", "content", "steps", "candidates", "choices")
_NAMES: Final = frozenset((*_LISTS, *_HOLDERS))
_GROUNDING: Final = frozenset({"groundingMetadata", "grounding_metadata"})
_IN_MESSAGES: Final = frozenset({"executed_tools", "annotations"})
_EVENTS: Final = {
    "response.output_item.done": ("output", "item"),
    "content_block_start": ("content", "content_block"),
    "step.start": ("steps", "step"),
}
"""Events that have one item of a list."""
_FREE_WORDS: Final = {
    "web_search_call": ("action", {"open_page", "find_in_page", "find"}),
    "shell_call": ("environment", {"local", UNKNOWN}),
}
"""Where such an item says that it costs nothing: a page is opened, a shell is the caller's own."""
_GEMINI: Final = re.compile(r"gemini-(\d+)")
_BILLED_BY_QUERY: Final = 3
"""Gemini before this is billed by the prompt, however many queries it took."""


def uses_of(answer: object) -> Uses:
    """Uses by kind of tool in a response, or in an event that has one. Linear in its items."""
    found: Uses = {}
    _read(answer, found, depth=0)
    return found


def _read(answer: object, found: Uses, depth: int) -> None:
    for name, value in members(answer, _NAMES):
        if isinstance(value, (list, tuple)):
            if name == "candidates":
                _read_candidates(answer, value, found)
            elif name == "choices":
                _read_choices(value, found)
            else:
                for one in value:
                    _add(name, one, found)
        elif name in _HOLDERS and depth == 0 and is_object(value):
            _read(value, found, depth=1)


class StreamedUses:
    """The uses that the events of a stream show: one by one, or all that there were so far."""

    def __init__(self) -> None:
        self._added: Uses = {}
        self._most: Uses = {}

    def read(self, event: dict[str, Any]) -> bool:
        """Take the next event; True if it shows a use."""
        if "delta" in event:  # a piece of an item, as most events of most streams
            return False
        found: Uses = {}
        if type(choices := event.get("choices")) is list:
            if len(choices) == 1 and type(one := choices[0]) is dict:
                delta = one.get("delta")
                if type(delta) is dict and delta and _IN_MESSAGES.isdisjoint(delta):
                    return False
            _read_choices(choices, found)
            return self._take(found)
        kind = event.get("type") or event.get("event_type")
        place = _EVENTS.get(kind) if isinstance(kind, str) else None
        if place is not None:
            _add(place[0], event.get(place[1]), found)
            for tool, count in found.items():
                self._added[tool] = self._added.get(tool, 0) + count
            return bool(found)
        if _NAMES.isdisjoint(event):
            return False
        return self._take(uses_of(event))

    def _take(self, found: Uses) -> bool:
        for tool, count in found.items():
            self._most[tool] = max(count, self._most.get(tool, 0))
        return bool(found)

    def counts(self) -> Uses:
        """Uses by kind of tool."""
        added = self._added
        return {**added, **{it: max(self._most[it], added.get(it, 0)) for it in self._most}}


def _add(place: str, item: object, found: Uses) -> None:
    """Count an item of a list, if it is a use of a tool that may cost something."""
    word = member(item, "type")
    if not isinstance(word, str) or not (
        place == "executed_tools" or word == _SERVER_TOOL or word.endswith(_CALL)
    ):
        return
    word = kind_of(item, "name") if word == _SERVER_TOOL else kind_of(item)
    kind = _KINDS[place].get(word)
    if kind is None:
        kind = word.removesuffix(_CALL)
    if word in _FREE_WORDS:
        where, free = _FREE_WORDS[word]
        if kind_of(member(item, where)) in free:
            return
    if kind:
        queries = member(member(item, "arguments"), "queries") if place == "steps" else None
        count = len(queries) if isinstance(queries, (list, tuple)) else 1
        found[kind] = found.get(kind, 0) + count


def _read_choices(choices: Any, found: Uses) -> None:
    """Of OpenAI's search models, which search once for each call, and of Groq's tools."""
    for choice in choices:
        message = member(choice, "message") or member(choice, "delta")
        if type(message) is dict and _IN_MESSAGES.isdisjoint(message):
            continue
        for one in _items(message, "executed_tools"):
            _add("executed_tools", one, found)
        if any(member(it, "type") == "url_citation" for it in _items(message, "annotations")):
            found["web_search"] = max(found.get("web_search", 0), 1)


def _read_candidates(answer: object, candidates: Any, found: Uses) -> None:
    queries = 0
    for candidate in candidates:
        if type(candidate) is dict and _GROUNDING.isdisjoint(candidate):
            continue
        grounding = _either(candidate, "groundingMetadata", "grounding_metadata")
        if not is_object(grounding):
            continue
        chunks = _items(grounding, "groundingChunks", "grounding_chunks")
        asked = (
            *_items(grounding, "webSearchQueries", "web_search_queries"),
            *_items(grounding, "imageSearchQueries", "image_search_queries"),
        )
        is_found = any(member(it, "web") is not None for it in chunks)
        queries += len([it for it in asked if it]) or is_found
        token = ("googleMapsWidgetContextToken", "google_maps_widget_context_token")
        if _either(grounding, *token) or any(member(it, "maps") is not None for it in chunks):
            found["google_maps"] = 1
    if queries:
        version = _GEMINI.search(str(_either(answer, "modelVersion", "model_version")))
        is_by_query = version is None or int(version[1]) >= _BILLED_BY_QUERY
        found["google_search"] = queries if is_by_query else 1


def _either(obj: object, name: str, other: str) -> Any:
    found = member(obj, name)
    return member(obj, other) if found is None else found


def _items(obj: object, *names: str) -> Any:
    found = (member(obj, name) for name in names)
    return next((it for it in found if isinstance(it, (list, tuple))), ())


def untold(uses: Uses, counts: Uses, unread: tuple[str, ...]) -> tuple[Uses, tuple[str, ...]]:
    """The uses that the usage does not tell: by the field that prices them, and by name."""
    priced: Uses = {}
    named: list[str] = []
    for kind, count in uses.items():
        field = TOOL_COUNTS.get(kind)
        if field is None:
            if not any(kind in name for name in unread):
                named.append(f"tools.{kind}")
        elif field not in counts:
            priced[field] = priced.get(field, 0) + count
    return priced, tuple(named)
