"""`tokenctx serve`: the count endpoints of the vendors, answered on this machine."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import tempfile
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tokenctx._cli.screen import complain, print_line, visible
from tokenctx._estimate.arguments import MIN_SECRET_BYTES

if TYPE_CHECKING:
    from tokenctx._cli.workers import Settings

INSTALL: Final = "tokenctx serve needs {}; install it: pip install 'tokenctx[serve{}]'"
KEEP_ALIVE_SECONDS: Final = 65
"""Longer than the 60 s after which most proxies and clients drop an idle connection."""
STOP_SECONDS: Final = 10


def serve_command(
    *,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8484,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    redis: Annotated[
        str | None, typer.Option(metavar="URL", help="Share what is known by this Redis or Valkey.")
    ] = None,
    known: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Read known prefixes here, and write them at the end."),
    ] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Secret for --redis and --known, or TOKENCTX_SECRET."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="TOKENCTX_TOKEN",
            show_envvar=False,
            help="Ask callers for this token, or TOKENCTX_TOKEN.",
        ),
    ] = None,
    without_token: Annotated[
        bool, typer.Option("--without-token", help="Let whoever reaches the address ask.")
    ] = False,
    max_mb: Annotated[float, typer.Option(help="The longest body in MiB.")] = 32.0,
    max_seconds: Annotated[float, typer.Option(help="The longest time of a request.")] = 30.0,
) -> None:
    """Answer count_tokens requests of any client, and learn from recorded calls."""
    _require_packages(redis)
    from tokenctx._cli.workers import Settings  # other commands need no loop

    if not (token or without_token or _is_loopback(host)):
        raise typer.BadParameter(
            f"{host} can be reached by others: give --token or TOKENCTX_TOKEN, or, if whoever "
            "reaches it may ask, --without-token",
            param_hint="--host",
        )
    if max_mb <= 0 or max_seconds <= 0:
        raise typer.BadParameter("it must be above 0", param_hint="--max-mb, --max-seconds")
    if known is not None and not os.access(known.parent, os.W_OK):
        raise typer.BadParameter(
            f"{visible(str(known.parent))} is no folder that can be written to, so nothing that is "
            "known could be left there",
            param_hint="--known",
        )
    secret = _secret(secret_file, is_needed=bool(redis or known))
    with ExitStack() as stack:
        folder = None
        if workers > 1:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tokenctx-")))
        size = int(max_mb * (1 << 20))
        settings = Settings(token, secret, redis, known, folder, size, max_seconds)
        _merge(known, secret)
        _run(settings, host, port, workers)
        _merge(known, secret)


def _merge(known: Path | None, secret: bytes | None) -> None:
    """Make one file of what workers leave and have left; leave with 1 if that cannot be done."""
    from tokenctx._cli.workers import merge_known

    try:
        merge_known(known, secret)
    except (OSError, ValueError) as error:
        _fail(str(known), error)


def _run(settings: Settings, host: str, port: int, workers: int) -> None:
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    from tokenctx._cli.protocol import BoundedProtocol
    from tokenctx._cli.workers import make_app

    options: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False}
    config = uvicorn.Config(
        partial(make_app, settings),
        factory=True,
        http=BoundedProtocol,
        host=host,
        port=port,
        workers=workers,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        **options,
    )
    socket = config.bind_socket()
    socket.listen(config.backlog)  # who reads the line below is not refused
    shown = f"[{host}]" if ":" in host else host
    print_line(f"tokenctx serve: http://{shown}:{socket.getsockname()[1]}")
    if workers > 1:
        Multiprocess(config, [socket]).run()
    else:
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run([socket])


def _require_packages(redis: str | None) -> None:
    for package in ("uvicorn", "prometheus_client", *(["redis"] if redis else [])):
        if importlib.util.find_spec(package) is None:
            extra = ",redis" if package == "redis" else ""
            raise typer.BadParameter(INSTALL.format(package, extra))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _secret(file: Path | None, *, is_needed: bool) -> bytes | None:
    """The secret of a file or of the environment; None if there is none, and need be none."""
    try:
        secret = os.environb.get(b"TOKENCTX_SECRET") if file is None else file.read_bytes()
    except OSError as error:
        _fail(str(file), error)
    secret = secret.strip() if secret else None
    if secret is None and is_needed:
        raise typer.BadParameter(
            "--redis and --known need the same secret in every process: give --secret-file or "
            "TOKENCTX_SECRET"
        )
    if secret is not None and len(secret) < MIN_SECRET_BYTES:
        raise typer.BadParameter(
            f"it has {len(secret)} bytes; at least {MIN_SECRET_BYTES} are needed",
            param_hint="--secret-file",
        )
    return secret


def _fail(name: str, error: BaseException) -> Any:
    complain(name, error)
    raise typer.Exit(1) from None
