"""`tokenctx context`: how full the window of a request is, with what, and what to do."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from tokenctx._cli import files
from tokenctx._cli.context_picture import Plans
from tokenctx._cli.context_view import screen, view
from tokenctx._cli.evaluation.recordings import RecordingError, recording_in
from tokenctx._cli.evaluation.transcripts.files import is_transcript
from tokenctx._cli.help_texts import DIALECT, PROVIDER
from tokenctx._cli.inputs import STANDARD_INPUT, is_request, priced, read_input
from tokenctx._cli.money import cache_line, cost_lines, expected
from tokenctx._cli.screen import complain, print_line
from tokenctx._results.errors import Error
from tokenctx._results.estimates import (
    Dialect,  # typer reads annotations at run time
    ModelLimits,
)
from tokenctx.context.limits import model_limits
from tokenctx.context.thresholds import PresetName
from tokenctx.context.window import ContextWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tokenctx._cli.evaluation.recordings import Turn
    from tokenctx._results.estimates import Estimate
    from tokenctx.context.usage import ContextUsage

UNREADABLE: Final = (Error, *files.UNREADABLE, RecordingError)
PRESET: Final = f"Compact as this agent does: {', '.join(get_args(PresetName))}."
MESSAGES: Final = "`messages`, `contents` or `input`"
FAULTY: Final = (*UNREADABLE, AttributeError, KeyError, TypeError, ValueError)
"""The errors of a file that has the right fields with the wrong values in them."""
PERIOD_SECONDS: Final = 0.5
"""How often a file is looked at that is watched."""


def context_command(
    file: Annotated[str, typer.Argument(help="A request, or a recorded conversation; - is input.")],
    *,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Who answers. (default: what it says)")
    ] = None,
    preset: Annotated[PresetName | None, typer.Option(metavar="NAME", help=PRESET)] = None,
    threshold: Annotated[
        str | None, typer.Option(help="Compact above: tokens, or a fraction as 0.9.")
    ] = None,
    window: Annotated[int | None, typer.Option(help="Context window in tokens.")] = None,
    reserve: Annotated[int | None, typer.Option(help="Tokens kept free for the answer.")] = None,
    limits: Annotated[Path | None, typer.Option(help="A JSON file of limits by model.")] = None,
    dialect: Annotated[Dialect | None, typer.Option(metavar="NAME", help=DIALECT)] = None,
    provider: Annotated[str | None, typer.Option(help=PROVIDER)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Again whenever the file changes.")
    ] = False,
) -> None:
    """Show how full the context window is, with what, and what compaction would do."""
    if watch and file == STANDARD_INPUT:
        raise typer.BadParameter("a pipe cannot be watched; give a file", param_hint="--watch")

    def made() -> ContextWindow:
        own = None if window is None else _limits(window, model)
        return ContextWindow(
            model,
            limits=own if own is not None else limits,
            threshold=_number(threshold),
            preset=preset,
            output_reserve=reserve,
            dialect=dialect,
            provider=provider,
        )

    try:
        made()
    except (TypeError, ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    names = {"model": model, "dialect": dialect, "provider": provider}
    if not watch:
        if not _is_shown(file, made, names, as_json=as_json):
            raise typer.Exit(1)
        return
    for is_first in _changes(file):
        _is_shown(file, made, names, as_json=as_json, clears=not is_first)


def _limits(window: int, model: str | None) -> ModelLimits:
    """The caller's window with the most output of the model."""
    return ModelLimits(window, None, model_limits(model or "").max_output_tokens)


def _number(text: str | None) -> float | None:
    """Tokens if it is a whole number, else a fraction."""
    if text is None:
        return None
    digits = text.replace(",", "").replace("_", "")
    try:
        return int(digits) if digits.isdecimal() else float(text)
    except ValueError:
        raise ValueError(f"threshold is {text!r}; it must be tokens or a fraction") from None


def _is_shown(
    file: str,
    made: Callable[[], ContextWindow],
    names: dict[str, Any],
    *,
    as_json: bool,
    clears: bool = False,
) -> bool:
    """True if the file could be shown; if not, the reason is on standard error.

    What the screen has is cleared for a new picture only, so the last good one stays.
    """
    try:
        window = made()
        usage, plans, call = measured(file, window, names)
        cost = priced(call, names["provider"])
    except BrokenPipeError:
        raise
    except FAULTY as error:
        complain(file, error)
        return False
    if clears:
        screen().clear()
    if as_json:
        told = {"cost": cost, "cache": call.cache}
        money = {name: None if it is None else it.as_dict() for name, it in told.items()}
        print_line(json.dumps({**usage.as_json(), "plans": asdict(plans), **money}))
    else:
        console = screen()
        lines = [cache_line(call.cache), *cost_lines(cost)]
        console.print(view(usage, plans, console, lines))
    return True


def measured(
    file: str, window: ContextWindow, names: dict[str, Any]
) -> tuple[ContextUsage, Plans, Estimate]:
    """Usage, plans and estimate of the request in a file, or of the last one of a recording."""
    content = read_input(file)
    body: Any = content
    before: list[Turn] = []
    if not is_request(content) or is_transcript(content):
        *before, last = _last_turns(file, content)
        body = last.body
        names = {**names, "model": names["model"] or last.model}
    for turn in before:
        window.record(turn.body, turn.billed, reply=turn.reply)
    plans = Plans(window.prune(body), window.retain(body))
    return window.usage(body), plans, expected(body, before, names)


def _last_turns(file: str, content: bytes) -> list[Turn]:
    """The last request of the first conversation, behind the two calls before it."""
    try:
        recording = recording_in(Path(file).name, content)
    except RecordingError as error:
        raise RecordingError(f"{error}; a request with {MESSAGES} would do too") from None
    conversation = next(recording.conversations, None)
    turns = deque(conversation.turns if conversation is not None else (), maxlen=3)
    if not turns:
        raise RecordingError("no call is in this file")
    return list(turns)


def _changes(file: str) -> Iterator[bool]:
    """True at first, then False each time that the file is another, is gone, or is back."""
    seen = _state(file)
    yield True
    while True:
        time.sleep(PERIOD_SECONDS)
        state = _state(file)
        if state != seen:
            seen = state
            yield False


def _state(file: str) -> tuple[int, int] | None:
    try:
        about = Path(file).stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size
