"""The reference has every public name, and an example that runs for each of them."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import tokenctx.convert.mime
import tokenctx.gateway
import tokenctx.gateway.server
import tokenctx.money.budgets
import tokenctx.money.routing

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
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


def of_module(name: str) -> set[str]:
    """The functions and classes that a module without `__all__` has itself."""
    module = importlib.import_module(name)
    return {
        f"{name}.{item}"
        for item, value in vars(module).items()
        if item[0] != "_"
        and getattr(value, "__module__", "") == name
        and hasattr(value, "__name__")
    }


def classes_of_integrations() -> set[str]:
    """The public classes of all adapters, whose frameworks need not be there."""
    return {
        f"tokenctx.integrations.{path.stem}.{node.name}"
        for path in (ROOT / "python/tokenctx/integrations").glob("[a-z]*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name[0] != "_"
    }


PUBLIC = {
    *(f"tokenctx.{name}" for name in tokenctx.__all__),
    *(f"tokenctx.gateway.{name}" for name in tokenctx.gateway.__all__),
    *(f"tokenctx.gateway.server.{name}" for name in tokenctx.gateway.server.__all__),
    *of_module("tokenctx.gateway.httpx2"),
    *of_module("tokenctx.integrations.metrics"),
    *of_module("tokenctx.convert.mime"),
    *(f"tokenctx.money.budgets.{name}" for name in tokenctx.money.budgets.__all__),
    *(f"tokenctx.money.routing.{name}" for name in tokenctx.money.routing.__all__),
    *classes_of_integrations(),
}


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
    if "```" not in body:
        for name, anchor in re.findall(r"\]\((\.\./[\w/]+\.md)#([\w-]+)\)", body):
            page = (DOCS / "reference" / name).read_text("utf-8")
            [title] = [it for it in re.findall(r"^## (.+)$", page, re.M) if it.lower() == anchor]
            pages.append(page.partition(f"\n## {title}\n")[2].partition("\n## ")[0])
    return set().union(*(names_used(page) for page in pages))


def test_the_reference_has_every_public_name() -> None:
    assert len(PUBLIC) > 90
    assert sorted(PUBLIC - parts().keys()) == []


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
