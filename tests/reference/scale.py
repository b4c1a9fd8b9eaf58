"""Usage in the measure of another window, by the interpreter's own JSON module."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from reference.tables import package_table

MAX_U64: Final = 2**64 - 1
NUMBER: Final = re.compile(
    rb'"(?:[^"\\]|\\.)*"|(-?\d+)([.eE][-+.eE\d]*)?', re.DOTALL
)  # or a string, which is skipped
ELEMENT_NUMBERS: Final = ("tokenCount", "token_count", "inputTokens", "tokens")
TABLE: Final = package_table("usage_fields")
PLACES: Final = [tuple(path.split(".")) for path in TABLE["places"]]
FIELDS: Final = {
    name: [tuple(path.split(".")) for path in paths] for name, paths in TABLE["fields"].items()
}
OUTPUT_FIELDS: Final = list(FIELDS)[list(FIELDS).index("output") :]

Point = tuple[int, int]
Numbers = list[tuple[str, int, int]]


class Change(NamedTuple):
    """One number of usage: the place of its digits, its path, and what it becomes."""

    start: int
    end: int
    path: str
    real: int
    scaled: int


class Scale:
    """A line through points (real tokens, scaled tokens) from (0, 0) on; the last piece goes on."""

    def __init__(self, points: list[Point], rounding: str) -> None:
        self.points = points
        self.rounding = rounding

    @property
    def is_linear(self) -> bool:
        """Whether one factor holds for all numbers."""
        return len(self.points) == 1

    def tokens(self, tokens: int) -> int:
        """`tokens` in the assumed measure."""
        start = (0, 0)
        for end in self.points:
            if tokens <= end[0] or end is self.points[-1]:
                break
            start = end
        run, rise = end[0] - start[0], end[1] - start[1]
        quotient, rest = divmod((tokens - start[0]) * rise, run)
        is_up = {"floor": False, "nearest": 2 * rest >= run, "ceil": rest > 0}[self.rounding]
        return min(start[1] + quotient + is_up, MAX_U64)

    def after(self, before: int, tokens: int) -> int:
        """What `tokens` more add to `before`, both real, in the assumed measure."""
        return self.tokens(min(before + tokens, MAX_U64)) - self.tokens(min(before, MAX_U64))

    def body(self, body: bytes, *, is_count: bool) -> tuple[bytes, Numbers]:
        """A body with scaled usage, and what changed."""
        changes = changed(self, body, Window(), is_count=is_count)
        return spliced(body, changes), named(changes)

    def stream(self, first_input_tokens: int | None = None) -> Any:
        """A stream whose usage is scaled."""
        from reference.sse import Rewriter

        return Rewriter(self, first_input_tokens)


def named(changes: list[Change]) -> Numbers:
    """Path, real and scaled number of what has a path."""
    return [(change.path, change.real, change.scaled) for change in changes if change.path]


def spliced(text: bytes, changes: list[Change]) -> bytes:
    """`text` with the digits of each change replaced."""
    for change in reversed(changes):
        text = text[: change.start] + str(change.scaled).encode() + text[change.end :]
    return text


class Window:
    """Real input of the response so far, and what fills `message_start`."""

    def __init__(self, first_input_tokens: int | None = None) -> None:
        self.input_tokens = 0
        self.first_input_tokens = first_input_tokens


class Digits(NamedTuple):
    """An integer and its place in the text."""

    start: int
    end: int
    number: int


def changed(scale: Scale, text: bytes, window: Window, *, is_count: bool = False) -> list[Change]:
    """What becomes of the usage in `text`, in its order; nothing if it is not JSON."""
    text = bytes(byte if byte < 128 else ord("?") for byte in text) if not is_utf8(text) else text
    places = [match.span() for match in NUMBER.finditer(text) if match[1] and not match[2]]
    order = iter(places)

    def digits(number: str) -> Digits | None:
        start, end = next(order)
        is_plain = number[0] != "-" and len(number) <= 20 and int(number) <= MAX_U64
        return Digits(start, end, int(number)) if is_plain else None

    try:
        root = json.loads(text.removeprefix(b"\xef\xbb\xbf"), parse_int=digits, strict=False)
    except (ValueError, RecursionError, StopIteration):
        return []
    changes = count_changes(scale, root) if is_count else response_changes(scale, root, window)
    return sorted(changes)


def is_utf8(text: bytes) -> bool:
    """Whether it can be decoded."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def response_changes(scale: Scale, root: Any, window: Window) -> list[Change]:
    """What becomes of the usage in a response or event."""
    is_start = isinstance(root, dict) and root.get("type") == "message_start"
    first = window.first_input_tokens if is_start else None
    changes: list[Change] = []
    for usage in usages_in(root, PLACES):
        changes += Reading(usage, window, first).changes(scale)
    return changes


def usages_in(value: Any, places: list[tuple[str, ...]]) -> list[dict[str, Any]]:
    """The objects that stand where usage may be, in the order of the text."""
    found = []
    for name, member in value.items() if isinstance(value, dict) else ():
        inner = [path[1:] for path in places if path[0] == name]
        found += [member] if () in inner and isinstance(member, dict) else []
        found += usages_in(member, [path for path in inner if path])
    return found


def count_changes(scale: Scale, root: Any) -> list[Change]:
    """What becomes of the answer of an endpoint that counts tokens."""
    changes = Reading(root, Window(), None).changes(scale)
    path = ("context_management", "original_input_tokens")
    if isinstance(found := at(root, path), Digits):
        changes.append(Change(found.start, found.end, ".".join(path), *scaled(scale, 0, found)))
    return changes


def scaled(scale: Scale, before: int, found: Digits) -> tuple[int, int]:
    """The real number and the scaled one."""
    return found.number, scale.after(before, found.number)


def at(value: Any, path: tuple[str, ...]) -> Any:
    """The value at the end of `path`; None without one."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


class Reading:
    """A usage object with the question answered what stands inside of what."""

    def __init__(self, usage: Any, window: Window, first_input_tokens: int | None) -> None:
        self.usage = usage
        self.found = {
            name: [(path, at(usage, path)) for path in paths if is_digits(at(usage, path))]
            for name, paths in FIELDS.items()
        }
        self.cache_read = self.of("cache_read_beside") or self.of("cache_read")
        self.cache_write = self.of("cache_write_beside") or self.of("cache_write")
        self.cached = self.cache_read + self.cache_write
        self.reasoning = self.of("reasoning_beside") or self.of("reasoning")
        self.audio_beside = 0
        beside = self.of("cache_read_beside") + self.of("cache_write_beside") > 0
        self.is_cache_beside = beside and not is_digits(at(usage, ("prompt_tokens",)))
        self.has_total = all(self.found[name] for name in ("input", "output", "total"))
        is_cohere = is_digits(at(usage, ("billed_units", "input_tokens")))
        if not self.has_total and self.cached > self.of("input"):
            self.is_cache_beside |= not is_cohere
        output, rest = self.of("output"), self.of("total") - self.of("tool_use_prompt")
        is_slip = self.reasoning - output <= output // 100 or (
            self.has_total and rest - self.all_input == self.reasoning
        )
        self.is_reasoning_beside = bool(self.found["reasoning_beside"]) or (
            self.reasoning > output and not is_slip
        )
        self.ask_total()
        self.first = first_input_tokens if self.all_input == 0 else None
        window.input_tokens = self.first or self.all_input or window.input_tokens
        self.window_tokens = window.input_tokens

    def of(self, name: str) -> int:
        """The number of the first path that has one."""
        return next((digits.number for _, digits in self.found[name]), 0)

    def ask_total(self) -> None:
        """What the total has more than input and output is what stands beside them."""
        beside = self.reasoning if self.is_reasoning_beside else 0
        more = self.of("total") - self.parts + self.all_output - self.of("output") - beside
        if not self.has_total or more <= 0:
            return
        cached = 0 if self.is_cache_beside else self.cached
        reasoning = 0 if self.is_reasoning_beside else self.reasoning
        if more in (reasoning, cached + reasoning):
            self.is_reasoning_beside = reasoning > 0
        if more != reasoning and more in (cached, cached + reasoning):
            self.is_cache_beside = self.is_cache_beside or cached > 0
        elif more == self.of("input_audio"):
            self.audio_beside = more

    @property
    def all_input(self) -> int:
        """Input with all that was cached."""
        return self.of("input") + (self.cached if self.is_cache_beside else 0) + self.audio_beside

    @property
    def all_output(self) -> int:
        """Output with all reasoning."""
        output = self.of("output")
        return output + self.reasoning if self.is_reasoning_beside else max(output, self.reasoning)

    @property
    def parts(self) -> int:
        """What a total is made of."""
        return self.all_input + self.of("tool_use_prompt") + self.all_output

    def changes(self, scale: Scale) -> list[Change]:
        """What becomes of each number."""
        tool_start = 0 if scale.is_linear else self.window_tokens
        output_start = 0 if scale.is_linear else self.window_tokens + self.of("tool_use_prompt")
        changes = []
        for name, found in self.found.items():
            for path, digits in found:
                if name == "input" and self.first is not None:
                    number = scale.tokens(self.first)
                elif name == "total":
                    number = self.scaled_total(scale, digits.number, tool_start, output_start)
                else:
                    start = tool_start if name == "tool_use_prompt" else self.start(name)
                    start += output_start if name in OUTPUT_FIELDS else 0
                    number = scale.after(start, digits.number)
                place = (digits.start, digits.end)
                changes.append(Change(*place, ".".join(path), digits.number, number))
        starts = {
            "input_by_modality": 0,
            "cache_by_modality": 0,
            "tool_use_by_modality": tool_start,
            "output_by_modality": output_start,
            "cache_write_by_ttl": self.cache_read,
        }
        for name, start in starts.items():
            changes += self.list_changes(scale, name, start)
        return changes + self.usages_changes(scale)

    def start(self, name: str) -> int:
        """What comes before a number in the sum that it is part of."""
        if name == "input":
            return self.cached if self.is_cache_beside else 0
        if name == "input_audio" and self.audio_beside:
            return self.all_input - self.audio_beside
        if name in ("reasoning", "reasoning_beside"):
            return self.of("output") if self.is_reasoning_beside else 0
        text, audio, image = (self.of(f"input_{kind}") for kind in ("text", "audio", "image"))
        before = {
            "cache_write": self.cache_read,
            "cache_write_beside": self.cache_read,
            "cache_write_5m": self.cache_read,
            "cache_write_1h": self.cache_read + self.of("cache_write_5m"),
            "cache_write_30m": self.cache_read,
            "cache_write_12h": self.cache_read + self.of("cache_write_30m"),
            "uncached": self.cached,
            "input_audio": text,
            "input_image": text + audio,
            "input_video": text + audio + image,
            "output_without_reasoning": self.reasoning,
            "output_audio": self.of("output_text"),
            "output_image": self.of("output_text") + self.of("output_audio"),
        }
        return before.get(name, 0)

    def scaled_total(self, scale: Scale, total: int, tool_start: int, output_start: int) -> int:
        """The sum of the scaled parts, and what a total has beside them scaled by itself."""
        if total < self.parts:
            return scale.tokens(total)
        parts = scale.tokens(self.all_input), scale.after(output_start, self.all_output)
        tool_use = scale.after(tool_start, self.of("tool_use_prompt"))
        return min(sum(parts) + tool_use + scale.tokens(total - self.parts), MAX_U64)

    def list_changes(self, scale: Scale, name: str, before: int) -> list[Change]:
        """What becomes of a list whose elements add up."""
        changes = []
        for list_name in TABLE["lists"][name]:
            for element in elements(self.usage, list_name):
                numbers = (at(element, (field,)) for field in ELEMENT_NUMBERS)
                digits = next(filter(is_digits, numbers), None)
                if digits is not None:
                    number = scale.after(before, digits.number)
                    changes.append(Change(digits.start, digits.end, "", digits.number, number))
                    before += digits.number
        return changes

    def usages_changes(self, scale: Scale) -> list[Change]:
        """What becomes of usage inside of usage."""
        changes: list[Change] = []
        for name in TABLE["lists"]["usages"]:
            value = at(self.usage, (name,))
            for usage in [value] if isinstance(value, dict) else elements(self.usage, name):
                reading = Reading({} if not isinstance(usage, dict) else usage, Window(), None)
                reading.usage = {
                    key: inner
                    for key, inner in reading.usage.items()
                    if key not in TABLE["lists"]["usages"]
                }
                changes += [change._replace(path="") for change in reading.changes(scale)]
        return changes


def elements(usage: Any, name: str) -> list[Any]:
    """The elements of a list; none of what is no list."""
    value = at(usage, (name,))
    return value if isinstance(value, list) else []


def is_digits(value: object) -> bool:
    """Whether it is an integer with a place."""
    return isinstance(value, Digits)
