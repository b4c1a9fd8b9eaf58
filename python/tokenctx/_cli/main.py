"""The command `tokenctx`: what it needs beyond the package is the extra `cli`."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typer import Typer

INSTALL = 'tokenctx: the command needs typer and rich; install them: pip install "tokenctx[cli]"'

GARBAGE_OBJECTS: Final = 100_000
"""All that is imported stays: to look for garbage in it was a twentieth of the start."""


def main() -> None:
    """Run the command and leave with its exit code: 0, 1 (a file failed) or 2 (bad usage)."""
    gc.set_threshold(GARBAGE_OBJECTS)
    sys.argv[1:] = _settings_first(sys.argv[1:])
    try:
        app = _application()  # typer and rich are optional
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich"}:
            raise
        sys.exit(INSTALL)
    if sys.stdout is None:  # closed by who started us
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        app()
    except BrokenPipeError:
        _hush()
        sys.exit(1)
    finally:
        _flush()


def _settings_first(words: list[str]) -> list[str]:
    """The words with `--settings FILE` before the command, behind which people write it too."""
    own = words[: words.index("--")] if "--" in words else words
    for place, word in enumerate(own[1:], 1):
        size = 2 if word == "--settings" else 1 if word.startswith("--settings=") else 0
        if size:
            return [*words[place : place + size], *words[:place], *words[place + size :]]
    return words


def _application() -> Typer:
    """The program; `count` is often run for a moment, and is had without the other commands."""
    if sys.argv[1:2] == ["count"]:
        from tokenctx._cli.count import alone

        return alone
    from tokenctx._cli.commands import app

    return app


def _flush() -> None:
    """Write out what is left, so that a reader who has gone is noticed here and not at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _hush()


def _hush() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
