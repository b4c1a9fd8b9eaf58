"""Input tokens of a chat request, known before it is sent."""

import os as _os
from types import ModuleType as _ModuleType
from typing import Any as _Any

from tokenctx._core import (
    __version__ as __version__,
)
from tokenctx._core import (
    _choose_simd_level,
    _debug_build,
    _read_files_by,
    _set_framework_reader,
)
from tokenctx._results.front import front as _front
from tokenctx._results.pricing import Installed as _Installed
from tokenctx._results.pricing import PriceList as _PriceList

__getattr__, __dir__ = _front(__name__, __file__)


# What lower rooms call of higher ones they are handed here; it is imported at the first call.


def _default_prices() -> _PriceList:
    from tokenctx.money.prices import default_prices

    _Installed.load = default_prices
    return default_prices()


def _without_framework_objects(body: _Any) -> _Any:
    from tokenctx.convert.frameworks import plain

    return plain(body)


def _vocabulary_files() -> _ModuleType:
    """The module that reads vocabulary files, which a program without any need not load."""
    from tokenctx.encodings import vocabularies

    return vocabularies


_Installed.load = _default_prices
_read_files_by(_vocabulary_files)
_set_framework_reader(_without_framework_objects)

if _debug_build:
    import warnings

    warnings.warn(
        "tokenctx._core is a debug build, many times slower; build with --release",
        RuntimeWarning,
        stacklevel=2,
    )

if _level := _os.environ.get("TOKENCTX_LEVEL"):
    _choose_simd_level(_level)
