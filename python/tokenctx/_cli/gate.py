"""The command `gate`: the requests of two versions of a program, for a pull request.

A request of HEAD should begin as the one of BASE does, and as the request before it in its
conversation: what stands behind the first difference is not read from the provider's cache.
"""

from __future__ import annotations

import gzip
import json
import subprocess
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tokenctx._cli.inputs import Options
from tokenctx._cli.inputs import count_request as counted_request
from tokenctx._cli.screen import (
    console,
    paragraph,
    print_document,
    print_line,
    print_table,
    remark,
    visible,
)
from tokenctx._cli.screen import text as safe
from tokenctx._core import _WRAPPERS
from tokenctx._results.errors import Error, RequestError
from tokenctx._results.tables import read_json
from tokenctx.money.cache.advice import LISTS, MARKS, End, first_change, start_of, until

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz")
MOST_FILES: Final = 10_000
MOST_FILE_BYTES: Final = 128 << 20
MOST_ROWS: Final = 50
"""Requests in a table; all are in the sums, and in `--json`."""
IDS: Final = frozenset({"tool_call_id", "tool_use_id", "call_id"})
CALLS: Final = frozenset({"tool_use", "function", "function_call", "server_tool_use", "reasoning"})
"""Parts whose `id` only says which result belongs to which call."""
ARGUMENTS: Final = ("arguments", "input", "args")
MARK: Final = "cache_control"
"""The place of a difference that is the last mark of a cache, gone."""
BESIDE_SYSTEM: Final = ("tool_choice", "thinking")
"""Options behind which messages are cached anew, and tools and system prompt are not."""
OPTIONS: Final = ("response_format", *BESIDE_SYSTEM)
SECONDS: Final = 60
"""So long git may take for one answer."""


class GateError(Error):
    """Two versions that cannot be compared; the message says why, and what to do."""


@dataclass(slots=True)
class Compared:
    """One request in both versions.

    Attributes:
        name: The file, and the line in it.
        base_tokens: Input tokens in BASE.
        tokens: Input tokens in HEAD.
        base_dollars: The price of the input, none of it cached; None if it is not known.
        dollars: Likewise, in HEAD.
        cold_tokens: Tokens of BASE, or of the call before, that HEAD does not read from the cache.
        place: The first difference, as `system` or `messages[3].content[0].text`; empty: none.
        byte: The first byte of a text there that is another.
        is_each_turn: True where HEAD does not begin as the call before it, and BASE does.
    """

    name: str
    base_tokens: int
    tokens: int
    base_dollars: Decimal | None
    dollars: Decimal | None
    cold_tokens: int = 0
    place: str = ""
    byte: int | None = None
    is_each_turn: bool = False

    @property
    def where(self) -> str:
        """The first difference in words."""
        at = "" if self.byte is None else f" at byte {self.byte:,}"
        turn = ", each turn anew" if self.is_each_turn else ""
        return f"{self.place}{at}{turn}" if self.place else ""

    def as_json(self) -> Json:
        """The numbers as JSON values; money is decimal text."""
        dollars = {"base_dollars": self.base_dollars, "dollars": self.dollars}
        return {
            "name": self.name,
            "base_tokens": self.base_tokens,
            "tokens": self.tokens,
            **{name: None if it is None else f"{it:f}" for name, it in dollars.items()},
            "cold_tokens": self.cold_tokens,
            "place": self.place,
            "byte": self.byte,
            "each_turn": self.is_each_turn,
        }


@dataclass(slots=True)
class Verdict:
    """All requests, and what is wrong with them.

    Attributes:
        alone: Names that one of the versions has alone, with its name.
    """

    requests: list[Compared] = field(default_factory=list)
    alone: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def tokens(self) -> tuple[int, int, int]:
        """Input tokens of BASE, of HEAD, and those that went cold."""
        rows = self.requests
        return (
            sum(it.base_tokens for it in rows),
            sum(it.tokens for it in rows),
            sum(it.cold_tokens for it in rows),
        )

    @property
    def dollars(self) -> tuple[Decimal, Decimal] | None:
        """The price of the input of BASE and of HEAD; None unless each is known."""
        pairs = [(it.base_dollars, it.dollars) for it in self.requests]
        known = [(one, two) for one, two in pairs if one is not None and two is not None]
        if len(known) < len(pairs):
            return None
        return sum((it for it, _ in known), Decimal(0)), sum((it for _, it in known), Decimal(0))

    @property
    def increase_percent(self) -> float:
        """How much more input HEAD has."""
        base, head, _ = self.tokens
        return 100 * (head - base) / max(1, base)

    @property
    def cold_percent(self) -> float:
        """The part of BASE's input that went cold."""
        base, _, cold = self.tokens
        return 100 * cold / max(1, base)


def gate_command(
    base: Annotated[str, typer.Argument(help="Requests before: a folder, a file, a git revision.")],
    head: Annotated[str, typer.Argument(help="Requests now, with the same names.")],
    *,
    path: Annotated[
        str | None, typer.Option(metavar="PATH", help="Of revisions: where the requests are.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The model of requests that name none.")
    ] = None,
    max_increase: Annotated[
        float, typer.Option(metavar="PERCENT", help="So much more input passes.")
    ] = 5.0,
    max_cold: Annotated[
        float, typer.Option(metavar="PERCENT", help="So much of the input may go cold.")
    ] = 0.0,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="A table for a pull request.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compare the requests of two versions: tokens, price, and what is cached no longer."""
    try:
        verdict = compared(requests_of(base, path), requests_of(head, path), model)
    except GateError as error:
        remark(str(error))
        raise typer.Exit(2) from None
    if verdict.increase_percent > max_increase:
        more = f"{verdict.increase_percent:+.2f} % input tokens, {max_increase:g} % pass"
        verdict.faults.append(more)
    if verdict.cold_percent > max_cold:
        verdict.faults.append(
            f"{verdict.cold_percent:.2f} % of the input is not read from the cache any more, "
            f"{max_cold:g} % pass"
        )
    _show(verdict, as_markdown=markdown, as_json=as_json)
    if verdict.faults:
        raise typer.Exit(1)


# ------------------------------------------------------------------------------------ the requests


def requests_of(version: str, path: str | None) -> dict[str, list[Json]]:
    """The requests of a version by the name of their file, a conversation of lines in each.

    Raises GateError for what is neither a path nor a revision, or has no requests.
    """
    place = Path(version)
    contents = _files(place) if place.exists() else _committed(version, path)
    found = {name: requests for name, it in contents if (requests := _requests(name, it))}
    if not found:
        raise GateError(
            f"{visible(version)} has no requests: JSON or JSON lines, one or more files"
        )
    return found


def _files(place: Path) -> Iterator[tuple[str, bytes]]:
    if place.is_file():
        yield "requests", _read(place)
        return
    paths = sorted(it for it in place.rglob("*") if it.name.endswith(SUFFIXES) and it.is_file())
    _check_count(len(paths), str(place))
    for path in paths:
        yield path.relative_to(place).as_posix(), _read(path)


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_FILE_BYTES:
            raise GateError(f"{path} has more than {MOST_FILE_BYTES >> 20} MiB; split it")
        return path.read_bytes()
    except OSError as error:
        raise GateError(f"{path}: {error.strerror or error}") from None


def _check_count(count: int, name: str) -> None:
    if count > MOST_FILES:
        raise GateError(f"{name} has {count:,} files of requests; at most {MOST_FILES:,} are read")


def _committed(revision: str, path: str | None) -> Iterator[tuple[str, bytes]]:
    """The files of a commit below `path`."""
    if path is None:
        raise GateError(
            f"{visible(revision)} is no file or folder; of a git revision say where the requests "
            "are, by --path"
        )
    folder = Path(path).as_posix().rstrip("/")
    listed = _git("ls-tree", "-r", "-z", "--name-only", "--end-of-options", revision, "--", folder)
    names = [it for it in listed.decode(errors="replace").split("\0") if it.endswith(SUFFIXES)]
    _check_count(len(names), revision)
    for name in names:
        own = "requests" if name == folder else name.removeprefix(f"{folder}/")
        yield own, _git("cat-file", "blob", f"{revision}:./{name}")


def _git(*words: str) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603  # git, with words that are no options
            ["git", *words],  # noqa: S607  # as the user has it
            capture_output=True,
            check=False,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GateError(f"git cannot be asked: {error}") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it failed"]
        raise GateError(f"git: {visible(lines[0])}")
    return done.stdout


def _requests(name: str, content: bytes) -> list[Json]:
    """The requests in a file. Raises GateError for one that is no JSON."""
    if name.endswith(".gz") or content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise GateError(f"{visible(name)}: {error}") from None
    whole, fault = read_json(content)
    if not fault:
        values = whole if isinstance(whole, list) and not _is_messages(whole) else [whole]
    else:
        values = []
        for number, line in enumerate(content.split(b"\n"), 1):
            if line.strip():
                value, fault = read_json(line)
                if fault:
                    raise GateError(f"{visible(name)}, line {number}: {fault}")
                values.append(value)
    return [_inner(it) for it in values if isinstance(it, (dict, list))]


def _is_messages(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(it, dict) and "role" in it for it in value)


def _inner(value: Any) -> Json:
    """The request in a recorded call or in a line of a batch; else the value."""
    if isinstance(value, list):
        return {"messages": value}
    inner = next((value[it] for it in _WRAPPERS if isinstance(value.get(it), dict)), None)
    request: Json = value if inner is None else inner
    return request


# ----------------------------------------------------------------------------------- what differs


def compared(
    base: dict[str, list[Json]], head: dict[str, list[Json]], model: str | None = None
) -> Verdict:
    """Each request of both versions. Raises GateError for one that cannot be counted."""
    verdict = Verdict()
    for name in sorted({*base, *head}):
        old, new = base.get(name, []), head.get(name, [])
        both = list(zip(old, new, strict=False))
        for number, (one, other) in enumerate(both):
            title = name if len(both) == 1 else f"{name}:{number + 1}"
            before = both[number - 1] if number else None
            verdict.requests.append(_compared(title, one, other, before, model))
        for number in range(len(both), max(len(old), len(new))):
            owner = "BASE" if len(old) > len(new) else "HEAD"
            verdict.alone.append((name if number == 0 else f"{name}:{number + 1}", owner))
    return verdict


def _compared(
    name: str, old: Json, new: Json, before: tuple[Json, Json] | None, model: str | None
) -> Compared:
    try:
        (base_tokens, base_dollars), (tokens, dollars) = _counted(old, model), _counted(new, model)
        found = Compared(name, base_tokens, tokens, base_dollars, dollars)
        one, other = plain(old), plain(new)
        change, is_each_turn = changed(one, other), False
        behind = one
        if before is not None and changed(plain(before[0]), one) is None:
            broken = changed(plain(before[1]), other)
            if broken is not None:
                change, is_each_turn, behind = broken, True, plain(before[1])
        if change is not None:
            found.place, found.byte = change
            end = start_of(change[0])
            if change[0] in BESIDE_SYSTEM:
                end = End(next((it for it in LISTS if it in behind), LISTS[0]), 0)
            kept = 0 if end is None else _tokens(until(behind, end), model)
            found.cold_tokens = max(1, _tokens(behind, model) - kept)
            found.is_each_turn = is_each_turn
    except RequestError as error:
        raise GateError(f"{visible(name)}: {error}") from None
    return found


def changed(old: Json, new: Json) -> tuple[str, int | None] | None:
    """The first difference of what is cached, and its byte; None if `new` goes on from `old`."""
    if _is_marked(old) and not _is_marked(new):
        return MARK, None
    for name in OPTIONS:
        if name not in BESIDE_SYSTEM and old.get(name) != new.get(name):
            return name, None
    found = first_change(old, new)
    if found is not None and found[0].partition("[")[0].partition(".")[0] not in LISTS:
        return found
    beside = next((it for it in BESIDE_SYSTEM if old.get(it) != new.get(it)), None)
    return found if beside is None else (beside, None)


def _is_marked(value: Any) -> bool:
    """True if there is a mark of a cache anywhere in a request."""
    if isinstance(value, dict):
        return any(name in MARKS or _is_marked(it) for name, it in value.items())
    return isinstance(value, list) and any(map(_is_marked, value))


def _counted(body: Json, model: str | None) -> tuple[int, Decimal | None]:
    named = body.get("model") or model
    found = counted_request("", "request", body, Options(model=model, with_cost=bool(named)))
    return found.tokens, None if found.cost is None else found.cost.input


def _tokens(body: Json, model: str | None) -> int:
    return counted_request("", "request", body, Options(model=model)).tokens


def plain(value: Any) -> Any:
    """A request as a provider reads it: without ids of calls, arguments as values."""
    if isinstance(value, list):
        return [plain(it) for it in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, it in value.items():
        if name in IDS or (name == "id" and value.get("type") in CALLS):
            continue
        if name in ARGUMENTS and isinstance(it, str):
            loaded, fault = read_json(it.encode(errors="surrogatepass"))
            made[name] = it if fault or not isinstance(loaded, dict) else loaded
        else:
            made[name] = it if name in ARGUMENTS and "name" in value else plain(it)
    return made


# ----------------------------------------------------------------------------------- what is shown


def _show(verdict: Verdict, *, as_markdown: bool, as_json: bool) -> None:
    if as_json:
        print_line(json.dumps(_as_json(verdict)))
        return
    rows = _rows(verdict)
    titles = ("request", "before", "now", "change", "cold", "from")
    if as_markdown:
        print_document(_markdown(verdict, titles, rows))
        return
    screen = console()
    if rows:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
        for title in titles:
            is_text = title in {"request", "from"}
            table.add_column(title, justify="left" if is_text else "right", overflow="fold")
        for row in rows:
            table.add_row(*map(safe, row))
        print_table(screen, table)
    for line in _lines(verdict):
        paragraph(screen, line)


def _as_json(verdict: Verdict) -> Json:
    base, head, cold = verdict.tokens
    dollars = verdict.dollars
    return {
        "base_tokens": base,
        "tokens": head,
        "cold_tokens": cold,
        "increase_percent": round(verdict.increase_percent, 4),
        "cold_percent": round(verdict.cold_percent, 4),
        "base_dollars": None if dollars is None else f"{dollars[0]:f}",
        "dollars": None if dollars is None else f"{dollars[1]:f}",
        "requests": [it.as_json() for it in verdict.requests],
        "alone": [{"name": name, "in": owner} for name, owner in verdict.alone],
        "faults": verdict.faults,
    }


def _rows(verdict: Verdict) -> list[tuple[str, ...]]:
    """The requests that differ, those that go cold first."""
    differing = [it for it in verdict.requests if it.place or it.tokens != it.base_tokens]
    differing.sort(key=lambda it: (-it.cold_tokens, -abs(it.tokens - it.base_tokens), it.name))
    return [
        (
            it.name,
            f"{it.base_tokens:,}",
            f"{it.tokens:,}",
            f"{it.tokens - it.base_tokens:+,}",
            f"{it.cold_tokens:,}" if it.cold_tokens else "",
            it.where,
        )
        for it in differing[:MOST_ROWS]
    ]


def _lines(verdict: Verdict) -> Iterator[str]:
    base, head, cold = verdict.tokens
    differ = sum(bool(it.place or it.tokens != it.base_tokens) for it in verdict.requests)
    yield f"{len(verdict.requests):,} requests, {differ:,} differ"
    yield f"input tokens: {base:,} before, {head:,} now ({verdict.increase_percent:+.2f} %)"
    if (dollars := verdict.dollars) is not None:
        yield f"dollars, none of it cached: {dollars[0]:.6f} before, {dollars[1]:.6f} now"
    yield f"not read from the cache any more: {cold:,} tokens ({verdict.cold_percent:.2f} %)"
    if differ > MOST_ROWS:
        yield f"{differ - MOST_ROWS:,} more that differ are in --json"
    for owner in ("BASE", "HEAD"):
        names = [name for name, it in verdict.alone if it == owner]
        if names:
            yield f"in {owner} alone: {len(names):,}, as {names[0]}"
    for fault in verdict.faults:
        yield f"FAILED: {fault}"
    if not verdict.faults:
        yield "passed"


def _markdown(verdict: Verdict, titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "**tokenctx gate: " + ("failed**" if verdict.faults else "passed**")
    lines = [head, "", *(f"- {_escaped(it)}" for it in _lines(verdict))]
    if rows:
        lines += ["", f"| {' | '.join(titles)} |", "| --- | --: | --: | --: | --: | --- |"]
        lines += [f"| {' | '.join(map(_escaped, row))} |" for row in rows]
    return "\n".join([*lines, ""])


def _escaped(foreign: str) -> str:
    """A foreign text in a cell of Markdown, in which nothing of it means anything."""
    shown = visible(foreign)
    return "".join(f"&#{ord(it)};" if it in "|<>&`*_[]\\!@#~" else it for it in shown)
