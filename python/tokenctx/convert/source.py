"""The input of the caller: JSON text, dicts and SDK objects as plain values; its dialect."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import enum
import json
from collections.abc import Mapping, Set
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from tokenctx._core import _converted_dialect, _is_json, _json_compact
from tokenctx._results.errors import RequestError
from tokenctx.convert import frameworks

if TYPE_CHECKING:
    from tokenctx.convert.model import Json, Source


def plain(value: Any) -> Any:
    """`value` as JSON values: text is parsed, SDK objects are dumped, all else stays the same.

    Raises RequestError for text that is not JSON, for a key that is no scalar and for what is
    nested too deeply.
    """
    if isinstance(value, bytes | bytearray | str):
        return _parsed(value)
    try:
        return value if _is_json(value) else _copied(frameworks.plain(value))
    except RecursionError:
        raise _too_deep() from None


def fields_of(body: object) -> dict[str, Any]:
    """The fields of `body` as JSON values; of a list, `messages` alone. Raises as `plain`."""
    is_text = isinstance(body, str | bytes | bytearray | memoryview)
    value = plain(_json_compact(body) if is_text else body)  # what the core repairs is repaired
    fields = value if isinstance(value, dict) else {"messages": value}
    inner = fields.get("generateContentRequest")
    return inner if isinstance(inner, dict) else fields


def _parsed(text: bytes | bytearray | str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        code = "encoding" if isinstance(error, UnicodeError) else "syntax"
        at = getattr(error, "pos", None)
        raise RequestError(f"the body is not JSON, at {at}", code, at) from None


def _too_deep() -> RequestError:
    return RequestError("the body is nested too deeply for this interpreter", "too_deep")


def _copied(value: Any) -> Any:
    root: list[Any] = [value]
    pending: list[tuple[Any, Any]] = [(root, 0)]
    around: set[int] = set()
    count = 0
    while pending:
        holder, key = pending.pop()
        if holder is None:  # all that is in `key` is done
            around.remove(id(key))
            continue
        value = holder[key]
        item = _opened(value)
        if isinstance(item, dict | list):
            if id(value) in around:
                raise RequestError("the body holds itself", "too_deep")
            around.add(id(value))
            pending.append((None, value))
            if isinstance(item, dict):
                item = {_key(name): inner for name, inner in item.items()}
                pending += [(item, name) for name in item]
            else:
                item = list(item)
                pending += [(item, index) for index in range(len(item))]
        holder[key] = item
        count += 1
        if count + len(pending) > MAX_VALUES:
            raise RequestError(
                f"the body has more than {MAX_VALUES} values", "too_many_values", limit=MAX_VALUES
            )
    return root[0]


def _key(name: object) -> str:
    """The name of a member as `json.dumps` writes it, which refuses what is no scalar."""
    if isinstance(name, enum.Enum):
        name = name.value
    if isinstance(name, str):
        return str.__str__(name)
    if isinstance(name, bool | int | float) or name is None:
        with contextlib.suppress(ValueError):  # an int of too many digits
            return json.dumps(name)
    raise RequestError(f"a key is {type(name).__name__}, which JSON cannot write", "syntax")


MAX_VALUES: Final = 2**22
"""As many as a document holds."""


def _opened(value: Any) -> Any:
    """One level of an object as a dict, a list or a plain value."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bool | int | float | str | dict | list) or value is None:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode("ascii")
    if hasattr(value, "model_fields_set"):
        return _fields(value)
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | Set) or hasattr(value, "__next__"):
        return list(value)
    return dict(vars(value)) if hasattr(value, "__dict__") else str(type(value).__name__)


def _fields(value: Any) -> Json:
    """The fields of a pydantic model that were set, under the names of the wire."""
    about = type(value).model_fields
    extra = getattr(value, "model_extra", None) or {}
    found = {
        (about[name].serialization_alias or about[name].alias or name): getattr(value, name)
        for name in about
        if name in value.model_fields_set
    }
    return {**found, **extra}


def detect(body: Json | list[Any]) -> tuple[Source, bool]:
    """The dialect that the evidence in a body, or in its messages, tells.

    `openai-chat` where nothing speaks against it. And whether another is as likely.
    """
    try:
        found, is_close = _converted_dialect(body)
    except RequestError:  # The core reads no such depth or size; what tells the dialect is above.
        found, is_close = _converted_dialect(_top(body, TOP_LEVELS))
    return cast("Source", found), is_close


TOP_LEVELS: Final = 5
"""Body, messages, message, content, part."""
TOP_ITEMS: Final = 256


def _top(value: Any, levels: int) -> Any:
    """The first levels of `value`, and the first items of each; what is below is empty."""
    if isinstance(value, dict):
        items = islice(value.items(), TOP_ITEMS if levels else 0)
        return {str(name): _top(inner, levels - 1) for name, inner in items}
    if isinstance(value, list):
        return [_top(inner, levels - 1) for inner in value[: TOP_ITEMS if levels else 0]]
    return value
