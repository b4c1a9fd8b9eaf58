"""The context window as a page: one file without scripts, to open and to pass on."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from tokenctx._cli.context_picture import (
    COLOURS,
    Plans,
    Segment,
    basis_lines,
    headline,
    item_title,
    plan_lines,
    segments,
)
from tokenctx._cli.screen import visible
from tokenctx._core import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenctx.context.usage import ContextItem, ContextUsage

STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; margin-bottom: 0; }
h2 { font-size: 1rem; margin: 1.5rem 0 0.3rem; }
.bar { display: flex; height: 1.6rem; border-radius: 0.3rem; overflow: hidden; margin: 0.8rem 0; }
.bar span { min-width: 2px; }
table { border-collapse: collapse; width: 100%; }
td { padding: 0.15rem 0.4rem; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.mark { display: inline-block; width: 0.8rem; height: 0.8rem; border-radius: 0.15rem; }
.item td { opacity: 0.7; font-size: 0.9rem; }
.item td:first-child { padding-left: 2.2rem; overflow-wrap: anywhere; }
footer { margin-top: 2rem; opacity: 0.6; font-size: 0.85rem; }
"""


def page(usage: ContextUsage, plans: Plans, title: str) -> str:
    """The whole page. It holds numbers, names of tools and `title`; no text of a message."""
    parts = segments(usage)
    whole = sum(part.tokens for part in parts) or 1
    body = [
        f"<h1>{_safe(headline(usage))}</h1>",
        f"<div>{_safe(title)} {_safe(usage.model)} · {usage.basis.method}</div>",
        f'<div class="bar" role="img" aria-label="{_safe(headline(usage))}">',
        f"{_bar(parts, whole)}</div>",
        f"<table>{''.join(_rows(usage, parts))}</table>",
        "<h2>Basis</h2>",
        f"<table>{''.join(_basis(usage))}</table>",
        "<h2>Plan</h2>",
        *(f"<p>{_safe(line)}</p>" for line in plan_lines(usage, plans)),
        f"<footer>tokenctx {_safe(__version__)}</footer>",
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{_safe(headline(usage))}</title><style>{STYLE}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n'
        + "\n".join(body)
        + ("\n</body></html>\n")
    )


def _safe(foreign: str) -> str:
    return escape(visible(foreign))


def _bar(parts: list[Segment], whole: int) -> str:
    return "".join(
        f'<span style="width:{100 * part.tokens / whole:.4f}%;background:{COLOURS[part.name]}" '
        f'title="{_safe(part.title)}: {part.tokens:,}"></span>'
        for part in parts
    )


def _rows(usage: ContextUsage, parts: list[Segment]) -> Iterator[str]:
    window = usage.window_tokens or usage.total_tokens or 1
    items: dict[str, tuple[ContextItem, ...]] = {
        part.name: part.items for part in usage.categories if not part.is_deferred
    }
    for part in parts:
        mark = f'<span class="mark" style="background:{COLOURS[part.name]}"></span> '
        percent = f"{100 * part.tokens / window:.1f} %"
        yield _row(part.title, f"{part.tokens:,}", percent, mark=mark)
        for item in sorted(items.get(part.name, ()), key=lambda item: -item.tokens):
            yield _row(item_title(item), f"{item.tokens:,}", "", kind="item")
    for category in usage.categories:
        if category.is_deferred:
            title = f"{category.title}, deferred (in no sum)"
            yield _row(title, f"{category.tokens:,}", "", kind="item")


def _basis(usage: ContextUsage) -> Iterator[str]:
    for name, value in basis_lines(usage):
        yield f"<tr><td>{_safe(name)}</td><td>{_safe(value)}</td></tr>"


def _row(name: str, *values: str, mark: str = "", kind: str = "") -> str:
    numbers = "".join(f'<td class="number">{_safe(value)}</td>' for value in values)
    return f'<tr class="{kind}"><td>{mark}{_safe(name)}</td>{numbers}</tr>'
