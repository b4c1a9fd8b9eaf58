"""Whole processes: what `import tokenctx` costs beside an empty program and `import asyncio`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

# `import asyncio` stands in as the reference: a module of the standard library that gateways load.
PROGRAMS = {"rust": "import tokenctx", "reference": "import asyncio", "empty": "pass"}


@pytest.mark.benchmark(group="import-package")
@pytest.mark.parametrize("implementation", PROGRAMS)
def test_import(benchmark: BenchmarkFixture, implementation: str) -> None:
    command = [sys.executable, "-I", "-c", PROGRAMS[implementation]]
    benchmark(subprocess.run, command, check=True)
