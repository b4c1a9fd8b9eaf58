"""Bills in the words of programs that keep logs: whether the input has its cached part in it.

Two programs write the same names and mean two things by them, so evidence is asked before names:
cached tokens that are more than the input stand beside it; else the total tells, where there is
one; else the names do, unless a count of the request is near to the other reading alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tokenctx.usage.normal import Usage
from tokenctx.usage.reading import number_of

if TYPE_CHECKING:
    from collections.abc import Mapping

WHOLE: Final = ("input", "input_tokens", "prompt_tokens", "promptTokens", "inputTokens", "prompt")
OUTPUT: Final = ("output", "output_tokens", "completion_tokens", "completionTokens", "outputTokens")
TOTAL: Final = ("total", "total_tokens", "totalTokens")
INSIDE: Final = frozenset({"cache_read_tokens", "cache_write_tokens", "cached_tokens"})
"""Names of cached tokens that are part of the input, by those who write them; others are beside."""
PART_PREFIXES: Final = ("input", "cache_", "prompt", "cached_")
PIECES: Final = ("ephemeral", "_5m", "_1h")
"""Marks of the pieces of a number that stands beside them."""
NEAR: Final = 0.25
"""A count is near to a bill that is at most so much more or less."""


@dataclass(frozen=True, slots=True)
class ToldBill:
    """The input and output of a call, as a log tells them.

    Attributes:
        other_input_tokens: The input by the other reading, where names alone decide.
        usage: All numbers of the bill, of all its calls where it took several.
    """

    input_tokens: int
    output_tokens: int = 0
    other_input_tokens: int | None = None
    usage: Usage | None = None

    def with_parts(self, read: int, written: int, reasoning: int) -> ToldBill:
        """The same with a usage, of which so much was read from a cache and written to one."""
        read = min(read, self.input_tokens)
        written = min(written, self.input_tokens - read)
        return replace(
            self,
            usage=Usage(
                uncached_input_tokens=self.input_tokens - read - written,
                cache_read_tokens=read,
                cache_write_tokens=written,
                output_tokens=self.output_tokens,
                reasoning_tokens=min(reasoning, self.output_tokens),
            ),
        )

    def judged(self, counted_tokens: int) -> int:
        """The input tokens, by a count of the request where names alone decide."""
        other = self.other_input_tokens
        if other is None or _is_near(self.input_tokens, counted_tokens):
            return self.input_tokens
        return other if _is_near(other, counted_tokens) else self.input_tokens


def _is_near(billed: int, counted: int) -> bool:
    return abs(billed - counted) <= NEAR * billed


def told_bill(
    whole: int, cached: int, output: int, more_output: int, total: int | None, *, is_beside: bool
) -> ToldBill:
    """The bill of `whole` input tokens and `cached` ones, which may be in it or beside it.

    A total that holds both is no evidence against names that say otherwise: langfuse adds up all
    numbers where it is sent no total.
    """
    both = whole + cached
    rest = {it: total - it for it in (whole, both)} if total is not None else {}
    is_told = {it: left in {output, output + more_output} for it, left in rest.items()}
    chosen = both if cached > whole or (is_beside and not is_told.get(whole)) else whole
    if more_output and rest.get(chosen) == output + more_output:
        output += more_output
    other = whole if chosen == both else both
    is_sure = not cached or cached > whole or (is_told.get(chosen) and not is_told[other])
    return ToldBill(chosen, output, None if is_sure else other)


def flat_bill(details: Mapping[str, Any]) -> ToldBill | None:
    """The bill in a flat list of numbers by name, as langfuse keeps it; None without an input."""
    found = {name: it for name, value in details.items() if (it := number_of(value)) is not None}
    whole = _first(found, WHOLE)
    output = _first(found, OUTPUT)
    parts = {
        name: number
        for name, number in found.items()
        if name.startswith(PART_PREFIXES) and name not in WHOLE and number
    }
    sums = {name for name in parts if not any(mark in name for mark in PIECES)}
    has_sum = any("creation" in name or "write" in name for name in sums)
    cached = sum(number for name, number in parts.items() if name in sums or not has_sum)
    if whole is None and not cached:
        return None
    more = sum(number for name, number in found.items() if name.startswith("output_") and number)
    is_beside = not parts.keys() <= INSIDE
    bill = told_bill(
        whole or 0, cached, output or 0, more, _first(found, TOTAL), is_beside=is_beside
    )
    written = sum(
        number
        for name, number in parts.items()
        if (name in sums or not has_sum) and ("creation" in name or "write" in name)
    )
    reasoning = sum(number for name, number in found.items() if "reasoning" in name)
    return bill.with_parts(cached - written, written, reasoning)


def _first(found: Mapping[str, int], names: tuple[str, ...]) -> int | None:
    return next((found[name] for name in names if name in found), None)
