"""The commands: `count` and `replay`, and those of other files beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from tokenctx._cli.application import application
from tokenctx._cli.context import context_command
from tokenctx._cli.cost import cost_command
from tokenctx._cli.count import EXAMPLES, UNREADABLE, count_command
from tokenctx._cli.data import data_command
from tokenctx._cli.eval import eval_command
from tokenctx._cli.evaluation.recordings import (
    Conversation,
    Json,
    Recording,
    RecordingError,
    read_recording,
    recorded_in,
)
from tokenctx._cli.evaluation.replay import Figures, ReplayedTurn, replay
from tokenctx._cli.evaluation.steps import AFTER_TOTAL, StepReport
from tokenctx._cli.fit import fit_command, recordings_command
from tokenctx._cli.gate import gate_command
from tokenctx._cli.help_texts import RECORDINGS, examples
from tokenctx._cli.profiles import profiles_command
from tokenctx._cli.screen import (
    complain,
    console,
    paragraph,
    print_line,
    print_table,
    progress,
    remark,
    say_faults,
)
from tokenctx._cli.serve import serve_command
from tokenctx._cli.tables import (
    add_figures,
    add_turn,
    figure_table,
    reason_lines,
    step_table,
    total_line,
    turn_table,
)
from tokenctx._results.tables import table_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_RECORDING = (
    *UNREADABLE,
    *(RecordingError, AttributeError, KeyError, RecursionError, TypeError, ValueError),
)
"""The errors of a file that has the right fields with the wrong values in them."""


app = application()


app.command("count", epilog=EXAMPLES)(count_command)
app.command(
    "cost",
    epilog=examples(
        'cost "Why is the sky blue?" --model gpt-4o',
        "cost request.json",
        "cost logs/ ~/.claude/projects --by day,model",
        "cost 'logs/*.jsonl.gz' --model gpt-5-mini --state ledger",
    ),
)(cost_command)
app.command(
    "gate",
    epilog=examples(
        "gate before/ after/ --markdown",
        "gate main HEAD --path tests/requests --max-increase 2 --max-cold 10",
    ),
)(gate_command)
app.command(
    "context",
    epilog=examples(
        "context request.json",
        "context session.jsonl --preset claude-code",
        "context request.json --watch",
    ),
)(context_command)
app.command(
    "profiles",
    epilog=examples("profiles gpt-4o", "profiles gemini-2.5-pro --provider vertex"),
)(profiles_command)


app.command(
    "serve",
    epilog=examples(
        "serve",
        "serve --workers 4 --redis redis://cache:6379 --secret-file /etc/tokenctx/secret",
        "serve --known known.bin --secret-file secret",
    ),
)(serve_command)


@dataclass(slots=True)
class Report:
    """Figures of a replay as they come in: of all, by provider, and what is shown of each turn."""

    has_context: bool = True
    total: Figures = field(default_factory=Figures)
    by_provider: dict[tuple[str, str], Figures] = field(default_factory=dict)
    turns: list[ReplayedTurn] = field(default_factory=list)
    by_conversation: list[tuple[str, Figures]] = field(default_factory=list)
    steps: StepReport = field(default_factory=StepReport)

    def add(self, conversation: Conversation, *, keeps_turns: bool) -> None:
        """Replay `conversation` and count it in."""
        group = self.by_provider.setdefault((conversation.provider, conversation.api), Figures())
        own = Figures()
        figures = (self.total, group, own)
        for one in figures:
            one.conversations += 1
        for turn in replay(conversation):
            self.steps.add(conversation.provider, turn, has_context=conversation.has_context)
            for one in figures:
                one.add(turn, has_context=conversation.has_context)
            if keeps_turns:
                self.turns.append(turn)
        self.by_conversation.append((conversation.name, own))
        self.has_context &= conversation.has_context


@app.command("replay", epilog=examples("replay session.json", "replay calls.jsonl.gz --steps"))
def replay_command(
    words: Annotated[list[str], typer.Argument(metavar="FILES...", help=RECORDINGS)],
    *,
    provider: Annotated[str | None, typer.Option(help="Only this provider's.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="A row per conversation.")] = False,
    steps: Annotated[
        bool, typer.Option("--steps", help="Beside a recount and characters by four.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Replay recorded conversations turn by turn, beside what was billed."""
    files, faults = recorded_in(words)
    failed = say_faults(faults)
    report, recording = Report(), Recording(iter(()), 0, {})
    for file in files:
        try:
            _replay(file, provider, report, recording, is_only=len(files) == 1)
        except BrokenPipeError:  # noqa: PERF203  # of one file
            raise
        except NO_RECORDING as error:
            complain(str(file), error)
            failed.append(str(file))
    if not report.total.conversations:
        if not failed:
            remark(f"no conversation of provider {provider or 'any'} is in these files")
        raise typer.Exit(1)
    if as_json:
        print_line(json.dumps(_report_json(recording, report, with_conversations=verbose)))
    elif steps:
        _show_steps(report.steps)
    else:
        _show(recording, report, verbose=verbose)
    if failed:
        raise typer.Exit(1)


@app.command("demo", epilog=examples("demo"))
def demo_command() -> None:
    """Replay a session of a coding agent that is in the package: what `replay` does with yours."""
    replay_command([str(table_path("agent-session"))])


def _replay(
    file: Path, provider: str | None, report: Report, whole: Recording, *, is_only: bool
) -> None:
    """Replay the conversations of a file, and add up in `whole` what it has. Raises `NO_RECORDING`.

    Turns are kept of a single conversation.
    """
    recording, before = read_recording(file), report.total.conversations
    whole.about = whole.about or recording.about
    with progress("conversations", recording.conversation_count) as advance_to:
        for number, conversation in enumerate(recording.conversations, 1):
            if provider in {None, conversation.provider}:
                report.add(conversation, keeps_turns=is_only and recording.conversation_count == 1)
            advance_to(number)
    whole.conversation_count += recording.conversation_count
    for reason, count in recording.skipped.items():
        whole.skipped[reason] = whole.skipped.get(reason, 0) + count
    if report.total.conversations == before and (is_only or not recording.conversation_count):
        raise RecordingError(f"no conversation of provider {provider or 'any'} is in this file")


def _show(recording: Recording, report: Report, *, verbose: bool) -> None:
    screen = console()
    if recording.about:
        paragraph(screen, recording.about)
    if report.turns:
        table = turn_table()
        for turn in report.turns:
            add_turn(table, turn)
    else:
        table = figure_table("provider", "api")
        for titles, figures in sorted(report.by_provider.items()):
            add_figures(table, titles, figures)
    if verbose:
        conversations = figure_table("conversation")
        for name, figures in report.by_conversation:
            add_figures(conversations, (name,), figures)
        print_table(screen, conversations)
    print_table(screen, table)
    for line in _notes(recording, report):
        paragraph(screen, line)


def _show_steps(steps: StepReport) -> None:
    screen = console()
    print_table(screen, step_table(steps.whole))
    if steps.after_total:
        paragraph(screen, AFTER_TOTAL)
        print_table(screen, step_table(steps.after_total))


def _notes(recording: Recording, report: Report) -> Iterator[str]:
    yield total_line(report.total)
    yield from reason_lines(report.total)
    for reason, count in recording.skipped.items():
        yield f"not replayed: {count:,} x {reason}"
    if not report.has_context:
        yield (
            "System prompt and tools are not in this recording: estimated turns and full "
            "recounts are not comparable with what was billed, and in no error figure."
        )


def _report_json(recording: Recording, report: Report, *, with_conversations: bool) -> Json:
    providers = [
        {"provider": provider, "api": api, **figures.as_json()}
        for (provider, api), figures in sorted(report.by_provider.items())
    ]
    whole: Json = {"total": report.total.as_json(), "providers": providers}
    whole |= report.steps.as_json()
    whole["not_replayed"] = recording.skipped
    whole["turns"] = [turn.as_json() for turn in report.turns]
    if with_conversations:
        whole["conversations"] = [
            {"conversation": name, **figures.as_json()} for name, figures in report.by_conversation
        ]
    return whole


app.command(
    "eval",
    epilog=examples("eval calls.jsonl.gz --by model", "eval calls.jsonl --worst 10 --least 1"),
)(eval_command)
app.command(
    "recordings",
    epilog=examples("recordings spend_logs.jsonl --output calls.jsonl", "recordings spans.json"),
)(recordings_command)
app.command(
    "fit",
    epilog=examples("fit spend_logs.jsonl --profiles own.json --learned learned.json"),
)(fit_command)
app.command("data", epilog=examples("data", "data bundle.json --all"))(data_command)
