"""The program that commands are added to: its options, and what it says of a wrong one."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tokenctx._cli.screen import print_line, visible
from tokenctx._core import __version__


class _Group(TyperGroup):
    """The commands; what they complain about in an option may be a foreign name."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that `ctx` asks for."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if isinstance(message := getattr(error, "message", None), str):
                error.message = visible(message)  # type: ignore[attr-defined]
            raise


def _print_version(is_asked: bool) -> None:  # noqa: FBT001  # typer's callback
    if is_asked:
        print_line(f"tokenctx {__version__}")
        raise typer.Exit


def _main(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    pass


def application() -> typer.Typer:
    """The program without commands."""
    app = typer.Typer(
        cls=_Group,
        add_completion=True,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        help="Input tokens of a chat request, known before it is sent.",
    )
    app.callback()(_main)
    return app
