"""Objects that a caller may hand over as a body or a part of one: readable ones, hostile ones."""

from __future__ import annotations

import array
import collections
import dataclasses
import enum
import json
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Role(str, enum.Enum):
    USER = "user"


class Level(enum.IntEnum):
    HIGH = 3


class Shade(enum.Enum):
    PAIR = (1, "x")


class Text(str):
    __slots__ = ()


@dataclasses.dataclass
class Message:
    role: str
    content: object
    _note: str = "a field"


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    role: str


class Base:
    __slots__ = ("_hidden", "first", "unset")

    def __init__(self) -> None:
        self.first = 1
        self._hidden = 2


class Derived(Base):
    def __init__(self) -> None:
        super().__init__()
        self.second = 3
        self._secret = 4

    @property
    def computed(self) -> int:
        raise AssertionError


class Convertible:
    def to_dict(self) -> dict[str, object]:
        return {"role": Role.USER, "at": [Level.HIGH]}


class Model:
    def model_dump(self, **options: object) -> object:
        return options


class OldModel:
    def model_dump(self) -> object:
        return {"old": True}


class Point(collections.namedtuple("Point", "x y")):
    __slots__ = ()


READABLE: list[tuple[object, object]] = [
    (None, None),
    ((1, [2]), [1, [2]]),
    (Point(1, 2), [1, 2]),
    (Role.USER, "user"),
    (Level.HIGH, 3),
    (Shade.PAIR, [1, "x"]),
    (Text("x"), "x"),
    ({Role.USER: Text("x")}, {"user": "x"}),
    (
        {2: 0, 2.5: 0, True: 0, None: 0, float("inf"): 0, 10**30: 0},
        {"2": 0, "2.5": 0, "true": 0, "null": 0, "Infinity": 0, str(10**30): 0},
    ),
    (collections.OrderedDict(a=1), {"a": 1}),
    (collections.ChainMap({"a": 1}), {"a": 1}),
    (types.MappingProxyType({"a": 1}), {"a": 1}),
    (collections.deque([1]), [1]),
    (collections.UserDict({"a": {}}), {"a": {}}),
    (range(3), [0, 1, 2]),
    (
        Message("user", [Slotted("tool")]),
        {"role": "user", "content": [{"role": "tool"}], "_note": "a field"},
    ),
    (Slotted("user"), {"role": "user"}),
    (types.SimpleNamespace(a=types.SimpleNamespace(b=1)), {"a": {"b": 1}}),
    (Derived(), {"first": 1, "second": 3}),
    (Convertible(), {"role": "user", "at": [3]}),
    (Model(), {"by_alias": True, "exclude_none": True, "warnings": False, "mode": "python"}),
    (OldModel(), {"old": True}),
    ([b"\x00\xff", bytearray(b"f"), memoryview(b"abcd")[::2]], ["AP8=", "Zg==", "YWM="]),
]


class Hostile:
    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)


class HostileModel:
    def model_dump(self, **_: object) -> object:
        raise RecursionError


class HostileMapping(collections.UserDict[str, int]):
    def items(self) -> Any:
        raise KeyError


class Endless:
    def to_dict(self) -> object:
        return Endless()


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.count += 1
        return self.count


UNREADABLE: list[object] = [
    object(),
    HostileModel(),
    HostileMapping(),
    Endless(),
    Counter(),
    (number for number in range(3)),
    iter([1]),
    {1, 2},
    frozenset([1]),
    len,
    lambda: 1,
    json,
    Message,
    1j,
    array.array,
]
