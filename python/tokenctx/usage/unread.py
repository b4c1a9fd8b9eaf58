"""The names of what a usage object counts and no table knows, so that none of it is taken for 0."""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from tokenctx.usage.reading import (
    BESIDE,
    CALLS,
    COUNT,
    HAS_COUNTS,
    MAX_WORD,
    MODALITIES,
    NAMES,
    PLACE_NAMES,
    TABLE,
    TOOL_COUNTS,
    TOOL_USES,
    Name,
    Numbers,
    all_members,
    is_object,
    kind_of,
    modality_of,
    tool_counts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TTLS: Final = ("5m", "1h", "30m", "12h")
"""How long a cache is kept, in the words of those who bill it."""
_MAX_UNREAD: Final = 16
_MAX_DEPTH: Final = 3
_MAX_ITEMS: Final = 64
"""Of a list that no table names; a longer one is named itself."""
_FREE: Final = frozenset(TABLE["free"])
_NO_COUNT: Final = re.compile(
    r"(?:^|[._])(?:per|times?|durations?|millis|ms|costs?|ids?|index)(?:[._]|$)|\btext_tokens$"
)
"""A whole word by which it is none, though it sounds like one; money is read elsewhere."""
_CAPITAL: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])")
_MODALITIES: Final = frozenset({"", *MODALITIES.values()})


def _known(*names: str) -> dict[str, Name]:
    known = {name: Name() for name in names}
    for it in known.values():
        it.field = "count"
    return known


_ELEMENT: Final = _known("tokenCount", "token_count", "tokens", "inputTokens", "count", "modality")
"""The numbers of an element of a list by modality, time or tool."""


def unread_names(numbers: Numbers) -> tuple[str, ...]:
    """Paths of the numbers of a usage object that count what is billed and that no table names.

    Names alone, and at most 16 of them: also types of an iteration, modalities, times and tools.
    """
    if not numbers.has_unknown and not numbers.lists:
        return ()
    found = chain(
        _unread(numbers.usage, NAMES, "", 0) if numbers.has_unknown else (),
        _unread(numbers.tools, NAMES[TOOL_USES].members, f"{TOOL_USES}.", 1)
        if numbers.tools is not None
        else (),
        _unread_in_lists(numbers),
    )
    return tuple(dict.fromkeys(islice(found, _MAX_UNREAD)))


def _unread_in_lists(numbers: Numbers) -> Iterator[str]:
    for field, items in numbers.lists.items():
        path = f"{numbers.list_path(field)}."
        if field == "usages":
            for one in filter(is_object, items):
                if (kind := kind_of(one)) not in CALLS and kind not in BESIDE:
                    yield path + kind
                if kind in CALLS:
                    yield from _unread(one, NAMES, path, 1)
            continue
        if field == "tool_counts":
            uses = tool_counts(numbers)
            yield from (
                f"tools.{kind}" for kind, count in uses if count and kind not in TOOL_COUNTS
            )
            path = "tools."
        is_by_modality = field.endswith("_by_modality")
        for one in items:
            if is_by_modality and type(one) is dict and len(one) == 2:
                word = one.get("modality")
                is_plain = type(word) is str and type(one.get("tokenCount")) is int
                if is_plain and word in _MODALITIES:
                    continue  # as nearly all are
            if is_by_modality and modality_of(one).upper() not in _MODALITIES:
                yield path + kind_of({"type": modality_of(one)})
            if field == "cache_write_by_ttl" and kind_of(one, "ttl") not in TTLS:
                yield path + kind_of(one, "ttl")
            yield from _unread(one, _ELEMENT, path, 1)


def _unread(obj: object, names: dict[str, Name], path: str, depth: int) -> Iterator[str]:
    for key, value in all_members(obj):
        if not (type(key) is str and key.isidentifier() and len(key) <= MAX_WORD):
            continue
        name, full = names.get(key), path + key
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and value > 0:
            is_known = name is not None and (name.field or name.money or name.text)
            if not is_known and full not in _FREE and _is_count(_CAPITAL.sub("_", full).lower()):
                yield full
        elif is_number or depth == _MAX_DEPTH or (key in PLACE_NAMES and not path):
            continue  # a usage of its own is read as one
        elif isinstance(value, (list, tuple)):
            is_listed = name is not None and (name.list or not (path or name.members))
            if not is_listed and (name is not None or path or HAS_COUNTS.search(key.lower())):
                yield from _unread_items(value, full, depth + 1)
        elif is_object(value) and (name is not None or path or HAS_COUNTS.search(key.lower())):
            members = {} if name is None else name.members
            yield from _unread(value, members, f"{full}.", depth + 1)


def _unread_items(items: Sequence[Any], path: str, depth: int) -> Iterator[str]:
    """The names in a list that no table has, each behind the type of its element."""
    objects = [it for it in items[: _MAX_ITEMS + 1] if is_object(it)]
    for one in objects[:_MAX_ITEMS]:
        yield from _unread(one, {}, f"{path}.{kind_of(one)}.", depth)
    if len(objects) > _MAX_ITEMS:
        yield path


def _is_count(path: str) -> bool:
    return bool(COUNT.search(path)) and not _NO_COUNT.search(path)
