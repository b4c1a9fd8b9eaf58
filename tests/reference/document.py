"""A request body as plain Python values: dict, list, str, bytes, int, float, bool, None."""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tokenctx import RequestError

MAX_DEPTH = 1024
_BYTES = (bytes, bytearray, memoryview)


class Anomalies(set[str]):
    """Names of what was odd in a body and was mended on reading."""


def load(body: object, anomalies: Anomalies) -> Any:
    """Plain values of `body`: JSON text in bytes or str, or any Python or SDK object."""
    if isinstance(body, _BYTES):
        return _parse(_decode(bytes(body), anomalies), anomalies)
    if isinstance(body, str):
        return _parse(_mend(body, anomalies), anomalies)
    return _plain(body, anomalies, 0)


def compact(value: Any) -> str:
    """JSON text without white space, keys in the given order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_base64)


def canonical(value: Any) -> str:
    """JSON text without white space, keys sorted by code point."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=_base64
    )


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _decode(body: bytes, anomalies: Anomalies) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        anomalies.add("invalid_utf8")
        return body.decode("utf-8", "replace")


def _mend(text: str, anomalies: Anomalies) -> str:
    """`text` with surrogate pairs joined and lone surrogates as U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        anomalies.add("lone_surrogate")
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _parse(text: str, anomalies: Anomalies) -> Any:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mended = {_mend(key, anomalies): value for key, value in pairs}
        if len(mended) < len(pairs):
            anomalies.add("duplicate_key")
        return mended

    if text.startswith("\ufeff"):
        anomalies.add("byte_order_mark")
        text = text[1:]
    try:
        value = json.loads(text, object_pairs_hook=members, strict=False)
    except RecursionError:
        raise RequestError("body is nested too deeply", "too_deep", limit=MAX_DEPTH) from None
    except ValueError:
        raise RequestError("body is not JSON", "syntax") from None
    return _plain(value, anomalies, 0)


def _plain(value: Any, anomalies: Anomalies, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise RequestError("body is nested too deeply", "too_deep", limit=MAX_DEPTH)
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _mend(str(value), anomalies)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            anomalies.add("non_finite_number")
        return float(value)
    if isinstance(value, _BYTES):
        return bytes(value)
    value = _members(value)
    if isinstance(value, Mapping):
        mended: dict[str, Any] = {}
        for key, item in value.items():
            name = _mend(key if isinstance(key, str) else json.dumps(key), anomalies)
            if name in mended:
                anomalies.add("duplicate_key")
            mended[name] = _plain(item, anomalies, depth + 1)
        return mended
    if isinstance(value, Sequence):
        return [_plain(item, anomalies, depth + 1) for item in value]
    anomalies.add("unreadable_value")
    return None


def _members(value: Any) -> Any:
    """`value` as a mapping of its public fields where it is an object with fields."""
    if isinstance(value, (Mapping, Sequence)):
        return value
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="python", by_alias=True, exclude_none=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        return {name: item for name, item in vars(value).items() if not name.startswith("_")}
    return value


def parse_arguments(text: str) -> tuple[Any, bool]:
    """The value of a tool call's argument text, and whether the text is JSON at all."""
    if not text.strip(" \t\n\r"):
        return {}, True
    try:
        return _parse(text, Anomalies()), True
    except RequestError:
        return None, False


ASCII_SPACE = " \t\n\r\f"
"""White space that is stripped around names and types."""


def ascii_lower(text: str) -> str:
    """`text` with A to Z in lower case and nothing else changed."""
    return text.translate(_LOWER)


def ascii_upper(text: str) -> str:
    """`text` with a to z in upper case and nothing else changed."""
    return text.translate(_UPPER)


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_UPPER = {lower: upper for upper, lower in _LOWER.items()}
