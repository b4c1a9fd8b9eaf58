"""A bundle of newer tables is used whole, before the first estimator; else nothing is."""

from __future__ import annotations

import copy
import gzip
import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx._estimate.data import (
    BUNDLE,
    TABLES,
    bundle_of,
    data_tables,
    differences,
    digest,
    read_bundle,
)
from tokenctx._results.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Json = dict[str, Any]


def newer() -> Json:
    """The tables of the package on a later day, with one more of each."""
    tables = {name: read_table(name) for name in TABLES}
    row = {"name": "house", "like": "gpt-4o", "models": ["house-"], "message_tokens": 9}
    about = {"source": "a test", "date": "2030-01-01", "confidence": "guessed"}
    tables["profiles"]["profiles"].append({**row, **about})
    tables["limits"]["models"]["house-1"] = [12345, None, 678, "m"]
    tables["prices"]["models"]["openai/house-1"] = {"input": "7", "output": "8"}
    for name in ("profiles", "limits", "prices"):
        tables[name]["updated"] = "2030-01-01"
    return tables


def saved(path: Path, bundle: Json) -> Path:
    path.write_text(json.dumps(bundle), "utf-8")
    return path


def run(code: str, *words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`code` in a process of its own, since tables are chosen once."""
    command = [sys.executable, "-c", textwrap.dedent(code), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=path)


USE = """
    import sys, tokenctx
    print([(it.name, it.day) for it in tokenctx.configure(data=sys.argv[1]) if it.is_newer])
    body = {"model": "house-1", "messages": [{"role": "user", "content": "hi"}]}
    found = tokenctx.HybridTokenEstimator().estimate(body)
    cost = tokenctx.money.Prices(package="table").cost(found, output_tokens=0)
    print(found.profile, found.tokens, found.limits.window_tokens, cost.input * 10**6)
"""


@pytest.mark.slow
def test_profiles_limits_bounds_and_prices_of_a_bundle_are_used(tmp_path: Path) -> None:
    plain = saved(tmp_path / "bundle.json", bundle_of(newer()))
    packed = tmp_path / "bundle.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    package = tmp_path / "our_tables"
    package.mkdir()
    (package / "__init__.py").write_text("")
    saved(package / BUNDLE, bundle_of(newer()))
    for source in (str(plain), str(packed), "our_tables"):
        done = run(USE, source, path=tmp_path)
        assert done.returncode == 0, done.stderr
        tables, numbers = done.stdout.splitlines()
        assert "('limits', '2030-01-01')" in tables
        assert numbers.split()[:3] == ["house", "13", "12345"]
        assert float(numbers.split()[3]) == 91


def test_too_late_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path / "bundle.json", bundle_of(newer()))
    done = run(
        """
        import sys, tokenctx
        tokenctx.HybridTokenEstimator()
        try:
            tokenctx.configure(data=sys.argv[1])
        except ValueError as error:
            print(error)
        print(tokenctx.context.model_limits("house-1").window_tokens)
        """,
        str(path),
    )
    message, window = done.stdout.splitlines()
    assert "in use already; load newer tables before the first estimator is made" in message
    assert window == "None"


def change(do: Callable[[Json], object]) -> Json:
    tables = newer()
    do(tables)
    return bundle_of(tables)


def without(bundle: Json, *names: str) -> Json:
    return {name: value for name, value in bundle.items() if name not in names}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (list, "is no bundle: it has no tables"),
        (lambda: without(bundle_of(newer()), "sha256"), "is damaged"),
        (lambda: {**bundle_of(newer()), "sha256": digest({})}, "is damaged"),
        (lambda: {**bundle_of(newer()), "format": 2}, "format 2; this release reads 1"),
        (lambda: bundle_of({"parts": {}}), "has 'parts'; a bundle has profiles"),
        (lambda: bundle_of({"limits": {"models": {}}}), "limits has no day or no rows"),
        (
            lambda: change(lambda it: it["profiles"]["profiles"].append({"name": "x", "like": 1})),
            "profile 'x'",
        ),
        (lambda: change(lambda it: it["limits"].update(models={})), "limits: it has no rows"),
        (
            lambda: change(lambda it: it["prices"]["models"].update(x={"input": "much"})),
            "much",
        ),
    ],
)
def test_what_is_no_bundle_says_why(make: Callable[[], Any], message: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "bundle.json", make())
    done = run("import sys, tokenctx; tokenctx.configure(data=sys.argv[1])", str(path))
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ValueError: ")
    assert message in last


def test_the_difference_names_rows() -> None:
    tables = newer()
    found = differences(tables)
    assert found["limits"] == {"house-1": (None, [12345, None, 678, "m"])}
    assert list(found["profiles"]) == ["house"]
    assert found["bounds"] == {}
    same = {name: copy.deepcopy(read_table(name)) for name in TABLES}
    assert not any(differences(same).values())


def test_tables_of_the_package_have_days_and_rows(tmp_path: Path) -> None:
    assert [it.name for it in data_tables()] == list(TABLES)
    assert all(it.row_count > 0 and not it.is_newer for it in data_tables())
    path = saved(tmp_path / "bundle.json", bundle_of(newer()))
    assert read_bundle(path)["tables"].keys() == set(TABLES)


def test_the_command_says_how_old_from_where_and_what_changed(tmp_path: Path) -> None:
    path = saved(tmp_path / "bundle.json", bundle_of(newer()))
    done = run("from tokenctx._cli.main import main; main()", "data", str(path), "--json")
    shown = json.loads(done.stdout)
    (table,) = (it for it in shown["tables"] if it["table"] == "prices")
    assert (table["day"], table["is_newer"], table["is_stale"]) == ("2030-01-01", True, False)
    assert "genai-prices" in table["source"]
    row = {"input": "7", "output": "8"}
    assert shown["changes"]["prices"] == {"openai/house-1": [None, row]}
    text = run("from tokenctx._cli.main import main; main()", "data", str(path)).stdout
    assert "prices: 1 row different" in text
    assert "prices: made from genai-prices" in text


@pytest.mark.parametrize("name", ["prices", "budgets", "settings"])
def test_the_command_writes_the_schema_of_a_file(name: str) -> None:
    done = run("from tokenctx._cli.main import main; main()", "data", "--schema", name)
    assert json.loads(done.stdout) == read_table(f"{name}.schema")
