"""Requests of every dialect become one neutral request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tokenctx._core import _reply_view, _request_view

DATA = Path(__file__).parents[1] / "data" / "requests"


def view_of(body: object, **told: str) -> Any:
    return json.loads(_request_view(body, **told))


def reply_of(body: object) -> Any:
    return json.loads(_reply_view(body))


def cases(pattern: str) -> list[Any]:
    return [
        pytest.param(case, id=f"{path.stem}: {case['name']}")
        for path in sorted(DATA.glob(pattern))
        for case in json.loads(path.read_text(encoding="utf-8"))
    ]


def forms(body: object) -> list[object]:
    """`body` as JSON text in bytes and as an object, where it is more than JSON text."""
    if isinstance(body, str):
        return [body.encode(), body]
    return [json.dumps(body).encode(), json.dumps(body), body]


@pytest.mark.parametrize("case", cases("[!r]*.json"))
def test_every_dialect_is_read_as_recorded(case: dict[str, Any]) -> None:
    told = {key: case[key] for key in ("model", "dialect") if key in case}
    for body in forms(case["body"]):
        assert view_of(body, **told) == case["view"]


@pytest.mark.parametrize("case", cases("replies*.json"))
def test_replies_are_read_as_recorded(case: dict[str, Any]) -> None:
    for body in forms(case["body"]):
        assert reply_of(body) == case["view"]


def test_views_are_compact_json() -> None:
    for param in cases("[!r]*.json"):
        body = param.values[0]["body"]
        view = _request_view(body.encode() if isinstance(body, str) else body)
        assert view == json.dumps(json.loads(view), ensure_ascii=False, separators=(",", ":"))
