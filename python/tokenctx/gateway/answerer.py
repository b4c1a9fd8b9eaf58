"""Who has answered: the model that was asked for, or another one in its place."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from tokenctx.context.limits import model_limits
from tokenctx.money.prices import plain_model

_EDITION: Final = re.compile(
    r"(?:[-@:_.](?:latest|preview|exp|experimental|v\d+|\d{4,}(?:-\d\d){0,2}|\d\d-\d{2,4}|0\d\d))*"
)
"""Behind the name of a model, what tells an edition of it: a day, a number of a release, a word.

A size or a version of one digit or two (`gpt-4o-mini`, `claude-sonnet-4-5`) is another model.
"""


@lru_cache(maxsize=1024)
def is_another(asked: str, told: str) -> bool:
    """True if the model that an answer names is surely not the one that was asked for.

    A name that nobody knows, such as an alias, may stand for any; an edition of a model is that
    model.
    """
    one, other = sorted((plain_model(asked), plain_model(told)), key=len)
    if other.startswith(one) and _EDITION.fullmatch(other, len(one)):
        return False
    return all(model_limits(name).window_tokens for name in (one, other))
