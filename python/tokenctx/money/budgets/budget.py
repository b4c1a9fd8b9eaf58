"""A limit: of which amount, for whom and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Span = Literal["minute", "hour", "day"]

SECONDS: Final[dict[Span, int]] = {"minute": 60, "hour": 3600, "day": 86_400}
NANO: Final = 1_000_000_000
"""Money is kept in billionths: the cheapest token costs some of them."""
MOST: Final = 2**52
"""Redis computes in doubles, in which whole numbers up to twice this are exact."""


@dataclass(frozen=True, slots=True)
class Budget:
    """So many tokens, or so much money, in each minute, hour or day (UTC), or in all.

    Attributes:
        name: What refusals and statistics name it by.
        tokens: The limit in tokens, input and output together; None if it is one of money.
        money: The limit in dollars, a decimal or its text; None if it is one of tokens.
        per: `minute`, `hour` or `day`, from its beginning to its end by the clock of the store;
            None: in all.
        by: Names of the keys that have a budget each, as `("tenant", "model")`; empty: one for all.
    """

    name: str
    tokens: int | None = None
    money: Decimal | None = None
    per: Span | None = None
    by: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        *,
        tokens: int | None = None,
        money: Decimal | int | str | None = None,
        per: Span | None = None,
        by: str | Iterable[str] = (),
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"name is {name!r}; a budget needs a name")
        if (tokens is None) == (money is None):
            raise ValueError(f"budget {name!r} needs either tokens or money")
        if per is not None and per not in SECONDS:
            raise ValueError(f"per is {per!r}; it must be one of {', '.join(SECONDS)}, or None")
        keys = (by,) if isinstance(by, str) else tuple(by)
        if not all(isinstance(key, str) and key for key in keys):
            raise TypeError(f"by is {by!r}; it must be names of keys, as ('tenant', 'model')")
        amount = None if money is None else _decimal(money)
        for field, value in (
            ("name", name),
            ("tokens", tokens),
            ("money", amount),
            ("per", per),
            ("by", keys),
        ):
            object.__setattr__(self, field, value)
        if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int)):
            raise TypeError(f"tokens is {tokens!r}; it must be a whole number")
        if not 0 <= self.limit <= MOST:
            raise ValueError(
                f"the limit of {name!r} is {tokens or money}; it must be from 0 to "
                f"{MOST} tokens or {MOST // NANO} dollars"
            )

    @property
    def limit(self) -> int:
        """The limit in tokens or in billionths of a dollar."""
        return self.tokens if self.tokens is not None else int((self.money or 0) * NANO)

    @property
    def seconds(self) -> int:
        """Length of its window; 0 if it has none."""
        return 0 if self.per is None else SECONDS[self.per]

    @property
    def is_money(self) -> bool:
        """True if it limits money."""
        return self.tokens is None


def _decimal(money: Decimal | int | str) -> Decimal:
    if isinstance(money, (Decimal, int, str)) and not isinstance(money, bool):
        try:
            value = Decimal(money)
        except InvalidOperation:
            value = Decimal("NaN")
        if value.is_finite():
            return value
    raise ValueError(f'money is {money!r}; it must be a decimal or its text, as "12.50"')
