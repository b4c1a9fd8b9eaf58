"""Budgets of a file: what is right is read, what is not is named with its place."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx._results.tables import read_table
from tokenctx.money.budgets import Budget, Budgets

if TYPE_CHECKING:
    from pathlib import Path

RIGHT: dict[str, Any] = {
    "about": "ours",
    "observe_only": True,
    "alarms": [0.5],
    "deadline_ms": 30,
    "budgets": [
        {"name": "minute", "tokens": 1_000, "per": "minute", "is_rolling": True, "by": "tenant"},
        {"name": "day", "money": "12.50", "per": "day", "by": ["tenant"], "plans": {"gold": "99"}},
        {"name": "slots", "concurrency": 4, "tenants": {"acme": 9}},
    ],
}
TOML = """
observe_only = true

[[budgets]]
name = "rpm"
requests = 60
per = "minute"
tenants = { acme = 90 }
"""


def _file(folder: Path, content: Any, name: str = "budgets.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_file_has_what_arguments_have(tmp_path: Path) -> None:
    budgets = Budgets.from_file(_file(tmp_path, RIGHT))
    assert repr(budgets) == "<Budgets minute, day, slots>"
    assert budgets.balance("day", {"plan": "gold"}).limit == Decimal(99)
    assert budgets.balance("slots", {"tenant": "acme"}).limit == 9


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is of Python 3.11")
def test_a_file_of_toml(tmp_path: Path) -> None:
    budgets = Budgets.from_file(_file(tmp_path, TOML, "budgets.toml"))
    assert budgets.balance("rpm", {"tenant": "acme"}).limit == 90
    with pytest.raises(ValueError, match=r"budgets.toml is no TOML: .*line 3"):
        Budgets.from_file(_file(tmp_path, "a = 1\n\nb = = 2\n", "budgets.toml"))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ('{"budgets": [\n{"name": "a",\n}', r"budgets.json is no JSON .*line 3"),
        ("[]", r"budgets.json is a list"),
        ("[" * 100_000, r"nested too deep|is no JSON"),
        ({}, r"`budgets` must be a list"),
        ({"budgets": {}}, r"`budgets` must be a list"),
        ({"budgets": [], "budget": 1}, r"the file has the key 'budget', .* none of .*budgets"),
        ({"budgets": [{"name": "a", "token": 1}]}, r"budgets\[0\] has the key 'token'.*tokens"),
        ({"budgets": [{"tokens": 1}]}, r"budgets.json, budgets\[0\]: `name` is missing"),
        (
            {"budgets": [RIGHT["budgets"][0], {"name": "a", "tokens": "many"}]},
            r"budgets\[1\]: tokens of 'a' is 'many'; it must be a whole number",
        ),
        ({"budgets": [{"name": "a", "tokens": 1, "per": "week"}]}, r"budgets\[0\]: per is 'week'"),
        ({"budgets": RIGHT["budgets"][:1] * 2}, r"budgets.json: two budgets have the same name"),
        ({"budgets": [], "lease_seconds": "long"}, r"`lease_seconds` is 'long'.* type number"),
        ({"budgets": [], "observe_only": "no"}, r"`observe_only` is 'no'.* type boolean"),
        ({"budgets": [], "alarms": [3]}, r"budgets.json: alarms are \(3,\)"),
        ({"budgets": [], "alarms": ["x"]}, r"budgets.json: "),
    ],
)
def test_what_is_not_right_is_named(content: Any, error: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=error):
        Budgets.from_file(_file(tmp_path, content))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Budgets.from_file(tmp_path / "none.json")


def test_the_schema_has_the_arguments() -> None:
    schema = read_table("budgets.schema")
    given = set(signature(Budgets.__init__).parameters) - {"self", "store", "prices", "on_alarm"}
    assert set(schema["properties"]) - {"$schema", "about"} == given
    fields = set(signature(Budget.__init__).parameters) - {"self"}
    assert set(schema["$defs"]["budget"]["properties"]) == fields


def test_the_schema_takes_what_is_read() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(read_table("budgets.schema"))
    validator.check_schema(read_table("budgets.schema"))
    assert validator.is_valid(RIGHT)
    assert not validator.is_valid({"budgets": [{"name": "a", "tokens": 1, "per": "week"}]})
    assert not validator.is_valid({"budgets": [{"name": "a", "tokens": 1, "requests": 1}]})
