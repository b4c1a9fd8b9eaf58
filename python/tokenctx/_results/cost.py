"""The cost of a call, kept in whole numbers and told in dollars."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tokenctx._results.result import Result

if TYPE_CHECKING:
    from collections.abc import Mapping

STANDARD_KIND: Final = {
    "input": None,
    "cache_read": "input",
    "cache_write": "input",
    "cache_write_1h": "cache_write",
    "cache_write_12h": "cache_write",
    "input_audio": "input",
    "input_image": "input",
    "input_video": "input",
    "cache_read_audio": "cache_read",
    "cache_read_image": "cache_read",
    "output": None,
    "output_reasoning": "output",
    "output_audio": "output",
    "output_image": "output",
    "output_video": "output",
    "output_citation": "output",
    "web_search": None,
    "storage_search": None,
    "request": None,
}
"""What is billed, and as what it is billed where it has no price of its own."""
KINDS: Final = tuple(STANDARD_KIND)
AT: Final = {kind: place for place, kind in enumerate(KINDS)}
"""Where each kind is in a list of prices."""
UNITS: Final = 10**24
"""Parts of a dollar in which sums are made, so that they are exact."""


def _of(*beginnings: str) -> frozenset[int]:
    """Places of the kinds that begin so."""
    return frozenset(place for kind, place in AT.items() if kind.startswith(beginnings))


_OF_INPUT: Final = _of("input", "cache")
_OF_OUTPUT: Final = _of("output")
_OF_READ: Final = _of("cache_read")
_OF_WRITE: Final = _of("cache_write")
_OF_REQUEST: Final = _of("request")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cost(Result):
    """The cost of a call, in US dollars. None is unknown, never 0.

    Attributes:
        total: All of it, what the provider says (`source` is `billed`) before what the table says;
            None unless the price of each token is known. What `unpriced` names is not in it.
        low: Lower bound of the total; of an estimate, without output.
        high: Upper bound of the total; None if the most output is not known, or something used has
            no price.
        parts: Each kind that is billed: `input`, `cache_read`, `cache_write`, `cache_write_1h`,
            `cache_write_12h`, `output`, `output_reasoning`, `input_audio` and others by modality,
            `web_search`, `request`, and `passes`, compactions and advisors beside the answer.
        input: The parts that are input.
        output: The parts that are output: of an estimate, the most that the request asks for.
        uncached_input: Input that is neither read from the provider's cache nor written to it.
        cache_read: Input that is read from it.
        cache_write: Input that is written to it, for whatever time.
        request: What the call costs whatever its length; 0 for most.
        table_total: What the table says, where the provider says what the call cost; else None.
        unpriced: What was used and has no price, or only that of something cheaper: kinds, and
            words as `service_tier=flex`.
        factors: What changed the standard prices, and by how much: `{"service_tier=flex": "0.5"}`.
        currency: `USD`.
        tier_above_tokens: The prices are those of calls of more input tokens than this; 0 is all.
        next_tier_above_tokens: From the next token above this on, all of the call has other prices.
        tokens_to_next_tier: How many more input tokens still have the same prices.
        next_tier_factor: What a token of input costs there, in parts of what it costs here.
        model: The name that the prices were found by.
        provider: Whose prices they are.
        source: Where they are from: `caller`, `billed`, a gateway whose own sum it is (`litellm`),
            or a package with its version.
        date: The day that they are of.
        is_stale: Whether that was more than 90 days before the call.
        is_doubtful: Whether sources contradict each other about these prices, or they are another
            host's, since the one that was named has no row.
    """

    _parts: Mapping[int, int | None]
    _totals: tuple[int | None, int | None, int | None, int | None, str]
    _passes: int | None
    _priced: Any
    _size: int
    unpriced: tuple[str, ...]

    def __repr__(self) -> str:
        names = ("total", "low", "high", "model", "provider", "source", "unpriced")
        return f"Cost({', '.join(f'{name}={getattr(self, name)!s}' for name in names)})"

    def total_units(self) -> int | None:
        """The total in `UNITS`, of which a dollar has 10 ** 24; None if it is not known."""
        return self._totals[0]

    @property
    def total(self) -> Decimal | None:
        """All of it."""
        return dollars(self._totals[0])

    @property
    def low(self) -> Decimal | None:
        """Lower bound of the total."""
        return dollars(self._totals[1])

    @property
    def high(self) -> Decimal | None:
        """Upper bound of the total."""
        return dollars(self._totals[2])

    @property
    def table_total(self) -> Decimal | None:
        """The table's figure beside what the provider says."""
        return dollars(self._totals[3])

    @property
    def parts(self) -> Mapping[str, Decimal | None]:
        """Dollars by kind."""
        found = {KINDS[at]: dollars(it) for at, it in self._parts.items() if it != 0}
        return found if self._passes == 0 else {**found, "passes": dollars(self._passes)}

    @property
    def input(self) -> Decimal | None:
        """All input."""
        return self._sum(_OF_INPUT)

    @property
    def output(self) -> Decimal | None:
        """All output; None if it is not known."""
        return self._sum(_OF_OUTPUT) if _OF_OUTPUT & self._parts.keys() else None

    @property
    def uncached_input(self) -> Decimal | None:
        """Input beside the provider's cache."""
        return self._sum(_OF_INPUT - _OF_READ - _OF_WRITE)

    @property
    def cache_read(self) -> Decimal | None:
        """Input read from the provider's cache."""
        return self._sum(_OF_READ)

    @property
    def cache_write(self) -> Decimal | None:
        """Input written to the provider's cache."""
        return self._sum(_OF_WRITE)

    @property
    def request(self) -> Decimal | None:
        """What the call costs whatever its length."""
        return self._sum(_OF_REQUEST)

    @property
    def factors(self) -> Mapping[str, str]:
        """What changed the standard prices."""
        return dict(self._priced.rates.factors)

    @property
    def model(self) -> str:
        """The name that the prices were found by."""
        return str(self._priced.model)

    @property
    def provider(self) -> str:
        """Whose prices they are."""
        return str(self._priced.provider)

    @property
    def source(self) -> str:
        """Where they are from."""
        return self._totals[4] or str(self._priced.source)

    @property
    def date(self) -> str:
        """The day that they are of."""
        return str(self._priced.date)

    @property
    def is_stale(self) -> bool:
        """True if that was long before the call."""
        return bool(self._priced.is_stale)

    @property
    def is_doubtful(self) -> bool:
        """True if sources contradict each other, or the prices are those of another host."""
        return bool(self._priced.is_doubtful)

    @property
    def currency(self) -> str:
        """`USD`."""
        return "USD"

    @property
    def tier_above_tokens(self) -> int:
        """Where the prices of this length begin."""
        return max((it for it in self._lengths() if self._size > it), default=0)

    @property
    def next_tier_above_tokens(self) -> int | None:
        """Where other prices begin."""
        return min((it for it in self._lengths() if self._size <= it), default=None)

    @property
    def tokens_to_next_tier(self) -> int | None:
        """How many more input tokens have the same prices."""
        following = self.next_tier_above_tokens
        return None if following is None else following - self._size

    @property
    def next_tier_factor(self) -> Decimal | None:
        """What input costs there, in parts of what it costs here."""
        following = self.next_tier_above_tokens
        if following is None:
            return None
        price = self._priced.rates.price
        here, there = (price("input", it) for it in (self._size, following + 1))
        return there / here if here and there is not None else None

    def _lengths(self) -> tuple[int, ...]:
        return tuple(self._priced.rates.above)

    def _sum(self, places: frozenset[int]) -> Decimal | None:
        parts = [it for at, it in self._parts.items() if at in places]
        known = [it for it in parts if it is not None]
        return dollars(sum(known)) if len(known) == len(parts) and self._priced.rates.own else None


def dollars(units: int | None) -> Decimal | None:
    """An amount in dollars, without idle zeros."""
    if units is None:
        return None
    amount = Decimal(units).scaleb(-24).normalize()
    return amount.quantize(Decimal(1)) if amount >= 10 and amount == int(amount) else amount
