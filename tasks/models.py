"""A model that is new: its rows in the tables of facts, and the case that holds its name."""

import argparse
import json
import re
from datetime import datetime, timezone
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from tasks.environment import setup
from tasks.steps import PYTHON, QUICK, ROOT, StepError, run, say

DATA = "python/tokenctx/data"
CASES = "tests/data/models.json"
ANSWERS = "tests/data/answers/counts.json"
NEW_PRICES = "benches/studies/new_prices.json"
"""Rows that no package has yet: the study of prices keeps them until one does."""
DOCUMENTS = "d"
"""The letter of rows that are from documents, and not from packages of prices and limits."""
MESSAGES = [
    {"role": "system", "content": "Answer in one sentence."},
    {"role": "user", "content": "Why is the sky blue?"},
]
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Look a word up.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
    },
}
"""The request whose count is recorded; a test tells when it changes."""
KINDS = ("input", "cache_read", "cache_write", "output")


def add_model(options: argparse.Namespace) -> None:
    """Write profile, name case, limits and prices of a model that is new; --help has an example."""
    rows = Rows(options, ROOT)
    for path, text in rows.changed().items():
        (ROOT / path).write_text(text, "utf-8")
        say(f"{path}: a row for {options.name}")
    setup("cli", "test", profile=QUICK)
    run("answers", PYTHON, "tests/rigs/answers.py", imports=f"{ROOT}/tests/rigs:{ROOT}/tests")
    say("review them by git diff, then: python3 dev.py test")


def model_options(parser: argparse.ArgumentParser) -> None:
    """The options of `add_model`."""
    parser.epilog = (
        "python3 dev.py add_model gpt-6-mini --like gpt-5 --window 400000 --output 128000 "
        "--price input=0.25 cache_read=0.025 output=2 --source 'OpenAI: models, 2026-11'"
    )
    parser.add_argument("name", help="as its maker writes it, in lower case")
    parser.add_argument("--like", required=True, help="the profile that it counts as")
    parser.add_argument("--window", type=int, required=True, help="tokens, in and out")
    parser.add_argument("--output", type=int, help="the most tokens of an answer")
    parser.add_argument("--price", nargs="+", required=True, help="dollars per million tokens")
    parser.add_argument("--source", required=True, help="where it is from, with a day")
    parser.add_argument("--host", help="who answers (default: the provider of --like)")


class Rows:
    """The rows of one model, each as text in its table; nothing is written here."""

    def __init__(self, options: argparse.Namespace, root: Path) -> None:
        self._name: str = options.name.strip()
        self._options, self._root = options, root
        self._day = datetime.now(timezone.utc).date().isoformat()
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", self._name):
            raise StepError(
                f"add_model: the name is {self._name!r}; write the model's own, in lower case, "
                "without a host: gpt-6-mini"
            )
        if not options.source.strip():
            raise StepError("add_model: --source is empty; name the page or the calls, with a day")
        self._prices = dict(map(_price, options.price))
        if not {"input", "output"} <= self._prices.keys():
            raise StepError("add_model: --price lacks input or output: --price input=2.5 output=10")

    def changed(self) -> dict[str, str]:
        """The tables with the new rows, by path."""
        name, table = self._name.replace(".", "-"), f"{DATA}/limits.json"
        host = self._options.host or self._provider()
        limits = [self._options.window, None, self._options.output, DOCUMENTS]
        price = {kind: self._prices[kind] for kind in KINDS if kind in self._prices}
        key = f"{host}/{self._name}"
        priced = json.dumps({**price, "sources": DOCUMENTS})
        limited = self._sourced(self._inserted(table, name, json.dumps(limits).replace(" ", "")))
        case = {"model": self._name, "profile": self._name}
        asked = {"model": self._name, "body": {"messages": MESSAGES, "tools": [TOOL]}, "answer": []}
        documented = self._json(NEW_PRICES)
        documented[key] = {**price, "about": f"{self._options.source}, {self._day}"}
        return {
            f"{DATA}/profiles.json": self._profiled(),
            CASES: _appended(self._text(CASES), f"    {json.dumps(case)}\n"),
            ANSWERS: _appended(self._text(ANSWERS), f"{json.dumps(asked)}\n", "\n]}\n"),
            table: limited,
            f"{DATA}/prices.json": self._inserted(f"{DATA}/prices.json", key, priced),
            NEW_PRICES: json.dumps(documented, indent=1, ensure_ascii=False) + "\n",
        }

    def _json(self, path: str) -> Any:
        return json.loads((self._root / path).read_text("utf-8"))

    def _text(self, path: str) -> str:
        return (self._root / path).read_text("utf-8")

    def _provider(self) -> str:
        """The provider of the profile that it is like, or of those that this one is like."""
        rows = {row["name"]: row for row in self._json(f"{DATA}/profiles.json")["profiles"]}
        name = self._options.like
        if name not in rows:
            near = [it for it in rows if it.startswith(name[:4])] or [*rows]
            raise StepError(f"add_model: no profile is called {name!r}; such are {', '.join(near)}")
        while name in rows:
            if found := rows[name].get("provider"):
                return str(found)
            name = rows[name].get("like", "")
        raise StepError(f"add_model: {self._options.like} has no provider; say who answers: --host")

    def _profiled(self) -> str:
        """The profiles with one more, which counts as another does until calls have shown it."""
        path = f"{DATA}/profiles.json"
        if any(row["name"] == self._name for row in self._json(path)["profiles"]):
            raise StepError(f"add_model: {path} has a profile {self._name!r}; change that one")
        row = {
            "name": self._name,
            "like": self._options.like,
            "models": [self._name],
            "context_window_tokens": self._options.window,
            "max_output_tokens": self._options.output,
            "source": self._options.source,
            "date": self._day,
            "confidence": "guessed",
        }
        told = json.dumps({key: it for key, it in row.items() if it is not None}, indent=2)
        told = told.replace(f'[\n    "{self._name}"\n  ]', f'["{self._name}"]')
        return _appended(self._text(path), "".join(f"    {line}\n" for line in told.splitlines()))

    def _inserted(self, path: str, key: str, row: str) -> str:
        """The table with a line for `key`, before the first greater name of the same host."""
        lines = self._text(path).splitlines()
        first = lines.index(' "models": {') + 1
        end = next(place for place in range(first, len(lines)) if lines[place].startswith(" }"))
        names = [line.split('"')[1] for line in lines[first:end]]
        if key in names:
            raise StepError(f"add_model: {path} has a row {key!r} already; change that one")
        host = key.rpartition("/")[0]
        same = [place for place, name in enumerate(names) if name.rpartition("/")[0] == host]
        after = [place for place in same if names[place] < key]
        place = after[-1] + 1 if after else same[0] if same else len(names)
        is_last = place == len(names)
        lines.insert(first + place, f'  "{key}": {row}{"," if not is_last else ""}')
        if is_last:
            lines[first + place - 1] += ","
        return "\n".join(lines) + "\n"

    def _sourced(self, limits: str) -> str:
        """The limits with the source among the documents that rows by hand are from."""
        told = f'"documents": {json.dumps(json.loads(limits)["sources"]["documents"])}'
        added = f"{told[:-1]}. {self._name}: {self._options.source}, {self._day}{told[-1]}"
        return limits.replace(told, added, 1)


def _price(word: str) -> tuple[str, str]:
    kind, _, price = word.partition("=")
    try:
        is_price = Decimal(price) >= 0
    except InvalidOperation:
        is_price = False
    if kind not in KINDS or not is_price:
        raise StepError(
            f"add_model: --price has {word!r}; write dollars per million tokens as kind=price, "
            f"of {', '.join(KINDS)}: --price input=2.5 output=10"
        )
    return kind, price


def _appended(text: str, row: str, end: str = "\n  ]\n}\n") -> str:
    """The text of a table with one more row at the end of its last list."""
    head = text.rstrip()[:-1].rstrip()[:-1].rstrip()
    return f"{head},\n{row.rstrip()}{end}"
