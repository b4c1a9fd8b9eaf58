"""The reference has every public name, and an example that runs for each of them."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from reference_signatures import signature, with_signatures

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MOST_NAMES = 35
HEADING = re.compile(r"^## (`tokenctx\..*)$", re.MULTILINE)


def parts() -> dict[str, str]:
    """The public names in the headings of the reference, and what stands under each."""
    found = {}
    for path in sorted((DOCS / "reference").glob("*.md")):
        _, *rest = HEADING.split(path.read_text("utf-8"))
        for heading, body in zip(rest[::2], rest[1::2], strict=True):
            for name in re.findall(r"`(tokenctx\.[\w.]+)`", heading):
                assert name not in found, f"{name} stands in the reference twice"
                found[name] = body
    return found


def classes_of_integrations() -> set[str]:
    """The public classes of all adapters, whose frameworks need not be there."""
    return {
        f"tokenctx.integrations.{path.stem}.{node.name}"
        for path in (ROOT / "python/tokenctx/integrations").glob("[a-z]*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name[0] != "_"
    }


FRONTS = (
    "tokenctx",
    *(
        f"tokenctx.{it}"
        for it in ("batch", "context", "convert", "encodings", "money", "stores", "usage")
    ),
    *("tokenctx.batch.duckdb", "tokenctx.batch.spark", "tokenctx.convert.mime"),
    *("tokenctx.money.budgets", "tokenctx.money.routing"),
    *("tokenctx.gateway", "tokenctx.gateway.httpx2", "tokenctx.gateway.server"),
    "tokenctx.integrations.metrics",
)
"""The modules that show what they have to any caller."""


def names_of_fronts() -> dict[str, set[str]]:
    """The public names, and by which others each is known: some stand in two modules."""
    known: dict[int, set[str]] = {}
    for front in FRONTS:
        module = importlib.import_module(front)
        for name in module.__all__:
            value = getattr(module, name)
            if not isinstance(value, ModuleType):
                known.setdefault(id(value), set()).add(f"{front}.{name}")
    return {name: names for names in known.values() for name in names}


def stub_of(front: str) -> Path:
    """Where the names of a public package stand, if `front` is one."""
    return ROOT / "python" / front.replace(".", "/") / "__init__.pyi"


def names_used(page: str) -> set[str]:
    """Every name that the Python blocks of a page use; an import alone is no use."""
    used: set[str] = set()
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Name):
                used.add(node.id)
            elif isinstance(node, ast.Attribute):
                used.add(node.attr)
            elif isinstance(node, ast.alias) and node.asname:
                used.add(node.name)  # what is used by another name
    return used


def examples_of(body: str) -> set[str]:
    """The names used under a heading, or on the page that it sends the reader to."""
    pages = [body]
    if "```python" not in body:
        for name, anchor in re.findall(r"\]\((\.\./[\w/]+\.md)#([\w-]+)\)", body):
            page = (DOCS / "reference" / name).read_text("utf-8")
            [title] = [it for it in re.findall(r"^## (.+)$", page, re.M) if it.lower() == anchor]
            pages.append(page.partition(f"\n## {title}\n")[2].partition("\n## ")[0])
    return set().union(*(names_used(page) for page in pages))


def test_the_reference_has_every_public_name() -> None:
    headings = parts().keys()
    names = names_of_fronts()
    assert len(names) > 90
    assert [name for name, others in sorted(names.items()) if not others & headings] == []
    assert sorted(classes_of_integrations() - headings) == []


@pytest.mark.parametrize("page", sorted((DOCS / "reference").glob("*.md")), ids=lambda it: it.stem)
def test_the_signatures_are_those_of_the_sources(page: Path) -> None:
    text = page.read_text("utf-8")
    command = "python tests/rigs/reference_signatures.py --write"
    assert with_signatures(text) == text, command


def test_a_signature_has_arguments_with_types_and_defaults() -> None:
    assert signature("tokenctx.gateway.header_tenant")[0].startswith("header_tenant(")
    assert "    fits(" in "\n".join(signature("tokenctx.Estimate"))
    lines = signature("tokenctx.encodings.Encoding")
    assert any("from_tokenizer_json(path: str | os.PathLike[str], *, name" in it for it in lines)


def test_the_first_door_is_small() -> None:
    assert len(importlib.import_module("tokenctx").__all__) <= MOST_NAMES


@pytest.mark.parametrize("front", FRONTS)
def test_a_public_module_shows_its_public_names_alone(front: str) -> None:
    module = importlib.import_module(front)
    shown = [name for name in dir(module) if name[:2] != "__"]
    assert sorted(shown) == sorted(module.__all__)
    assert module.__doc__


@pytest.mark.parametrize("front", [it for it in FRONTS if stub_of(it).exists()])
def test_a_public_module_has_the_names_of_its_stub(front: str) -> None:
    """So what type checkers read and what is there is one."""
    body = ast.parse(stub_of(front).read_text("utf-8")).body
    assert {type(node) for node in body} == {ast.ImportFrom}
    names = [alias for node in body if isinstance(node, ast.ImportFrom) for alias in node.names]
    names = [it for it in names if it.name != "__version__"]
    assert [it.asname for it in names] == [it.name for it in names]
    module = importlib.import_module(front)
    assert [it.name for it in names] == module.__all__
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        module.Nothing  # noqa: B018


def test_a_public_name_says_where_it_is_imported_from() -> None:
    """Its `__module__` is a public one, in which it is found again."""
    wrong = []
    for name in names_of_fronts():
        module, _, attribute = name.rpartition(".")
        value = getattr(importlib.import_module(module), attribute)
        home = getattr(value, "__module__", module)
        if home not in FRONTS or getattr(importlib.import_module(home), attribute) is not value:
            wrong.append(name)
    assert wrong == []


def test_every_name_of_the_reference_is_there() -> None:
    wrong = []
    for name in parts():
        module, _, attribute = name.rpartition(".")
        if not name.startswith("tokenctx.integrations."):
            try:
                found: object = importlib.import_module(module)
                getattr(found, attribute)
            except (ImportError, AttributeError):
                wrong.append(name)
            continue
        path = ROOT / "python" / (module.replace(".", "/") + ".py")
        defined = ast.parse(path.read_text("utf-8")).body
        if attribute not in {getattr(node, "name", None) for node in defined}:
            wrong.append(name)
    assert wrong == []


@pytest.mark.parametrize("name", sorted(parts()))
def test_every_name_of_the_reference_has_an_example(name: str) -> None:
    assert name.rpartition(".")[2] in examples_of(parts()[name])


def test_a_name_without_an_example_is_found() -> None:
    assert "Gateway" not in examples_of("```python\nfrom tokenctx.gateway import Gateway\n```\n")
    assert "Gateway" in examples_of("```python\ngateway = Gateway(estimator)\n```\n")
    assert examples_of("[litellm](../integrations.md#litellm)") >= {"install", "token_counter"}
