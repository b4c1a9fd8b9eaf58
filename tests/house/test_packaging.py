"""What is installed is what the sources say, and says where its data comes from."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import shutil
import subprocess
from fnmatch import fnmatch
from importlib import import_module, metadata, resources
from pathlib import Path

import pytest

import tokenctx

ROOT = Path(__file__).parents[2]
LICENSES = ROOT / "licenses"
MANIFEST = json.loads((LICENSES / "manifest.json").read_text("utf-8"))
DATA_FOLDERS = ("benches", "python", "src", "tests")
CODE = {".c", ".md", ".py", ".pyi", ".rs", ".toml", ".pyc", ".pyd", ".so", ".typed"}


def cargo(*words: str) -> str:
    program = shutil.which("cargo")
    if program is None:
        pytest.skip("cargo is not on the PATH")
    command = [program, *words, "--locked"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def tracked_data() -> list[str]:
    """Every file of the checkout that is neither code nor made by a tool, relative to it."""
    files = (path for folder in DATA_FOLDERS for path in (ROOT / folder).rglob("*"))
    kept = (path for path in files if path.is_file() and path.suffix not in CODE)
    names = (path.relative_to(ROOT).as_posix() for path in kept)
    return sorted(name for name in names if not re.search(r"/[._]", name))


def test_the_installed_package_is_under_test() -> None:
    assert ROOT / "python" not in Path(tokenctx.__file__).parents


def test_the_version_has_one_source() -> None:
    found = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    assert tokenctx.__version__ == found[1] == metadata.version("tokenctx")


def test_the_package_requires_nothing() -> None:
    assert not [line for line in metadata.requires("tokenctx") or [] if "extra ==" not in line]


def test_the_licence_is_an_expression_without_a_classifier_beside_it() -> None:
    about = metadata.metadata("tokenctx")
    assert about["License-Expression"] == "MIT"
    classifiers = about.get_all("Classifier") or []
    assert "Typing :: Typed" in classifiers
    assert not [line for line in classifiers if line.startswith("License")]


def test_types_and_licences_are_installed() -> None:
    package = resources.files("tokenctx")
    assert package.joinpath("py.typed").is_file()
    assert package.joinpath("_core.pyi").is_file()
    installed = {Path(file).name for file in metadata.files("tokenctx") or []}
    assert {"LICENSE", *(path.name for path in LICENSES.iterdir())} <= installed


def test_nothing_but_the_package_is_installed() -> None:
    tops = {Path(file).parts[0] for file in metadata.files("tokenctx") or []}
    tops -= {"..", f"tokenctx-{tokenctx.__version__}.dist-info"}  # ..: the command in bin/
    assert tops == {"tokenctx"}


def test_neither_the_reference_nor_what_the_core_is_built_of_is_installed() -> None:
    names = [Path(file).as_posix() for file in metadata.files("tokenctx") or []]
    assert any(name.endswith("/data/profiles.json") for name in names)
    of_the_core = ("reference", "claude_vocabulary", "claude_characters", ".rs")
    assert not [name for name in names if any(it in name for it in of_the_core)]


def test_the_sources_of_the_crate_hold_all_that_it_is_built_of() -> None:
    packaged = cargo("package", "--list", "--allow-dirty").splitlines()
    for name in ("claude_vocabulary", "claude_characters"):
        assert f"src/claude/{name}.json" in packaged
    assert "python/tokenctx/data/profiles.json" in packaged
    assert not [name for name in packaged if name.startswith("tests/")]


IMPORT = re.compile(r"^ *(?:from|import) +([\w.]+)", re.MULTILINE)


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [("python/tokenctx", r"reference|tokenctx\.reference"), ("tests/reference", r"tokenctx\._")],
)
def test_package_and_reference_know_nothing_private_of_each_other(
    folder: str, forbidden: str
) -> None:
    imported = {
        (path.name, name)
        for path in (ROOT / folder).rglob("*.py")
        for name in IMPORT.findall(path.read_text("utf-8"))
    }
    assert imported
    assert not [pair for pair in imported if re.match(forbidden, pair[1])]


@pytest.mark.parametrize("name", import_module("tokenctx").__all__)
def test_every_public_name_belongs_to_the_package_and_is_documented(name: str) -> None:
    thing = getattr(tokenctx, name)
    if inspect.isclass(thing) or inspect.isroutine(thing):
        assert "._" not in thing.__module__
        assert inspect.getdoc(thing)


def test_every_data_file_has_a_manifest_row() -> None:
    patterns = [row["path"] for row in MANIFEST["own"]] + [row["path"] for row in MANIFEST["files"]]
    orphans = [
        name for name in tracked_data() if not any(fnmatch(name, pattern) for pattern in patterns)
    ]
    assert not orphans


@pytest.mark.parametrize("row", MANIFEST["vocabularies"] + MANIFEST["files"])
def test_foreign_data_has_a_source_a_hash_and_a_licence(row: dict[str, str]) -> None:
    assert row["source"]
    assert row["date"]
    assert re.fullmatch("[0-9a-f]{64}", row["sha256"])
    assert (LICENSES / row["licence_file"]).read_text("utf-8")


def test_files_in_the_checkout_have_the_hash_of_their_row() -> None:
    for row in MANIFEST["files"]:
        assert hashlib.sha256((ROOT / row["path"]).read_bytes()).hexdigest() == row["sha256"]


@pytest.mark.parametrize("row", MANIFEST["vocabularies"], ids=lambda row: row["name"])
def test_vocabularies_in_the_build_are_the_published_ones(row: dict[str, str]) -> None:
    packages = json.loads(cargo("metadata", "--format-version=1"))["packages"]
    crates = [Path(p["manifest_path"]).parent for p in packages if p["name"] == row["crate"]]
    if not crates:
        pytest.skip(f"{row['crate']} is not a dependency")
    asset = crates[0] / row["path"]
    assert hashlib.sha256(asset.read_bytes()).hexdigest() == row["sha256"]


def test_every_crate_in_the_wheel_is_credited() -> None:
    edges = ("--edges", "normal,no-proc-macro", "--target", "all")
    tree = cargo("tree", *edges, "--prefix", "none", "--format", "{p}")
    crates = {line.split()[0] for line in tree.splitlines() if line} - {"tokenctx"}
    credits_text = (LICENSES / "THIRD-PARTY.md").read_text("utf-8")
    assert crates
    assert not sorted(name for name in crates if f"| {name} |" not in credits_text)
