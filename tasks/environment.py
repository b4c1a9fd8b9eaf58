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
    run,
    save,
)

WHEELS = ROOT / "target" / "dev-wheels"


def package_files() -> list[Path]:
    """Every file that the wheel is made of."""
    names = ("Cargo.toml", "Cargo.lock", "build.rs", "README.md", "LICENSE", "tasks/build.py")
    deep = (path for name in ("src", "python", "licenses") for path in (ROOT / name).rglob("*"))
    built = {".pyc", ".pyd", ".so"}
    files = (PYPROJECT, *(ROOT / name for name in names), *deep)
    return [path for path in files if path.is_file() and path.suffix not in built]


def built_wheel(profile: str, target: str = "") -> Path:
    """The wheel of `profile` for `target`, built anew if a file that it is made of has changed."""
    folder = WHEELS / (target or profile)
    stamp, package = WHEELS / f"{folder.name}.stamp", digest(package_files())
    wheel = next(folder.glob("tokenctx-*.whl"), None)
    if wheel is None or not stamp.exists() or stamp.read_text("utf-8") != package:
        stamp.unlink(missing_ok=True)
        wheel = build(folder, profile, target)
        stamp.write_text(package, "utf-8")
    return wheel


def setup(*lists: str, profile: str = FAST) -> None:
    """Bring `.venv` up to date: a wheel of `profile`, and the extras and groups of `lists`."""
    require_cargo()
    stamp = make_venv()
    wanted = digest([PYPROJECT, CONSTRAINTS])
    if stamp.get("requirements") != wanted:
        pip("install maturin", PYTHON, *requirements("build-system"))
        stamp = save({"python": stamp["python"], "requirements": wanted, "lists": ""})
    wheel = built_wheel(profile)
    if stamp.get("installed") != (mark := f"{profile} {digest([wheel])}"):
        pip(f"install {wheel.name}", PYTHON, "--no-deps", "--force-reinstall", wheel)
        stamp = save({**stamp, "installed": mark})
    missing = [name for name in lists if name not in stamp["lists"].split()]
    if missing:
        packages = sorted({text for name in missing for text in listed(name)})
        pip(f"install what {', '.join(missing)} lists", PYTHON, *packages)
        save({**stamp, "lists": " ".join([stamp["lists"], *missing])})


def newest(*lists: str) -> None:
    """Install the newest releases of what `lists` name, until the next step wants the locked."""
    wanted = sorted({text for name in lists for text in listed(name)})
    install = (PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run("install the newest releases", *install, "--upgrade", *wanted, advice="pip", quiet=True)
    save({**make_venv(), "lists": ""})
