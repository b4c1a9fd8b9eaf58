"""The site of the documents, made from the tree: `python3 dev.py docs` runs it.

    python docs/site/make_site.py [--out target/site]

The pages are those of `docs/` with the changes, the design and the like from the root. They are
copied, links between them are turned to the copies, the reference gets its docstrings and the
pages with figures their plots; then Sphinx builds them, and a warning is an error. At last every
link and anchor of the HTML is looked up, and `llms.txt` is written.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import figures

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # its import asks the network else
ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = Path(__file__).parent
OF_THE_ROOT: Final = {  # pages that stand beside docs/, and their names on the site
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "DESIGN.md": "design.md",
    "licenses/THIRD-PARTY.md": "third_party.md",
}
HOMES: Final = {"README.md": "index.md"}
"""Pages that are not on the site, and what stands there for them."""
LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def pages() -> dict[str, str]:
    """The pages of the tree by path, and their names on the site."""
    found = {path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")}
    names = {path.as_posix(): path.relative_to("docs").as_posix() for path in sorted(found)}
    return {**names, "docs/README.md": "index.md", **OF_THE_ROOT}


def turned(text: str, page: str, names: dict[str, str]) -> str:
    """The text with its links as they are on the site; what is not there becomes its words."""

    def link(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return match[0]
        path, _, anchor = target.partition("#")
        real = os.path.relpath((ROOT / page).parent / path, ROOT).replace(os.sep, "/")
        name = names.get(real) or HOMES.get(real)
        if name is None:
            return words if (ROOT / real).exists() else match[0]
        away = os.path.relpath(name, Path(names[page]).parent).replace(os.sep, "/")
        return f"{mark}[{words}]({away}{'#' * bool(anchor)}{anchor})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def directive(name: str) -> str:
    """The lines by which Sphinx writes the docstring of a public name."""
    module, _, last = name.rpartition(".")
    kind = "autoclass" if last[0].isupper() else "autofunction"
    if name in PLAIN_VALUES:
        return ""
    rows = [f".. {kind}:: {module}.{last}"]
    return "```{eval-rst}\n" + "\n".join(rows) + "\n```\n"


PLAIN_VALUES: Final = {"tokenctx.convert.Dialect", "tokenctx.__version__", "tokenctx.convert.mime"}
"""Names with no docstring of their own: the words of the page are all there is."""
HEADING: Final = re.compile(r"^## (`tokenctx\..*)$", re.MULTILINE)
SIGNATURES: Final = re.compile(r"\A\n\n```text\n.*?^```\n", re.MULTILINE | re.DOTALL)


def with_docstrings(text: str) -> str:
    """A page of the reference, with the docstrings behind the words of each name."""
    head, *rest = HEADING.split(text)
    made = [head]
    for heading, body in zip(rest[::2], rest[1::2], strict=True):
        names = re.findall(r"`(tokenctx\.[\w.]+)`", heading)
        short = ", ".join(f"`{name.rpartition('.')[2]}`" for name in names)
        said = SIGNATURES.sub("", body).rstrip()  # the docstrings have the signatures
        made += [f"## {short}", said, "\n\n", *(directive(name) for name in names), "\n"]
    return "".join(made)


def with_contents(text: str) -> str:
    """The home page with the tree of pages, whose parts are its headings and tables."""
    trees = []
    for title, body in re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", text, re.MULTILINE):
        linked = re.findall(r"^\| \[[^\]]+\]\(([\w/]+)\.md\)", body, re.MULTILINE)
        if linked:
            rows = "\n".join(linked)
            trees.append(f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{rows}\n```\n")
    return text + "\n" + "\n".join(trees)


def stage(folder: Path) -> dict[str, str]:
    """Write the pages as Sphinx is to read them; the plain ones by name."""
    shutil.rmtree(folder, ignore_errors=True)
    names, plain = pages(), {}
    for page, name in names.items():
        text = turned((ROOT / page).read_text("utf-8"), page, names)
        plain[name] = text
        if name.startswith("reference/"):
            text = with_docstrings(text)
        if name == "index.md":
            text = with_contents(text)
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(figures.with_plots(name, text), "utf-8")
    (folder / "_static").mkdir()
    shutil.copy(HERE / "site.css", folder / "_static")
    shutil.copy(HERE / "conf.py", folder)
    return plain


class Page(HTMLParser):
    """The links and the anchors of a page of the site."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what an element links to, and its name."""
        for name, value in attrs:
            if name in {"id", "name"} and value:
                self.anchors.add(value)
            if value and (tag, name) in {("a", "href"), ("img", "src"), ("link", "href")}:
                self.links.append(value)


def broken_links(site: Path) -> list[str]:
    """Links of the site that lead nowhere; of addresses elsewhere only the form is looked at."""
    read = {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html")}
    broken = []
    for path, page in read.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                is_well_formed = parts.scheme in {"https", "mailto"} and (
                    parts.netloc or parts.path
                )
                if not is_well_formed:
                    broken.append(f"{path.relative_to(site)}: {link} is no address")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                broken.append(f"{path.relative_to(site)}: {link} is not there")
            elif target in read and parts.fragment and anchor not in read[target].anchors:
                broken.append(f"{path.relative_to(site)}: {link} has no such anchor")
    return broken


def write_schemas(site: Path) -> None:
    """The schemas of the files that users write, in `schemas/`, where editors find them."""
    (site / "schemas").mkdir(parents=True, exist_ok=True)
    for path in (ROOT / "python/tokenctx/data").glob("*.schema.json"):
        shutil.copy2(path, site / "schemas")


def write_for_models(site: Path, plain: dict[str, str]) -> None:
    """`llms.txt`, an index of the pages as Markdown, and `llms-full.txt`, all of them in one."""
    home = plain["index.md"]
    about = re.sub(r"\s+", " ", home.split("\n\n")[1])
    lines = ["# tokenctx", "", f"> {about}", ""]
    for title, body in re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", home, re.MULTILINE):
        rows = re.findall(r"^\| \[([^\]]+)\]\(([\w/]+\.md)\) \| (.+) \|$", body, re.MULTILINE)
        if rows:
            lines += [f"## {title}", ""]
            lines += [f"- [{words}]({name}): {note}" for words, name, note in rows] + [""]
    (site / "llms.txt").write_text("\n".join(lines), "utf-8")
    listed = [name for name in re.findall(r"\]\(([\w/]+\.md)\)", "\n".join(lines)) if name in plain]
    whole = "\n\n".join(plain[name].strip() for name in dict.fromkeys(["index.md", *listed]))
    (site / "llms-full.txt").write_text(whole + "\n", "utf-8")
    for name, text in plain.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--out", type=Path, default=ROOT / "target/site")
    options = parser.parse_args()
    from sphinx.cmd.build import build_main  # what stands above is tested without Sphinx

    site: Path = options.out.resolve()
    source = site.with_name(f"{site.name}-source")
    plain = stage(source)
    shutil.rmtree(site, ignore_errors=True)
    doctrees = site.with_name(f"{site.name}-doctrees")
    flags = ("-q", "-E", "-W", "--keep-going", "-j", "auto", "-d", str(doctrees))
    code: int = build_main(["-b", "html", *flags, str(source), str(site)])
    if code:
        return code
    write_for_models(site, plain)
    write_schemas(site)
    broken = broken_links(site)
    print("\n".join(broken) or f"{len(plain)} pages in {site.relative_to(ROOT)}; no broken link")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
