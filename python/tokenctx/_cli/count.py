"""The command `count`, which starts without what the other commands need."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Final

import typer

from tokenctx._cli import files
from tokenctx._cli.application import application
from tokenctx._cli.help_texts import DIALECT, ENCODING, PROVIDER, examples
from tokenctx._cli.inputs import BadLine, Count, Kind, Options, counts, read_input
from tokenctx._cli.screen import complain, console, many_lines, progress, remark, say_faults
from tokenctx._core import _json_compact
from tokenctx._estimate.estimator import Method  # noqa: TC001  # typer reads annotations
from tokenctx._results.errors import Error
from tokenctx._results.estimates import Dialect, EncodingName  # noqa: TC001

UNREADABLE: Final = (Error, *files.UNREADABLE)
"""The errors of reading a file; BadGzipFile is an OSError."""
GIVEN: Final = "text"
"""The name of what stands in the command line, in the place of a file's."""
EXAMPLES: Final = examples(
    "count prompt.txt",
    'count --text "Why is the sky blue?" --model gpt-4o',
    "count --model claude-sonnet-4-5 request.json",
    "count --json requests.jsonl > counts.jsonl",
    "count - < request.json",
)


def count_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILES]...", help="Files, folders, globs; - is standard input."),
    ] = None,
    *,
    given: Annotated[
        str | None, typer.Option("--text", "-t", metavar="TEXT", help="Count this text.")
    ] = None,
    kind: Annotated[
        Kind | None, typer.Option("--as", help="What the files are. (default: detected)")
    ] = None,
    encoding: Annotated[
        EncodingName | None,
        typer.Option("--encoding", "-e", metavar="NAME", help=ENCODING),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Count for this model.")
    ] = None,
    dialect: Annotated[
        Dialect | None,
        typer.Option(metavar="NAME", help=DIALECT),
    ] = None,
    provider: Annotated[str | None, typer.Option(help=PROVIDER)] = None,
    method: Annotated[Method | None, typer.Option(help="How to count. (default: profile)")] = None,
    messages: Annotated[bool, typer.Option("--messages", help="Each message, each line.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="The price, and what is cached.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, one per input.")] = False,
) -> None:
    """Count the tokens of text files, request bodies, or lines of requests."""
    if encoding and (model or method or kind not in {None, "text"}):
        raise typer.BadParameter(
            "a vocabulary alone counts text; leave it out to count for a model, by a method, or "
            "as anything else",
            param_hint="--encoding",
        )
    if not words and given is None:
        raise typer.BadParameter("give a file, - for standard input, or --text", param_hint="files")
    if cost and model is None and (given is not None or kind == "text"):
        raise typer.BadParameter(
            "a text alone has no model, and so no price; name one by --model", param_hint="--cost"
        )
    options = Options(kind, encoding, model, dialect, method, provider, cost)
    is_counted = partial(_is_counted, with_messages=messages, as_json=as_json)
    paths, faults = files.named(words or (), skipped=())
    results = [not say_faults(faults), *(is_counted(str(path), options) for path in paths)]
    if given is not None:
        content = given.encode("utf-8", "surrogateescape")
        as_text = replace(options, kind="text")
        results.append(is_counted(GIVEN, as_text, content))
    if not all(results):
        raise typer.Exit(1)


def _is_counted(name: str, options: Options, content: bytes | None = None, **shown: bool) -> bool:
    """True if the whole file was counted; if not, the reason is on standard error."""
    try:
        return _count_file(name, options, content, **shown)
    except BrokenPipeError:
        raise
    except UNREADABLE as error:
        complain(name, error)
        if isinstance(error, FileNotFoundError):
            remark('that is no file; to count a text: tokenctx count --text "..."')
        return False


def _count_file(
    name: str, options: Options, content: bytes | None, *, with_messages: bool, as_json: bool
) -> bool:
    content = read_input(name) if content is None else content
    gathered: list[Count] = []
    bad_lines: list[BadLine] = []
    with progress(name, len(content)) as advance_to, many_lines() as print_one:
        for count, done in counts(name, content, options, as_json=as_json):
            advance_to(done)
            if isinstance(count, BadLine):
                bad_lines.append(count)
            elif isinstance(count, str):
                print_one(count)
            elif as_json:
                print_one(_json_compact(count.as_json()))
            elif count.kind == "jsonl" and not with_messages:
                gathered.append(count)
            else:
                from tokenctx._cli.tables import show_count

                show_count(console(), count, with_messages=with_messages)
    if gathered:
        from tokenctx._cli.tables import show_lines

        show_lines(console(), name, gathered)
    for line in bad_lines:
        complain(line.name, line.error)
    return not bad_lines


alone = application()
"""The program with this command only."""
alone.command("count", epilog=EXAMPLES)(count_command)
