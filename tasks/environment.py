"""The environment `.venv`: the package as a wheel, and what the targets need beside it."""

from pathlib import Path

from tasks.build import build
from tasks.steps import (
    CONSTRAINTS,
    FAST,
    PYPROJECT,
    PYTHON,
    ROOT,
    digest,
    listed,
    make_venv,
    pip,
    require_cargo,
    requirements,
    save,
)

WHEELS = ROOT / "target" / "dev-wheels"


def package_files() -> list[Path]:
    """Every file that the wheel is made of."""
    top = [ROOT / name for name in ("Cargo.toml", "Cargo.lock", "build.rs", "README.md", "LICENSE")]
    deep = (path for name in ("src", "python", "licenses") for path in (ROOT / name).rglob("*"))
    built = {".pyc", ".pyd", ".so"}
    return [path for path in (*top, *deep) if path.is_file() and path.suffix not in built]


def setup(*lists: str, profile: str = FAST) -> None:
    """Bring `.venv` up to date: a wheel of `profile`, and the extras and groups of `lists`."""
    require_cargo()
    stamp = make_venv()
    wanted = digest([PYPROJECT, CONSTRAINTS])
    if stamp.get("requirements") != wanted:
        pip("install maturin", PYTHON, *requirements("build-system"))
        stamp = save({"python": stamp["python"], "requirements": wanted, "lists": ""})
    package = digest(package_files())
    wheel = next((WHEELS / profile).glob("tokenctx-*.whl"), None)
    if wheel is None or stamp.get(profile) != package:
        wheel = build(WHEELS / profile, profile)
        stamp = save({**stamp, profile: package, "installed": ""})
    if stamp.get("installed") != profile:
        pip(f"install {wheel.name}", PYTHON, "--no-deps", "--force-reinstall", wheel)
        stamp = save({**stamp, "installed": profile})
    missing = [name for name in lists if name not in stamp["lists"].split()]
    if missing:
        wanted_packages = sorted({text for name in missing for text in listed(name)})
        pip(f"install what {', '.join(missing)} lists", PYTHON, *wanted_packages)
        save({**stamp, "lists": " ".join([stamp["lists"], *missing])})
