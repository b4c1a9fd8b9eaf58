"""`litellm.token_counter` by this package's counts, until it is taken back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import litellm
import litellm.litellm_core_utils.token_counter
import litellm.utils

from tokenctx import HybridTokenEstimator, encoding_for_model

if TYPE_CHECKING:
    from types import ModuleType, TracebackType

INNER: Final = litellm.litellm_core_utils.token_counter
