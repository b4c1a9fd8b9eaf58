"""Where a text is cut before a vocabulary counts it that is not the model's own."""

from __future__ import annotations

import functools
import re
from typing import Final

CUTS: Final = {
    "digits": r"(?<=[0-9])(?=[0-9])",
    "newlines": r"(?<=[^\t-\r ])(?=[\r\n])",
    "words": r"(?<=[!-/:-@\[-`{-~\u2000-\u203f])(?=[A-Za-z])",
}
"""Places between two characters where no token goes across."""


def cut(text: str, names: tuple[str, ...]) -> list[str]:
    """The stretches of `text` between the cuts of these names."""
    return _pattern(names).split(text) if names else [text]


@functools.cache
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(CUTS[name] for name in names if name in CUTS) or "(?!)")
