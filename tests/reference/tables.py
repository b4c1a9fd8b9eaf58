"""Tables of facts, read from their files: those of the package, and those that it is built of."""

from __future__ import annotations

import functools
import json
from importlib import resources
from pathlib import Path
from typing import Any, Final

CLAUDE: Final = Path(__file__).parents[2] / "src" / "claude"


@functools.cache
def package_table(name: str) -> Any:
    """The content of `data/<name>.json` of the installed package."""
    return json.loads(resources.files("tokenctx").joinpath(f"data/{name}.json").read_bytes())


@functools.cache
def claude_table(name: str) -> Any:
    """The content of `src/claude/<name>.json`, of which the core is built."""
    return json.loads((CLAUDE / f"{name}.json").read_bytes())
