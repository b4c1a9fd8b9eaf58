"""A new model is one command, whose rows the package reads."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tasks.models import ANSWERS, CASES, DATA, NEW_PRICES, Rows
from tasks.steps import StepError

ROOT = Path(__file__).parents[2]
TABLES = ("profiles", "limits", "prices", "bounds")
GIVEN = {
    "name": "gpt-9.1-mini",
    "like": "gpt-5",
    "window": 400_000,
    "output": 128_000,
    "price": ["input=0.25", "cache_read=0.025", "output=2"],
    "source": "OpenAI: models, 2026-11",
    "host": None,
}
ASK = """
import json, sys
from tokenctx import HybridTokenEstimator, configure
configure(data=sys.argv[1])
body = {"model": "gpt-9.1-mini", "messages": [{"role": "user", "content": "hi"}]}
found = HybridTokenEstimator().estimate(body)
limits = found.limits
print(found.profile, found.tokens, limits.window_tokens, limits.max_output_tokens, limits.source)
print(found.cost.model, found.cost.provider, found.cost.input * 10**6 / found.tokens)
print(HybridTokenEstimator().estimate({**body, "model": "gpt-5"}).tokens)
"""


def tree(folder: Path) -> Path:
    """A copy of the files that rows are written to."""
    for name in (*(f"{DATA}/{it}.json" for it in TABLES), CASES, ANSWERS, NEW_PRICES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def rows(folder: Path, **given: Any) -> dict[str, str]:
    return Rows(argparse.Namespace(**{**GIVEN, **given}), folder).changed()


@pytest.mark.slow
def test_a_new_model_is_known_by_every_table(tmp_path: Path) -> None:
    from tokenctx._estimate.data import bundle_of

    folder = tree(tmp_path)
    for path, text in rows(folder).items():
        (folder / path).write_text(text, "utf-8")
    tables = {it: json.loads((folder / f"{DATA}/{it}.json").read_text("utf-8")) for it in TABLES}
    bundle = folder / "bundle.json"
    bundle.write_text(json.dumps(bundle_of(tables)), "utf-8")
    command = (sys.executable, "-W", "ignore", "-c", ASK, bundle)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, price, like = done.stdout.splitlines()
    about = GIVEN["source"]
    profile, tokens, window, output, *source = first.split()
    assert (profile, window, output) == ("gpt-9.1-mini", "400000", "128000")
    assert tokens == like
    assert " ".join(source) == "documents"
    assert str(about) in tables["limits"]["sources"]["documents"]
    model, host, dollars = price.split()
    assert (model, host, float(dollars)) == ("gpt-9.1-mini", "openai", 0.25)


def test_only_lines_are_added(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    for path, text in rows(folder).items():
        json.loads(text)
        if path == NEW_PRICES:
            continue
        before = (folder / path).read_text("utf-8").splitlines()
        after = text.splitlines()
        lost = {line.rstrip(",") for line in before} - {line.rstrip(",") for line in after}
        assert all(line.startswith('  "documents": ') for line in lost), path


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"like": "gpt-nine"}, "no profile is called 'gpt-nine'; such are gpt-"),
        ({"name": "openai/gpt-9"}, "write the model's own, in lower case, without a host"),
        ({"name": "gpt-4o"}, "has a"),
        ({"source": " "}, "--source is empty"),
        ({"price": ["input=1"]}, "lacks input or output"),
        ({"price": ["input=much", "output=1"]}, "has 'input=much'; write dollars per million"),
        ({"like": "unknown"}, "say who answers: --host"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(StepError) as error:
        rows(tree(tmp_path), **given)
    assert message in str(error.value)
