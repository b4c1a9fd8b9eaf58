"""What is released: its bill of materials, its links, its extras, its examples."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import tasks.packages
from tasks.build import LINK, settled_bill, with_addresses
from tasks.steps import LEAST_RUST, VERSION, StepError, requirements
from tasks.ten_lines import differences

ROOT = Path(__file__).parents[2]
MANIFEST = json.loads((ROOT / "licenses/manifest.json").read_text("utf-8"))
EXTRAS = {"batch", "cli", "metrics", "redis", "serve", "tokenizers"}


def bill(folder: str, second: int) -> bytes:
    """A bill of materials as it is written in a folder, at a second."""
    own = {"bom-ref": f"path+file://{folder}#tokenctx@0.1.0", "purl": "x?download_url=file://."}
    about = {"timestamp": f"2026-11-23T14:43:{second}Z", "component": own}
    return json.dumps({"serialNumber": second, "metadata": about, "components": []}).encode()


def test_the_bill_of_materials_is_the_same_in_every_folder_and_at_any_time() -> None:
    settled = settled_bill(bill("/home/one", 10))
    assert settled == settled_bill(bill("/another/place", 11))
    assert b"file://" not in settled
    assert b"tokenctx@0.1.0" in settled


def test_the_bill_of_materials_names_vocabularies_unicode_and_limits() -> None:
    parts = {part["name"]: part for part in json.loads(settled_bill(bill("/x", 1)))["components"]}
    assert {row["name"] for row in MANIFEST["vocabularies"]} < parts.keys()
    assert {"claude_vocabulary.json", "Unicode character classes", "limits.json"} < parts.keys()
    [digest] = parts["o200k_base"]["hashes"]
    assert digest["content"] == MANIFEST["vocabularies"][0]["sha256"]
    assert all(part["licenses"] for part in parts.values())


def test_links_of_the_readme_lead_into_the_repository_where_it_has_an_address() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    assert LINK.findall(page)
    elsewhere = with_addresses(page, "https://example.org/tokenctx")
    assert f"](https://example.org/tokenctx/blob/v{VERSION}/DESIGN.md)" in elsewhere
    assert not LINK.findall(elsewhere)
    assert with_addresses("[a](#b) [c](https://d.org)", "x") == "[a](#b) [c](https://d.org)"


def test_a_release_refuses_without_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    tag = argparse.Namespace(tag=f"v{metadata.version('tokenctx')}")
    monkeypatch.setattr(tasks.packages, "links", dict)
    with pytest.raises(StepError, match=r"project.urls.*lacks Repository, Documentation"):
        tasks.packages.release(tag)
    with pytest.raises(StepError, match="the tag is 'v9'"):
        tasks.packages.release(argparse.Namespace(tag="v9"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (os.urandom(16_100_000), r"is 16\.1 MB, and 16 are"),
        (bytes(26_100_000), r"unpacks to 26\.1 MB, and 26 are"),
    ],
    ids=["packed", "unpacked"],
)
def test_a_wheel_that_has_grown_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    """The limits are for the file and for what it unpacks to."""
    built = tmp_path / "x.whl"
    for size in (1000, len(content)):
        with zipfile.ZipFile(built, "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr("x", content[:size])
        if size == 1000:
            tasks.packages.is_small(built)
    with pytest.raises(StepError, match=message):
        tasks.packages.is_small(built)


def test_the_metadata_has_the_extras_of_users_alone() -> None:
    assert set(metadata.metadata("tokenctx").get_all("Provides-Extra") or ()) == EXTRAS
    assert requirements("dependency-groups")


def test_who_has_no_rust_is_told_so(tmp_path: Path) -> None:
    pytest.importorskip("maturin", reason="the build backend is not installed")
    command = (sys.executable, "-c", "import backend; backend.get_requires_for_build_wheel()")
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT / "tasks")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("tokenctx is built from source here and needs Rust")
    assert f"Rust >= {LEAST_RUST}" in (ROOT / "README.md").read_text("utf-8")


def test_a_wrong_output_of_the_ten_lines_is_found() -> None:
    assert differences("a = 1\na + 1  # 2\n") == (1, [])
    assert differences("1 + 1  # 3\n")[1] == ["1 + 1 is 2, and README.md says 3"]


def public_items() -> list[str]:
    """The names that the crate exports from its root."""
    text = (ROOT / "src/lib.rs").read_text("utf-8")
    paths = re.findall(r"^pub use ([^;]+);", text, re.MULTILINE)
    names = [name for path in paths for name in re.split(r"[{},\s]+|::", path)]
    return sorted({name for name in names if name[:1].isupper()})


@pytest.mark.parametrize("name", public_items())
def test_every_public_item_of_the_crate_has_an_example(name: str) -> None:
    kind = r"pub (?:struct|enum|trait|const|type) "
    pages = re.compile(rf"((?:^ *///.*\n)+)(?:^ *#\[.*\n)*^ *{kind}{name}\b", re.MULTILINE)
    files = [path for path in (ROOT / "src").rglob("*.rs") if "py" not in path.parts]
    found = [page for path in files for page in pages.findall(path.read_text("utf-8"))]
    assert any("/// ```\n" in page for page in found)
