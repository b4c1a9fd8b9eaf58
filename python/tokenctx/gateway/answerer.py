"""Who has answered: the model that was asked for, or another one in its place."""

from __future__ import annotations

from functools import lru_cache

from tokenctx.context.limits import model_limits
from tokenctx.money.prices import plain_model


@lru_cache(maxsize=1024)
def is_another(asked: str, told: str) -> bool:
    """True if the model that an answer names is surely not the one that was asked for.

    A name that nobody knows, such as an alias, may stand for any, and so may a longer or shorter
    form of the same name.
    """
    one, other = plain_model(asked), plain_model(told)
    if one.startswith(other) or other.startswith(one):
        return False
    return all(model_limits(name).window_tokens for name in (one, other))
