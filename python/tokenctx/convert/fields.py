"""Options of a request: one row per field of a dialect, one neutral name per meaning."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tokenctx.convert.model import Option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tokenctx.convert.model import Conversation, Json, Path
    from tokenctx.convert.notes import Notes


LARGEST_NUMBER: Final = 2**53
"""The largest whole number that every JSON reader keeps."""


def _number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= LARGEST_NUMBER  # false for NaN too


def _whole(value: Any) -> bool:
    return isinstance(value, int) and _number(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _labels(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _any(_: Any) -> bool:
    return True


OPTIONS: Final[Mapping[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "model": _text,
        "max_output_tokens": _whole,
        "temperature": _number,
        "top_p": _number,
        "top_k": _number,
        "seed": _whole,
        "stop": _texts,
        "presence_penalty": _number,
        "frequency_penalty": _number,
        "choice_count": _whole,
        "logprobs": _flag,
        "top_logprobs": _whole,
        "stream": _flag,
        "stream_usage": _flag,
        "user_id": _text,
        "metadata": _labels,
        "store": _flag,
        "service_tier": _text,
        "safety_identifier": _text,
        "prompt_cache_key": _text,
        "verbosity": _text,
        "reasoning_effort": _text,
        "thinking_budget": _whole,
        "tool_choice": _any,
        "parallel_tool_calls": _flag,
        "response_format": _any,
    }
)
"""The neutral names, and what their values must be."""


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of a dialect.

    Attributes:
        place: Names on the way to it, joined by dots.
        name: The neutral name.
        read: The neutral value, or None if the value is not understood.
        write: The value of the dialect, or None if it has no word for it; None: only read.
        alias: Another spelling of the place.
    """

    place: str
    name: str
    read: Callable[[Any], Any] = _same
    write: Callable[[Any], Any] | None = _same
    alias: str = ""


def one_or_more(value: Any) -> Any:
    """A list of texts, of which a single one may stand alone."""
    return [value] if isinstance(value, str) else value


def one_of(*words: str) -> Callable[[Any], Any]:
    """The value if it is one of `words`."""
    return lambda value: value if value in words else None


@cache
def _by_place(rows: tuple[Field, ...]) -> tuple[dict[Path, list[Field]], set[Path]]:
    """The rows of each place, and the places on the way to one."""
    rows_of: dict[Path, list[Field]] = {}
    groups: set[Path] = set()
    for row in rows:
        for place in filter(None, (row.place, row.alias)):
            path: Path = tuple(place.split("."))
            rows_of.setdefault(path, []).append(row)
            groups.update(path[:length] for length in range(1, len(path)))
    return rows_of, groups


def read_options(
    body: Mapping[str, Any], rows: tuple[Field, ...], handled: frozenset[str]
) -> tuple[dict[str, Option], dict[Path, Any]]:
    """Options by neutral name, and what no row reads; a null is as good as nothing.

    `handled` are fields with readers of their own.
    """
    rows_of, groups = _by_place(rows)
    options: dict[str, Option] = {}
    extra: dict[Path, Any] = {}
    values: dict[Path, Any] = {}
    queue: list[tuple[Path, Any]] = [
        ((key,), value) for key, value in body.items() if key not in handled
    ]
    for path, value in queue:
        if path in groups and isinstance(value, dict):
            queue += [((*path, key), item) for key, item in value.items()]
        elif path in rows_of:
            values[path] = value
        elif value is not None:
            extra[path] = value
    for path, found in rows_of.items():  # in the order of the table: the first row wins
        value = values.get(path)
        if value is not None and not _read(found, value, path, options):
            extra[path] = value
    return options, extra


def _read(rows: Iterable[Field], value: Any, path: Path, options: dict[str, Option]) -> bool:
    is_read = False
    for row in rows:
        found = row.read(value)
        if found is not None and OPTIONS[row.name](found):
            options.setdefault(row.name, Option(found, path))
            is_read = True
    return is_read


def write_options(
    conversation: Conversation, rows: Iterable[Field], body: Json, notes: Notes
) -> None:
    """Set the fields of `body` that say what the options of `conversation` say."""
    writers: dict[str, list[Field]] = {}
    for row in rows:
        if row.write is not None:
            writers.setdefault(row.name, []).append(row)
    for name, option in conversation.options.items():
        is_written = False
        for row in writers.get(name, ()):
            value = row.write(option.value) if row.write is not None else None
            if value is not None:
                _set(body, row.place.split("."), value)
                is_written = True
        if not is_written:
            notes.lose("option", option.path)
    for path in conversation.extra:
        notes.lose("field", path)


def _set(body: Json, steps: list[str], value: Any) -> None:
    """Put `value` at `steps`; an object is merged with the object that is there."""
    for step in steps[:-1]:
        body = body.setdefault(step, {})
    last = steps[-1]
    if isinstance(value, dict) and isinstance(body.get(last), dict):
        body[last] = {**body[last], **value}
    else:
        body[last] = value
