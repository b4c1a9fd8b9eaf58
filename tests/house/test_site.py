"""What makes the site turns links, draws what stands in the tree, and finds what is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import figures
import make_site
from make_site import ROOT

if TYPE_CHECKING:
    from pathlib import Path

NAMES = make_site.pages()


def tree_page(name: str) -> str:
    [path] = [path for path, on_site in NAMES.items() if on_site == name]
    return (ROOT / path).read_text("utf-8")


@pytest.mark.parametrize(
    ("page", "link", "turned"),
    [
        ("docs/gateway.md", "[a](usage.md#streams)", "[a](usage.md#streams)"),
        ("docs/gateway.md", "[a](../DESIGN.md#3-rooms)", "[a](design.md#3-rooms)"),
        ("docs/gateway.md", "[a](../README.md)", "[a](index.md)"),
        ("docs/reference/usage.md", "[a](../usage.md)", "[a](../usage.md)"),
        ("DESIGN.md", "[`a`](docs/edits.md)", "[`a`](edits.md)"),
        ("docs/commands.md", "[the file](../pyproject.toml)", "the file"),
        ("docs/commands.md", "[a](missing.md)", "[a](missing.md)"),
        ("docs/commands.md", "[a](https://example.com/b.md)", "[a](https://example.com/b.md)"),
        ("docs/commands.md", "```text\n[a](../DESIGN.md)\n```", "```text\n[a](../DESIGN.md)\n```"),
    ],
)
def test_a_link_leads_to_the_page_on_the_site(page: str, link: str, turned: str) -> None:
    assert make_site.turned(f"{link}\n", page, NAMES) == f"{turned}\n"


def test_a_name_of_the_reference_gets_its_docstring_behind_its_example() -> None:
    names = "`tokenctx.encodings.encode`, `tokenctx.encodings.Encoding`"
    page = f"# A\n\n## {names}\n\nWords.\n\n## `tokenctx.convert.mime`\n"
    made = make_site.with_docstrings(page)
    assert "## `encode`, `Encoding`\n\nWords.\n" in made
    assert made.index("Words.") < made.index(".. autofunction:: tokenctx.encodings.encode")
    assert made.index(".. autoclass:: tokenctx.encodings.Encoding") < made.index("## `mime`")


def test_the_tree_of_pages_has_every_page() -> None:
    home = make_site.with_contents(make_site.turned(tree_page("index.md"), "docs/README.md", NAMES))
    listed = {line for line in home.splitlines() if f"{line}.md" in NAMES.values()}
    assert {f"{name}.md" for name in listed} == set(NAMES.values()) - {"index.md"}


@pytest.mark.parametrize("page", sorted({page for page, _ in figures.FIGURES}))
def test_every_figure_is_drawn_from_what_stands_in_the_tree(page: str) -> None:
    count = sum(len(drawn) for (name, _), drawn in figures.FIGURES.items() if name == page)
    drawn = figures.with_plots(page, tree_page(page))
    assert drawn.count("<svg") == drawn.count("</svg>") == count
    assert drawn.count("<circle") > 20


def test_a_figure_shows_the_numbers_of_its_table() -> None:
    table = "| pool | N | exact | 2 % | 5 % | 10 % |\n| --- | --: | --: | --: | --: | --: |\n"
    drawn = figures.pools(f"{table}| a pool | 10 | 71 | 80 | 90 | 100 |\n")
    told = [f"<title>a pool, {name}</title>" for name in ("exact: 71", "2 %: 80", "5 %: 90")]
    assert all(it in drawn for it in told)


def test_a_figure_without_its_heading_or_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="no heading that begins with 'Floors'"):
        figures.with_plots("counting.md", "# Benchmarks\n")
    with pytest.raises(ValueError, match="no table"):
        figures.with_plots("accuracy.md", "# A\n\n## Pools, with must and aim\n\nWords.\n")


def test_broken_links_of_the_site_are_found(tmp_path: Path) -> None:
    good = '<a id="here"><a href="#here"><a href="b.html#x"><a href="https://a.example/">'
    bad = '<a href="c.html"><a href="b.html#y"><a href="http://a.example/"><img src="a.png">'
    (tmp_path / "a.html").write_text(good + bad, "utf-8")
    (tmp_path / "b.html").write_text('<p id="x">', "utf-8")
    assert make_site.broken_links(tmp_path) == [
        "a.html: c.html is not there",
        "a.html: b.html#y has no such anchor",
        "a.html: http://a.example/ is no address",
        "a.html: a.png is not there",
    ]


def test_the_index_for_models_names_every_page(tmp_path: Path) -> None:
    plain = {
        name: make_site.turned((ROOT / path).read_text("utf-8"), path, NAMES)
        for path, name in NAMES.items()
    }
    make_site.write_for_models(tmp_path, plain)
    index = (tmp_path / "llms.txt").read_text("utf-8")
    assert index.startswith("# tokenctx\n\n> tokenctx tells how many input tokens")
    assert [name for name in NAMES.values() if f"]({name}): " not in index] == ["index.md"]
    assert all((tmp_path / name).is_file() for name in NAMES.values())
    whole = (tmp_path / "llms-full.txt").read_text("utf-8")
    assert all(text.strip() in whole for text in plain.values())
