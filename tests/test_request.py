"""Requests of every dialect become one neutral request, the same in both implementations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reference import request as reference
from tokenctx._core import _reply_view, _request_view

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parent / "data" / "requests"


def reference_view(body: object, **told: str) -> Any:
    return reference.view(reference.read_request(body, **told))


def rust_view(body: object, **told: str) -> Any:
    return json.loads(_request_view(body, **told))


def reference_reply(body: object) -> Any:
    return reference.reply_view(reference.read_reply(body))


def rust_reply(body: object) -> Any:
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


@pytest.mark.parametrize("view", [reference_view, rust_view], ids=["reference", "rust"])
@pytest.mark.parametrize("case", cases("[!r]*.json"))
def test_every_dialect_is_read_as_recorded(view: Callable[..., Any], case: dict[str, Any]) -> None:
    told = {key: case[key] for key in ("model", "dialect") if key in case}
    for body in forms(case["body"]):
        assert view(body, **told) == case["view"]


@pytest.mark.parametrize("view", [reference_reply, rust_reply], ids=["reference", "rust"])
@pytest.mark.parametrize("case", cases("replies.json"))
def test_replies_are_read_as_recorded(view: Callable[..., Any], case: dict[str, Any]) -> None:
    for body in forms(case["body"]):
        assert view(body) == case["view"]


def test_views_are_the_same_text() -> None:
    for param in cases("[!r]*.json"):
        body = param.values[0]["body"]
        body = body.encode() if isinstance(body, str) else body
        view = json.dumps(reference_view(body), ensure_ascii=False, separators=(",", ":"))
        assert _request_view(body) == view
