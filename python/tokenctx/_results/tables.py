"""The tables of facts in `data/`, JSON files with their sources; or newer ones in their place.

Foreign JSON is read here too, so that who needs it needs no more.
"""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any, Final

DASHES: Final = str.maketrans("._", "--")
"""The tables write `claude-sonnet-4-5` where hosts write `claude-sonnet-4.5`."""
NEWER: Final[dict[str, Any]] = {}
"""Tables of a bundle, and limits of the user's own, that were taken over."""


def table_path(name: str) -> Path:
    """Where `data/<name>.json` is."""
    return Path(__file__).parents[1] / "data" / f"{name}.json"


def read_table(name: str) -> Any:
    """The content of `data/<name>.json`, read anew at every call, or the table of a bundle."""
    return NEWER[name] if name in NEWER else json.loads(table_path(name).read_bytes())


def read_json(content: bytes) -> tuple[Any, str]:
    """The value in `content` and nothing, or None and the reason, with the byte of the fault."""
    try:
        text = content.removeprefix(codecs.BOM_UTF8).decode()
        return json.loads(text), ""
    except UnicodeDecodeError as error:
        return None, f"not UTF-8 at byte {error.start}"
    except json.JSONDecodeError as error:
        return None, f"not JSON at byte {len(text[: error.pos].encode())}: {error.msg}"
    except (ValueError, RecursionError) as error:  # digits or depth beyond what Python takes
        return None, f"not JSON: {error}"
