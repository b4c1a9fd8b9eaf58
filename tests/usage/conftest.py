"""What the tests of usage share."""

from __future__ import annotations

from typing import Any

import pytest

import tokenctx


@pytest.fixture
def scaler() -> Any:
    return tokenctx.ContextWindowScaler(128_000)
