"""The month on one page: one file of HTML with its pictures in it, and no script.

Names of models, tenants, conversations and files are foreign: each is escaped, and no text of a
message is in the ledger.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from tokenctx._cli.screen import visible
from tokenctx._cli.spend.causes import CAUSES, again, tools
from tokenctx._cli.spend.report import GROUPS, dollars, groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tokenctx._cli.spend.bill import Line
    from tokenctx._cli.spend.causes import Cause
    from tokenctx._cli.spend.ledger import Ledger
    from tokenctx._cli.spend.report import Elsewhere, Group

KINDS: Final = {
    "read": "read from a cache",
    "written": "written to one",
    "again": "paid again",
    "new": "new input",
    "output": "output",
    "tools": "searches, fees",
}
"""The kinds of spending; what was paid again is in neither written nor new."""
MOST_DAYS: Final = 92
MOST_ROWS: Final = 15
MOST_LINES: Final = 40
NAME_CHARACTERS: Final = 120
WIDTH, HEIGHT, FOOT = 640, 180, 26
STYLE: Final = """
:root{color-scheme:light dark;--back:#fff;--text:#1b1d21;--soft:#646a73;--line:#d9dce1;
--read:#2f7ebc;--written:#8b5cc7;--again:#d1433f;--new:#e09a1a;--output:#2f9364;--tools:#7d8590}
@media(prefers-color-scheme:dark){:root{--back:#15171a;--text:#e8eaed;--soft:#9aa1ab;--line:#343840;
--read:#5ea9e0;--written:#b08ae6;--again:#ef716c;--new:#f0b84a;--output:#5cc293;--tools:#9aa1ab}}
*{box-sizing:border-box}body{margin:0 auto;max-width:60rem;padding:1rem;background:var(--back);
color:var(--text);font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .4rem}p{margin:.4rem 0}
.big{font-size:2.2rem;font-weight:650}.soft{color:var(--soft)}
table{border-collapse:collapse;width:100%;font-size:.9rem}caption{text-align:left}
th,td{padding:.25rem .5rem .25rem 0;border-bottom:1px solid var(--line);text-align:left;
vertical-align:top}th{overflow-wrap:normal}td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.keys{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;padding:0;font-size:.9rem}
.keys i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}
svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font-size:11px}
.bar{display:flex;height:1.2rem;border-radius:3px;overflow:hidden;background:var(--line)}
@media(max-width:480px){body{padding:.6rem}svg text{font-size:20px}
table,tbody,tr{display:block}thead{display:none}
tr{border-bottom:1px solid var(--line);padding:.3rem 0}
td,td.n{display:flex;justify-content:space-between;gap:1rem;border:0;padding:.05rem 0;
white-space:normal;text-align:left}td::before{content:attr(data-t);color:var(--soft);flex:none;margin-right:1em}}
@media print{:root{--back:#fff;--text:#000;--soft:#444;--line:#bbb}body{max-width:none;padding:0;
font-size:11px}h2{break-after:avoid}tr,svg{break-inside:avoid}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""


def page(
    ledger: Ledger,
    total: Group,
    causes: Sequence[Cause],
    others: Sequence[Elsewhere],
    notes: Iterable[str],
    bill: Sequence[Line],
) -> str:
    """The page, of a ledger whose causes were found."""
    days = groups(ledger, ("day",))
    title = "What was spent"
    named = sorted(it.names[0] for it in days if it.names[0])
    span = f"{named[0]} to {named[-1]} (UTC)" if named else "no times in the files"
    parts = [
        f"<h1>{title}</h1><p class=big>{_money(total.nano)}</p>",
        f"<p class=soft>{total.calls:,} calls, {_text(span)}</p>",
        _kinds(_split(total, again(ledger, "''").get("", (0, 0)))),
        _by_day(ledger, days),
        _section("Models", _groups(ledger, "model")),
        _section("What was paid again, and why", _causes(ledger, causes)),
        _section("The same tokens elsewhere", _elsewhere(others)),
        _section("Largest tenants", _groups(ledger, "tenant")),
        _section("Largest conversations", _groups(ledger, "conversation")),
        _section("Largest tools, by what their results added to the input", _tools(ledger)),
        _section("The bill of the provider", _bill(bill)),
        _section("What is not in the sums", _list(notes)),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _text(foreign: str) -> str:
    """A foreign name as text of HTML, cut where it is long."""
    shown = visible(foreign)
    if len(shown) > NAME_CHARACTERS:
        shown = f"{shown[: NAME_CHARACTERS - 1]}…"
    return escape(shown, quote=True)


def _money(nano: int) -> str:
    digits = 2 if abs(nano) >= 10**8 or nano == 0 else 6
    return f"${dollars(nano):,.{digits}f}"


def _split(group: Group, paid_again: tuple[int, int]) -> dict[str, int]:
    """The nano-dollars of each of `KINDS`; they add up to those of the group."""
    sums, (written, new) = group.sums, paid_again
    return {
        "read": sums["nano_read"],
        "written": sums["nano_written"] - written,
        "again": written + new,
        "new": sums["nano_new"] - new,
        "output": sums["nano_output"],
        "tools": sums["nano_tools"],
    }


def _kinds(split: dict[str, int]) -> str:
    whole = max(1, sum(split.values()))
    bar = "".join(
        f'<span style="width:{100 * nano / whole:.2f}%;background:var(--{kind})"></span>'
        for kind, nano in split.items()
    )
    keys = "".join(
        f'<li><i style="background:var(--{kind})"></i>{KINDS[kind]} {_money(nano)} '
        f"<span class=soft>{100 * nano / whole:.0f} %</span></li>"
        for kind, nano in split.items()
    )
    return f'<div class=bar>{bar}</div><ul class="keys">{keys}</ul>'


def _by_day(ledger: Ledger, days: Sequence[Group]) -> str:
    dated = sorted((it for it in days if it.names[0]), key=lambda it: it.names)[-MOST_DAYS:]
    if not dated:
        return ""
    paid_again = again(ledger, GROUPS["day"])
    splits = [(it.names[0], _split(it, paid_again.get(it.names[0], (0, 0)))) for it in dated]
    most = max(1, *(sum(it.values()) for _, it in splits))
    step = WIDTH / len(splits)
    bars = []
    for nth, (day, split) in enumerate(splits):
        top = float(HEIGHT)
        about = escape(f"{day}: {_money(sum(split.values()))}")
        pieces = []
        for kind, nano in split.items():
            height = HEIGHT * max(0, nano) / most
            top -= height
            if height > 0:
                pieces.append(
                    f'<rect x="{nth * step + step * 0.1:.1f}" y="{top:.2f}" '
                    f'width="{step * 0.8:.1f}" height="{height:.2f}" fill="var(--{kind})"/>'
                )
        bars.append(f"<g><title>{about}</title>{''.join(pieces)}</g>")
    first, last = splits[0][0], splits[-1][0]
    labels = f'<text x="0" y="{HEIGHT + 18}">{escape(first)}</text>'
    if last != first:
        labels += f'<text x="{WIDTH}" y="{HEIGHT + 18}" text-anchor="end">{escape(last)}</text>'
    picture = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + FOOT}" role="img" aria-label="Dollars by day">'
        f"{''.join(bars)}{labels}</svg>"
    )
    rows = [
        (day, *(_money(it) for it in (sum(split.values()), *split.values())))
        for day, split in splits
    ]
    table = _table(("day", "dollars", *KINDS.values()), rows)
    return _section("By day", f"{picture}<details><summary>in numbers</summary>{table}</details>")


def _groups(ledger: Ledger, by: str) -> str:
    found = [it for it in groups(ledger, (by,), MOST_ROWS) if it.names[0]]
    if not found:
        return ""
    paid_again = again(ledger, GROUPS[by])
    rows = []
    for it in found:
        split = _split(it, paid_again.get(it.names[0], (0, 0)))
        money = _money(it.nano) if it.calls > it.unpriced_calls else "no price"
        share = 100 * split["again"] / max(1, it.nano)
        tokens = (it.sums["input_tokens"], it.sums["read_tokens"], it.sums["output_tokens"])
        row = (it.names[0], money, f"{share:.0f} %", *(f"{count:,}" for count in tokens))
        rows.append((*row, f"{it.calls:,}"))
    return _table((by, "dollars", "paid again", "input", "read", "output", "calls"), rows)


def _causes(ledger: Ledger, causes: Sequence[Cause]) -> str:
    rows = []
    for it in causes:
        when = "" if it.first is None else f"{it.first:%Y-%m-%d %H:%M}"
        rows.append((CAUSES[it.name], _money(it.nano), f"{it.tokens:,}", f"{it.calls:,}", when))
    table = _table(("why", "dollars", "tokens", "calls", "from"), rows)
    largest = ledger.rows(
        "select conversation, coalesce(strftime(moment, '%Y-%m-%d %H:%M'), ''), turn, cause, "
        "again_tokens, nano_again_written + nano_again_new as nano from spent "
        f"where again_tokens > 0 order by nano desc, again_tokens desc, seq limit {MOST_ROWS}"
    )
    dearest = [
        (name, f"{when} call {turn}".strip(), CAUSES[cause], f"{tokens:,}", _money(nano or 0))
        for name, when, turn, cause, tokens, nano in largest
    ]
    if not rows:
        return ""
    titles = ("conversation", "at", "why", "tokens", "dollars")
    return f"{table}<h2>The dearest of these calls</h2>{_table(titles, dearest)}"


def _elsewhere(others: Sequence[Elsewhere]) -> str:
    rows = [
        (it.name, _money(it.nano), _money(it.here_nano), f"{it.unpriced_calls:,}")
        for it in others
        if it.here_nano
    ]
    return _table(("with", "would cost", "instead of", "calls without a price there"), rows)


def _tools(ledger: Ledger) -> str:
    rows = [
        (name or "unknown", f"{tokens:,}", f"{calls:,}")
        for name, calls, tokens in tools(ledger, MOST_ROWS)
    ]
    return _table(("tool", "tokens", "calls"), rows)


def _bill(bill: Sequence[Line]) -> str:
    if not bill:
        return ""
    billed, ours = sum(it.billed_nano for it in bill), sum(it.ours_nano for it in bill)
    share = 100 * (ours - billed) / billed if billed else 0.0
    rows = [
        (it.day or "-", it.model, _money(it.billed_nano), _money(it.ours_nano), it.why)
        for it in bill[:MOST_LINES]
    ]
    about = f"<p>Billed {_money(billed)}, here {_money(ours)}: {share:+.2f} %.</p>"
    return about + _table(("day", "model", "billed", "here", "why"), rows)


def _list(notes: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(visible(it))}</li>" for it in notes)
    return f"<ul>{items}</ul>" if items else "<p>Nothing.</p>"


NUMBERS: Final = frozenset("dollars tokens calls input read output billed here at from".split()) | {
    "paid again",
    "would cost",
    "instead of",
    "calls without a price there",
    *KINDS.values(),
}


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    shown = [' class="n"' if it in NUMBERS else "" for it in titles]
    head = "".join(f"<th{kind}>{escape(it)}</th>" for it, kind in zip(titles, shown, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f'<td{kind} data-t="{escape(title)}"><span>{_text(cell)}</span></td>'
            for cell, title, kind in zip(row, titles, shown, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""
