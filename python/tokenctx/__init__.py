"""Input tokens of a chat request, known before it is sent."""

from tokenctx._core import __version__, _debug_build

__all__ = ["__version__"]

if _debug_build:
    import warnings

    warnings.warn(
        "tokenctx._core is a debug build, many times slower; build with --release",
        RuntimeWarning,
        stacklevel=2,
    )
