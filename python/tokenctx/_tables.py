"""The tables of facts in `data/`: each a JSON file with its sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

DASHES: Final = str.maketrans("._", "--")
"""The tables write `claude-sonnet-4-5` where hosts write `claude-sonnet-4.5`."""


def table_path(name: str) -> Path:
    """Where `data/<name>.json` is."""
    return Path(__file__).parent.joinpath("data", f"{name}.json")


def read_table(name: str) -> Any:
    """The content of `data/<name>.json`, read anew at every call."""
    return json.loads(table_path(name).read_bytes())
