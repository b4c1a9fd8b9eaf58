"""The Rust core of tokenctx."""

from typing import Final

__all__ = ["__version__", "_debug_build"]

__version__: Final[str]
"""Version of the crate, which is the version of the package."""

_debug_build: Final[bool]
"""Whether the core was compiled without optimisation."""
