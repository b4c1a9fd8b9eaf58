"""A limit: of which amount, for whom and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

Span = Literal["minute", "hour", "day"]
Unit = Literal["tokens", "money", "requests", "concurrency"]
Amount = int | str | Decimal

SECONDS: Final[dict[Span, int]] = {"minute": 60, "hour": 3600, "day": 86_400}
NANO: Final = 1_000_000_000
"""Money is kept in billionths: the cheapest token costs some of them."""
MOST: Final = 2**52
"""Redis computes in doubles, in which whole numbers up to twice this are exact."""
PARTS: Final = 60
"""Of a rolling window: what is older than it counts on for one of these at most."""


@dataclass(frozen=True, slots=True)
class Budget:
    """So many tokens, so much money or so many requests in a window of time, or in all.

    Or so many calls at once: `concurrency`. A request counts however it ends.

    Attributes:
        name: What refusals and statistics name it by.
        tokens: The limit in tokens, input and output together. One of the four limits is given.
        money: The limit in dollars, a decimal or its text.
        requests: The limit in requests.
        concurrency: The most calls that are under way at once; it has no window.
        per: `minute`, `hour` or `day`, from its beginning to its end by the clock of the store
            (UTC); None: in all.
        is_rolling: True for the time before now in place of a window with a beginning: what a call
            takes counts from its beginning for the length of `per`, and for a sixtieth of it more
            at most. So no span of that length has more than the limit.
        by: Names of the keys that have a budget each, as `("tenant", "model")`; empty: one for all.
        plans: Limits by the value of the key `plan`, in place of the limit.
        tenants: Limits by the value of the key `tenant`, which come before those.
        unit: The amount that it limits.
        limit: The limit in tokens, requests, calls, or billionths of a dollar.
    """

    name: str
    tokens: int | None = None
    money: Decimal | None = None
    requests: int | None = None
    concurrency: int | None = None
    per: Span | None = None
    is_rolling: bool = False
    by: tuple[str, ...] = ()
    plans: Mapping[str, int | Decimal] = field(default_factory=dict, hash=False)
    tenants: Mapping[str, int | Decimal] = field(default_factory=dict, hash=False)
    unit: Unit = field(init=False, repr=False, compare=False)
    limit: int = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        name: str,
        *,
        tokens: int | None = None,
        money: Amount | None = None,
        requests: int | None = None,
        concurrency: int | None = None,
        per: Span | None = None,
        is_rolling: bool = False,
        by: str | Iterable[str] = (),
        plans: Mapping[str, Amount] | None = None,
        tenants: Mapping[str, Amount] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"name is {name!r}; a budget needs a name")
        limits: dict[str, Any] = {
            "tokens": tokens,
            "money": money,
            "requests": requests,
            "concurrency": concurrency,
        }
        units = [unit for unit, limit in limits.items() if limit is not None]
        if len(units) != 1:
            raise ValueError(
                f"budget {name!r} needs either tokens or money, requests or concurrency; it has "
                f"{' and '.join(units) or 'none of them'}"
            )
        if per is not None and per not in SECONDS:
            raise ValueError(f"per is {per!r}; it must be one of {', '.join(SECONDS)}, or None")
        if concurrency is not None and per is not None:
            raise ValueError(f"budget {name!r} is one of concurrency, which has no `per`")
        if is_rolling and per is None:
            raise ValueError(f"budget {name!r} is rolling; it needs `per`, as 'minute'")
        keys = (by,) if isinstance(by, str) else tuple(by)
        if not all(isinstance(key, str) and key for key in keys):
            raise TypeError(f"by is {by!r}; it must be names of keys, as ('tenant', 'model')")
        unit = cast("Unit", units[0])
        limits[unit] = _checked(name, unit, limits[unit])
        for attribute, value in (
            ("name", name),
            *limits.items(),
            ("per", per),
            ("is_rolling", is_rolling),
            ("by", keys),
            ("plans", _limits(name, unit, "plans", plans)),
            ("tenants", _limits(name, unit, "tenants", tenants)),
        ):
            object.__setattr__(self, attribute, value)
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "limit", self.whole(limits[unit]))

    @property
    def seconds(self) -> int:
        """Length of its window; 0 if it has none."""
        return 0 if self.per is None else SECONDS[self.per]

    @property
    def parts(self) -> int:
        """The parts of its window, each of which is forgotten by itself: 1 if it does not roll."""
        return PARTS if self.is_rolling else 1

    @property
    def is_money(self) -> bool:
        """True if it limits money."""
        return self.money is not None

    def limit_for(self, keys: Mapping[str, str | None]) -> int:
        """As `limit`, for the tenant and the plan that `keys` say."""
        for key, limits in (("tenant", self.tenants), ("plan", self.plans)):
            if limits and (found := limits.get(keys.get(key) or "")) is not None:
                return self.whole(found)
        return self.limit

    def checked(self, limit: Amount) -> int:
        """A limit of this budget that may be kept. Raises TypeError or ValueError for any other."""
        return self.whole(_checked(self.name, self.unit, limit))

    def whole(self, amount: int | Decimal) -> int:
        """An amount as it is kept: whole numbers, of dollars billionths."""
        return int(amount * NANO) if self.is_money else int(amount)

    def told(self, amount: int) -> int | Decimal:
        """An amount as users read it: dollars, or what is counted."""
        return Decimal(amount) / NANO if self.is_money else amount


def _limits(
    name: str, unit: Unit, field: str, limits: Mapping[str, Amount] | None
) -> dict[str, int | Decimal]:
    if not isinstance(limits, (Mapping, type(None))):
        raise TypeError(f'{field} of {name!r} must be limits by name, as {{"gold": 1000}}')
    return {key: _checked(name, unit, limit) for key, limit in (limits or {}).items()}


def _checked(name: str, unit: Unit, limit: Amount) -> int | Decimal:
    if unit == "money":
        amount: int | Decimal = _decimal(limit)
        is_right = 0 <= amount * NANO <= MOST
    elif isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"{unit} of {name!r} is {limit!r}; it must be a whole number")
    else:
        amount, is_right = limit, 0 <= limit <= MOST
    if not is_right:
        raise ValueError(
            f"the limit of {name!r} is {limit}; it must be from 0 to "
            f"{f'{MOST // NANO} dollars' if unit == 'money' else f'{MOST} {unit}'}"
        )
    return amount


def _decimal(money: Amount) -> Decimal:
    if isinstance(money, (Decimal, int, str)) and not isinstance(money, bool):
        try:
            value = Decimal(money)
        except InvalidOperation:
            value = Decimal("NaN")
        if value.is_finite():
            return value
    raise ValueError(f'money is {money!r}; it must be a decimal or its text, as "12.50"')
