"""Runs of the benchmarks and what is told of them, as a table in Markdown and a page with plots."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import Any, Final

import plots


@dataclass(frozen=True)
class Run:
    """One run of the benchmarks.

    Attributes:
        date: When it ran, ISO 8601 with time zone.
        machine: Processor, level of vector instructions, cores, Python, system.
        build: Compiler and Python with which instructions were counted; empty if they were not.
        ratios: By group: how many times as fast as the reference.
        seconds: By group and implementation: the least time.
        instructions: Per byte, by table and row.
    """

    commit: str
    date: str
    machine: dict[str, Any]
    ratios: dict[str, float]
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    instructions: dict[str, float] = field(default_factory=dict)
    build: str = ""

    @property
    def at(self) -> datetime:
        """When it ran."""
        return datetime.fromisoformat(self.date)

    @property
    def about(self) -> str:
        """The machine in words."""
        it = self.machine
        cores = f"{it['cores']} cores"
        return f"{it['processor']}, {it['level']}, {cores}, {it['system']}, Python {it['python']}"

    @property
    def kind(self) -> tuple[Any, ...]:
        """What has to be equal for two runs to be compared."""
        version = ".".join(str(self.machine["python"]).split(".")[:2])
        names = ("processor", "level", "cores", "system")
        return (*(self.machine[name] for name in names), version)


@dataclass(frozen=True)
class Finding:
    """What is told of one number.

    Attributes:
        before: Median of the last runs; None if there are none.
        change: From there to now; below 0 is slower.
        week: The trend, as a share a week; None if there are too few runs.
        alarm: Why somebody should look; empty if nobody has to.
    """

    name: str
    now: float
    before: float | None = None
    change: float | None = None
    week: float | None = None
    alarm: str = ""


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:+.1f} %"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def markdown(newest: Run, told: list[Finding], earlier_count: int) -> str:
    """The table for a pull request: what stands out first, the rest folded."""
    lines = [
        f"### Benchmarks of {newest.commit}",
        "",
        f"{newest.about};",
        f"beside {earlier_count} earlier runs on the same kind of machine.",
        "Numbers are times as fast as the reference, or instructions per byte; minus is slower.",
        "",
    ]
    head = ["| Number | now | before | change | a week | |"]
    head.append("| --- | --: | --: | --: | --: | --- |")

    def row(it: Finding) -> str:
        cells = (it.name, number(it.now), number(it.before), percent(it.change), percent(it.week))
        return f"| {' | '.join(cells)} | {it.alarm} |"

    alarms = [row(it) for it in told if it.alarm]
    others = [row(it) for it in told if not it.alarm]
    lines += [*head, *alarms, ""] if alarms else ["Nothing stands out.", ""]
    lines += ["<details><summary>All numbers</summary>", "", *head, *others, "", "</details>"]
    return "\n".join(lines) + "\n"


STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 46rem; padding: 0 1rem; }
figure { margin: 2rem 0; overflow-x: auto; }
figcaption { font-weight: 600; }
svg { min-width: 33rem; width: 100%; }
.alarm { color: #c0392b; font-weight: 600; }
@media (prefers-color-scheme: dark) {
  body { background: #131416; color: #ddd; --plot-1: #5fb3d9; }
  .alarm { color: #ff8a7a; }
}
"""


def page(history: list[Run], newest: Run, told: list[Finding]) -> str:
    """A page with a plot of each number over time, for the machine of the newest run."""
    runs = [run for run in history if run.kind == newest.kind]
    body = [f"<h1>Benchmarks</h1><p>{len(runs)} runs on {escape(newest.about)}.</p>"]
    for it in told:
        row = it.name.removeprefix("instructions: ")
        is_ratio = row == it.name
        kept = [
            (f"{run.at:%Y-%m-%d} {run.commit[:12]}", numbers[row])
            for run in runs
            for numbers in [run.ratios if is_ratio else run.instructions]
            if row in numbers and (is_ratio or run.build == newest.build)
        ]
        unit = "times as fast" if is_ratio else "instructions per byte"
        labels = [label.split()[0] for label, _ in kept]
        body.append(plots.line(f"{row}: {unit}", labels, [value for _, value in kept]))
        if it.alarm:
            body.append(f'<p class="alarm">{escape(it.alarm)}</p>')
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    style = f"<title>Benchmarks of tokenctx</title><style>{STYLE}</style>"
    whole = "".join(body)
    return f"<!doctype html><html lang=en><head>{head}{style}</head><body>{whole}</body></html>"
