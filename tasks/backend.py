"""The build backend: maturin, after a word to whoever has no Rust."""

import shutil

import maturin
from maturin import *  # noqa: F403  # the other hooks of PEP 517

MISSING = (
    "tokenctx is built from source here and needs Rust, whose cargo is not on the PATH. Install it "
    "from https://rustup.rs (README.md says which version), or install a wheel: pip install "
    "--only-binary :all: tokenctx. pip takes the source where no wheel fits this machine."
)


def require_rust() -> None:
    if shutil.which("cargo") is None:
        raise SystemExit(MISSING)


def get_requires_for_build_wheel(config_settings: dict[str, str] | None = None) -> list[str]:
    """What maturin requires; without Rust, it would begin to fetch one without a word."""
    require_rust()
    required: list[str] = maturin.get_requires_for_build_wheel(config_settings)
    return required


def get_requires_for_build_editable(config_settings: dict[str, str] | None = None) -> list[str]:
    """The same of an editable installation."""
    require_rust()
    required: list[str] = maturin.get_requires_for_build_editable(config_settings)
    return required
