"""The program that commands are added to: its options, and what it says of a wrong one."""

from __future__ import annotations

import os
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from tokenctx._cli.screen import print_line, remark, visible
from tokenctx._core import __version__
from tokenctx._estimate.data import BUNDLE, installed_bundle

SETTINGS_VARIABLE: Final = "TOKENCTX_SETTINGS"


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


def _use_settings() -> None:
    """Take over the file of settings and the installed bundle; workers read them anew."""
    named = os.environ.get(SETTINGS_VARIABLE) or ""
    if not named and installed_bundle() is None:
        return
    from tokenctx.context.configuration import configure

    try:
        configure()
    except (OSError, TypeError, ValueError, ModuleNotFoundError) as error:
        name = getattr(error, "filename", None) or named or BUNDLE
        way_out = "" if named else "; tokenctx data --remove removes the installed bundle"
        remark(f"{name}: {getattr(error, 'strerror', None) or error}{way_out}")
        raise typer.Exit(2) from None


def _print_version(is_asked: bool) -> None:  # noqa: FBT001  # typer's callback
    if is_asked:
        print_line(f"tokenctx {__version__}")
        raise typer.Exit


def _main(
    context: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001  # its callback ends the program
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Show the version."
        ),
    ] = False,
    settings: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help=f"Your profiles, prices, limits and vocabularies; or {SETTINGS_VARIABLE}.",
        ),
    ] = None,
) -> None:
    if settings is not None:
        os.environ[SETTINGS_VARIABLE] = os.path.abspath(settings)  # noqa: PTH100  # as it was given
    if context.invoked_subcommand == "data":  # which mends what is wrong, and so begins without
        return
    _use_settings()


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
