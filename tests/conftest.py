"""What every test file shares: what counts text, recorded data, hypothesis profiles."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import reference
import tokenctx

IMPLEMENTATIONS: dict[str, Any] = {"rust": tokenctx._core, "reference": reference}
SHARED_DATA = Path(
    os.environ.get("TOKENCTX_SHARED") or Path(__file__).parents[2] / "shared" / "data"
)

os.environ["TOKENCTX_DATA"] = os.devnull  # no test sees, or installs, a bundle of the user's own
os.environ.pop("TOKENCTX_SETTINGS", None)
os.environ.pop("COLUMNS", None)  # the commands would follow it, and workers of xdist have it

# Speed is measured in benches/, so no test has a deadline.
settings.register_profile(
    "ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("ci"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(params=sorted(IMPLEMENTATIONS))
def implementation(request: pytest.FixtureRequest) -> Any:
    """What counts text: the package, then the plain Python reference, by the same names."""
    return IMPLEMENTATIONS[request.param]


@pytest.fixture
def estimator() -> tokenctx.HybridTokenEstimator:
    """An estimator that knows nothing."""
    return tokenctx.HybridTokenEstimator()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of recorded calls; it is beside the checkout in CI and never part of it."""
    if not SHARED_DATA.is_dir():
        pytest.skip("no recorded data: neither ../shared/data nor TOKENCTX_SHARED is a folder")
    return SHARED_DATA
