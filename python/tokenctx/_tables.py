"""The tables of facts in `data/`, JSON files with their sources; or newer ones in their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

DASHES: Final = str.maketrans("._", "--")
"""The tables write `claude-sonnet-4-5` where hosts write `claude-sonnet-4.5`."""
NEWER: Final[dict[str, Any]] = {}
"""Tables of a bundle that `load_data` has taken over."""


def table_path(name: str) -> Path:
    """Where `data/<name>.json` is."""
    return Path(__file__).parent.joinpath("data", f"{name}.json")


def read_table(name: str) -> Any:
    """The content of `data/<name>.json`, read anew at every call, or the table of a bundle."""
    return NEWER[name] if name in NEWER else json.loads(table_path(name).read_bytes())
