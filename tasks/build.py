"""The wheel and its bill of materials: the same bytes from the same sources, in every folder."""

import base64
import csv
import hashlib
import io
import json
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

from tasks.steps import (
    PYPROJECT,
    PYTHON,
    QUICK,
    ROOT,
    VERSION,
    host_target,
    listed,
    pip,
    requirements,
    run,
)

COPY = ROOT / "target" / "source"
SOURCES = (  # of the sdist; the tests and the tools are in it, so that it can be tested
    *("Cargo.toml", "Cargo.lock", "build.rs", "rustfmt.toml", "pyproject.toml", "constraints.txt"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "DESIGN.md", "SECURITY.md", "LICENSE"),
    *("dev.py", "tasks", "src", "python", "licenses", "tests", "benches", "docs", "fuzz"),
)
MADE = ("__pycache__", "*.pyc", "*.so", "*.pyd", "node_modules", "target", "corpus", "artifacts")
OLDEST_DATE = "315532800"  # 1980, the first date that a zip file can hold
LINK = re.compile(r"(?:(?<=\]\()|(?<=src=\")|(?<=srcset=\"))(?![a-z]+:|#)([^)\s\"]+)")


def build(folder: Path, profile: str, target: str = "", origin: Path = ROOT) -> Path:
    """The wheel of the tree `origin` in `folder`; all but QUICK as it is released."""
    shutil.rmtree(folder, ignore_errors=True)
    for leftover in (ROOT / "python/tokenctx").glob("_core.*"):  # of `maturin develop`
        if leftover.suffix in {".so", ".pyd"}:
            leftover.unlink()
    flags = ("--profile", profile, "--locked", "--interpreter", PYTHON, "--out", folder)
    command: tuple[str | Path, ...] = (PYTHON, "-m", "maturin", "build", *flags)
    title = f"build the wheel{f' for {target}' if target else ''}, profile {profile}"
    if profile == QUICK:
        run(f"{title} (the first time takes a minute)", *command, advice="maturin", quiet=True)
        return next(folder.glob("tokenctx-*.whl"))
    target = target or host_target()
    if links_with_zig(target):
        pip("install zig", PYTHON, *requirements("build-system"), *listed("wheels"))
    source = copy_sources(origin)
    command += (*platform(target), "--target-dir", origin / "target")
    run(
        f"{title} (takes a minute or two)",
        *command,
        advice="maturin",
        quiet=True,
        folder=source,
        variables={"SOURCE_DATE_EPOCH": OLDEST_DATE, "CARGO_ENCODED_RUSTFLAGS": remapped(source)},
    )
    [wheel] = folder.glob("tokenctx-*.whl")
    settle(wheel)
    return wheel


def links_with_zig(target: str) -> bool:
    """Whether zig links: for Linux, as it knows every version of glibc, and for macOS from there.

    Not for Windows: maturin 1.16 would tell it to export `PyInit_tokenctx._core`.
    """
    return "linux" in target or ("apple" in target and "apple" not in host_target())


def platform(target: str) -> tuple[str, ...]:
    """How maturin builds for `target`."""
    zig = ("--zig",) if links_with_zig(target) else ()
    if "linux" not in target:
        return ("--target", target, *zig)
    tag = "musllinux_1_2" if "musl" in target else "manylinux2014"
    return ("--target", target, *zig, "--compatibility", tag)


def copy_sources(origin: Path, folder: Path | None = None) -> Path:
    """A copy of the sources alone; times are kept, so that cargo builds only what has changed."""
    folder = folder or origin / "target" / "source"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in SOURCES:
        path = origin / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns(*MADE))
        else:
            shutil.copy2(path, folder / name)
    if repository := links().get("Repository"):
        readme, crate = folder / "README.md", folder / "Cargo.toml"
        readme.write_text(with_addresses(readme.read_text("utf-8"), repository), "utf-8")
        about = f'readme = "README.md"\nrepository = "{repository}"'
        text = crate.read_text("utf-8").replace('readme = "README.md"', about)
        crate.write_text(text, "utf-8")
    return folder


def links() -> dict[str, str]:
    """`[project.urls]` of pyproject.toml, the one place where addresses of the project stand."""
    found = re.search(r"^\[project\.urls\]\n(.*?)^\[", PYPROJECT.read_text("utf-8"), re.M | re.S)
    return dict(re.findall(r'^(\w+) = "(.+)"$', found[1] if found else "", re.MULTILINE))


def with_addresses(page: str, repository: str) -> str:
    """The page with the addresses of the files that it links to, as they were in this version."""
    return LINK.sub(rf"{repository}/blob/v{VERSION}/\1", page)


def remapped(source: Path) -> str:
    """Flags of rustc that leave the folders of this machine out of the wheel."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    names = {home / "registry" / "src": "/cargo", source: "/tokenctx"}
    flags = [f"--remap-path-prefix={folder}={name}" for folder, name in names.items()]
    return "\x1f".join([*os.environ.get("RUSTFLAGS", "").split(), *flags])


def settle(path: Path) -> None:
    """Write the wheel anew: with a settled bill of materials, and nothing that differs by run."""
    with zipfile.ZipFile(path) as wheel:
        files = {info.filename: (info, wheel.read(info)) for info in wheel.infolist()}
    [bill] = [name for name in files if name.endswith(".cyclonedx.json")]
    [record] = [name for name in files if name.endswith(".dist-info/RECORD")]
    files[bill] = (files[bill][0], settled_bill(files[bill][1]))
    files[record] = (files[record][0], new_record(record, files))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, (old, content) in files.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.external_attr, info.create_system = old.external_attr, 3
            wheel.writestr(info, content, zipfile.ZIP_DEFLATED)


def new_record(record: str, files: dict[str, tuple[zipfile.ZipInfo, bytes]]) -> bytes:
    """The file RECORD of a wheel, with the digests of `files`."""
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    for name, (_, content) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        own = name == record
        writer.writerow((name, "" if own else f"sha256={digest}", "" if own else len(content)))
    return rows.getvalue().encode()


def settled_bill(written: bytes) -> bytes:
    """The bill of materials without folders, time and random number, and with the foreign data."""
    text = re.sub(r'path\+file://[^"#]*#', "", written.decode())
    bill: dict[str, Any] = json.loads(text.replace("?download_url=file://.", ""))
    bill.pop("serialNumber", None)
    bill["metadata"].pop("timestamp", None)
    manifest = json.loads((ROOT / "licenses/manifest.json").read_text("utf-8"))
    rows = [row for kind in ("vocabularies", "files", "tables") for row in manifest[kind]]
    bill["components"] += [component(row) for row in rows]
    return json.dumps(bill, indent=1, sort_keys=True).encode()


def component(row: dict[str, str]) -> dict[str, Any]:
    """A row of licenses/manifest.json in CycloneDX."""
    name = row.get("name") or Path(row["path"]).name
    about: dict[str, Any] = {"type": "data", "bom-ref": f"data:{name}", "name": name}
    about |= {"description": row["source"], "licenses": [{"license": {"id": row["licence"]}}]}
    if "version" in row:
        about["version"] = row["version"]
    if "sha256" in row:
        about["hashes"] = [{"alg": "SHA-256", "content": row["sha256"]}]
    return about
